"""Choose how each group is tiled: every heuristic of the middle, and no rewriting.

It gives an `ir.schedule.Schedule`: the order in which the shared dimensions form the grid, how many
points of each an instance handles and how many of these at once, how wide the register tiles of
products are along dimensions of their own, where long sums restart, and how shared dimensions whose
extents are free are covered. It knows the target but not the number of threads, so results don't
depend on threads.

Register tiles are chosen by a cost (see `tile_cost`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import NamedTuple

from minicc.ir import affine_facts
from minicc.ir.affine import symbols
from minicc.ir.core import Module, Value, walk_control
from minicc.ir.schedule import Around, Cover, Schedule, Sums
from minicc.ir.space import REDUCTION
from minicc.ir.structured import (
    HOLD,
    PARTIAL,
    Constant,
    Generic,
    Group,
    Scan,
    contiguous_name,
    names_of,
    plain_names,
)
from minicc.ir.types import dense_strides
from minicc.passes.structured.contraction import Contraction, contraction_of, contractions_in
from minicc.passes.structured.draft import (
    NO_CUTS,
    PLAIN_BLOCK,
    PLAIN_CHAIN,
    Cuts,
    Draft,
    cut_sums,
    lanes_of,
    mentions,
)
from minicc.passes.structured.schedule_rows import inner_tiles, rows_of
from minicc.passes.structured.tile_cost import (
    BLOCK,
    LONGEST_CHAIN,
    Apart,
    Vectors,
    cheapest,
    free_cost,
    place_of,
)
from minicc.target import Target

PACK_READS = 4  # reads of an element from which a copy in the tiles' order pays
_ROWS = 48  # of a free dimension that an instance has, about
STREAMED = 8  # rows of a large matrix that are read at once: what processors fetch ahead
_FEW_ROWS = 16  # that are multiplied by such a matrix
_DEEP = 256  # terms of a block of sums, whose panel stays in the first cache
_COLUMNS = 288  # of the totals of a row that wait for the next block
_MANY_ROWS = 64  # and vectors of columns, of which blocks have enough
_VAST = 1 << 23  # bytes that no cache keeps for one core
_PART = 1 << 14  # bits of a part of a row that is worth an instance of its own
_TALLEST = 12  # rows of a block that ops other than contractions handle at once


def constants_of(module: Module) -> frozenset[Value]:
    """What is packed once: constants, and what a loop captures."""
    constants: set[Value] = set()
    for op in (op for f in module.functions for op in walk_control(f.body)):
        if isinstance(op, Constant):
            constants.add(op.result)
        elif isinstance(op, Scan):
            constants.update(op.body.args[op.first :])
    return frozenset(constants)


def choose_schedule(
    group: Group, target: Target, constants: frozenset[Value] = frozenset()
) -> Schedule:
    """How one group is tiled: as its contractions are if it has any, else as its rows.

    Indices that are data are read one by one: what says where they stand is not tiled.
    """
    draft = _draft(group, target, constants)
    ops = [op for op in group.body.ops if isinstance(op, Generic)]
    for name in {n for op in ops for _, k, _ in op.indices for n in names_of(op.maps[k])}:
        draft.tiles.pop(name, None)
        draft.steps.pop(name, None)
    cover = tuple(_choose_cover(draft, ops, group, target))
    sums = ((k, draft.cuts.get(op, NO_CUTS)) for k, op in enumerate(ops))
    # contractions have tiles of their widths
    cut = {n for n in draft.widths if all(contraction_of(op) for op in ops if n in op.space)}
    return Schedule(
        draft.grid,
        tuple([(n, size) for n, size in draft.tiles.items() if size > 1 and n not in cut]),
        tuple([(n, k) for n, k in draft.steps.items() if k < draft.tiles.get(n, 1)]),
        tuple([(n, size) for n, size in draft.widths.items() if size > 1]),
        cover,
        tuple([Sums(k, *cuts) for k, cuts in sums if cuts != NO_CUTS]),
        draft.around,
    )


def _choose_cover(
    draft: Draft, ops: Sequence[Generic], group: Group, target: Target
) -> Iterator[Cover]:
    """How the tiled shared dimensions whose extents are free are covered, instead of tiled.

    A value that passes between ops lies where its instance is: it must be indexed plainly.
    """
    passed = {v for op in ops for v in op.results} - set(group.body.yields)
    crooked = {
        n
        for op in ops
        for k, v in enumerate(op.results)
        if v in passed
        for m in op.maps_of(k)
        for e in m
        if plain_names((e,)) is None
        for n in names_of((e,))
    }
    vectors = {contiguous_name(m) for op in ops for m in op.yield_maps}
    free = [n for n in draft.grid if not isinstance(ops[0].space[n].extent, int)]
    covered = [n for n in free if draft.tiles.get(n, 1) > 1 and n not in crooked]
    lanes = min(lanes_of(op, target) for op in ops)
    for name in free:
        size = draft.tiles.pop(name, 1)
        step = draft.steps.pop(name, size)
        if name not in covered:
            continue
        steps: tuple[int, ...]
        if name in vectors and step >= lanes and _masks(ops, target):
            steps = (step, PARTIAL)
        elif len(covered) > 1:  # every step of one is written out for every step of the other
            steps = (step, step, 1)
        elif name in vectors and step >= lanes:
            steps = step_chain(step, lanes)
        else:
            plain = any(name in names_of((e,)) for op in ops for e in op.coordinates)
            products = contractions_in(ops)
            if products and step > 2 and not plain:
                short = tail_step(step)
                # of several products, a row alone is worth no code of its own
                alone = (1,) if len(products) == 1 else ()
                lengths = draft.lengths.get(name, (step, short))
                steps = (*dict.fromkeys(lengths), *alone, HOLD)
            else:
                steps = (step, tail_step(step), 1)
        points = size if name in vectors else step * max(1, round(_ROWS / step))
        distinct = tuple(dict.fromkeys(steps)) if steps[0] != steps[1] else steps
        yield Cover(name, points, distinct)


def _masks(ops: Sequence[Generic], target: Target) -> bool:
    """Whether the target has masks for vectors of all types that ops handle."""
    return all(target.masks(v.type.dtype.bits) for op in ops for v in (*op.operands, *op.results))


def tail_step(step: int) -> int:
    """How many rows are handled at once of those that are left over by steps of so many."""
    return -(-step // 2)


def step_chain(step: int, lanes: int) -> tuple[int, ...]:
    """The steps that cover a dimension of vectors: as given, a vector, a part of one, an element.

    At least two: the first may be given twice.
    """
    smaller = [n for n in (lanes, lanes // 4) if 1 < n < step]
    return (step, *(smaller or [step]), 1) if step > 1 else (1, 1)


def _draft(group: Group, target: Target, constants: frozenset[Value]) -> Draft:
    found = contractions_in(group.body.ops)
    if not found:
        return rows_of(group, target)
    first = found[0]
    columns = first.columns
    if columns is None or columns in group.shared or first.op.space.typical[columns] == 1:
        return _contraction(group, first, target, constants)
    return _whole_rows(group, found, target)


class Product(NamedTuple):
    """A contraction as its register tiles see it.

    The dimension of its vectors, the rows of its group that have more than a point, the length of
    its sums, its vectors, which rows have free extents, and which lie apart in the memory of lhs,
    with how often a tile computes the addresses of all.
    """

    contraction: Contraction
    vector: str
    rows: tuple[str, ...]
    depth: int
    layout: Vectors
    free: frozenset[str]
    apart: Apart


def product_of(
    group: Group, contraction: Contraction, target: Target, constants: frozenset[Value]
) -> Product | None:
    """How a group's only contraction is tiled; None where it is not summed in vectors of rows."""
    op, vector = contraction.op, contraction.columns
    extents = op.space.typical
    if vector is None or not _reads_vectors(group, op, vector, constants):
        return None
    rows = tuple(n for n in group.shared if n in contraction.rows and extents[n] > 1)
    reductions = [extents[n] for n in contraction.depth]
    free = frozenset(n for n in rows if not isinstance(op.space[n].extent, int))
    lhs = contraction.lhs
    at, strides = op.input_maps[lhs], dense_strides(op.operands[lhs].type.shape)
    bent = frozenset(n for n in rows if not affine_facts.even(at, strides, n))
    apart = (bent, prod(reductions[:-1]))
    layout = _vectors(contraction, target)
    return Product(contraction, vector, rows, prod(reductions), layout, free, apart)


def _vectors(contraction: Contraction, target: Target) -> Vectors:
    """The vectors in which a contraction's rhs is read."""
    lanes = lanes_of(contraction.op, target)
    both = contraction.columns in contraction.varies(contraction.lhs)
    return Vectors(lanes, lanes * contraction.vectors, both)


def cheapest_tile(product: Product, target: Target) -> tuple[float, Mapping[str, int]]:
    """What the best register tile of a contraction costs, and that tile."""
    contraction, vector, rows, depth, layout, free, apart = product
    known = tuple(contraction.op.space.typical.items())
    return cheapest(rows, vector, known, depth, layout, target, free, apart=apart)


def _contraction(
    group: Group, contraction: Contraction, target: Target, constants: frozenset[Value]
) -> Draft:
    product = product_of(group, contraction, target, constants)
    if product is None:
        return rows_of(group, target)
    _, vector, rows, depth, layout, free, _ = product
    op = contraction.op
    extents = op.space.typical
    batch = [n for n in group.shared if n != vector and n not in rows]
    if _is_streamed(group, product, target, constants):
        return _streamed(group, product, target)
    _, tiles = cheapest_tile(product, target)
    if _is_vast(group, product):
        return _blocked(group, product, tiles, target)
    cuts = {op: cut_sums(op, tiles, LONGEST_CHAIN, BLOCK)}
    columns = [vector] if vector in group.shared else []
    within = _within_rows(contraction, batch, target)
    outer = [n for n in batch if n not in within]
    grid = (*outer, *rows, *within, *columns) if within else (*batch, *columns, *rows)
    chosen = Draft(grid, tiles, cuts)
    for n in free & tiles.keys():
        others = prod(tiles[m] for m in rows if m != n and m in tiles)
        where = place_of(tiles[vector], extents[vector], depth, layout, target)
        vectors = layout.of(tiles[vector])
        chosen.lengths[n] = free_cost(
            tiles[n], others, vectors, depth, layout.latency, target.registers, where
        )[1]
    return chosen


def _within_rows(contraction: Contraction, batch: Sequence[str], target: Target) -> tuple[str, ...]:
    """The batch dimensions whose parts of rows lie side by side, as groups of channels do.

    All of them are computed for some rows, which come and go in whole lines then, if what they are
    multiplied by stays near.
    """
    op, lhs, rhs = contraction.op, contraction.lhs, contraction.rhs
    if rhs is None or not op.space.static:
        return ()
    extents = op.space.extents
    kept = prod(extents[n] for n in contraction.varies(rhs)) * contraction.vectors
    place = affine_facts.place(op.input_maps[lhs], dense_strides(op.operands[lhs].type.shape))
    split = affine_facts.linear(place, (*batch, *contraction.rows))
    if split is None or kept > target.resident or not contraction.rows:
        return ()
    known = {n: step for n, step in split[0].items() if isinstance(step, int)}
    apart = min(known.get(n, 0) for n in contraction.rows)
    beside = (n for n in batch if 0 < known.get(n, 0) < apart and extents[n] > 1)
    return tuple(beside)


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


def _even_part(extent: int, most: int, step: int) -> int:
    """A part of a dimension that has whole steps, `most` points or less, and least rest."""
    fewest = -(-extent // max(step, most // step * step))
    parts = ((n, -(-extent // n // step) * step) for n in range(fewest, 2 * fewest + 1))
    return min((n * size, size) for n, size in parts if size <= extent)[1]


def _whole_rows(group: Group, found: Sequence[Contraction], target: Target) -> Draft:
    """Contractions that share rows alone, with what stands between them.

    An instance has one block of rows, and each contraction goes over it in register tiles of its
    own width; other ops take the block's rows together, a vector of each.
    """
    contractions = [contraction.op for contraction in found]
    first = contractions[0]
    registers = target.registers
    layout = _vectors(found[0], target)
    candidates = [n for n in group.shared if n not in found[0].varies(found[0].rhs)]
    # among those that are free the innermost: the one before it is a batch, and often 1
    row = max(
        candidates,
        key=lambda n: (
            first.space.typical[n],
            0 if isinstance(first.space[n].extent, int) else candidates.index(n),
        ),
    )

    def best(op: Generic, height: int) -> tuple[float, Mapping[str, int]]:
        vector, extents = contiguous_name(op.yield_maps[0]), op.space.typical
        assert vector is not None
        depth = prod(extents[i.name] for i in op.space.of_kind(REDUCTION))
        free = frozenset(() if isinstance(op.space[row].extent, int) else (row,))
        known = tuple(extents.items())
        return cheapest((row,), vector, known, depth, layout, target, free, height)

    heights = range(1, 1 + min(first.space.typical[row], _TALLEST))
    _, height = min((sum(best(op, h)[0] for op in contractions), h) for h in heights)
    tiles = {row: height}
    widths: dict[str, int] = {}
    for op in contractions:
        for n, w in best(op, height)[1].items():
            if n != row:
                (widths if isinstance(op.space[n].extent, int) else tiles)[n] = w
    cuts: dict[Generic, Cuts] = {}
    for op in (o for o in group.body.ops if isinstance(o, Generic)):
        for name in inner_tiles(op, group, layout.lanes):
            tiles.setdefault(name, min(op.space.typical[name], layout.lanes))
        if op in contractions:
            cuts[op] = cut_sums(op, tiles, LONGEST_CHAIN, BLOCK)
        elif "add" in op.combine:
            cuts[op] = cut_sums(op, tiles, PLAIN_CHAIN, PLAIN_BLOCK)
    grid = (*[n for n in group.shared if n != row], row)
    chosen = Draft(grid, tiles, cuts, widths=widths)
    vector = str(contiguous_name(first.yield_maps[0]))
    depth = prod(first.space.typical[i.name] for i in first.space.of_kind(REDUCTION))
    width = best(first, height)[1][vector]
    where = place_of(width, first.space.typical[vector], depth, layout, target)
    vectors = layout.of(width)
    chosen.lengths[row] = free_cost(height, 1, vectors, depth, layout.latency, registers, where)[1]
    return chosen


def _reads_vectors(group: Group, op: Generic, vector: str, constants: frozenset[Value]) -> bool:
    """Whether some operand has, or will be packed to have, the result's vectors side by side.

    A matrix times a vector has not: it is better summed in vectors along the reduction.
    """
    if op.space.typical[vector] < 2 or vector not in group.shared:
        return False
    for v, m in zip(op.operands, op.input_maps, strict=True):
        if not mentions(m, vector):
            continue
        outer = group.operands[group.body.args.index(v)] if v in group.body.args else v
        others = {n for other in op.input_maps if other is not m for e in other for n in symbols(e)}
        reads = prod(
            op.space.typical[n] for n in group.shared if n in others and not mentions(m, n)
        )
        if contiguous_name(m) == vector or outer in constants or reads >= PACK_READS:
            return True
    return False
