"""Views at a captured loop's index: `x[k]`, `x[k - 1, 1:-1]`, `x[:, i:i + 3]`.

An index key is split into what stays (a basic index as any other, with whole axes where an index
of the loop stands) and what moves: the elements along an axis that begin at an `Index`. They are
gathered where they are read; written, they are chosen by comparing coordinates, so a write makes
all of the array anew. Whether they are within the array is decided here for all rounds; where some
round might be outside of it, the loop is written out, and NumPy's error comes in that round.

Mirrors: StableHLO's dynamic_slice and dynamic_update_slice, which clamp; ours never has to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from minicc.frontends.trace.indices import Index, Round
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.tracer import Content, Lens, Tracer
from minicc.ir import graph
from minicc.ir.core import Array, Value
from minicc.ir.types import I64


class Moving(NamedTuple):
    """What is taken along an axis: `length` elements from `start` on, or one without the axis."""

    axis: int
    start: Index
    length: int | None
    step: int


class Along(NamedTuple):
    """What an index key takes along an axis of the array itself, whether it moves or not."""

    start: Any  # an int or an Index
    length: int | None
    step: int


class Access(NamedTuple):
    """A read or write of an array's elements at a loop's index, as it was recorded.

    `value` is what was read, or the array after the write of `new`; `ops` are the first and the
    last number of the ops that did it.
    """

    value: Value
    source: Value
    new: Value | None
    region: tuple[Along, ...]
    ops: tuple[int, int]


def moves(key: Any) -> bool:
    """Whether a loop's index stands in an index key."""
    parts = key if isinstance(key, tuple) else (key,)
    return any(
        type(p) is Index or (isinstance(p, slice) and Index in map(type, (p.start, p.stop, p.step)))
        for p in parts
    )


Region = tuple[Along, ...] | None  # None where it can't be told axis by axis
Split = tuple[Any, list[Moving], Region]


def split(recorder: Recorder, key: Any, shape: tuple[int, ...]) -> Split:
    """The key with whole axes for what moves, what moves along those, and what it takes in all."""
    parts = list(key) if isinstance(key, tuple) else [key]
    if any(not _is_basic(p) for p in parts):
        recorder.write_out("an index array stands beside the number of the round")
    named = sum(p is not None and p is not Ellipsis for p in parts)
    rest = [slice(None)] * (len(shape) - named)
    at = next((n for n, p in enumerate(parts) if p is Ellipsis), len(parts))
    parts[at : at + 1] = rest
    if named > len(shape) or Ellipsis in parts:
        raise IndexError(f"too many indices: {named} for an array of {len(shape)} axes")
    still: list[Any] = []
    moving: list[Moving] = []
    region: list[Along] = []
    axis = place = 0  # of the array, and of what the still part of the key leaves
    for p in parts:
        if p is None or not moves(p):
            still.append(p)
            place += p is None or isinstance(p, slice)
            if p is not None:
                region.append(_along(p, shape[axis]))
        else:
            still.append(slice(None))
            moving.append(_moving(recorder, p, place, shape[axis]))
            region.append(Along(*moving[-1][1:]))
            place += 1
        axis += p is not None
    plain = None not in parts and all(a.step > 0 for a in region)
    return tuple(still), moving, tuple(region) if plain else None


def _along(part: Any, extent: int) -> Along:
    if isinstance(part, slice):
        start, stop, step = part.indices(extent)
        return Along(start, len(range(start, stop, step)), step)
    return Along(int(part) % max(extent, 1), None, 1)


def _is_basic(part: Any) -> bool:
    if isinstance(part, Tracer):
        return False
    whole = isinstance(part, (int, np.integer)) and not isinstance(part, (bool, np.bool_))
    return part is None or part is Ellipsis or isinstance(part, slice) or whole


def _moving(recorder: Recorder, part: Any, axis: int, extent: int) -> Moving:
    if type(part) is Index:
        return Moving(axis, _inside(recorder, part, extent - 1, extent), None, 1)
    step = 1 if part.step is None else part.step
    if type(step) is Index or step <= 0:
        recorder.write_out("the step of a slice is negative or depends on the round")
    start, stop = (
        _inside(recorder, end, extent, extent) if type(end) is Index else known
        for end, known in zip((part.start, part.stop), _ends(part, extent), strict=True)
    )
    length: Any = stop - start
    if type(length) is Index or type(start) is not Index:
        recorder.write_out("the length of a slice depends on the round")
    return Moving(axis, start, max(0, -(-length // step)), step)


def _ends(part: slice, extent: int) -> tuple[int, int]:
    """The ends of a slice that are known, as positions."""
    start, stop = (None if type(e) is Index else e for e in (part.start, part.stop))
    first, last, _ = slice(start, stop).indices(extent)
    return first, last


def _inside(recorder: Recorder, index: Index, most: int, extent: int) -> Any:
    """The position from the front; negative ones count from the end, all of them in a slice."""
    low, high = index.bounds()
    if -extent <= low < 0 <= high < extent and most < extent:
        return index % extent
    if high < 0:
        index, low, high = index.plus(extent, 1), low + extent, high + extent
    if low < 0 or high > most:
        recorder.write_out(f"an index is {low} to {high}, along an axis of {extent}")
    return index


def moving_lens(recorder: Recorder, key: Any, box: Tracer, lens: Callable[[Any], Lens]) -> Lens:
    """How a view at a loop's index sees its base; `lens` gives that of a basic index."""
    stays, moving, region = split(recorder, key, box.shape)
    still = lens(stays)
    if box.looks_at() is not None:
        region = None

    def move(array: Array) -> Array:
        # only to ask how it lies in memory, which is the same in all rounds
        parts: list[Any] = [slice(None)] * still.move(array).ndim
        for m in moving:
            parts[m.axis] = 0 if m.length is None else slice(0, m.length * m.step, m.step)
        shown: Array = still.move(array)[tuple(parts)]
        return shown

    def emit(content: Content) -> Value:
        base = content if isinstance(content, Value) else recorder.lift(content)
        first = len(recorder.ops)
        value = _gathered(recorder, still.emit(base), moving)
        note(value, base, None, first)
        return value

    def put(base: Value, new: Value) -> Value:
        assert still.put is not None
        first = len(recorder.ops)
        value: Value = still.put(base, _chosen(recorder, still.emit(base), new, moving))
        note(value, base, new, first)
        return value

    def note(value: Value, base: Value, new: Value | None, first: int) -> None:
        if region is not None and recorder.loops:
            ops = first, len(recorder.ops)
            recorder.loops[-1].accesses.append(Access(value, base, new, region, ops))

    return Lens(round_key(key), move, emit, put, moves=True)


def require_fits(recorder: Recorder, new: Any, dtype: np.dtype[Any]) -> None:
    """Have a loop written out that stores its index where some round's does not fit."""
    if type(new) is Index and dtype.kind in "iu" and not new.fits(recorder.dtype(dtype)):
        recorder.write_out(f"an index that {dtype} does not hold is stored")


def round_key(key: Any) -> Any:
    """The key of such a view's lens: equal, without a look at numbers, for the same index."""
    return "round", _told(key), key


def has_parts(key: Any) -> bool:
    """Whether an index key tells the place of a round alone, by what is computed there."""
    if isinstance(key, slice):
        key = key.start, key.stop, key.step
    return (type(key) is Index and key.parts) or (
        isinstance(key, tuple) and any(map(has_parts, key))
    )


def _told(part: Any) -> Any:
    if type(part) is Index:
        return (frozenset(part.terms.items()), part.base)
    if isinstance(part, tuple):
        return tuple(map(_told, part))
    if isinstance(part, slice):
        return ("slice", *map(_told, (part.start, part.stop, part.step)))
    return part


def key_in(loop: Round, number: int, key: Any) -> Any:
    """What an index key is in one round of a loop."""
    if isinstance(key, tuple):
        return tuple([key_in(loop, number, part) for part in key])
    if isinstance(key, slice):
        return slice(*[key_in(loop, number, p) for p in (key.start, key.stop, key.step)])
    return key.at(loop, number) if type(key) is Index else key


def _gathered(recorder: Recorder, value: Value, moving: list[Moving]) -> Value:
    for m in moving:
        if m.length is not None:
            offsets = recorder.lift(np.arange(m.length) * m.step)
            value = recorder.emit(graph.Gather, value, _sum(recorder, offsets, m.start), m.axis)
    ones = [m for m in moving if m.length is None]
    while ones:
        last = ones.pop()
        axis, start, extents = last.axis, last.start, value.type.extents
        # neighbouring axes are one, at the index that tells both
        while ones and ones[-1].axis == axis - 1:
            axis -= 1
            start = ones.pop().start.times(_size(extents[axis + 1 : last.axis + 1])).plus(start, 1)
        line = (*extents[:axis], _size(extents[axis : last.axis + 1]), *extents[last.axis + 1 :])
        value = recorder.emit(graph.Gather, recorder.reshape(value, line), _value(recorder, start),
                              axis)  # fmt: skip
    return value


def _size(extents: tuple[int, ...]) -> int:
    return int(np.prod(extents, dtype=np.int64))


def _value(recorder: Recorder, index: Any) -> Value:
    return index.value() if type(index) is Index else recorder.scalar(index, I64)


def _sum(recorder: Recorder, offsets: Value, start: Index) -> Value:
    return recorder.emit(graph.Add, offsets, start.value())


def _chosen(recorder: Recorder, base: Value, new: Value, moving: list[Moving]) -> Value:
    """`base` with new elements where the view shows it."""
    extents = base.type.extents
    shape = list(extents)
    for m in moving:
        shape[m.axis] = 1 if m.length is None else m.length
    if 0 in shape:
        return base
    new = recorder.reshape(new, tuple(shape))
    here: Value | None = None
    for m in moving:
        along = (-1, *(1,) * (len(extents) - m.axis - 1))
        places = recorder.lift(np.arange(extents[m.axis]))
        if m.length is None:
            hit = recorder.emit(graph.Eq, places, m.start.value())
        else:
            offset = recorder.emit(graph.Sub, places, m.start.value())
            hit = _within(recorder, offset, m)
            if m.length > 1:
                source = recorder.emit(graph.FloorDiv, offset, recorder.scalar(m.step, I64))
                source = recorder.emit(graph.Max, source, recorder.scalar(0, I64))
                source = recorder.emit(graph.Min, source, recorder.scalar(m.length - 1, I64))
                new = recorder.emit(graph.Gather, new, source, m.axis)
        hit = recorder.reshape(hit, (extents[m.axis], *along[1:]))
        here = hit if here is None else recorder.emit(graph.And, here, hit)
    assert here is not None
    return recorder.emit(graph.Select, here, new, base)


def _within(recorder: Recorder, offset: Value, m: Moving) -> Value:
    assert m.length is not None
    low = recorder.emit(graph.Le, recorder.scalar(0, I64), offset)
    high = recorder.emit(graph.Lt, offset, recorder.scalar(m.length * m.step, I64))
    hit = recorder.emit(graph.And, low, high)
    if m.step == 1:
        return hit
    rest = recorder.emit(graph.Mod, offset, recorder.scalar(m.step, I64))
    return recorder.emit(graph.And, hit, recorder.emit(graph.Eq, rest, recorder.scalar(0, I64)))
