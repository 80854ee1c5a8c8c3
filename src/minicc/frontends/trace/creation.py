"""Arrays made from nothing, from others' shapes, and conversions.

`zeros`, `arange`, `eye` and their like have no traced arguments, so NumPy itself makes them as
constants; here is what takes a traced array. `empty_like` gives zeros, so that a compiled function
has one outcome.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minicc.frontends.trace.dispatch import content_of, value_of
from minicc.frontends.trace.numbers import item
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import Dispatch, traces
from minicc.frontends.trace.tracer import Tracer
from minicc.ir.core import Array, Value


def _cast(recorder: Recorder, value: Value, dtype: Any) -> Value:
    return value if dtype is None else recorder.cast(value, recorder.dtype(np.dtype(dtype)))


def _like(recorder: Recorder, a: Any, fill: Any, dtype: Any, shape: Any) -> Tracer:
    """One number repeated, in an array that lies as another does."""
    known = value_of(recorder, a).type
    like = a.shadow() if isinstance(a, Tracer) else np.empty(known.extents, known.dtype.numpy)
    model = np.empty_like(like, dtype, shape=shape)
    model[...] = fill
    new = Tracer(recorder, model)
    new.lies(model.strides)
    return new


@traces("zeros_like", "empty_like")
def zeros_like(recorder: Recorder, a: Any, dtype: Any = None, *, shape: Any = None) -> Tracer:
    """Zeros of another array's shape and element type."""
    return _like(recorder, a, 0, dtype, shape)


@traces("ones_like")
def ones_like(recorder: Recorder, a: Any, dtype: Any = None, *, shape: Any = None) -> Tracer:
    """Ones of another array's shape and element type."""
    return _like(recorder, a, 1, dtype, shape)


@traces("full_like")
def full_like(
    recorder: Recorder, a: Any, fill_value: Any, dtype: Any = None, *, shape: Any = None
) -> Any:
    """One number repeated to another array's shape."""
    like = _like(recorder, a, 0, dtype, shape)
    new = Tracer(recorder, full(recorder, like.shape, fill_value, like.dtype))
    new.lies(like.shadow().strides)
    return new


@traces("full")
def full(recorder: Recorder, shape: Any, fill_value: Any, dtype: Any = None) -> Value:
    """One number, or an array that broadcasts, repeated to a shape."""
    extents = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    return recorder.broadcast(_cast(recorder, value_of(recorder, fill_value), dtype), extents)


@traces("array", view=True)
def array(
    recorder: Recorder,
    a: Any,
    dtype: Any = None,
    *,
    copy: Any = True,
    order: Any = "K",
    ndmin: int = 0,
) -> Any:
    """A new array of what an array or nested lists of arrays hold, or the array itself."""
    if isinstance(a, Tracer) and not copy:
        named = {"dtype": dtype, "copy": copy, "order": order, "ndmin": ndmin}
        seen = Dispatch.view(recorder, "array", np.array, (a,), named)
        if seen is not None:
            return seen
    value = _cast(recorder, value_of(recorder, a), dtype)
    if isinstance(a, Tracer) and a.ndim > 1 and ndmin <= a.ndim:
        return _lying(recorder, value, a, order)
    return recorder.reshape(value, (1,) * (ndmin - value.type.rank) + tuple(value.type.extents))


def _lying(recorder: Recorder, content: Any, like: Tracer, order: Any) -> Tracer:
    """A new array that lies as a copy of another does."""
    new = Tracer(recorder, content)
    new.lies(np.empty_like(like.shadow(), new.dtype, order=order).strides)
    return new


@traces("copy", view=True)
def copy_of(recorder: Recorder, a: Any, order: Any = "K") -> Any:
    """A new array of what another holds, which lies as it does."""
    content = content_of(recorder, a)
    if isinstance(a, Tracer) and a.ndim > 1:
        return _lying(recorder, content, a, order)
    return Tracer(recorder, content)


@traces("ndarray.copy", view=True)
def copy_method(recorder: Recorder, a: Tracer, order: Any = "C") -> Any:
    """The same, by default row by row."""
    return a if a.scalar else copy_of(recorder, a, order)


@traces("asarray", "asanyarray", view=True)
def asarray(recorder: Recorder, a: Any, dtype: Any = None, *, order: Any = None) -> Any:
    """The array itself where it has the wanted element type, and lies as is wanted."""
    if not isinstance(a, Tracer) or not (dtype is None or np.dtype(dtype) == a.dtype):
        return array(recorder, a, dtype, order=order or "K")
    if a.scalar:
        return Tracer(recorder, a.content)
    flags = a.shadow().flags
    fits = {"C": flags.c_contiguous, "F": flags.f_contiguous}
    return a if fits.get(order, True) else copy_of(recorder, a, order)


@traces("ascontiguousarray", view=True)
def ascontiguousarray(recorder: Recorder, a: Any, dtype: Any = None) -> Any:
    """The array itself where it lies row by row, with an axis at least."""
    dense = Dispatch.call(recorder, "asarray", (a, dtype), {"order": "C"})
    return Dispatch.call(recorder, "atleast_1d", (dense,), {})


@traces("ndarray.astype")
def astype(recorder: Recorder, a: Tracer, dtype: Any, copy: bool = True) -> Any:
    """A new array with other elements."""
    if copy:
        return _cast(recorder, value_of(recorder, a), dtype)
    return asarray(recorder, a, dtype)


@traces("shape")
def shape_of(recorder: Recorder, a: Any) -> tuple[int, ...]:
    """The extents."""
    return tuple(value_of(recorder, a).type.extents)


@traces("ndim")
def ndim(recorder: Recorder, a: Any) -> int:
    """The number of axes."""
    return len(value_of(recorder, a).type.shape)


@traces("size")
def size(recorder: Recorder, a: Any, axis: int | None = None) -> int:
    """The number of elements, along one axis or in all."""
    extents = value_of(recorder, a).type.extents
    return math.prod(extents) if axis is None else extents[axis]


@traces("tril")
def tril(recorder: Recorder, m: Any, k: int = 0) -> Value:
    """Zeros above the k-th diagonal."""
    return _triangle(recorder, m, k, np.tri)


@traces("triu")
def triu(recorder: Recorder, m: Any, k: int = 0) -> Value:
    """Zeros below the k-th diagonal."""
    return _triangle(recorder, m, k - 1, _not_tri)


def _not_tri(rows: int, columns: int, k: int, dtype: Any) -> Array:
    return np.logical_not(np.tri(rows, columns, k, dtype))


def _triangle(recorder: Recorder, m: Any, k: int, make: Any) -> Value:
    value = value_of(recorder, m)
    if value.type.rank < 2:
        recorder.refuse("MC0241", "a triangle of a vector is not traced")
    rows, columns = value.type.extents[-2:]
    mask = Tracer(recorder, make(rows, columns, k, dtype=bool))
    zero = np.zeros((), value.type.dtype.numpy)
    result: Tracer = recorder.namespace.where(mask, Tracer(recorder, value), zero)
    return result.value()


@traces("ndarray.item")
def item_method(recorder: Recorder, a: Tracer, *index: Any) -> Any:
    """`a.item()`: a Python number, a traced one where it is not looked at."""
    return item(a, index)
