"""Views at a captured loop's index: `x[k]`, `x[k - 1, 1:-1]`, `x[:, i:i + 3]`.

An index key is split into what stays (a basic index as any other, with whole axes where an index
of the loop stands) and what moves: the elements along an axis that begin or end at an `Index`. They
are slices, and writes are insertions of slices, whose places (and extents, see `extents`) depend on
the round. Whether they are within the array is decided here for all rounds; where some round might
be outside of it, the loop is written out, and NumPy's error comes in that round.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from minicc.frontends.trace.lens import Content, Lens
from minicc.frontends.trace.loops.extents import Extent, cut_of
from minicc.frontends.trace.loops.indices import Index, extent_of
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.restarts import WrittenOut
from minicc.frontends.trace.tracer import Tracer
from minicc.ir import affine, graph
from minicc.ir.core import Array, Value


class Moving(NamedTuple):
    """What is taken along an axis: `length` elements from `start` on, or one without the axis."""

    axis: int
    start: Any  # an int or an Index
    length: int | None
    step: int


class Along(NamedTuple):
    """What an index key takes along an axis of the array itself, whether it moves or not."""

    start: Any  # an int or an Index
    length: int | None
    step: int


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
    parts = [int(p) if isinstance(p, np.integer) else p for p in parts]
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
        start, stop, step = cut_of(part, extent)
        return Along(start, max(0, (stop - start + step - 1) // step) if step > 0 else 0, step)
    return Along(part if part >= 0 else extent + part, None, 1)


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
    low = length.bounds()[0] if type(length) is Index else length
    if type(length) is Index and low < (step > 1):
        recorder.write_out("a slice may end before it begins")
    taken = (extent_of(recorder, length) + (step - 1)) // step if low > 0 or step == 1 else 0
    return Moving(axis, start, taken if type(length) is Index else max(0, taken), step)


def _ends(part: slice, extent: int) -> tuple[int, int]:
    """The ends of a slice that are known, as positions."""
    start, stop = (None if type(e) is Index else e for e in (part.start, part.stop))
    first, last, _ = cut_of(slice(start, stop), extent)
    return first, last


def _inside(recorder: Recorder, index: Index, most: int, extent: int) -> Any:
    """The position from the front; negative ones count from the end, all of them in a slice."""
    low, high = index.bounds()
    wraps = type(extent) is int and -extent <= low < 0 <= high < extent
    if wraps and most < extent:
        return index % extent
    if high < 0:
        index, low, high = index.plus(extent, 1), low + extent, high + extent
    if isinstance(most, Extent):  # both may depend on the round
        gap = affine.add(most.dim, affine.multiply(index.dim, -1))
        inside = recorder.rounds.is_negative(gap) is False
    else:
        inside = high <= most
    if low < 0 or not inside:
        why = f"an index is {low} to {high}, along an axis of {extent}"
        for loop in recorder.loops:
            for end in recorder.rounds.ends_beyond(loop.number, index.dim, most):
                if end not in recorder.learned[loop.key].alone:
                    raise WrittenOut(loop, why, end)
        recorder.write_out(why)
    return index


def moving_lens(recorder: Recorder, key: Any, box: Tracer, lens: Callable[[Any], Lens]) -> Lens:
    """How a view at a loop's index sees its base; `lens` gives that of a basic index."""
    stays, moving, region = split(recorder, key, box.shape)
    still = lens(stays)

    def parts(value: Value) -> list[Along]:
        of_axis = {m.axis: Along(*m[1:]) for m in moving}
        return [of_axis.get(k, Along(0, n, 1)) for k, n in enumerate(value.type.extents)]

    def move(array: Array) -> Array:
        # only to ask how it lies in memory, which is the same in all rounds
        cuts: list[Any] = [slice(None)] * still.move(array).ndim
        for m in moving:
            cuts[m.axis] = 0 if m.length is None else slice(0, m.length * m.step, m.step)
        shown: Array = still.move(array)[tuple(cuts)]
        return shown

    def emit(content: Content) -> Value:
        base = content if isinstance(content, Value) else recorder.lift(content)
        if region is not None:
            return _read(recorder, base, region)
        value = still.emit(base)
        return _read(recorder, value, parts(value))

    def put(base: Value, new: Value) -> Value:
        if region is not None:
            return _written(recorder, base, new, region)
        assert still.put is not None
        value = still.emit(base)
        whole: Value = still.put(base, _written(recorder, value, new, parts(value)))
        return whole

    return Lens(round_key(key), move, emit, put, moves=True)


def _place(start: Any) -> int:
    return start.place() if type(start) is Index else int(start)


def _read(recorder: Recorder, value: Value, region: Sequence[Along]) -> Value:
    """The elements that a region takes, without the axes of which it takes one."""
    starts = tuple(_place(a.start) for a in region)
    taken = [1 if a.length is None else a.length for a in region]
    ends = zip(starts, taken, region, strict=True)
    stops = tuple(start + (n - 1) * a.step + 1 for start, n, a in ends)
    cut = recorder.emit(graph.Slice, value, starts, stops, tuple(a.step for a in region))
    return recorder.reshape(cut, tuple(a.length for a in region if a.length is not None))


def _written(recorder: Recorder, base: Value, new: Value, region: Sequence[Along]) -> Value:
    """`base` with new elements in a region."""
    shape = tuple(1 if a.length is None else a.length for a in region)
    starts = tuple(_place(a.start) for a in region)
    steps = tuple(a.step for a in region)
    return recorder.emit(graph.InsertSlice, base, recorder.reshape(new, shape), starts, steps)


def require_fits(recorder: Recorder, new: Any, dtype: np.dtype[Any]) -> None:
    """Have a loop written out that stores its index where some round's does not fit."""
    if type(new) is Index and dtype.kind in "iu" and not new.fits(recorder.dtype(dtype)):
        recorder.write_out(f"an index that {dtype} does not hold is stored")


def round_key(key: Any) -> Any:
    """The key of such a view's lens: equal, without a look at numbers, for the same index."""
    return "round", _told(key), key


def _told(part: Any) -> Any:
    if type(part) is Index:
        return ("index", part.dim)
    if isinstance(part, tuple):
        return tuple(map(_told, part))
    if isinstance(part, slice):
        return ("slice", *map(_told, (part.start, part.stop, part.step)))
    return part


def depends(key: Any, names: Collection[str]) -> bool:
    """Whether an index key depends on the rounds of some loops, or on what data give there."""
    if isinstance(key, tuple):
        return any(depends(part, names) for part in key)
    if isinstance(key, slice):
        return any(depends(part, names) for part in (key.start, key.stop, key.step))
    return type(key) is Index and not affine.symbols(key.dim).isdisjoint(names)


def key_in(loop: str, number: Any, key: Any) -> Any:
    """What an index key is in one round of a loop."""
    if isinstance(key, tuple):
        return tuple([key_in(loop, number, part) for part in key])
    if isinstance(key, slice):
        return slice(*[key_in(loop, number, p) for p in (key.start, key.stop, key.step)])
    return key.at(loop, number) if type(key) is Index else key
