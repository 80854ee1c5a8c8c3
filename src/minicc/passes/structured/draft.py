"""What is chosen for a group before it is a schedule, and where long sums restart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isqrt, prod
from typing import NamedTuple

from minicc.ir.affine import Expr
from minicc.ir.core import Value
from minicc.ir.index_maps import Map, contiguous_name, names_of
from minicc.ir.schedule import Around, Promotion
from minicc.ir.space import REDUCTION
from minicc.ir.structured import Generic, Group
from minicc.passes.structured.rows import Steps
from minicc.target import Target

# LONGEST_CHAIN for sums that are not of products: they cost little, and errors of one sign pile up
PLAIN_BLOCK, PLAIN_CHAIN = 16, 16
_MOST_SOUGHT = 1 << 16  # rounds of a block for which a divisor is sought


class Cuts(NamedTuple):
    """Where the sums of one op restart: points of a block by dimension, and dimensions by round."""

    blocks: tuple[tuple[str, int], ...] = ()
    cut: tuple[str, ...] = ()


NO_CUTS = Cuts()

ROWS = 48  # of a free dimension that an instance has, about
FEW_ROWS = 16  # that are multiplied by a large matrix as it lies
STREAMED = 8  # rows of a large matrix that are read at once: what processors fetch ahead
# bytes of rows that are read one after the other: as streams within a page they come late
_SHORT, _LONG = 1 << 10, 3 << 10
_PART = 1 << 14  # bits of a part of a row that is worth an instance of its own


class Draft:
    """The decisions for one group while they are made.

    `lengths` are those of steps over rows, and an instance has about so many `points` of a free
    dimension.
    """

    def __init__(
        self,
        grid: tuple[str, ...],
        tiles: Mapping[str, int],
        cuts: Mapping[Generic, Cuts],
        steps: Mapping[str, int] | None = None,
        widths: Mapping[str, int] | None = None,
    ) -> None:
        self.lengths: dict[str, Steps] = {}
        self.points = ROWS
        self.grid = grid
        self.tiles = dict(tiles)
        self.cuts = cuts
        self.around: tuple[Around, ...] = ()
        self.promotes: tuple[Promotion, ...] = ()
        self.steps = dict(steps or {})
        self.widths = dict(widths or {})


def cut_sums(op: Generic, tile: Mapping[str, int], chain: int, block: int) -> Cuts:
    """Cut the sums of an op so that none adds more than about `chain` terms one after the other.

    A reduction that is longer alone is cut into blocks of about `block` rounds, or of the square
    root of its length where that is more; then every loop that would make the chain too long.
    """
    blocks: list[tuple[str, int]] = []
    cut: list[str] = []
    length = 1
    for i in reversed(op.space.of_kind(REDUCTION)):
        step = tile.get(i.name, 1)
        rounds = -(-op.space.typical[i.name] // step)
        free = not isinstance(i.extent, int)
        if rounds > chain or free:
            size = block if free else _block_rounds(rounds, max(block, isqrt(rounds)))
            blocks.append((i.name, size * step))
            rounds = -(-rounds // size)
            length = 1
        if length * rounds > chain and length > 1:
            cut.append(i.name)
            length = 1
        length *= rounds
    return Cuts(tuple(blocks), tuple(cut))


def _block_rounds(rounds: int, wanted: int) -> int:
    """Near `wanted`, a divisor if there is one, so that no shorter block remains."""
    if wanted > _MOST_SOUGHT:
        return wanted
    divisors = [d for d in range(wanted // 2, 2 * wanted + 1) if rounds % d == 0]
    return min(divisors, key=lambda d: abs(d - wanted), default=wanted)


def lanes_of(op: Generic, target: Target) -> int:
    """Elements of a vector of the widest type that an op handles in vectors."""
    vector = op.yield_vectors[0]
    read = [v for v, m in zip(op.operands, op.input_maps, strict=True) if vector in names_of(m)]
    bits = max([v.type.dtype.bits for v in (*op.results, *read)], default=32)
    return max(1, target.vector_bits // max(8, bits))


def own_vectors(op: Generic, beside: Generic, lanes: int) -> str | None:
    """The dimension along which an op reads and writes vectors, if it is as much work as another.

    Where it is little beside the other, its elements may as well be made one by one.
    """
    name = op.yield_vectors[0]
    if (
        name is None
        or op.space[name].extent == 1
        or name not in map(contiguous_name, op.input_maps)
    ):
        return None
    mine, theirs = (prod(o.space.typical.values()) * len(o.maps_of(0)) for o in (op, beside))
    return name if mine * lanes > theirs else None


def mentions(m: Map, name: str) -> bool:
    """Whether a map depends on a dimension."""
    return any(isinstance(e, Expr) and name in e.symbols() for e in m)


def is_long(op: Generic, vector: str, reduction: str, value: Value, target: Target) -> bool:
    """Whether a matrix, whose rows are summed, is one that the second cache does not hold."""
    extents = op.space.extents
    size = extents[vector] * extents[reduction] * value.type.dtype.bits // 8
    return extents[reduction] >= 4 * STREAMED and size > target.l2 // 2


def streamed(
    group: Group, op: Generic, vector: str, rows: Sequence[str], lanes: int, target: Target
) -> Draft:
    """A large matrix, of which a few rows are read at once, from end to end.

    It is multiplied by a few `rows`, or where there are none all of its own are combined to one.
    Vectors of results alone would touch a page of memory for each row of the matrix, and read
    little of it. So the totals of a long part of a row wait in half of the first cache.
    """
    extents = op.space.extents
    height = prod(extents[n] for n in rows)
    bits = extents[vector] * sum(v.type.dtype.bits for v in op.results)
    shared = any(extents[n] > 1 for n in group.shared if n in extents and n not in (vector, *rows))
    parts = 1 if shared else max(1, round(bits * height / (4 * target.near)), min(2, bits // _PART))
    tiles = {vector: min(extents[vector], -(-extents[vector] // (parts * lanes)) * lanes)}
    at_once = 4 if height * len(op.results) <= 2 else 2
    steps = {vector: min(tiles[vector], at_once * lanes)}
    for n in rows:
        tiles[n] = extents[n]
        steps[n] = min(extents[n], 8 // at_once)
    batch = [n for n in group.shared if n != vector and n not in rows]
    draft = Draft((*batch, vector, *rows), tiles, {}, steps)
    (reduction,) = op.space.of_kind(REDUCTION)
    row = extents[vector] * max(v.type.dtype.bytes for v in op.operands)
    count = 1 if height == 1 and _SHORT <= row <= _LONG else STREAMED
    draft.around = (Around(group.body.ops.index(op), reduction.name, count),)
    return draft
