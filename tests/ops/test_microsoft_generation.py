"""Greedy search, beam search and sampling: against searches in NumPy, and ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from tests.ops.generation import (
    END,
    FEATURES,
    PAD,
    START,
    WORDS,
    Array,
    info,
    like_gpt2,
    like_t5,
    model,
)
from tests.sweeps import part

from minicc.api.session import InferenceSession
from minicc.errors import MiniccError, UserError
from minicc.options import Options

F4, LOWEST = np.float32, np.finfo(np.float32).min
SEEDS = range(4)
FORMS = [(seed, known) for known in (False, True) for seed in SEEDS]


def numbers(*values: int) -> Array:
    return np.array(values, np.int32)


def prompts(seed: int, batch: int = 3, length: int = 4) -> Array:
    made = np.random.default_rng(seed).integers(2, WORDS, (batch, length)).astype(np.int32)
    made[0, :2] = PAD
    return made


def scorer(seed: int) -> Callable[[Array, int], Array]:
    """What the decoder says of sequences, without a past."""
    graph = like_gpt2(seed)["decoder"]
    opsets = [helper.make_opsetid("", 14), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = InferenceSession(made.SerializeToString(), threads=1)

    def run(sequences: Array, start: int) -> Array:
        shown = np.ones(sequences.shape, np.int32)
        shown[:, :start] = sequences[:, :start] != PAD
        places = np.where(shown > 0, shown.cumsum(1) - 1, 0).astype(np.int32)
        past = np.zeros((2, len(sequences), 2, 0, 4), F4)
        feed = {"input_ids": sequences, "position_ids": places, "attention_mask": shown}
        return np.asarray(session.run(["logits"], {**feed, "past_0": past})[0])[:, -1]

    return run


def processed(scores: Array, sequences: Array, feed: dict[str, Array], size: int) -> Array:
    """Scores after what speaks against tokens."""
    scores = scores.copy()
    penalty = float(feed["repetition_penalty"][0])
    for row, sequence in zip(scores, sequences.tolist(), strict=True):
        for word in set(sequence):
            row[word] = row[word] * penalty if row[word] < 0 else row[word] / penalty
        for k in range(len(sequence) - size + 1 if size else 0):
            if sequence[k : k + size - 1] == sequence[len(sequence) - size + 1 :]:
                row[sequence[k + size - 1]] = LOWEST
        if "vocab_mask" in feed:
            row[feed["vocab_mask"] == 0] = LOWEST
        if len(sequence) < feed["min_length"][0]:
            row[END] = LOWEST
    return scores


def greedily(seed: int, feed: dict[str, Array], size: int) -> Array:
    score, found = scorer(seed), feed["input_ids"]
    start, ended = found.shape[1], np.zeros(len(found), bool)
    while found.shape[1] < feed["max_length"][0]:
        best = processed(score(found, start), found, feed, size).argmax(1)
        ended |= best == END
        token = np.where(ended, PAD, best).astype(np.int32)
        found = np.concatenate([found, token[:, None]], 1)
    return found


def beams(seed: int, feed: dict[str, Array], size: int) -> tuple[Array, Array]:
    """The best sequences and their scores, each prompt for itself."""
    score, most, count = scorer(seed), int(feed["max_length"][0]), int(feed["num_beams"][0])
    power, returned = float(feed["length_penalty"][0]), int(feed["num_return_sequences"][0])
    outs, points = [], []
    for prompt in feed["input_ids"]:
        found, best = np.repeat(prompt[None], count, 0), np.full(count, -1e9, F4)
        best[0], held, start, done = 0, [], len(prompt), False
        while found.shape[1] < most and not done:
            logits = score(found, start)
            likely = logits - np.log(np.exp(logits).sum(1, keepdims=True))
            scores = processed(likely, found, feed, size) + best[:, None]
            order = np.argsort(-scores.ravel(), kind="stable")[: 2 * count]
            length, go = found.shape[1], []
            for k, index in enumerate(order):
                if index % WORDS != END:
                    go.append(index)
                elif k < count:
                    held.append((scores.ravel()[index] / length**power, found[index // WORDS]))
            held = sorted(held, key=lambda h: -h[0])[:count]
            top = scores.ravel()[order[0]] / length**power
            done = len(held) == count and held[-1][0] >= top
            kept = np.array(go[:count])
            best = scores.ravel()[kept]
            token = (kept % WORDS).astype(np.int32)
            found = np.concatenate([found[kept // WORDS], token[:, None]], 1)
        if not done:
            held += [(b / most**power, s) for b, s in zip(best, found, strict=True)]
        held = sorted(held, key=lambda h: -h[0])[:returned]
        outs.append([np.pad(s, (0, most - len(s)), constant_values=PAD) for _, s in held])
        points.append([h[0] for h in held])
    return np.array(outs, np.int32), np.array(points, F4)


def feed_of(seed: int, op: str) -> tuple[dict[str, Array], dict[str, Any]]:
    """What a search is given, and its attributes."""
    draw = np.random.default_rng(seed)
    feed = {"input_ids": prompts(seed), "max_length": numbers(9 + seed), "min_length": numbers(6)}
    feed["repetition_penalty"] = np.array([(1.0, 1.3, 0.8, 1.1)[seed]], F4)
    if op == "BeamSearch":
        feed |= {"num_beams": numbers(1 + seed), "num_return_sequences": numbers(1 + seed // 2)}
        feed["length_penalty"] = np.array([(1.0, 0.5, 2.0, 0.0)[seed]], F4)
    if seed % 2:
        feed["vocab_mask"] = draw.integers(0, 4, WORDS).clip(0, 1).astype(np.int32)
    return feed, {"no_repeat_ngram_size": (0, 2, 1, 3)[seed]}


@pytest.mark.parametrize(("seed", "known"), part(FORMS, 12))
def test_greedy_search(seed: int, known: bool) -> None:
    feed, options = feed_of(seed, "GreedySearch")
    constants = [n for n in feed if n != "input_ids"] if known else []
    session = InferenceSession(
        model("GreedySearch", feed, constants, **like_gpt2(seed), **options), threads=1
    )
    given = {n: a for n, a in feed.items() if n not in constants}
    wanted = greedily(seed, feed, options["no_repeat_ngram_size"])
    np.testing.assert_array_equal(session.run(None, given)[0], wanted)
    longer = {**feed, "input_ids": prompts(seed + 9, 2, 6)}
    wanted = greedily(seed, longer, options["no_repeat_ngram_size"])
    given = {n: a for n, a in longer.items() if n not in constants}
    np.testing.assert_array_equal(session.run(None, given)[0], wanted)


@pytest.mark.parametrize(("seed", "known"), part(FORMS, 12))
def test_beam_search(seed: int, known: bool) -> None:
    feed, options = feed_of(seed, "BeamSearch")
    constants = [n for n in feed if n != "input_ids"] if known else []
    session = InferenceSession(
        model("BeamSearch", feed, constants, 2, **like_gpt2(seed), **options), threads=1
    )
    given = {n: a for n, a in feed.items() if n not in constants}
    sequences, scores = session.run(None, given)
    wanted, points = beams(seed, feed, options["no_repeat_ngram_size"])
    np.testing.assert_array_equal(sequences, wanted)
    np.testing.assert_allclose(scores, points, rtol=1e-4)


def runtime(data: bytes, feed: dict[str, Array]) -> list[Array]:
    ort = pytest.importorskip("onnxruntime")
    ort.set_default_logger_severity(4)
    return list(ort.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, feed))


def same(got: list[Array], wanted: list[Array], start: int) -> None:
    """The same as ONNX Runtime's, which leaves what follows the last round as it finds it."""
    end = max(start, 1 + max(np.flatnonzero((got[0] != PAD).any(tuple(range(got[0].ndim - 1))))))
    np.testing.assert_array_equal(got[0][..., :end], wanted[0][..., :end])
    for one, other in zip(got[1:], wanted[1:], strict=True):
        assert one.shape == other.shape
        there = one != 0
        np.testing.assert_allclose(one[there], other[there], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("seed", "op"), part([(seed, op) for op in ("GreedySearch", "BeamSearch") for seed in SEEDS], 7)
)
def test_like_onnxruntime(seed: int, op: str) -> None:
    feed, options = feed_of(seed, op)
    draw = np.random.default_rng(seed)
    feed["prefix_vocab_mask"] = draw.integers(0, 3, (3, WORDS)).clip(0, 1).astype(np.int32)
    feed["attention_mask"] = draw.integers(0, 4, (3, 4)).clip(0, 1).astype(np.int32)
    feed["attention_mask"][:, -1] = 1
    options |= {"early_stopping": 1} if op == "BeamSearch" and seed == 1 else {}
    outputs = 3 if op == "BeamSearch" else 1
    data = model(op, feed, (), outputs, **like_gpt2(seed, 2), **options)
    same(InferenceSession(data, threads=1).run(None, feed), runtime(data, feed), 4)


@pytest.mark.parametrize("form", ["", "hidden", "sequence", "split"])
def test_of_an_encoder_and_a_decoder(form: str) -> None:
    seed = 1 + (form > "h")
    feed, options = feed_of(seed, "BeamSearch")
    options |= {"model_type": 1, "decoder_start_token_id": START, **like_t5(seed, form)}
    data = model("BeamSearch", feed, (), 2, **options)
    same(InferenceSession(data, threads=1).run(None, feed), runtime(data, feed), 1)


@pytest.mark.parametrize("op", ["BeamSearch", "WhisperBeamSearch"])
def test_of_features(op: str) -> None:
    """A model like Whisper, whose text may begin with several tokens."""
    feed, options = feed_of(1, "BeamSearch")
    feed["input_ids"] = np.random.default_rng(2).standard_normal((3, FEATURES, 6)).astype(F4)
    options |= {"decoder_start_token_id": START, **like_t5(3, "whisper")}
    if op == "BeamSearch":
        options["model_type"] = 2
        feed["decoder_input_ids"] = prompts(4)
    else:
        feed["temperature"] = np.array([1.7], F4)
    data = model(op, feed, (), 2, **options)
    same(InferenceSession(data, threads=1).run(None, feed), runtime(data, feed), 4)


@pytest.mark.parametrize(
    ("seed", "custom"), part([(seed, custom) for custom in (0, 1) for seed in SEEDS], 7)
)
def test_sampling(seed: int, custom: int) -> None:
    """The draws are those of ONNX Runtime's generator."""
    feed = {"input_ids": prompts(seed), "max_length": numbers(12), "seed": numbers(seed * 1000)}
    options: dict[str, Any] = {
        "custom": custom,
        "top_p": (0.3, 0.7, 0.95, 1.0)[seed],
        "temperature": 2.0,
    }
    options["min_tokens_to_keep"] = seed
    data = model("Sampling", feed, (), **like_gpt2(seed), **options)
    same(InferenceSession(data, threads=1).run(None, feed), runtime(data, feed), 4)


def test_samples_without_a_seed_differ() -> None:
    feed = {"input_ids": prompts(0), "max_length": numbers(12)}
    data = model("Sampling", feed, (), **like_gpt2(0), top_p=1.0, temperature=9.0)
    session = InferenceSession(data, threads=1)
    assert len({session.run(None, feed)[0].tobytes() for _ in range(8)}) > 1


@pytest.mark.parametrize(
    ("options", "told"),
    [({"model_type": 3}, "model_type 3"), ({}, "max_length is 4")],
    ids=["another kind of model", "no room"],
)
def test_what_is_refused(options: dict[str, Any], told: str) -> None:
    feed = {"input_ids": prompts(0), "max_length": numbers(4)}
    data = model("GreedySearch", feed, ["max_length"], **like_gpt2(0), **options)
    with pytest.raises(MiniccError, match=told):
        InferenceSession(data, options=Options(sizes=(("batch", 3), ("length", 4))))


def test_a_decoder_that_does_not_fit_is_told() -> None:
    feed = {"input_ids": prompts(0), "max_length": numbers(9)}
    graph = like_gpt2(0)["decoder"]
    graph.input.append(info("more", TensorProto.FLOAT, "batch"))
    for graphs in ({}, {"decoder": graph}):
        with pytest.raises(UserError, match="its graphs do not fit it"):
            InferenceSession(model("GreedySearch", feed, **graphs))
