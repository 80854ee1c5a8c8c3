"""Mixtures of experts, and what models of linear attention have, against NumPy and ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.ops.microsoft import (
    F4,
    Array,
    Case,
    check,
    check_runtime,
    half,
    in_forms,
    integers,
    random,
)
from tests.ops.test_microsoft_more import numbers

from minicc.api.session import InferenceSession
from minicc.errors import UserError

EXPERTS, WIDTH, INNER, TOKENS = 4, 32, 16, 7
FREE = {TOKENS: "tokens"}


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)), F4)


def activated(x: Array, name: str, limit: float) -> Array:
    if name == "relu":
        return np.maximum(x, 0)
    if name == "silu":
        return x * sigmoid(x)
    if name == "gelu":
        return np.asarray(x / 2 * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3))), F4)
    if name == "identity":
        return x
    gate, linear = np.minimum(x[0::2], limit), np.clip(x[1::2], -limit, limit)
    return gate * sigmoid(F4(1.5) * gate) * (linear + F4(0.5))


def mixed(x: Array, router: Array, share: Array, layers: Any, options: dict[str, Any]) -> Array:
    (w1, b1), (w2, b2) = layers
    k, name = options["k"], options["activation_type"]
    out = np.zeros_like(x)
    for t, row in enumerate(x):
        best = np.argsort(-router[t], kind="stable")[:k]
        total = share[t, best].sum() if options["normalize_routing_weights"] else 1
        for e in best:
            inner = activated(w1[e] @ row + b1[e], name, options.get("swiglu_limit", np.inf))
            out[t] += share[t, e] / total * (w2[e] @ inner + b2[e])
    return out


def quantized(
    rows: int, depth: int, bits: int, block: int, zeros: bool
) -> tuple[Array, Array, Array | None, Array]:
    """Packed weights, their scales and zero points, and what they stand for."""
    packed = integers(EXPERTS, rows, depth * bits // 8, seed=9)
    shape = (EXPERTS, rows, depth // block) if block else (EXPERTS, rows)
    scales = random(*shape, seed=10, low=0.001, high=0.004)
    points = integers(*shape[:-1], -(-shape[-1] * bits // 8), seed=11) if zeros else None
    at: Any = F4(1 << (bits - 1))
    if points is not None:
        at = numbers(points, bits)[..., : shape[-1]]
        at = at[..., None] if not block else np.repeat(at, block, -1)
    factor = scales[..., None] if not block else np.repeat(scales, block, -1)
    return packed, scales, points, ((numbers(packed, bits) - at) * factor).astype(F4)


def mixtures() -> Iterator[tuple[str, Case]]:
    x, router = random(TOKENS, WIDTH), random(TOKENS, EXPERTS, seed=4)
    power = np.exp(router)
    share = power / power.sum(-1, keepdims=True)
    kinds = [("relu", 1, 0), ("silu", 2, 1), ("gelu", 2, 0), ("identity", 3, 1), ("swiglu", 2, 1)]
    for name, k, normal in kinds:
        options: dict[str, Any] = {"k": k, "activation_type": name}
        options["normalize_routing_weights"] = normal
        rows = INNER
        if name == "swiglu":
            rows *= 2
            options |= {"swiglu_fusion": 1, "activation_alpha": 1.5, "activation_beta": 0.5}
            options["swiglu_limit"] = 1.25
        whole = {**options, "normalize_routing_weights": 1}
        b1, b2 = random(EXPERTS, rows, seed=7), random(EXPERTS, WIDTH, seed=8)
        w1 = random(EXPERTS, rows, WIDTH, seed=5, low=-0.3, high=0.3)
        w2 = random(EXPERTS, WIDTH, INNER, seed=6, low=-0.3, high=0.3)
        want = mixed(x, router, share, ((w1, b1), (w2, b2)), options)
        inputs: list[Array | None] = [x, router, w1, b1, w2, b2]
        yield name, Case("com.microsoft.MoE", inputs, [want], options, (2, 3, 4, 5), FREE, 1e-4)
        for bits, block, zeros in ((4, 0, False), (4, 16, True), (8, 0, True), (2, 16, False)):
            (q1, s1, z1, e1), (q2, s2, z2, e2) = (
                quantized(n, depth, bits, block, zeros)
                for n, depth in ((rows, WIDTH), (WIDTH, INNER))
            )
            weights = np.abs(router) if zeros else None
            given, how = (weights, options) if weights is not None else (share, whole)
            want = mixed(x, router, given, ((e1, b1), (e2, b2)), how)
            inputs = [x, router, q1, s1, b1, q2, s2, b2, None, None, None, z1, z2, None, weights]
            more = {"expert_weight_bits": bits} | ({"block_size": block} if block else {})
            constants, what = (2, 3, 4, 5, 6, 7, 11, 12), options | more
            case = Case("com.microsoft.QMoE", inputs, [want], what, constants, FREE, 1e-3)
            yield f"{name} of {bits} bits by {block}", case


def others() -> Iterator[tuple[str, Case]]:
    op, heads = "com.microsoft.LinearAttentionGate", 5
    a, b = random(2, 3, heads), random(2, 3, heads, seed=4)
    bias, scale = random(heads, seed=5), random(heads, seed=6, low=-2, high=0)
    wants: list[Any] = [scale * np.log1p(np.exp(a + bias)), sigmoid(b)]
    free = {2: "batch", 3: "steps"}
    yield "gates", Case(op, [a, bias, scale, b], wants, {}, (1, 2), free)
    yield "a gate alone", Case(op, [a, bias, scale], wants[:1], {}, (1, 2), free)
    halves = [np.asarray(half(w), np.float16) for w in wants]
    yield (
        "gates of halves",
        Case(op, [half(a), bias, scale, half(b)], halves, {}, (1, 2), free, 3e-3, runtime=False),
    )


def convolutions() -> Iterator[tuple[str, Case]]:
    op, channels, steps = "com.microsoft.CausalConvWithState", 6, 5
    w, b = random(channels, 1, 3, seed=4), random(channels, seed=5)
    for apart, given, last in ((1, True, False), (2, True, True), (2, False, False)):
        reach = 2 * apart
        x = random(2, channels, steps)
        past = random(2, channels, reach, seed=6) if given else np.zeros((2, channels, reach), F4)
        whole = np.concatenate([past, x], 2)
        taps = [whole[:, :, k * apart : k * apart + steps] * w[:, 0, k, None] for k in range(3)]
        out = sum(taps, b[:, None])
        wants: list[Any] = [out * sigmoid(out), whole[:, :, -reach:]]
        options: dict[str, Any] = {"activation": "silu", "dilation": apart}
        inputs = [x, w, b, past if given else None]
        if last:
            options["channels_last"] = 1
            inputs[0], inputs[3], *wants = (
                np.ascontiguousarray(v.transpose(0, 2, 1)).reshape(2, -1, 2, 3)
                for v in (x, past, *wants)
            )
        # of which free extents have names, where no other extent is the same
        free = {steps: "steps"} if not last else {}
        title = f"convolution {apart} apart{' from a state' if given else ''}"
        yield title, Case(op, inputs, wants, options, (1, 2), free)


def attention(queries: int, keys: int) -> Iterator[tuple[str, Case]]:
    op, heads, deep, width, steps = "com.microsoft.LinearAttention", 2, 4, 3, 5
    most = max(queries, heads)
    q, k = random(1, steps, queries * deep), random(1, steps, keys * deep, seed=4)
    v, beta = random(1, steps, heads * width, seed=5), random(1, steps, heads, seed=6, low=0)
    state, decay = random(1, heads, deep, width, seed=7), random(1, steps, heads, seed=8, high=0)
    out = np.zeros((steps, most, width), F4)
    held = state[0].copy()
    for t in range(steps):
        for h in range(heads):
            key = k[0, t].reshape(keys, deep)[h * keys // heads]
            value = v[0, t].reshape(heads, width)[h]
            held[h] *= np.exp(decay[0, t, h])
            held[h] += beta[0, t, h] * np.outer(key, value - held[h].T @ key)
        for h in range(most):
            query = q[0, t].reshape(queries, deep)[h * queries // most]
            out[t, h] = query @ held[h * heads // most] / np.sqrt(F4(deep))
    options = {"q_num_heads": queries, "kv_num_heads": heads, "update_rule": "gated_delta"}
    inputs = [q, k, v, state, decay, beta]
    wants = [out.reshape(1, steps, -1), held[None]]
    case = Case(op, inputs, wants, options, (), {steps: "steps"}, 1e-4)
    few = (" of few queries" if queries < heads else "") + (" and keys" if keys < heads else "")
    yield f"linear attention{few}", case


def turned() -> Iterator[tuple[str, Case]]:
    op, heads, size, steps = "com.microsoft.MRotaryEmbedding", 2, 12, 5
    x, half_ = random(2, steps, heads * size), size // 2
    angles = random(9, half_, seed=4, low=0, high=6)
    cosines, sines = np.cos(angles), np.sin(angles)
    places = integers(3, 2, steps, dtype=np.int64, high=9)
    for layout, sections in ((0, (3, 1, 2)), (1, (2, 2, 2)), (1, (4, 1, 1))):
        kind = np.repeat(np.arange(3), sections)
        if layout:
            kind = np.zeros(half_, int)
            for k in (1, 2):
                kind[k : sections[k] * 3 : 3] = k
        at = places[kind].transpose(1, 2, 0)  # [batch, steps, angles]
        c, s = (table[at, np.arange(half_)][:, :, None] for table in (cosines, sines))
        low, high = np.split(x.reshape(2, steps, heads, size), 2, axis=-1)
        want = np.concatenate([low * c - high * s, high * c + low * s], -1)
        options = {"mrope_section": sections, "mrope_layout": layout, "num_heads": heads}
        inputs = [x, places, cosines.astype(F4), sines.astype(F4)]
        case = Case(op, inputs, [want.reshape(x.shape)], options, (2, 3), {steps: "steps"})
        yield f"three positions by {layout} of {sections}", case


LINEAR = [case for heads in ((4, 2), (1, 2), (1, 1)) for case in attention(*heads)]
CASES = dict([*mixtures(), *others(), *convolutions(), *LINEAR, *turned()])


@in_forms(CASES)
def test_against_numpy(case: Case, free: bool) -> None:
    check(case, free)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_against_onnx_runtime(case: Case) -> None:
    check_runtime(case)


@pytest.mark.parametrize("opset", [7, 8, 13])
def test_a_body_is_of_its_own_opset(opset: int) -> None:
    """A Scan within it is not one of the model's opset, which may be another operator."""
    case = CASES["linear attention"]
    model = onnx.load_model_from_string(case.model(free=False))
    model.opset_import[0].version = opset
    got = InferenceSession(model.SerializeToString(), threads=1).run(None, case.fed)
    for have, want in zip(got, case.wants, strict=True):
        np.testing.assert_allclose(have, want, atol=case.error)


@pytest.mark.parametrize("free", [False, True])
def test_states_of_another_length(free: bool) -> None:
    """As many steps of before as the taps reach back are wanted, whether they are known or not."""
    extents = {"x": (1, 2, 5), "w": (2, 1, 1), "past": (1, 2, 1)}
    node = helper.make_node(
        "CausalConvWithState", ["x", "w", "", "past"], ["y", "now"], domain="com.microsoft"
    )
    named = {n: [f"{n}{k}" if free else e for k, e in enumerate(s)] for n, s in extents.items()}
    kind = onnx.TensorProto.FLOAT
    inputs = [helper.make_tensor_value_info(n, kind, s) for n, s in named.items()]
    outputs = [helper.make_tensor_value_info(n, kind, None) for n in ("y", "now")]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "states", inputs, outputs)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    feeds = {n: np.zeros(s, F4) for n, s in extents.items()}
    with pytest.raises(UserError, match=r"CausalConvWithState|past"):
        InferenceSession(model, threads=1).run(None, feeds)


def test_one_head_of_keys_where_widths_are_free() -> None:
    heads, deep, width = 4, 4, 8
    q, k, v = random(1, 1, heads * deep), random(1, 1, deep, seed=4), random(1, 1, heads * width)
    state = random(1, heads, deep, width, seed=6)
    held = state + k.reshape(1, 1, deep, 1) * v.reshape(1, heads, 1, width)
    out = np.einsum("hd,hdw->hw", q.reshape(heads, deep), held[0]) / np.sqrt(F4(deep))
    options = {"q_num_heads": heads, "kv_num_heads": heads, "update_rule": "linear"}
    wants = [out.reshape(1, 1, -1), held]
    widths = {deep: "keys", heads * deep: "queries", heads * width: "values"}
    op = "com.microsoft.LinearAttention"
    check(Case(op, [q, k, v, state], wants, options, (3,), widths, 1e-4), free=True)


def test_scales_of_as_many_blocks_as_there_are() -> None:
    x, router = random(TOKENS, WIDTH), random(TOKENS, EXPERTS, seed=4)
    power = np.exp(router)
    options: dict[str, Any] = {"k": 2, "activation_type": "relu", "normalize_routing_weights": 1}
    (q1, s1, _, e1), (q2, s2, _, e2) = (
        quantized(n, depth, 4, 16, False) for n, depth in ((INNER, WIDTH), (WIDTH, INNER))
    )
    b1, b2 = random(EXPERTS, INNER, seed=7), random(EXPERTS, WIDTH, seed=8)
    want = mixed(x, router, power / power.sum(-1, keepdims=True), ((e1, b1), (e2, b2)), options)
    inputs: list[Array | None] = [x, router, q1, s1, b1, q2, s2, b2]
    blocks = {WIDTH // 16: "blocks"}
    more = options | {"expert_weight_bits": 4, "block_size": 16}
    check(Case("com.microsoft.QMoE", inputs, [want], more, (2, 4, 5, 7), blocks, 1e-3), free=True)
