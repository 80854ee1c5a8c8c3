"""`while` loops of traced functions that become loops of the graph.

A `while` asks a traced condition whether it goes on. Where that is the test of a loop (`code`)
whose code can be captured, it is told to, and what runs until the test is asked again is a round:
it is recorded as that of a `for` is (`capture`), with fresh values for what is carried, and becomes
the body of a `graph.while`. After the loop the test is told to end it.

The graph's loop may have no round at all, so all names that are read after it are carried, and
must be bound before; those that nobody reads any more are let go.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any, NoReturn

import numpy as np

from minicc.frontends.trace.loops.body import State, recorded
from minicc.frontends.trace.loops.capture import Capture
from minicc.frontends.trace.loops.carried import Carried, CarriedCount, CarriedEither, Unlike
from minicc.frontends.trace.loops.choices import ANY, Left
from minicc.frontends.trace.loops.code import Test, flow_of, jump_at, raises_at, test_at
from minicc.frontends.trace.loops.extents import in_all_rounds
from minicc.frontends.trace.loops.indices import Index
from minicc.frontends.trace.loops.opened import close, grown, open_around, open_left, shut
from minicc.frontends.trace.loops.reach import Reach
from minicc.frontends.trace.loops.site import Site
from minicc.frontends.trace.numbers import Number, checked
from minicc.frontends.trace.recorder import Recorder, is_own
from minicc.frontends.trace.tracer import Tracer
from minicc.ir import graph
from minicc.ir.core import Value
from minicc.ir.scan import ENDLESS
from minicc.ir.types import BOOL, I64, TensorType

_HOLDERS = 5
_NEEDS = "a condition (if, while, and, or, not, bool())"


class Turn:
    """How far a `for` is that gives its items one by one; `here` is what a recording gets."""

    def __init__(self, where: str, length: int, at: int) -> None:
        self.where = where
        self.length = length
        self.at = at
        self.here: Any = None

    @property
    def left(self) -> int:
        """How many items are to come."""
        return self.length - self.at

    def next(self) -> Any:
        """The number of the next item, which may be an index."""
        if self.here is not None:
            return self.here
        self.at += 1
        return self.at - 1


def _alone(names: dict[str, Any]) -> set[str]:
    """The names whose array nothing else holds."""
    found: set[str] = set()
    for n in list(names):
        box = names[n]
        # the frame, `names`, what a capture puts back, and `box` itself hold it
        if isinstance(box, Tracer) and box.ndim and sys.getrefcount(box) <= _HOLDERS:
            found.add(n)
    return found


def _held_now(box: Tracer) -> tuple[Tracer, int, Tracer]:
    """The array that a box shows, its version, and a copy of what the box holds now."""
    return box.root, box.root.version, Tracer(box.recorder, box.content, scalar=box.scalar)


class WhileCapture(Capture):
    """A loop whose body is recorded from one asking of its test to the next; see `Turn`."""

    stacks = False
    goes_on = True

    def __init__(
        self,
        recorder: Recorder,
        site: Site,
        test: Test,
        reach: Reach,
        turn: Turn | None,
        stands: Mapping[str, Number],
    ) -> None:
        """`stands` has a traced number for each that the test reads and Python knows."""
        first, count = (0, ENDLESS) if turn is None else (turn.at, turn.left)
        super().__init__(recorder, site, first, count, 1, reach)
        self.test = test
        self.turn = turn
        self._stands = stands
        # what shares memory is the same after the loop where a round was before it
        whole = test.alike if turn is not None else site.frame.f_lasti > site.code.head
        self._sure = set(self._names) if whole else _alone(self._names)
        # what rounds that leave the loop bind names to: arrays, and what they hold there
        self._seen: list[tuple[dict[str, Any], list[tuple[str, Tracer, int, Tracer]]]] = []
        # the instructions of the loop, if another one around it may come to its test again
        self._inside = _inside(site)
        self._is_over = False
        if self._inside:
            recorder.frames.follow(site.frame, self._look)
        self.first_condition: Tracer
        self.condition: Tracer  # that was asked last
        self._more: Value  # whether another round follows, as a round tells
        self._rounds: State

    def begin(self) -> Index:
        number = super().begin()
        if self.turn is not None:
            self.turn.here = number
        stands = {n: v for n, v in self._stands.items() if n not in self._carried}
        self._start |= stands
        self.site.bind(stands)
        return number

    def _as_carried(self, name: str, now: Any) -> Carried:
        if name in self._stands:
            now = grown([*self.recorder.ops, *self._ops], self._stands[name], now)
        return super()._as_carried(name, now)

    def _look(self, frame: FrameType) -> None:
        """Notice that a round leaves the loop by a test that Python knows."""
        if frame is self.site.frame and frame.f_lasti not in self._inside:
            self._is_over = True

    def require_inside(self, frame: FrameType) -> None:
        """Begin the trace anew where a round has left the loop before a frame asks."""
        around: FrameType | None = frame
        while around is not None and around is not self.site.frame:
            around = around.f_back
        if self._is_over or around is None:
            self.left()

    def left(self) -> NoReturn:
        open_left(self.recorder, self.site)
        super().left()

    def _end(self) -> None:
        """Listen for no more lines: all rounds are recorded."""
        if self._inside:
            self.recorder.frames.stop(self.site.frame.f_code, self._look)

    def abandon(self) -> None:
        self._end()
        super().abandon()
        if self.turn is not None:
            self.turn.here = None

    def _asked(self) -> dict[str, Any]:
        return {"": self.condition}

    def passed(self, condition: Tracer, test: Test | None) -> bool | None:
        """Go on after a test that is not the one of the rounds, if it leads out of the loop.

        A round that ends there is a way of its own. Where it would raise an error, NumPy runs the
        call, and raises it.
        """
        code, at = self.site.frame.f_code, self.site.frame.f_lasti
        stays = self.test.others.get(jump_at(code, at))
        value = _as_bool(self.recorder, condition)
        if stays is not None:
            self.choices.passed(value, stays, self._left_here)
            return stays
        raising = raises_at(code, at)
        if raising is None or (test is not None and test.loop.head == self.site.code.head):
            return None
        truth = Tracer(self.recorder, value, scalar=True)
        checked(truth, ~truth if raising else truth)
        return not raising

    def _left_here(self) -> Left:
        """What a round binds names to that ends here, and what it has written to arrays."""
        alive = self.site.code.left
        names = {n: v if n in alive else ANY for n, v in self._names_now().items()}
        names[""] = Tracer(self.recorder, np.array(not self.test.stays), scalar=True)
        seen = [(n, *_held_now(v)) for n, v in names.items() if isinstance(v, Tracer)]
        self._seen.append((names, seen))
        boxes = [b for b, _, version in self._roots.values() if b.version != version]
        self._touched |= {id(b): b for b in boxes}
        return names, {id(b): b.content for b in boxes}

    def _all_ways(self, now: dict[str, Any]) -> dict[str, Any]:
        for names, seen in self._seen:
            for n, root, version, copy in seen:
                if root.version != version:  # it was written to where the round went on
                    names[n] = copy
        self._seen = []
        return super()._all_ways(now)

    def _may_mix(self) -> bool:
        return bool(self.recorder.loops)  # else a first round tells

    def _made(self, now: dict[str, Any]) -> list[State]:
        recorder = self.recorder
        self.condition = now.pop("", self.condition)
        for n in self._carried:
            if isinstance(now[n], Tracer) and not now[n].scalar and now[n].looks_at() is not None:
                raise Unlike(f"`{n}` shows another array after the loop")
        self._more = self._goes_on(self.condition)
        number = Value(TensorType(I64), "rounds")
        after = recorder.emit(graph.Add, number, recorder.scalar(1, I64))
        self._rounds = State(number, number, after)  # of which no round asks the first
        return super()._made(now)

    def _goes_on(self, condition: Tracer) -> Value:
        value = _as_bool(self.recorder, condition)
        return value if self.test.stays else self.recorder.emit(graph.Not, value)

    def finish_at(self, first: Tracer) -> Tracer:
        """Make the loop of the graph, which begins where `first` lets it, and bind its results.

        What comes back is whether it would go on, had it not had all its items.
        """
        self._end()
        recorder = self.recorder
        dead = self._bound - self.site.code.left - self._carried.keys()
        self.site.bind(dict.fromkeys(dead))
        for name in dead:
            del self._now[name]
        made = recorder.live(self._marker)
        self._empty(self.made_before())
        self._restore()
        nothing = State(recorder.scalar(0, I64), self._rounds.arg, self._rounds.after)
        go = self._goes_on(first)
        going = State(go, Value(go.type), self._more)
        states = [*self.states, nothing, going]
        # what fails on a side that is not taken is told as well: NumPy runs the call then
        unneeded = filter(self._is_alike, self._unneeded(states))
        states += [self._last(v) for v in unneeded]
        made_of = self._emitted(go, states)
        failing = {*self._failing(states)}
        recorder.may_fail(v for s, v in zip(states, made_of, strict=True) if s.after in failing)
        made_of, (rounds, goes, *_) = made_of[: len(self.states)], made_of[len(self.states) :]
        for w, value in zip(self._written.values(), made_of, strict=False):
            w.box.hold(value, self._roots[id(w.box)][2] + 1)
        results = self._by_value(made_of)
        inner = {v for op in self._ops for v in op.results}.union(s.arg for s in self.states)
        for box in made:
            content = box.held()
            if content in results:
                box.hold(results[content], box.version)
            elif content in inner:
                self._empty([box])
        self._forget()
        self._bind_results(made_of, results, rounds)
        for around in recorder.loops[-1:]:
            around.keep_from(self, surely=False)
        if self.turn is not None:
            self.turn.here, self.turn.at = None, self.turn.length
            recorder.told.pop(self.turn.where, None)
        return Tracer(recorder, goes)

    def _by_value(self, made: Sequence[Value]) -> dict[Value, Value]:
        """The last states by what a round leaves of them, where that tells which one it is."""
        begun: dict[Value, set[Value]] = {}
        for state in self.states:
            begun.setdefault(state.after, set()).add(state.before)
        pairs = zip(self.states, made, strict=True)
        return {s.after: value for s, value in pairs if len(begun[s.after]) == 1}

    def _emitted(self, go: Value, states: Sequence[State]) -> Sequence[Value]:
        """The last states."""
        recorder = self.recorder
        yields = [self._more, *[s.after for s in states]]
        args = [Value(TensorType(I64)), Value(go.type), *[s.arg for s in states]]
        captured, body = recorded(args, self._ops, yields, self._data, self.is_much)
        if not (recorder.loops or recorder.rounds.sizes):
            body = in_all_rounds(body)
        return recorder.emit_all(
            graph.While,
            [recorder.scalar(self.count, I64), go, *[s.before for s in states], *captured],
            states=len(states),
            types=tuple([s.before.type for s in states]),
            index=self.number,
            body=body,
        )

    def _bind_results(
        self, made: Sequence[Value], results: dict[Value, Value], rounds: Value
    ) -> None:
        recorder = self.recorder
        bound: dict[str, Any] = {}
        skipped = len(self._written)
        states = iter(zip(self.states[skipped:], made[skipped:], strict=True))
        for n, c in self._carried.items():
            if isinstance(c, CarriedCount):
                bound[n] = c.boxed(recorder, rounds)
                continue
            state, value = next(states)
            if isinstance(c, CarriedEither):
                bound[n] = c.boxed(recorder, value, next(states)[1])
                continue
            known = state.after in results and isinstance(self._now[n], (Tracer, Number))
            if not known or c.after is not None:
                bound[n] = c.boxed(recorder, value)
            box = bound.get(n, self._now[n])
            if isinstance(box, Tracer) and box.ndim:
                box.unsure |= n not in self._sure
        self.site.bind(bound)


def _inside(site: Site) -> frozenset[int]:
    """The offsets of a loop's instructions, if it stands in another one; else none."""
    flow = flow_of(site.frame.f_code)
    heads = flow.heads_around(flow.place[site.code.head])
    within = flow.within(heads[0]) if len(heads) > 1 else ()
    return frozenset(flow.steps[n].offset for n in within)


def _as_bool(recorder: Recorder, condition: Tracer) -> Value:
    value = recorder.reshape(condition.value(), ())
    element = value.type.dtype
    if element is not BOOL:
        value = recorder.emit(graph.Ne, value, recorder.scalar(0, element))
    return value


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
        return bool(recorder.loops[-1].choose(_as_bool(recorder, condition)))
    return side


def _tested(recorder: Recorder, condition: Tracer, frame: FrameType) -> bool | None:
    """What a condition is where it is a test of a loop that is captured; else None."""
    inner = recorder.loops[-1] if recorder.loops else None
    own = isinstance(inner, WhileCapture) and inner.site.frame is frame
    capture: WhileCapture | None = inner if own else None
    test = test_at(frame.f_code, frame.f_lasti)
    if capture is not None:
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
        capture = _begun(recorder, site, test, turn)
        if capture is None:
            return None
        capture.first_condition = condition
        capture.begin()
        return test.stays
    capture.condition = Tracer(recorder, _as_bool(recorder, condition), scalar=True)
    if not capture.ends():
        capture.begin()
        return test.stays
    capture.why = capture.why or capture.why_slow(capture.states)
    if not capture.why:
        goes_on = capture.finish_at(first)
        recorder.tell(str(site), "a loop of the graph, until its condition ends it")
        del capture, inner, first
        over = test.alike or not goes_on.read("bool", _NEEDS)
        return test.stays != over
    shut(recorder, site)
    capture.abandon()
    recorder.tell(str(site), f"run round by round: {capture.why}")
    recorder.tries[site.key] = recorder.tries.get(site.key, 0) + 1
    return bool(first.see("bool", _NEEDS))


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
    return WhileCapture(recorder, site, test, reach, turn, stands)


_TRIES = 3  # of a loop whose types may settle after a round


def _asking(recorder: Recorder) -> FrameType | None:
    """The user's frame, where an instruction of it asks without a library in between."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_own(frame):
        frame = frame.f_back
    return frame if frame is not None and id(frame.f_globals) in recorder.user_globals else None
