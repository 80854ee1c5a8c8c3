"""Small decoders for the operators that write text, and the models of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
F4, WORDS, HEADS, SIZE = np.float32, 17, 2, 4
WIDTH, FEATURES = HEADS * SIZE, 5
PAD, END, START = 1, 0, 2
_NAMES = {
    "GreedySearch": "input_ids max_length min_length repetition_penalty vocab_mask "
    "prefix_vocab_mask attention_mask",
    "Sampling": "input_ids max_length min_length repetition_penalty vocab_mask prefix_vocab_mask "
    "attention_mask presence_mask seed",
    "BeamSearch": "input_ids max_length min_length num_beams num_return_sequences length_penalty "
    "repetition_penalty vocab_mask prefix_vocab_mask attention_mask decoder_input_ids "
    "logits_processor",
}
_NAMES["WhisperBeamSearch"] = f"{_NAMES['BeamSearch']} kept_heads more_ids temperature"


def info(name: str, element: int, *shape: int | str) -> Any:
    return helper.make_tensor_value_info(name, element, shape)


def weights(seed: int, shapes: Mapping[str, tuple[int, ...]], scale: float) -> list[Any]:
    draw = np.random.default_rng(seed)
    made = {n: (draw.standard_normal(s) * scale).astype(F4) for n, s in shapes.items()}
    return [numpy_helper.from_array(a, n) for n, a in made.items()]


def like_gpt2(seed: int, layers: int = 1) -> dict[str, Any]:
    """A decoder whose past is [2, batch, heads, steps, size]."""
    node = helper.make_node
    parts: dict[str, tuple[int, ...]] = {"words": (WORDS, WIDTH), "places": (32, WIDTH)}
    nodes = [
        node("Gather", ["words", "input_ids"], ["word"]),
        node("Gather", ["places", "position_ids"], ["place"]),
        node("Add", ["word", "place"], ["h0"]),
    ]
    for k in range(layers):
        parts |= {f"w{k}": (WIDTH, 3 * WIDTH), f"b{k}": (3 * WIDTH,), f"o{k}": (WIDTH, WIDTH)}
        inputs = [f"h{k}", f"w{k}", f"b{k}", "attention_mask", f"past_{k}"]
        options: dict[str, Any] = {"num_heads": HEADS, "unidirectional": 1}
        nodes += [
            node("Attention", inputs, [f"a{k}", f"present_{k}"], domain="com.microsoft", **options),
            node("MatMul", [f"a{k}", f"o{k}"], [f"m{k}"]),
            node("Add", [f"h{k}", f"m{k}"], [f"h{k + 1}"]),
        ]
    parts["head"] = (WIDTH, WORDS)
    nodes.append(node("MatMul", [f"h{layers}", "head"], ["logits"]))
    whole, real = TensorProto.INT32, TensorProto.FLOAT
    past = [info(f"past_{k}", real, 2, "b", HEADS, "p", SIZE) for k in range(layers)]
    present = [info(f"present_{k}", real, 2, "b", HEADS, "t", SIZE) for k in range(layers)]
    names = {"input_ids": "s", "position_ids": "s", "attention_mask": "t"}
    inputs = [info(n, whole, "b", steps) for n, steps in names.items()]
    logits = info("logits", real, "b", "s", WORDS)
    args = (nodes, "decoder", [*inputs, *past], [logits, *present], weights(seed, parts, 0.7))
    return {"decoder": helper.make_graph(*args)}


def _heads(x: str, w: str, out: str) -> list[Any]:
    return [
        helper.make_node("MatMul", [x, w], [f"{out}_flat"]),
        helper.make_node("Reshape", [f"{out}_flat", "split"], [f"{out}_split"]),
        helper.make_node("Transpose", [f"{out}_split"], [out], perm=[0, 2, 1, 3]),
    ]


def _attended(q: str, k: str, v: str, out: str, mask: str) -> list[Any]:
    node = helper.make_node
    return [
        node("Transpose", [k], [f"{out}_turned"], perm=[0, 1, 3, 2]),
        node("MatMul", [q, f"{out}_turned"], [f"{out}_scores"]),
        node("Add", [f"{out}_scores", mask], [f"{out}_shown"]),
        node("Softmax", [f"{out}_shown"], [f"{out}_share"], axis=-1),
        node("MatMul", [f"{out}_share", v], [f"{out}_heads"]),
        node("Transpose", [f"{out}_heads"], [f"{out}_back"], perm=[0, 2, 1, 3]),
        node("Reshape", [f"{out}_back", "join"], [out]),
    ]


def like_t5(seed: int, form: str = "") -> dict[str, Any]:
    """An encoder and a decoder.

    The decoder takes the encoder's states in the form "hidden", all tokens so far in the form
    "sequence"; in the form "split" the encoder leaves the first token to it. In the form "whisper"
    the encoder takes features, and there is no mask.
    """
    node, whole, real = helper.make_node, TensorProto.INT32, TensorProto.FLOAT
    square = (WIDTH, WIDTH)
    shapes = {"words": (WORDS, WIDTH), "head": (WIDTH, WORDS), **dict.fromkeys("qkvabc", square)}
    shapes["sounds"], listens = (FEATURES, WIDTH), form == "whisper"
    numbers = {"split": [0, 0, HEADS, SIZE], "join": [0, 0, WIDTH], "middle": [1, 2], "first": [1]}
    numbers |= {"last": [-1], "end": [1 << 40]}
    held = weights(seed, shapes, 0.7)
    held += [numpy_helper.from_array(np.array(v), n) for n, v in numbers.items()]
    held += [
        numpy_helper.from_array(np.array(v, F4), n)
        for n, v in (("one", 1), ("far", -1e4), ("no", 0))
    ]
    mask = [
        node("Cast", ["encoder_attention_mask"], ["shown"], to=real),
        node("Sub", ["one", "shown"], ["hidden"]),
        node("Mul", ["hidden", "far"], ["flat_mask"]),
        node("Unsqueeze", ["flat_mask", "middle"], ["mask"]),
    ]

    mask, cover = ([], "no") if listens else (mask, "mask")

    def step(cross: str, past: bool) -> list[Any]:
        made = [node("Gather", ["words", "token"], ["x"])]
        for name in ("key", "value"):
            made += _heads("x", name[0], f"new_{name}")
            new, out = f"new_{name}", f"present_{name}_self_0"
            old = [node("Concat", [f"past_{name}_self_0", new], [out], axis=2)]
            made += old if past else [node("Identity", [new], [out])]
        made += _heads("x", "q", "query")
        made += _attended("query", "present_key_self_0", "present_value_self_0", "own", "no")
        made += [node("Add", ["x", "own"], ["y"]), *_heads("y", "a", "other")]
        made += _attended("other", f"{cross}_key_cross_0", f"{cross}_value_cross_0", "far_", cover)
        return [*made, node("Add", ["y", "far_"], ["z"]), node("MatMul", ["z", "head"], ["logits"])]

    def cache(form: str, steps: str) -> list[Any]:
        names = (form.format(name) for name in ("key", "value"))
        return [info(n, real, "b", HEADS, steps, SIZE) for n in names]

    ids = [info(f"encoder_{n}", whole, "b", "e") for n in ("input_ids", "attention_mask")]
    states = [node("Gather", ["words", "encoder_input_ids"], ["encoder_hidden_states"])]
    if listens:
        ids = [info("encoder_input_ids", real, "b", FEATURES, "e")]
        states = [
            node("Transpose", ["encoder_input_ids"], ["frames"], perm=[0, 2, 1]),
            node("MatMul", ["frames", "sounds"], ["encoder_hidden_states"]),
        ]
    nodes = [*states, *_heads("encoder_hidden_states", "b", "present_key_cross_0")]
    nodes += _heads("encoder_hidden_states", "c", "present_value_cross_0")
    hidden = info("encoder_hidden_states", real, "b", "e", WIDTH)
    logits = info("logits", real, "b", "s" if listens else 1, WORDS)
    given, left = ids, cache("present_{}_cross_0", "e")
    own = cache("present_{}_self_0", "t")
    if form != "split":
        nodes += [
            node("Identity", ["decoder_input_ids"], ["token"]),
            *mask,
            *step("present", False),
        ]
        given = [*ids, info("decoder_input_ids", whole, "b", "s" if listens else 1)]
        left = [logits, hidden, *own, *left]
    encoder = helper.make_graph(nodes, "encoder", given, left, held)
    many = form == "sequence"
    cuts = ["input_ids", "last", "end", "first"]
    token = node("Slice", cuts, ["token"]) if many else node("Identity", cuts[:1], ["token"])
    taken = [info("input_ids", whole, "b", "s" if many else 1), *ids[1:]]
    taken += [hidden] if form == "hidden" else []
    taken += [*cache("past_{}_self_0", "p"), *cache("past_{}_cross_0", "e")]
    nodes = [token, *mask, *step("past", True)]
    decoder = helper.make_graph(nodes, "decoder", taken, [logits, *own], held)
    return {"encoder": encoder, "decoder": decoder}


def model(
    op: str, feed: Mapping[str, Array], known: Sequence[str] = (), outputs: int = 1, **options: Any
) -> bytes:
    """A model of one operator; the inputs of `known` are constants."""
    names = _NAMES[op].split()
    last = max(map(names.index, feed))
    inputs = [n if n in feed else "" for n in names[: last + 1]]
    outs = ["sequences", "sequences_scores", "scores"][:outputs]
    own = {"domain": "com.microsoft", "pad_token_id": PAD, "eos_token_id": END, **options}
    node = helper.make_node(op, inputs, outs, "it", **own)
    graph = helper.make_graph(
        [node],
        "search",
        [
            info(n, helper.np_dtype_to_tensor_dtype(a.dtype), *_free(n, a.shape))
            for n, a in feed.items()
            if n not in known
        ],
        [helper.make_tensor_value_info(o, TensorProto.FLOAT if k else TensorProto.INT32, None)
         for k, o in enumerate(outs)],
        [numpy_helper.from_array(feed[n], n) for n in known],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 14), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return bytes(made.SerializeToString())


def _free(name: str, shape: tuple[int, ...]) -> tuple[int | str, ...]:
    return ("batch", "length") if name == "input_ids" and len(shape) == 2 else shape
