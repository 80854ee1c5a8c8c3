"""Vectors of free length whose elements are all as far from the one before, and slices of them.

    Concat(Range(0, 4 * n, 4), [4 * n])[i : i + 1] = [4 * i]

Exporters write so where each bag of an EmbeddingBag begins and ends, and take the ends of one bag
in each round of a loop. What is between two of them has a known extent once their places are known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.dims import is_size
from minicc.ir import graph
from minicc.ir.affine import Dim
from minicc.ir.core import Value

_MOST = 8  # elements of a slice
_DEEPEST = 16  # ops that a vector is computed by, one after another


class _Line(NamedTuple):
    """The first element, and how far each is from the one before."""

    first: Dim
    step: Dim

    def at(self, place: Dim) -> Dim:
        """The element at a place."""
        return self.first + self.step * place


def known_elements(ctx: Context, sliced: Value) -> Value:
    """A slice as sizes where it is of a few elements of a line; itself otherwise."""
    op = ctx.maker(sliced)
    if not isinstance(op, graph.Slice) or op.x.type.rank != 1:
        return sliced
    (count,), (extent,) = sliced.type.shape, op.x.type.shape
    if isinstance(extent, int) or not isinstance(count, int) or not 0 < count <= _MOST:
        return sliced
    line = _line(ctx, op.x)
    if line is None:
        return sliced
    places = [op.starts[0] + op.steps[0] * k for k in range(count)]
    return ctx.of_dims(np.array([line.at(p) for p in places], object), sliced.type.dtype)


def _line(ctx: Context, x: Value, depth: int = 0) -> _Line | None:
    op = ctx.maker(x)
    if op is None or depth > _DEEPEST or x.type.rank != 1 or not is_size(x.type.dtype):
        return None
    match op:
        case graph.Iota():
            return _Line(0, 1)
        case graph.Cast():
            return _line(ctx, op.x, depth + 1)
        case graph.Slice():
            line = _line(ctx, op.x, depth + 1)
            return line and _Line(line.at(op.starts[0]), line.step * op.steps[0])
        case graph.Add() | graph.Mul():
            return _moved(ctx, op, depth + 1)
        case graph.Concat():
            return _joined(ctx, op, depth + 1)
    return None


def _moved(ctx: Context, op: graph.Add | graph.Mul, depth: int) -> _Line | None:
    """A line to which a number was added, or that was multiplied by one."""
    for x, other in (op.operands, op.operands[::-1]):
        numbers = ctx.partly(other) if other.type.shape in ((), (1,)) else []
        line = _line(ctx, x, depth) if len(numbers) == 1 else None
        if line is not None and (by := numbers[0]) is not None:
            if isinstance(op, graph.Add):
                return _Line(line.first + by, line.step)
            return _Line(line.first * by, line.step * by)
    return None


def _joined(ctx: Context, op: graph.Concat, depth: int) -> _Line | None:
    """A line that others, or known elements, go on with."""
    begin: Dim = 0
    parts: list[tuple[Dim, Value, _Line | None]] = []
    for x in op.xs:
        parts.append((begin, x, _line(ctx, x, depth)))
        begin = begin + x.type.shape[0]
    at, line = next(((at, line) for at, _, line in parts if line is not None), (0, None))
    if line is None:
        return None
    whole = _Line(line.first - line.step * at, line.step)
    return whole if all(_goes_on(ctx, whole, *part) for part in parts) else None


def _goes_on(ctx: Context, whole: _Line, at: Dim, x: Value, own: _Line | None) -> bool:
    """Whether a part has the elements that a line has from a place on."""
    if own is not None:
        return own == _Line(whole.at(at), whole.step)
    if not isinstance(x.type.shape[0], int):
        return False
    return all(element == whole.at(at + k) for k, element in enumerate(ctx.partly(x)))
