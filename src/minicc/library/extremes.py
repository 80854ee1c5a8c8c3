"""Where along an axis the greatest or the least of a tensor stands."""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt, prod
from typing import Any

import numpy as np

from minicc.ir import graph
from minicc.ir.core import Literal, Value
from minicc.ir.types import I32, I64, DType

_SHORT = 16  # elements in the time that it takes to have the extreme of a vector
_LONG = 8192  # elements of a row, of which less are near when they are read again


def place_of_extreme(
    emit: Callable[..., Value], x: Value, axis: int, combine: str, last: bool = False
) -> Value:
    """The first (or last) index of the maximum or minimum along an axis, which stays, as i64.

    `emit` creates an op of the graph level, and gives its result. As in NumPy, a NaN is both the
    greatest and the smallest of a row that has one.
    """
    n = _block_of(x, axis)
    if not n:
        best = emit(graph.Reduce, x, axes=(axis,), combine=combine, keepdims=True)
        return emit(graph.Cast, _place_of(emit, x, axis, best, last), I64)
    # what comes from far is read once: the extreme of each block, and then one block again
    *rows, length = x.type.extents
    count, parts = prod(rows), length // n
    blocks = emit(graph.Reshape, x, shape=(count, parts, n))
    tops = emit(graph.Reduce, blocks, axes=(2,), combine=combine, keepdims=False)
    best = emit(graph.Reduce, tops, axes=(1,), combine=combine, keepdims=True)
    block = _place_of(emit, tops, 1, best, last)
    row = emit(graph.Iota, shape=(count, 1), axis=0, dtype=block.type.dtype)
    first = emit(graph.Mul, row, _number(emit, parts, row.type.dtype))
    chosen = emit(graph.Reshape, emit(graph.Add, first, block), shape=(count,))
    blocks = emit(graph.Reshape, blocks, shape=(count * parts, n))
    within = _place_of(emit, emit(graph.Gather, blocks, chosen, axis=0), 1, best, last)
    start = emit(graph.Mul, block, _number(emit, n, block.type.dtype))
    place = emit(graph.Cast, emit(graph.Add, start, within), I64)
    return emit(graph.Reshape, place, shape=(*rows, 1))


def _block_of(x: Value, axis: int) -> int:
    """Elements of a block of long rows; 0 where these are not cut."""
    shape = x.type.shape
    if axis != x.type.rank - 1 or not all(isinstance(n, int) for n in shape):
        return 0
    *rows, length = x.type.extents
    if length < _LONG or prod(rows) * length >= 1 << 31:
        return 0
    wanted = isqrt(_SHORT * length)
    sizes = [n for n in range(wanted // 2, 2 * wanted) if not length % n]
    return min(sizes, key=lambda n: abs(n - wanted), default=0)


def _place_of(emit: Callable[..., Value], x: Value, axis: int, best: Value, last: bool) -> Value:
    """The first (or last) index along an axis of what is `best`, or NaN."""
    n = x.type.shape[axis]
    # a vector has twice as many places of 32 bits
    element = I32 if isinstance(n, int) and n < 1 << 31 else I64
    found = emit(graph.Eq, x, best)
    if x.type.dtype.is_float:
        # a NaN makes `best` one, which is equal to nothing
        found = emit(graph.Or, found, emit(graph.Ne, x, x))
    index = emit(graph.Iota, shape=x.type.shape, axis=axis, dtype=element)
    never = _number(emit, -1 if last else np.iinfo(element.numpy).max, element)
    here = emit(graph.Select, found, index, never)
    combine = "max" if last else "min"
    return emit(graph.Reduce, here, axes=(axis,), combine=combine, keepdims=True)


def _number(emit: Callable[..., Value], number: Any, element: DType) -> Value:
    return emit(graph.Constant, Literal(np.array(number, element.numpy)))
