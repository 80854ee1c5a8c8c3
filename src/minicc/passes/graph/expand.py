"""Ops that put elements where data say, as comparisons of all with all, where these are few.

    %v, %i = graph.top_k %x {k = 5}
    -->   the rank of each element, which is how many are before it, and of each rank its element

The few best of many are found one after the other: each is the greatest of those after the last.

A kernel's instances write where their indices say and nowhere else, so elements can't be sent
anywhere; but each result can look for what belongs to it. That is a product of two extents in place
of their sum, in vectors and without leaving the machine code, so it pays for short axes alone.
Other such ops stay, and run on the host.

Negative indices are counted from the end, and those that are outside end the run, as by the
gather that each form reads its indices through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from minicc.ir import graph
from minicc.ir.arith import identity_of
from minicc.ir.build import Builder
from minicc.ir.core import Function, Literal, Module, Op, Value
from minicc.ir.rewrite import Rebuilder, everywhere, rebuild
from minicc.ir.types import (
    BOOL,
    F32,
    I32,
    I64,
    OPAQUE,
    STORED,
    DType,
    TensorType,
    is_free,
    static_shape,
)

_LONGEST = 512  # elements that each result looks at
_MOST = 1 << 22  # comparisons in all
_FEW = 16  # that are found one after the other
_PLACES = 1 << 31  # of an axis, which numbers of an element and its place have room for

_COMBINE: dict[str, type[Op]] = {
    "add": graph.Add,
    "mul": graph.Mul,
    "max": graph.Max,
    "min": graph.Min,
}


def expand(module: Module) -> Module:
    """Expand the ops of every function for which `expands` holds."""

    def visit(b: Rebuilder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        return _EXPAND[type(op)](b, op.rebuilt(operands)) if expands(op) else None

    def one(function: Function) -> Function:
        return rebuild(function, visit)

    return Module(module.level, [everywhere(f, one) for f in module.functions])


def expands(op: Op) -> bool:
    """Whether an op becomes comparisons: its shapes are known, and they are few."""
    if isinstance(op, graph.TopK) and _takes_few(op):
        return True
    if type(op) not in _EXPAND or any(is_free(v.type.shape) for v in (*op.operands, *op.results)):
        return False
    if OPAQUE in [v.type.dtype for v in op.operands]:
        return False
    if isinstance(op, graph.TopK):
        if op.x.type.dtype in STORED:
            return False
        length: int = op.x.type.extents[op.axis]
        return _is_few(length, op.x.type)
    return _scatters_few(op)


def _takes_few(op: graph.TopK) -> bool:
    """Whether the best few are found one after the other, of elements of 32 bits or less."""
    t: TensorType = op.x.type
    small = t.dtype.kind in "fiu" and (t.dtype.bits < 32 or t.dtype in (F32, I32))
    if not (small and t.dtype not in STORED and isinstance(op.k, int) and 0 < op.k <= _FEW):
        return False
    length = t.shape[op.axis]
    return is_free(t.shape) or (isinstance(length, int) and 8 * op.k < length < _PLACES)


def _scatters_few(op: Op) -> bool:
    assert isinstance(op, graph.ScatterElements | graph.ScatterND)
    t: TensorType = op.x.type
    if t.dtype in (BOOL, *STORED) and op.combine != "none":
        return False
    extents = op.indices.type.extents
    if isinstance(op, graph.ScatterND):
        return extents[-1] > 0 and _is_few(prod(extents[:-1]), t)
    return _is_few(extents[op.axis], t)


def _is_few(length: int, of_each: TensorType) -> bool:
    return 0 < length <= _LONGEST and 0 < prod(of_each.extents) * length <= _MOST


def _constant(b: Builder, number: object, element: DType) -> Value:
    return b.emit(graph.Constant, value=Literal(np.asarray(number, element.numpy)))


def _spread(b: Builder, x: Value, axis: int) -> Value:
    """A tensor with a new axis of extent 1."""
    shape = x.type.shape
    return b.emit(graph.Reshape, x, shape=(*shape[:axis], 1, *shape[axis:]))


def _counted(b: Builder, length: int, axis: int, rank: int, element: DType) -> Value:
    """0, 1, 2, ... along one axis of several."""
    line = b.emit(graph.Iota, shape=(length,), axis=0, dtype=element)
    shape = tuple(length if k == axis else 1 for k in range(rank))
    return b.emit(graph.Reshape, line, shape=shape)


def _total(b: Builder, x: Value, axis: int, combine: str) -> Value:
    """A reduction along an axis, which goes."""
    whole = b.emit(graph.Reduce, x, combine=combine, axes=(axis,))
    if whole.type.rank == x.type.rank:
        shape = x.type.shape
        whole = b.emit(graph.Reshape, whole, shape=(*shape[:axis], *shape[axis + 1 :]))
    return whole


def _top_k(b: Builder, op: graph.TopK) -> Sequence[Value]:
    if _takes_few(op):
        return _few_of_many(b, op)
    x, axis = op.x, op.axis
    rank, length = x.type.rank, x.type.extents[axis]
    (k,) = static_shape((op.k,))
    mine, other = _spread(b, x, axis + 1), _spread(b, x, axis)
    ahead, behind = _better(b, op, other, mine), _better(b, op, mine, other)
    places = [_counted(b, length, axis + k, rank + 1, I32) for k in (0, 1)]
    earlier = b.emit(graph.Lt, places[1], places[0])
    tied = b.emit(graph.And, b.emit(graph.Not, behind), earlier)
    before = b.emit(graph.Or, ahead, tied)
    ranks = _total(b, b.emit(graph.Cast, before, dtype=I32), axis + 1, "add")
    # of each rank the element that has it
    wanted = b.emit(graph.Eq, _spread(b, ranks, axis), _counted(b, k, axis, rank + 1, I32))
    numbers = _counted(b, length, axis + 1, rank + 1, I64)
    chosen = b.emit(graph.Select, wanted, numbers, _constant(b, 0, I64))
    indices = _total(b, chosen, axis + 1, "add")
    return b.emit(graph.GatherElements, x, indices, axis=axis), indices


def _few_of_many(b: Builder, op: graph.TopK) -> Sequence[Value]:
    """Maxima of numbers that hold an element and, below it, how far from the end it stands."""
    x, axis = op.x, op.axis
    length, size = x.type.shape[axis], _constant(b, _PLACES, I64)
    shape = tuple(length if k == axis else 1 for k in range(x.type.rank))
    place = b.emit(graph.Iota, shape=shape, axis=axis, dtype=I64)
    key = _ordered(b, x)
    key = key if op.largest else b.emit(graph.Neg, key)
    # the last place of a number is that of an axis of any extent
    left = b.emit(graph.Sub, _constant(b, _PLACES - 1, I64), place)
    whole = b.emit(graph.Add, b.emit(graph.Mul, key, size), left)
    found: list[Value] = []
    (k,) = static_shape((op.k,))
    for _ in range(k):
        rest = whole
        if found:
            later = b.emit(graph.Lt, whole, found[-1])
            rest = b.emit(graph.Select, later, whole, _constant(b, np.iinfo(np.int64).min, I64))
        found.append(b.emit(graph.Reduce, rest, combine="max", axes=(axis,), keepdims=True))
    best = b.emit(graph.Concat, tuple(found), axis=axis) if len(found) > 1 else found[0]
    behind = b.emit(graph.Mod, best, size)
    indices = b.emit(graph.Sub, _constant(b, _PLACES - 1, I64), behind)
    return b.emit(graph.GatherElements, x, indices, axis=axis), indices


def _ordered(b: Builder, x: Value) -> Value:
    """Integers of 33 bits that are ordered as elements are; NaN is the greatest."""
    if not x.type.dtype.is_float:
        return b.emit(graph.Cast, x, dtype=I64)
    wide = x if x.type.dtype is F32 else b.emit(graph.Cast, x, dtype=F32)
    zero = _constant(b, 0, F32)
    plain = b.emit(graph.Select, b.emit(graph.Eq, wide, zero), zero, wide)  # also -0.0
    bits = b.emit(graph.Cast, b.emit(graph.BitCast, plain, dtype=I32), dtype=I64)
    turned = b.emit(graph.Sub, _constant(b, -_PLACES - 1, I64), bits)
    negative = b.emit(graph.Lt, bits, _constant(b, 0, I64))
    key = b.emit(graph.Select, negative, turned, bits)
    return b.emit(graph.Select, b.emit(graph.Ne, wide, wide), _constant(b, _PLACES - 1, I64), key)


def _better(b: Builder, op: graph.TopK, one: Value, other: Value) -> Value:
    """Whether one element comes before another; NaN counts as the greatest."""
    high, low = (one, other) if op.largest else (other, one)
    less = b.emit(graph.Lt, low, high)
    if not one.type.dtype.is_float:
        return less
    nan, number = b.emit(graph.Ne, high, high), b.emit(graph.Eq, low, low)
    return b.emit(graph.Or, less, b.emit(graph.And, nan, number))


def _scatter_elements(b: Builder, op: graph.ScatterElements) -> Sequence[Value]:
    x, axis = op.x, op.axis
    extents = x.type.extents
    line = b.emit(
        graph.Broadcast, _counted(b, extents[axis], axis, x.type.rank, I64), shape=extents
    )
    places = b.emit(graph.GatherElements, line, op.indices, axis=axis)
    # where updates cover a part of the other axes only, nothing is for the rest
    low = tuple(0 for _ in extents)
    high = tuple(
        0 if k == axis else n - m
        for k, (n, m) in enumerate(zip(extents, op.indices.type.extents, strict=True))
    )
    outside = Literal(np.asarray(-1, np.int64))
    nothing = Literal(np.zeros((), op.updates.type.dtype.numpy))
    if any(high):
        places = b.emit(graph.Pad, places, low=low, high=high, value=outside)
    updates = op.updates
    if any(high):
        updates = b.emit(graph.Pad, updates, low=low, high=high, value=nothing)
    mine = _counted(b, extents[axis], axis, x.type.rank + 1, I64)
    match = b.emit(graph.Eq, _spread(b, places, axis), mine)
    if op.combine != "none":
        return (_combined(b, op.combine, x, match, _spread(b, updates, axis), axis + 1),)
    last = _last(b, match, axis + 1)
    there = b.emit(graph.Max, last, _constant(b, 0, I64))
    moved = b.emit(graph.GatherElements, updates, there, axis=axis)
    found = b.emit(graph.Le, _constant(b, 0, I64), last)
    return (b.emit(graph.Select, found, moved, x),)


def _scatter_nd(b: Builder, op: graph.ScatterND) -> Sequence[Value]:
    x, depth = op.x, op.indices.type.extents[-1]
    extents = x.type.extents
    rows, width = prod(extents[:depth]), prod(extents[depth:])
    count = prod(op.indices.type.extents[:-1])
    line = b.emit(graph.Iota, shape=(rows,), axis=0, dtype=I64)
    grid = b.emit(graph.Reshape, line, shape=extents[:depth])
    flat = b.emit(graph.Reshape, op.indices, shape=(count, depth))
    places = b.emit(graph.GatherND, grid, flat)
    table = b.emit(graph.Reshape, x, shape=(rows, width))
    updates = b.emit(graph.Reshape, op.updates, shape=(count, width))
    mine = _counted(b, rows, 0, 2, I64)
    match = b.emit(graph.Eq, b.emit(graph.Reshape, places, shape=(1, count)), mine)
    if op.combine == "none":
        last = _last(b, match, 1)
        there = b.emit(graph.Max, last, _constant(b, 0, I64))
        moved = b.emit(graph.Gather, updates, there, axis=0)
        found = b.emit(graph.Le, _constant(b, 0, I64), last)
        made = b.emit(graph.Select, _spread(b, found, 1), moved, table)
    else:
        terms = _spread(b, updates, 0)
        made = _combined(b, op.combine, table, _spread(b, match, 2), terms, 1)
    return (b.emit(graph.Reshape, made, shape=extents),)


def _last(b: Builder, match: Value, axis: int) -> Value:
    """The number of the last element along an axis for which something holds, or -1."""
    numbers = _counted(b, match.type.extents[axis], axis, match.type.rank, I64)
    return _total(b, b.emit(graph.Select, match, numbers, _constant(b, -1, I64)), axis, "max")


def _combined(b: Builder, combine: str, x: Value, match: Value, terms: Value, axis: int) -> Value:
    """What stands there, combined with all terms along an axis that match, if there are any."""
    neutral = _constant(b, identity_of(combine, x.type.dtype).array, x.type.dtype)
    total = _total(b, b.emit(graph.Select, match, terms, neutral), axis, combine)
    found = _total(b, match, axis, "or")
    return b.emit(graph.Select, found, b.emit(_COMBINE[combine], x, total), x)


_EXPAND: dict[type[Op], Callable[[Builder, Any], Sequence[Value]]] = {
    graph.TopK: _top_k,
    graph.ScatterElements: _scatter_elements,
    graph.ScatterND: _scatter_nd,
}
