"""What is compiled of a function, for which calls, and how much of it is kept.

A call is looked up by its key and by those of its Python numbers that are constants of a program.
A number that was given with another value before is none from then on, unless Python needs it.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

from minicc.frontends.trace import Environment, Given, Traced, Tree
from minicc.frontends.trace.given import Reference
from minicc.frontends.trace.paths import value_key
from minicc.frontends.trace.pytree import NUMBERS, Key
from minicc.runtime.saved import Compilation

LOGGER = logging.getLogger("minicc")
PROGRAMS = 128  # of one function that are kept
_TICKS = itertools.count()
_NOTHING = Given()


class Call:
    """The arguments of a call: its key, arrays, Python numbers, and all of them as given.

    `inputs` are what the program takes besides the arrays, `given` what its trace knows of numbers.
    """

    __slots__ = ("arrays", "given", "inputs", "key", "numbers", "values")

    def __init__(
        self, key: Key, arrays: list[Any], numbers: list[Any], values: Sequence[Any]
    ) -> None:
        self.key = key
        self.arrays = arrays
        self.numbers = numbers
        self.values = values
        self.inputs: list[Any] = []
        self.given = _NOTHING

    def told(self, places: Sequence[int]) -> Key:
        """The key of some of the numbers."""
        return tuple([value_key(self.numbers[k]) for k in places])


class Seen(NamedTuple):
    """What is remembered of a traced call: its key, its numbers and what they are called."""

    key: Key
    numbers: list[Any]
    names: list[str]
    order: int


class Specialisation:
    """What is known for one kind of call: one graph, or a tree of paths with breaks.

    `plain` says why NumPy itself runs the function, where it does.
    """

    __slots__ = ("compilation", "environment", "given", "loops", "plain", "references", "seen",
                 "traced", "tree", "used", "writes")  # fmt: skip

    def __init__(self, tree: Tree, given: Given) -> None:
        self.tree = tree
        self.given = given
        self.references: list[Reference] = []
        self.environment = Environment(())
        self.compilation: Compilation | None = None
        self.traced: Traced | None = None
        self.seen: Any = None
        self.loops: tuple[str, ...] = ()
        self.writes: tuple[str, ...] = ()
        self.plain = ""
        self.used = 0

    def add(self, traced: Traced, given: Given) -> None:
        """Take over what a trace found out."""
        self.traced = traced
        self.given = given
        self.references += traced.references
        self.writes = tuple(dict.fromkeys((*self.writes, *traced.writes)))
        self.loops = tuple(dict.fromkeys((*self.loops, *traced.loops)))
        self.environment = Environment(self.references)


class _Family:
    """The programs for one key of a call.

    `layers` are keyed by which numbers are constants, then by these; `moving` are the numbers that
    were given with several values, `settled` those of them that Python needs.
    """

    def __init__(self) -> None:
        self.layers: dict[tuple[int, ...], dict[Key, list[Specialisation]]] = {}
        self.moving: set[int] = set()
        self.settled: set[int] = set()
        self.last: Seen | None = None


class Known:
    """All programs of a function; those that were not used for the longest time go."""

    def __init__(self) -> None:
        self._families: dict[Key, _Family] = {}
        self._moving: dict[Any, Reference] = {}
        self._settled: dict[Any, Reference] = {}
        self.last: Seen | None = None

    def find(self, call: Call) -> Specialisation | None:
        """What may be used for a call, whose inputs are set."""
        family = self._families.get(call.key)
        if family is None:
            return None
        for fixed, table in family.layers.items():
            for found in table.get(call.told(fixed), ()):
                inputs = found.given.of(call.numbers)
                if inputs is not None and found.environment.holds():
                    found.used = next(_TICKS)
                    call.inputs = inputs
                    return found
        return None

    def _near(self, call: Call) -> list[Specialisation]:
        """What would do for a call if nothing outside of the function had changed."""
        family = self._families.get(call.key, _Family())
        tables = [(t, call.told(fixed)) for fixed, t in family.layers.items()]
        return [s for table, key in tables for s in table.get(key, ())]

    def changed(self, call: Call) -> str:
        """Which values from outside are others than for the last trace."""
        found = self._near(call)
        return found[0].environment.explain() if found else ""

    def moving(self, call: Call) -> set[Any]:
        """The numbers that are no constants for a call that is to be traced."""
        for found in self._near(call):
            for r in found.environment.changed():
                number = type(r.value) in NUMBERS and type(r.now()) is type(r.value)
                if number and r.place not in self._settled:
                    self._moving[r.place] = r
        family = self._families.get(call.key)
        if family is None or family.last is None:
            return set(self._moving)
        pairs = enumerate(zip(family.last.numbers, call.numbers, strict=True))
        changed = {k for k, (a, b) in pairs if value_key(a) != value_key(b)}
        family.moving |= changed - family.settled
        return family.moving | set(self._moving)

    def keep(self, call: Call, found: Specialisation, names: list[str]) -> None:
        """Remember what was traced for a call, whose numbers have names."""
        family = self._families.setdefault(call.key, _Family())
        moving = found.given.moving
        needed = found.given.offered - moving
        family.settled |= needed & family.moving
        family.moving -= needed
        for place in needed & self._moving.keys():
            self._settled[place] = self._moving.pop(place)
        fixed = tuple([k for k in range(len(call.numbers)) if k not in moving])
        family.layers = {fixed: family.layers.get(fixed, {}), **family.layers}
        table, key = family.layers[fixed], call.told(fixed)
        others = [s for s in table.get(key, ()) if s is not found and s.environment.holds()]
        table[key] = [found, *others]
        found.used = next(_TICKS)
        family.last = self.last = found.seen = Seen(call.key, call.numbers, names, found.used)
        self._shrink()

    def _shrink(self) -> None:
        """Let go of what was not used for the longest time."""
        known = self.all()
        if len(known) <= PROGRAMS:
            return
        oldest = min(known, key=lambda s: s.used)
        for key, family in list(self._families.items()):
            for fixed, table in list(family.layers.items()):
                left = {k: [s for s in v if s is not oldest] for k, v in table.items()}
                family.layers[fixed] = {k: v for k, v in left.items() if v}
            family.layers = {f: t for f, t in family.layers.items() if t}
            if not family.layers:
                del self._families[key]

    def all(self) -> list[Specialisation]:
        """All that is known, the oldest first."""
        families = list(self._families.values())
        found = [s for f in families for t in f.layers.values() for v in t.values() for s in v]
        return sorted(found, key=lambda s: s.seen.order)
