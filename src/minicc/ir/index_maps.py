"""Index maps: an expression over an iteration space's names for each axis of a tensor."""

from __future__ import annotations

import functools

from minicc.ir import affine
from minicc.ir.affine import Dim, Expr

Map = tuple[Dim, ...]


@functools.lru_cache(4096)
def plain_names(m: Map) -> tuple[str, ...] | None:
    """The names of a map that consists of distinct plain dimensions, else None."""
    names: list[str] = []
    for e in m:
        if (
            not isinstance(e, Expr)
            or e.const
            or not e.is_atom()
            or not isinstance(e.terms[0][0][0], str)
            or affine.is_size(e.terms[0][0][0])
        ):
            return None
        names.append(e.terms[0][0][0])
    return tuple(names) if len(set(names)) == len(names) else None


def contiguous_name(m: Map) -> str | None:
    """The dimension along which neighbours lie side by side in memory.

    Coefficient 1 in the last axis.
    """
    if not m or not isinstance(m[-1], affine.Expr):
        return None
    for monomial, coefficient in m[-1].terms:
        name = monomial[0]
        plain = coefficient == 1 and len(monomial) == 1 and isinstance(name, str)
        if plain and not affine.is_size(str(name)):
            return str(name)
    return None


@functools.lru_cache(4096)
def names_of(m: Map) -> frozenset[str]:
    """The names that a map uses."""
    return frozenset[str]().union(*[affine.symbols(e) for e in m])
