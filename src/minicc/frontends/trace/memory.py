"""One model of memory for every view that NumPy makes: base, offset, strides, element type.

NumPy itself makes the view, of an array that lies as the base does (`solid`); which elements of the
base it shows is read off its address and strides. So `einsum("ii->i", x)`, `as_strided`,
`np.array(x, copy=False)`, and all views of arrays whose element type no graph has (records, dates,
texts) reach their base. What shows parts of elements (a field of records, other element types) is
read and written by NumPy on the host.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from minicc.frontends.trace.asked import solid
from minicc.frontends.trace.dispatch import content_of, is_symbolic
from minicc.frontends.trace.host import on_host
from minicc.frontends.trace.indexing import put_fixed, taken
from minicc.frontends.trace.lens import Content, Lens
from minicc.frontends.trace.recorder import Recorder, native_element
from minicc.frontends.trace.registry import VIEWS, Dispatch, traces
from minicc.frontends.trace.tracer import Tracer
from minicc.ir.core import Array, Value


@dataclass(frozen=True)
class Window:
    """The memory that a view shows, counted from the base's, and how NumPy reads and writes it.

    `places` are the base's elements in row-major order, where the view shows whole ones.
    """

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any
    places: Array | None = field(compare=False)
    function: Callable[[Array], Array] = field(compare=False)

    def read(self, base: Array) -> Array:
        """What it shows of a base, as an array of its own."""
        if self.places is not None:
            return np.asarray(np.asarray(base).reshape(-1)[self.places])
        return self.function(np.asarray(base, order="C")).copy()

    def written(self, base: Array, new: Any) -> Array:
        """The base after the view's elements were replaced."""
        changed = np.array(base, order="C")
        if self.places is not None:
            changed.reshape(-1)[self.places] = new
        else:
            self.function(changed)[...] = new
        return changed


def _read(base: Array, window: Window) -> Array:
    return window.read(base)


def _written(base: Array, new: Array, window: Window) -> Array:
    return window.written(base, new)


def _addresses(array: Array) -> Array:
    """The address of each element."""
    first = array.__array_interface__["data"][0]
    steps = [np.arange(n) * s for n, s in zip(array.shape, array.strides, strict=True)]
    total: Array = np.full(array.shape, first, np.int64)
    for axis, step in enumerate(steps):
        total += step.reshape(-1, *(1,) * (array.ndim - axis - 1))
    return total


def _places(base: Array, view: Array) -> Array | None:
    """Which of the base's elements the view's are; None where they are parts of elements."""
    if view.dtype != base.dtype:
        return None
    known = _addresses(base).reshape(-1)
    order = np.argsort(known, kind="stable")
    wanted = _addresses(view)
    at = np.minimum(np.searchsorted(known[order], wanted), known.size - 1)
    places: Array = order[at]
    return places if bool((known[places] == wanted).all()) else None


def view(recorder: Recorder, function: Callable[..., Any], box: Tracer) -> Any:
    """What a function gives that NumPy answers with views of its argument; None for other results.

    Raises what NumPy raises.
    """
    base = solid(box)
    base.flags.writeable = box.writeable
    with np.errstate(all="ignore"):
        result = function(base[()] if box.scalar else base)
    own = isinstance(result, np.generic) and result.dtype == box.dtype and result == base[()]
    if own if box.scalar else result is base:
        return box
    many = isinstance(result, (list, tuple))
    parts = list(result) if many else [result]
    if not parts or not all(isinstance(p, np.ndarray) and _shares(p, base) for p in parts):
        return None
    if any(map(partial(_goes_beyond, base), parts)):
        recorder.refuse("MC0243", "a view shows memory beyond the array that it is made of")
    found = []
    for k, part in enumerate(parts):
        one = (lambda a, k=k: function(a)[k]) if many else function
        places = _places(base, part) if base.size else None
        start = part.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        window = Window(start, part.shape, part.strides, part.dtype, places, one)
        found.append(_look(recorder, box, window, part))
    return type(result)(found) if many else found[0]


def _shares(part: Array, base: Array) -> bool:
    """Whether an array is a view, of its base or of memory that it does not own."""
    root = _root(part)
    return root is _root(base) or not root.flags.owndata


def _root(array: Array) -> Array:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _goes_beyond(base: Array, part: Array) -> bool:
    """Whether a view has elements that stand before its base in memory or after it."""
    first, end = byte_bounds(base) if base.size else (0, 0)
    low, high = byte_bounds(part)
    return bool(part.size) and not first <= low <= high <= end


def _look(recorder: Recorder, box: Tracer, window: Window, model: Array) -> Tracer:
    key = ("memory", window.offset, window.shape, window.strides, str(window.dtype))
    places = window.places
    native = all(native_element(d) is not None for d in (box.dtype, window.dtype))
    if places is not None and native:
        emit, put = _by_places(recorder, box, places)
    else:
        emit, put = _by_host(recorder, window)
    writes = put if model.flags.writeable else None
    seen = box.look(
        Lens(
            key,
            window.read,
            emit,
            writes,
            hosted=places is None or not native,
            show=window.function,
        )
    )
    seen.lies(model.strides)
    return seen


def _by_places(recorder: Recorder, box: Tracer, places: Array) -> Any:
    shape, flat = box.shape, places.reshape(-1)

    def emit(value: Value) -> Value:
        line = recorder.reshape(value, (math.prod(shape),))
        return recorder.reshape(taken(recorder, line, flat, 0), places.shape)

    def put(base: Value, new: Value) -> Value:
        if len(np.unique(flat)) != len(flat):
            recorder.refuse(
                "MC0243",
                "a view is written to whose elements share memory with each other",
                "write to the array that it shows",
            )
        return put_fixed(recorder, base, places, new)

    return emit, put


def _by_host(recorder: Recorder, window: Window) -> Any:
    reason = "it shows elements of a type that the graph does not have"

    def emit(value: Value) -> Content:
        base = Tracer(recorder, value)
        seen: Tracer = on_host(recorder, "a view", _read, (base, window), {}, reason)
        return seen.content

    def put(base: Content, new: Content) -> Content:
        if window.dtype == np.bool_:
            # what is read of them is 0 or 1, and all that is shown would be written back so
            recorder.give_up("bytes of other elements are written to as truth values")
        if isinstance(base, np.ndarray) and isinstance(new, np.ndarray):
            return window.written(base, new)
        pair = Tracer(recorder, base), Tracer(recorder, new)
        changed: Tracer = on_host(
            recorder, "a write to a view", _written, (*pair, window), {}, reason
        )
        return changed.content

    return emit, put


_SHARE = ("__getitem__", "asarray", "asanyarray", "ascontiguousarray", "einsum", "imag",
          "as_strided", "ndarray.astype", "diag")  # fmt: skip


def view_of_foreign(
    recorder: Recorder,
    name: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """A view of an array whose element type no graph has; None where NumPy makes no view."""
    if name not in VIEWS and name not in _SHARE:
        return None
    if name == "einsum":
        args = (args[1], args[0], *args[2:])
        function = _einsum
    box, *rest = args
    if not isinstance(box, Tracer) or any(map(is_symbolic, (*rest, *kwargs.values()))):
        return None
    if name == "ndarray.flat":  # whose slices are copies, while writes reach the array
        recorder.refuse("MC0243", "flat of an array of this type is not traced")
    if name == "__getitem__":
        rest = [_plain_key(rest[0])]
    return view(recorder, lambda a: function(a, *rest, **kwargs), box)


def _plain_key(key: Any) -> Any:
    """An index without tracers, which may stand in slices."""
    if isinstance(key, tuple):
        return tuple(map(_plain_key, key))
    if isinstance(key, slice):
        ends = (key.start, key.stop, key.step)
        return slice(*[None if e is None else e.__index__() for e in ends])
    return key.content if isinstance(key, Tracer) else key


def _einsum(array: Array, subscripts: str) -> Any:
    return np.einsum(subscripts, array)


Dispatch.view = view_of_foreign


def _traced(name: str, *names: str) -> None:
    def shown(recorder: Recorder, a: Any, *args: Any, **kwargs: Any) -> Any:
        box = a if isinstance(a, Tracer) else Tracer(recorder, content_of(recorder, a))
        real = _FUNCTIONS.get(name, partial(_method, name))
        found = view(recorder, lambda array: real(array, *args, **kwargs), box)
        if found is None:
            recorder.refuse("MC0241", f"np.{name} makes a copy")
        return found

    traces(*names, view=True)(shown)


def _method(name: str, array: Any, *args: Any, **kwargs: Any) -> Any:
    return getattr(array, name)(*args, **kwargs)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "as_strided": np.lib.stride_tricks.as_strided,
    "require": np.require,
    "asfortranarray": np.asfortranarray,
}
_traced("as_strided", "lib.stride_tricks.as_strided", "lib._stride_tricks_impl.as_strided")
_traced("require", "require")
_traced("asfortranarray", "asfortranarray")
_traced("view", "ndarray.view")
_traced("getfield", "ndarray.getfield")
