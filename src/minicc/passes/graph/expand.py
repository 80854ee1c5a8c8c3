"""Ops that choose where data say, as comparisons of all with all, where these are few.

    %v, %i = graph.top_k %x {k = 5}
    -->   the rank of each element, which is how many are before it, and of each rank its element

That is a product of two extents in place of their sum, in vectors and without leaving the machine
code, so it pays for short axes alone. The few best of many are found one after the other: each is
the greatest of those after the last. Other such ops stay, and run on the host.

What is scattered to narrow floats and combined there is so in f32, and rounded once. Boxes are
suppressed by a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from minicc.ir import graph
from minicc.ir.build import Builder
from minicc.ir.core import Function, Literal, Module, Op, Value
from minicc.ir.rewrite import Rebuilder, everywhere, rebuild
from minicc.ir.types import (
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
from minicc.passes.graph.sort_network import MOST, sorted_by_network
from minicc.passes.graph.suppress_kernel import suppress_kernel

_LONGEST = 512  # elements that each result looks at
_MOST = 1 << 22  # comparisons in all
_FEW = 16  # that are found one after the other
_PLACES = 1 << 31  # of an axis, which numbers of an element and its place have room for


def expand(module: Module) -> Module:
    """Expand the ops of every function for which `expands` holds."""

    def visit(b: Rebuilder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        return _EXPAND[type(op)](b, op.rebuilt(operands)) if expands(op) else None

    def one(function: Function) -> Function:
        return rebuild(function, visit)

    return Module(module.level, [everywhere(f, one) for f in module.functions])


def expands(op: Op) -> bool:
    """Whether an op becomes others: few of known shapes are compared, or sums are narrow."""
    if isinstance(op, graph.ScatterElements | graph.ScatterND):
        element = op.x.type.dtype
        narrow = element.is_float and element.bits < 32 and element not in STORED
        return op.combine != "none" and narrow
    if isinstance(op, graph.Sort):
        return _is_short(op) or expands(_ranked(op))
    if isinstance(op, graph.Suppress) or (isinstance(op, graph.TopK) and _takes_few(op)):
        return True
    if not isinstance(op, graph.TopK) or is_free(op.x.type.shape) or op.x.type.dtype is OPAQUE:
        return False
    if any(is_free(v.type.shape) for v in op.results) or op.x.type.dtype in STORED:
        return False
    return _is_few(op.x.type.extents[op.axis], op.x.type)


def _is_short(op: graph.Sort) -> bool:
    length, element = op.x.type.shape[op.axis], op.x.type.dtype
    return isinstance(length, int) and 0 < length <= MOST and element is not OPAQUE


def _ranked(op: graph.Sort) -> graph.TopK:
    """All elements, the least first."""
    return graph.TopK(op.x, axis=op.axis, k=op.x.type.shape[op.axis], largest=False, loc=op.loc)


def _sort(b: Builder, op: graph.Sort) -> Sequence[Value]:
    if _is_short(op):
        return (sorted_by_network(b, op.x, op.axis),)
    return _top_k(b, _ranked(op))[:1]


def _takes_few(op: graph.TopK) -> bool:
    """Whether the best few are found one after the other, of elements of 32 bits or less."""
    t: TensorType = op.x.type
    small = t.dtype.kind in "fiu" and (t.dtype.bits < 32 or t.dtype in (F32, I32))
    if not (small and t.dtype not in STORED and isinstance(op.k, int) and 0 < op.k <= _FEW):
        return False
    length = t.shape[op.axis]
    return is_free(t.shape) or (isinstance(length, int) and 8 * op.k < length < _PLACES)


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
    left = b.emit(graph.Mod, best, size)
    indices = b.emit(graph.Sub, _constant(b, _PLACES - 1, I64), left)
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


def _scatter(b: Builder, op: graph.ScatterElements | graph.ScatterND) -> Sequence[Value]:
    wide = (b.emit(graph.Cast, v, dtype=F32) for v in (op.x, op.updates))
    made = b.add(op.rebuilt([next(wide), op.indices, next(wide)])).result
    return (b.emit(graph.Cast, made, dtype=op.x.type.dtype),)


_EXPAND: dict[type[Op], Callable[[Builder, Any], Sequence[Value]]] = {
    graph.Sort: _sort,
    graph.TopK: _top_k,
    graph.Suppress: suppress_kernel,
    graph.ScatterElements: _scatter,
    graph.ScatterND: _scatter,
}
