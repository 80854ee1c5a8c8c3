"""The derivatives of convolutions and of reductions over windows.

What came to the windows goes back to the elements by a window of its own, which slides over what
came, spread by the strides and with zeros around it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import Any

from minicc.ir import affine, graph
from minicc.ir.build import Builder
from minicc.ir.core import Op, Value
from minicc.ir.graph.shapes import Shape
from minicc.ir.types import is_free, static_shape
from minicc.library.gradient_elements import NoDerivativeError, Rule, Term, scaled
from minicc.library.gradient_tensors import cut, stops_of, turned, zeros

_MOST_TAPS = 64  # of a window whose extremum is looked for tap by tap


def _spread(
    b: Builder, came: Value, shape: Shape, size: Shape, strides: Shape, dilations: Shape
) -> Value:
    """What came, in zeros, such that a window of one step has the extents of `shape`."""
    around = [affine.multiply(n - 1, d) for n, d in zip(size, dilations, strict=True)]
    nothing = zeros(b, came, tuple(map(affine.add, shape, around)))
    return b.emit(graph.InsertSlice, nothing, came, starts=tuple(around), steps=strides)


def _window(b: Builder, op: graph.Window, came: Value, k: int) -> Value:
    """A sum's comes to each tap, an extremum's to the taps that are it."""
    if op.combine == "add":
        ones = (1,) * came.type.rank
        wide = _spread(b, came, op.x.type.shape, op.size, op.strides, op.dilations)
        return b.emit(
            graph.Window, wide, combine="add", size=op.size, strides=ones, dilations=op.dilations
        )
    if op.combine == "mul" or is_free(op.size) or prod(static_shape(op.size)) > _MOST_TAPS:
        raise NoDerivativeError(op)
    taps = [*itertools.product(*map(range, static_shape(op.size)))]
    corners = [tuple(t * d for t, d in zip(tap, op.dilations, strict=True)) for tap in taps]
    is_it = [_is_extremum(b, op, corner) for corner in corners]
    count = reduce(Term.__add__, is_it)
    nothing = zeros(b, came, op.x.type.shape)
    parts = [
        b.emit(
            graph.InsertSlice,
            nothing,
            scaled(b, came, one / count),
            starts=corner,
            steps=op.strides,
        )
        for one, corner in zip(is_it, corners, strict=True)
    ]
    return reduce(lambda left, right: b.emit(graph.Add, left, right), parts)


def _is_extremum(b: Builder, op: graph.Window, corner: Shape) -> Term:
    """Whether the tap that stands there first is the window's extremum, as 1 or 0."""
    stops = stops_of(corner, op.result.type.shape, op.strides)
    seen = b.emit(graph.Slice, op.x, starts=corner, stops=stops, steps=op.strides)
    equal = b.emit(graph.Eq, seen, op.result)
    return Term(b, b.emit(graph.Cast, equal, dtype=op.x.type.dtype))


def _conv(b: Builder, op: graph.Conv, came: Value, k: int) -> Value:
    """Another convolution: with the kernel turned around, or of the input with what came."""
    if op.layout != "channels_first" or not isinstance(op.groups, int):
        raise NoDerivativeError(op)
    ones = (1,) * (came.type.rank - 2)
    kernel = op.w.type.shape[2:]
    if k == 0:
        w = turned(b, _regrouped(b, op.w, 0, op.groups, (0, 2, 1), 0), range(2, op.w.type.rank))
        size, strides, dilations = (1, 1, *kernel), (1, 1, *op.strides), (1, 1, *op.dilations)
        shape = (*came.type.shape[:2], *op.x.type.shape[2:])
        wide = _spread(b, came, shape, size, strides, dilations)
        options: dict[str, Any] = {"strides": ones, "dilations": op.dilations}
        return b.emit(graph.Conv, wide, w, groups=op.groups, **options)
    # the channels of a group are the batch of this one, and the batch is a group's channels
    x = _regrouped(b, op.x, 1, op.groups, (2, 1, 0), 1)
    steps = _regrouped(b, came, 1, op.groups, (1, 2, 0), 0)
    options = {"strides": op.dilations, "dilations": op.strides}
    whole = b.emit(graph.Conv, x, steps, groups=op.groups, **options)
    found = cut(b, whole, (0,) * whole.type.rank, (*whole.type.shape[:2], *kernel))
    return b.emit(graph.Transpose, found, perm=(1, 0, *range(2, whole.type.rank)))


def _regrouped(
    b: Builder, x: Value, axis: int, groups: int, order: Sequence[int], joined: int
) -> Value:
    """A tensor whose axis is split into groups, the first axes put in order, and two joined.

    The axes are the groups', the one split and the other of the first two; `joined` is where the
    groups' then stands together with the next.
    """
    shape = x.type.shape
    inner = affine.floordiv(shape[axis], groups)
    apart = (*shape[:axis], groups, inner, *shape[axis + 1 :])
    split = b.emit(graph.Reshape, x, shape=apart)
    moved = b.emit(graph.Transpose, split, perm=(*order, *range(3, len(apart))))
    lengths = list(moved.type.shape)
    lengths[joined : joined + 2] = [affine.multiply(lengths[joined], lengths[joined + 1])]
    return b.emit(graph.Reshape, moved, shape=tuple(lengths))


def _accumulate(b: Builder, op: graph.Accumulate, came: Value, k: int) -> Value:
    """What came for an element and for all after it, where these were sums."""
    if op.combine != "add":
        raise NoDerivativeError(op)
    backwards = turned(b, came, (op.axis,))
    return turned(b, b.emit(graph.Accumulate, backwards, axis=op.axis, combine="add"), (op.axis,))


WINDOWS: dict[type[Op], Rule] = {
    graph.Accumulate: _accumulate,
    graph.Window: _window,
    graph.Conv: _conv,
}
