"""Schedules of products with a matrix that is no constant, or that no near cache holds.

The first of these that a product is fit for is taken:

- A few rows and a matrix that is no constant: the matrix is read as one stream.
- Matrices of which rhs is no constant: instances copy blocks of it, where that pays
  (`product_blocks`), unless a small second cache loses the totals of their rows.
- Others from there, as products with constants: blocks of packed operands, rows first where what is
  beyond a large second cache comes late, else in Goto's order.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from minicc.ir.affine_facts import bends
from minicc.ir.core import Value
from minicc.ir.index_maps import contiguous_name
from minicc.ir.schedule import Around
from minicc.ir.structured import Generic, Group
from minicc.passes.structured.draft import FEW_ROWS, Draft, is_long, streamed
from minicc.passes.structured.legal import MOST_TOTALS
from minicc.passes.structured.product_blocks import IN_FLIGHT, in_blocks, is_of_matrices, varies
from minicc.passes.structured.products import Product, cheapest_tile
from minicc.passes.structured.tile_cost import cost_of, register_tiles
from minicc.target import Target

_DEEP = 256  # terms of a block of sums, whose panel stays in the first cache
_TOTALS = 1152  # bytes of those of a row that wait for the next block
_MANY = 64  # rows and vectors of columns, which blocks have enough of
_WAYS = 8  # of a first cache, at least
_SMALL_L2 = 1 << 19  # bytes that hold no totals of many rows beside what is multiplied
_LARGE_L2 = 5 << 18  # bytes that blocks of both sides and their totals have room in
_BLOCK_OF_L2 = 0.28  # of which that of rhs has so much
_KEPT_OF_L2 = 0.45  # of a small one, which what an instance comes back to may fill
_VAST = 1 << 23  # bytes that no cache keeps for one core
_PART = 3  # points of a dimension in whose time what a part of it multiplies comes from afar


def draft_of_large(
    group: Group, product: Product, target: Target, constants: frozenset[Value]
) -> Draft | None:
    """How the group of such a product is tiled; None for others, which need nothing special.

    An instance of it has a loop over rows; those that are two dimensions of an image counted as one
    may lie apart, and have an address each, where they are known numbers alone.
    """
    ops = [op for op in group.body.ops if isinstance(op, Generic)]
    if any(bends(m, n) for op in ops for m in op.maps for n in product.rows):
        return None
    if _is_streamed(group, product, target, constants):
        op, lanes = product.contraction.op, product.layout.lanes
        return streamed(group, op, product.vector, product.rows, lanes, target)
    has_blocks = _has_blocks(group, product)
    is_vast = has_blocks and _size_of_lhs(product) > _VAST
    draft = in_blocks(group, product, target, constants)
    if draft is not None and not (is_vast and _has_far_totals(draft, product, target)):
        return draft
    if not has_blocks:
        return None
    _, tiles = cheapest_tile(product, target)
    if _comes_late(product, tiles, target):
        return _blocked_rows_first(group, product, target)
    return _blocked(group, product, target) if is_vast else None


def _is_streamed(
    group: Group, product: Product, target: Target, constants: frozenset[Value]
) -> bool:
    """Whether a few rows are multiplied by a large matrix that is read once, and is no constant.

    A constant is packed in the order in which tiles read it.
    """
    op, k = product.contraction.op, product.contraction.rhs
    if k is None or not varies(group, op.operands[k], constants):
        return False
    v = op.operands[k]
    as_it_lies = contiguous_name(op.input_maps[k]) == product.vector
    plain = len(product.contraction.depth) == 1 and len(product.rows) < 2
    if not op.space.static or not as_it_lies or not plain:
        return False
    few = prod(op.space.extents[n] for n in product.rows) <= FEW_ROWS
    return few and is_long(op, product.vector, product.contraction.depth[0], v, target)


def _has_blocks(group: Group, product: Product) -> bool:
    """Whether blocks of rows, of columns and of sums may be multiplied one after the other.

    There are rows and vectors of columns enough, and long sums.
    """
    if not is_of_matrices(group, product):
        return False
    contraction, vector, rows, depth, layout, _, _ = product
    extents = contraction.op.space.extents
    return min(extents[rows[0]], extents[vector] // layout.lanes) >= _MANY and depth > _DEEP


def _has_far_totals(draft: Draft, product: Product, target: Target) -> bool:
    """Whether a small second cache loses the totals of an instance between two blocks of sums.

    It has what the instance copies, too. Rows of lhs are read where they lie then: blocks of both
    sides are copied together.
    """
    if target.l2 > _SMALL_L2 or len(draft.promotes) > 1 or not draft.around:
        return False
    op, (around,) = product.contraction.op, draft.around
    totals = prod(draft.tiles.values()) * op.results[0].type.dtype.bytes
    copied = draft.tiles[product.vector] * around.size * product.contraction.vectors
    return bool(totals + copied > _KEPT_OF_L2 * target.l2)


def _size_of_lhs(product: Product) -> int:
    """The bytes of the matrix that is read again for each panel of columns."""
    op = product.contraction.op
    return op.space.extents[product.rows[0]] * product.depth * product.contraction.vectors


def _comes_late(product: Product, tiles: Mapping[str, int], target: Target) -> bool:
    """Whether that matrix takes over half as long to come back for a panel as is computed with it.

    Blocks of both sides stay in a large second cache instead.
    """
    slow = 2 * target.stream > tiles[product.vector]
    return slow and target.l2 >= _LARGE_L2 and _size_of_lhs(product) > target.l2


def _blocked(group: Group, product: Product, target: Target) -> Draft:
    """A large product, block by block: Goto's order of loops.

    A block of lhs stays in the second cache while panels of rhs pass by, each of which stays in
    the first meanwhile; totals wait for the next blocks along the sums (Goto and van de Geijn,
    "Anatomy of High-Performance Matrix Multiplication", 2008).
    """
    deep, tiles = _depth_of_blocks(product), _busy_tile(product, target)
    # what their totals take besides is about half as many bytes, and comes back block by block
    height = target.resident // (deep * product.contraction.vectors)
    (row,), vector = product.rows, product.vector
    width = _TOTALS // product.contraction.op.results[0].type.dtype.bytes
    sizes = _even_parts(product, tiles, {vector: width, row: height})
    return _blocks(group, product, tiles, sizes, deep)


def _busy_tile(product: Product, target: Target) -> Mapping[str, int]:
    """The cheapest register tile of those that keep the multiply-adds busy."""
    contraction, vector, (row,), depth, layout, _, _ = product
    extents = contraction.op.space.extents
    tiles = register_tiles((row,), vector, extents, layout.lanes, target.registers)
    return min(
        (t for t in tiles if t[row] * layout.of(t[vector]) >= IN_FLIGHT),
        key=lambda t: cost_of(t, (row,), vector, extents, depth, layout, target),
    )


def _blocked_rows_first(group: Group, product: Product, target: Target) -> Draft:
    """A large product, block by block, where what comes from beyond the second cache comes late.

    That cache has the blocks of both sides and the totals. Some rows of lhs stay in the first one
    while the whole block of rhs passes by; they are read where they lie, which may be in one place
    of each of its ways.
    """
    contraction, vector, (row,), _, layout, _, _ = product
    extents, deep = contraction.op.space.extents, _depth_of_blocks(product)
    size, total = contraction.vectors, contraction.op.results[0].type.dtype.bytes
    width = int(_BLOCK_OF_L2 * target.l2) // (deep * max(size, total))
    height = (target.l2 - width * deep * size) // (deep * size + width * total)
    most = {row: min(height, MOST_TOTALS // width), vector: width}

    def cost(tile: Mapping[str, int]) -> float:
        covered = {n: _covered(extents[n], most[n], tile[n]) for n in most}
        return cost_of(tile, (row,), vector, {**extents, **covered}, deep, layout, target)

    tiles = register_tiles((row,), vector, extents, layout.lanes, target.registers)
    best = min((t for t in tiles if t[row] <= _WAYS), key=cost)
    return _blocks(group, product, best, _even_parts(product, best, most), deep)


def _depth_of_blocks(product: Product) -> int:
    """The terms of a block of sums, all of which have about as many."""
    return -(-product.depth // -(-product.depth // _DEEP))


def _blocks(
    group: Group, product: Product, tiles: Mapping[str, int], sizes: Mapping[str, int], deep: int
) -> Draft:
    """A product in blocks of so many rows and columns, over which loops run in that order."""
    contraction = product.contraction
    batch = [n for n in group.shared if n not in sizes]
    (reduction,) = contraction.depth
    draft = Draft((*batch, *sizes), dict(sizes), {}, {n: tiles[n] for n in sizes})
    draft.around = (Around(group.body.ops.index(contraction.op), reduction, deep),)
    return draft


def _covered(extent: int, most: int, step: int) -> int:
    """What such parts of a dimension have in all: the last of them overlaps its neighbour."""
    part = _even_part(extent, most, step)
    return -(-extent // part) * part


def _even_parts(
    product: Product, tiles: Mapping[str, int], most: Mapping[str, int]
) -> dict[str, int]:
    extents = product.contraction.op.space.extents
    return {n: _even_part(extents[n], most[n], tiles[n]) for n in most}


def _even_part(extent: int, most: int, step: int) -> int:
    """A part of a dimension: whole steps, `most` points or less, of all that take least."""
    fewest = -(-extent // max(step, most // step * step))
    parts = ((n, -(-extent // n // step) * step) for n in range(fewest, 2 * fewest + 1))
    return min(((n * (size + _PART), n, size) for n, size in parts if size <= extent))[2]
