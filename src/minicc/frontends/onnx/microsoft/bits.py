"""Weights of a few bits each, quantised in blocks along one axis.

They become floats where the product or the gathering that uses them is; constant ones do when the
model is compiled. `accuracy_level` allows less than f32, which is not made use of.
"""

from __future__ import annotations

from string import ascii_lowercase

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.microsoft.attention import require_absent
from minicc.frontends.onnx.microsoft.common import DOMAIN, add
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.movement import cut
from minicc.frontends.onnx.ops.resize import repeated
from minicc.frontends.onnx.ops.widen import wide_of
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.core import Value
from minicc.ir.types import F32, I64, U8


def _bits(ctx: Context, node: Node) -> int:
    bits = node.integer("bits", 4)
    if bits not in (2, 4, 8):
        raise ctx.unsupported(f"weights of {bits} bits", "use 2, 4 or 8")
    return bits


def _extent(ctx: Context, node: Node, name: str, default: int = 0) -> int:
    """An attribute that is an extent."""
    extent = node.integer(name, default)
    if extent < 1:
        raise ctx.wrong(f"attribute {name} is {extent}")
    return extent


def unpacked(ctx: Context, x: Value, bits: int) -> Value:
    """Bytes as numbers of some bits, side by side in the last axis; the lowest bits come first."""
    if bits == 8:
        return x
    parts: list[Value] = []
    for low in range(0, 8, bits):
        part = ctx.emit(graph.FloorDiv, x, ctx.scalar(1 << low, x)) if low else x
        part = ctx.emit(graph.And, part, ctx.scalar((1 << bits) - 1, x))
        parts.append(ctx.reshape(part, (*x.type.shape, 1)))
    both = ctx.emit(graph.Concat, tuple(parts), axis=x.type.rank)
    return ctx.reshape(both, (*x.type.shape[:-1], x.type.shape[-1] * len(parts)))


@operator(f"{DOMAIN}.MatMulNBits", attributes="K N accuracy_level bits block_size weight_prepacked")
def matmul_n_bits(
    ctx: Context,
    node: Node,
    a: Value,
    b: Value,
    scales: Value,
    zeros: Value | None = None,
    g_idx: Value | None = None,
    bias: Value | None = None,
) -> Value:
    """A product with weights [N, K] whose rows are quantised in blocks of K."""
    require_absent(
        ctx, group_indices=g_idx, prepacked_weights=bool(node.integer("weight_prepacked", 0))
    )
    bits = _bits(ctx, node)
    rows, depth, block = (_extent(ctx, node, name) for name in ("N", "K", "block_size"))
    blocks = -(-depth // block)
    if a.type.rank < 2:
        raise ctx.refused("MatMulNBits wants a matrix")
    packed = ctx.reshape(b, (rows, blocks, block * bits // 8))
    whole = ctx.cast(unpacked(ctx, packed, bits), F32)
    if zeros is None:
        at = ctx.scalar(1 << (bits - 1), F32)
    else:
        if zeros.type.dtype is U8:
            bytes_ = ctx.reshape(zeros, (rows, -(-blocks * bits // 8)))
            zeros = cut(ctx, unpacked(ctx, bytes_, bits), {1: (0, blocks, 1)})
        at = ctx.reshape(ctx.cast(zeros, F32), (rows, blocks, 1))
    factor = ctx.reshape(ctx.cast(scales, F32), (rows, blocks, 1))
    exact = ctx.emit(graph.Mul, ctx.emit(graph.Sub, whole, at), factor)
    flat = cut(ctx, ctx.reshape(exact, (rows, blocks * block)), {1: (0, depth, 1)})
    batch = "".join(c for c in ascii_lowercase if c not in "kn")[: a.type.rank - 1]
    equation = f"{batch}k,nk->{batch}n"
    out = ctx.emit(graph.Contract, wide_of(ctx, a), flat, equation=equation)
    out = add(ctx, out, None if bias is None else ctx.cast(bias, out.type.dtype))
    return ctx.cast(out, a.type.dtype)


# What 4 bits stand for: a sign, an exponent and a fraction, or quantiles of a normal distribution
# (bitsandbytes' FP4 and NF4).
_FP4 = (0, 1 / 192, 2 / 3, 1, 1 / 3, 1 / 2, 1 / 6, 1 / 4)
_NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635),
    *(-0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725),
    *(0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941),
    *(0.7229568362236023, 1.0),
)


@operator(f"{DOMAIN}.MatMulBnb4", attributes="K N block_size quant_type training_mode transB")
def matmul_bnb4(ctx: Context, node: Node, a: Value, b: Value, scales: Value) -> Value:
    """A product with weights [N, K] of 4 bits, the high ones first, in blocks of all of them."""
    rows, depth, block = (_extent(ctx, node, name) for name in ("N", "K", "block_size"))
    if a.type.rank < 2 or not node.integer("transB", 1):
        raise ctx.unsupported("weights that are not transposed", "use a matrix, and transB = 1")
    table = np.array([*_FP4, *[-n for n in _FP4]] if not node.integer("quant_type", 1) else _NF4)
    low_first = unpacked(ctx, ctx.reshape(b, (graph.product(b.type.shape), 1)), 4)
    ends = [cut(ctx, low_first, {1: (k, k + 1, 1)}) for k in (1, 0)]
    both = ctx.emit(graph.Concat, tuple(ends), axis=1)
    code = ctx.reshape(both, (graph.product(both.type.shape),))
    where = ctx.cast(cut(ctx, code, {0: (0, rows * depth, 1)}), I64)
    whole = _gathered(ctx, ctx.constant(table.astype(np.float32)), where, 0)
    factor = repeated(ctx, ctx.cast(scales, F32), {0: block})
    exact = ctx.emit(graph.Mul, whole, cut(ctx, factor, {0: (0, rows * depth, 1)}))
    batch = "".join(c for c in ascii_lowercase if c not in "kn")[: a.type.rank - 1]
    flat = ctx.reshape(exact, (rows, depth))
    out = ctx.emit(graph.Contract, wide_of(ctx, a), flat, equation=f"{batch}k,nk->{batch}n")
    return ctx.cast(out, a.type.dtype)


def _gathered(ctx: Context, x: Value, indices: Value, axis: int) -> Value:
    return ctx.emit(graph.Gather, x, indices, axis=axis)


@operator(f"{DOMAIN}.GatherBlockQuantized", attributes="bits block_size gather_axis quantize_axis")
def gather_block_quantized(
    ctx: Context, node: Node, x: Value, indices: Value, scales: Value, zeros: Value | None = None
) -> Value:
    """What stands at indices of an axis, dequantised; 0 where an index is outside."""
    rank, packed = x.type.rank, x.type.dtype is U8
    along, axis = (
        ctx.axis(f"{name}_axis", k, rank) for k, name in enumerate(("gather", "quantize"))
    )
    if x.type.dtype.name not in ("u8", "u4", "i4"):
        raise ctx.unsupported(f"data of {x.type.dtype}", "use weights of u8, u4 or i4")
    if along == axis:
        raise ctx.unsupported("a gathering along the blocks", "gather along another axis")
    bits = _bits(ctx, node) if packed else 8
    if packed and axis != rank - 1:
        raise ctx.refused("bytes of several numbers must be quantised along the last axis")
    count = x.type.shape[along]
    index = ctx.cast(indices, I64)
    whole = ctx.extent(count, I64)
    outside = ctx.emit(graph.Lt, index, ctx.emit(graph.Neg, whole))
    outside = ctx.emit(graph.Or, outside, ctx.emit(graph.Le, whole, index))
    index = ctx.emit(graph.Select, outside, ctx.scalar(0, I64), index)
    parts = [_gathered(ctx, v, index, along) for v in (x, scales)]
    moved = axis + index.type.rank - 1 if axis > along else axis
    numbers = ctx.cast(unpacked(ctx, parts[0], bits), F32)
    extent = numbers.type.shape[moved]
    blocks = parts[1].type.shape[moved]
    block = _extent(ctx, node, "block_size", 128)

    def laid(part: Value) -> Value:
        wide_part = repeated(ctx, ctx.cast(part, F32), {moved: block})
        return cut(ctx, wide_part, {moved: (0, extent, 1)})

    if zeros is not None:
        at = _gathered(ctx, zeros, index, along)
        at = cut(ctx, unpacked(ctx, at, bits), {moved: (0, blocks, 1)})
        numbers = ctx.emit(graph.Sub, numbers, laid(at))
    elif packed:
        numbers = ctx.emit(graph.Sub, numbers, ctx.scalar(1 << (bits - 1), F32))
    out = ctx.emit(graph.Mul, numbers, laid(parts[1]))
    shape = (*(1,) * along, *index.type.shape, *(1,) * (rank - along - 1))
    out = ctx.emit(graph.Select, ctx.reshape(outside, shape), ctx.scalar(0, F32), out)
    return ctx.cast(out, scales.type.dtype)
