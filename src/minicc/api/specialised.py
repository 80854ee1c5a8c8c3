"""What is compiled of a function, for which calls, and how much of it is kept.

A call is looked up by its key and by those of its Python numbers that are constants of a program.
A number that was given with another value before is none from then on, unless Python needs it.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from minicc.frontends.trace import Environment, Given, Sizes, Traced, Tree, replay
from minicc.frontends.trace.given import Reference, may_move
from minicc.frontends.trace.paths import value_key
from minicc.frontends.trace.pytree import NUMBERS, Key
from minicc.frontends.trace.side_effects import Begun
from minicc.frontends.trace.sizes import generalised, loose, shapes_in, with_shapes
from minicc.ir.arrays import dense
from minicc.limits import no_memory
from minicc.runtime.saved import Compilation

LOGGER = logging.getLogger("minicc")
PROGRAMS = 128  # of one function that are kept
_TICKS = itertools.count()
_NOTHING = Given()
NUMBERS_ALONE = Sizes()
_CALLS = 4  # of which it is compared which extents change
_TRIES = 2
_PATTERNS = 4  # programs for all sizes of calls that differ in these alone


class Call:
    """The arguments of a call: its key, arrays, Python numbers, and all of them as given.

    `inputs` are what the program takes besides the arrays, `given` what its trace knows of numbers;
    these have `names` where it is traced.
    """

    __slots__ = ("arrays", "given", "inputs", "key", "loose", "names", "numbers", "values")

    def __init__(
        self, key: Key, arrays: list[Any], numbers: list[Any], values: Sequence[Any]
    ) -> None:
        self.key = key
        self.arrays = arrays
        self.numbers = numbers
        self.values = values
        self.inputs: list[Any] = []
        self.given = _NOTHING
        self.names: list[str] = []
        self.loose: Key | None = None

    def take(self, given: Given, hold: bool) -> None:
        """Set the inputs to what they are for a trace of the call.

        The guards `hold` where the function has not run, and changed nothing.
        """
        inputs = given.of(self.numbers, self.values)
        assert inputs is not None or not hold
        self.inputs = inputs or []

    def loosely(self) -> Key:
        """Its key but for extents that a program for all sizes may have as symbols."""
        if self.loose is None:
            self.loose = loose(self.key)
        return self.loose

    def fixed(self, moving: Collection[Any]) -> tuple[int, ...]:
        """Which of its numbers are constants of a program in which some move."""
        return tuple([k for k in range(len(self.numbers)) if k not in moving])

    def all_told(self) -> Key:
        """The key of all numbers."""
        return self.told(range(len(self.numbers)))

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

    `plain` says why NumPy itself runs the function, where it does. Where a function is `hosted`,
    nothing of it is compiled: running it as it is does the same, without the way around.
    """

    __slots__ = ("compilation", "environment", "given", "hosted", "identifies", "loops", "plain",
                 "seen", "sizes", "traced", "tree", "used", "writes")  # fmt: skip

    def __init__(self, tree: Tree, given: Given) -> None:
        self.tree = tree
        self.given = given
        self.environment = Environment(())
        self.compilation: Compilation | None = None
        self.traced: Traced | None = None
        self.seen: Any = None
        self.loops: tuple[str, ...] = ()
        self.writes: tuple[str, ...] = ()
        self.plain = ""
        self.hosted = False
        self.identifies = False  # whether it matters which numbers are one object
        self.sizes = NUMBERS_ALONE
        self.used = 0

    def use(self) -> None:
        """Note that a call is served by it."""
        self.used = next(_TICKS)

    @property
    def moving(self) -> Collection[Any]:
        """The numbers that it serves with any values, whatever the sizes of arrays are."""
        return self.given.moving - self.sizes.given.keys()

    @property
    def runs(self) -> bool:
        """Whether there is code that may be run for a call."""
        return self.compilation is not None or self.tree.root is not None

    def add(self, traced: Traced, given: Given) -> None:
        """Take over what a trace found out."""
        self.traced = traced
        self.given = given
        self.identifies |= traced.identifies
        self.writes = tuple(dict.fromkeys((*self.writes, *traced.writes)))
        self.loops = tuple(dict.fromkeys((*self.loops, *traced.loops)))
        self.environment = self.environment.joined(traced.environment)
        self.hosted = traced.module is None and self.tree.is_hosted()

    def run_by(self, compilation: Compilation) -> None:
        """Take over what its graph was compiled to."""
        self.compilation = compilation
        self.hosted = bool(compilation.host) and not compilation.kernels

    def replay(self, arrays: list[Any], inputs: list[Any], values: Sequence[Any]) -> Any:
        """The result of a call; `Missed` where that leaves the paths that are known.

        `inputs` are those of the program that are no arguments, `values` are all arguments.
        """
        begun = [*arrays, *inputs]
        if self.compilation is None:
            assert self.tree.root is not None
            return replay(self.tree.root, Begun(begun, values), self.tree.after)
        assert self.traced is not None
        try:
            given = [*map(dense, arrays), *inputs]
        except MemoryError:
            raise no_memory("dense copies of the arguments") from None
        return self.traced.rebuild(self.compilation.executable.run(given), begun, values)


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


class _Alike:
    """Calls that differ in extents and numbers alone: the last, and keys of programs for all sizes.

    `tries` are how often such a program may still turn out to be none.
    """

    def __init__(self) -> None:
        self.counts: bool | None = None  # whether sizes that data give are symbols
        self.calls: list[Any] = []
        self.made: list[Key] = []
        self.tries = _TRIES


class Known:
    """All programs of a function; those that were not used for the longest time go."""

    def __init__(self) -> None:
        self._families: dict[Key, _Family] = {}
        self._moving: dict[Any, Reference] = {}
        self._settled: dict[Any, Reference] = {}
        self._alike: dict[Key, _Alike] = {}
        # programs for all sizes, by calls that they served, with the numbers that these had
        self._served: dict[Key, tuple[Specialisation, tuple[int, ...], Key]] = {}
        self.last: Seen | None = None

    def find(self, call: Call) -> Specialisation | None:
        """What may be used for a call, whose inputs are set."""
        found = self._find(call.key, call)
        if found is not None or not self._alike:
            return found
        served = self._served.get(call.key)
        if served and served[2] == call.told(served[1]) and self._use(served[0], call):
            return served[0]
        alike = self._alike.get(call.loosely())
        made = alike.made if alike is not None else ()
        found = next((found for key in made if (found := self._find(key, call))), None)
        if found is not None:
            if len(self._served) == PROGRAMS:
                del self._served[next(iter(self._served))]
            fixed = call.fixed(found.moving)
            self._served[call.key] = found, fixed, call.told(fixed)
        return found

    def sizes(self, call: Call) -> Sizes:
        """Which sizes are to be symbols in a trace of a call, if any."""
        alike = self._alike.setdefault(call.loosely(), _Alike())
        shapes = [a.shape for a in call.arrays]
        others = [c for c in alike.calls if c[0] != shapes]
        alike.calls = [*others, (shapes, call.numbers)][-_CALLS:]
        counts = 0 if alike.counts else None
        if not alike.tries or len(alike.made) == _PATTERNS or not others:
            return Sizes(shapes, counts=counts) if alike.counts else NUMBERS_ALONE
        movable = [moves for _, moves in shapes_in(call.key)]
        return generalised(alike.calls, movable, counts)

    def may_count(self, call: Call) -> bool:
        """Whether sizes that data give may be symbols in a program for such calls."""
        alike = self._alike.get(call.loosely())
        return alike is not None and alike.counts is None

    def varies(self, call: Call) -> bool:
        """Whether there were such calls with other sizes, for which there is no one program."""
        alike = self._alike.get(call.loosely())
        return alike is not None and len(alike.calls) > 1

    def count(self, call: Call, counts: bool) -> None:
        """Have sizes that data give be symbols for such calls, or not."""
        self._alike[call.loosely()].counts = counts

    def moving_with_sizes(self, call: Call) -> set[Any]:
        """The numbers that are no constants of a program for all sizes."""
        earlier = [numbers for _, numbers in self._alike[call.loosely()].calls]
        changed = (k for k, seen in enumerate(zip(*earlier, strict=True))
                   if len(set(map(value_key, seen))) > 1)  # fmt: skip
        return self.moving(call).union(changed)

    def miss(self, call: Call, found: Specialisation, served: int) -> None:
        """Note sizes that data gave and a program is not for, after so many calls that had one.

        It is let go where that is often.
        """
        if found.sizes.missed(served):
            found.sizes.counts = None
            self.count(call, False)

    def refuse_sizes(self, call: Call, sizes: Sizes) -> None:
        """Remember that there is no program for all sizes for a call."""
        alike = self._alike[call.loosely()]
        if sizes.is_free():
            alike.tries -= 1
        else:
            alike.counts = False

    def drop_sizes(self, call: Call) -> None:
        """Have no programs for all sizes for such calls any more."""
        alike = self._alike[call.loosely()]
        alike.tries, alike.made = 0, []
        self._served.clear()

    def keep_for_all(self, call: Call, found: Specialisation) -> None:
        """Remember what was traced for all sizes that fulfil its guards."""
        alike = self._alike[call.loosely()]
        call.key = with_shapes(call.key, iter(found.sizes.shapes))
        if call.key in alike.made:
            alike.tries -= 1  # sizes are not all that it depends on
        else:
            alike.made.insert(0, call.key)
        self.keep(call, found)

    def _find(self, key: Key, call: Call) -> Specialisation | None:
        family = self._families.get(key)
        if family is None:
            return None
        for fixed, table in family.layers.items():
            for found in table.get(call.told(fixed), ()):
                fits = not found.sizes or found.sizes.serve(call.arrays, call.numbers)
                if fits and self._use(found, call):
                    return found
        return None

    def _use(self, found: Specialisation, call: Call) -> bool:
        """Whether a program for such arrays may be used for a call, whose inputs are set then."""
        inputs = found.given.of(call.numbers, call.values)
        if inputs is None or not found.environment.holds(call.values):
            return False
        found.use()
        call.inputs = inputs
        return True

    def _near(self, call: Call) -> list[Specialisation]:
        """What would do for a call if nothing outside of the function had changed."""
        family = self._families.get(call.key, _Family())
        tables = [(t, call.told(fixed)) for fixed, t in family.layers.items()]
        return [s for table, key in tables for s in table.get(key, ())]

    def changed(self, call: Call) -> str:
        """Which values from outside are others than for the last trace."""
        found = self._near(call)
        return found[0].environment.explain(call.values) if found else ""

    def moving(self, call: Call) -> set[Any]:
        """The numbers, and arrays from outside, that are no constants for a call to be traced."""
        for found in self._near(call):
            others = found.environment.changed(call.values)
            for r, now in (pair for c in others for pair in c.leaves(c.now(call.values))):
                kinds = "fciub" if r.is_reached else "fc"
                number = type(r.value) in NUMBERS or (
                    isinstance(r.value, np.ndarray | np.generic) and r.value.dtype.kind in kinds
                )
                moves = number and type(now) is type(r.value) and may_move(now)
                if moves and r.place not in self._settled:
                    self._moving[r.place] = r
        family = self._families.get(call.key)
        if family is None or family.last is None:
            return set(self._moving)
        pairs = enumerate(zip(family.last.numbers, call.numbers, strict=True))
        changed = {k for k, (a, b) in pairs if value_key(a) != value_key(b)}
        family.moving |= changed - family.settled
        return family.moving | set(self._moving)

    def keep(self, call: Call, found: Specialisation) -> None:
        """Remember what was traced for a call."""
        family = self._families.setdefault(call.key, _Family())
        moving = found.given.moving
        needed = found.given.offered - moving
        family.settled |= needed & family.moving
        family.moving -= needed
        for place in needed & self._moving.keys():
            self._settled[place] = self._moving.pop(place)
        fixed = call.fixed(moving)
        family.layers = {fixed: family.layers.get(fixed, {}), **family.layers}
        table, key = family.layers[fixed], call.told(fixed)
        others = [s for s in table.get(key, ()) if s is not found and s.environment.lasts()]
        table[key] = [found, *others]
        found.use()
        family.last = self.last = found.seen = Seen(call.key, call.numbers, call.names, found.used)
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
