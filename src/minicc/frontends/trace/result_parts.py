"""What stands in the structure of a result besides slots: each gives a part of it at a call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

from minicc.frontends.trace.mixed import Kinds
from minicc.frontends.trace.paths import value_key
from minicc.frontends.trace.pytree import STILL, Slot, rebuild
from minicc.ir.core import Array

_FEW = 4  # elements of a list up to which a `Run` is not worth it


class Kept:
    """A constant of an element type that no graph has."""

    __slots__ = ("array", "kind")

    def __init__(self, array: Array, kind: Any) -> None:
        self.array = array.copy(order="K")
        self.kind = kind

    def of(self, leaves: Sequence[Any], args: Sequence[Any]) -> Any:
        """A copy for each call."""
        return self.array.copy(order="K") if self.array.ndim or self.kind else self.array[()]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kept) and value_key(other.array) == value_key(self.array)

    def __hash__(self) -> int:
        return hash(value_key(self.array))


class Element(NamedTuple):
    """A row of an array of results; a number as NumPy's scalar, or as one of a type of Python's."""

    number: int
    kind: type | None
    of_argument: bool = False

    def of(self, array: Array) -> Any:
        """The row."""
        return array[self.number] if self.kind is None else self.kind(array[self.number])


class Run(NamedTuple):
    """Elements of a list, the leaves of each of which are the rows after those of the last one.

    `like` is a slot with the row of the first one, or the type of a tuple or list and its parts.
    """

    like: Any
    many: int

    def of(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """The elements."""
        return self._filled(self.like, leaves)

    def _filled(self, like: Any, leaves: Sequence[Any]) -> Sequence[Any]:
        if type(like) is tuple:
            kind, *parts = like
            made = zip(*[self._filled(part, leaves) for part in parts], strict=True)
            return list(made if kind is tuple else map(list, made))
        first, kind = like.kind.number, like.kind.kind
        rows = leaves[like.index][first : first + self.many]
        return list(rows) if kind is None else list(map(kind, rows.tolist()))


class InRuns:
    """A list of which many elements are alike, so that each need not be told by itself.

    `parts` are runs, and lists of other elements.
    """

    __slots__ = ("parts",)

    def __init__(self, parts: Sequence[Run | list[Any]]) -> None:
        self.parts = tuple(parts)

    def of(self, leaves: Sequence[Any], args: Sequence[Any] = ()) -> list[Any]:
        """The list."""
        found: list[Any] = []
        for part in self.parts:
            found += part.of(leaves) if type(part) is Run else rebuild(part, leaves, args)
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InRuns) and value_key(self.parts) == value_key(other.parts)

    def __hash__(self) -> int:
        return len(self.parts)


def in_runs(structure: Any) -> Any:
    """The structure with its long lists in runs.

    What stands in it twice is one object in each result, so lists that hold such stay as they are.
    """
    return _Packing(structure).of(structure)


class _Packing:
    def __init__(self, structure: Any) -> None:
        self._times = Counter[int]()  # that an object stands in the structure
        self._count(structure)

    def _count(self, x: Any) -> None:
        self._times[id(x)] += 1
        if self._times[id(x)] == 1:
            for part in _parts(x):
                self._count(part)

    def _is_alone(self, x: Any) -> bool:
        return self._times[id(x)] == 1 and all(map(self._is_alone, _parts(x)))

    def of(self, x: Any) -> Any:
        """A part of the structure."""
        if type(x) in (tuple, dict) and self._times[id(x)] > 1:
            return x
        if type(x) is tuple:
            return tuple(map(self.of, x))
        if type(x) is dict:
            return {k: self.of(v) for k, v in x.items()}
        if type(x) is list and len(x) > _FEW and self._is_alone(x):
            return self._split(x)
        return x

    def _split(self, x: list[Any]) -> Any:
        parts: list[Any] = [[]]
        for key, pairs in groupby(enumerate(x), _run_key):
            items = [item for _, item in pairs]
            if key is None or len(items) <= _FEW:
                parts[-1] += map(self.of, items)
            else:
                parts += [Run(_told(items[0]), len(items)), []]
        return parts[0] if len(parts) == 1 else InRuns([p for p in parts if p])


def _parts(x: Any) -> list[Any]:
    """The parts of a container that may stand in a structure twice."""
    held = x.values() if isinstance(x, dict) else x if isinstance(x, (tuple, list)) else ()
    return [part for part in held if type(part) not in STILL]


def _run_key(pair: tuple[int, Any]) -> Any:
    """Equal for the elements of a run, by their places in a list; None for one of no run."""
    place, item = pair
    found = _like(item)
    return found and (found[0], tuple([number - place for number in found[1]]))


def _like(x: Any) -> tuple[Any, tuple[int, ...]] | None:
    """What a part is, and the row of each of its leaves; None where it is not of rows alone."""
    if type(x) is Slot and type(x.kind) is Element and not x.kind.of_argument:
        return (x.index, x.kind.kind), (x.kind.number,)
    parts = [_like(part) for part in x] if type(x) in (tuple, list) else []
    known = [part for part in parts if part is not None]
    if not parts or len(known) < len(parts):
        return None
    return (type(x), *[like for like, _ in known]), tuple([n for _, rows in known for n in rows])


def _told(x: Any) -> Any:
    """What a run tells of its first element."""
    return x if type(x) is Slot else (type(x), *map(_told, x))


class OfEither:
    """A number that is of NumPy's type where a truth value among the results says so."""

    __slots__ = ("kinds", "number", "theirs")

    def __init__(self, number: Slot, theirs: Slot, kinds: Kinds) -> None:
        self.number = number
        self.theirs = theirs
        self.kinds = kinds

    def of(self, leaves: Sequence[Any], args: Sequence[Any]) -> Any:
        """The number."""
        number = self.number.of(leaves, args)
        kind = self.kinds.theirs if self.theirs.of(leaves, args) else self.kinds.own
        return kind(number)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OfEither) and self._told() == other._told()

    def __hash__(self) -> int:
        return hash(self.number.index)

    def _told(self) -> Any:
        return value_key(self.number), value_key(self.theirs), self.kinds


class Picked:
    """A view at indices that data give, of what stands in a slot or of a captured array.

    `steps` are functions that make views, and indices with slots for what data give.
    """

    __slots__ = ("base", "steps")

    def __init__(self, base: Any, steps: Sequence[Any]) -> None:
        self.base = base
        self.steps = steps

    def of(self, leaves: Sequence[Any], args: Sequence[Any]) -> Any:
        """The view."""
        array = self.base.of(leaves, args) if isinstance(self.base, Slot) else self.base
        for step in self.steps:
            array = step(array) if callable(step) else array[rebuild(step, leaves)]
        return array

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Picked) and self._told() == other._told()

    def __hash__(self) -> int:
        return hash(self._told()[0])

    def _told(self) -> Any:
        steps = [None if callable(s) else value_key(s) for s in self.steps]
        return len(steps), value_key(self.base), steps


class Compressed:
    """The elements of an array that a mask takes, or the first ones, as results say.

    NumPy takes them after the call, so that no program has to know how many they are.
    """

    __slots__ = ("array", "taken")

    def __init__(self, array: Slot, taken: Slot) -> None:
        """`taken` is a mask, or how many there are."""
        self.array = array
        self.taken = taken

    def of(self, leaves: Sequence[Any], args: Sequence[Any]) -> Any:
        """The elements."""
        array, taken = self.array.of(leaves, args), self.taken.of(leaves, args)
        return array[taken] if self.taken.kind is None else array[:taken].copy()

    @property
    def index(self) -> tuple[int, int]:
        """Where both stand."""
        return self.array.index, self.taken.index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Compressed) and self.index == other.index

    def __hash__(self) -> int:
        return hash(self.index)
