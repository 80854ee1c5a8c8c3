"""Operators that few models have: newer ones, older ones, signals, sequences mapped."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tests.generate.draft import TRAINING, Draft
from tests.generate.families.operands import plain
from tests.generate.families.table import family
from tests.generate.sizes import sizes
from tests.generate.source import F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64

_SAME_BITS = ((I8, U8), (I16, U16, F16), (I32, U32, F32), (I64, U64, F64))


@family
def deform_conv(draft: Draft) -> None:
    source = draft.source
    n, c, m = source.pick((1, 2)), source.pick((2, 4)), source.pick((2, 4))
    groups, moved = source.pick((1, 2)), source.pick((1, 2))
    kernel = [source.count(1, 3), source.count(1, 3)]
    pads, strides = [source.count(0, 1) for _ in range(4)], [source.count(1, 2), 1]
    rows, columns = (
        (extent + pads[k] + pads[k + 2] - kernel[k]) // strides[k] + 1
        for k, extent in enumerate((5, 6))
    )
    taps = moved * kernel[0] * kernel[1]
    bias = plain(draft, m) if source.chance(0.5) else None
    mask = plain(draft, n, taps, rows, columns) if source.chance(0.5) else None
    draft.node(
        "DeformConv",
        [
            plain(draft, n, c, 5, 6),
            plain(draft, m, c // groups, *kernel, constant=0.8),
            plain(draft, n, 2 * taps, rows, columns),
            bias,
            mask,
        ],
        group=groups,
        offset_group=moved,
        kernel_shape=source.pick((None, kernel)),
        pads=pads,
        strides=strides,
    )


@family
def stft(draft: Draft) -> None:
    source = draft.source
    length, frame, step = source.pick((8, 13)), source.pick((4, 5)), source.pick((1, 3))
    parts = source.pick((1, 2))
    window = plain(draft, frame, constant=0.7) if source.chance(0.6) else None
    count = None if window and source.chance(0.5) else draft.constant(np.array(frame, I64))
    draft.node(
        "STFT",
        [plain(draft, 2, length, parts), draft.constant(np.array(step, I64)), window, count],
        onesided=source.pick((None, 1)) if parts == 1 else 0,
    )


@family
def max_unpool(draft: Draft) -> None:
    source = draft.source
    kernel, strides = [2, source.count(1, 3)], [source.count(1, 2), 2]
    extents = ((source.count(1, 3) - 1) * s + k for k, s in zip(kernel, strides, strict=True))
    x = plain(draft, source.pick((1, 2)), source.pick((1, 3)), *extents)
    y, at = draft.node("MaxPool", [x], 2, exact=True, kernel_shape=kernel, strides=strides)
    shape = None
    if source.chance(0.3):
        shape = sizes(draft, [*x.shape[:2], x.shape[2] + 1, x.shape[3] + 2])
    draft.node("MaxUnpool", [y, at, shape], exact=True, kernel_shape=kernel, strides=strides)


@family
def rotary_embedding(draft: Draft) -> None:
    source = draft.source
    n, heads, steps, size = source.pick((1, 2)), source.pick((1, 3)), source.pick((1, 4)), 8
    turned = source.pick((8, 4))
    flat = source.chance(0.4)
    x = plain(draft, n, steps, heads * size) if flat else plain(draft, n, heads, steps, size)
    at = None
    if source.chance(0.5):
        at = draft.fresh(source.rng.integers(0, 9, (n, steps)))
    table = (n, steps, turned // 2) if at is None else (9, turned // 2)
    draft.node(
        "RotaryEmbedding",
        [x, plain(draft, *table, constant=0.5), plain(draft, *table, constant=0.5), at],
        interleaved=source.pick((None, 1)),
        num_heads=heads if flat else None,
        rotary_embedding_dim=turned if turned < size else source.pick((None, 0)),
    )


@family
def tensor_scatter(draft: Draft) -> None:
    source = draft.source
    most, count = source.pick((4, 7)), source.count(1, 3)
    mode = source.pick((None, "linear", "circular"))
    last = most if mode == "circular" else most - count + 1
    rank = source.pick((3, 4))
    shape, axis = ([2, most, 3], 1) if rank == 3 else ([2, 2, most, 3], source.pick((2, -2)))
    part = [count if k == axis % rank else extent for k, extent in enumerate(shape)]
    at = draft.fresh(source.rng.integers(0, last, 2)) if source.chance(0.8) else None
    past = draft.tensor((F32, F16, I64), shape=shape, special=0)
    new = draft.like(past, part, special=0)
    draft.node("TensorScatter", [past, new, at], exact=True, mode=mode, axis=axis)


@family
def bit_cast(draft: Draft) -> None:
    kinds = draft.source.pick(_SAME_BITS)
    to = helper.np_dtype_to_tensor_dtype(draft.source.pick(kinds))
    draft.node("BitCast", [draft.tensor(kinds, exact=True, special=0)], exact=True, to=int(to))


@family
def sequence_map(draft: Draft) -> None:
    source = draft.source
    count = source.count(1, 3)
    parts = [plain(draft, source.pick((1, 3)), 2) for _ in range(count)]
    (items,) = draft.node("SequenceConstruct", parts, exact=True)
    op = source.pick(("Neg", "Add", "Shape"))
    kind = TensorProto.INT64 if op == "Shape" else TensorProto.FLOAT
    names = ("e", "o") if op == "Add" else ("e",)
    body = helper.make_graph(
        [helper.make_node(op, names, ["r"])],
        "each",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names],
        [helper.make_tensor_value_info("r", kind, None)],
    )
    given = [items]
    if op == "Add":
        given.append(plain(draft, 2))
    (made,) = draft.node("SequenceMap", given, body=body)
    if isinstance(made.value, list):
        draft.node("SequenceAt", [made, draft.constant(np.array(-1, I64))], exact=True)


@family
def sequence_of_none(draft: Draft) -> None:
    x = draft.tensor((F32, I64))
    kind = int(helper.np_dtype_to_tensor_dtype(x.dtype))
    (made,) = draft.node("SequenceEmpty", [], exact=True, dtype=kind)
    (made,) = draft.node("SequenceInsert", [made, x], exact=True)
    draft.node("SequenceAt", [made, draft.constant(np.array(0, I64))], exact=True)


@family
def upsample(draft: Draft) -> None:
    source = draft.source
    x = plain(draft, 1, source.pick((1, 2)), 3, 4)
    factors = [1.0, 1.0, source.pick((1.0, 2.0)), source.pick((1.5, 2.0, 3.0))]
    mode = source.pick(("nearest", "linear"))
    if draft.opset < 9:
        draft.node("Upsample", [x], mode=mode, scales=factors)
    else:
        draft.node("Upsample", [x, draft.constant(np.array(factors, F32))], mode=mode)


@family
def scatter(draft: Draft) -> None:
    source = draft.source
    x = draft.tensor((F32, I64), shape=(3, 4))
    axis = source.pick((0, 1))
    at = np.stack([source.rng.permutation(x.shape[axis])[:2] for _ in range(3)], 1 - axis)
    draft.node(
        "Scatter", [x, draft.fresh(at.astype(I64)), draft.like(x, at.shape)], exact=True, axis=axis
    )


@family
def mel_weights(draft: Draft) -> None:
    source = draft.source
    numbers: tuple[Any, ...] = (
        I64.type(source.count(1, 6)),
        I64.type(source.pick((16, 31))),
        I64.type(source.pick((8000, 16000))),
        F32.type(source.pick((0, 20))),
        F32.type(source.pick((3000, 4000))),
    )
    draft.node("MelWeightMatrix", [draft.constant(n) for n in numbers])


@family
def word_counts(draft: Draft) -> None:
    source = draft.source
    x = draft.fresh(source.rng.integers(0, 4, source.pick(((6,), (2, 5)))).astype(I64), 0.1)
    most = source.count(1, 2)
    draft.node(
        "TfIdfVectorizer",
        [x],
        mode=source.pick(("TF", "IDF", "TFIDF")),
        min_gram_length=source.count(1, most),
        max_gram_length=most,
        max_skip_count=source.count(0, 2),
        ngram_counts=[0, 3],
        ngram_indexes=[0, 2, 1, 3, 4],
        pool_int64s=[1, 2, 3, 1, 2, 3, 1],
        weights=source.pick((None, [0.5, 2.0, 1.0, 3.0, 0.25])),
    )


@family
def region_pool(draft: Draft) -> None:
    source = draft.source
    corners = np.sort(source.rng.integers(0, 7, (3, 2, 2)), axis=1).reshape(3, 4)
    regions = np.concatenate([source.rng.integers(0, 2, (3, 1)), corners], axis=1)
    draft.node(
        "MaxRoiPool",
        [plain(draft, 2, 2, 6, 7), draft.fresh(regions.astype(F32), 0.2)],
        exact=True,
        pooled_shape=[source.count(1, 3), source.count(1, 3)],
        spatial_scale=source.pick((None, 0.5)),
    )


@family
def swiglu(draft: Draft) -> None:
    x = draft.tensor((F32, F16), special=0)
    draft.node(
        "SwiGLU", [x, draft.like(x, x.shape, special=0)], alpha=draft.source.pick((None, 2.0))
    )


@family
def causal_conv(draft: Draft) -> None:
    source = draft.source
    n, c, k = source.pick((1, 2)), source.pick((1, 4)), source.pick((2, 4))
    bias = plain(draft, c) if source.chance(0.5) else None
    past = plain(draft, n, c, k - 1) if source.chance(0.5) else None
    draft.node(
        "CausalConvWithState",
        [plain(draft, n, c, source.count(1, 5)), plain(draft, c, 1, k, constant=0.8), bias, past],
        2,
        activation=source.pick((None, "none", "silu", "swish")),
    )


@family
def training_step(draft: Draft) -> None:
    """A step of an optimiser: its rate, the step's number, and tensors with their moments."""
    source = draft.source
    op, states = source.pick((("Adagrad", 1), ("Momentum", 1), ("Adam", 2)))
    shape = source.shape(None, 0)
    rate = draft.fresh(np.array(source.pick((0.1, 0.5)), F32), 0.5)
    step = draft.fresh(np.array(source.count(0, 3)), 0.7, fixed=True)
    tensors = [draft.tensor((F32,), shape=shape, special=0) for _ in range(2 + states)]
    # what is squared on the way has no sign
    squares = draft.fresh(source.rng.uniform(0, 2, shape).astype(F32), 0.2)
    if op != "Momentum":
        tensors[-1] = squares
    how: dict[str, Any] = {"norm_coefficient": source.pick((0.0, 0.01))}
    if op == "Momentum":
        how |= {"alpha": 0.9, "beta": 0.8, "mode": source.pick(("standard", "nesterov"))}
    elif op == "Adagrad":
        how |= {"epsilon": 1e-5, "decay_factor": source.pick((0.0, 0.1))}
    else:
        how |= {"alpha": 0.9, "beta": 0.8, "epsilon": 1e-5}
    draft.node(op, [rate, step, *tensors], 1 + states, domain=TRAINING, **how)
