"""More operators of com.microsoft: what ONNX Runtime's optimiser and its quantisers write."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.generate.draft import MICROSOFT, Draft, Item
from tests.generate.families.operands import plain, quantized, scales, whole
from tests.generate.families.table import family
from tests.generate.source import F32, I8, I32, U8


@family
def contributed_sums(draft: Draft) -> None:
    """Fused operators of floats of a few operands, which the optimiser makes."""
    source = draft.source
    m, k, n = source.pick((1, 3, 17)), source.pick((2, 8)), source.pick((1, 4, 16))
    op = source.pick(("CDist", "FusedGemm", "TransposeMatMul"))
    how: dict[str, Any] = {}
    if op == "CDist":
        inputs = [plain(draft, m, k), plain(draft, n, k)]
        how = {"metric": source.pick(("euclidean", "sqeuclidean"))}
    elif op == "FusedGemm":
        inputs = [plain(draft, m, k), plain(draft, k, n, constant=0.7), plain(draft, n)]
        how = {"activation": source.pick(("Relu", "Tanh", "Sigmoid")), "alpha": 0.5}
    else:
        inputs = [plain(draft, 2, m, k), plain(draft, 2, n, k)]
        how = {"transB": 1, "alpha": 0.5}
    draft.node(op, inputs, domain=MICROSOFT, **how)


@family
def contributed_moves(draft: Draft) -> None:
    """Operators that move elements or repeat what others do under another name."""
    source = draft.source
    op = source.pick(("ExpandDims", "UnfoldTensor", "Inverse", "MurmurHash3"))
    how: dict[str, Any] = {}
    if op == "ExpandDims":
        at = draft.constant(np.array(source.pick((0, 1, -1)), I32))
        inputs = [plain(draft, source.extent(), 3), at]
    elif op == "UnfoldTensor":
        inputs = [plain(draft, 2, source.pick((4, 7)))]
        how = {"dim": source.pick((-1, 1)), "size": source.count(1, 4), "step": source.count(1, 2)}
    elif op == "Inverse":
        drawn = source.rng.uniform(-0.3, 0.3, (2, 3, 3)) + np.eye(3)
        inputs = [draft.fresh(drawn.astype(F32), 0.1)]
    else:
        inputs = [draft.fresh(source.rng.integers(0, 99, source.extent(1)).astype(I32), 0.1)]
        how = {"positive": source.pick((None, 0, 1)), "seed": source.pick((None, 7))}
    draft.node(op, inputs, domain=MICROSOFT, exact=op != "Inverse", **how)


@family
def contributed_bytes(draft: Draft) -> None:
    """Elementwise operators and pools of quantised tensors."""
    source = draft.source
    kind = source.pick((U8, I8))
    shape = (2, source.pick((3, 8)), 4, 5)
    rest = quantized(draft, kind=kind)[1:]
    op = source.pick(("Add", "Mul", "Sigmoid", "LeakyRelu", "GlobalAveragePool", "AveragePool"))
    x = quantized(draft, *shape, kind=kind)
    how: dict[str, Any] = {}
    if op in ("Add", "Mul"):
        x += quantized(draft, *source.pick((shape, shape[1:], (1,))), kind=kind)
    elif op == "LeakyRelu":
        how = {"alpha": 0.1}
    elif op == "AveragePool":
        how = {"kernel_shape": [2, 3], "strides": [1, 2], "count_include_pad": source.pick((0, 1))}
        how["pads"] = source.pick((None, [1, 1, 0, 1]))
    draft.node(f"QLinear{op}", x + rest, domain=MICROSOFT, steps=1, **how)


@family
def contributed_concat(draft: Draft) -> None:
    parts = [quantized(draft, 2, draft.source.count(1, 3), 3) for _ in range(2)]
    inputs = [*quantized(draft)[1:], *parts[0], *parts[1]]
    draft.node("QLinearConcat", inputs, domain=MICROSOFT, steps=1, axis=1)


@family
def contributed_products(draft: Draft) -> None:
    """Products with quantised weights."""
    source = draft.source
    m, k, n = source.pick((1, 3, 17)), source.pick((4, 32)), source.pick((3, 16))
    op = source.pick(("MatMulIntegerToFloat", "DynamicQuantizeMatMul", "QGemm"))
    kind = source.pick((U8, I8))
    w = draft.constant(source.rng.integers(0, 64, (k, n)).astype(kind))
    scale = scales(draft, *source.pick(((), (n,))))
    zero = draft.constant(np.zeros(scale.shape, kind))
    bias = plain(draft, n, constant=0.7) if source.chance(0.5) else None
    if op == "DynamicQuantizeMatMul":
        draft.node(op, [plain(draft, m, k), w, scale, zero, bias], domain=MICROSOFT)
        return
    a, a_scale, a_zero = quantized(draft, m, k)
    if op == "QGemm":
        ends = quantized(draft)[1:]
        inputs = [a, a_scale, a_zero, w, scale, zero, None, *ends]
        draft.node(op, inputs, domain=MICROSOFT, steps=1)
    else:
        draft.node(op, [a, w, a_scale, scale, a_zero, zero, bias], domain=MICROSOFT)


@family
def contributed_few_bits(draft: Draft) -> None:
    """Weights of four or eight bits in blocks."""
    source = draft.source
    m, k, n, block = source.pick((1, 5)), source.pick((32, 48)), source.pick((3, 16)), 16
    bits = source.pick((4, 8))
    blocks = -(-k // block)
    w = whole(draft, n, blocks, block * bits // 8, constant=1)
    zeros = None
    if source.chance(0.5):
        zeros = whole(draft, n, -(-blocks * bits // 8), constant=1)
    draft.node(
        "MatMulNBits",
        [plain(draft, source.pick((1, 2)), m, k), w, scales(draft, n, blocks), zeros],
        domain=MICROSOFT,
        K=k,
        N=n,
        bits=bits,
        block_size=block,
    )


@family
def contributed_attention(draft: Draft) -> None:
    source = draft.source
    batch, steps, heads, size = source.pick((1, 2)), source.pick((1, 5)), source.pick((1, 2)), 8
    width = heads * size
    if source.chance(0.5):
        keys = source.pick((steps, 7))
        qkv = [plain(draft, batch, n, width) for n in (steps, keys, keys)]
        bias = plain(draft, 3 * width, constant=0.7) if source.chance(0.4) else None
        draft.node("MultiHeadAttention", [*qkv, bias], domain=MICROSOFT, num_heads=heads)
        return
    shared, past = source.pick((1, heads)), source.pick((0, 3))
    q, k, v = (plain(draft, batch, steps, n * size) for n in (heads, shared, shared))
    kept = [plain(draft, batch, shared, past, size) for _ in range(2)]
    total = past + steps
    less_one = draft.fresh(np.full(batch, total - 1, I32), 0.5)
    length = draft.fresh(np.array(total, I32), 0.5)
    how: dict[str, Any] = {"num_heads": heads, "kv_num_heads": shared}
    inputs: list[Item | None] = [q, k, v, *kept, less_one, length]
    if source.chance(0.4):
        tables = [plain(draft, 16, size // 2, constant=1) for _ in range(2)]
        inputs, how = [*inputs, *tables], how | {"do_rotary": 1}
    draft.node("GroupQueryAttention", inputs, 3, domain=MICROSOFT, **how)


@family
def contributed_rotation(draft: Draft) -> None:
    source = draft.source
    n, steps, heads, size = source.pick((1, 2)), source.pick((1, 4)), source.pick((1, 2)), 8
    at = draft.fresh(source.rng.integers(0, 9, (n, steps)), 0.3)
    tables = [plain(draft, 16, size // 2, constant=0.7) for _ in range(2)]
    x = plain(draft, n, heads, steps, size)
    how: dict[str, Any] = {"interleaved": source.pick((None, 0, 1))}
    draft.node("RotaryEmbedding", [x, at, *tables], domain=MICROSOFT, **how)


@family
def contributed_embedding(draft: Draft) -> None:
    source = draft.source
    shape, width = (source.pick((1, 2)), source.pick((1, 4))), 8
    ids, kinds = (draft.fresh(source.rng.integers(0, n, shape).astype(I32), 0.1) for n in (9, 2))
    tables = [plain(draft, n, width, constant=0.8) for n in (9, 6, 2)]
    ends = [plain(draft, width, constant=0.8) for _ in range(2)]
    inputs = [ids, kinds, *tables, *ends]
    draft.node("EmbedLayerNormalization", inputs, 2, domain=MICROSOFT, epsilon=0.01)


@family
def contributed_norm(draft: Draft) -> None:
    shape = (draft.source.pick((1, 2)), draft.source.pick((1, 5)), 8)
    parts = [plain(draft, *shape), plain(draft, *shape), plain(draft, 8, constant=0.7)]
    draft.node("SkipSimplifiedLayerNormalization", parts, domain=MICROSOFT, epsilon=0.01)
