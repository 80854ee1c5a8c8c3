"""Matrix products, MatMul and Gemm, as contractions with letters; determinants by elimination.

No operand is transposed; the equation says how it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_lowercase

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.scans import Loop, emit_scan
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.affine import Dim
from minicc.ir.core import Value
from minicc.ir.graph.shapes import product
from minicc.ir.types import BF16, F16, F32

_BATCH = [letter for letter in ascii_lowercase if letter not in "kmn"]


@operator("MatMul")
def matmul(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    """NumPy's matmul: batch axes broadcast, a vector stands for a row or a column."""
    if not a.type.rank or not b.type.rank:
        raise ctx.refused("a scalar has no rows")
    ends = ("mk" if a.type.rank > 1 else "k", "kn" if b.type.rank > 1 else "k")
    ranks = [v.type.rank - len(end) for v, end in zip((a, b), ends, strict=True)]
    most = max(ranks)
    letters = _BATCH[:most]
    operands, terms = [], []
    for v, end, rank, other in ((a, ends[0], ranks[0], b), (b, ends[1], ranks[1], a)):
        opposite = other.type.shape[: ranks[1] if v is a else ranks[0]]
        shape, kept = _without_repeated(v.type.shape[:rank], opposite)
        operands.append(ctx.reshape(v, (*shape, *v.type.shape[rank:])))
        terms.append("".join(letters[most - rank + k] for k in kept) + end)
    out = "".join(letters) + ends[0][:-1] + ends[1][1:]
    return ctx.emit(graph.Contract, *operands, equation=f"{terms[0]},{terms[1]}->{out}")


def _without_repeated(
    own: tuple[Dim, ...], other: tuple[Dim, ...]
) -> tuple[tuple[Dim, ...], list[int]]:
    """Batch extents without those of 1 that the other operand has more of; the axes that stay."""
    kept = []
    for k, n in enumerate(own):
        across = k - len(own) + len(other)
        if n != 1 or across < 0 or other[across] == 1:
            kept.append(k)
    return tuple(own[k] for k in kept), kept


@operator("Gemm", attributes="alpha beta broadcast transA transB")
def gemm(ctx: Context, node: Node, a: Value, b: Value, c: Value | None = None) -> Value:
    """Alpha * a b + beta * c, either matrix transposed if asked for."""
    if a.type.rank != 2 or b.type.rank != 2:
        raise ctx.refused("Gemm wants two matrices")
    left = "km" if node.integer("transA", 0) else "mk"
    right = "nk" if node.integer("transB", 0) else "kn"
    out = ctx.emit(graph.Contract, a, b, equation=f"{left},{right}->mn")
    alpha, beta = node.number("alpha", 1.0), node.number("beta", 1.0)
    if alpha != 1:
        out = ctx.emit(graph.Mul, out, ctx.scalar(alpha, out))
    if c is None or beta == 0:
        return out
    if beta != 1:
        c = ctx.emit(graph.Mul, c, ctx.scalar(beta, c))
    return ctx.emit(graph.Add, out, c)


@operator("Det")
def determinant(ctx: Context, node: Node, x: Value) -> Value:
    """The determinants of square matrices: the product of the pivots of Gaussian elimination.

    f16 and bf16 are computed with in f32.
    """
    rank, element = x.type.rank, x.type.dtype
    text = "it wants square matrices of floats"
    if rank < 2 or not element.is_float:
        raise ctx.refused(text)
    ctx.demand(x.type.shape[-1], x.type.shape[-2], text)
    n = ctx.static(x.type.shape[-1], "the matrix")
    batch = x.type.shape[:-2]
    wide = ctx.cast(x, F32 if element in (F16, BF16) else element)
    matrices = ctx.reshape(wide, (product(batch), n, n))
    ones = ctx.emit(graph.Broadcast, ctx.scalar(1, wide), shape=(product(batch), 1, 1))
    if not n:
        return ctx.cast(ctx.reshape(ones, batch), element)
    rows = ctx.constant(np.arange(n).reshape(1, n, 1))
    found, _ = emit_scan(
        ctx,
        Loop(n, [ones, matrices], [ctx.constant(np.arange(n))]),
        lambda states, slices: (_eliminated(ctx, states[0], states[1], slices[0], rows), ()),
    )
    return ctx.cast(ctx.reshape(found, batch), element)


def _eliminated(ctx: Context, found: Value, x: Value, k: Value, rows: Value) -> Sequence[Value]:
    """The product of pivots with that of column `k`, and the matrices without what is below it.

    The greatest element of the column below is the pivot; its row and row `k` change places.
    """
    n = rows.type.shape[1]
    column = ctx.emit(graph.Gather, x, ctx.reshape(k, (1,)), axis=2)
    below = ctx.emit(graph.Le, k, rows)
    size = ctx.emit(graph.Select, below, ctx.emit(graph.Abs, column), ctx.scalar(-1, x))
    best = ctx.emit(graph.Reduce, size, axes=(1,), combine="max", keepdims=True)
    # of NaN none is the greatest, and any will do
    chosen = ctx.emit(graph.Select, ctx.emit(graph.Eq, size, best), rows, ctx.scalar(n - 1, rows))
    place = ctx.emit(graph.Reduce, chosen, axes=(1,), combine="min", keepdims=True)
    line = ctx.emit(graph.Broadcast, place, shape=(*place.type.shape[:2], n))
    pivots = ctx.emit(graph.GatherElements, x, line, axis=1)
    own = ctx.emit(graph.Gather, x, ctx.reshape(k, (1,)), axis=1)
    moved = ctx.emit(graph.Select, ctx.emit(graph.Eq, rows, place), own, x)
    column = ctx.emit(graph.Gather, moved, ctx.reshape(k, (1,)), axis=2)
    pivot = ctx.emit(graph.Gather, pivots, ctx.reshape(k, (1,)), axis=2)
    zero, one = ctx.scalar(0, x), ctx.scalar(1, x)
    divisor = ctx.emit(graph.Select, ctx.emit(graph.Eq, pivot, zero), one, pivot)
    less = ctx.emit(graph.Mul, ctx.emit(graph.Div, column, divisor), pivots)
    left = ctx.emit(graph.Sub, moved, less)
    left = ctx.emit(graph.Select, ctx.emit(graph.Lt, k, rows), left, moved)
    same = ctx.emit(graph.Eq, place, k)
    signed = ctx.emit(graph.Select, same, pivot, ctx.emit(graph.Neg, pivot))
    return ctx.emit(graph.Mul, found, signed), left
