"""Compute half of a matrix times its own transpose, which is symmetric.

    %y = contract %x, %x "ik,jk->ij"
    -->   strips of rows, each times the rows up to its last; what is right of them is their mirror

The elements are the same sums of the same products. Profitable by a count of multiply-adds: the
half that is saved against moving the result's elements twice more, and against more launches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from minicc.ir import graph
from minicc.ir.core import Function, Op, Value
from minicc.ir.rewrite import Rebuilder, rebuild

_STRIPS = (1, 2, 4, 8)
_NARROW = 100  # rows below which a strip's product is slower
_MOVE = 12.0  # multiply-adds in the time that one element is moved twice more
_LAUNCH = 2e5  # multiply-adds in the time that a launch takes: one a strip, one a pair of them


class _Square(NamedTuple):
    """`x` times its own transpose along an axis of rows."""

    x: Value
    rows: int
    strips: int


def apply_symmetric(function: Function) -> Function:
    """Each product that pays, in strips."""
    turned = {op.result: op for op in function.body.ops if isinstance(op, graph.Transpose)}
    plan = {op: found for op in function.body.ops if (found := _planned(op, turned))}

    def visit(b: Rebuilder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        square = plan.get(op)
        return None if square is None else (_in_strips(b, square._replace(x=b.new(square.x))),)

    return rebuild(function, visit) if plan else function


def _planned(op: Op, turned: Mapping[Value, Op]) -> _Square | None:
    if not isinstance(op, graph.Contract) or op.a.type.rank != 2 or op.b.type.rank != 2:
        return None
    left, right, out = graph.parse_equation(op.equation)
    (x, left), (other, right) = (
        graph.untransposed(op.a, left, turned),
        graph.untransposed(op.b, right, turned),
    )
    shared = [k for k in range(2) if left[k] == right[k] and left[k] not in out]
    if x is not other or len(shared) != 1 or len(out) != 2:
        return None
    rows = 1 - shared[0]
    n, depth = x.type.shape[rows], x.type.shape[1 - rows]
    if left[rows] == right[rows] or not isinstance(n, int) or not isinstance(depth, int):
        return None
    strips = min(_STRIPS, key=lambda s: _cost(n, depth, s))
    return _Square(x, rows, strips) if strips > 1 else None


def _cost(n: int, depth: int, strips: int) -> float:
    """Multiply-adds, or what takes as long."""
    if strips == 1:
        return float(n) * n * depth
    if n < strips * _NARROW:
        return float("inf")
    half = n * n * depth * (strips + 1) / (2 * strips)
    return half + n * n * _MOVE + strips * (strips + 1) / 2 * _LAUNCH


def _in_strips(b: Rebuilder, square: _Square) -> Value:
    x, rows, strips = square
    n = x.type.shape[rows]
    ends = [n * k // strips for k in range(strips + 1)]
    equation = "ik,jk->ij" if rows == 0 else "ki,kj->ij"

    def cut(value: Value, axis: int, start: int, stop: int) -> Value:
        if stop - start == value.type.shape[axis]:
            return value
        starts = tuple(start if k == axis else 0 for k in (0, 1))
        stops = tuple(stop if k == axis else m for k, m in enumerate(value.type.shape))
        return b.emit(graph.Slice, value, starts, stops, (1, 1))

    products = [
        b.emit(graph.Contract, cut(x, rows, start, stop), cut(x, rows, 0, stop), equation)
        for start, stop in pairwise(ends)
    ]
    bands: list[Value] = []
    for k, product in enumerate(products):
        below = [cut(p, 1, ends[k], ends[k + 1]) for p in products[k + 1 :]]
        mirrored = [b.emit(graph.Transpose, part, (1, 0)) for part in below]
        bands.append(b.emit(graph.Concat, [product, *mirrored], 1) if mirrored else product)
    return b.emit(graph.Concat, bands, 0)
