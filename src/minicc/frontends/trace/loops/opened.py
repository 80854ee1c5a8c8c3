"""`while` loops whose first test Python knows: `lo, hi = 0, len(a); while lo < hi: ...`.

What rounds change is known before the first of them and not afterwards, so Python would go through
the first rounds, and each condition there is one that data decide. Where that is met, or where the
rounds of such a loop become long, the trace begins again with the loop *opened*: when a frame comes
to it, the numbers that its test reads and its rounds change are bound to ones that are traced. So
the test is asked, and the loop is captured as any other (`whiles`), with the numbers as they were.

Frames are watched (`watch`) where a loop is opened, and nowhere else.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from types import CodeType, FrameType
from typing import Any, NamedTuple

from minicc.frontends.trace.loops.carried import ELEMENTS
from minicc.frontends.trace.loops.code import test_at
from minicc.frontends.trace.loops.flow import flow_of, jump_at
from minicc.frontends.trace.loops.liveness import local
from minicc.frontends.trace.loops.site import Site, names_of
from minicc.frontends.trace.numbers import Number
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import Dispatch
from minicc.frontends.trace.restarts import Again
from minicc.frontends.trace.tracer import Tracer
from minicc.ir import graph
from minicc.ir.core import Op


class Entry(NamedTuple):
    """Where a frame comes to a `while`: the line of its test, and where its rounds begin.

    `names` are those that the test reads and rounds bind, `head` is what a `Site` knows it by.
    """

    line: int
    rounds: int
    names: frozenset[str]
    head: int


def heads_around(code: CodeType, at: int) -> list[int]:
    """The heads of the loops around a place, the innermost first."""
    return flow_of(code).heads_around(jump_at(code, at))


@functools.lru_cache(512)
def entry_of(code: CodeType, head: int) -> Entry | None:
    """The entry of a loop; None for one that is no `while` with a test, or can't be captured."""
    flow = flow_of(code)
    if flow.steps[head].opname == "FOR_ITER":
        return None
    # Python has a copy of the test before the loop
    firsts = sorted({m for j in flow.within(head) for m in flow.copies(j) if m < head})
    test = test_at(code, flow.steps[firsts[0]].offset) if firsts else None
    line = _line(flow, firsts[0]) if firsts else None
    if test is None or line is None or test.loop.refused:
        return None
    begin = firsts[0]
    while begin and _line(flow, begin - 1) == line:
        begin -= 1
    reads = frozenset(r for step in flow.steps[begin : firsts[-1]] for r in local(step)[0])
    return Entry(line, flow.steps[head].offset, reads & test.loop.bound, test.loop.head)


def _line(flow: Any, n: int) -> int | None:
    positions = flow.steps[n].positions
    return positions.lineno if positions else None


def _entry_around(code: CodeType, at: int) -> Entry | None:
    """The entry of the innermost loop around a place."""
    head = flow_of(code).innermost(jump_at(code, at))
    return None if head is None else entry_of(code, head)


def open_around(recorder: Recorder, frame: FrameType) -> None:
    """Begin again with the innermost loop opened that a frame is in, if that is a `while`."""
    _open(recorder, frame, _entry_around(frame.f_code, frame.f_lasti))


def open_before(recorder: Recorder, site: Site) -> None:
    """Begin again with a loop opened, of which another test than its own is asked first.

    Its own is the first of a round then, which reads no element beyond the last that it allows.
    """
    entry = _entry_around(site.frame.f_code, site.code.head)
    if entry is not None and entry.head != site.code.head:
        _open(recorder, site.frame, entry)


def _open(recorder: Recorder, frame: FrameType, entry: Entry | None) -> None:
    """Begin again with a loop opened, if it is run round by round."""
    if entry is None or not any(map(_may_begin, map(names_of(frame).get, entry.names))):
        return
    key = frame.f_code, entry.head
    if recorder.learned[key].refused:
        return
    if any(c.site.frame is frame and c.key == key for c in recorder.loops):
        return
    _begin_with(recorder, key)


def _may_begin(x: Any) -> bool:
    """Whether a value may follow in rounds from a number that Python knows."""
    return type(x) in (*ELEMENTS, Number) or (isinstance(x, Tracer) and not x.ndim)


def open_left(recorder: Recorder, site: Site) -> None:
    """Begin again with a loop opened that a round has left by a test that Python knows."""
    code = site.frame.f_code
    entry = _entry_around(code, site.code.head)
    if entry is not None and entry.names:
        _begin_with(recorder, (code, entry.head))


def _begin_with(recorder: Recorder, key: tuple[CodeType, int]) -> None:
    """Begin again with a loop opened, unless it was before.

    What kept loops within from being captured may be a number that is traced from now on.
    """
    if recorder.learned[key].opens is not None:
        return
    flow = flow_of(key[0])
    within = flow.within(flow.heads_around(flow.place[key[1]])[0])
    for n in within:
        recorder.learned.pop((key[0], flow.steps[n].offset), None)
    recorder.learned[key].opens = True
    recorder.end(Again())


def linger(recorder: Recorder) -> None:
    """Open a loop that has begun another round since the trace was looked at last.

    That it has is seen by an instruction that does not follow the one where it was.
    """
    now: dict[Any, int] = {}
    frame: FrameType | None = recorder.frame()
    while frame is not None:
        own = id(frame.f_globals) in recorder.user_globals
        for head in heads_around(frame.f_code, frame.f_lasti) if own else ():
            place = id(frame), head
            now[place] = frame.f_lasti
            if frame.f_lasti <= recorder.lingers.get(place, -1):
                _open(recorder, frame, entry_of(frame.f_code, head))
        frame = frame.f_back
    recorder.lingers = now


def shut(recorder: Recorder, site: Site) -> None:
    """Begin again with a loop not opened, if it was."""
    learned = recorder.learned[site.key]
    if learned.opens:
        learned.opens = False
        recorder.end(Again())


def close(recorder: Recorder, site: Site) -> dict[str, Number]:
    """Bind the names of an opened loop to what they were; what they were bound to."""
    opened = {k for k, (_, key) in recorder.opened.items() if key == site.key}
    stands = {n: v for n, v in site.names().items() if id(v) in opened}
    site.bind({n: v.known for n, v in stands.items()})
    return stands


def grown(ops: Iterable[Op], stand: Number, now: Any) -> Any:
    """What a round of some ops leaves of a number: an int where it has grown by a known one."""
    if stand.kind is not int or type(now) is not Number or now.term is not None:
        return now
    value, start = now.box.value(), stand.box.value()
    step = 0
    makers = {v: op for op in ops for v in op.results}
    while value is not start:
        op = makers.get(value)
        if not isinstance(op, graph.Add | graph.Sub):
            return now
        value, other = op.operands
        if isinstance(op, graph.Add) and other is start:
            value, other = other, value
        known = makers.get(other)
        if not isinstance(known, graph.Constant):
            return now
        step += int(known.value.array) * (1 if isinstance(op, graph.Add) else -1)
    return stand.known + step


def watch_entries(recorder: Recorder) -> None:
    """Listen for frames that come to the loops that are opened."""
    entries: dict[CodeType, dict[int, Entry]] = {}
    for (code, head), learned in recorder.learned.items():
        if learned.opens:
            around = (entry_of(code, n) for n in heads_around(code, head))
            found = (e for e in around if e is not None and e.head == head)
            entries.setdefault(code, {}).update((e.line, e) for e in found)
    for code, by_line in entries.items():
        recorder.frames.listen(code, functools.partial(_arrive, recorder, by_line))


def _arrive(recorder: Recorder, entries: dict[int, Entry], frame: FrameType) -> None:
    """Have numbers that a loop's test reads traced where a frame comes to the loop.

    So have those that a round, which is recorded, leaves to the next.
    """
    entry = entries.get(frame.f_lineno)
    if entry is None:
        return
    key, begins = (frame.f_code, entry.head), frame.f_lasti < entry.rounds
    if not begins and not any(c.site.frame is frame and c.key == key for c in recorder.loops[-1:]):
        return
    names = frame.f_locals
    for name in entry.names & names.keys():
        if type(names[name]) in ELEMENTS:
            stand = names[name] = _stand_in(recorder, names[name])
            if begins:
                recorder.opened[id(stand)] = stand, key


def _stand_in(recorder: Recorder, value: Any) -> Number:
    """A traced number whose value Python knows."""
    kind = type(value)
    made = Number(Tracer(recorder, recorder.scalar(value, ELEMENTS[kind])), kind, kind is int)
    made.known = value
    return made


Dispatch.linger = linger
