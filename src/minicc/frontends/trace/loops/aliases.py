"""Which arrays names show after a loop, where other names may show the same.

    v = y
    while v[0] > 2:
        v = v * 0.5
    y[0] = 9           # v[0] is 9, too, if there was no round

A loop of the graph hands arrays from round to round as values, and a name is bound to an array of
its own after it. That is NumPy's if rounds have bound the name to an array that they made. Till
then it is one from before the loop, which may have other names, may be an argument, or have views.
So what a name may still show is remembered, and looked at where it matters: where that array is
written to after the loop, or where both are results. If a number of rounds is enough to be sure,
the program tells whether there were so many, and NumPy runs the call if not. Where a condition
decides whether a round binds the name, the trace begins again, and the loop hands on whether any
round did. Else the loop is written out.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from minicc.frontends.trace.loops.body import State
from minicc.frontends.trace.loops.carried import Carried, CarriedArray, Turned
from minicc.frontends.trace.loops.learned import Learned
from minicc.frontends.trace.numbers import checked
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import Dispatch
from minicc.frontends.trace.restarts import Again
from minicc.frontends.trace.tracer import Tracer
from minicc.ir.core import Value
from minicc.ir.types import I64, TensorType

# An array that may be let go of: there is one such object for each, which outlives it.
_Ref = weakref.ref[Tracer]


class _Maybe(NamedTuple):
    """An array that a name has after a loop, and the `others` that it may be instead.

    It is none of them after as many rounds as it `needs`; `depth` loops are around it. `loops` are
    those that could tell of the `name` and may not yet: its own, where a condition decides whether
    a round binds it, and those within, which may have had too few.
    """

    box: _Ref
    others: Sequence[_Ref]
    rounds: Tracer | None
    needs: int
    depth: int
    loops: Sequence[Learned]
    name: str
    error: BaseException

    def may_be(self, arrays: Iterable[_Ref]) -> bool:
        """Whether one of some arrays is one of the others."""
        return any(array is other for array in arrays for other in self.others)


def _known_as(box: Tracer) -> list[_Ref]:
    """An array, and those that it may be instead."""
    found = [ref for m in box.recorder.maybes if m.box() is box for ref in m.others]
    return [weakref.ref(box), *found]


def written(box: Tracer) -> None:
    """See to it that no other array may be the one that is written to."""
    if not box.recorder.maybes:
        return
    known = _known_as(box)
    for m in _now(box.recorder):
        if m.box() is not box and m.may_be(known):
            _require_own(box.recorder, m)


def returned(recorder: Recorder, roots: Sequence[Tracer]) -> None:
    """See to it that none of the arrays that are results may be another, or one from outside."""
    for m in _now(recorder):
        if any(m.box() is root for root in roots):
            others = [ref for root in roots if root is not m.box() for ref in _known_as(root)]
            if m.may_be(others) or any(map(_is_outside, m.others)):
                _require_own(recorder, m)


def _now(recorder: Recorder) -> list[_Maybe]:
    """What is known, but for what is of a round of a loop that has ended, or of no use any more."""
    depth = len(recorder.loops)
    recorder.maybes = [m for m in recorder.maybes if m.depth <= depth and m.box() is not None]
    return [*recorder.maybes]


def _require_own(recorder: Recorder, maybe: _Maybe) -> None:
    if maybe.rounds is None:
        silent = [loop for loop in maybe.loops if maybe.name not in loop.tells]
        for loop in silent:
            loop.tells.add(maybe.name)
        recorder.end(Again() if silent else maybe.error)
    if recorder.loops:  # which may have no round themselves
        recorder.end(maybe.error)
    _require(maybe.rounds, maybe.needs)
    recorder.maybes = [m for m in recorder.maybes if m is not maybe]


def _require(number: Any, least: int) -> None:
    """Have NumPy run the call unless a number is so great."""
    checked(number, number >= least)


def _flag(name: str) -> str:
    """What stands for whether a round has bound a name, which is none of Python's."""
    return f"{name} is bound"


class Aliases:
    """What names of arrays show as rounds of a loop end, of which each begins with arrays anew."""

    def __init__(self, recorder: Recorder, learned: Learned) -> None:
        self.recorder = recorder
        self._learned = learned
        self._within: list[Learned] = []  # loops of which a round does not know if they had rounds
        self._starts: dict[str, Tracer] = {}
        self._shown: dict[str, set[str]] = {}  # the names whose array a name may show after a round
        self._at_last: dict[str, set[str]] = {}  # and after a round that a test ends
        self._in_rest: dict[str, set[str]] = {}  # and after the rest of the last round
        self._pairs: set[tuple[str, str]] = set()  # names that show one array after a round
        # whether a round has bound a name, as one begins, and as it ends
        self._flags: dict[str, Value] = {}
        self._told: dict[str, Any] = {}

    def begin(self, carried: Mapping[str, Carried], fresh: Mapping[str, Any]) -> None:
        """Begin a recording, in which names are bound to `fresh` values."""
        kinds = ((n, c) for n, c in carried.items() if isinstance(c, CarriedArray))
        self._starts = {n: fresh[n] for n, c in kinds if not c.scalar}
        self._shown, self._at_last, self._in_rest = {}, {}, {}
        self._pairs, self._within = set(), []
        told = sorted(self._learned.tells & self._starts.keys())
        self._flags = {n: Value(TensorType(I64), _flag(n)) for n in told}

    @property
    def asked(self) -> dict[str, Any]:
        """What a round begins with that tells which names are bound, under names of no one's."""
        flags = self._flags.items()
        return {_flag(n): Tracer(self.recorder, arg, scalar=True) for n, arg in flags}

    def choose(self, names: dict[str, Any]) -> None:
        """Take what tells that out of the names that all ways leave."""
        self._told = {n: names.pop(_flag(n)) for n in self._flags}

    def states(self) -> list[State]:
        """Which names rounds have bound; `begun` has what it begins with."""
        return [State(arg, arg, self._told[n].value()) for n, arg in self._flags.items()]

    def begun(self, states: Iterable[State]) -> list[State]:
        """Some states, with what these begin with."""
        args = {*self._flags.values()}
        zero = self.recorder.scalar(0, I64) if args else None
        return [s._replace(before=zero) if zero and s.arg in args else s for s in states]

    def note(self, names: Mapping[str, Any]) -> dict[str, Any]:
        """Note what names show as a way through a round ends; what tells which are bound."""
        return self._note(names, self._shown)

    def note_at_last(self, names: Mapping[str, Any]) -> dict[str, Any]:
        """The same, of a way that ends the loop."""
        return self._note(names, self._at_last)

    def note_rest(self, names: Mapping[str, Any]) -> None:
        """Note what names show as all items are gone."""
        self._note(names, self._in_rest)

    def _note(self, names: Mapping[str, Any], shown: dict[str, set[str]]) -> dict[str, Any]:
        known = {id(box): n for n, box in self._starts.items()}
        told = self.asked
        seen: dict[int, str] = {}
        for n in self._starts:
            box = names.get(n)
            if isinstance(box, Tracer):
                root = box.root
                other = seen.setdefault(id(root), n)
                if other != n:
                    self._pairs.add((other, n))
                found = [m for m in self.recorder.maybes if m.box() is root]
                self._within += [loop for m in found for loop in m.loops]
                others = [x for ref in _known_as(root) if (x := ref()) is not None]
                starts = {known[id(x)] for x in others if id(x) in known}
                shown.setdefault(n, set()).update(starts)
                if n in self._flags and not starts:
                    told[_flag(n)] = Tracer(self.recorder, np.array(1), scalar=True)
        self._told = {n: told[_flag(n)] for n in self._flags}
        return told

    def require_own(self, now: Mapping[str, Any], outside: Mapping[int, Any]) -> None:
        """Turned where an array of before the loop goes from name to name, and so has two at last.

        What stands for an array at the beginning of a round is none that others know, so what a
        round leaves of it must be an array that an earlier round made. `outside` are those from
        before the loop, by their identity.
        """
        starts = {n: b for n, b in self._starts.items() if b.ndim}
        for n in starts:
            seen: set[str | None] = set()
            name: str | None = n
            while name is not None:
                seen.add(name)
                after = now[name]
                root = after.root if isinstance(after, Tracer) else None
                name = next((m for m, box in starts.items() if box is root), None)
                if name in seen or id(root) in outside:
                    raise Turned(f"`{n}` is bound to an array that other names had before")

    def end(
        self,
        before: Mapping[str, Any],
        after: Mapping[str, Any],
        rounds: Tracer | int,
        last: Mapping[Value, Value],
        error: Callable[[str], BaseException],
    ) -> None:
        """Remember what names may show after the loop; there were so many `rounds`, or more.

        `before` has what names were bound to before the loop, `after` what they are bound to now,
        and `last` the last states by what stands for them.
        """
        least = rounds if isinstance(rounds, int) else 0
        for n in self._starts:
            box = after.get(n)
            if not isinstance(box, Tracer):
                continue
            self._add_pairs(n, box.root, after, error)
            needs, told = self._needs(n), None if isinstance(rounds, int) else rounds
            if needs is not None and needs <= least:
                continue
            if n in self._flags and {n} >= {*self._leads_to(n)}:
                needs, told = 1, Tracer(self.recorder, last[self._flags[n]], scalar=True)
            within = n in self._learned.tells and self.recorder.loops
            if within and needs is not None and told is not None:
                _require(told, needs)
                continue
            roots = [before[m].root for m in self._leads_to(n) if isinstance(before[m], Tracer)]
            others = [ref for root in roots for ref in _known_as(root)]
            self._add(n, box.root, others, None if needs is None else told, needs or 0, error)

    def _add(
        self,
        name: str,
        root: Tracer,
        others: Sequence[_Ref],
        rounds: Tracer | None,
        needs: int,
        error: Callable[[str], BaseException],
    ) -> None:
        why = error(f"`{name}` may be an array that has other names")
        could = {name} >= {*self._leads_to(name)} and not any(name in pair for pair in self._pairs)
        loops = [*self._within, *[self._learned] * could] if rounds is None else [self._learned]
        depth = len(self.recorder.loops)
        ref = weakref.ref(root)
        self.recorder.maybes.append(_Maybe(ref, others, rounds, needs, depth, loops, name, why))

    def _add_pairs(
        self,
        name: str,
        root: Tracer,
        after: Mapping[str, Any],
        error: Callable[[str], BaseException],
    ) -> None:
        """Remember the names that show the same array after a round, and other ones after all."""
        for pair in self._pairs:
            others = [after.get(n) for n in pair if n != name] if name in pair else []
            roots = [x.root for x in others if isinstance(x, Tracer)]
            apart = [weakref.ref(other) for other in roots if other is not root]
            if apart:
                self._add(name, root, apart, None, 0, error)

    def _leads_to(self, name: str) -> list[str]:
        """The names whose array from before the loop a name may show."""
        found, left = [name], [name]
        while left:
            n = left.pop()
            shown = [ways.get(n, set()) for ways in (self._shown, self._at_last, self._in_rest)]
            new = set[str]().union(*shown).difference(found)
            left += new
            found += new
        return found

    def _needs(self, name: str) -> int | None:
        """How many rounds it takes till a name shows an array that a round made; None if no number.

        A last round that a test ends is one of them, and may show what those before it made.
        """
        last = [self._chain(m, ()) for m in self._at_last.get(name, ())]
        rest = [self._chain(m, ()) for m in self._in_rest.get(name, ())]
        each = [self._chain(name, ()), *rest, *[None if n is None else n + 1 for n in last]]
        return None if None in each else max(n for n in each if n is not None)

    def _chain(self, name: str, above: tuple[str, ...]) -> int | None:
        if name in above:
            return None
        below = [self._chain(m, (*above, name)) for m in self._shown.get(name, ())]
        return None if None in below else 1 + max((n for n in below if n is not None), default=0)


def _is_outside(ref: _Ref) -> bool:
    """Whether it is an array that a caller may have, too."""
    box = ref()
    if box is None:
        return False
    return box.locked_array is not None or any(box is a for a in box.recorder.begun)


Dispatch.written = written
