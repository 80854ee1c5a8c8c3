"""Iteration spaces: the named, sized dimensions over which a structured op runs.

Printed `<n=1, h=56, c=64 | kh=3, kw=3, ic=64 ; t=10>`: parallel dimensions, then after `|` the
reduction dimensions, then after `;` the sequential ones. The order within a kind is the order of
the loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from minicc.ir.affine import Dim, typical
from minicc.ir.text.names import spell

PARALLEL, REDUCTION, SEQUENTIAL = "parallel", "reduction", "sequential"
KINDS = (PARALLEL, REDUCTION, SEQUENTIAL)


class Iter(NamedTuple):
    """One dimension of a space: name, extent (iterations), and kind."""

    name: str
    extent: Dim
    kind: str = PARALLEL

    def __repr__(self) -> str:
        return f"{spell(self.name)}={self.extent}"


class Space:
    """An ordered set of dimensions with distinct names; ValueError where two share a name."""

    __slots__ = ("_hash", "_index", "iters")

    def __init__(self, iters: Iterable[Iter]) -> None:
        given = tuple(iters)
        self.iters = tuple(i for kind in KINDS for i in given if i.kind == kind)
        self._index = {i.name: i for i in self.iters}
        if len(self._index) != len(self.iters):
            raise ValueError(f"a dimension is named twice in {self}")
        self._hash = hash(self.iters)

    def of_kind(self, kind: str) -> tuple[Iter, ...]:
        """The dimensions of one kind, in order."""
        return tuple(i for i in self.iters if i.kind == kind)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all dimensions, in order."""
        return tuple(i.name for i in self.iters)

    @property
    def extents(self) -> dict[str, int]:
        """Extents by name; ValueError where one is still a symbol."""
        return {i.name: self.extent_of(i.name) for i in self.iters}

    @property
    def static(self) -> bool:
        """Whether all extents are numbers."""
        return all(isinstance(i.extent, int) for i in self.iters)

    def extent_of(self, name: str) -> int:
        """One extent; ValueError where it is still a symbol."""
        extent = self._index[name].extent
        if not isinstance(extent, int):
            raise ValueError(f"the extent {extent} of dimension {name} is not bound")
        return extent

    @property
    def typical(self) -> dict[str, int]:
        """Extents by name, with a typical number for those that are free."""
        return {i.name: typical(i.extent) for i in self.iters}

    def renamed(self, names: Mapping[str, str]) -> Space:
        """The same space with some dimensions called otherwise."""
        return Space(Iter(names.get(i.name, i.name), i.extent, i.kind) for i in self.iters)

    def __getitem__(self, name: str) -> Iter:
        return self._index[name]

    def __contains__(self, name: object) -> bool:
        return name in self._index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and self.iters == other.iters

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        parts = [", ".join(map(str, self.of_kind(PARALLEL)))]
        for mark, kind in ("|", REDUCTION), (";", SEQUENTIAL):
            if dims := self.of_kind(kind):
                parts.append(f"{mark} {', '.join(map(str, dims))}")
        return f"<{' '.join(parts).strip()}>"
