"""Matrix products: MatMul, Gemm, Einsum, as contractions with letters.

Mirrors: NumPy's matmul and einsum, BLAS's gemm. No operand is transposed; the equation says how it
is read.
"""

from __future__ import annotations

from string import ascii_lowercase

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.reader import Node
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.affine import Dim
from minicc.ir.core import Value

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
