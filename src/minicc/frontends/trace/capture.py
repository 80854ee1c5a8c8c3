"""The recording of a loop's body, and the loop of the graph that comes of it.

Mirrors: tracing of the body of `jax.lax.fori_loop` to a jaxpr, whose captures become operands.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence, Set
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from minicc.frontends.trace.carried import (
    Carried,
    CarriedArray,
    Turned,
    Unlike,
    carried,
    same_type,
)
from minicc.frontends.trace.choices import Choices, Chooser
from minicc.frontends.trace.indices import Index, Round
from minicc.frontends.trace.loop_body import Body, State
from minicc.frontends.trace.loop_code import LoopCode
from minicc.frontends.trace.moving import Access, has_parts, key_in
from minicc.frontends.trace.numbers import Number
from minicc.frontends.trace.paths import value_key
from minicc.frontends.trace.pytree import mapped
from minicc.frontends.trace.reach import Reach
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.slabs import Slab, slab_of
from minicc.frontends.trace.tracer import Tracer
from minicc.ir.core import Value
from minicc.ir.rewrite import live
from minicc.ir.types import I64, TensorType

_RECORDINGS = 6  # of a body, until nothing more is found to be carried
_COPIED = 1 << 14  # elements that a round may make anew to write some of them,
_TIMES = 8  # and how many more for each that it writes: Python takes no longer for these
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_UNBOUND: Any = type("Unbound", (), {})()


class Site(NamedTuple):
    """A loop in a frame."""

    frame: FrameType
    code: LoopCode

    @property
    def key(self) -> Any:
        """Equal for the same statement."""
        return self.frame.f_code, self.code.head

    def __str__(self) -> str:
        return f"{os.path.basename(self.frame.f_code.co_filename)}:{self.code.line}"

    def names(self) -> dict[str, Any]:
        """The names that are bound in the frame; nothing else holds on to their values."""
        seen = self.frame.f_locals
        names = dict(seen)
        if sys.version_info < (3, 13):
            seen.clear()
        return names

    def bind(self, names: dict[str, Any]) -> None:
        """Bind local names of the frame."""
        if not names:
            return
        seen = self.frame.f_locals
        seen.update(names)
        if sys.version_info < (3, 13):
            # before Python 3.13 what the frame showed was a copy
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(self.frame), ctypes.c_int(0))
            seen.clear()


class _Written:
    """An array from before the loop that rounds write to in place."""

    def __init__(self, box: Tracer) -> None:
        self.box = box
        self.before: Value = box.value()
        self.arg = Value(self.before.type)
        self.slab: Slab | None = None


class Capture:
    """A loop whose body is recorded; `why` says why it can't be captured, once this is known.

    `peels` says whether it may be after its first round, `turns` whether it may be with two rounds
    as one.
    """

    def __init__(
        self, recorder: Recorder, site: Site, items: range, stride: int, reach: Reach
    ) -> None:
        """Of the numbered `items`, `stride` in each round of the loop of the graph."""
        self.recorder = recorder
        self.site = site
        self.first = items.start
        self.stride = stride
        self.count = len(items) // stride
        self.reach = reach
        self.why = ""
        self.peels = False
        self.turns = False
        self._recordings = 0
        self.states: list[State] = []
        self._begun = recorder.count
        self._names = site.names()
        roots = [b for b in recorder.live() if b.looks_at() is None]
        self._roots = {id(b): (b, b.content, b.version) for b in roots}
        self._written: dict[int, _Written] = {}
        self._carried: dict[str, Carried] = {}
        self.accesses: list[Access] = []  # of arrays at the number of the round
        self._bound: set[str] = set()  # names that rounds bind
        self._fresh: dict[str, Any] = {}
        self._touched: dict[int, Tracer] = {}
        self.choices = Choices(recorder)

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
            self._number = Round(Value(TensorType(I64), "round"), self.count)
            self._marker = recorder.count
            self.accesses = []
            self._touched = {}
            self._outer = recorder.enter()
            recorder.loops.append(self)
            self.choices = Choices(recorder)
            for w in self._written.values():
                w.arg = Value(w.arg.type, w.arg.hint)
            self._fresh = {n: c.begin(recorder, self._number) for n, c in self._carried.items()}
            for n, c in self._carried.items():
                c.arg.hint = n
        for w in self._written.values():
            w.box.hold(w.arg, self._roots[id(w.box)][2])
        # a name that only an earlier way bound must not be taken for what this one did
        fresh = {n: _UNBOUND for n in self._bound if n not in self._names} | self._fresh
        self.site.bind(fresh)
        self._start = {**self._names, **fresh}
        self._forget()
        return Index(recorder, {self._number: self.stride}, self.first)

    def choose(self, condition: Value) -> bool:
        """Which side a round takes where it asks; another recording takes the other one."""
        return self.choices.side(condition)

    def ends(self) -> bool:
        """Look at what a recording did; False where another is wanted."""
        recorder = self.recorder
        changed = self.reach.changed()
        if changed:
            recorder.write_out(f"a round changes `{changed}`")
        now = self.site.names()
        self._bound |= {n for n, v in now.items() if v is not self._start.get(n, _UNBOUND)}
        self._keep_parts(now)
        roots = self._roots.values()
        touched = {id(b): b for b, _, version in roots if b.version != version}
        self._touched |= touched
        if self.choices.asked or self.choices.ways:
            contents = {k: b.content for k, b in touched.items()}
            if self.choices.go_on({**now, **self._asked()}, contents):
                self.reset()
                return False
            now = self._all_ways(now)
        self._start, self._fresh = {}, {}
        new = [b for k, b in self._touched.items() if k not in self._written]
        code = self.site.code
        # a name that just some ways bind keeps what it was in others
        kept = code.carried | code.left if self.choices.ways else code.carried
        names = [n for n in kept & self._bound if self._is_new(n, now[n])]
        try:
            if not new and not names:
                self.states = self._made(now)
        except Unlike as error:
            self._fail(str(error))
            self.turns = isinstance(error, Turned)
        self._ops = recorder.leave(self._outer)
        recorder.loops.pop()
        self._now = now
        if not (new or names) or self.why:
            return True
        if self._recordings == _RECORDINGS:
            self._fail("each recording finds more that is carried")
            return True
        self.reset()
        for box in new:
            self._written[id(box)] = _Written(box)
        try:
            for n in sorted(names):
                before = self._names[n]
                self._carried[n] = carried(recorder, before, now[n], self._number)
        except Unlike as error:
            self._fail(f"`{n}` {error}")
        return bool(self.why)

    def _keep_parts(self, now: dict[str, Any]) -> None:
        """Have numbers, instead of indices, that only a round itself can tell."""
        code = self.site.code
        for n in (code.carried | code.left) & self._bound & now.keys():
            x = now[n]
            if type(x) is Index and x.parts:
                now[n] = Number(x.box, int, True)
                self.site.bind({n: now[n]})
            elif isinstance(x, Tracer) and any(map(has_parts, x.moves()[0])):
                self.recorder.write_out(f"`{n}` shows a place that only a round can tell")

    def _asked(self) -> dict[str, Any]:
        """What else a way leaves, under names that are none of Python's."""
        return {}

    def _all_ways(self, now: dict[str, Any]) -> dict[str, Any]:
        """The names after all ways, and the arrays that they write to, as conditions choose."""
        code = self.site.code
        live = {*(code.carried | code.left) & self._bound, *self._asked()}
        boxes = {k: w.box for k, w in self._written.items() if k in self._touched}
        args: dict[int, Any] = {k: self._written[k].arg for k in boxes}
        outer = self._roots.keys()
        chooser = Chooser(self.recorder, self.choices, self.accesses, boxes, outer)
        way = chooser.way(self._start, args, live)
        for k, content in way.contents.items():
            boxes[k].hold(content, self._roots[k][2] + 1)
        self._forget()
        bound = {n: way.names.get(n) for n in self._bound}
        self.site.bind({n: v for n, v in bound.items() if v is not now.get(n)})
        return {**now, **way.names, **bound}

    def _fail(self, why: str) -> None:
        self.why, self.peels = why, True

    def _is_new(self, name: str, now: Any) -> bool:
        """Whether it is seen just now that a round binds a name which the next one reads."""
        if name in self._carried or name not in self._names:
            return False
        before = self._names[name]
        plain = type(now) is type(before) and type(now) in _PLAIN
        return now is not before and not (plain and value_key(now) == value_key(before))

    def reset(self) -> None:
        """Put arrays and names back to what they were before the loop."""
        self._restore()
        self.site.bind({n: self._names[n] for n in self._bound if n in self._names})

    def abandon(self) -> None:
        """Put all back, and let go of what recordings made, of which there is nothing."""
        self.reset()
        for box in self.recorder.live(self._begun):
            self._empty(box)

    @staticmethod
    def _empty(box: Tracer) -> None:
        """Have a box that nobody can reach any more hold no value of a body."""
        if box.held() is not None:
            box.hold(np.broadcast_to(np.zeros((), box.dtype), box.shape), box.version)

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
                after = c.made(recorder, now[n])
            except Unlike as error:
                raise type(error)(f"`{n}` {error}") from None
            if after is not None and c.before is not None:
                states.append(State(c.before, c.arg, after))
        if any(v is _UNBOUND for v in now.values()):
            recorder.write_out("a name is not bound in each round")
        self._require_own(now)
        return states

    def _require_own(self, now: dict[str, Any]) -> None:
        """Unlike where an array of before the loop goes from name to name, and so has two at last.

        What stands for an array at the beginning of a round is none that others know, so what a
        round leaves of it must be an array that an earlier round made.
        """
        arrays = [(n, c.box()) for n, c in self._carried.items() if isinstance(c, CarriedArray)]
        starts = {n: b for n, b in arrays if b is not None and b.ndim}
        for n in starts:
            seen: set[str | None] = set()
            name: str | None = n
            while name is not None:
                seen.add(name)
                after = now[name]
                root = after.root if isinstance(after, Tracer) else None
                name = next((m for m, box in starts.items() if box is root), None)
                if name in seen or id(root) in self._roots:
                    raise Turned(f"`{n}` is bound to an array that other names had before")

    def _require_apart(self, *values: Any) -> None:
        """Unlike where an array that a name is bound to in turn is written to by another name."""
        for v in values:
            if isinstance(v, Tracer) and id(v.root) in self._written:
                raise Turned("shows an array that each round writes to")

    def finish(self) -> bool:
        """Make the loop of the graph, and bind its results; False where all of it is known."""
        inner = {v for op in self._ops for v in op.results}
        inner.update([self._number.value, *[s.arg for s in self.states]])
        states = list(self.states)
        made = self.recorder.live(self._marker)
        known = {s.after for s in states}
        for box in made:
            content = box.held()
            if content is not None and content in inner and content not in known:
                known.add(content)
                states.append(self._last(content))
        for w, state in zip(self._written.values(), self.states, strict=False):
            others = [s.after for s in states if s is not state]
            slab = slab_of(self._number, w.arg, state.after, self.accesses, self._ops)
            if slab is not None and set(slab.sources).isdisjoint(others):
                states.remove(state)
                w.slab = slab
        slabs = [(w.box, w.slab) for w in self._written.values() if w.slab is not None]
        self.why = self.why_slow(states, {v for _, slab in slabs for v in slab.sources})
        if self.why:
            return False
        body = Body(self.recorder, self._number, self._ops)
        self._restore()
        for box, slab in slabs:
            body.add_slab(box, slab)
        results = body.emit(states)
        if results is None:
            return False
        self._settle(made, results, body)
        return True

    def why_slow(self, states: Sequence[State], written: Set[Value] = frozenset()) -> str:
        """What would be slower than in Python: more work, or copies of what is not `written`."""
        ops = live(self._ops, [*[s.after for s in states], *written])
        puts = [a for a in self.accesses if a.new is not None]
        places = {op.results[0] for a in puts for op in self._ops[slice(*a.ops)]}
        if self.choices.is_heavy([op for op in ops if op.results[0] not in places]):
            return "a side of a branch is much work, and would be done in each round"
        used = {v for op in ops for v in op.results}
        for a in puts:
            if a.new is not None and a.value in used - written:
                size, part = (int(np.prod(v.type.extents)) for v in (a.value, a.new))
                if size > _COPIED + _TIMES * part:
                    return f"each round would make all {size} elements of an array anew"
        return ""

    def _last(self, content: Value) -> State:
        """A state that only says what the last round made."""
        nothing = np.zeros(content.type.extents, content.type.dtype.numpy)
        return State(self.recorder.lift(nothing), Value(content.type), content)

    def _restore(self) -> None:
        for box, content, version in self._roots.values():
            box.hold(content, version)
        self._forget()

    def _settle(self, made: Sequence[Tracer], results: dict[Value, Value], body: Body) -> None:
        """Give arrays the results of the loop, and names what the last round left."""
        rows = iter(body.stacked)
        for w, state in zip(self._written.values(), self.states, strict=False):
            if w.slab is None:
                w.box.hold(results[state.after], self._roots[id(w.box)][2] + 1)
            else:
                body.write(w.box, w.slab, rows, results.get(w.slab.new))
        for box in made:
            content = box.held()
            if content in results:
                box.hold(results[content], box.version)
        self._forget()
        last = {n: self._at_last(self._now[n]) for n in self._bound}
        self.site.bind({n: v for n, v in last.items() if v is not self._now[n]})

    def _at_last(self, x: Any) -> Any:
        """What a value of the last recording is behind the loop."""
        number, last = self._number, self.count - 1
        if type(x) is Index:
            return x.at(number, last)
        if isinstance(x, Tracer):
            return self._seen_last(x)
        if type(x) in (tuple, list, dict):
            leaves: list[Any] = []
            mapped(lambda leaf, at: leaves.append(leaf), x)
            found = [self._at_last(leaf) for leaf in leaves]
            if any(a is not b for a, b in zip(found, leaves, strict=True)):
                left = iter(found)
                return mapped(lambda leaf, at: next(left), x)
        return x

    def _seen_last(self, box: Tracer) -> Tracer:
        """A view at the number of the round as one at the last number."""
        view = box.looks_at()
        if view is None:
            return box
        base, lens = self._seen_last(view[0]), view[1]
        if lens.moves:
            found: Tracer = base[key_in(self._number, self.count - 1, lens.key[-1])]
            return found
        return box if base is view[0] else base.look(lens)
