"""The derivatives of ops that move, sum and multiply: each is another op of these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minicc.ir import affine, graph
from minicc.ir.build import Builder
from minicc.ir.core import Op, Value
from minicc.ir.graph.shapes import Shape
from minicc.ir.types import I64
from minicc.library.gradient_elements import (
    NoDerivativeError,
    Rule,
    Term,
    number,
    scaled,
    summed_to,
)


def zeros(b: Builder, like: Value, shape: Shape) -> Value:
    """A tensor of zeros with the element type of `like`."""
    return b.emit(graph.Broadcast, number(b, 0, like), shape=shape)


def spread(b: Builder, x: Value, shape: Shape, axes: Sequence[int]) -> Value:
    """A tensor repeated along new axes, up to a shape."""
    kept = tuple(1 if k in axes else n for k, n in enumerate(shape))
    return b.emit(graph.Broadcast, b.emit(graph.Reshape, x, shape=kept), shape=shape)


def _broadcast(b: Builder, op: graph.Broadcast, came: Value, k: int) -> Value:
    return summed_to(b, came, op.x.type.shape)


def _reshape(b: Builder, op: graph.Reshape, came: Value, k: int) -> Value:
    return b.emit(graph.Reshape, came, shape=op.x.type.shape)


def _transpose(b: Builder, op: graph.Transpose, came: Value, k: int) -> Value:
    return b.emit(graph.Transpose, came, perm=tuple(np.argsort(op.perm).tolist()))


def turned(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """A tensor with the elements along axes in the opposite order."""
    if not axes:
        return x
    shape = x.type.shape
    ranges = [(n - 1, -1, -1) if axis in axes else (0, n, 1) for axis, n in enumerate(shape)]
    starts, stops, steps = zip(*ranges, strict=True)
    return b.emit(graph.Slice, x, starts=starts, stops=stops, steps=steps)


def stops_of(starts: Shape, counts: Shape, steps: Sequence[int]) -> Shape:
    """Just after the last of so many elements along each axis; where it starts if there is none."""
    columns = zip(starts, counts, steps, strict=True)
    return tuple(
        start + affine.multiply(n - 1, step) + 1 if n != 0 else start for start, n, step in columns
    )


def _slice(b: Builder, op: graph.Slice, came: Value, k: int) -> Value:
    """What came stands in zeros; turned around where it was taken from the end."""
    came = turned(b, came, [axis for axis, step in enumerate(op.steps) if step < 0])
    columns = zip(op.starts, came.type.shape, op.steps, strict=True)
    first = tuple(
        start + affine.multiply(n - 1, step) if step < 0 else start for start, n, step in columns
    )
    nothing = zeros(b, came, op.x.type.shape)
    return b.emit(graph.InsertSlice, nothing, came, starts=first, steps=tuple(map(abs, op.steps)))


def _insert(b: Builder, op: graph.InsertSlice, came: Value, k: int) -> Value:
    shape = op.new.type.shape
    if k == 0:
        return b.emit(graph.InsertSlice, came, zeros(b, came, shape), **op.attrs)
    stops = stops_of(op.starts, shape, op.steps)
    return b.emit(graph.Slice, came, starts=op.starts, stops=stops, steps=op.steps)


def cut(b: Builder, came: Value, starts: Shape, shape: Shape) -> Value:
    """The part of a tensor that has this shape and starts there."""
    stops = tuple(start + n for start, n in zip(starts, shape, strict=True))
    return b.emit(graph.Slice, came, starts=starts, stops=stops, steps=(1,) * len(shape))


def _pad(b: Builder, op: graph.Pad, came: Value, k: int) -> Value:
    return cut(b, came, op.low, op.x.type.shape)


def _concat(b: Builder, op: graph.Concat, came: Value, k: int) -> Value:
    before: Any = sum((v.type.shape[op.axis] for v in op.xs[:k]), 0)
    starts = tuple(before if a == op.axis else 0 for a in range(came.type.rank))
    return cut(b, came, starts, op.xs[k].type.shape)


def _reduce(b: Builder, op: graph.Reduce, came: Value, k: int) -> Value | None:
    """A sum's comes to each element; an extremum's to those that are it, in equal parts."""
    x, shape = op.x, op.x.type.shape
    came = spread(b, came, shape, op.axes)
    if op.combine == "add":
        return came
    whole = Term(b, spread(b, op.result, shape, op.axes))
    if op.combine == "mul":
        return scaled(b, came, _of_product(b, op, whole))
    is_it = b.emit(graph.Cast, b.emit(graph.Eq, x, whole.value), dtype=x.type.dtype)
    count = b.emit(graph.Reduce, is_it, axes=op.axes, combine="add")
    share = Term(b, is_it) / Term(b, spread(b, count, shape, op.axes))
    return scaled(b, came, share)


def _of_product(b: Builder, op: graph.Reduce, whole: Term) -> Term:
    """The product of all other elements, also where one of them all is 0."""
    x, shape = op.x, op.x.type.shape
    one, nothing = number(b, 1, x), number(b, 0, x)
    is_zero = b.emit(graph.Eq, x, nothing)

    def over(v: Value, combine: str) -> Value:
        return spread(b, b.emit(graph.Reduce, v, axes=op.axes, combine=combine), shape, op.axes)

    others = over(b.emit(graph.Select, is_zero, one, x), "mul")
    alone = b.emit(graph.Eq, over(b.emit(graph.Cast, is_zero, dtype=x.type.dtype), "add"), one)
    of_zero = b.emit(graph.Select, alone, others, nothing)
    return Term(b, b.emit(graph.Select, is_zero, of_zero, (whole / Term(b, x)).value))


def _contract(b: Builder, op: graph.Contract, came: Value, k: int) -> Value:
    """The contraction of what came with the other operand."""
    left, right, out = graph.parse_equation(op.equation)
    mine, other = (right, left) if k else (left, right)
    made = "".join(letter for letter in mine if letter in out or letter in other)
    equation = f"{out},{other}->{made}"
    part = b.emit(graph.Contract, came, op.operands[1 - k], equation=equation)
    missing = [axis for axis, letter in enumerate(mine) if letter not in made]
    return spread(b, part, op.operands[k].type.shape, missing) if missing else part


def _gather(b: Builder, op: graph.Gather, came: Value, k: int) -> Value | None:
    """What came is added up where it was taken from, with the axis of indices in front."""
    axis, names, shape = op.axis, op.indices.type.rank, op.x.type.shape
    rest = [*range(axis), *range(axis + names, came.type.rank)]
    perm = (*range(axis, axis + names), *rest)
    moved = b.emit(graph.Transpose, came, perm=perm)
    vectors = (*op.indices.type.shape, 1)
    indices = b.emit(graph.Reshape, b.emit(graph.Cast, op.indices, dtype=I64), shape=vectors)
    nothing = zeros(b, came, (shape[axis], *shape[:axis], *shape[axis + 1 :]))
    whole = b.emit(graph.ScatterND, nothing, indices, moved, combine="add")
    return b.emit(
        graph.Transpose, whole, perm=(*range(1, axis + 1), 0, *range(axis + 1, len(shape)))
    )


def _gather_elements(b: Builder, op: Any, came: Value, k: int) -> Value | None:
    """The same for elements along an axis, for the greatest of it, and for all in order."""
    if isinstance(op, graph.Sort):
        order = {"axis": op.axis, "k": op.x.type.shape[op.axis], "largest": False}
        _, indices = b.emit_all(graph.TopK, op.x, **order)
    else:
        indices = op.results[1] if isinstance(op, graph.TopK) else op.indices
    nothing = zeros(b, came, op.x.type.shape)
    return b.emit(graph.ScatterElements, nothing, indices, came, axis=op.axis, combine="add")


def _gather_nd(b: Builder, op: graph.GatherND, came: Value, k: int) -> Value | None:
    """The same for coordinates; those of common axes are written out."""
    shape = (*op.indices.type.shape[:-1], 1)
    common = [b.emit(graph.Iota, shape=shape, axis=a, dtype=I64) for a in range(op.batch)]
    indices = b.emit(graph.Cast, op.indices, dtype=I64)
    places = b.emit(graph.Concat, (*common, indices), axis=len(shape) - 1)
    nothing = zeros(b, came, op.x.type.shape)
    return b.emit(graph.ScatterND, nothing, places, came, combine="add")


def _scatter(b: Builder, op: Any, came: Value, k: int) -> Value | None:
    """What is put somewhere gets what comes from there, and what stood there nothing."""
    if op.combine not in ("none", "add"):
        raise NoDerivativeError(op)
    along = {"axis": op.axis} if isinstance(op, graph.ScatterElements) else {}
    if k == 2:
        taken = graph.GatherElements if along else graph.GatherND
        return b.emit(taken, came, op.indices, **along)
    if op.combine == "add":
        return came
    nothing = zeros(b, came, op.updates.type.shape)
    return b.emit(type(op), came, op.indices, nothing, **along)


TENSORS: dict[type[Op], Rule] = {
    graph.Broadcast: _broadcast,
    graph.Reshape: _reshape,
    graph.Transpose: _transpose,
    graph.Slice: _slice,
    graph.InsertSlice: _insert,
    graph.Pad: _pad,
    graph.Concat: _concat,
    graph.Reduce: _reduce,
    graph.Contract: _contract,
    graph.Gather: _gather,
    graph.GatherElements: _gather_elements,
    graph.Sort: _gather_elements,
    graph.TopK: _gather_elements,
    graph.GatherND: _gather_nd,
    graph.ScatterElements: _scatter,
    graph.ScatterND: _scatter,
}
