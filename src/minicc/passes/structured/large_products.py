"""Schedules of products with a matrix that is no constant, or that no near cache holds.

A few rows take it as one stream; of more, each instance copies the columns that it multiplies by;
and where the rows do not stay near either, blocks of all are multiplied.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd, prod

from minicc.ir.affine_facts import bends
from minicc.ir.core import Value
from minicc.ir.index_maps import contiguous_name
from minicc.ir.schedule import Around, Promotion
from minicc.ir.structured import Generic, Group
from minicc.passes.structured.contraction import contractions_in
from minicc.passes.structured.draft import Draft, cut_sums, is_long, streamed
from minicc.passes.structured.legal import MOST_TOTALS
from minicc.passes.structured.products import PACK_READS, Product, cheapest_tile
from minicc.passes.structured.tile_cost import BLOCK, LONGEST_CHAIN, cost_of, register_tiles
from minicc.target import Target

_FEW_ROWS = 16  # that are multiplied by such a matrix
_DEEP = 256  # terms of a block of sums, whose panel stays in the first cache
_DEEPEST = 560  # of one whose panel comes from the second: each total joins others less often
_COLUMNS = 288  # of the totals of a row that wait for the next block
_MANY, _SEVERAL = 64, 32  # rows and vectors of columns, which blocks or panels have enough of
_WAYS = 8  # of a first cache, at least
_LARGE_L2 = 5 << 18  # bytes that blocks of both sides and their totals have room in
_BLOCK_OF_L2 = 0.28  # of which that of rhs has so much
_LATER = 0.3  # of the cycles in which a line comes from beyond it, for one column of a panel
_LATE = 0.8  # of what a multiply-add takes, for an element that it reads from the second cache
_SPARE = 32  # of which one may be spent on columns that neighbours have, too
_PANELS, _NARROWEST = 8, 4  # of columns at least, that threads share, and vectors of one
_IN_FLIGHT = 12  # totals of a tile at least, which hide how long one takes
_TALL = 4  # rows for each column: these read a packed matrix often
_VAST = 1 << 23  # bytes that no cache keeps for one core
_MOST_ROWS = 512  # up to which each instance has its own copy of what they are multiplied by
_INSTANCES = 16  # of such a product, that threads share
_MOST_COPIED = 1 << 19  # elements of such a copy
_LINE = 64  # bytes
_LINES = 4  # of a row of it that are copied together: each row is on another page


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
    _, tiles = cheapest_tile(product, target)
    panels = _has_blocks(group, product, _SEVERAL)
    if panels and (draft := _in_panels(group, product, target, constants)):
        return draft
    if _has_blocks(group, product, _MANY):
        if _comes_late(product, tiles, target):
            return _blocked_rows_first(group, product, target)
        if _size_of_lhs(product) > _VAST:
            return _blocked(group, product, tiles, target)
    if not _is_promoted(group, product, tiles, target, constants):
        return None
    return _promoted(group, product, tiles, target)


def _is_streamed(
    group: Group, product: Product, target: Target, constants: frozenset[Value]
) -> bool:
    """Whether a few rows are multiplied by a large matrix that is read once, and is no constant.

    A constant is packed in the order in which tiles read it.
    """
    op, k = product.contraction.op, product.contraction.rhs
    if k is None or not _varies(group, op.operands[k], constants):
        return False
    v = op.operands[k]
    as_it_lies = contiguous_name(op.input_maps[k]) == product.vector
    plain = len(product.contraction.depth) == 1 and len(product.rows) < 2
    if not op.space.static or not as_it_lies or not plain:
        return False
    few = prod(op.space.extents[n] for n in product.rows) <= _FEW_ROWS
    return few and is_long(op, product.vector, product.contraction.depth[0], v, target)


def _varies(group: Group, v: Value, constants: frozenset[Value]) -> bool:
    """Whether a value of a group's body is a tensor that it is given, and no constant."""
    args = group.body.args
    return v in args and group.operands[args.index(v)] not in constants


def _has_blocks(group: Group, product: Product, fewest: int) -> bool:
    """Whether blocks of rows, of columns and of sums may be multiplied one after the other.

    There are rows and vectors of columns enough, and long sums.
    """
    contraction, vector, rows, depth, layout, _, _ = product
    plain = len(contractions_in(group.body.ops)) == len(contraction.depth) == len(rows) == 1
    if not plain or not contraction.op.space.static or not contraction.reads_matrices:
        return False
    extents = contraction.op.space.extents
    return min(extents[rows[0]], extents[vector] // layout.lanes) >= fewest and depth > _DEEP


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


def _blocked(group: Group, product: Product, tiles: Mapping[str, int], target: Target) -> Draft:
    """A large product, block by block: Goto's order of loops.

    A block of lhs stays in the second cache while panels of rhs pass by, each of which stays in
    the first meanwhile; totals wait for the next blocks along the sums (Goto and van de Geijn,
    "Anatomy of High-Performance Matrix Multiplication", 2008).
    """
    deep = _depth_of_blocks(product)
    # with their totals, about as many bytes again
    height = target.resident // 2 // (deep * product.contraction.vectors)
    (row,), vector = product.rows, product.vector
    sizes = _even_parts(product, tiles, {vector: _COLUMNS, row: height})
    return _blocks(group, product, tiles, sizes, deep)


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


def _in_panels(
    group: Group, product: Product, target: Target, constants: frozenset[Value]
) -> Draft | None:
    """A large product, panel by panel of columns, where a large second cache is before a far one.

    An instance copies its blocks of rhs in turn to that cache, and all rows pass over each: some
    at a time stay in the first cache while the block passes by. They are read where they lie, which
    may be in one place of each of its ways; columns of lhs are packed first, in whole tiles. None
    where there are so many rows that it costs little to pack rhs first, or where the last instance
    would make too much again that its neighbour has.
    """
    contraction, vector, (row,), depth, *_ = product
    op, k, extents = contraction.op, contraction.rhs, contraction.op.space.extents
    columns, rows = extents[vector], extents[row]
    deep = depth if depth <= _DEEPEST else _even_block(depth, _DEEPEST)
    if k is None or not _varies(group, op.operands[k], constants):
        return None
    varies = contraction.varies(k)
    apart = all(n in varies or extents[n] == 1 for n in group.shared if n != row)
    far = target.l2 >= _LARGE_L2 and _size_of_lhs(product) > target.l2
    if not apart or not far or rows > _TALL * columns:
        return None
    most = min((columns - 1) // (_PANELS - 1), MOST_TOTALS // rows)
    if not deep:  # no even blocks, so that an instance copies all of its columns at once
        deep, most = -(-depth // -(-depth // _DEEPEST)), min(most, _MOST_COPIED // depth)
    size = max(contraction.vectors, op.results[0].type.dtype.bytes)
    most = min(most, int(_BLOCK_OF_L2 * target.l2) // (deep * size))

    chosen = _cheapest_panel(product, most, target)
    if chosen is None:
        return None
    tile, width = chosen
    draft = _blocks(group, product, tile, {row: rows, vector: width}, deep)
    draft.promotes = (Promotion(draft.around[0].op, k),)
    return draft


def _cheapest_panel(
    product: Product, most: int, target: Target
) -> tuple[Mapping[str, int], int] | None:
    """The register tile and the width of panels that cost least, of at most so many columns."""
    contraction, vector, (row,), _, layout, _, _ = product
    op, extents = contraction.op, contraction.op.space.extents
    columns, rows = extents[vector], extents[row]
    as_it_lies = contiguous_name(op.input_maps[contraction.lhs]) in contraction.depth

    def fits(tile: Mapping[str, int]) -> bool:
        height = tile[row]
        whole = height <= _WAYS if as_it_lies else rows % height == 0
        return whole and height * layout.of(tile[vector]) >= _IN_FLIGHT

    def cost(tile: Mapping[str, int], width: int) -> float:
        """What a multiply-add takes in the middle, times how many there are."""
        height, vectors, panels = tile[row], layout.of(tile[vector]), -(-columns // width)
        late = _LATE * (1 / height + 0.75 / vectors) + _LATER * target.stream / width
        odd = panels % 2 / (2 * panels)  # what waits for the one that is left over
        return -(-rows // height) * height * panels * width * (1 + late + odd)

    tiles = register_tiles((row,), vector, extents, layout.lanes, target.registers)
    pairs = [
        (tile, width)
        for tile in filter(fits, tiles)
        for width in range(tile[vector], most + 1, tile[vector])
        if width >= _NARROWEST * layout.lanes and -columns % width * _SPARE <= columns
    ]
    return min(pairs, key=lambda pair: cost(*pair), default=None)


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


def _is_promoted(
    group: Group,
    product: Product,
    tiles: Mapping[str, int],
    target: Target,
    constants: frozenset[Value],
) -> bool:
    """Whether instances copy what they multiply by.

    Not too many rows, and a matrix that is no constant, nor small: a copy of all of it would come
    back from far, where an instance's own stays near.
    """
    contraction, rows = product.contraction, product.rows
    op, k = contraction.op, contraction.rhs
    if k is None or len(rows) != 1 or not op.space.static:
        return False
    if not _varies(group, op.operands[k], constants):
        return False
    extents, varies = op.space.extents, contraction.varies(k)
    passes = -(-extents[rows[0]] // tiles[rows[0]])
    whole = all(n in varies or extents[n] == 1 for n in group.shared if n not in rows)
    size = prod(extents[n] for n in varies) * contraction.vectors
    few = passes >= PACK_READS and extents[rows[0]] <= _MOST_ROWS
    return few and whole and size > target.resident and _width_of_copies(product, tiles) > 0


def _width_of_copies(product: Product, tiles: Mapping[str, int]) -> int:
    """How many columns an instance copies; 0 where these or the instances would not do.

    Rows of the copy are whole lines, several if that leaves enough instances.
    """
    contraction, vector, _, depth, *_ = product
    row = tiles[vector] * contraction.vectors
    fewest = _LINE // gcd(_LINE, row)
    several = fewest * -(-_LINES * _LINE // (fewest * row))
    for width in (several * tiles[vector], fewest * tiles[vector]):
        enough = contraction.op.space.extents[vector] >= _INSTANCES * width
        if enough and width * depth <= _MOST_COPIED:
            return width
    return 0


def _promoted(group: Group, product: Product, tiles: Mapping[str, int], target: Target) -> Draft:
    """A product of which each instance copies its columns of rhs, and has all rows pass over them.

    Linalg calls that promotion. Of few rows totals may wait in the first cache: a loop goes around
    all, over blocks of sums, whose part of the copy stays there, too.
    """
    contraction, vector, (row,), *_ = product
    op, k = contraction.op, contraction.rhs
    assert k is not None
    position = group.body.ops.index(op)
    width, rows = _width_of_copies(product, tiles), op.space.extents[row]
    sizes = {vector: width, row: rows}
    batch = [n for n in group.shared if n not in sizes]
    cuts = {op: cut_sums(op, tiles, LONGEST_CHAIN, BLOCK)}
    around: tuple[Around, ...] = ()
    if rows * width * contraction.vectors <= target.near // 2 and len(contraction.depth) == 1:
        deep = _even_block(product.depth, target.near // (tiles[vector] * contraction.vectors))
        if deep:
            cuts, around = {}, (Around(position, contraction.depth[0], deep),)
    draft = Draft((*batch, vector, row), sizes, cuts, {n: tiles[n] for n in sizes})
    draft.around = around
    draft.promotes = (Promotion(position, k),)
    return draft


def _even_block(extent: int, most: int) -> int:
    """The largest even part of a dimension, of `most` points or less; 0 if all are much smaller."""
    parts = (n for n in range(most, most // 4, -1) if n < extent and extent % n == 0)
    return next(parts, 0)


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
    """A part of a dimension: whole steps, `most` points or less, of the least rest the largest."""
    fewest = -(-extent // max(step, most // step * step))
    parts = ((n, -(-extent // n // step) * step) for n in range(fewest, 2 * fewest + 1))
    return min(((n * size, n, size) for n, size in parts if size <= extent))[2]
