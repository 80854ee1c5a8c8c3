"""Rounds of a sum that multiply nothing but zeros, as where a convolution reads its padding.

Of 3 x 3 on images of 7 x 7, a row of taps has nothing to do in two of 21 rows of the result, and
of a kernel that is dilated by half of the image in half of them. Which these are depends on where
the tile is: a loop over taps begins and ends there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from functools import reduce
from math import prod
from typing import NamedTuple

import numpy as np

from minicc.ir import affine, affine_facts
from minicc.ir.affine import Dim
from minicc.ir.schedule import Skip
from minicc.ir.space import PARALLEL, REDUCTION
from minicc.ir.structured import Generic
from minicc.passes.structured.contraction import contraction_of

_LEAST = 0.03  # of the rounds, from which on it is worthwhile to ask for each tile
_SHORTEST = 128  # terms of a round, beside which it is little to know where a tile's begin
_FEW = 3  # the same where all tiles of a row have one answer


def skips_of(ops: Sequence[Generic], tiles: Mapping[str, int], covered: Set[str]) -> Iterator[Skip]:
    """The reductions of which rounds are left out.

    Tiles have so many points, and several steps along what is `covered`.
    """
    moving = covered | {n for n, size in tiles.items() if size > 1}
    for position, op in enumerate(ops):
        reductions = [i.name for i in op.space.of_kind(REDUCTION)] if op.nonzero else []
        for k, name in enumerate(reductions):
            terms = prod(op.space.typical[n] for n in reductions[k + 1 :])
            if tiles.get(name, 1) > 1 or not can_skip(op, name):
                continue
            asked = {n for where in nonzero_along(op, name) for n in affine.symbols(where.others)}
            if terms < (_FEW if moving.isdisjoint(asked) else _SHORTEST):
                continue
            # of the outermost loop the ends cost nothing, and a free extent may be small
            if (k == 0 and _is_free(op, name)) or _saved(op, name, tiles) >= _LEAST:
                yield Skip(position, name)


def can_skip(op: Generic, name: str) -> bool:
    """Whether it is known where the terms of a product's rounds are all zero."""
    return contraction_of(op) is not None and bool(nonzero_along(op, name))


class Nonzero(NamedTuple):
    """Where terms are not zero: `step` times a round and what `others` give is from `lo` to `hi`.

    What others give in a tile is between what `ends_of` gives.
    """

    step: int
    others: Dim
    lo: Dim
    hi: Dim


def nonzero_along(op: Generic, name: str) -> list[Nonzero]:
    """Where terms may be not zero, as far as it depends on one reduction and no other."""
    inner = {i.name for i in op.space.iters if i.kind != PARALLEL and i.name != name}
    found: list[Nonzero] = []
    for e, lo, hi in op.nonzero:
        split = affine_facts.linear(e, (name,))
        if split is None or not inner.isdisjoint(affine.symbols(e)):
            continue
        step, others = split[0].get(name, 0), split[1]
        if isinstance(step, int) and step > 0 and _has_ends(others):
            found.append(Nonzero(step, others, lo, hi))
    return found


def ends_of(e: Dim, first: Mapping[str, Dim], last: Mapping[str, Dim]) -> tuple[Dim, Dim]:
    """The least and the most that others give where dimensions are from a tile's first to its last.

    Of a remainder, which starts again within a tile, that is as well known: where it does, the one
    at the last point is less than there are points before it.
    """

    def of_atom(atom: affine.Atom) -> tuple[Dim, Dim]:
        if isinstance(atom, str):
            kept = affine.symbol(atom)
            return first.get(atom, kept), last.get(atom, kept)
        (least, most), (low, high) = (ends_of(arg, first, last) for arg in atom.args)
        if atom.kind == "min":
            return affine.minimum(least, low), affine.minimum(most, high)
        if atom.kind == "floordiv":
            return affine.floordiv(least, low), affine.floordiv(most, low)
        span = most - least
        if span == 0:
            return affine.mod(least, low), affine.mod(least, low)
        return (
            affine.maximum(affine.mod(most, low) - span, 0),
            affine.minimum(affine.mod(least, low) + span, low - 1),
        )

    if isinstance(e, int):
        return e, e
    least: Dim = e.const
    most: Dim = e.const
    for monomial, factor in e.terms:
        low: Dim = factor
        high: Dim = factor
        for a, b in map(of_atom, monomial):
            low, high = low * a, high * b
        least, most = least + low, most + high
    return least, most


def reach_of(op: Generic, e: Dim) -> tuple[Dim, Dim, Dim] | None:
    """The least and the end of `e` where terms are not zero, and how far beyond them tiles reach.

    A tile whose rounds are left out has, in each that it computes, one point at least between the
    two. None where rounds are computed wherever it is.
    """
    spans = {n: size - 1 for n, size in op.tile}
    for name in op.skips:
        if op.space[name].extent != 1:  # the only round is no loop, and never left out
            for where in nonzero_along(op, name):
                if e == where.others + affine.symbol(name) * where.step:
                    return where.lo, where.hi, span_of(where.others, spans)
    return None


def span_of(e: Dim, spans: Mapping[str, int]) -> Dim:
    """How far apart the two that `ends_of` gives are at most, where dimensions move by `spans`."""

    def of_atom(atom: affine.Atom) -> Dim:
        if isinstance(atom, str):
            return spans.get(atom, 0)
        moved, size = span_of(atom.args[0], spans), atom.args[1]
        if atom.kind == "min":
            return affine_facts.larger(moved, span_of(size, spans))
        if moved == 0:
            return 0
        return affine.floordiv(moved + size - 1, size) if atom.kind == "floordiv" else size - 1

    total: Dim = 0
    for monomial, factor in () if isinstance(e, int) else e.terms:
        parts = _but_sizes(monomial)
        if parts:
            sizes = [affine.symbol(p) for p in monomial if isinstance(p, str) and p not in parts]
            total = total + reduce(affine.multiply, sizes, of_atom(parts[0]) * factor)
    return total


def _but_sizes(monomial: affine.Monomial) -> list[affine.Atom]:
    """The factors of a product that are no sizes, which a tile may move."""
    return [part for part in monomial if not (isinstance(part, str) and affine.is_size(part))]


def _has_ends(e: Dim) -> bool:
    """Whether `ends_of` gives those of an expression: nothing that a tile moves is taken away."""
    if isinstance(e, int):
        return True
    for monomial, factor in e.terms:
        parts = _but_sizes(monomial)
        if parts and (factor < 0 or len(parts) > 1 or not _part_has_ends(parts[0])):
            return False
    return True


def _part_has_ends(part: affine.Atom) -> bool:
    if isinstance(part, str):
        return True
    if isinstance(part, affine.Whole):
        return False
    a, b = part.args
    if part.kind == "min":
        return _has_ends(a) and _has_ends(b)
    return _has_ends(a) and all(map(affine.is_size, affine.symbols(b)))


def _is_free(op: Generic, name: str) -> bool:
    """Whether it depends on sizes where terms are zero."""
    return any(not isinstance(where.hi, int) for where in nonzero_along(op, name))


def _saved(op: Generic, name: str, tiles: Mapping[str, int]) -> float:
    """The part of the rounds of a reduction that is left out, about; 0 where it is not known."""
    extents = op.space.typical
    for step, others, lo, hi in nonzero_along(op, name):
        names = [n for n in op.space.names if n in affine.symbols(others)]
        if len(names) != 1:
            continue
        sizes = {n: affine.TYPICAL for n in affine.symbols(others) if n != names[0]}
        size, extent = min(tiles.get(names[0], 1), extents[names[0]]), extents[names[0]]
        starts = np.minimum(np.arange(0, extent, size), extent - size)[:, None]
        at = affine.symbol(names[0])
        least, most = (
            affine.evaluate(end, {**sizes, names[0]: starts})
            for end in ends_of(others, {names[0]: at}, {names[0]: at + (size - 1)})
        )
        rounds = np.arange(extents[name]) * step
        low, high = affine.typical(lo), affine.typical(hi)
        return float(np.mean((rounds + most < low) | (rounds + least >= high)))
    return 0.0
