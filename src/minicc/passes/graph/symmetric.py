"""Compute half of a matrix times its own transpose, which is symmetric.

    %y = contract %x, %x "ik,jk->ij"
    -->   [ upper  mirror ]    upper and lower: halves of the rows times their own transpose,
          [ block  lower  ]    in halves again; block: lower rows times upper ones

The elements are the same sums of the same products. Profitable by a count of multiply-adds: the
half that is saved against moving the result's elements once more, and against more launches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from minicc.ir import graph
from minicc.ir.core import Function, Op, Value
from minicc.ir.rewrite import Rebuilder, rebuild
from minicc.target import Target

_MOST_HALVINGS = 5
_NARROW = 48  # rows below which a block has too few tiles for threads to share
_WHOLE = 16  # rows, of which the upper half has whole multiples: vectors of each type
_MOVE = 6.0  # multiply-adds in the time that one element is moved
_READ = 0.7  # of what the rate of memory allows meanwhile, for a number that comes from far
_LAUNCH = 3e4  # multiply-adds in the time that a launch takes


class _Square(NamedTuple):
    """`x` times its own transpose along an axis of rows."""

    x: Value
    rows: int
    halvings: int


def apply_symmetric(function: Function, target: Target) -> Function:
    """Each product that pays, in blocks."""
    turned = {op.result: op for op in function.body.ops if isinstance(op, graph.Transpose)}
    plan = {op: found for op in function.body.ops if (found := _planned(op, turned, target))}

    def visit(b: Rebuilder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        square = plan.get(op)
        return None if square is None else (_in_blocks(b, square._replace(x=b.new(square.x))),)

    return rebuild(function, visit) if plan else function


def _planned(op: Op, turned: Mapping[Value, Op], target: Target) -> _Square | None:
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
    far = n * depth * x.type.dtype.bytes > target.l2
    read = _READ * target.stream if far else 0.0
    halvings = min(range(_MOST_HALVINGS + 1), key=lambda times: _cost(n, depth, times, read))
    return _Square(x, rows, halvings) if halvings else None


def _cost(n: int, depth: int, halvings: int, read: float) -> float:
    """Multiply-adds, or what takes as long as they; each block costs so many to `read` a number."""
    squares = 1 << halvings
    if squares > 1 and n < squares * _NARROW:
        return float("inf")
    own = 1 / squares  # of all, what squares on the diagonal have
    moved, launches = (1 - own) / 2, 3 * squares - 2
    sides = n * (2 + halvings)  # rows and columns of all blocks
    products = n * n * (1 + own) / 2 + read * sides
    return products * depth + n * n * moved * _MOVE + launches * _LAUNCH


def _in_blocks(b: Rebuilder, square: _Square) -> Value:
    x, rows, halvings = square
    equation = "ik,jk->ij" if rows == 0 else "ki,kj->ij"

    def cut(start: int, stop: int) -> Value:
        if stop - start == x.type.shape[rows]:
            return x
        starts = tuple(start if k == rows else 0 for k in (0, 1))
        stops = tuple(stop if k == rows else n for k, n in enumerate(x.type.shape))
        return b.emit(graph.Slice, x, starts, stops, (1, 1))

    def block(start: int, stop: int, halvings: int) -> Value:
        if not halvings:
            return b.emit(graph.Contract, cut(start, stop), cut(start, stop), equation)
        middle = start - (start - stop) // (2 * _WHOLE) * _WHOLE
        upper, lower = (block(*ends, halvings - 1) for ends in ((start, middle), (middle, stop)))
        left = b.emit(graph.Contract, cut(middle, stop), cut(start, middle), equation)
        mirror = b.emit(graph.Transpose, left, (1, 0))
        pairs = [(upper, mirror), (left, lower)]
        return b.emit(graph.Concat, [b.emit(graph.Concat, [*pair], 1) for pair in pairs], 0)

    return block(0, x.type.shape[rows], halvings)
