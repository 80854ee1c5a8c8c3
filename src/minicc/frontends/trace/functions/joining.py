"""Joining, splitting and repeating arrays."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from minicc.frontends.trace.dispatch import is_symbolic, value_of
from minicc.frontends.trace.functions.movement import cut_axis, flat
from minicc.frontends.trace.indexing import taken
from minicc.frontends.trace.loops.indices import Index
from minicc.frontends.trace.numbers import Number, checked
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import traces
from minicc.frontends.trace.tracer import Tracer
from minicc.frontends.trace.views import boxed
from minicc.ir import graph
from minicc.ir.core import Value


def common(recorder: Recorder, arrays: Sequence[Any], dtype: Any) -> list[Value]:
    """Arrays as values of one element type; Python scalars are no arrays but count as such."""
    values = [value_of(recorder, a) for a in arrays]
    if not values:
        raise ValueError("need at least one array to join")
    wanted = np.result_type(*[v.type.dtype.numpy for v in values]) if dtype is None else dtype
    element = recorder.dtype(np.dtype(wanted))
    return [recorder.cast(v, element) for v in values]


@traces("concatenate", "concat")
def concatenate(
    recorder: Recorder, arrays: Sequence[Any], axis: int | None = 0, *, dtype: Any = None
) -> Value:
    """Arrays one after the other along an axis."""
    whole = recorder.whole_of(arrays)
    if whole is not None and whole.type.rank > 1 and axis == 0:
        (whole,) = common(recorder, [Tracer(recorder, whole)], dtype)
        n, m, *rest = whole.type.extents
        return recorder.reshape(whole, (n * m, *rest))
    values = common(recorder, arrays, dtype)
    if axis is None:
        values = [flat(recorder, v) for v in values]
    k = normalize_axis_index(0 if axis is None else axis, values[0].type.rank)
    if len({v.type.rank for v in values}) != 1:
        raise ValueError("all the input arrays must have the same number of dimensions")
    return values[0] if len(values) == 1 else recorder.emit(graph.Concat, values, k)


@traces("stack")
def stack(recorder: Recorder, arrays: Sequence[Any], axis: int = 0, *, dtype: Any = None) -> Value:
    """Arrays of one shape along a new axis."""
    whole = recorder.whole_of(arrays)
    if whole is not None:
        (whole,) = common(recorder, [Tracer(recorder, whole)], dtype)
        k = normalize_axis_index(axis, whole.type.rank)
        order = [*range(1, whole.type.rank)]
        order.insert(k, 0)
        return recorder.transpose(whole, tuple(order))
    values = common(recorder, _each(arrays), dtype)
    if len({v.type.shape for v in values}) != 1:
        raise ValueError("all input arrays must have the same shape")
    k = normalize_axis_index(axis, values[0].type.rank + 1)
    shape = values[0].type.extents
    wide = [recorder.reshape(v, (*shape[:k], 1, *shape[k:])) for v in values]
    return _joined(recorder, wide, k)


def _each(arrays: Any) -> list[Any]:
    return list(arrays)


def _deep(recorder: Recorder, a: Any, rank: int) -> Value:
    """The array with new axes in front, up to a rank."""
    value = value_of(recorder, a)
    return recorder.reshape(value, ((1,) * (rank - value.type.rank)) + value.type.extents)


def _joined(recorder: Recorder, parts: Sequence[Value], axis: int) -> Value:
    return concatenate(recorder, [Tracer(recorder, p) for p in parts], axis)


@traces("vstack", "row_stack")
def vstack(recorder: Recorder, tup: Sequence[Any]) -> Value:
    """Arrays as rows below each other."""
    if (whole := recorder.whole_of(tup)) is not None and whole.type.rank == 2:
        return whole
    return _joined(recorder, [_deep(recorder, a, 2) for a in tup], 0)


@traces("hstack")
def hstack(recorder: Recorder, tup: Sequence[Any]) -> Value:
    """Arrays beside each other."""
    parts = [_deep(recorder, a, 1) for a in tup]
    return _joined(recorder, parts, 0 if parts[0].type.rank == 1 else 1)


@traces("column_stack")
def column_stack(recorder: Recorder, tup: Sequence[Any]) -> Value:
    """Vectors as columns beside each other."""
    parts = [_deep(recorder, a, 1) for a in tup]
    columns = [recorder.reshape(v, (*v.type.extents, 1)) if v.type.rank < 2 else v for v in parts]
    return _joined(recorder, columns, 1)


@traces("append")
def append(recorder: Recorder, arr: Any, values: Any, axis: int | None = None) -> Value:
    """An array after another; both flat where no axis is given."""
    return concatenate(recorder, [arr, values], axis)


@traces("delete")
def delete(recorder: Recorder, arr: Any, obj: Any, axis: int | None = None) -> Any:
    """An array without what is at one place of an axis, of the flat one by default."""
    np_ = recorder.namespace
    box = boxed(recorder, arr)
    box, axis = (box.ravel(), 0) if axis is None else (box, normalize_axis_index(axis, box.ndim))
    n = box.shape[axis]
    place = obj.box if type(obj) is Number else obj
    if type(n) is int and (type(place) is int or issubclass(type(place), np.integer)):
        if not -n <= place < n:
            text = f"index {place} is out of bounds for axis {axis} with size {n}"
            raise IndexError(text)
        front = (slice(None),) * axis
        parts = [box[(*front, slice(place % n))], box[(*front, slice(place % n + 1, None))]]
        return np_.concatenate(parts, axis=axis)
    traced = isinstance(place, Tracer) and place.ndim == 0 and place.dtype.kind in "iu"
    if type(place) is not Index and not traced:
        recorder.refuse("MC0241", "np.delete of other than one place is not traced")
    at: Any = np_.asarray(place, np.int64)
    at = checked(np_.where(at < 0, at + n, at), (at >= -n) & (at < n))
    left = np_.arange(n - 1)
    return np_.take(box, left + (left >= at), axis=axis)


@traces("roll")
def roll(recorder: Recorder, a: Any, shift: Any, axis: Any = None) -> Value:
    """Shifted along axes, what leaves comes back at the other end."""
    value = value_of(recorder, a)
    extents = value.type.extents
    if np.ndim(shift) and axis is None:
        recorder.refuse("MC0241", "np.roll by several shifts along no axis is not traced")
    if axis is None:
        shift = operator.index(shift)
        return recorder.reshape(_rolled(recorder, flat(recorder, value), shift, 0), extents)
    axes = normalize_axis_tuple(axis, len(extents), allow_duplicate=True)
    for amount, k in np.broadcast(shift, axes):
        value = _rolled(recorder, value, int(amount), int(k))
    return value


def _rolled(recorder: Recorder, value: Value, shift: int, axis: int) -> Value:
    n = value.type.extents[axis]
    start = -shift % n if n else 0
    if not start:
        return value
    ends = [cut_axis(recorder, value, axis, c) for c in ((start, n, 1), (0, start, 1))]
    return recorder.emit(graph.Concat, ends, axis)


@traces("tile")
def tile(recorder: Recorder, A: Any, reps: Any) -> Value:  # NumPy's name
    """The whole array repeated along axes."""
    value = value_of(recorder, A)
    one = issubclass(type(reps), Number) or not np.ndim(reps)
    times = [int(r) for r in ([reps] if one else np.atleast_1d(reps))]
    rank = max(len(times), value.type.rank)
    times = [1] * (rank - len(times)) + times
    extents = (*(1,) * (rank - value.type.rank), *value.type.extents)
    split_shape = tuple(n for e in extents for n in (1, e))
    wide = tuple(n for r, e in zip(times, extents, strict=True) for n in (r, e))
    value = recorder.broadcast(recorder.reshape(value, split_shape), wide)
    return recorder.reshape(value, tuple(r * e for r, e in zip(times, extents, strict=True)))


@traces("repeat")
def repeat(recorder: Recorder, a: Any, repeats: Any, axis: int | None = None) -> Value:
    """Each element repeated, along an axis or in row-major order."""
    if isinstance(repeats, (Tracer, list, tuple)) and is_symbolic(repeats):
        recorder.refuse("MC0241", "data say how many elements there are")
    value = value_of(recorder, a)
    if axis is None:
        value = flat(recorder, value)
    k = normalize_axis_index(0 if axis is None else axis, value.type.rank)
    n = value.type.extents[k]
    if isinstance(repeats, (int, np.integer)):
        shape = value.type.extents
        apart = recorder.reshape(value, (*shape[: k + 1], 1, *shape[k + 1 :]))
        wide = recorder.broadcast(apart, (*shape[: k + 1], int(repeats), *shape[k + 1 :]))
        return recorder.reshape(wide, (*shape[:k], n * int(repeats), *shape[k + 1 :]))
    counts = np.broadcast_to(np.asarray(repeats), (n,))
    return taken(recorder, value, np.repeat(np.arange(n), counts), k)
