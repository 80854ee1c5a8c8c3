"""How a call leads to the objects of the user's that it is given, so that a trace serves others.

What a trace reads of an object that is an argument, or that is read of one, is asked at each call
of the object that is found in the same way. So a state that each step makes anew, or the instances
that share a method, have one program, as the sources of Dynamo's guards have it
(`torch/_dynamo/source.py`, `LocalSource` and `AttrSource`, PyTorch 2.13).
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from minicc.frontends.trace.objects import MISSING, Homes, Names

_FUNCTIONS = (types.FunctionType, types.MethodType, partial)


class Found(Protocol):
    """What gives a value at each call."""

    @property
    def place(self) -> Any:
        """Equal for what gives the same value."""

    def now(self, values: Sequence[Any]) -> Any:
        """The value for all arguments of a call; MISSING where there is none."""


@dataclass(frozen=True)
class Argument:
    """What stands in an argument of a call: at some indices and keys, one in the other."""

    number: int
    steps: tuple[Any, ...] = ()

    @property
    def place(self) -> Any:
        """Equal for the same place."""
        return self.number, tuple([(type(k), k) for k in self.steps])

    def now(self, values: Sequence[Any]) -> Any:
        """What stands there."""
        found = values[self.number]
        if not self.steps:  # as for most
            return found
        for step in self.steps:
            found = found[step]
        return found


def steps_in(value: Any) -> Iterator[tuple[Any, ...]]:
    """The indices and keys that lead to each leaf, in the order in which `mapped` meets them."""
    if type(value) is not dict and not isinstance(value, (tuple, list)):
        yield ()
        return
    for key, part in value.items() if type(value) is dict else enumerate(value):
        for steps in steps_in(part):
            yield (key, *steps)


class Route:
    """An object, as each call leads to it; `get` reads an attribute."""

    __slots__ = ("at",)

    def __init__(self, at: Found) -> None:
        self.at = at

    @property
    def place(self) -> Any:
        """Equal for what reads the same."""
        return type(self), self.at.place

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Route) and self.place == other.place

    def __hash__(self) -> int:
        return hash(self.place)

    def of(self, values: Sequence[Any]) -> Any:
        """The object."""
        return self.at.now(values)

    def get(self, values: Sequence[Any], name: str) -> Any:
        """An attribute of it; MISSING where it has none."""
        return getattr(self.at.now(values), name, MISSING)


class OwnRoute(Route):
    """The same for attributes that the object has itself, not its class."""

    def get(self, values: Sequence[Any], name: str) -> Any:
        """Such an attribute."""
        return getattr(self.of(values), "__dict__", {}).get(name, MISSING)


class NamesRoute(Route):
    """The names of the attributes that the object has itself."""

    def get(self, values: Sequence[Any], name: str) -> Any:
        """All of them."""
        return tuple(getattr(self.of(values), "__dict__", ()))


def homes(x: Any, route: Route | None) -> Homes:
    """Where the attributes of an object are read, to which calls may lead by a route."""
    if route is not None:
        return Homes(route, OwnRoute(route.at), NamesRoute(route.at))
    held = getattr(x, "__dict__", {})
    return Homes(x, held, Names(held))


class CellRoute(Route):
    """What the cells of a function hold, by the names that its code has for them."""

    def get(self, values: Sequence[Any], name: str) -> Any:
        """What one holds."""
        function = self.of(values)
        cells = getattr(function, "__closure__", None) or ()
        names = function.__code__.co_freevars if cells else ()
        try:
            return cells[names.index(name)].cell_contents
        except ValueError:
            return MISSING


class Identities:
    """Which of the objects that stand-ins are for are one, and which are several.

    A trace takes those that it met in several ways for one, and all others for several.
    """

    def __init__(self) -> None:
        self._ways: dict[Any, tuple[Any, Route | None]] = {}
        # what is looked at at each call: which of the objects it was, and a way to it, or itself
        self._settled: list[tuple[int, Any]] = []
        self.any = False  # whether calls lead to some, and there are others
        self.compares = False  # whether it may matter which functions are one
        self.of_numbers = False  # the same of numbers

    def note(self, x: Any, route: Route | None) -> None:
        """Know a way that leads to an object; without a route it is the object itself."""
        self._ways.setdefault((id(x), route and route.place), (x, route))

    def settle(self) -> None:
        """Let go, at the end of a trace, of what calls need not look at, and of their objects."""
        led = {id(x) for x, route in self._ways.values() if route is not None}
        ways = [(x, route) for x, route in self._ways.values() if id(x) in led
                or self.compares or not isinstance(x, _FUNCTIONS)]  # fmt: skip
        numbers: dict[int, int] = {}
        self._settled = [(numbers.setdefault(id(x), len(numbers)), route or x) for x, route in ways]
        self._ways = {}
        self.any = bool(led) and len(ways) > 1

    def hold(self, values: Sequence[Any]) -> bool:
        """Whether that is so for the arguments of a call."""
        held = [(was, x.of(values) if isinstance(x, Route) else x) for was, x in self._settled]
        pairs = {(was, id(now)) for was, now in held}
        return len(pairs) == len({was for was, _ in pairs}) == len({now for _, now in pairs})
