"""`while` loops of traced functions that become loops of the graph.

A `while` asks a traced condition whether it goes on. Where that is the test of a loop (`code`)
whose code can be captured, it is told to, and what runs until the test is asked again is a round:
it is recorded as that of a `for` is (`capture`), with fresh values for what is carried, and becomes
the body of a `graph.while`. After the loop the test is told to end it.

The graph's loop may have no round at all, so all names that are read after it are carried, and
must be bound before; those that nobody reads any more are let go.

Where a test within leaves the loop for elsewhere (a `return`, or a `break` after other statements),
the graph's loop ends with what that round began with, and tells by which test. `conditions` has
Python go through that round once more.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from types import FrameType
from typing import Any, NoReturn

import numpy as np

from minicc.frontends.trace.loops.body import State, recorded
from minicc.frontends.trace.loops.capture import Capture
from minicc.frontends.trace.loops.carried import Carried, CarriedCount, Unlike
from minicc.frontends.trace.loops.choices import ANY, Left, as_bool
from minicc.frontends.trace.loops.code import Test
from minicc.frontends.trace.loops.extents import in_all_rounds
from minicc.frontends.trace.loops.flow import asked_at, flow_of, jump_at, raises_at
from minicc.frontends.trace.loops.indices import Index
from minicc.frontends.trace.loops.last import emptied
from minicc.frontends.trace.loops.opened import (
    grown,
    open_left,
)
from minicc.frontends.trace.loops.reach import Reach
from minicc.frontends.trace.loops.rest import Rest
from minicc.frontends.trace.loops.site import Site
from minicc.frontends.trace.loops.turn import Turn
from minicc.frontends.trace.numbers import Number, checked
from minicc.frontends.trace.pytree import leaves
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.restarts import Again, WrittenOut
from minicc.frontends.trace.tracer import Tracer
from minicc.ir import graph
from minicc.ir.core import Value
from minicc.ir.scan import ENDLESS
from minicc.ir.types import BOOL, I64, TensorType

_HOLDERS = 5
NEEDS = "a condition (if, while, and, or, not, bool())"
# what a way tells besides what names are bound to, under names that are none of Python's:
# the condition, the test that leaves the loop elsewhere, and how many rounds it is
_TEST, _LEFT_BY, _ROUNDS = "its test", "left by", "rounds done"


def _alone(names: dict[str, Any]) -> set[str]:
    """The names whose array nothing else holds."""
    found: set[str] = set()
    for n in list(names):
        box = names[n]
        # the frame, `names`, what a capture puts back, and `box` itself hold it
        whole = isinstance(box, Tracer) and box.ndim and box.looks_at() is None
        if whole and sys.getrefcount(box) <= _HOLDERS:
            found.add(n)
    return found


def _held_now(box: Tracer) -> tuple[Tracer, int, Tracer]:
    """The array that a box shows, its version, and a copy of what the box holds now."""
    return box.root, box.root.version, Tracer(box.recorder, box.content, scalar=box.scalar)


class WhileCapture(Capture):
    """A loop whose body is recorded from one asking of its test to the next."""

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
        whole = (
            test.alike and test.rest is None
            if turn is not None
            else site.frame.f_lasti > site.code.head
        )
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
        self._asks: Value  # what a test that does not leave the loop was told as a round began
        self.last_asked: Tracer | None = None  # and as the last one did
        self._more: Value  # whether another round follows, as a round tells
        self._path: dict[int, bool] = {}  # the sides that a way has taken, by their jumps
        # the ways that leave the loop for elsewhere, the jump that does so last
        self.ways_out: list[Mapping[int, bool]] = []
        # which of them left the loop, counted from 1, as a round and the loop tell
        self._left_by: Value
        self.left_by: Tracer | None = None
        self._rounds: State
        self.rounds: Value  # how many there were, but for one that left the loop elsewhere
        self._rest: Rest | None = None  # of the round that has the last item
        self._lists = 0  # how many states, the last ones, are those of lists

    def begin(self) -> Index:
        if not self.choices.sides:
            self._asks = Value(TensorType(BOOL), "asks")
            self.ways_out, self._seen = [], []
            self._rest = None
        self._path = {}
        number = super().begin()
        if self.turn is not None:
            self.turn.here = number
            self.turn.asked = None if self.test.rest is None else self._note_rest
        stands = {n: v for n, v in self._stands.items() if n not in self._carried}
        self._start |= stands
        self.site.bind(stands)
        return number

    def enter(self) -> bool:
        """Begin a round, or another way through one; what the test is told."""
        self.begin()
        stays = self.test.stays
        side = self.choose(self._asks) if stays is None else stays
        self.note(self.site.frame, side)
        return side

    def note(self, frame: FrameType, side: bool) -> None:
        """Note which side a way takes where it asks, if no round asks there twice."""
        jump = asked_at(frame.f_code, frame.f_lasti)
        if frame is self.site.frame and flow_of(frame.f_code).innermost(jump) == self.site.loop:
            self._path[jump] = side

    def _note_rest(self) -> None:
        """Note what a recording has come to where it asks for an item, if nothing was asked yet."""
        asked = self.choices.asked or self.choices.ways
        if self._rest is None and not asked and not self.appends.has_added():
            self.aliases.note_rest(self.site.names())
            changed = {k: b.content for k, (b, _, n) in self._roots.items() if b.version != n}
            self._rest = Rest(self.recorder, self.site.names(), changed)

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
        return self._told(self.condition)

    def _told(self, condition: Tracer, left_by: int = 0, rounds: int = 1) -> dict[str, Any]:
        """What a way tells besides what names are bound to."""
        return {_TEST: condition, _LEFT_BY: self._known(left_by), _ROUNDS: self._known(rounds)}

    def _known(self, number: int) -> Tracer:
        return Tracer(self.recorder, np.array(number), scalar=True)

    def passed(self, condition: Tracer, test: Test | None) -> bool | None:
        """Go on after a test that is not the one of the rounds, if it leads out of the loop.

        A round that ends there is a way of its own. Where it would raise an error, NumPy runs the
        call, and raises it. What a loop within is left by is first of all a test of that.
        """
        code, at = self.site.frame.f_code, self.site.frame.f_lasti
        jump, others = jump_at(code, at), self.test.others
        if jump in others:
            value = as_bool(self.recorder, condition)
            self.choices.passed(value, others[jump], self._left_here)
            return others[jump]
        if flow_of(code).innermost(jump) == self.site.loop:
            stays = self.passed_elsewhere(self.site.frame, condition)
            if stays is not None:
                return stays
        raising = raises_at(code, at)
        if raising is None or (test is not None and test.loop.head == self.site.code.head):
            return None
        value = as_bool(self.recorder, condition)
        truth = Tracer(self.recorder, value, scalar=True)
        checked(truth, ~truth if raising else truth)
        return not raising

    def passed_elsewhere(self, frame: FrameType, condition: Tracer) -> bool | None:
        """Go on after a test that leads out of the loop for elsewhere, if it does."""
        jump = jump_at(frame.f_code, frame.f_lasti)
        stays = self.test.elsewhere.get(jump) if frame is self.site.frame else None
        if stays is not None:
            way = {**self._path, asked_at(frame.f_code, frame.f_lasti): not stays}
            value = as_bool(self.recorder, condition)
            self.choices.passed(value, stays, partial(self._left_elsewhere, way))
        return stays

    def _left_here(self) -> Left:
        """What a round binds names to that ends here, and what it has written to arrays."""
        alive, now = self.site.code.left, self._names_now()
        alive |= self.containers.places()
        names = {n: v if n in alive else ANY for n, v in now.items()}
        names |= self.aliases.note_at_last(names)
        counts = self._counts()
        begun = bool(counts) and all(names.get(n) is self._start[n] for n in counts)
        names |= self._ended(rounds=not begun) | (counts if begun else {})
        added = self.appends.tell(self.choices)
        names |= added
        seen = [(n, *_held_now(v)) for n, v in names.items() if isinstance(v, Tracer)]
        parts = [v for item in added.values() if type(item) in (list, tuple) for v in leaves(item)]
        seen += [("", *_held_now(v)) for v in parts if isinstance(v, Tracer)]
        self._seen.append((names, seen))
        boxes = [b for b, _, version in self._roots.values() if b.version != version]
        self._touched |= {id(b): b for b in boxes}
        return names, {id(b): b.content for b in boxes}

    def _left_elsewhere(self, way: Mapping[int, bool]) -> Left:
        """What the round began with, and that it is to be gone through again."""
        self.ways_out.append(way)
        ended = self._ended(len(self.ways_out), rounds=False)
        return self._start | ended | self._counts() | self.aliases.asked, {}

    def leaves(self, frame: FrameType, way: Mapping[int, bool], condition: Value) -> bool:
        """Whether a way out of a loop within, which a condition has taken, leaves this one as well.

        It is a way of its own then, and this one goes on where the condition is false.
        """
        if frame is not self.site.frame or next(reversed(way)) not in self.test.elsewhere:
            return False
        self.choices.passed(condition, False, partial(self._left_elsewhere, way))
        return True

    def is_left_at(self, frame: FrameType) -> bool:
        """Whether what is asked in a frame may leave the loop for elsewhere."""
        asked = asked_at(frame.f_code, frame.f_lasti)
        return frame is self.site.frame and asked in self.test.elsewhere

    def _ended(self, left_by: int = 0, rounds: bool = True) -> dict[str, Any]:
        """What a way tells that ends the loop, maybe with counts as the round began with them."""
        stays = self.test.stays
        condition = self._asks if stays is None else np.array(not stays)
        return self._told(Tracer(self.recorder, condition, scalar=True), left_by, int(rounds))

    def _counts(self) -> dict[str, Any]:
        """The names whose value the number of rounds tells, which ways need not."""
        return {n: ANY for n, c in self._carried.items() if isinstance(c, CarriedCount)}

    def _all_ways(self, now: dict[str, Any]) -> dict[str, Any]:
        for names, seen in self._seen:
            for n, root, version, copy in seen:
                if root.version == version:
                    continue
                if not n:
                    self.recorder.write_out("a list gets an array that is written to later on")
                names[n] = copy  # for it was written to where the round went on
        self._seen = []
        return super()._all_ways(now)

    def _may_mix(self) -> bool:
        # else a first round tells, which Python has no number of in a program for all sizes
        return bool(self.recorder.loops or self.recorder.rounds.sizes)

    def _made(self, now: dict[str, Any]) -> list[State]:
        recorder = self.recorder
        told = {n: now.pop(n, known) for n, known in self._asked().items()}
        self.condition, self._left_by = told[_TEST], told[_LEFT_BY].value()
        for n in self._carried:
            if isinstance(now[n], Tracer) and not now[n].scalar and now[n].looks_at() is not None:
                raise Unlike(f"`{n}` shows another array after the loop")
        self._more = self._goes_on(self.condition, self._left_by)
        number = Value(TensorType(I64), "rounds")
        after = recorder.emit(graph.Add, number, told[_ROUNDS].value())
        self._rounds = State(number, number, after)  # of which no round asks the first
        states = super()._made(now)
        if self.containers.places():
            self._rest = None  # which knows of local names
        if self._rest is not None:
            read = {n: c for n, c in self._carried.items() if n in (self.test.rest or ())}
            if not self._rest.take(read, self._written, self._roots.keys()):
                self._rest = None
        lists = self.appends.states(None if self.count == ENDLESS else self.count)
        self._lists = len(lists)
        return [*states, *lists]

    def require_masks(self) -> None:
        """Begin again with indices that are 0 on sides not taken, where they may be out of bounds.

        NumPy would run the call else, as where a round looks at one more element than there are.
        """
        learned = self.recorder.learned[self.key]
        if self._unsure and self.choices.ways and not learned.masks:
            learned.masks = True
            self.recorder.end(Again())

    def _goes_on(self, condition: Tracer, left_by: Value) -> Value:
        recorder = self.recorder
        if self.test.stays is None:
            return recorder.emit(graph.Eq, left_by, recorder.scalar(0, I64))
        value = as_bool(recorder, condition)
        return value if self.test.stays else recorder.emit(graph.Not, value)

    def _where_taken(self, condition: Value) -> Value:
        """A condition that is false on a side of a branch which a round around does not take.

        There the loop might not end.
        """
        emit = self.recorder.emit
        for around in self.recorder.loops:
            for asked, side in around.choices.path():
                condition = emit(graph.And, condition, asked if side else emit(graph.Not, asked))
        return condition

    def finish_at(self, first: Tracer) -> Tracer | None:
        """Make the loop of the graph, which begins where `first` lets it, and bind its results.

        What comes back is whether it would go on, had it not had all its items; None where what
        follows is the same then.
        """
        self._end()
        recorder = self.recorder
        dead = self._bound - self.site.code.left - self._carried.keys() - self.containers.places()
        self.bind(dict.fromkeys(dead))
        for name in dead:
            del self._now[name]
        made = recorder.live(self._marker)
        emptied(self.made_before())
        self._restore()
        lists = self._begin_states()
        zero = recorder.scalar(0, I64)
        nothing = State(zero, self._rounds.arg, self._rounds.after)
        go = self._where_taken(self._goes_on(first, zero))
        going = State(go, Value(go.type), self._more)
        left = State(zero, Value(zero.type), self._left_by)
        states = [*self.states, nothing, going, *[left] * bool(self.test.elsewhere)]
        if self.test.stays is None:
            states.append(State(as_bool(recorder, first), self._asks, self.condition.value()))
        # what fails on a side that is not taken is told as well: NumPy runs the call then
        unneeded = filter(self._is_alike, self._unneeded(states))
        states += [self._last(v) for v in unneeded]
        made_of = self._emitted(go, states)
        failing = {*self._failing(states)}
        recorder.may_fail(v for s, v in zip(states, made_of, strict=True) if s.after in failing)
        made_of, (rounds, goes, *more) = made_of[: len(self.states)], made_of[len(self.states) :]
        self.rounds = rounds
        if self.test.elsewhere:
            self.left_by = Tracer(recorder, more[0], scalar=True)
        if self.test.stays is None:
            self.last_asked = Tracer(recorder, more[1], scalar=True)
        for w, value in zip(self._written.values(), made_of, strict=False):
            w.box.hold(value, self._roots[id(w.box)][2] + 1)
        results = self._by_value(made_of)
        inner = {v for op in self._ops for v in op.results}.union(s.arg for s in self.states)
        for box in made:
            content = box.held()
            if content in results:
                box.hold(results[content], box.version)
            elif content in inner:
                emptied([box])
        self._forget()
        self._bind_results(made_of, results, rounds)
        given = self.appends.give_last(iter(made_of[lists:]), partial(WrittenOut, self))
        self.bind(self.containers.given_back(given))
        for around in recorder.loops[-1:]:
            around.keep_from(self, surely=False)
        if self.turn is not None:
            self.turn.end(recorder.told)
        ended = self._come_to_end(goes, made_of, rounds)
        done = Tracer(recorder, rounds, scalar=True)
        last = {s.arg: v for s, v in zip(self.states, made_of, strict=True)}
        now = self.site.names() | self.containers.held()
        self.aliases.end(self._names, now, done, last, partial(WrittenOut, self))
        return None if ended else Tracer(recorder, goes)

    def _begin_states(self) -> int:
        """Tell what states begin with that are none of names; which is the first one of lists."""
        self.states = self.aliases.begun(self.states)
        lists = len(self.states) - self._lists
        begun = zip(self.states[lists:], self.appends.begin(), strict=True)
        self.states[lists:] = [s._replace(before=v) for s, v in begun]
        return lists

    def _come_to_end(self, goes_on: Value, made: Sequence[Value], rounds: Value) -> bool:
        """Whether the loop is at its end: the rest of its last round is done, if there is one."""
        if self.test.rest is None:
            return self.test.alike
        rest, around = self._rest, self.recorder.loops[-1:]
        if any(isinstance(a, WhileCapture) and a.is_left_at(self.site.frame) for a in around):
            return False
        if rest is None or not rest.is_sure(self._ops, {self.number, *self._data}, self._unsure):
            return False
        last = {s.arg: v for s, v in zip(self.states, made, strict=True)}
        args = [s.arg for s in self.states[len(self._written) :]]
        self.bind(rest.finish(goes_on, last, args, self._carried, rounds))
        return True

    def limit(self) -> Value:
        """How many rounds there may be."""
        many = self.count
        return many.value() if type(many) is Index else self.recorder.scalar(many, I64)

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
            [self.limit(), go, *[s.before for s in states], *captured],
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
                bound[n] = c.boxed(recorder, iter([rounds]))
                continue
            mine = list(islice(states, c.width))
            own = type(self._now[n]) is Number or isinstance(self._now[n], Tracer)
            if not (own and not c.afters and all(state.after in results for state, _ in mine)):
                bound[n] = c.boxed(recorder, iter([value for _, value in mine]))
            box = bound.get(n, self._now[n])
            if isinstance(box, Tracer) and box.ndim:
                box.unsure |= n not in self._sure
        self.bind(bound)


def _inside(site: Site) -> frozenset[int]:
    """The offsets of a loop's instructions, if it stands in another one; else none."""
    flow = flow_of(site.frame.f_code)
    heads = flow.heads_around(flow.place[site.code.head])
    within = flow.within(heads[0]) if len(heads) > 1 else ()
    return frozenset(flow.steps[n].offset for n in within)
