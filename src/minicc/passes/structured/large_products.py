"""Schedules of products with a matrix that is no constant, or that no near cache holds.

A few rows take it as one stream; of more, each instance copies the columns that it multiplies by;
and where the rows do not stay near either, blocks of all are multiplied.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd, prod

from minicc.ir.affine_facts import bends
from minicc.ir.core import Value
from minicc.ir.schedule import Around, Promotion
from minicc.ir.space import REDUCTION
from minicc.ir.structured import Generic, Group, contiguous_name
from minicc.passes.structured.contraction import contractions_in
from minicc.passes.structured.draft import Draft, cut_sums
from minicc.passes.structured.products import PACK_READS, Product, cheapest_tile
from minicc.passes.structured.tile_cost import BLOCK, LONGEST_CHAIN
from minicc.target import Target

STREAMED = 8  # rows of a large matrix that are read at once: what processors fetch ahead
_FEW_ROWS = 16  # that are multiplied by such a matrix
_DEEP = 256  # terms of a block of sums, whose panel stays in the first cache
_COLUMNS = 288  # of the totals of a row that wait for the next block
_MANY_ROWS = 64  # and vectors of columns, of which blocks have enough
_VAST = 1 << 23  # bytes that no cache keeps for one core
_MOST_ROWS = 512  # up to which each instance has its own copy of what they are multiplied by
_INSTANCES = 16  # of such a product, that threads share
_MOST_COPIED = 1 << 19  # elements of such a copy
_LINE = 64  # bytes
_LINES = 4  # of a row of it that are copied together: each row is on another page
_PART = 1 << 14  # bits of a part of a row that is worth an instance of its own


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
        return _streamed(group, product, target)
    _, tiles = cheapest_tile(product, target)
    if _is_vast(group, product):
        return _blocked(group, product, tiles, target)
    width = _width_of_copies(group, product, tiles, target, constants)
    return _promoted(group, product, tiles, width) if width else None


def _is_streamed(
    group: Group, product: Product, target: Target, constants: frozenset[Value]
) -> bool:
    """Whether a few rows are multiplied by a large matrix that is read once, and is no constant.

    A constant is packed in the order in which tiles read it.
    """
    op, k = product.contraction.op, product.contraction.rhs
    if k is None or op.operands[k] not in group.body.args or len(product.contraction.depth) != 1:
        return False
    v = op.operands[k]
    outer = group.operands[group.body.args.index(v)]
    as_it_lies = contiguous_name(op.input_maps[k]) == product.vector
    if not op.space.static or not as_it_lies or outer in constants or len(product.rows) > 1:
        return False
    extents = op.space.extents
    size = extents[product.vector] * product.depth * v.type.dtype.bits // 8
    few = prod(extents[n] for n in product.rows) <= _FEW_ROWS
    return few and product.depth >= 4 * STREAMED and size > target.l2 // 2


def _streamed(group: Group, product: Product, target: Target) -> Draft:
    """A few rows times a large matrix, of which a few rows are read at once, from end to end.

    Vectors of results alone would touch a page of memory for each row of the matrix, and read
    little of it. So the totals of a long part of a row wait in half of the first cache.
    """
    contraction, vector, rows, _, layout, _, _ = product
    op, lanes = contraction.op, layout.lanes
    extents = op.space.extents
    height = prod(extents[n] for n in rows)
    bits = op.results[0].type.dtype.bits
    width = extents[vector]
    parts = max(1, round(width * bits * height / (4 * target.near)), min(2, width * bits // _PART))
    tiles = {vector: min(width, -(-width // (parts * lanes)) * lanes)}
    at_once = 4 if height <= 2 else 2
    steps = {vector: min(tiles[vector], at_once * lanes)}
    for n in rows:
        tiles[n] = extents[n]
        steps[n] = min(extents[n], 8 // at_once)
    batch = [n for n in group.shared if n != vector and n not in rows]
    draft = Draft((*batch, vector, *rows), tiles, {}, steps)
    (reduction,) = op.space.of_kind(REDUCTION)
    draft.around = (Around(group.body.ops.index(op), reduction.name, STREAMED),)
    return draft


def _is_vast(group: Group, product: Product) -> bool:
    """Whether a matrix that is read again for each panel of columns stays in no cache."""
    contraction, vector, rows, depth, layout, _, _ = product
    plain = len(contractions_in(group.body.ops)) == len(contraction.depth) == len(rows) == 1
    if not plain or not contraction.op.space.static or not contraction.reads_matrices:
        return False
    extents = contraction.op.space.extents
    many = min(extents[rows[0]], extents[vector] // layout.lanes) >= _MANY_ROWS
    return many and depth > _DEEP and extents[rows[0]] * depth * contraction.vectors > _VAST


def _blocked(group: Group, product: Product, tiles: Mapping[str, int], target: Target) -> Draft:
    """A large product, block by block: Goto's order of loops.

    A block of lhs stays in the second cache while panels of rhs pass by, each of which stays in
    the first meanwhile; totals wait for the next blocks along the sums (Goto and van de Geijn,
    "Anatomy of High-Performance Matrix Multiplication", 2008).
    """
    contraction, vector, (row,), depth, _, _, _ = product
    extents = contraction.op.space.extents
    deep = -(-depth // -(-depth // _DEEP))
    # with their totals, about as many bytes again
    most = {row: target.resident // 2 // (deep * contraction.vectors), vector: _COLUMNS}
    sizes = {n: _even_part(extents[n], most[n], tiles[n]) for n in (row, vector)}
    batch = [n for n in group.shared if n not in sizes]
    (reduction,) = contraction.depth
    draft = Draft((*batch, vector, row), sizes, {}, {n: tiles[n] for n in sizes})
    draft.around = (Around(group.body.ops.index(contraction.op), reduction, deep),)
    return draft


def _width_of_copies(
    group: Group,
    product: Product,
    tiles: Mapping[str, int],
    target: Target,
    constants: frozenset[Value],
) -> int:
    """How many columns an instance has that copies what it multiplies by; 0 where none does.

    Not too many rows, and a matrix that is no constant, nor small: a copy of all of it would come
    back from far, where an instance's own stays near. Rows of the copy are whole lines, several if
    that leaves enough instances.
    """
    contraction, vector, rows, depth, *_ = product
    op, k = contraction.op, contraction.rhs
    if k is None or len(rows) != 1 or not op.space.static or op.operands[k] not in group.body.args:
        return 0
    if group.operands[group.body.args.index(op.operands[k])] in constants:
        return 0
    extents, varies = op.space.extents, contraction.varies(k)
    passes = -(-extents[rows[0]] // tiles[rows[0]])
    if passes < PACK_READS or extents[rows[0]] > _MOST_ROWS:
        return 0
    whole = all(n in varies or extents[n] == 1 for n in group.shared if n not in rows)
    size = prod(extents[n] for n in varies) * contraction.vectors
    if not whole or size <= target.resident:
        return 0
    row = tiles[vector] * contraction.vectors
    fewest = _LINE // gcd(_LINE, row)
    several = fewest * -(-_LINES * _LINE // (fewest * row))
    for width in (several * tiles[vector], fewest * tiles[vector]):
        if extents[vector] >= _INSTANCES * width and width * depth <= _MOST_COPIED:
            return width
    return 0


def _promoted(group: Group, product: Product, tiles: Mapping[str, int], width: int) -> Draft:
    """A product of which each instance copies its columns of rhs, and has all rows pass over them.

    Linalg calls that promotion.
    """
    contraction, vector, (row,), *_ = product
    op, k = contraction.op, contraction.rhs
    assert k is not None
    sizes = {vector: width, row: op.space.extents[row]}
    batch = [n for n in group.shared if n not in sizes]
    cuts = {op: cut_sums(op, tiles, LONGEST_CHAIN, BLOCK)}
    draft = Draft((*batch, vector, row), sizes, cuts, {n: tiles[n] for n in sizes})
    draft.promotes = (Promotion(group.body.ops.index(op), k),)
    return draft


def _even_part(extent: int, most: int, step: int) -> int:
    """A part of a dimension that has whole steps, `most` points or less, and least rest."""
    fewest = -(-extent // max(step, most // step * step))
    parts = ((n, -(-extent // n // step) * step) for n in range(fewest, 2 * fewest + 1))
    return min((n * size, size) for n, size in parts if size <= extent)[1]
