"""What stands in the structure of a result besides slots: each gives a part of it at a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from minicc.frontends.trace.mixed import Kinds
from minicc.frontends.trace.paths import value_key
from minicc.frontends.trace.pytree import Slot, rebuild
from minicc.ir.core import Array


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
