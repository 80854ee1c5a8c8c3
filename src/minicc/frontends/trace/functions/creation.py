"""Arrays made from nothing, from others' shapes, and conversions.

`zeros`, `arange`, `eye` and their like have no traced arguments, so NumPy itself makes them as
constants; here is what takes a traced array. `empty` and its like give zeros, so that a compiled
function has one outcome.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from minicc.frontends.trace.dispatch import content_of, value_of
from minicc.frontends.trace.loops.extents import Extent, dim_of
from minicc.frontends.trace.loops.indices import Index, extent_of
from minicc.frontends.trace.numbers import Number
from minicc.frontends.trace.python_types import as_number
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import Dispatch, traces
from minicc.frontends.trace.tracer import Tracer
from minicc.frontends.trace.views import boxed
from minicc.ir import graph
from minicc.ir.core import Value
from minicc.ir.types import I64, is_free


def _cast(recorder: Recorder, value: Value, dtype: Any) -> Value:
    return value if dtype is None else recorder.cast(value, recorder.dtype(np.dtype(dtype)))


def _like(recorder: Recorder, a: Any, fill: Any, dtype: Any, shape: Any) -> Tracer:
    """One number repeated, in an array that lies as another does."""
    known = value_of(recorder, a).type
    if is_free(tuple(map(dim_of, known.shape))):  # of sizes, or as the number of a round has it
        element = recorder.dtype(np.dtype(dtype or known.dtype.numpy))
        extents = boxed(recorder, a).shape if shape is None else shape
        return Tracer(recorder, full(recorder, extents, np.asarray(fill, element.numpy)))
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
    value = _cast(recorder, value_of(recorder, fill_value), dtype)
    return recorder.broadcast(value, _shape(recorder, shape))


def extents(recorder: Recorder, *numbers: Any) -> tuple[int, ...]:
    """Numbers of elements; what only data say is left to NumPy, or read before a loop."""
    found = [extent_of(recorder, n) if type(n) is Index else n for n in numbers]
    if not (recorder.loops or all(map(_is_known, found))):
        recorder.refuse("MC0241", "data say how many elements there are")
    return tuple([n if issubclass(type(n), int) else operator.index(n) for n in found])


def _is_known(n: Any) -> bool:
    """Whether Python knows a number, or has read it before."""
    if issubclass(type(n), Number):
        return n.known is not None
    return not isinstance(n, Tracer) or "index" in n.known


def _shape(recorder: Recorder, shape: Any) -> tuple[int, ...]:
    return extents(recorder, *(shape if isinstance(shape, (tuple, list)) else (shape,)))


def _filled(number: int) -> Any:
    def made(recorder: Recorder, shape: Any, dtype: Any = float, order: str = "C") -> Value:
        element = recorder.dtype(np.dtype(dtype))
        return recorder.broadcast(recorder.scalar(number, element), _shape(recorder, shape))

    return made


# of sizes that are symbols; NumPy itself makes those of numbers
traces("zeros", "empty")(_filled(0))
traces("ones")(_filled(1))


@traces("arange")
def arange(
    recorder: Recorder, start: Any, stop: Any = None, step: Any = 1, dtype: Any = None
) -> Value:
    """Integers at even distances, up to a size that is a symbol."""
    given = (0, start, step) if stop is None else (start, stop, step)
    numbers = [extent_of(recorder, n) if type(n) is Index else n for n in given]
    first, last, step = numbers
    if not all(type(n) is int or isinstance(n, Extent) for n in numbers) or type(step) is not int:
        recorder.refuse("MC0241", "np.arange of a size, but with floats, is not traced")
    if step == 0:
        raise ZeroDivisionError("division by zero")
    low, high = (first, last) if step > 0 else (last, first)
    shape = ((high - low + abs(step) - 1) // abs(step),)
    value = recorder.emit(graph.Iota, shape, 0, I64)
    for op, number in ((graph.Mul, step), (graph.Add, first)):
        value = recorder.emit(op, value, recorder.scalar(number, I64))
    return _cast(recorder, value, dtype)


@traces("eye", "identity")
def eye(recorder: Recorder, N: Any, M: Any = None, k: int = 0, dtype: Any = float) -> Value:
    """Ones on a diagonal."""
    shape = extents(recorder, N, N if M is None else M)
    rows, columns = (recorder.emit(graph.Iota, shape, axis, I64) for axis in (0, 1))
    moved = recorder.emit(graph.Add, rows, recorder.scalar(k, I64))
    return _cast(recorder, recorder.emit(graph.Eq, moved, columns), dtype)


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
    """The extents, as the attribute of an array has them."""
    shown: tuple[int, ...] = Dispatch.shown(recorder, value_of(recorder, a).type.extents)
    return shown


@traces("ndim")
def ndim(recorder: Recorder, a: Any) -> int:
    """The number of axes."""
    return len(value_of(recorder, a).type.shape)


@traces("size")
def size(recorder: Recorder, a: Any, axis: int | None = None) -> int:
    """The number of elements, along one axis or in all."""
    extents = value_of(recorder, a).type.extents
    shown: tuple[int] = Dispatch.shown(
        recorder, (math.prod(extents) if axis is None else extents[axis],)
    )
    return shown[0]


@traces("tril")
def tril(recorder: Recorder, m: Any, k: int = 0) -> Value:
    """Zeros above the k-th diagonal."""
    return _triangle(recorder, m, k, operator.ge)


@traces("triu")
def triu(recorder: Recorder, m: Any, k: int = 0) -> Value:
    """Zeros below the k-th diagonal."""
    return _triangle(recorder, m, k, operator.le)


def _triangle(recorder: Recorder, m: Any, k: int, compare: Any) -> Value:
    value = value_of(recorder, m)
    if value.type.rank < 2:
        recorder.refuse("MC0241", "a triangle of a vector is not traced")
    rows, columns = value.type.extents[-2:]
    count = recorder.namespace.arange
    mask = compare(count(rows).reshape(-1, 1) + k, count(columns))
    zero = np.zeros((), value.type.dtype.numpy)
    result: Tracer = recorder.namespace.where(mask, Tracer(recorder, value), zero)
    return result.value()


@traces("ndarray.__round__")
def round_method(recorder: Recorder, a: Tracer) -> Any:
    """`round(a)` of a scalar: a Python integer; NumPy runs the call where there is none."""
    return as_number(a if a.dtype.kind in "iu" else recorder.namespace.rint(a), int)


@traces("ndarray.item")
def item_method(recorder: Recorder, a: Tracer, *index: Any) -> Any:
    """`a.item()`: a Python number, a traced one where it is not looked at."""
    return _item(a, index)


def _item(x: Tracer, index: tuple[Any, ...]) -> Any:
    """`x.item()`: a traced number where the elements are floats or integers."""
    one = x[index] if len(index) > 1 else (x.reshape(-1)[index[0]] if index else x)
    one = one.reshape(()) if one.size == 1 else one
    kind = {"f": float, "i": int, "u": int}.get(x.dtype.kind)
    if kind is not None and one.size == 1 and one.recorder.path is not None:
        return as_number(one, kind)
    return one.read("item", ".item()")
