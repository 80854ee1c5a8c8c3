"""Products of which each instance copies blocks of what it multiplies to its own caches.

    for blocks of k:                        around
        copy rhs[k, columns]                promotes, and lhs[rows, k] where that lies by columns
        for rows: for columns: for k:       totals[rows, columns] += lhs * rhs

These are the blocks of Goto's product, except that what a cache shares there is the instance's own
here; of which sizes they are is found by what a multiply-add costs then (Goto and van de Geijn,
"Anatomy of High-Performance Matrix Multiplication", 2008). Linalg calls such a copy promotion.
Sides that a near cache holds are copied so where that costs less than a copy of all of rhs before,
or than to read it where it lies.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from heapq import nsmallest
from math import inf, prod
from typing import NamedTuple

from minicc.ir.core import Value
from minicc.ir.index_maps import contiguous_name
from minicc.ir.schedule import Around, Promotion
from minicc.ir.structured import Group
from minicc.passes.structured.contraction import contractions_in
from minicc.passes.structured.draft import Draft, cut_sums
from minicc.passes.structured.legal import MOST_COPIED, MOST_TOTALS
from minicc.passes.structured.products import PACK_READS, Product
from minicc.passes.structured.tile_cost import BLOCK, LONGEST_CHAIN, Vectors, register_tiles
from minicc.target import Target

_DEEPEST = 560  # terms of a block of sums, of those that are tried besides all of them
_FEWEST_ROWS, _FEWEST_TERMS = 8, 4  # that are worth blocks
_BLOCK_OF_L2 = 0.28  # of the second cache, which one side of a block may fill
_LATE = 0.8  # of what a multiply-add takes, for an element that it reads from the second cache
_LATER = 0.3  # of the cycles in which a line comes from beyond it, while rows are multiplied
_COPIED = 1.2  # of them, before they are
_NEAR = 0.3  # of what it takes to copy a line from beyond the second cache, one from there takes
_PACKED = 1.05  # what a multiply-add takes more where a packed side may be far by then
_APART = 2.0  # what a copy takes more that is a launch before the product, and all of rhs
_PITCH = 2048  # bytes from one column of lhs to the next up to which it is read where it lies
_IN_LINES = 0.96  # of what that takes where tiles read lines of lhs, as it lies by columns
_LAUNCH = 1000  # multiply-adds in which such a launch begins and ends
_COMES = 4.6  # multiply-adds in which a vector comes from the second cache
_START = 24.0  # in which a register tile begins
_LATENCY = 8.5  # of which as many are in flight
_JOIN, _FAR_JOIN = 8.0, 16.0  # multiply-adds that a total costs in each block, near and far
_WAYS = 8  # of a first cache, at least, each of which may have a row that is read where it lies
IN_FLIGHT = 12  # totals of a tile at least, which hide how long one takes
_WORKERS = (1, 2, 4)  # threads among which instances are shared, all as likely
_TILES = 6  # that are tried
_PARTS = (8, 16)  # of a side, which are tried besides about as few as can be


class Sides(NamedTuple):
    """What a product multiplies: extents, and how its operands lie.

    `size` and `total` are bytes of an element and of a result. There is a `batch` of such products.
    `both` are copied where lhs lies by columns, too far apart to be read so; else rhs alone is.
    """

    batch: int
    rows: int
    columns: int
    depth: int
    size: int
    total: int
    both: bool
    layout: Vectors

    @property
    def bytes(self) -> int:
        """Those of both."""
        return (self.rows + self.columns) * self.depth * self.size


class Blocks(NamedTuple):
    """The register tile of a product, and the block of an instance: rows, columns, and terms."""

    height: int
    width: int
    rows: int
    columns: int
    deep: int


def in_blocks(
    group: Group, product: Product, target: Target, constants: frozenset[Value]
) -> Draft | None:
    """How a product is tiled of which instances copy blocks; None where that does not pay.

    Both sides are matrices of known sizes, and rhs no constant. Where lhs lies by columns, it
    is no constant either: a constant is packed in the order in which tiles read it.
    """
    contraction, vector, rows, depth, layout, _, _ = product
    op, lhs, rhs = contraction.op, contraction.lhs, contraction.rhs
    if rhs is None or not is_of_matrices(group, product):
        return None
    if not varies(group, op.operands[rhs], constants):
        return None
    as_it_lies = contiguous_name(op.input_maps[lhs]) in contraction.depth
    if not as_it_lies and not varies(group, op.operands[lhs], constants):
        return None
    (row,), extents = rows, op.space.extents
    batch = [n for n in group.shared if n not in (row, vector)]
    sides = Sides(
        batch=prod(extents[n] for n in batch),
        rows=extents[row],
        columns=extents[vector],
        depth=depth,
        size=max(contraction.vectors, op.operands[lhs].type.dtype.bytes),
        total=op.results[0].type.dtype.bytes,
        both=False,
        layout=layout,
    )
    sides = sides._replace(both=not as_it_lies and _is_apart(sides, target))
    blocks = _blocks_that_pay(sides, not as_it_lies, target)
    if blocks is None:
        return None
    position, (reduction,) = group.body.ops.index(op), contraction.depth
    sizes = {row: blocks.rows, vector: blocks.columns}
    tiles = {row: blocks.height, vector: blocks.width}
    draft = Draft((*batch, *sizes), sizes, {}, tiles)
    if blocks.deep < depth:
        draft.around = (Around(position, reduction, blocks.deep),)
    else:
        draft.cuts = {op: cut_sums(op, tiles, LONGEST_CHAIN, BLOCK)}
    left = (Promotion(position, lhs),) if sides.both else ()
    draft.promotes = (*left, Promotion(position, rhs))
    return draft


def is_of_matrices(group: Group, product: Product) -> bool:
    """Whether a group has one product, of two matrices of known sizes."""
    contraction = product.contraction
    plain = len(contractions_in(group.body.ops)) == len(contraction.depth) == len(product.rows) == 1
    return plain and contraction.op.space.static and contraction.reads_matrices


def varies(group: Group, v: Value, constants: frozenset[Value]) -> bool:
    """Whether a value of a group's body is a tensor that it is given, and no constant."""
    args = group.body.args
    return v in args and group.operands[args.index(v)] not in constants


def _blocks_that_pay(sides: Sides, by_columns: bool, target: Target) -> Blocks | None:
    """The cheapest blocks; None where something else costs less, or nothing much.

    Lhs may lie `by_columns`.
    """
    lanes = sides.layout.lanes
    few = sides.rows < _FEWEST_ROWS or sides.depth < _FEWEST_TERMS
    if few or sides.columns < lanes:
        return None
    blocks = cheapest_blocks(sides, target)
    if blocks is None or sides.both or _comes_from_far(sides, target):
        return blocks
    if -(-blocks.rows // blocks.height) < PACK_READS:
        return None
    otherwise = _cost_without(sides, target) * (_IN_LINES if by_columns else 1)
    return blocks if cost_of_blocks(blocks, sides, target) < otherwise else None


def _is_apart(sides: Sides, target: Target) -> bool:
    """Whether lhs that lies by columns is too far apart to be read so."""
    columns_apart = sides.bytes > target.l2 // 4 and sides.rows * sides.size > _PITCH
    return columns_apart or _comes_from_far(sides, target)


def _comes_from_far(sides: Sides, target: Target) -> bool:
    """Whether the second cache does not hold what is multiplied."""
    return sides.bytes >= target.l2 // 2 and sides.bytes * sides.batch > target.l2


@cache
def cheapest_blocks(sides: Sides, target: Target) -> Blocks | None:
    """The blocks, of the best register tiles, whose product costs least; None where none fits."""
    found = [b for tile in _best_tiles(sides, target) for b in _blocks(sides, *tile, target)]
    return min(found, key=lambda b: cost_of_blocks(b, sides, target), default=None)


def cost_of_blocks(b: Blocks, sides: Sides, target: Target) -> float:
    """Multiply-adds of vectors that take as long as a term of all sums, on one of some threads."""
    lanes = sides.layout.lanes
    blocks = -(-sides.rows // b.rows) * -(-sides.columns // b.columns)
    instances = blocks * sides.batch
    comes = _comes_from_far(sides, target)
    wait = [-(-instances // n) * n - instances + comes * (n - 1) / 2 for n in _WORKERS]
    idle = sum(wait) / len(wait) / instances
    once = _COPIED if sides.both else _LATER * comes
    fetch = _line(sides, target) * (once * b.rows + _COPIED * b.columns)
    far = b.rows * b.columns * sides.total > _BLOCK_OF_L2 * target.l2
    joins = b.rows * b.columns / b.deep if b.deep < sides.depth else 0
    join = (_FAR_JOIN if far else _JOIN) * joins
    near = b.deep * b.columns * sides.size <= target.near
    return blocks * (_multiplied(b, lanes, near) + (fetch + join) / lanes) * (1 + idle)


def _cost_without(sides: Sides, target: Target) -> float:
    """What the product costs whose rhs is packed before, or is read where it lies by few tiles."""
    vectors = -(-sides.columns // sides.layout.lanes)
    copy = _APART * _COPIED * _line(sides, target) * vectors + _LAUNCH / sides.depth

    def cost(tile: tuple[int, int]) -> float:
        passes = -(-sides.rows // tile[0])
        if passes < PACK_READS:
            return _of_all(tile, sides) + _COMES * passes * vectors
        return _PACKED * _of_all(tile, sides) + copy

    return min(map(cost, _best_tiles(sides, target)), default=inf)


def _line(sides: Sides, target: Target) -> float:
    """Multiply-adds in which a line of both sides is copied from where they are."""
    return target.stream * (1 if _comes_from_far(sides, target) else _NEAR)


def _of_all(tile: tuple[int, int], sides: Sides) -> float:
    """The multiply-adds of a term of all sums in such tiles."""
    whole = Blocks(*tile, sides.rows, sides.columns, sides.depth)
    return _multiplied(whole, sides.layout.lanes, near=False)


def _multiplied(b: Blocks, lanes: int, near: bool) -> float:
    """The multiply-adds of a block, with what they wait for."""
    tiles, left = divmod(b.columns, b.width)
    vectors, rest = -(-b.width // lanes), -(-left // lanes)
    late = 1 + _LATE * (1 / b.height + 0.75 / vectors)
    come = 0.0 if near else _COMES * (tiles * vectors + rest)
    start = _START / b.deep

    def row(height: int) -> float:
        last = max(height * rest, _LATENCY) + start if rest else 0.0
        return max(tiles * (max(height * vectors, _LATENCY) + start) + last, come)

    whole, few = divmod(b.rows, b.height)
    return late * (whole * row(b.height) + (row(few) if few else 0.0))


@cache
def _best_tiles(sides: Sides, target: Target) -> list[tuple[int, int]]:
    """The register tiles in which all of the product takes least."""
    return nsmallest(_TILES, _tiles(sides, target), key=lambda tile: _of_all(tile, sides))


def _tiles(sides: Sides, target: Target) -> Iterator[tuple[int, int]]:
    """Register tiles of rows and columns that blocks may consist of."""
    lanes, extents = sides.layout.lanes, {"rows": sides.rows, "columns": sides.columns}
    for tile in register_tiles(("rows",), "columns", extents, lanes, target.registers):
        height, width = tile["rows"], tile["columns"]
        near = height <= _WAYS or sides.both
        busy = height * sides.layout.of(width) >= IN_FLIGHT
        if near and busy and (width % lanes == 0 or width == sides.columns):
            yield height, width


def _blocks(sides: Sides, height: int, width: int, target: Target) -> Iterator[Blocks]:
    """Blocks of whole tiles that the second cache has room for."""
    room = min(int(_BLOCK_OF_L2 * target.l2) // sides.size, MOST_COPIED)
    most = (sides.depth, _DEEPEST, _DEEPEST // 2, _DEEPEST // 4)
    for deep in dict.fromkeys(-(-sides.depth // -(-sides.depth // n)) for n in most):
        copied = room // deep
        tall = copied if sides.both else sides.rows
        for rows in _parts(sides.rows, tall, height):
            for columns in _parts(sides.columns, min(copied, MOST_TOTALS // rows), width):
                yield Blocks(height, width, rows, columns, deep)


def _parts(extent: int, most: int, step: int) -> Iterator[int]:
    """Parts of a side: all of it, or in whole steps, as the last one overlaps its neighbour."""
    most = min(most, extent)
    if most == extent:
        yield extent
    if most < step:
        return
    fewest = -(-extent // (most // step * step))
    counts = {*range(fewest, fewest + 4), 2 * fewest, *[n for n in _PARTS if n > fewest]}
    for count in sorted(counts):
        size = -(-extent // count // step) * step
        if step <= size <= most and size < extent:
            yield size
