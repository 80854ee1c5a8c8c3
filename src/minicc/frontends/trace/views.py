"""Views: transposed, reshaped, flipped and split arrays that share memory with their base.

Each function makes a `Lens`, of which NumPy's own function is one half, so that it also says what
is wrong with the arguments and whether a reshaped array is a view or a copy.
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from minicc.frontends.trace.dispatch import content_of, value_of
from minicc.frontends.trace.indexing import FLAT, index_lens, taken
from minicc.frontends.trace.lens import Lens
from minicc.frontends.trace.loops.extents import Extent, extents_among, same_number
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import traces
from minicc.frontends.trace.tracer import Tracer
from minicc.ir import graph
from minicc.ir.core import Array, Value


def boxed(recorder: Recorder, a: Any) -> Tracer:
    """An array-like argument as an array."""
    return a if isinstance(a, Tracer) else Tracer(recorder, content_of(recorder, a))


def transposed(box: Tracer, perm: tuple[int, ...]) -> Tracer:
    """A view with the axes in another order."""
    recorder = box.recorder
    back = tuple(int(k) for k in np.argsort(perm))
    return box.look(
        Lens(
            ("transpose", perm),
            lambda array: array.transpose(perm),
            lambda value: recorder.transpose(value, perm),
            lambda base, new: recorder.transpose(new, back),
        )
    )


def reshaped(box: Tracer, shape: tuple[int, ...]) -> Tracer:
    """The elements in row-major order under another shape: a view where NumPy makes one."""
    recorder = box.recorder
    if not _shows(box.shadow(), shape):
        content = box.content
        if isinstance(content, Value):
            return Tracer(recorder, recorder.reshape(content, shape))
        return Tracer(recorder, content.reshape(shape))
    return _reshaped(box, shape)


def _reshaped(box: Tracer, shape: tuple[int, ...], key: Any = None) -> Tracer:
    recorder, old = box.recorder, box.shape
    # so that it is the same for all sizes
    known = (
        shape
        if sum(type(n) is Extent for n in shape) != 1
        else tuple([-1 if type(n) is Extent else n for n in shape])
    )
    return box.look(
        Lens(
            key or ("reshape", known),
            lambda array: array.reshape(known),
            lambda value: recorder.reshape(value, shape),
            lambda base, new: recorder.reshape(new, old),
        )
    )


def _shows(array: Array, shape: tuple[int, ...]) -> bool:
    """Whether NumPy reshapes the array without a copy."""
    if _COPY is None:
        view = array.view()
        try:
            view.shape = shape
        except AttributeError:
            return False
        return True
    try:
        np.reshape(array, shape, copy=False)
    except ValueError:
        return False
    return True


# NumPy 2.1 can be asked for a view; before, setting the shape was the way
_COPY = inspect.signature(np.reshape).parameters.get("copy")


def _fixed(
    box: Tracer, key: Any, move: Callable[[Array], Any], emit: Callable[[Value], Value]
) -> Tracer:
    """A view that can't be written to."""
    return box.look(Lens(key, move, emit, None))


def wanted_shape(size: int, shape: Any) -> tuple[int, ...]:
    """A shape with its -1 replaced; ValueError where it does not fit so many elements."""
    wanted = [shape] if isinstance(shape, (int, np.integer)) else list(shape)
    extents = [n if isinstance(n, int) else operator.index(n) for n in wanted]
    if extents.count(-1) == 1:
        known = math.prod(n for n in extents if n != -1)
        if known == 0 or size % known:
            raise ValueError(f"cannot reshape array of size {size} into shape {tuple(wanted)}")
        extents[extents.index(-1)] = size // known
    if min(extents, default=0) < 0:
        raise ValueError("can only specify one unknown dimension")
    if not same_number(math.prod(extents), size):
        raise ValueError(f"cannot reshape array of size {size} into shape {tuple(wanted)}")
    return tuple(extents)


@traces("reshape", view=True)
def reshape(recorder: Recorder, a: Any, shape: Any, order: str = "C") -> Any:
    """The elements in row-major order under another shape; -1 is what remains."""
    box = boxed(recorder, a)
    extents = wanted_shape(box.size, shape)
    if order == "F":
        turned = reshaped(transposed(box, _reverse(box.ndim)), extents[::-1])
        return transposed(turned, _reverse(len(extents)))
    if order != "C":
        recorder.refuse("MC0241", f"np.reshape with order={order!r} is not traced")
    return reshaped(box, extents)


def _reverse(rank: int) -> tuple[int, ...]:
    return tuple(range(rank))[::-1]


@traces("ndarray.reshape", view=True)
def reshape_method(recorder: Recorder, a: Any, *shape: Any, order: str = "C") -> Any:
    """`a.reshape(2, 3)` or `a.reshape((2, 3))`."""
    return reshape(recorder, a, shape[0] if len(shape) == 1 else shape, order)


@traces("ndarray.flat", view=True)
def flat(recorder: Recorder, a: Tracer) -> Any:
    """What stands for NumPy's flat iterator: a view of all elements in row-major order."""
    view = _reshaped(a, (a.size,), FLAT)
    view.lies((a.itemsize,))
    return view


@traces("ravel", view=True)
def ravel(recorder: Recorder, a: Any, order: str = "C") -> Any:
    """One axis, in row-major order."""
    box = boxed(recorder, a)
    flags = box.shadow().flags
    if not (flags.f_contiguous if order == "F" else flags.c_contiguous):
        # unlike reshape, it copies where the elements do not lie one after the other
        copy = Tracer(recorder, box.content)
        line = reshape(recorder, copy, (box.size,), order)
        return Tracer(recorder, line.content)
    return reshape(recorder, box, (box.size,), order)


@traces("ndarray.flatten")
def flatten(recorder: Recorder, a: Any, order: str = "C") -> Any:
    """A new array with one axis."""
    return Tracer(recorder, value_of(recorder, ravel(recorder, a, order)))


@traces("transpose", "permute_dims", view=True)
def transpose(recorder: Recorder, a: Any, axes: Sequence[int] | None = None) -> Any:
    """The axes in another order, reversed by default."""
    box = boxed(recorder, a)
    perm = _reverse(box.ndim) if axes is None else normalize_axis_tuple(axes, box.ndim)
    if len(perm) != box.ndim:
        raise ValueError("axes don't match array")
    return transposed(box, tuple(perm))


@traces("ndarray.transpose", view=True)
def transpose_method(recorder: Recorder, a: Any, *axes: Any) -> Any:
    """`a.transpose(1, 0)`, `a.transpose((1, 0))` or `a.transpose()`."""
    if len(axes) == 1 and not isinstance(axes[0], (int, np.integer)):
        return transpose(recorder, a, axes[0])
    return transpose(recorder, a, axes or None)


@traces("swapaxes", view=True)
def swapaxes(recorder: Recorder, a: Any, axis1: int, axis2: int) -> Any:
    """Two axes exchanged."""
    box = boxed(recorder, a)
    order = list(range(box.ndim))
    i, k = (normalize_axis_index(x, box.ndim) for x in (axis1, axis2))
    order[i], order[k] = order[k], order[i]
    return transposed(box, tuple(order))


@traces("matrix_transpose", "linalg.matrix_transpose", view=True)
def matrix_transpose(recorder: Recorder, x: Any) -> Any:
    """The last two axes exchanged."""
    return swapaxes(recorder, x, -1, -2)


@traces("moveaxis", view=True)
def moveaxis(recorder: Recorder, a: Any, source: Any, destination: Any) -> Any:
    """Axes moved to other places, the others in order."""
    box = boxed(recorder, a)
    sources = normalize_axis_tuple(source, box.ndim)
    destinations = normalize_axis_tuple(destination, box.ndim)
    if len(sources) != len(destinations):
        raise ValueError("`source` and `destination` must have the same number of elements")
    order = [k for k in range(box.ndim) if k not in sources]
    for place, axis in sorted(zip(destinations, sources, strict=True)):
        order.insert(place, axis)
    return transposed(box, tuple(order))


@traces("rollaxis", view=True)
def rollaxis(recorder: Recorder, a: Any, axis: int, start: int = 0) -> Any:
    """An axis moved to stand before another."""
    box = boxed(recorder, a)
    axis = normalize_axis_index(axis, box.ndim)
    start = start + box.ndim if start < 0 else start
    return moveaxis(recorder, box, axis, start - 1 if axis < start else start)


@traces("expand_dims", view=True)
def expand_dims(recorder: Recorder, a: Any, axis: Any) -> Any:
    """New axes of extent 1."""
    box = boxed(recorder, a)
    count = 1 if isinstance(axis, (int, np.integer)) else len(axis)
    new = normalize_axis_tuple(axis, box.ndim + count)
    old = iter(box.shape)
    return reshaped(box, tuple(1 if k in new else next(old) for k in range(box.ndim + count)))


@traces("squeeze", view=True)
def squeeze(recorder: Recorder, a: Any, axis: Any = None) -> Any:
    """Without axes of extent 1."""
    box = boxed(recorder, a)
    if axis is None:
        gone = {k for k, n in enumerate(box.shape) if n == 1}
    else:
        gone = set(normalize_axis_tuple(axis, box.ndim))
        if any(box.shape[k] != 1 for k in gone):
            raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    if not gone:
        return box
    return reshaped(box, tuple(n for k, n in enumerate(box.shape) if k not in gone))


@traces("atleast_1d", view=True)
def atleast_1d(recorder: Recorder, *arys: Any) -> Any:
    """One axis at least."""
    return _at_least(recorder, arys, lambda shape: (1,) * (1 - len(shape)) + shape)


@traces("atleast_2d", view=True)
def atleast_2d(recorder: Recorder, *arys: Any) -> Any:
    """Two axes at least, new ones in front."""
    return _at_least(recorder, arys, lambda shape: (1,) * (2 - len(shape)) + shape)


@traces("atleast_3d", view=True)
def atleast_3d(recorder: Recorder, *arys: Any) -> Any:
    """Three axes at least, new ones on both sides."""
    return _at_least(recorder, arys, lambda s: np.atleast_3d(np.broadcast_to(_NOTHING, s)).shape)


_NOTHING = np.zeros(())


def _at_least(
    recorder: Recorder, arys: Sequence[Any], wanted: Callable[[tuple[int, ...]], tuple[int, ...]]
) -> Any:
    boxes = [boxed(recorder, a) for a in arys]
    found = [b if wanted(b.shape) == b.shape else reshaped(b, wanted(b.shape)) for b in boxes]
    return found[0] if len(found) == 1 else tuple(found)


def indexed(box: Tracer, *key: Any) -> Tracer:
    """The view that a basic index makes."""
    return box.look(index_lens(box.recorder, key, box.shape))


@traces("flip", view=True)
def flip(recorder: Recorder, m: Any, axis: Any = None) -> Any:
    """Backwards along axes, along all by default."""
    box = boxed(recorder, m)
    axes = range(box.ndim) if axis is None else normalize_axis_tuple(axis, box.ndim)
    return indexed(box, *[slice(None, None, -1 if k in axes else 1) for k in range(box.ndim)])


@traces("flipud", view=True)
def flipud(recorder: Recorder, m: Any) -> Any:
    """Backwards along the first axis."""
    return flip(recorder, m, 0)


@traces("fliplr", view=True)
def fliplr(recorder: Recorder, m: Any) -> Any:
    """Backwards along the second axis."""
    return flip(recorder, m, 1)


@traces("rot90", view=True)
def rot90(recorder: Recorder, m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """Turned by right angles in the plane of two axes."""
    box = boxed(recorder, m)
    first, second = axes
    if first == second or abs(first - second) == box.ndim:
        raise ValueError("Axes must be different.")
    times = k % 4
    if times == 0:
        normalize_axis_tuple(axes, box.ndim)
        return indexed(box, Ellipsis)
    if times == 2:
        return flip(recorder, box, axes)
    if times == 1:
        return swapaxes(recorder, flip(recorder, box, second), first, second)
    return flip(recorder, swapaxes(recorder, box, first, second), second)


@traces("split", view=True)
def split(recorder: Recorder, ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Parts along an axis, equal ones or between given places."""
    box = boxed(recorder, ary)
    n = box.shape[normalize_axis_index(axis, box.ndim)]
    if isinstance(indices_or_sections, (int, np.integer)) and n % int(indices_or_sections):
        raise ValueError("array split does not result in an equal division")
    return array_split(recorder, box, indices_or_sections, axis)


@traces("array_split", view=True)
def array_split(recorder: Recorder, ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Parts along an axis, the first ones longer by one where they can't be equal."""
    box = boxed(recorder, ary)
    k = normalize_axis_index(axis, box.ndim)
    n = box.shape[k]
    if isinstance(indices_or_sections, (int, np.integer)):
        count = int(indices_or_sections)
        if count <= 0:
            raise ValueError("number sections must be larger than 0.")
        lengths = [n // count + (i < n % count) for i in range(count)]
        places = [0, *(int(p) for p in np.cumsum(lengths))]
    else:
        places = [0, *(operator.index(p) for p in indices_or_sections), n]
    before = (slice(None),) * k
    return [indexed(box, *before, slice(a, b)) for a, b in pairwise(places)]


@traces("hsplit", view=True)
def hsplit(recorder: Recorder, ary: Any, indices_or_sections: Any) -> list[Any]:
    """Parts along the second axis, or of a vector."""
    box = boxed(recorder, ary)
    return split(recorder, box, indices_or_sections, 1 if box.ndim > 1 else 0)


@traces("vsplit", view=True)
def vsplit(recorder: Recorder, ary: Any, indices_or_sections: Any) -> list[Any]:
    """Parts along the first axis."""
    return split(recorder, ary, indices_or_sections, 0)


@traces("dsplit", view=True)
def dsplit(recorder: Recorder, ary: Any, indices_or_sections: Any) -> list[Any]:
    """Parts along the third axis."""
    return split(recorder, ary, indices_or_sections, 2)


@traces("unstack", view=True)
def unstack(recorder: Recorder, x: Any, *, axis: int = 0) -> tuple[Any, ...]:
    """The parts along an axis, without it."""
    box = boxed(recorder, x)
    k = normalize_axis_index(axis, box.ndim)
    around = (slice(None),) * k
    return tuple(box[(*around, i)] for i in range(box.shape[k]))  # of a vector, its elements


@traces("broadcast_to", view=True)
def broadcast_to(recorder: Recorder, array: Any, shape: Any) -> Any:
    """Repeated to a shape; it can't be written to."""
    wanted = (shape,) if isinstance(shape, (int, np.integer)) else shape
    extents = tuple([n if isinstance(n, int) else operator.index(n) for n in wanted])
    return boxed(recorder, array).look(
        _repeated(recorder, "broadcast", extents, lambda a: np.broadcast_to(a, extents), None)
    )


@traces("broadcast_arrays")
def broadcast_arrays(recorder: Recorder, *args: Any) -> tuple[Any, ...]:
    """Arrays repeated to their common shape."""
    boxes = [boxed(recorder, recorder.namespace.asarray(a)) for a in args]
    shape: Any = graph.broadcast_shapes(*[b.shape for b in boxes])
    like = np.broadcast_to(0, shape)

    def put(base: Value, new: Value) -> Value:
        recorder.refuse("MC0243", "an array that np.broadcast_arrays repeats is written to")

    def move(array: Array) -> Array:
        return np.broadcast_arrays(array, like)[0]

    lens = _repeated(recorder, "broadcast_arrays", shape, move, put)
    return tuple(b if b.shape == shape else b.look(lens) for b in boxes)


def _repeated(
    recorder: Recorder,
    name: str,
    shape: tuple[int, ...],
    move: Callable[[Array], Array],
    put: Callable[[Any, Any], Any] | None,
) -> Lens:
    """How an array is seen that is repeated to a shape; one with symbols is no NumPy array's."""

    def emit(content: Any) -> Value:
        value = content if isinstance(content, Value) else recorder.lift(content)
        return recorder.broadcast(value, shape)

    return Lens((name, shape), move, emit, put, moves=bool(extents_among(shape)))


@traces("diagonal", view=True)
def diagonal(recorder: Recorder, a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Elements whose two indices differ by `offset`, as a new last axis; not to be written to."""
    box = boxed(recorder, a)
    return _fixed(
        box,
        ("diagonal", offset, axis1, axis2),
        lambda array: np.diagonal(array, offset, axis1, axis2),
        lambda value: _diagonal(recorder, value, offset, axis1, axis2),
    )


def _diagonal(recorder: Recorder, value: Value, offset: int, axis1: int, axis2: int) -> Value:
    rank = value.type.rank
    i, k = (normalize_axis_index(x, rank) for x in (axis1, axis2))
    if i == k:
        raise ValueError("axis1 and axis2 cannot be the same")
    rest = [x for x in range(rank) if x not in (i, k)]
    value = recorder.transpose(value, (*rest, i, k))
    *outer, rows, columns = value.type.extents
    length = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    flat = recorder.reshape(value, (*outer, rows * columns))
    first = max(offset, 0) + max(-offset, 0) * columns
    places = content_of(recorder, first + recorder.namespace.arange(length) * (columns + 1))
    if isinstance(places, Value):
        return recorder.emit(graph.Gather, flat, places, len(outer))
    return taken(recorder, flat, places, len(outer))
