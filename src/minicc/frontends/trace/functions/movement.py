"""Moving data: padding, slices along an axis, traces. Views stand in `views`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from minicc.frontends.trace.dispatch import content_of, value_of
from minicc.frontends.trace.indexing import Cut, cut, gather, taken
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import traces
from minicc.ir import graph
from minicc.ir.core import Literal, Value


def size_of(value: Value) -> int:
    """The number of elements."""
    return math.prod(value.type.extents)


def flat(recorder: Recorder, value: Value) -> Value:
    """The elements in row-major order along one axis."""
    return recorder.reshape(value, (size_of(value),))


def cut_axis(recorder: Recorder, value: Value, axis: int, piece: Cut) -> Value:
    """A slice along one axis."""
    cuts = [(0, n, 1) for n in value.type.extents]
    cuts[axis] = piece
    return cut(recorder, value, cuts)


_MIRRORS = ("edge", "reflect", "symmetric", "wrap")


def _mirrored(recorder: Recorder, value: Value, pad_width: Any, mode: Any) -> Value:
    widths = np.broadcast_to(np.asarray(pad_width, np.int64), (value.type.rank, 2))
    for axis, n in enumerate(value.type.extents):
        low, high = map(int, widths[axis])
        if low or high:
            value = taken(recorder, value, np.pad(np.arange(n), (low, high), mode), axis)
    return value


@traces("pad")
def pad(
    recorder: Recorder,
    array: Any,
    pad_width: Any,
    mode: str = "constant",
    *,
    constant_values: Any = 0,
) -> Value:
    """One number around an array, or its own elements again."""
    if mode in _MIRRORS:
        return _mirrored(recorder, value_of(recorder, array), pad_width, mode)
    if mode != "constant":
        recorder.refuse("MC0241", f"np.pad with mode={mode!r} is not traced", "mode='constant' is")
    value = value_of(recorder, array)
    if isinstance(pad_width, dict):
        pad_width = [pad_width.get(k, pad_width.get(k - value.type.rank, (0, 0)))
                     for k in range(value.type.rank)]  # fmt: skip
    widths = np.broadcast_to(np.asarray(pad_width, np.int64), (value.type.rank, 2))
    if (widths < 0).any():
        raise ValueError("index can't contain negative values")
    numbers = np.broadcast_to(constant_values, (value.type.rank, 2))
    # NumPy fills axis by axis, so corners have the last axis's number
    for axis in range(value.type.rank) if not (numbers == numbers.flat[0]).all() else (None,):
        for side in (0, 1) if axis is not None else (None,):
            low, high = (tuple(int(w) for w in widths[:, k]) for k in (0, 1))
            number = numbers.flat[0]
            if axis is not None:
                low = tuple(w if k == axis and side == 0 else 0 for k, w in enumerate(low))
                high = tuple(w if k == axis and side == 1 else 0 for k, w in enumerate(high))
                number = numbers[axis, side]
            literal = Literal(np.asarray(number).astype(value.type.dtype.numpy))
            value = recorder.emit(graph.Pad, value, low, high, literal)
    return value


@traces("trace")
def trace(recorder: Recorder, a: Any, offset: int = 0) -> Any:
    """The sum of a diagonal."""
    return recorder.namespace.sum(recorder.namespace.diagonal(a, offset), axis=-1)


@traces("take")
def take(recorder: Recorder, a: Any, indices: Any, axis: int | None = None) -> Value:
    """Elements at positions along an axis, or in row-major order."""
    value = value_of(recorder, a)
    if axis is None:
        value = recorder.reshape(value, (math.prod(value.type.extents),))
    k = 0 if axis is None else axis % value.type.rank
    index = content_of(recorder, indices)
    return gather(recorder, value, [k], [index], k)


@traces("take_along_axis")
def take_along_axis(recorder: Recorder, arr: Any, indices: Any, axis: int) -> Value:
    """Elements at the positions that an array of the same rank names along an axis.

    Along the other axes the two are broadcast.
    """
    value = value_of(recorder, arr)
    rank = value.type.rank
    index = value_of(recorder, indices)
    if not index.type.dtype.is_integer:
        raise IndexError("`indices` must be an integer array")
    if index.type.rank != rank:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    axis = normalize_axis_index(axis, rank)
    where: list[Any] = []
    for k, n in enumerate(value.type.extents):
        line = recorder.namespace.arange(n).reshape(-1, *(1,) * (rank - k - 1))
        where.append(index if k == axis else content_of(recorder, line))
    return gather(recorder, value, list(range(rank)), where, 0)
