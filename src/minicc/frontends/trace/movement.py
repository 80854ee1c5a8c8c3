"""Moving data: shapes, axes, joining, splitting, padding, repeating.

Mirrors: NumPy's array manipulation routines; JAX's `lax_numpy`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from minicc.frontends.trace.dispatch import value_of
from minicc.frontends.trace.indexing import Cut, cut
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import traces
from minicc.ir import graph
from minicc.ir.core import Literal, Value


def size_of(value: Value) -> int:
    """The number of elements."""
    return int(np.prod(value.type.extents, dtype=np.int64))


def cut_axis(recorder: Recorder, value: Value, axis: int, piece: Cut) -> Value:
    """A slice along one axis."""
    cuts = [(0, n, 1) for n in value.type.extents]
    cuts[axis] = piece
    return cut(recorder, value, cuts)


@traces("reshape", view=True)
def reshape(recorder: Recorder, a: Any, shape: Any, order: str = "C") -> Value:
    """The elements in row-major order under another shape; -1 is what remains."""
    if order != "C":
        recorder.refuse("MC0241", f"np.reshape with order={order!r} is not traced")
    value = value_of(recorder, a)
    wanted = [shape] if isinstance(shape, (int, np.integer)) else list(shape)
    extents = [int(n) for n in wanted]
    if extents.count(-1) == 1:
        known = int(np.prod([n for n in extents if n != -1], dtype=np.int64))
        if known == 0 or size_of(value) % known:
            raise ValueError(f"cannot reshape array of size {size_of(value)} into shape {extents}")
        extents[extents.index(-1)] = size_of(value) // known
    if min(extents, default=0) < 0:
        raise ValueError("can only specify one unknown dimension")
    if int(np.prod(extents, dtype=np.int64)) != size_of(value):
        raise ValueError(f"cannot reshape array of size {size_of(value)} into shape {extents}")
    return recorder.reshape(value, tuple(extents))


@traces("ndarray.reshape", view=True)
def reshape_method(recorder: Recorder, a: Any, *shape: Any, order: str = "C") -> Value:
    """`a.reshape(2, 3)` or `a.reshape((2, 3))`."""
    return reshape(recorder, a, shape[0] if len(shape) == 1 else shape, order)


@traces("ravel", view=True)
def ravel(recorder: Recorder, a: Any) -> Value:
    """One axis, in row-major order."""
    return reshape(recorder, a, -1) if size_of(value_of(recorder, a)) else reshape(recorder, a, 0)


@traces("ndarray.flatten")
def flatten(recorder: Recorder, a: Any) -> Value:
    """A new array with one axis."""
    return ravel(recorder, a)


@traces("transpose", "permute_dims", view=True)
def transpose(recorder: Recorder, a: Any, axes: Sequence[int] | None = None) -> Value:
    """The axes in another order, reversed by default."""
    value = value_of(recorder, a)
    rank = value.type.rank
    perm = tuple(range(rank))[::-1] if axes is None else normalize_axis_tuple(axes, rank)
    if len(perm) != rank:
        raise ValueError("axes don't match array")
    return recorder.transpose(value, tuple(perm))


@traces("ndarray.transpose", view=True)
def transpose_method(recorder: Recorder, a: Any, *axes: Any) -> Value:
    """`a.transpose(1, 0)`, `a.transpose((1, 0))` or `a.transpose()`."""
    if len(axes) == 1 and not isinstance(axes[0], (int, np.integer)):
        return transpose(recorder, a, axes[0])
    return transpose(recorder, a, axes or None)


@traces("swapaxes", view=True)
def swapaxes(recorder: Recorder, a: Any, axis1: int, axis2: int) -> Value:
    """Two axes exchanged."""
    value = value_of(recorder, a)
    order = list(range(value.type.rank))
    i, k = (normalize_axis_index(x, value.type.rank) for x in (axis1, axis2))
    order[i], order[k] = order[k], order[i]
    return recorder.transpose(value, tuple(order))


@traces("matrix_transpose", "linalg.matrix_transpose", view=True)
def matrix_transpose(recorder: Recorder, x: Any) -> Value:
    """The last two axes exchanged."""
    return swapaxes(recorder, x, -1, -2)


@traces("moveaxis", view=True)
def moveaxis(recorder: Recorder, a: Any, source: Any, destination: Any) -> Value:
    """Axes moved to other places, the others in order."""
    value = value_of(recorder, a)
    rank = value.type.rank
    sources = normalize_axis_tuple(source, rank)
    destinations = normalize_axis_tuple(destination, rank)
    if len(sources) != len(destinations):
        raise ValueError("`source` and `destination` must have the same number of elements")
    order = [k for k in range(rank) if k not in sources]
    for place, axis in sorted(zip(destinations, sources, strict=True)):
        order.insert(place, axis)
    return recorder.transpose(value, tuple(order))


@traces("expand_dims", view=True)
def expand_dims(recorder: Recorder, a: Any, axis: Any) -> Value:
    """New axes of extent 1."""
    value = value_of(recorder, a)
    count = 1 if isinstance(axis, int) else len(axis)
    new = normalize_axis_tuple(axis, value.type.rank + count)
    old = iter(value.type.extents)
    shape = [1 if k in new else next(old) for k in range(value.type.rank + count)]
    return recorder.reshape(value, tuple(shape))


@traces("squeeze", view=True)
def squeeze(recorder: Recorder, a: Any, axis: Any = None) -> Value:
    """Without axes of extent 1."""
    value = value_of(recorder, a)
    extents = value.type.extents
    if axis is None:
        gone = {k for k, n in enumerate(extents) if n == 1}
    else:
        gone = set(normalize_axis_tuple(axis, len(extents)))
        if any(extents[k] != 1 for k in gone):
            raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return recorder.reshape(value, tuple(n for k, n in enumerate(extents) if k not in gone))


@traces("broadcast_to", view=True)
def broadcast_to(recorder: Recorder, array: Any, shape: Any) -> Value:
    """Repeated to a shape."""
    extents = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
    return recorder.broadcast(value_of(recorder, array), extents)


@traces("broadcast_arrays")
def broadcast_arrays(recorder: Recorder, *args: Any) -> tuple[Value, ...]:
    """Arrays repeated to their common shape."""
    values = [value_of(recorder, a) for a in args]
    shape = np.broadcast_shapes(*[v.type.extents for v in values])
    return tuple(recorder.broadcast(v, shape) for v in values)


def _at_least(recorder: Recorder, a: Any, rank: int) -> Value:
    value = value_of(recorder, a)
    extents = value.type.extents
    shape = (*(1,) * (rank - len(extents)), *extents)
    return recorder.reshape(value, shape)


@traces("atleast_1d", view=True)
def atleast_1d(recorder: Recorder, a: Any) -> Value:
    """One axis at least."""
    return _at_least(recorder, a, 1)


@traces("atleast_2d", view=True)
def atleast_2d(recorder: Recorder, a: Any) -> Value:
    """Two axes at least."""
    return _at_least(recorder, a, 2)


@traces("flip", view=True)
def flip(recorder: Recorder, m: Any, axis: Any = None) -> Value:
    """Reversed along axes, all by default."""
    value = value_of(recorder, m)
    rank = value.type.rank
    axes = range(rank) if axis is None else normalize_axis_tuple(axis, rank)
    cuts: list[Cut] = [(0, n, 1) for n in value.type.extents]
    for k in axes:
        n = value.type.extents[k]
        cuts[k] = (n - 1, -1, -1) if n else (0, 0, 1)
    return cut(recorder, value, cuts)


@traces("pad")
def pad(
    recorder: Recorder,
    array: Any,
    pad_width: Any,
    mode: str = "constant",
    *,
    constant_values: Any = 0,
) -> Value:
    """One number around an array."""
    if mode != "constant":
        recorder.refuse("MC0241", f"np.pad with mode={mode!r} is not traced", "mode='constant' is")
    value = value_of(recorder, array)
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


@traces("diagonal")
def diagonal(recorder: Recorder, a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value:
    """Elements whose two indices differ by `offset`, as a new last axis."""
    value = value_of(recorder, a)
    rank = value.type.rank
    i, k = (normalize_axis_index(x, rank) for x in (axis1, axis2))
    rest = [x for x in range(rank) if x not in (i, k)]
    value = recorder.transpose(value, (*rest, i, k))
    *outer, rows, columns = value.type.extents
    length = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    flat = recorder.reshape(value, (*outer, rows * columns))
    first = max(offset, 0) + max(-offset, 0) * columns
    places = first + np.arange(length) * (columns + 1)
    return recorder.emit(graph.Gather, flat, recorder.lift(places), len(outer))


@traces("trace")
def trace(recorder: Recorder, a: Any, offset: int = 0) -> Any:
    """The sum of a diagonal."""
    return recorder.namespace.sum(recorder.namespace.diagonal(a, offset), axis=-1)
