"""Extents of arrays that depend on the rounds of captured loops: `A[i, :j]` has `j` elements.

An `Extent` is an int, that of one round (a *sample*), which knows what it is in every round. So all
that computes with shapes works on it; what sums and products of it are, it knows as well. Whether
two extents are equal is decided by what they are in all rounds: where it can't be, they are taken
to differ, as a size is that is neither 0 nor 1 nor any other one. Where an order can't be decided,
the loop is written out.

What takes the sample for a number goes unseen here. The body of a loop is therefore recorded for
two samples, and is captured only where both give the same (`capture`). The extents of arguments may
depend on `Sizes` besides, of which an order is always decided: what decided it is a guard.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple, NoReturn

from minicc.frontends.trace.loops.learned import End
from minicc.frontends.trace.sizes import Sizes
from minicc.ir import affine, affine_facts
from minicc.ir.affine import Dim
from minicc.ir.bind import rebound
from minicc.ir.core import Region, Value

_MOST = 1 << 40  # rounds that a loop may have in the time that anybody waits
_USUAL = 100  # what a size that data give is in a sample, where it may be larger


class DataSize(NamedTuple):
    """A number that data give in a round, one of so many from 0 on, and these in the sample."""

    number: Value
    counts: Dim
    sample: int


class Rounds:
    """The rounds of the loops that are recorded: their names, and how many there are of each.

    Counts may depend on loops around. `write_out` gives up the innermost loop.
    """

    def __init__(self, write_out: Callable[[str], NoReturn]) -> None:
        self.counts: dict[str, Dim] = {}  # the outer loop's before that of one within
        self.samples: dict[str, int] = {}
        self.used = False  # whether an array has an extent that depends on them
        self.data: dict[str, DataSize] = {}  # what data give within them
        # truth values by what is compared with 0, and how (`__lt__`)
        self.compared: dict[Value, tuple[Dim, str]] = {}
        self._which: list[int] = []
        self.sizes = Sizes()
        self.write_out = write_out

    def enter(self, count: Dim, which: int) -> str:
        """Begin with a loop of so many rounds within the others; its name. There are two samples.

        ValueError where it has too few rounds in the sample.
        """
        rounds = self.sample(count)
        if rounds < 2:
            raise ValueError("has too few rounds in the middle of the loop around it")
        name = f"$i{len(self.counts)}"
        self.counts[name], self.samples[name] = count, rounds // 2 - which
        self._which.append(which)
        return name

    def data_size(self, number: Value, count: Dim) -> Dim:
        """A symbol for what data give in the innermost loop's round: one of `count` numbers.

        The same one for the same value.
        """
        for name, known in self.data.items():
            if known.number is number and known.counts == count:
                return affine.symbol(name)
        name = f"$n{len(self.counts)}"
        self.data[name] = DataSize(number, count, self.extent(count))
        rounds = min(self.sample(count), _USUAL)
        self.counts[name], self.samples[name] = count, max(0, rounds // 2 - self._which[-1])
        self.used = True
        return affine.symbol(name)

    def leave(self, loop: str) -> dict[str, DataSize]:
        """End with the innermost loop; what data gave in its rounds, in order."""
        found: dict[str, DataSize] = {}
        while loop in self.counts:
            name, _ = self.counts.popitem()
            del self.samples[name]
            if name in self.data:
                found[name] = self.data.pop(name)
        self._which.pop()
        return dict(reversed(found.items()))

    def bounds(self, value: Dim) -> tuple[int, int]:
        """The least and the greatest that an expression is in all rounds."""
        low, high = self._ends(value)
        return self.extent(low), self.extent(high)

    def magnitude(self, value: Dim) -> int:
        """How far from 0 an expression may be: no loop that data end comes to its last round."""
        counts = {n: min(c, _MOST) if isinstance(c, int) else c for n, c in self.counts.items()}
        ends = [affine_facts.extreme_within(value, counts, most=most) for most in (False, True)]
        return max(abs(self.extent(end)) for end in ends)

    def _ends(self, value: Dim) -> tuple[Dim, Dim]:
        low = affine_facts.extreme_within(value, self.counts, most=False)
        return low, affine_facts.extreme_within(value, self.counts)

    def ends_beyond(self, loop: str, value: Dim, most: int) -> Iterator[End]:
        """Which round of a loop alone, its first or last, has an expression not in `0 .. most`."""
        later = {loop: affine.symbol(loop) + 1}
        fewer = self.counts | {loop: affine.add(self.counts[loop], -1)}
        without: dict[End, Any] = {
            "first": ({n: affine.substitute(c, later) for n, c in fewer.items()}, later),
            "last": (fewer, {}),
        }
        for end, (counts, moved) in without.items():
            rest = affine.substitute(value, moved)
            low, high = (affine_facts.extreme_within(rest, counts, most=m) for m in (False, True))
            if self.extent(low) >= 0 and self.extent(high) <= most:
                yield end

    def is_negative(self, value: Dim) -> bool | None:
        """Whether an expression is below zero in all rounds or in none; None where rounds differ.

        Where sizes decide, what they decide is a guard.
        """
        low, high = self._ends(value)
        if self.sizes.natural(low):
            return False
        return None if self.sizes.natural(high) else True

    def turns(self, value: Dim) -> bool:
        """Whether an expression depends on the round."""
        return not affine.symbols(value).isdisjoint(self.counts)

    def sample(self, value: Dim) -> int:
        """What an expression is in the sample."""
        known = self.samples | self.sizes.numbers
        return value if isinstance(value, int) else int(affine.evaluate(value, known))

    def extent(self, value: Dim) -> int:
        """An extent; a plain number where it is the same in all rounds."""
        if isinstance(value, int):
            return value
        made = Extent(self.sample(value))
        made.dim, made.rounds = value, self
        return made


class Extent(int):
    """What an array has along an axis: `dim`, an expression over the numbers of rounds."""

    dim: Dim
    rounds: Rounds

    __hash__ = int.__hash__

    def __eq__(self, other: object) -> bool:
        if not issubclass(type(other), int):
            return NotImplemented if isinstance(other, int) else False
        gap = self._gap(other)
        return gap == 0

    def __ne__(self, other: object) -> bool:
        return not self == other

    def _gap(self, other: Any) -> Dim:
        return affine.add(self.dim, affine.multiply(dim_of(other), -1))

    def __lt__(self, other: Any) -> bool:
        if not issubclass(type(other), int):
            return NotImplemented
        return self._is_negative(self._gap(other))

    def __ge__(self, other: Any) -> bool:
        return NotImplemented if not issubclass(type(other), int) else not self < other

    def __gt__(self, other: Any) -> bool:
        if not issubclass(type(other), int):
            return NotImplemented
        return self._is_negative(affine.multiply(self._gap(other), -1))

    def __le__(self, other: Any) -> bool:
        return NotImplemented if not issubclass(type(other), int) else not self > other

    def _is_negative(self, gap: Dim) -> bool:
        known = self.rounds.is_negative(gap)
        if known is None:
            self.rounds.write_out("two extents are compared, and rounds differ in which is larger")
        return known

    def __bool__(self) -> bool:
        # one that depends on rounds as any extent of which it is not known that it is 0
        return self.rounds.turns(self.dim) or self > 0 or self < 0

    def __abs__(self) -> int:
        return self if self >= 0 else -self

    def __neg__(self) -> int:
        return self * -1

    def __floordiv__(self, other: Any) -> int:
        whole = affine_facts.exact_quotient(self.dim, dim_of(other))
        if whole is not None:
            return self.rounds.extent(whole)
        if type(other) is int and other > 0:
            return self.rounds.extent(affine.floordiv(self.dim, other))
        return self.rounds.write_out("an extent is divided by what is no known number")

    def __mod__(self, other: Any) -> int:
        if affine_facts.exact_quotient(self.dim, dim_of(other)) is not None:
            return 0
        if type(other) is int and other > 0:
            return self.rounds.extent(affine.mod(self.dim, other))
        return self.rounds.write_out("an extent is divided by what is no known number")

    def __rmod__(self, other: Any) -> int:
        if type(other) is int and -self <= other < self:
            return other if other >= 0 else self + other
        return self.rounds.write_out("a number is divided by an extent")


def _arithmetic(combine: Callable[[Dim, Dim], Dim], plain: str) -> Any:
    inherited = getattr(int, plain)

    def apply(self: Extent, other: Any) -> Any:
        if not issubclass(type(other), int):  # an index knows sums with extents itself
            return inherited(self, other) if not isinstance(other, int) else NotImplemented
        return self.rounds.extent(combine(self.dim, dim_of(other)))

    return apply


for _name, _combine in (
    ("__add__", affine.add),
    ("__radd__", affine.add),
    ("__sub__", lambda a, b: affine.add(a, affine.multiply(b, -1))),
    ("__rsub__", lambda a, b: affine.add(b, affine.multiply(a, -1))),
    ("__mul__", affine.multiply),
    ("__rmul__", affine.multiply),
):
    setattr(Extent, _name, _arithmetic(_combine, _name))


def dim_of(value: int) -> Dim:
    """What an extent is in all rounds."""
    return value.dim if isinstance(value, Extent) else value


def sure(extent: Dim) -> bool:
    """Whether an extent is one of which it need not be asked whether it is 0 in some round."""
    return not isinstance(extent, Extent) or extent.rounds.bounds(extent.dim)[0] > 0


def is_given_by_data(given: Collection[str], extent: Dim) -> bool:
    """Whether an extent depends on sizes that data give in each round, and may be 0."""
    if not isinstance(extent, Extent) or sure(extent):
        return False
    return not affine.symbols(extent.dim).isdisjoint(given)


def same_number(left: int, right: int) -> bool:
    """Whether two numbers of elements are equal; a guard where sizes decide."""
    gap = left - right
    if not isinstance(gap, Extent) or gap.rounds.turns(gap.dim):
        return left == right
    return not gap


def in_all_rounds(body: Region) -> Region:
    """A recorded body with what its extents are in all rounds in the place of the sample's."""
    return rebound(body, lambda value: dim_of(value) if isinstance(value, int) else value)


def cut_of(part: slice, extent: int) -> tuple[int, int, int]:
    """The start, stop and step of a slice of an axis, as `slice.indices` gives them."""
    if not isinstance(extent, Extent):
        return part.indices(extent)
    step = 1 if part.step is None else part.step
    if part.start is None and part.stop is None and abs(step) == 1:
        return (0, extent, 1) if step > 0 else (extent - 1, -1, -1)
    if step < 1:
        if not extent.rounds.turns(extent.dim) and part.start is None and part.stop is None:
            return extent - 1, -1, step
        extent.rounds.write_out("the extent of a slice that goes back depends on the round")
    start = 0 if part.start is None else _from_front(part.start, extent)
    stop = extent if part.stop is None else _from_front(part.stop, extent)
    if start > stop:
        return start, start, step
    return start, stop, step


def _from_front(end: int, extent: Extent) -> int:
    place = end if end >= 0 else extent + end
    low, _ = extent.rounds.bounds(dim_of(place))
    most = extent.rounds.bounds(affine.add(extent.dim, affine.multiply(dim_of(place), -1)))[0]
    if not extent.rounds.turns(extent.dim):  # sizes decide
        return 0 if low < 0 else extent if most < 0 else place
    if low < 0 or most < 0:
        extent.rounds.write_out("a slice is cut to an extent that depends on the round")
    return place


def extents_among(argument: Any) -> list[Extent]:
    """The extents in an argument of a function."""
    if isinstance(argument, (tuple, list)):
        return [n for part in argument for n in extents_among(part)]
    return [argument] if type(argument) is Extent else []
