"""What a condition is that a loop of a function asks for while it is captured.

A test of a `while` begins a capture where it is asked first (`whiles`), and is told to go on. Where
it is asked again it ends a round, and after the last one it is told to end the loop. Where another
test left the graph's loop for elsewhere, the first one is told to go on, and Python goes through
that round once more, up to where it leaves.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FrameType
from typing import NamedTuple

from minicc.frontends.trace.loops.code import Test, test_at
from minicc.frontends.trace.loops.flow import jump_at
from minicc.frontends.trace.loops.opened import close, open_around, open_before, shut
from minicc.frontends.trace.loops.reach import Reach
from minicc.frontends.trace.loops.site import Site
from minicc.frontends.trace.loops.whiles import NEEDS, Turn, WhileCapture, as_bool
from minicc.frontends.trace.recorder import Recorder, is_own
from minicc.frontends.trace.tracer import Tracer
from minicc.ir import graph
from minicc.ir.types import I64

_TRIES = 3  # of a loop whose types may settle after a round


class LastRound(NamedTuple):
    """The round of a loop that a test leaves for elsewhere: the frame, and the jump that asks.

    `elsewhere` has what the conditions of all such jumps are if they stay.
    """

    frame: FrameType
    jump: int
    elsewhere: Mapping[int, bool]


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
        return bool(recorder.loops[-1].choose(as_bool(recorder, condition)))
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
        return side
    if test is None:
        return None
    site = Site(frame, test.loop)
    turn = recorder.turns.get((id(frame), test.turn))
    if test.turn is not None and (turn is None or not turn.left):
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
        capture.begin()
        return test.stays
    capture.condition = Tracer(recorder, as_bool(recorder, condition), scalar=True)
    if not capture.ends():
        capture.begin()
        return test.stays
    if not capture.why:
        capture.require_masks()
        capture.why = capture.why_slow(capture.states)
    if not capture.why:
        goes_on = capture.finish_at(first)
        recorder.tell(str(site), "a loop of the graph, until its condition ends it")
        left_by = capture.left_by
        del capture, inner, first
        if left_by is not None and (by := _number(recorder, left_by, len(test.elsewhere))):
            jump = [*test.elsewhere][by - 1]
            recorder.last_round = LastRound(frame, jump, test.elsewhere)
            return test.stays
        over = test.alike or not goes_on.read("bool", NEEDS)
        return test.stays != over
    shut(recorder, site)
    capture.abandon()
    recorder.tell(str(site), f"run round by round: {capture.why}")
    recorder.tries[site.key] = recorder.tries.get(site.key, 0) + 1
    return bool(first.see("bool", NEEDS))


def _number(recorder: Recorder, x: Tracer, most: int) -> int:
    """A number up to `most`: what Python reads, or where a loop around is recorded, one of all."""
    if not recorder.loops:
        return int(x.see("int", NEEDS))
    choose, value = recorder.loops[-1].choose, x.value()
    asked = (recorder.emit(graph.Eq, value, recorder.scalar(k, I64)) for k in range(1, most + 1))
    return next((k for k, equal in enumerate(asked, 1) if choose(equal)), 0)


def _told_again(recorder: Recorder, frame: FrameType) -> bool | None:
    """What a condition is where a last round is gone through again; None where it is not known."""
    last: LastRound | None = recorder.last_round
    if last is None or last.frame is not frame:
        return None
    jump = jump_at(frame.f_code, frame.f_lasti)
    if jump != last.jump:
        return last.elsewhere.get(jump)
    recorder.last_round = None
    return not last.elsewhere[jump]


def _begun(recorder: Recorder, site: Site, test: Test, turn: Turn | None) -> WhileCapture | None:
    """The capture of a loop whose test is asked for the first time."""
    code = site.code
    why = code.refused or recorder.learned[site.key].refused
    if any(c.choices.asked for c in recorder.loops):
        why = why or "stands in a branch, and might not end"
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
    recorder.last_round = None
    return WhileCapture(recorder, site, test, reach, turn, stands)


def _asking(recorder: Recorder) -> FrameType | None:
    """The user's frame, where an instruction of it asks without a library in between."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_own(frame):
        frame = frame.f_back
    return frame if frame is not None and id(frame.f_globals) in recorder.user_globals else None
