"""Symbols for extents that are found only when a model runs, and for the rounds of loops."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from minicc.ir import graph
from minicc.ir.affine import Dim, maximum, minimum, size, spell_size, symbols
from minicc.ir.affine_facts import at_least_within
from minicc.ir.core import Op
from minicc.ir.graph.demands import equal_extents, natural_numbers


class Symbols:
    """Names for extents that data decide, which are entered into `made`; each is given once.

    So is the number of a loop's round while its body is imported. `rounds` says how many there are:
    of loops within one another, of the outer one first. `taken` are the names that are given, and
    those of the model's own dimensions.
    """

    def __init__(self) -> None:
        self.made: set[str] = set()
        self.taken: set[str] = set()
        self.rounds: dict[str, Dim] = {}

    def fresh(self, value: str, axis: int) -> Dim:
        """A symbol for an extent of a value."""
        base = re.sub(r"\W", "_", f"{value}_{axis}", flags=re.ASCII)
        base = base if base[:1].isalpha() else f"n{base}"
        name, tries = base, 0
        while name in self.taken:
            tries += 1
            name = f"{base}_{tries}"
        self.taken.add(name)
        self.made.add(spell_size(name))
        return size(name)

    @contextmanager
    def in_rounds(self, count: Dim) -> Iterator[Dim]:
        """A symbol for the number of a round; loops that follow have the same one.

        So bodies that do the same are the same.
        """
        number = self.fresh("round", len(self.rounds))
        (name,) = symbols(number)
        self.rounds[name] = count
        try:
            yield number
        finally:
            del self.rounds[name]
            self.made.discard(name)
            self.taken.discard(name.removeprefix("$"))

    def unsure(self, op: Op) -> Sequence[Dim]:
        """Sizes for which an op may be wrong: those that data decide, or that rounds do."""
        for n in natural_numbers(op):
            cut = isinstance(op, graph.Slice | graph.Pad) and not self.made.isdisjoint(symbols(n))
            if (cut or self.turns(n)) and not self.at_least(n, 0):
                return [n]
        pairs = equal_extents(op) if self.rounds else ()
        return next((pair for pair in pairs if any(map(self.turns, pair))), ())

    def turns(self, value: Dim) -> bool:
        """Whether an expression depends on the round of a loop."""
        return not self.rounds.keys().isdisjoint(symbols(value))

    def at_least(self, left: Dim, right: Dim) -> bool:
        """Whether the first is surely no smaller than the second, in all rounds."""
        return at_least_within(left, right, self.rounds)

    def smaller(self, left: Dim, right: Dim) -> Dim:
        """The smaller of two, which is one of them where that is so in all rounds."""
        if self.at_least(left, right):
            return right
        return left if self.at_least(right, left) else minimum(left, right)

    def greater(self, left: Dim, right: Dim) -> Dim:
        """The greater of two, which is one of them where that is so in all rounds."""
        if self.at_least(left, right):
            return left
        return right if self.at_least(right, left) else maximum(left, right)
