"""Places of dicts and lists that the rounds of a captured loop set: `P["w"] = P["w"] - step`.

Such a place goes from round to round like a local name does, under a name that is none of Python's.
Which places those are is seen by a recording. A list in one of them to which rounds append, and do
nothing else, is as one under a local name: `history["loss"].append(loss)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from minicc.frontends.trace.loops.reach import Reach


class _Container(NamedTuple):
    """A list or dict that a body reaches, and what is in it before the loop."""

    name: str
    value: Any
    was: Any


class _Slot(NamedTuple):
    """A place of a dict or list."""

    container: Any
    key: Any


class Slots:
    """The places of the containers that a loop's body reaches; `wrong` is one that changed size."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._containers = [_Container(n, x, x.copy()) for n, x in reach.containers]
        self._held: dict[str, _Slot] = {}
        self._start: Mapping[str, Any] = {}
        self._names: dict[tuple[int, Any], str] = {}
        self._before: dict[str, Any] = {}
        self.appended: dict[str, list[Any]] = {}  # lists to which a recording has appended
        self.wrong = ""

    def names(self) -> set[str]:
        """The names of the places that rounds set."""
        return {*self._held}

    def begin(self, fresh: Mapping[str, Any]) -> None:
        """Begin a round, where places hold fresh values."""
        self._start = fresh
        self.bind(fresh)

    def now(self) -> dict[str, Any]:
        """What the places hold that rounds have set so far."""
        self.wrong = ""
        for c in self._containers:
            if self._reach.is_spared(c.value):
                continue
            if len(c.value) != len(c.was) or (type(c.was) is dict and [*c.value] != [*c.was]):
                self._grew(c)
                continue
            for key, was in c.was.items() if type(c.was) is dict else enumerate(c.was):
                name = self._names.get((id(c.value), key))
                if name is None and c.value[key] is not was:
                    self._add(c, key, was)
        return self.held()

    def held(self) -> dict[str, Any]:
        """What the places hold that rounds set."""
        return {n: s.container[s.key] for n, s in self._held.items()}

    def _grew(self, c: _Container) -> None:
        """Note a list of which a place holds the only reference and to which a round appends."""
        n, grew = len(c.was), type(c.value) is list and len(c.value) > len(c.was)
        slots = [
            (other, key)
            for other in self._containers
            for key in (other.was if type(other.was) is dict else range(len(other.was)))
            if other.was[key] is c.value
        ]
        same = grew and all(a is b for a, b in zip(c.value, c.was, strict=False))
        if not same or len(slots) != 1 or not self._reach.is_alone(c.value):
            self.wrong = c.name
            return
        del c.value[n:]
        (other, key) = slots[0]
        self.appended[self._add(other, key, c.value)] = c.value

    def before(self) -> dict[str, Any]:
        """What they hold before the loop."""
        return {**self._before}

    def bind(self, names: Mapping[str, Any]) -> None:
        """Set those places that have one of these names."""
        for n in self._held.keys() & names.keys():
            slot = self._held[n]
            slot.container[slot.key] = names[n]

    def fill(self, ways: Iterable[dict[str, Any]]) -> set[str]:
        """Have all ways through a round tell what they hold; their names."""
        for way in ways:
            for n in self._held.keys() - way.keys():
                way[n] = self._start.get(n, self._before[n])
        return {*self._held}

    def _add(self, c: _Container, key: Any, was: Any) -> str:
        """A name for a place."""
        name = f"{c.name}[{key!r}]"
        while name in self._held:
            name += "'"
        self._names[id(c.value), key] = name
        self._held[name] = _Slot(c.value, key)
        self._before[name] = was
        return name
