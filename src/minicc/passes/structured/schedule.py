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

from minicc.ir import affine_facts
from minicc.ir.affine_facts import is_free
from minicc.ir.core import Module, Value, walk_control
from minicc.ir.index_maps import contiguous_name, names_of, plain_names
from minicc.ir.schedule import Cover, Schedule, Sums
from minicc.ir.space import PARALLEL, REDUCTION
from minicc.ir.structured import HOLD, PARTIAL, Constant, Generic, Group, Scan
from minicc.ir.types import dense_strides
from minicc.passes.structured.contraction import Contraction, contraction_of, contractions_in
from minicc.passes.structured.draft import (
    NO_CUTS,
    PLAIN_BLOCK,
    PLAIN_CHAIN,
    ROWS,
    Cuts,
    Draft,
    cut_sums,
    lanes_of,
)
from minicc.passes.structured.large_products import draft_of_large
from minicc.passes.structured.products import Product, cheapest_tile, product_of, vectors_of
from minicc.passes.structured.rows import numbers_of
from minicc.passes.structured.schedule_rows import LONG_ROW, inner_tiles, rows_of
from minicc.passes.structured.skips import skips_of
from minicc.passes.structured.tile_cost import (
    BLOCK,
    LONGEST_CHAIN,
    cheapest,
    free_cost,
    strip_of,
)
from minicc.target import Target

_MOST_ROWS = 192  # of a free dimension that an instance has
_PANELS = 4  # of columns, from which on rows are read so often that their order counts
_KEPT = 0.75  # of a second cache, which all columns may fill while rows pass by
_COLUMNS, _TALL = 4, 8  # columns and rows that are summed at once where columns are few
_LEAST_ROWS = 8  # that are better taken together than those of a batch
_SHORT_SUM = 8  # terms: of 16, either order of what passes over what takes the same time
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
    covered = {c.name for c in cover}
    sums = ((k, draft.cuts.get(op, NO_CUTS)) for k, op in enumerate(ops))
    parted = {(k, n) for k, op in enumerate(ops) for n, _ in draft.cuts.get(op, NO_CUTS).blocks}
    parted |= {(k, name) for k, name, _ in draft.around}
    # contractions have tiles of their widths
    cut = {n for n in draft.widths if all(contraction_of(op) for op in ops if n in op.space)}
    return Schedule(
        draft.grid,
        tuple([(n, size) for n, size in draft.tiles.items() if size > 1 and n not in cut]),
        tuple([(n, k) for n, k in draft.steps.items() if k < draft.tiles.get(n, 1)]),
        tuple([(n, size) for n, size in draft.widths.items() if size > 1]),
        cover,
        tuple([Sums(k, *cuts) for k, cuts in sums if cuts != NO_CUTS]),
        tuple([s for s in skips_of(ops, draft.tiles, covered) if s not in parted]),
        draft.around,
        promotes=draft.promotes,
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
    vectors = {name for op in ops for name in op.yield_vectors}
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
        points = size if name in vectors else step * max(1, round(draft.points / step))
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
    if _is_narrow(product):
        return _narrow(product, batch, target)
    large = draft_of_large(group, product, target, constants)
    if large is not None:
        return large
    _, tiles = cheapest_tile(product, target)
    tiles = {**tiles, **_side_by_side(group, product, target)}
    cuts = {op: cut_sums(op, tiles, LONGEST_CHAIN, BLOCK)}
    grid = _grid_of(group, product, batch, tiles, target)
    chosen = Draft(grid, tiles, cuts)
    if free and grid[-1:] == (vector,):
        chosen.points = _rows_of_instance(product, target)
    for n, extent in ((n, e) for n, e in free if n in tiles):
        others = prod(tiles[m] for m in rows if m != n and m in tiles)
        strip = strip_of(tiles[vector], extents[vector], depth, layout.along(n), target)
        chosen.lengths[n] = free_cost(tiles[n], others, strip, numbers_of(extent)).steps
    return chosen


def _is_narrow(product: Product) -> bool:
    """Whether columns fill no half of a vector, and rows are long and lie as they are summed."""
    contraction, vector, _, depth, layout, _, _ = product
    op = contraction.op
    if (
        len(contraction.depth) != 1
        or not contraction.reads_matrices
        or depth < LONG_ROW * layout.lanes
    ):
        return False
    (reduction,), columns = contraction.depth, op.space[vector].extent
    lies = contiguous_name(op.input_maps[contraction.lhs]) == reduction
    few = isinstance(columns, int) and 2 * columns <= layout.lanes
    plain = all(v.type.dtype.is_float and v.type.dtype.bits >= 32 for v in op.operands)
    return lies and few and plain


def _narrow(product: Product, batch: Sequence[str], target: Target) -> Draft:
    """Few columns: vectors go along the sums, of some rows by all or most columns at once."""
    contraction, vector, rows, _, layout, _, _ = product
    op, (reduction,) = contraction.op, contraction.depth
    columns = op.space.extent_of(vector)
    at_once = -(-columns // -(-columns // _COLUMNS))
    tiles = {vector: at_once, reduction: layout.lanes}
    if rows:
        height = min(_TALL, target.registers // 2 // at_once)
        tiles[rows[-1]] = max(1, min(height, op.space.typical[rows[-1]]))
    cuts = {op: cut_sums(op, tiles, LONGEST_CHAIN, BLOCK)}
    return Draft((*batch, *rows, vector), tiles, cuts)


def _side_by_side(group: Group, product: Product, target: Target) -> Mapping[str, int]:
    """The tile of a row alone that is multiplied by several matrices, as gates of a layer are.

    All of them at once: their weights lie in one stream then, and an instance reads few of them.
    """
    contraction, vector, rows, _, layout, *_ = product
    space = contraction.op.space
    own = contraction.varies(contraction.rhs) - contraction.varies(contraction.lhs)
    names = [i.name for i in space.of_kind(PARALLEL) if i.name in own.difference(group.shared)]
    if rows or len(names) != 1 or not space.static:
        return {}
    (name,), extents = names, space.extents
    matrices, columns = extents[name], extents[vector]
    most = (target.registers - 2) // matrices
    fitting = [n for n in range(1, most + 1) if columns % (n * layout.lanes) == 0]
    # two multiply-adds begin in each cycle
    enough = [n for n in fitting if n * matrices >= 2 * int(layout.latency)]
    wide = min(enough, default=max(fitting, default=0))
    return {name: matrices, vector: wide * layout.lanes} if wide and matrices > 1 else {}


def _grid_of(
    group: Group,
    product: Product,
    batch: Sequence[str],
    tiles: Mapping[str, int],
    target: Target,
) -> tuple[str, ...]:
    """The order of the shared dimensions of a product: what passes over what.

    Rows pass over a panel of columns, which stays in the first cache. Where the second one does not
    hold the rows but all columns, these pass over some rows instead, which are read once so: over
    those of a tile if the columns are near, else over a line of an image, or, of a free number, as
    many as stay. Of short sums whole rows of the result are written, one line after the other.
    """
    contraction, rows = product.contraction, product.rows
    columns = [product.vector] if product.vector in group.shared else []
    within = _within_rows(contraction, batch, target)
    if within:
        return (*[n for n in batch if n not in within], *rows, *within, *columns)
    op, lhs, rhs = contraction.op, contraction.lhs, contraction.rhs
    extents, panels = op.space.typical, (*batch, *columns, *rows)
    if rhs is None or not rows or any(is_free(op.space[n].extent) for n in contraction.varies(rhs)):
        return panels
    if _writes_most(product, target):
        return (*batch, *rows, *columns)
    kept = prod(extents[n] for n in contraction.varies(rhs)) * contraction.vectors
    names = {*rows, *contraction.depth[-1:]}.intersection(contraction.varies(lhs))
    read = prod(extents[n] for n in names) * op.operands[lhs].type.dtype.bytes
    free = not op.space.static
    if not free and read > target.l2 // 2 and kept <= min(target.resident, target.l2 // 4):
        return (*batch, *rows, *columns)
    few = extents[product.vector] < _PANELS * tiles[product.vector]
    if few or kept > _KEPT * target.l2:
        return panels
    if free:
        return (*batch, *rows, *columns)
    written = prod(extents[n] for n in (*rows, product.vector)) * op.results[0].type.dtype.bytes
    long = len(rows) > 1 and extents[rows[-1]] >= ROWS // 2
    by_line = long and read + written > target.l2 // 2
    return (*batch, *rows[:-1], *columns, rows[-1]) if by_line else panels


def _writes_most(product: Product, target: Target) -> bool:
    """Whether sums are so short that to write them, to far memory, takes most of the time.

    And all that one row is multiplied by stays in the first cache.
    """
    op = product.contraction.op
    if product.depth > _SHORT_SUM or not op.space.static:
        return False
    size: int = op.results[0].type.dtype.bytes
    near = product.depth * op.space.extent_of(product.vector) * size <= target.near
    written = prod(op.space.extent_of(i.name) for i in op.space.of_kind(PARALLEL)) * size
    return near and written > target.l2 // 2


def _rows_of_instance(product: Product, target: Target) -> int:
    """How many rows of a free number stay in the second cache while all columns pass over them.

    No more than leave some instances of a small image, and as many as it takes for what they are
    multiplied by to come from far during the first ones.
    """
    row = max(1, product.depth) * product.contraction.vectors
    return min(max(target.l2 // 4 // row, ROWS), _MOST_ROWS)


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


def _longest_row(contraction: Contraction, names: Sequence[str]) -> str:
    """The dimension of rows of which tiles have several.

    Of those that are free it is the innermost; a batch is only where others are short.
    """
    space = contraction.op.space
    free = [n for n in names if not isinstance(space[n].extent, int)]
    rows = [*free[-1:], *[n for n in names if n not in free]]
    long = [n for n in rows if space.typical[n] >= _LEAST_ROWS and not contraction.is_batch(n)]
    return max(long or rows, key=lambda n: space.typical[n])


def _whole_rows(group: Group, found: Sequence[Contraction], target: Target) -> Draft:
    """Contractions that share rows alone, with what stands between them.

    An instance has one block of rows, and each contraction goes over it in register tiles of its
    own width; other ops take the block's rows together, a vector of each. So does one whose rows
    have one sum each, which has no width; the first has columns.
    """
    contractions = [contraction.op for contraction in found if contraction.columns is not None]
    first = contractions[0]
    layout = vectors_of(found[0], target)
    row = _longest_row(
        found[0], [n for n in group.shared if n not in found[0].varies(found[0].rhs)]
    )

    def best(op: Generic, height: int) -> tuple[float, Mapping[str, int]]:
        vector, extents = contiguous_name(op.yield_maps[0]), op.space.typical
        assert vector is not None
        depth = prod(extents[i.name] for i in op.space.of_kind(REDUCTION))
        extent = op.space[row].extent
        sizes = () if isinstance(extent, int) else ((row, extent),)
        typical = tuple(extents.items())
        return cheapest((row,), vector, typical, depth, layout, target, sizes, height)

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
    strip = strip_of(width, first.space.typical[vector], depth, layout, target)
    chosen.lengths[row] = free_cost(height, 1, strip, numbers_of(first.space[row].extent)).steps
    return chosen
