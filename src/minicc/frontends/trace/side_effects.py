"""What a function changes of Python's objects from outside: attributes, lists and dicts.

While a function is traced, copies and stand-ins are changed. What they hold in the end is part of
the result, and each call gives it to the objects themselves when all else is done.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, NamedTuple

from minicc.errors import UnsupportedError
from minicc.frontends.trace.given import Reference
from minicc.frontends.trace.paths import value_key
from minicc.frontends.trace.pytree import PLAIN, Held, Slot, leaves, rebuild
from minicc.frontends.trace.routes import Argument, Route
from minicc.ir.core import Array

_CHANGED = (list, dict)  # containers that a call may change
_MOST = 64  # things that are replaced and are inputs then


class Begun(list[Array]):
    """The arrays that a call begins with, and its arguments."""

    __slots__ = ("values",)

    def __init__(self, arrays: Sequence[Array], values: Sequence[Any]) -> None:
        super().__init__(arrays)
        self.values = values


@dataclass(frozen=True)
class Itself:
    """An object of the user's, in a result: always the same, or one to which a call leads."""

    held: Held | Route

    def of(self, leaves: Sequence[Any], args: Sequence[Any]) -> Any:
        """The object."""
        return self.held.of(args.values if isinstance(args, Begun) else ())


def itself(home: Any) -> Itself:
    """An object to which a route leads, or that is given."""
    return Itself(home if isinstance(home, Route) else Held(home))


@dataclass(frozen=True, eq=False)
class Home:
    """Where a container is found at a call: within an argument, or what is read from outside."""

    root: Argument | Reference
    steps: tuple[Any, ...] = ()
    adds: bool = False  # whether a list is to have more than it has, and nothing else

    def of(self, leaves: Sequence[Any], args: Sequence[Any]) -> Any:
        """The container."""
        assert isinstance(args, Begun)
        found = self.root.now(args.values)
        for step in self.steps:
            found = found[step]
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Home) and self._told() == other._told()

    def __hash__(self) -> int:
        return hash(self._told())

    def _told(self) -> Any:
        return self.root.place, value_key(self.steps), self.adds


class Acts:
    """A result, after which objects get what the function has given them.

    `changes` are the objects and containers with what they are to hold, attributes by name;
    `apart` are the homes of all containers, which must be others at each call.
    """

    __slots__ = ("_sets", "apart", "changes", "result")

    def __init__(
        self, result: Any, changes: Sequence[tuple[Itself | Home, Any]], apart: Sequence[Home]
    ) -> None:
        self.result = result
        self.changes = changes
        self.apart = apart if any(isinstance(target, Home) for target, _ in changes) else ()
        self._sets = _plain_sets(result, changes)

    def require_apart(self, args: Sequence[Any]) -> None:
        """UnsupportedError (MC0248) where one container is at two places."""
        ids = [id(home.of((), args)) for home in self.apart]
        if len({*ids}) < len(ids):
            text = "a list or dict is changed that is two of those that the function reads"
            raise UnsupportedError("MC0248", text, hint="pass a copy")

    def of(self, arrays: Sequence[Any], args: Sequence[Any]) -> Any:
        """The result."""
        if self._sets is not None:  # as for most functions
            values = [v.of(arrays, args) if type(v) is Slot else v for _, _, v in self._sets]
            targets = [target.of(arrays, args) for target, _, _ in self._sets]
            result = rebuild(self.result, arrays, args)
            for target, (_, name, _), value in zip(targets, self._sets, values, strict=True):
                setattr(target, name, value)
            return result
        if self.apart:
            self.require_apart(args)
        targets = [target.of(arrays, args) for target, _ in self.changes]
        contents = [content for _, content in self.changes]
        result, contents = rebuild((self.result, contents), arrays, args)
        for (kind, _), target, content in zip(self.changes, targets, contents, strict=True):
            if isinstance(kind, Itself):
                for name, value in content.items():
                    setattr(target, name, value)
            elif kind.adds:
                target += content
            elif type(target) is list:
                target[:] = content
            else:
                _renew(target, content)
        return result

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Acts) and self._told() == other._told()

    def __hash__(self) -> int:
        return len(self.changes)

    def _told(self) -> Any:
        changes = [(target, value_key(c)) for target, c in self.changes]
        return value_key(self.result), changes, self.apart


def _plain_sets(
    result: Any, changes: Sequence[tuple[Itself | Home, Any]]
) -> list[tuple[Itself, str, Any]] | None:
    """Objects, names of attributes and what these get; None where that is not alone and at once.

    At once are arrays and plain values of which none is given twice, nor stands in the result.
    """
    found = [
        (target, name, value)
        for target, content in changes
        if isinstance(target, Itself)
        for name, value in content.items()
    ]
    alone = all(isinstance(target, Itself) for target, _ in changes)
    plain = all(type(value) in (Slot, *PLAIN) for _, _, value in found)
    slots = [id(v) for v in (*leaves(result), *[v for _, _, v in found]) if type(v) is Slot]
    return found if alone and plain and len({*slots}) == len(slots) else None


def _renew(target: dict[Any, Any], content: dict[Any, Any]) -> None:
    """Have a dict hold what another one does; keys that both have keep their places."""
    kept = [k for k in target if k in content]
    if kept != [*content][: len(kept)]:
        target.clear()
    for key in [k for k in target if k not in content]:
        del target[key]
    target.update(content)


class _Container(NamedTuple):
    """A copy that stands for a real container, what it held at first, and where that is found.

    One of a list that is `unseen` has nothing of what that holds.
    """

    name: str
    copy: Any
    real: Any
    before: Any
    home: Home | None
    unseen: bool = False


class SideEffects:
    """What a trace changes of objects from outside."""

    def __init__(self) -> None:
        self._containers: dict[int, _Container] = {}  # by the identity of the copy
        self._objects: list[tuple[Any, Any, dict[str, Any], dict[str, Any]]] = []

    def watch(self, copy: Any, real: Any, name: str, home: Home | None = None) -> None:
        """Know the copy of a real container, and those in it; nothing for all else."""
        if not isinstance(copy, (tuple, list, dict, set, frozenset, deque)):
            return
        if not isinstance(copy, tuple):
            self._containers[id(copy)] = _Container(name, copy, real, _shallow(copy), home)
        if isinstance(copy, dict):  # of which classes that are keys may be others
            parts: Iterable[tuple[Any, Any, Any]] = zip(
                real, copy.values(), real.values(), strict=True
            )
        elif isinstance(copy, (tuple, list)):
            parts = zip(count(), copy, real, strict=False)
        else:
            return
        for key, part, of_real in parts:
            if type(part) in PLAIN:
                continue
            self.watch(part, of_real, name, home and replace(home, steps=(*home.steps, key)))

    def watch_unseen(self, reference: Reference) -> list[Any]:
        """What stands for a list to which the code does nothing but append: an empty one."""
        made: list[Any] = []
        name, home = reference.name, Home(reference)
        self._containers[id(made)] = _Container(name, made, reference.value, [], home, unseen=True)
        return made

    def is_unseen(self, x: Any) -> bool:
        """Whether that is what stands there."""
        known = self._containers.get(id(x))
        return known is not None and known.unseen

    def watch_object(self, real: Any, home: Any, read: dict[str, Any], now: dict[str, Any]) -> None:
        """Know the attributes of what stands for an object: those that were read, and as is now.

        `home` is where they are read: a route, or the object itself.
        """
        self._objects.append((real, home, read, now))

    def target(self, x: Any) -> Home | None:
        """Where the container is that a copy stands for, if it is one and that is known."""
        known = self._containers.get(id(x))
        return None if known is None else known.home

    def name(self, target: Itself | Home) -> str:
        """What the code calls what is changed."""
        found = (c.name for c in self._containers.values() if c.home == target)
        return next(found, "an object")

    def any(self) -> bool:
        """Whether there are some so far."""
        return bool(self._sets()) or any(map(_differs, self._containers.values()))

    def replaced(self) -> list[Reference]:
        """What was read and is another thing now: attributes, and elements of containers."""
        found = []
        for c in filter(_differs, self._containers.values()):
            if c.home is not None and isinstance(c.home.root, Reference) and not c.unseen:
                before = c.before if isinstance(c.copy, dict) else enumerate(c.before)
                now = c.copy if isinstance(c.copy, dict) else dict(enumerate(c.copy))
                keys = c.real if isinstance(c.real, dict) else range(len(c.real))
                for (key, value), of_real in zip(before, keys, strict=True):
                    if now.get(key, value) is not value:
                        found.append(_element(c.home, of_real, c.real[of_real]))
        for real, home, read, now in self._objects:
            names = [n for n, v in read.items() if now[n] is not v]
            found += [Reference("attribute", home, n, getattr(real, n)) for n in names]
        return found if len(found) <= _MOST else []

    def changes(self, refuse: Callable[[str], Any]) -> list[tuple[Itself | Home, Any]]:
        """Those of a whole trace; some are to be refused by the name of what they change."""
        found: list[tuple[Itself | Home, Any]] = []
        times = Counter(id(c.real) for c in self._containers.values())
        for c in filter(_differs, self._containers.values()):
            if c.home is None or type(c.copy) not in _CHANGED or times[id(c.real)] > 1:
                refuse(c.name)
            assert c.home is not None
            home = replace(c.home, adds=True) if c.unseen else c.home
            found.append((home, c.copy.copy()))
        return found + [(itself(home), sets) for home, sets in self._sets()]

    def homes(self) -> list[Home]:
        """Where all containers are that may change."""
        known = self._containers.values()
        return [c.home for c in known if c.home is not None and type(c.copy) in _CHANGED]

    def _sets(self) -> list[tuple[Any, dict[str, Any]]]:
        """Where the objects are of which attributes were set, with these."""
        missing = object()
        changed = (
            (home, {n: v for n, v in now.items() if v is not read.get(n, missing)})
            for _, home, read, now in self._objects
        )
        return [(home, sets) for home, sets in changed if sets]


def _element(home: Home, key: Any, value: Any) -> Reference:
    """The reference to an element of a container that is read from outside."""
    assert isinstance(home.root, Reference)
    at = home.root
    for step in home.steps:
        at = Reference(at.kind, at, step, None)
    return Reference(at.kind, at, key, value)


def _shallow(x: Any) -> Any:
    """What a container holds."""
    return [*x.items()] if isinstance(x, dict) else [*x]


def _differs(c: _Container) -> bool:
    """Whether a container holds other things than at first."""
    if isinstance(c.copy, (set, frozenset)):
        return bool(c.copy != {*c.before})
    now = _shallow(c.copy)
    if isinstance(c.copy, dict):
        pairs = zip(now, c.before, strict=False)
        same = all(j is k and v is w for (j, v), (k, w) in pairs)
    else:
        same = all(v is w for v, w in zip(now, c.before, strict=False))
    return len(now) != len(c.before) or not same
