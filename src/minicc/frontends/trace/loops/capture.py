"""The recording of a loop's body, and the loop of the graph that comes of it."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from functools import partial
from types import FrameType
from typing import Any, NoReturn

from minicc.frontends.trace.loops.ahead import read_ahead, require_ahead
from minicc.frontends.trace.loops.aliases import Aliases
from minicc.frontends.trace.loops.appended import Appends
from minicc.frontends.trace.loops.body import State, emit_loop, same_in_all, symbols_of, zeros_of
from minicc.frontends.trace.loops.carried import (
    Carried,
    CarriedArray,
    Turned,
    Unlike,
    Written,
    carried,
    mistaken,
    same_type,
)
from minicc.frontends.trace.loops.choices import Choices, Chooser, is_worth_a_branch
from minicc.frontends.trace.loops.containers import Containers
from minicc.frontends.trace.loops.extents import DataSize
from minicc.frontends.trace.loops.gone import Gone
from minicc.frontends.trace.loops.guesses import found_before, guessed, is_another, wrong_names
from minicc.frontends.trace.loops.indices import Index
from minicc.frontends.trace.loops.last import Last, emptied
from minicc.frontends.trace.loops.reach import Reach
from minicc.frontends.trace.loops.resized import of_changes, resized
from minicc.frontends.trace.loops.sides import Weigh, branches
from minicc.frontends.trace.loops.site import Site
from minicc.frontends.trace.needed import lost
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.restarts import Again, WrittenOut
from minicc.frontends.trace.tracer import Tracer
from minicc.ir import affine
from minicc.ir.core import Value
from minicc.ir.rewrite import live

_RECORDINGS = 6  # of a body, until nothing more is found to be carried
_UNBOUND: Any = type("Unbound", (), {})()


class Capture:
    """A loop whose body is recorded; `why` says why it can't be captured, once this is known.

    `peels` says whether it may be after its first round, `turns` whether it may be with two rounds
    as one.
    """

    goes_on = False  # whether data end the loop, of which rounds may have been run before

    def __init__(
        self, recorder: Recorder, site: Site, first: int, count: Any, stride: int, reach: Reach
    ) -> None:
        """Of the items from the `first` on, `stride` in each of `count` rounds, maybe an index."""
        self.recorder = recorder
        self.site = site
        self.first = first
        self.stride = stride
        self.count = count
        self.reach = reach
        self.why = ""
        self.peels = False
        self.turns = False
        self._recordings = 0
        self.states: list[State] = []
        self._begun = recorder.count
        self._names = site.names()
        known = None if self.goes_on else count
        self.appends = Appends(recorder, site.code.appended, self._names, reach, known)
        learned = recorder.learned[self.key]
        read_ahead(recorder, self.key, self._names)
        self.containers = Containers(recorder, learned, site, self.appends, reach)
        self._carried, arrays = self._guess()
        # only now, for what is carried may be taken on the host, which begins a segment
        self._pending = recorder.live(pending=True)
        roots = [b for b in recorder.live() if b.looks_at() is None]
        self._roots = {id(b): (b, b.content, b.version) for b in roots}
        self._written = {id(b): Written(b) for b in arrays if id(b) in self._roots}
        self._guessed: set[Any] = {*self._carried, *self._written}
        self._sampled: Any = None  # what was recorded of the first sample
        self._bound: set[str] = set()  # names that rounds bind
        self._kept: set[str] = set()  # those of them that loops within may leave as they were
        self._fresh: dict[str, Any] = {}
        self._touched: dict[int, Tracer] = {}
        self._data: dict[str, DataSize] = {}
        self.choices = Choices(recorder)
        self.aliases = Aliases(recorder, learned)
        self.is_much: Weigh | None = None  # where sides are in branches

    def _guess(self) -> tuple[dict[str, Carried], list[Tracer]]:
        """The names and arrays that are probably carried, for each further recording takes as long.

        That is what the code tells, and what was carried when this loop was captured in another
        round of one around. What an earlier recording of that one made may be alive, but holds a
        value of that recording.
        """
        arrays, found = found_before(self.recorder, (self.key, self.first, self.stride))
        names, more = guessed(self.recorder, self.site.code, self._names, found, self.goes_on)
        changes = self.recorder.learned[self.key].resizes or {}
        names |= of_changes(self.recorder, self._names, changes, self.goes_on or self.count)
        return names, [*arrays, *more]

    def _let_go(self, now: dict[str, Any]) -> set[Any]:
        """What was guessed to be carried and the first recording has not changed, let go of."""
        guesses = {n: c for n, c in self._carried.items() if n in self._guessed}
        names = wrong_names(guesses, self._fresh, now)
        arrays = (self._guessed & self._written.keys()) - self._touched.keys()
        self.bind({n: self._names[n] for n in names})
        for n in names:
            del self._carried[n]
        for key in arrays:
            del self._written[key]
        self._guessed = set()
        return names | arrays

    def made_before(self) -> list[Tracer]:
        """What earlier recordings of the body made, as far as it is alive."""
        since = {id(b) for b in self.recorder.live(self._marker)}
        return [b for b in self.recorder.live(self._begun) if id(b) not in since]

    @property
    def key(self) -> Any:
        """Equal for the same statement."""
        return self.site.key

    def begin(self) -> Index:
        """Begin a recording, or another way through one; the number of the item.

        A recording has fresh values for what is carried.
        """
        recorder = self.recorder
        if not self.choices.sides:
            self._recordings += 1
            count = self.count.dim if type(self.count) is Index else self.count
            self.number = recorder.rounds.enter(count, self._sampled is not None)
            self._used, recorder.rounds.used = recorder.rounds.used, False
            self._marker = recorder.count
            self._touched = {}
            self._outer = recorder.enter()
            recorder.loops.append(self)
            self.choices = Choices(recorder)
            # in one order, that a loop may be the same op on each way through one around it
            self._carried = dict(sorted(self._carried.items()))
            self._written = {k: self._written[k] for k in self._roots if k in self._written}
            for w in self._written.values():
                w.arg = Value(w.arg.type, w.arg.hint)
            self._fresh = {n: c.begin(recorder, self.number) for n, c in self._carried.items()}
            self.aliases.begin(self._carried, self._fresh)
            for n, c in self._carried.items():
                c.arg.hint = n
        for w in self._written.values():
            w.box.hold(w.arg, self._roots[id(w.box)][2])
        # a name that only an earlier way bound must not be taken for what this one did
        fresh = {n: _UNBOUND for n in self._bound if n not in self._names} | self._fresh
        fresh |= self.containers.begin(self._names, self._fresh)
        self.site.bind(fresh)
        self._start = {**self._names, **fresh}
        self._forget()
        return Index(recorder, affine.symbol(self.number) * self.stride + self.first)

    def choose(self, condition: Value) -> bool:
        """Which side a round takes where it asks; another recording takes the other one."""
        return self.choices.side(condition)

    def leaves(self, frame: FrameType, way: Mapping[int, bool], condition: Value) -> bool:
        """Whether a way out of a loop within leaves this one as well; see `whiles`."""
        return False

    def _require_innermost(self) -> None:
        """Begin the trace anew where a round of a loop within has left that."""
        if self.recorder.loops[-1] is not self:
            self.recorder.loops[-1].left()

    def ends(self) -> bool:
        """Look at what a recording did; False where another is wanted."""
        recorder = self.recorder
        self._require_innermost()
        added = self.appends.take(self.choices)
        now = self._names_now()
        if lists := self.containers.take_lists():
            return self._begin_again(lists)
        added |= self.aliases.note(now)
        touched = [b for b, _, version in self._roots.values() if b.version != version]
        self._touched |= {id(b): b for b in touched}
        if self.choices.asked or self.choices.ways:
            contents = {id(b): b.content for b in touched}
            if self.choices.go_on({**now, **self._asked(), **added}, contents):
                self.reset()
                return False
            now = self._all_ways(now)
        if why := self.containers.note(self._names, now, self.site.code):
            self._fail(why)
        wrong = self._let_go(now)
        self._start, self._fresh = {}, {}
        new = [b for k, b in self._touched.items() if k not in self._written]
        code = self.site.code
        # a name that just some ways bind, here or in a loop within, keeps what it was in others
        kept = code.carried | (code.left if self.choices.ways else self._kept & code.left)
        kept = (kept | self.containers.names()) & self._bound - wrong
        names = [n for n in kept if self._is_new(n, now[n])]
        names = self.containers.opened(names, self._names, now, not self.choices.ways)
        names += mistaken(recorder, self._carried, now)
        longer = resized(self._carried, now, self.number, self.goes_on or self.count)
        try:
            if not (new or names or wrong or longer):
                self.states = self._made(now)
        except Unlike as error:
            self._fail(str(error), isinstance(error, Turned))
        self._ops, self._unsure = recorder.leave(self._outer)
        recorder.loops.pop()
        self._now = now
        if not (new or names or wrong or longer or self.why):
            self.why = self._same_in_all()
            again = recorder.rounds.used and self._sampled is None and not self.why
            self._leave_rounds()
            if again:
                self._sampled = self._recorded
                self.reset()
            return not again
        self._leave_rounds()
        if not self.why and self._recordings == _RECORDINGS:
            self._fail("each recording finds more that is carried")
        if self.why:
            return True
        self.reset()
        self._written |= {id(box): Written(box) for box in new}
        self._carried |= of_changes(recorder, self._names, longer, self.count)
        try:
            for n in sorted(names):
                self._carried[n] = self._as_carried(n, now[n])
        except Unlike as error:
            self._fail(f"`{n}` {error}")
        return bool(self.why)

    def _begin_again(self, names: set[str]) -> bool:
        """Begin the recording again, where names stand for what they did not; False."""
        self._bound -= names
        self.recorder.leave(self._outer)
        self.recorder.loops.pop()
        self._leave_rounds()
        self.choices = Choices(self.recorder)
        self.reset()
        return False

    def _names_now(self) -> dict[str, Any]:
        """The names at the end of a way, of which those that it has bound are noted."""
        now = self.containers.now(self.site.names())
        self._names |= self.containers.before()
        self._bound |= {n for n, v in now.items() if v is not self._start.get(n, _UNBOUND)}
        return now

    def _as_carried(self, name: str, now: Any) -> Carried:
        """How a name's value goes from round to round; Unlike where it can't."""
        round_, mixed = (self.number, self._data.keys()), self._mixed(name)
        return carried(self.recorder, self._names[name], now, round_, mixed)

    def _mixed(self, name: str) -> BaseException | None:
        """The error of a number that the loop may leave as Python's or as NumPy's."""
        if self._may_mix():
            return WrittenOut(self, f"`{name}` is Python's number or NumPy's, as data say")
        return None

    def _may_mix(self) -> bool:
        """Whether it is not to be told by the first round what the loop leaves."""
        return type(self.count) is Index and self.count.turns

    def _leave_rounds(self) -> None:
        rounds = self.recorder.rounds
        self._data = rounds.leave(self.number)
        rounds.used = rounds.used or self._used

    def _same_in_all(self) -> str:
        """Why the recording of a sample may not be what each round does; empty where it is."""
        rounds = self.recorder.rounds
        if not rounds.used:
            return ""
        rows, sampled = self.appends.rows, self._sampled
        why, self._recorded = same_in_all(rounds, self.states, self._ops, rows, sampled)
        return why

    def _asked(self) -> dict[str, Any]:
        """What else a way leaves, under names that are none of Python's."""
        return {}

    def _all_ways(self, now: dict[str, Any]) -> dict[str, Any]:
        """The names after all ways, and the arrays that they write to, as conditions choose."""
        code = self.site.code
        live = {*(code.carried | code.left) & self._bound, *self._asked()}
        live |= self.containers.fill(way.names for way in self.choices.ways)
        live -= self.containers.wholes
        live |= {*self.appends.told(self.choices, self.number), *self.aliases.asked}
        boxes = {k: w.box for k, w in self._written.items() if k in self._touched}
        args: dict[int, Any] = {k: self._written[k].arg for k in boxes}
        chooser = Chooser(self.recorder, self.choices, self._roots.keys())
        way = self.containers.joined(chooser.way(self._start, args, live))
        self.appends.choose(way.names)
        self.aliases.choose(way.names)
        for k, content in way.contents.items():
            boxes[k].hold(content, self._roots[k][2] + 1)
        self._forget()
        bound = {n: way.names.get(n) for n in self._bound}
        self.bind({n: v for n, v in bound.items() if v is not now.get(n)})
        return {**now, **way.names, **bound}

    def keep_from(self, inner: Capture, surely: bool) -> None:
        """Note names that a loop within may leave as they were: where not all its ways bind them.

        `surely` says that all its rounds do, of which there is one at least.
        """
        if inner.site.frame is self.site.frame:
            self._kept |= inner._kept if surely else inner._bound

    def _fail(self, why: str, turns: bool = False) -> None:
        self.why, self.peels, self.turns = why, True, turns

    def _is_new(self, name: str, now: Any) -> bool:
        """Whether it is seen just now that a round binds a name which the next one reads."""
        new = name not in self._carried and name in self._names
        return new and is_another(now, self._names[name])

    def bind(self, names: dict[str, Any]) -> None:
        """Bind names, those of the frame and those of places of containers."""
        self.site.bind(names)
        self.containers.bind(names)

    def reset(self) -> None:
        """Put arrays and names back to what they were before the loop."""
        self._restore()
        changed = self._bound.union(self._carried, self.containers.lists)
        self.bind({n: self._names[n] for n in changed if n in self._names})

    def left(self) -> NoReturn:
        """Begin the trace anew: a round has left the loop."""
        self.recorder.write_out("it is left while its body is recorded")

    def abandon(self) -> None:
        """Put all back, and let go of what recordings made, of which there is nothing."""
        self.reset()
        emptied(self.recorder.live(self._begun))

    def read_ahead(self, box: Tracer) -> None:
        """Begin the trace again where a round needs to know an int that is from before it."""
        require_ahead(self.recorder, self.key, self._names, box)

    def _forget(self) -> None:
        for box in self.recorder.live():
            if box.looks_at() is not None:
                box.forget()

    def _made(self, now: dict[str, Any]) -> list[State]:
        """What a round leaves of all that is carried; Unlike where it is of another kind."""
        recorder = self.recorder
        states = [
            State(w.before, w.arg, same_type(recorder, w.box.content, w.arg))
            for w in self._written.values()
        ]
        for n, c in self._carried.items():
            try:
                if isinstance(c, CarriedArray):
                    self._require_apart(self._names[n], now[n])
                states += c.states(recorder, now[n])
            except Unlike as error:
                raise type(error)(f"`{n}` {error}") from None
        if any(now.get(n) is _UNBOUND for n in self._bound):
            recorder.write_out("a name is not bound in each round")
        self.aliases.require_own(now, self._roots)
        rounds = (self.number, *recorder.rounds.data)
        left = [now[n] for n in (self.site.code.left | self.containers.places()) & now.keys()]
        self.appends.require_apart(self._roots, self._carried, rounds, left)
        return [*states, *self.aliases.states()]

    def _require_apart(self, *values: Any) -> None:
        """Unlike where an array that a name is bound to in turn is written to by another name."""
        for v in values:
            if isinstance(v, Tracer) and id(v.root) in self._written:
                raise Turned("shows an array that each round writes to")

    def finish(self) -> bool:
        """Make the loop of the graph, and bind its results; False where all of it is known."""
        inner = {v for op in self._ops for v in op.results}.union(s.arg for s in self.states)
        self.states = self.aliases.begun(self.states)
        states = list(self.states)
        made = self.recorder.live(self._marker)
        known = {s.after for s in states}
        for box in made:
            content = box.held()
            if content is not None and content in inner and content not in known:
                known.add(content)
                if self._is_alike(content):
                    states.append(self._last(content))
                else:
                    box.hold(self._gone(), box.version)
        self.why = self.why_slow(states) or self._keep_unsure(states)
        if self.why:
            return False
        emptied(self.made_before())
        self._restore()
        rows = self.appends.rows
        rest = rows, self._data, self.is_much
        made_of = emit_loop(self.recorder, self.number, self.count, self._ops, states, *rest)
        if made_of is None:
            return False
        results, stacked = made_of
        self.recorder.may_fail(results[v] for v in self._failing(states))
        boxes = [weakref.ref(w.box) for w in self._written.values()]
        arrays = [n for n, c in self._carried.items() if isinstance(c, CarriedArray)]
        for around in self.recorder.loops[-1:]:
            self.recorder.found[self.key, self.first, self.stride] = boxes, arrays
            around.keep_from(self, surely=not self.choices.ways)
        self._settle(made, results)
        least = self.count.bounds()[0] if type(self.count) is Index else self.count
        last = {s.arg: results[s.after] for s in self.states}
        now = self.site.names() | self.containers.held()
        self.aliases.end(self._names, now, least, last, partial(WrittenOut, self))
        grown = self.appends.give(stacked, self.number, inner, partial(WrittenOut, self))
        self.bind(self.containers.given_back(grown))
        return True

    def why_slow(self, states: Sequence[State]) -> str:
        """Why a round would be slower than in Python; empty where it would not."""
        afters = [s.after for s in states]
        ops = live(self._ops, afters)
        if self.choices.is_heavy(ops):
            self.is_much = is_worth_a_branch
            found = branches(ops, afters, self.is_much)
            apart = {op for b in found for op in (*b.then, *b.other)}
            if self.choices.is_heavy([op for op in ops if op not in apart]):
                return "a side of a branch is much work, and would be done in each round"
        return ""

    def _keep_unsure(self, states: list[State]) -> str:
        """Have each round leave what may fail, though nothing is made of it; why it can't."""
        for v in self._unneeded(states):
            learned = self.recorder.learned[self.key]
            if self.choices.ways and not learned.masks:
                learned.masks = True  # it may fail on a side alone
                self.recorder.end(Again())
            if not self._is_alike(v):
                return "what may fail in a round has a shape of its own there"
            states.append(self._last(v))
        return ""

    def _unneeded(self, states: Sequence[State]) -> list[Value]:
        """What may fail in a round and no state is made of."""
        return lost(self._ops, [s.after for s in states], self._unsure) if self._unsure else []

    def _is_alike(self, content: Value) -> bool:
        """Whether a value has the same shape in all rounds."""
        return symbols_of(content).isdisjoint((self.number, *self._data))

    def _failing(self, states: Sequence[State]) -> list[Value]:
        """What rounds leave that may fail in one."""
        left = [s.after for s in states] if self._unsure else []
        made = [(v, live(self._ops, [v])) for v in left]
        return [v for v, ops in made if any(not self._unsure.isdisjoint(o.results) for o in ops)]

    def _gone(self) -> Gone:
        return Gone(WrittenOut(self, "what its last round made is used after it"))

    def _last(self, content: Value) -> State:
        """A state that only says what the last round made."""
        return State(zeros_of(self.recorder, content), Value(content.type), content)

    def _restore(self) -> None:
        for box, content, version in self._roots.values():
            box.hold(content, version)
        for box in self._pending:
            box.put_back()
        self.containers.put_back()
        self._forget()

    def _settle(self, made: Sequence[Tracer], results: dict[Value, Value]) -> None:
        """Give arrays the results of the loop, and names what the last round left."""
        for w, state in zip(self._written.values(), self.states, strict=False):
            w.box.hold(results[state.after], self._roots[id(w.box)][2] + 1)
        for box in made:
            content = box.held()
            if content in results:
                box.hold(results[content], box.version)
        self._forget()
        after = Last(self.number, self.count - 1, self._data, self._gone)
        bound = {n: self._now[n] for n in self._bound}
        one = {k: after.of(v) for k, v in {id(v): v for v in bound.values()}.items()}
        last = {n: one[id(v)] for n, v in bound.items()}  # of two names of one array, too
        if type(self.count) is Index and self.count.bounds()[0] == 0:
            # without a round they are what a round of a loop around left, or not bound
            last |= {n: self._gone() for n in self._bound if n not in self._carried}
        for n, c in self._carried.items():
            if c.afters:
                last[n] = c.boxed(self.recorder, iter([results[v] for v in c.afters]))
        self.bind({n: v for n, v in last.items() if v is not self._now[n]})
