"""Sizes that data give within captured loops: `x[at[k]:at[k + 1]]`, `range(at[k], at[k + 1])`.

Where an end of a slice, or of a range, is an element of an array, the place and the extent of what
is taken are not known before the round. Each becomes a size of the round, an `Index` as its number
is one, which the graph binds to what the elements are (`graph.sized`).

It knows slices and ranges alone: nothing of what is done with what they take.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.frontends.trace.loops.extents import dim_of
from minicc.frontends.trace.loops.indices import Index
from minicc.frontends.trace.numbers import Number, has_term
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import Dispatch
from minicc.frontends.trace.tracer import Tracer
from minicc.ir.affine import Dim
from minicc.ir.scan import ENDLESS
from minicc.ir.types import I64

_MOST_ROUNDS = 1 << 40  # of a loop over a range


def given_by_data(x: Any) -> bool:
    """Whether a value is an int that data give."""
    if type(x) is Number:
        return x.kind is int and x.term is None and x.known is None
    return type(x) is Tracer and x.scalar and x.symbolic and x.dtype.kind in "iu"


def _is_of_call(x: Any) -> bool:
    """Whether a value is an int that the call gives, which 64 bits hold."""
    return type(x) is Number and has_term(x) and x.kind is int and x.fits(I64)


def with_sizes(recorder: Recorder, index: Any, shape: tuple[int, ...]) -> Any:
    """An index with numbers of the round in the places of ends of slices that data give.

    Counts of a loop that data end, which may lead beyond the array, are elements of data in turn.
    """
    parts = index if isinstance(index, tuple) else (index,)
    if not recorder.loops:
        return index
    if any(map(_is_endless, parts)):
        parts = tuple([_box(p) if _is_endless(p) else p for p in parts])
        index = parts if isinstance(index, tuple) else parts[0]
    if not any(type(p) is slice and _is_given(p) for p in parts):
        return index
    skipped = len(shape) - sum(p is not None and p is not Ellipsis for p in parts)
    made: list[Any] = []
    axis = 0
    for p in parts:
        if type(p) is slice and _is_given(p) and axis < len(shape):
            p = _slice(recorder, p, shape[axis])
        made.append(p)
        axis += skipped if p is Ellipsis else p is not None
    return tuple(made) if isinstance(index, tuple) else made[0]


def _box(index: Index) -> Tracer:
    return Tracer(index.box.recorder, index.value(), scalar=True)


def _is_endless(part: Any) -> bool:
    """Whether a number of the round is of a loop of which data say how many rounds it has."""
    return type(part) is Index and max(map(abs, part.bounds())) >= ENDLESS // 2


def _is_given(part: slice) -> bool:
    return given_by_data(part.start) or given_by_data(part.stop)


def _slice(recorder: Recorder, part: slice, extent: int) -> slice:
    """A slice of an axis whose ends are numbers of the round, in the order that NumPy sees."""
    if part.step not in (None, 1) or type(part.step) is bool:
        recorder.write_out("a slice with a step ends where data say")
    if not extent > 0:
        recorder.write_out("a slice of nothing ends where data say")
    start, stop = part.start, part.stop
    begin = 0 if start is None else _place(recorder, start, extent)
    end = _place(recorder, extent if stop is None else stop, extent)
    first = _size(recorder, begin, extent + 1)
    return slice(first, first + _size(recorder, end - begin, extent - first + 1))


def _place(recorder: Recorder, end: Any, extent: int) -> Any:
    """Where an end of a slice is, as a traced int from 0 to the extent."""
    box = _int64(recorder, end, extent)
    np_ = recorder.namespace
    if not (isinstance(end, Tracer) and end.dtype.kind == "u"):
        box = np_.maximum(np_.where(box < 0, box + extent, box), 0)
    return np_.minimum(box, extent)


def _int64(recorder: Recorder, x: Any, most: int = _MOST_ROUNDS) -> Any:
    """An int, known or not, as a traced int64 scalar; one that is larger may be `most`."""
    if isinstance(x, (Number, Index)):
        return x.box
    if isinstance(x, Tracer):
        if x.dtype == np.uint64:
            x = recorder.namespace.minimum(x, np.uint64(most))
        return Dispatch.call(recorder, "ndarray.astype", (x, np.int64), {})
    return np.int64(max(-_MOST_ROUNDS, min(x, _MOST_ROUNDS)))


def _size(recorder: Recorder, number: Any, count: Any) -> Any:
    """A traced int as a number of the round, one of `count`."""
    if not isinstance(number, Tracer):
        return int(number)
    whole: Dim = count.dim if type(count) is Index else dim_of(count)
    value = recorder.reshape(number.value(), ())
    made = recorder.rounds.data_size(value, whole)
    return Index(recorder, made)


def data_range(recorder: Recorder, args: tuple[Any, ...]) -> tuple[Any, Any] | None:
    """How many numbers a range has whose ends data give, and what makes one of its position.

    So has one that counts by the number of a round. None for others, or outside of a loop that is
    captured.
    """
    if not recorder.loops or not 0 < len(args) < 4:
        return None
    start, stop, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
    by_round = type(step) is Index and step.turns and step.bounds()[0] > 0
    if not (by_round or any(map(given_by_data, args))):
        return None
    ints = (type(x) in (int, Index) or given_by_data(x) or _is_of_call(x) for x in (start, stop))
    if not (by_round or (type(step) is int and step)) or not all(ints):
        return None
    up, by = by_round or step > 0, _int64(recorder, step)
    first = _int64(recorder, start)
    ahead = _int64(recorder, stop) - first
    many = (ahead + (by - 1)) // by if up else (-ahead + (-by - 1)) // -by
    length = _size(recorder, many, _MOST_ROUNDS)

    def item(n: Any) -> Number:
        round_ = n.box if type(n) is Index else np.int64(n)
        return Number(first + round_ * by, int, True)

    return length, item
