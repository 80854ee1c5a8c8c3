"""`for` loops of traced functions that become loops of the graph.

`range`, `enumerate`, `zip`, `reversed` and traced arrays, where a `for` statement asks them for an
iterator, give one that drives the loop. A loop of few rounds, or one whose code can't be captured
(`code`), runs as Python has it. Any other runs its body a few times to be recorded, in the
user's own frame, with an `Index` for the number of the round, and fresh values for what a round
hands to the next (*carried*): arrays that are written to in place, and names that are bound anew
and read before. The first recording tells what is carried; when one carries no more, the ops that
it recorded are the body of a `graph.scan`, and the names and arrays get its results.

What would not be NumPy's in every round is never captured: something carried whose type a round
changes (then the first round is written out, and the rest tried once more), a carried name whose
array is written to in place, since it may be another name's too (`a, b = b, a` leaves two rounds as
one, in which each name gets its array back), and an effect on Python's own objects (`reach`). Where
the body itself needs a value while it is recorded, or fails, the trace begins once more, and that
loop is written out (`WrittenOut`).

It takes a frame, and gives items to it; it must never know which function's trace it is part of, or
what becomes of the graph.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from types import FrameType
from typing import Any, NamedTuple

from minicc.frontends.trace.loops.capture import Capture
from minicc.frontends.trace.loops.code import loop_at
from minicc.frontends.trace.loops.conditions import told
from minicc.frontends.trace.loops.data_sizes import data_range
from minicc.frontends.trace.loops.filled import is_fixed, made
from minicc.frontends.trace.loops.given_rounds import given_range
from minicc.frontends.trace.loops.grown import Grown, length
from minicc.frontends.trace.loops.indices import Index, rows
from minicc.frontends.trace.loops.left_within import left_within
from minicc.frontends.trace.loops.reach import Reach
from minicc.frontends.trace.loops.resized import changes_of, shapes_of
from minicc.frontends.trace.loops.site import Site
from minicc.frontends.trace.loops.tables import table_of
from minicc.frontends.trace.loops.turn import Turn
from minicc.frontends.trace.numbers import has_term
from minicc.frontends.trace.python_types import PythonType
from minicc.frontends.trace.recorder import FEW, Recorder
from minicc.frontends.trace.registry import Dispatch
from minicc.frontends.trace.restarts import Again
from minicc.frontends.trace.tracer import Tracer

_LONG = 1000  # operations of all rounds up to which a loop is written out
_ASKED = 4  # rounds in which a loop that may be left is asked for what leaves it
_PEELED = 2  # first rounds that are written out where types change


class Source(NamedTuple):
    """What a loop runs over: how many items, and each by its number; both may be an `Index`.

    It is none where rounds may change one of the `lists` that the items are from.
    """

    length: Any
    item: Callable[[Any], Any]
    lists: tuple[list[Any], ...] = ()


def source_of(recorder: Recorder, x: Any) -> Source | None:
    """What a value gives a loop; None where only Python can tell."""
    if type(x) is list and (whole := recorder.whole_of(x)) is not None:
        array, like = Tracer(recorder, whole), recorder.lists[id(x)].like
        if not is_fixed(like):
            return None
        return Source(len(x), lambda n: x[n] if type(n) is int else made(like, array[n]), (x,))
    if type(x) in (list, tuple) and len(x) > FEW and (table := table_of(recorder, x)) is not None:
        lists = (x,) if type(x) is list else ()
        return Source(len(x), lambda n: x[n] if type(n) is int else table.element(n), lists)
    if isinstance(x, range) and type(x) is range:
        return Source(len(x), lambda n: n * x.step + x.start)
    if type(x) is Grown:
        x.settle()
        return Source(length(x), x.element)
    if isinstance(x, Tracer) and x.ndim:
        return Source(rows(x), lambda n: x[n])
    return None


class Remembered:
    """An iterator that tells what it runs over, until it has begun."""

    def __init__(self, items: Iterator[Any], source: Source | None) -> None:
        self._items = items
        self.source = source

    def __iter__(self) -> Remembered:
        return self

    def __next__(self) -> Any:
        self.source = None
        return next(self._items)


class Iterable(PythonType):
    """What stands for `range`, `enumerate`, `zip` or `reversed`: in a `for` it drives the loop."""

    def __init__(self, recorder: Recorder, real: Any) -> None:
        self.real = real
        self._recorder = recorder

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        frame = sys._getframe(1)  # the one that called
        if self.real is range and any(map(has_term, args)):
            given = given_range(self._recorder, _site(self._recorder, frame), args)
            if given is not None:
                return given
        source = _source(self._recorder, self.real, args, kwargs)
        loop = _loop(self._recorder, frame, source, called=True)
        if loop is not None:
            return loop
        if self.real is reversed and type(args[0]) is Grown:
            return reversed(args[0])
        made = self.real(*args, **kwargs)
        return made if source is None or self.real is range else Remembered(made, source)


def _site(recorder: Recorder, frame: FrameType) -> Site | None:
    """The `for` of the user's that stands where a frame has called something, if it is one."""
    own = id(frame.f_globals) in recorder.user_globals
    code = loop_at(frame.f_code, frame.f_lasti, True) if own else None
    return None if code is None else Site(frame, code)


def _source(
    recorder: Recorder, real: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> Source | None:
    """What a call of `range`, `enumerate`, `zip` or `reversed` gives a loop."""
    if real is range:
        by_data = data_range(recorder, tuple(args))
        if by_data is not None:
            return Source(*by_data)
        return _range(*args) if Index in map(type, args) else source_of(recorder, range(*args))
    start = 0
    if real is enumerate and len(args) + len(kwargs) == 2:
        start = kwargs.get("start", args[-1])
        args, kwargs = args[:1], {}
    found = [source_of(recorder, a) for a in args]
    parts = [p for p in found if p is not None]
    lengths = [p.length for p in parts]
    strict = kwargs.get("strict") and any(n != lengths[0] for n in lengths)
    if not parts or len(parts) < len(found) or type(start) is not int:
        return None
    first = parts[0]
    if real is zip and not strict:
        lists = tuple([x for p in parts for x in p.lists])
        return Source(min(lengths), lambda n: tuple([p.item(n) for p in parts]), lists)
    if len(parts) > 1 or kwargs:
        return None
    if real is reversed:
        return Source(first.length, lambda n: first.item(n * -1 + (first.length - 1)), first.lists)
    return Source(first.length, lambda n: (n + start, first.item(n)), first.lists)


def _range(*args: Any) -> Source | None:
    """What a range gives a loop whose ends depend on the round of one around it."""
    start, stop, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
    length = stop - start if step == 1 else start - stop if step == -1 else None
    if type(length) is int:
        return Source(max(length, 0), lambda n: n * step + start)
    if type(length) is not Index or length.bounds()[0] < 0:
        return None
    return Source(length, lambda n: n * step + start)


REPLACED = {f.__name__: f for f in (range, enumerate, zip, reversed)}


def _loop(
    recorder: Recorder, frame: FrameType, source: Source | None, called: bool
) -> Iterator[Any] | None:
    """The items for the `for` statement that stands at a frame's instruction, if it is one."""
    own = id(frame.f_globals) in recorder.user_globals
    if source is None or not own:
        return None
    most = source.length.bounds()[1] if type(source.length) is Index else source.length
    code = loop_at(frame.f_code, frame.f_lasti, called)
    # Python would ask at each call whether a loop within a round is gone through
    always = not recorder.loops and frame.f_globals.get("CAPTURED", False)
    if most <= recorder.few and not always:
        if code is None or most < 2:
            return None
        recorder.short = True
        return _written_out(recorder, source) if type(source.length) is int else None
    if code is None or _may_change(recorder, Site(frame, code), source.lists):
        return None
    return _rounds(recorder, Site(frame, code), source)


def _may_change(recorder: Recorder, site: Site, lists: Sequence[list[Any]]) -> bool:
    """Whether rounds of a loop may change one of the lists that it runs over.

    Those that loops have filled are told by what rounds do with their names.
    """
    if not lists:
        return False
    names, reach = site.names(), Reach.of(recorder, site)
    sets = [names.get(n) for n in site.code.set_by]
    return any(
        any(x is y for y in sets)
        or (recorder.whole_of(x) is None and (reach.why or reach.leads_to(x)))
        for x in lists
    )


def _written_out(recorder: Recorder, source: Source) -> Iterator[Any]:
    """The items of a loop of few rounds, which is written out if that is not too long.

    That is told by its first round, where those around it are in their first ones too.
    """
    begun, rounds = recorder.work, recorder.ahead
    recorder.ahead = rounds * source.length
    try:
        for n in range(source.length):
            if n == 1:
                recorder.ahead = rounds
                recorder.require_short((recorder.work - begun) * source.length * rounds)
            yield source.item(n)
    finally:
        recorder.ahead = rounds


def drive(recorder: Recorder, frame: FrameType, source: Source) -> Iterator[Any] | None:
    """The items for the `for` statement whose iterator was called for in a frame, if it is one."""
    return _loop(recorder, frame, source, called=True)


def _rows(recorder: Recorder, frame: FrameType, array: Tracer | Grown) -> Iterator[Any] | None:
    """The rows of an array, or the elements of a list, that a `for` asks for an iterator."""
    source = source_of(recorder, array)
    loop = _loop(recorder, frame, source, called=False)
    return Remembered(array.none(), source) if loop is None and type(array) is Grown else loop


Dispatch.loop = _rows
Dispatch.test = told


def _rounds(recorder: Recorder, site: Site, source: Source) -> Generator[Any, None, None]:
    """The items of a loop: some for recording its body, or all of them."""
    learned = recorder.learned[site.key]
    why, first, stride = site.code.refused or learned.refused, 0, 1
    begins, ends = "first" in learned.alone, "last" in learned.alone
    reach = None if why else Reach.of(recorder, site)
    why = why or (reach.why if reach else "")
    if not why and type(source.length) is Index and source.length.bounds()[0] < begins + ends:
        why = "it may have no first or last round"
    if begins and not why:
        yield source.item(first)
        first, reach = first + 1, None  # names may lead to other objects then
    while not why:
        rounds = source.length - (first + ends)
        if type(rounds) is not Index or not rounds.turns:
            if rounds % stride:
                yield source.item(first)
                first, reach = first + 1, None
                continue
            rounds //= stride
            if rounds < 2:
                why = "few rounds are left"
                break
        reach = reach or Reach.of(recorder, site)
        if why := reach.why:
            break
        capture = Capture(recorder, site, first, rounds, stride, reach)
        while True:
            number: Any = capture.begin()
            for n in range(stride):
                yield source.item(number + n)
            if capture.ends():
                break
        if not capture.why and capture.finish():
            recorder.tell(str(site), _captured(source.length, first, stride, ends))
            if ends:
                yield source.item(source.length - 1)
            return
        capture.abandon()
        if type(rounds) is Index and rounds.turns:
            recorder.write_out(f"its loop at {site}: {capture.why}")
        if capture.turns and stride == 1:
            stride = 2
        elif capture.peels and first < _PEELED and rounds > recorder.few:
            yield source.item(first)
            first, reach = first + 1, None
        else:
            if not capture.why:
                recorder.numbers.require_inputs()  # which are constants till then
            why = capture.why or "all of it is known while tracing"
    yield from _others(recorder, site, source, Turn(str(site), source.length, first), why)


def _others(
    recorder: Recorder, site: Site, source: Source, turn: Turn, why: str
) -> Generator[Any, None, None]:
    """The items from a turn on of a loop that is no `Capture`: until it is left, or all of them."""
    captured = site.code.refused and (yield from left_within(recorder, site, source, turn))
    if captured and not turn.left:
        return
    if type(source.length) is Index:
        recorder.write_out(f"its loop at {site}: {why}")
    if not captured:
        recorder.tell(str(site), f"{source.length} rounds, written out: {why}")
    recorder.turns[id(site.frame), site.code.head] = turn
    first, begun = turn.at, recorder.work
    rounds = source.length - first
    told = _ASKED if site.code.refused else 1  # rounds that tell how long all of them would be
    shapes = []
    while turn.left:
        n = turn.at - first
        if n in (1, 2) and not site.code.refused:
            shapes.append(shapes_of(site.names()))
        if n == 2 and shapes and recorder.learned[site.key].resize(changes_of(*shapes)):
            recorder.end(Again())
        long = (recorder.work - begun) * rounds // max(n, 1)
        if n > told and long > _LONG and turn.here is None:
            what = f"the {source.length} rounds of the loop at {site} would be written out"
            recorder.give_up(f"{what}, about {long} operations: {why}")
        yield source.item(turn.next())


def _captured(rounds: Any, first: int, stride: int, ends: int) -> str:
    many = "as many rounds as one around it says" if type(rounds) is Index else f"{rounds} rounds"
    text = f"{many}, a loop of the graph"
    text += f", the first {first} written out" if first else ""
    text += ", the last written out" if ends else ""
    return text + (", two rounds at a time" if stride > 1 else "")
