"""Places that the rounds of a captured loop set: `P["w"] = P["w"] - step`, `self.t += dt`.

Such a place of a dict or list, or attribute of an object, goes from round to round like a local
name does, under a name that is none of Python's. Which places those are is seen by a recording. A
list in one of them to which rounds append, and do nothing else, is as one under a local name:
`history["loss"].append(loss)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from minicc.frontends.trace.loops.reach import Reach
from minicc.frontends.trace.objects import attributes


class _Container(NamedTuple):
    """A list or dict that a body reaches, and what is in it before the loop.

    A dict may be one of attributes, which may be `read` during the loop.
    """

    name: str
    value: Any
    was: Any
    read: Mapping[str, Any] | None = None


class _Slot(NamedTuple):
    """A place of a dict or list."""

    container: Any
    key: Any


class Slots:
    """The places of the containers that a loop's body reaches.

    `wrong` is one that changed size, `added` the place that a way through a round was the first to
    set, whatever the other ways do.
    """

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._containers = [_Container(n, x, x.copy()) for n, x in reach.containers]
        for name, x in reach.objects:
            now, read = attributes(x)
            self._containers.append(_Container(name, now, now.copy(), read))
        self._held: dict[str, _Slot] = {}
        self._start: Mapping[str, Any] = {}
        self._names: dict[tuple[int, Any], str] = {}
        self._before: dict[str, Any] = {}
        self.appended: dict[str, list[Any]] = {}  # lists to which a recording has appended
        self.wrong = ""
        self.added = ""

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
            if type(c.was) is dict:
                self._let_go(c)
            if len(c.value) != len(c.was) or (type(c.was) is dict and [*c.value] != [*c.was]):
                self._grew(c)
                continue
            for key, was in c.was.items() if type(c.was) is dict else enumerate(c.was):
                name = self._names.get((id(c.value), key))
                if name is None and c.value[key] is not was:
                    self._add(c, key, was)
        return self.held()

    def _let_go(self, c: _Container) -> None:
        """Take away from a dict what a round has added to it, but for attributes that it read."""
        for key in [key for key in c.value if key not in c.was]:
            if c.read and c.read.get(key, c) is c.value[key]:
                c.was[key] = c.value[key]
            else:
                del c.value[key]
                self.added = _spelt(c, key)

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
            if other.was[key] is c.value is other.value[key]
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
        name = _spelt(c, key)
        while name in self._held:
            name += "'"
        self._names[id(c.value), key] = name
        self._held[name] = _Slot(c.value, key)
        self._before[name] = was
        return name


def _spelt(c: _Container, key: Any) -> str:
    """What a place of a container is called."""
    return f"{c.name}[{key!r}]" if c.read is None else f"{c.name}.{key}"
