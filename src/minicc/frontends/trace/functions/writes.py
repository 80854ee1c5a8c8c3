"""Functions that write to their first argument: `copyto`, `put`, `sort` in place, `add.at`.

Each computes the new contents by functions that write nothing, and assigns them to the array's
box. What only NumPy can compute is done by NumPy on a copy, on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minicc.frontends.trace.dispatch import (
    content_of,
    has_tracer,
    is_foreign,
    is_symbolic,
    value_of,
)
from minicc.frontends.trace.functions.reductions import require_mask
from minicc.frontends.trace.host import on_host
from minicc.frontends.trace.indexing import normal_key, put_at, setitem
from minicc.frontends.trace.numbers import Number
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import FUNCTIONS, WRITES, writes
from minicc.frontends.trace.tracer import Tracer
from minicc.frontends.trace.views import boxed
from minicc.ir import graph
from minicc.ir.core import Value
from minicc.ir.types import I64


def target(recorder: Recorder, a: Any) -> Tracer:
    """The array that is written to; one from outside of the function is refused."""
    if not isinstance(a, Tracer):
        recorder.refuse("MC0243", "an array from outside of the function is written to")
    if a.scalar:
        raise TypeError(f"'numpy.{a.dtype}' object does not support item assignment")
    return a


def _by_numpy(
    recorder: Recorder, name: str, change: Callable[..., Any], a: Any, *args: Any, **kwargs: Any
) -> None:
    """Write by NumPy's own function on a copy: now where all is known, else on the host."""
    box = target(recorder, a)

    def changed(old: Any, *rest: Any, **named: Any) -> Any:
        new = np.array(old)
        change(new, *rest, **named)
        return new

    if not any(map(is_symbolic, (box, *args, *kwargs.values()))):
        plain = [v.content if isinstance(v, Tracer) else v for v in args]
        named = {k: v.content if isinstance(v, Tracer) else v for k, v in kwargs.items()}
        box.assign(changed(box.content, *plain, **named))
        return
    new = on_host(recorder, name, changed, (box, *args), kwargs, "the graph does not compute it")
    box.assign(new.content)


@writes("copyto")
def copyto(
    recorder: Recorder, dst: Any, src: Any, casting: str = "same_kind", where: Any = True
) -> None:
    """Elements of `src` put into `dst`, where a condition holds."""
    if src is dst and where is True and np.ndim(dst):
        return  # before NumPy asks whether it may be written to
    box = target(recorder, dst)
    content = content_of(recorder, src)
    given = content.type.dtype.numpy if isinstance(content, Value) else content.dtype
    weak = isinstance(src, (bool, int, float)) and not isinstance(src, np.generic)
    fits = np.result_type(box.dtype, src) == box.dtype if weak else False
    if not fits and not np.can_cast(given, box.dtype, casting):  # type: ignore[arg-type]
        raise TypeError(f"Cannot cast from {given} to {box.dtype} by the rule {casting!r}")
    if where is True:
        box[...] = src
    else:
        require_mask(where)
        box[...] = recorder.namespace.where(
            where, recorder.namespace.asarray(src).astype(box.dtype), box
        )


def _in_turn(recorder: Recorder, box: Tracer, values: Any, shape: Any) -> Any:
    """Values over and over; which Python numbers the array can't hold, NumPy says."""
    if not is_symbolic(values) and not hasattr(values, "dtype"):
        values = np.asarray(values, box.dtype)
    return recorder.namespace.resize(values, shape)


@writes("fill_diagonal")
def fill_diagonal(recorder: Recorder, a: Any, val: Any, wrap: bool = False) -> None:
    """The main diagonal set to a value, or to values in turn."""
    box = target(recorder, a)
    places = np.zeros(box.shape, np.int64)
    np.fill_diagonal(places, 1, wrap)
    where = np.nonzero(places)
    count = len(where[0])
    box[where] = _in_turn(recorder, box, val, count) if np.ndim(val) else val


@writes("put", "ndarray.put")
def put(recorder: Recorder, a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """Elements at flat places replaced, values in turn."""
    box = target(recorder, a)
    if mode != "raise" or is_symbolic(ind):
        _by_numpy(recorder, "np.put", np.put, box, ind, v, mode=mode)
        return
    places = np.asarray(content_of(recorder, ind)).reshape(-1)
    if len(places) and not -box.size <= places.min() <= places.max() < box.size:
        recorder.refuse("MC0241", "np.put writes until a place is out of bounds")
    values = _in_turn(recorder, box, v, len(places))
    box[np.unravel_index(np.where(places < 0, places + box.size, places), box.shape)] = values


@writes("putmask")
def putmask(recorder: Recorder, a: Any, mask: Any, values: Any) -> None:
    """Elements replaced where a mask holds, by the values at the same places in turn."""
    box, shown = target(recorder, a), boxed(recorder, mask)
    if shown.size != box.size:
        raise ValueError("putmask: mask and data must be the same size")
    if isinstance(values, (Tracer, np.ndarray)) and not getattr(values, "scalar", False):
        like = np.zeros((1,) * values.ndim, values.dtype)
        np.putmask(np.zeros(1, box.dtype), [True], like)  # which raises where NumPy casts none
    new = _in_turn(recorder, box, values, box.shape)
    copyto(recorder, box, new, "unsafe", shown.astype(bool).reshape(box.shape))


@writes("place")
def place(recorder: Recorder, arr: Any, mask: Any, vals: Any) -> None:
    """Elements replaced where a mask holds, by the next of the values each."""
    _by_numpy(recorder, "np.place", np.place, arr, mask, vals)


@writes("put_along_axis")
def put_along_axis(recorder: Recorder, arr: Any, indices: Any, values: Any, axis: Any) -> None:
    """Elements replaced at positions along an axis."""
    box = target(recorder, arr)
    index = value_of(recorder, indices)
    if axis is None:
        flat = box.reshape(-1)
        put(recorder, flat, indices, values)
        return
    k = axis % box.ndim
    shape = tuple(n if a == k else m for a, (m, n) in
                  enumerate(zip(box.shape, index.type.extents, strict=True)))  # fmt: skip
    element = recorder.dtype(box.dtype)
    new = recorder.broadcast(recorder.cast(value_of(recorder, values), element), shape)
    index = recorder.broadcast(index, shape)
    box.assign(recorder.emit(graph.ScatterElements, box.value(), index, new, k, "none"))


@writes("ndarray.sort")
def sort_in_place(recorder: Recorder, a: Any, axis: int = -1, *args: Any, **kwargs: Any) -> None:
    """The elements in ascending order along an axis."""
    box = target(recorder, a)
    box[...] = recorder.namespace.sort(box, axis, *args, **kwargs)


@writes("ndarray.partition")
def partition_in_place(recorder: Recorder, a: Any, kth: Any, axis: int = -1) -> None:
    """A sorted array is a partitioned one too."""
    box = target(recorder, a)
    box[...] = recorder.namespace.partition(box, kth, axis)


def _at(ufunc: str, combine: str, inverse: str) -> None:
    def at(recorder: Recorder, a: Any, indices: Any, *b: Any) -> None:
        box = target(recorder, a)
        real = getattr(np, ufunc)
        # NumPy computes in a wider type and casts after each element
        kinds = [x.kind(0) if isinstance(x, Number) else getattr(x, "dtype", x) for x in b]
        # in which Python's numbers are arrays of their own types: i64 and u64 make f64
        arrays = [k if isinstance(k, np.dtype) else np.asarray(k).dtype for k in kinds]
        inexact = box.dtype == np.uint64 and np.result_type(box.dtype, *arrays).kind == "f"
        wide = inexact or np.result_type(box.dtype, *kinds) != box.dtype
        if not combine or wide or box.dtype.kind == "c" or not is_symbolic((box, indices, *b)):
            _by_numpy(recorder, f"np.{ufunc}.at", real.at, box, indices, *b)
            return
        value = value_of(recorder, b[0])
        if inverse:
            value = FUNCTIONS[inverse](recorder, Tracer(recorder, value))
        key = normal_key(recorder, indices)
        box.assign(put_at(recorder, box, key, value, combine))

    WRITES[f"{ufunc}.at"] = at


_COMBINER = {"add": "add", "subtract": "add", "multiply": "mul", "maximum": "max", "minimum": "min"}
for _name in sorted({f.__name__ for f in vars(np).values() if isinstance(f, np.ufunc)}):
    _at(_name, _COMBINER.get(_name, ""), "negative" if _name == "subtract" else "")


@writes("ndarray.resize", "ndarray.setflags")
def change_the_array_itself(recorder: Recorder, a: Any, *args: Any, **kwargs: Any) -> None:
    """What changes how an array lies or who may write to it, and not its elements."""
    what = "the shape or the flags of an array are set in place"
    recorder.refuse("MC0241", what, "bind the result of reshape or copy instead")


@writes("__setitem__")
def set_item(recorder: Recorder, box: Any, index: Any, new: Any) -> None:
    """`box[index] = new`; the host does what depends on how many elements a mask takes."""
    if not target(recorder, box).writeable:
        raise ValueError("assignment destination is read-only")
    if type(new) is Number and new.kind is int and box.dtype.kind in "iu" and box.itemsize < 8:
        is_known = new.term is not None or new.known is not None
        read = f"a conversion to {box.dtype}"
        new = new.read(read) if is_known else Tracer(recorder, new.box.value(), scalar=True)
    scalar = new.scalar if isinstance(new, Tracer) else isinstance(new, np.generic)
    if scalar and box.dtype.kind in "iu" and new.dtype.kind in "iuf" and (
        not np.can_cast(new.dtype, box.dtype)
    ):  # fmt: skip
        held = content_of(recorder, new)
        if isinstance(held, np.ndarray):
            np.zeros(1, box.dtype)[0] = held[()]  # raises what NumPy raises
        else:
            new = _within(recorder, boxed(recorder, new), box.dtype)
    if isinstance(new, (int, float, complex, list, tuple)) and not is_symbolic(new) and (
        box.dtype.kind in "biufc" and not isinstance(new, np.generic) and not has_tracer(new)
    ):  # fmt: skip
        new = np.asarray(new, box.dtype)  # which numbers do not fit, NumPy says
    shape = new.shape if isinstance(new, (Tracer, np.ndarray)) else ()
    if shape and _is_element(box, index):
        np.zeros(1, box.dtype)[0] = np.zeros(shape, new.dtype)
    foreign = any(map(is_foreign, (box, new)))
    masks = index if isinstance(index, tuple) else (index,)
    counted = any(isinstance(m, Tracer) and m.symbolic and m.dtype == bool for m in masks)
    if foreign or (counted and not _is_choice(masks, new, box)):
        _by_numpy(recorder, "an assignment through a mask", _assign, box, index, new)
    else:
        setitem(recorder, box, index, new)


def _within(recorder: Recorder, x: Tracer, element: Any) -> Tracer:
    """A scalar that an integer type holds.

    Where it does not, NumPy raises, which it does when it runs the function: the scalar is read at
    a place that is out of bounds then.
    """
    np_, info = recorder.namespace, np.iinfo(element)
    if x.dtype.kind == "f":
        wide = x.astype(np.float64)
        inside = np_.logical_and(wide > info.min - 1.0, wide < info.max + 1.0)
    else:
        own = np.iinfo(x.dtype)
        inside = np_.logical_and(x >= max(info.min, own.min), x <= min(info.max, own.max))
    place = recorder.cast(value_of(recorder, np_.where(inside, 0, 1)), I64)
    line = recorder.reshape(x.value(), (1,))
    return Tracer(recorder, recorder.emit_unsure(graph.Gather, line, place, 0), scalar=True)


def _is_element(box: Tracer, index: Any) -> bool:
    """Whether an index takes one element, which newer NumPys give numbers alone."""
    parts = index if isinstance(index, tuple) else (index,)
    return len(parts) == box.ndim and all(
        isinstance(p, (int, np.integer)) and not isinstance(p, bool) for p in parts
    )


def _is_choice(masks: tuple[Any, ...], new: Any, box: Tracer) -> bool:
    """Whether the same is stored at each place that the only mask takes."""
    if len(masks) != 1:
        return False
    rest = box.ndim - masks[0].ndim
    shape = np.shape(new) if not isinstance(new, Tracer) else new.shape
    surplus = len(shape) - rest
    return masks[0].ndim > 0 and (surplus <= 0 or all(n == 1 for n in shape[:surplus]))


def _assign(array: Any, index: Any, new: Any) -> None:
    array[index] = new
