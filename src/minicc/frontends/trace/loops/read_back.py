"""Lists whose elements or length the rounds that append to them look at.

    xs = [x0]
    for t in range(n):
        xs.append(xs[-1] + dt * f(xs[-1]))

While a round is recorded, the name of such a list is bound to a `Filling`. What this gives of the
list as the round began, `xs[-1]` and `len(xs)`, goes from round to round like what a name is bound
to, under names that are none of Python's. An element may be told by its number as well (`xs[t]`),
where that is so many before the end in every round.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from typing import Any, NoReturn

import numpy as np

from minicc.frontends.trace.dispatch import content_of
from minicc.frontends.trace.loops.body import zeros_of
from minicc.frontends.trace.loops.carried import Unlike
from minicc.frontends.trace.loops.choices import ANY
from minicc.frontends.trace.loops.gone import Gone, StandIn
from minicc.frontends.trace.loops.indices import Index
from minicc.frontends.trace.loops.learned import Learned
from minicc.frontends.trace.numbers import Number, checked
from minicc.frontends.trace.pytree import leaves, mapped
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import Dispatch
from minicc.frontends.trace.tracer import Tracer
from minicc.ir.core import Value


class Filling(StandIn):
    """A list in a round that appends to it; where anything else is done, the loop is written out.

    `filled` is the list itself, which gets what is appended, and loses that after the recording.
    """

    def __init__(self, recorder: Recorder, learned: Learned, name: str, filled: list[Any]) -> None:
        self.recorder = recorder
        self._learned = learned
        self.name = name
        self.filled = filled
        self._before = [*filled]
        self._added: list[Any] = []
        self._fresh: Mapping[str, Any] = {}
        self._asked: set[int] = set()  # the places before the end that rounds have looked at
        self._counts = False  # whether the length goes from round to round
        self.lacks = False  # whether one was looked at that is not in the list as the loop begins
        self.guesses = False  # or one whose place before the end was not known

    def __getattr__(self, name: str) -> Any:
        return self.look()

    def look(self, *args: Any) -> NoReturn:
        """Begin the trace again, with the loop written out."""
        self.recorder.write_out(f"`{self.name}` is looked at where a round adds to it")

    def begin(self, fresh: Mapping[str, Any]) -> None:
        """Begin a round, where names have fresh values."""
        self._added, self._fresh = [], fresh
        self.lacks = self.guesses = False

    def append(self, item: Any) -> None:
        """Add an element."""
        self.filled.append(item)
        self._added.append(item)

    def extend(self, items: Iterable[Any]) -> None:
        """Add elements."""
        for item in items:
            self.append(item)

    def length(self) -> Any:
        """How many elements there are, as a round knows it."""
        self._counts = True
        return self._fresh.get(self._length, len(self._before)) + len(self._added)

    def __bool__(self) -> bool:
        return bool(self.length() > 0)

    def __getitem__(self, key: Any) -> Any:
        if type(key) is int and 0 <= key < len(self._before):
            return self._before[key]
        place = key if type(key) is int and key < 0 else None
        if type(key) is Index and self._length not in self._fresh:
            self._counts = self.guesses = True  # the next recording knows the length in all rounds
            return self._unknown
        if place is None and type(key) in (int, Index):
            gap = key - self.length()
            place = gap if type(gap) is int and gap < 0 else None
        if place is None:
            self.look()
        return self._checked(-place) if self._lacks(-place) else self._at(-place)

    def names(self) -> set[str]:
        """The names under which something goes from round to round."""
        return {*map(self._element, self._asked), *[self._length] * self._counts}

    def now(self) -> dict[str, Any]:
        """What goes from round to round, as a round has it now."""
        now = {self._element(k): self._at(k) for k in sorted(self._asked)}
        return {**now, self._length: self.length()} if self._counts else now

    def before(self, now: Mapping[str, Any]) -> dict[str, Any]:
        """What that is before the first round: nothing is made of an element that is not there.

        It is of the kind that it is `now`.
        """
        found = {self._element(k): self._first(k, now) for k in self._asked}
        return {**found, self._length: len(self._before)} if self._counts else found

    def _first(self, place: int, now: Mapping[str, Any]) -> Any:
        if place <= len(self._before):
            return self._before[-place]
        return mapped(self._nothing, now[self._element(place)])

    def arrays(self) -> list[Tracer]:
        """The arrays that are elements as a round begins."""
        found = [
            leaf for k in self._asked for leaf in leaves(self._fresh.get(self._element(k), ()))
        ]
        return [x for x in found if isinstance(x, Tracer) and not x.scalar]

    def _at(self, place: int) -> Any:
        """The element so many places before the end; ANY where nothing is known of it yet."""
        start = place - len(self._added)
        if start <= 0:
            return self._added[-place]
        self._asked.update(range(1, start + 1))  # what is before it takes its place later
        there = self._before[-start] if start <= len(self._before) else ANY
        return self._fresh.get(self._element(start), there)

    def _lacks(self, place: int) -> bool:
        """Whether an element is not there in the first round."""
        return place - len(self._added) > len(self._before)

    def _checked(self, place: int) -> Any:
        """An element that may not be there: NumPy runs the call where it is not."""
        found, length = self._at(place), self.length()
        if found is ANY:
            self.lacks = self._learned.masks = True
            return self._unknown
        return mapped(lambda leaf, path: self._where_there(leaf, length >= place), found)

    @property
    def _unknown(self) -> Any:
        """What stands for an element where what is recorded only tells what goes on to a round."""
        return self._before[-1] if self._before else 0

    def _where_there(self, leaf: Any, holds: Any) -> Any:
        if isinstance(leaf, Number):
            return Number(checked(leaf.box, holds), leaf.kind, leaf.counts)
        if leaf.scalar:
            return checked(leaf, holds)
        place = Dispatch.call(self.recorder, "where", (holds, np.int64(0), np.int64(1)), {})
        return leaf[None][place]

    def _nothing(self, leaf: Any, path: Any) -> Any:
        """What stands for a leaf of an element that is not there."""
        if isinstance(leaf, (Number, bool, int, float)):
            return (leaf.kind if isinstance(leaf, Number) else type(leaf))(0)
        if not isinstance(leaf, (Tracer, np.generic)):
            raise Unlike(f"gets a {type(leaf).__name__}")
        content = content_of(self.recorder, leaf)
        if not isinstance(content, Value):
            return Tracer(self.recorder, np.zeros_like(content), scalar=_is_scalar(leaf))
        return Tracer(self.recorder, zeros_of(self.recorder, content), scalar=_is_scalar(leaf))

    def _element(self, place: int) -> str:
        return f"{self.name}[-{place}]"

    @property
    def _length(self) -> str:
        return f"len({self.name})"


def _is_scalar(leaf: Any) -> bool:
    return isinstance(leaf, np.generic) or leaf.scalar


class ReadBack:
    """The lists of a loop that are bound to a `Filling` while a round is recorded."""

    def __init__(
        self,
        recorder: Recorder,
        learned: Learned,
        names: Collection[str],
        lists: Mapping[str, list[Any]],
    ) -> None:
        """Of some `lists` by their names, those that rounds look at."""
        self._recorder = recorder
        self._learned = learned
        self.lists: dict[str, list[Any]] = {}
        self._filling: dict[str, Filling] = {}
        self.add({n: x for n, x in lists.items() if n in names})

    def add(self, lists: Mapping[str, list[Any]]) -> None:
        """Have lists bound to a `Filling`, too."""
        self.lists |= lists
        of_rounds = self._recorder, self._learned
        self._filling |= {n: Filling(*of_rounds, n, x) for n, x in lists.items()}

    def begin(self, fresh: Mapping[str, Any]) -> dict[str, Any]:
        """Begin a round; what names are bound to in it."""
        for x in self._filling.values():
            x.begin(fresh)
        return {**self._filling}

    def names(self) -> set[str]:
        """The names under which something goes from round to round."""
        return {n for x in self._filling.values() for n in x.names()}

    def now(self) -> dict[str, Any]:
        """What goes from round to round, under names that are none of Python's."""
        return {n: v for x in self._filling.values() for n, v in x.now().items()}

    def note(self, names: dict[str, Any], now: Mapping[str, Any], left: Set[str]) -> str:
        """Add what that is before the first round to `names`; why a loop can't be captured.

        `now` is what a round leaves of all names, of which those `left` are read afterwards.
        """
        try:
            names_left = left & now.keys()
            if any(type(now[n]) is Filling and n not in self.lists for n in names_left):
                raise Unlike("a name is bound to a list to which rounds append")
            self._require_long_enough(now)
            for x in self._filling.values():
                names |= x.before(now)
            self._require_apart([now[n] for n in names_left])
        except Unlike as error:
            return str(error)
        return ""

    def _require_long_enough(self, now: Mapping[str, Any]) -> None:
        for name, x in self._filling.items():
            if not (x.lacks or x.guesses):
                continue
            length = now[f"len({name})"]
            if x.lacks and type(length) in (int, Index):
                raise Unlike(f"`{name}` is shorter than what a round looks at")
            if x.guesses and type(length) is int and length == len(x.filled):
                raise Unlike(f"`{name}` is looked at where no round adds to it")

    def fill(self, ways: Iterable[dict[str, Any]]) -> set[str]:
        """Have all ways through a round tell under these names; which they are."""
        names = self.names()
        for way in ways:
            for name in names - way.keys():
                way[name] = ANY
        return names

    def _require_apart(self, values: Iterable[Any]) -> None:
        """Unlike where a value that is left after a round is an array that is an element."""
        elements = {id(x.root) for filling in self._filling.values() for x in filling.arrays()}
        known = [v for v in values if not isinstance(v, Gone)] if elements else []
        if any(id(x.root) in elements for x in leaves(known) if isinstance(x, Tracer)):
            raise Unlike("a name is bound to an array that is an element of a list")
