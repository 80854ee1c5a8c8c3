"""What a condition is that a loop of a function asks for while it is captured.

A test of a `while` begins a capture where it is asked first (`whiles`), and is told to go on. Where
it is asked again it ends a round, and after the last one it is told to end the loop. Where another
test left the graph's loop for elsewhere, the first one is told to go on, and Python goes through
that round once more, up to where it leaves.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import NamedTuple

from minicc.frontends.trace.loops.choices import as_bool
from minicc.frontends.trace.loops.code import Test, test_at
from minicc.frontends.trace.loops.flow import asked_at, flow_of
from minicc.frontends.trace.loops.opened import close, open_around, open_before, shut
from minicc.frontends.trace.loops.reach import Reach
from minicc.frontends.trace.loops.site import Site
from minicc.frontends.trace.loops.turn import Turn
from minicc.frontends.trace.loops.whiles import NEEDS, WhileCapture
from minicc.frontends.trace.recorder import Recorder, is_own
from minicc.frontends.trace.tracer import Tracer
from minicc.ir import graph
from minicc.ir.types import I64

_TRIES = 3  # of a loop whose types may settle after a round


class LastRound(NamedTuple):
    """The round of a loop that a test leaves for elsewhere: the frame, and the way that it takes.

    The way has the sides by the jumps that ask, the one that leaves the loop last. None asks twice
    in a round, so `told` are those of which it is known.
    """

    frame: FrameType
    way: Mapping[int, bool]
    told: set[int]

    @property
    def loop(self) -> int | None:
        """The head of the loop."""
        return flow_of(self.frame.f_code).innermost(next(iter(self.way)))


def told(recorder: Recorder, condition: Tracer) -> bool | None:
    """What a condition is where a loop is captured: of a test, or within the body; else None."""
    if condition.size != 1 or condition.dtype.kind not in "biuf":
        return None
    frame = _asking(recorder)
    for around in recorder.loops:
        if isinstance(around, WhileCapture) and frame is not None:
            around.require_inside(frame)
    side = None if frame is None else _tested(recorder, condition, frame)
    if side is None and frame is not None:
        open_around(recorder, frame)
    if side is None and recorder.loops:
        capture = recorder.loops[-1]
        if isinstance(capture, WhileCapture) and frame is not None:
            side = capture.passed_elsewhere(frame, condition)
        if side is None:
            side = bool(capture.choose(as_bool(recorder, condition)))
        if isinstance(capture, WhileCapture) and frame is not None:
            capture.note(frame, side)
    return side


def _tested(recorder: Recorder, condition: Tracer, frame: FrameType) -> bool | None:
    """What a condition is where it is a test of a loop that is captured; else None."""
    inner = recorder.loops[-1] if recorder.loops else None
    own = isinstance(inner, WhileCapture) and inner.site.frame is frame
    capture: WhileCapture | None = inner if own else None
    test = test_at(frame.f_code, frame.f_lasti)
    side = _told_again(recorder, frame)
    if side is None and capture is not None:
        side = capture.passed(condition, test)
        if side is not None:
            capture.note(frame, side)
    if side is not None:
        return side
    if test is None:
        return None
    site = Site(frame, test.loop)
    turn = recorder.turns.get((id(frame), test.turn))
    if test.turn is not None and (turn is None or not turn.left):
        return None
    if test.stays is None and _is_in_round(recorder, capture, site):
        return None
    first = condition
    if capture is not None and capture.key == site.key:
        first = capture.first_condition
    else:
        if test.turn is None:
            open_before(recorder, site)
        capture = _begun(recorder, site, test, turn)
        if capture is None:
            return None
        capture.first_condition = condition
        return capture.enter()
    capture.condition = Tracer(recorder, as_bool(recorder, condition), scalar=True)
    if not capture.ends():
        return capture.enter()
    if not capture.why:
        capture.require_masks()
        capture.why = capture.why_slow(capture.states)
    if not capture.why:
        goes_on = capture.finish_at(first)
        recorder.tell(str(site), "a loop of the graph, until its condition ends it")
        left_by, ways, asked = capture.left_by, capture.ways_out, capture.last_asked
        del capture, inner, first
        by = 0 if left_by is None else way_out(recorder, left_by, ways, test, frame)
        if by:
            recorder.last_round = LastRound(frame, ways[by - 1], set())
        again = _told_again(recorder, frame) if by else None
        if again is not None:
            return again
        if test.stays is None:
            return _truth(recorder, asked)
        over = not by and (goes_on is None or _is_left(recorder, goes_on, test, frame))
        return test.stays != over
    shut(recorder, site)
    capture.abandon()
    recorder.tell(str(site), f"run round by round: {capture.why}")
    recorder.tries[site.key] = recorder.tries.get(site.key, 0) + 1
    return bool(first.see("bool", NEEDS))


def _is_left(recorder: Recorder, goes_on: Tracer, test: Test, frame: FrameType) -> bool:
    """Whether its test left a loop; one that leaves a loop around as well is a way of that."""
    if recorder.loops:
        way = {asked_at(frame.f_code, frame.f_lasti): not test.stays}
        if recorder.loops[-1].leaves(frame, way, recorder.emit(graph.Not, goes_on.value())):
            return False
    return not goes_on.read("bool", NEEDS)


def _truth(recorder: Recorder, x: Tracer | None) -> bool:
    """A truth value, as Python reads it or a loop around that is recorded has both sides."""
    assert x is not None
    if not recorder.loops:
        return bool(x.see("bool", NEEDS))
    return bool(recorder.loops[-1].choose(x.value()))


def way_out(
    recorder: Recorder, x: Tracer, ways: Sequence[Mapping[int, bool]], test: Test, frame: FrameType
) -> int:
    """Which way a loop was left, of these; 0 for none, where its test or its items ended it."""
    surely, most = test.stays is None and test.turn is None, len(ways)
    if not recorder.loops and not (surely and most == 1):
        return int(x.see("int", NEEDS))
    value, around = x.value(), recorder.loops[-1] if recorder.loops else None
    for k, way in enumerate(ways, 1):
        if surely and k == most:
            return k
        taken = recorder.emit(graph.Eq, value, recorder.scalar(k, I64))
        assert around is not None
        if not around.leaves(frame, way, taken) and around.choose(taken):
            return k
    return 0


def _is_in_round(recorder: Recorder, capture: WhileCapture | None, site: Site) -> bool:
    """Whether a round of the loop is recorded from another place, or its last one gone through."""
    last: LastRound | None = recorder.last_round
    again = last is not None and last.frame is site.frame and last.loop == site.loop
    return again or bool(capture and capture.key != site.key and capture.site.loop == site.loop)


def _told_again(recorder: Recorder, frame: FrameType) -> bool | None:
    """What a condition is where a last round is gone through again; None where it is not known."""
    last: LastRound | None = recorder.last_round
    if last is None or last.frame is not frame:
        return None
    jump = asked_at(frame.f_code, frame.f_lasti)
    outside = last.loop not in flow_of(frame.f_code).heads_around(jump)
    if outside or jump in last.told:  # Python knew that it leaves the loop
        recorder.last_round = None
        return None
    if jump == next(reversed(last.way)):
        recorder.last_round = None
    elif jump in last.way:
        last.told.add(jump)
    return last.way.get(jump)


def _pending(last: LastRound | None, site: Site) -> LastRound | None:
    """The last round that is gone through, if a loop that begins stands within it."""
    flow = flow_of(site.frame.f_code)
    around = flow.heads_around(flow.place[site.code.head])[1:]
    inside = last is not None and last.frame is site.frame
    return last if last and inside and last.loop in around else None


def _begun(recorder: Recorder, site: Site, test: Test, turn: Turn | None) -> WhileCapture | None:
    """The capture of a loop whose test is asked for the first time."""
    code = site.code
    why = code.refused or recorder.learned[site.key].refused
    reach = Reach(recorder) if why else Reach.of(recorder, site)
    why = why or reach.why
    if why:
        recorder.tell(str(site), f"run round by round: {why}")
    unbound = code.left - site.names().keys()
    if turn is not None and turn.left < 2:
        return None
    if why or unbound or recorder.tries.get(site.key, 0) >= _TRIES:
        shut(recorder, site)
        return None
    stands = close(recorder, site)
    recorder.last_round = _pending(recorder.last_round, site)
    return WhileCapture(recorder, site, test, reach, turn, stands)


def _asking(recorder: Recorder) -> FrameType | None:
    """The user's frame, where an instruction of it asks without a library in between.

    Code of ours that is traced as the user's is no library.
    """
    frame: FrameType | None = sys._getframe(1)
    users = recorder.user_globals
    while frame is not None and is_own(frame) and id(frame.f_globals) not in users:
        frame = frame.f_back
    return frame if frame is not None and id(frame.f_globals) in users else None
