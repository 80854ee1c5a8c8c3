"""Schedules near a given one that sum in the same order: what a search by measuring tries.

One decision is another at a time: a register tile, a tile, how many points of it are handled at
once, how free extents are covered, the order of the loops over instances, how far ahead operands
are fetched, what is written out. Where sums restart and what is summed side by side stays, so that
each of these schedules gives the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import permutations

from minicc.ir.affine import typical
from minicc.ir.core import Value
from minicc.ir.schedule import Cover, Pairs, Schedule, Unroll
from minicc.ir.space import PARALLEL
from minicc.ir.structured import Generic, Group
from minicc.passes.structured.contraction import contractions_in
from minicc.passes.structured.draft import lanes_of
from minicc.passes.structured.legal import legal
from minicc.passes.structured.past_caches import read_by_others
from minicc.passes.structured.products import product_of
from minicc.passes.structured.schedule import tail_step
from minicc.passes.structured.tile_cost import cost_of, register_tiles
from minicc.target import Target

_REGISTER_TILES = 12  # of those that the formula likes best
_MOST_ORDERS = 4  # dimensions of a grid whose orders are all tried
_UNROLLED = (Unroll(1), Unroll(4), Unroll(16, 12288), Unroll(at_once=1), Unroll(at_once=8))
_ENOUGH = 8  # columns, from which all sums of a row alone are joined in one way
_STEPS = (4, 6, 8, 12, 14)  # rows of a free extent that are handled at once


def near(
    group: Group, own: Schedule, target: Target, constants: frozenset[Value]
) -> Iterator[Schedule]:
    """Legal schedules that differ from `own` in one decision, each once, those of tiles first."""
    tried = {own}
    for schedule in _all(group, own, target, constants):
        if schedule not in tried and same_order(group, own, schedule):
            tried.add(schedule)
            if not legal(group, schedule, target):
                yield schedule


def same_order(group: Group, a: Schedule, b: Schedule) -> bool:
    """Whether two schedules sum in one order, and so give the same bits.

    Where extents are free a row may be alone, of which a product has several sums side by side:
    which rows are, the steps say, and how these sums are joined depends on few columns beside them.
    """
    parallel = _parallel(group)
    products = contractions_in(group.body.ops)
    if products and a.cover:
        for name in {product.columns for product in products} - {None}:
            widths = {dict((*p.tiles, *p.widths)).get(str(name), 1) for p in (a, b)}
            if len(widths) > 1 and min(widths) < _ENOUGH:
                return False
        if [(c.name, c.steps) for c in a.cover] != [(c.name, c.steps) for c in b.cover]:
            return False

    def summed(plan: Schedule) -> list[tuple[str, int]]:
        return sorted((n, k) for n, k in (*plan.tiles, *plan.steps) if n not in parallel)

    return (a.sums, a.around, summed(a)) == (b.sums, b.around, summed(b))


def _parallel(group: Group) -> dict[str, int]:
    """The dimensions along which no op of a group sums, with their extents."""
    iters = [i for op in group.body.ops if isinstance(op, Generic) for i in op.space.iters]
    summed = {i.name for i in iters if i.kind != PARALLEL}
    return {i.name: typical(i.extent) for i in iters if i.name not in summed}


def _all(
    group: Group, own: Schedule, target: Target, constants: frozenset[Value]
) -> Iterator[Schedule]:
    ops = [op for op in group.body.ops if isinstance(op, Generic)]
    extents = _parallel(group)
    covered = {c.name for c in own.cover}
    for tile in _register_tiles(group, target, constants):
        left = tuple((n, k) for n, k in own.tiles if n not in extents)
        known = [(n, k) for n, k in tile.items() if n not in covered and k > 1]
        yield own._replace(tiles=(*left, *known), steps=())
    vectors = {name for op in ops for name in op.yield_vectors}
    lanes = max((lanes_of(op, target) for op in ops), default=1)
    for name, extent in extents.items():
        if name in covered:
            continue
        now = dict(own.tiles).get(name, 1)
        for size in _sizes(now, extent, lanes if name in vectors else 1):
            steps = tuple([(n, min(k, size) if n == name else k) for n, k in own.steps])
            yield own._replace(tiles=_with(own.tiles, name, size), steps=steps)
            yield own._replace(widths=_with(own.widths, name, size))
    for name, step in own.steps:
        for size in _sizes(step, dict(own.tiles)[name], 1):
            yield own._replace(steps=_with(own.steps, name, size))
    for cover in own.cover:
        others = [c for c in own.cover if c is not cover]
        for one in _covers(cover):
            yield own._replace(cover=(*others, one))
    if len(own.grid) <= _MOST_ORDERS:
        for grid in permutations(own.grid):
            yield own._replace(grid=grid)
    for k, packing in enumerate(own.packs):
        around = own.packs[:k], own.packs[k + 1 :]
        for ahead in {0, packing.ahead // 2, 2 * packing.ahead, 4096, 16384} - {packing.ahead}:
            yield own._replace(packs=(*around[0], packing._replace(ahead=ahead), *around[1]))
    yield own._replace(nontemporal=() if own.nontemporal else tuple(read_by_others(group)))
    for unroll in _UNROLLED:
        yield own._replace(unroll=unroll)


def _register_tiles(
    group: Group, target: Target, constants: frozenset[Value]
) -> Iterator[Mapping[str, int]]:
    """The register tiles of a group's only product, the cheapest by the formula first."""
    products = contractions_in(group.body.ops)
    product = product_of(group, products[0], target, constants) if len(products) == 1 else None
    if product is None:
        return
    contraction, vector, rows, depth, layout, free, apart = product
    extents = contraction.op.space.typical
    tiles = register_tiles(rows, vector, extents, layout.lanes, target.registers)
    yield from sorted(
        tiles,
        key=lambda t: cost_of(t, rows, vector, extents, depth, layout, target, free, apart),
    )[:_REGISTER_TILES]


def _sizes(now: int, extent: int, lanes: int) -> Iterator[int]:
    """Sizes below and above one: doubled and halved, a little more and less, one, all."""
    near_by = (2 * now, now // 2, now + lanes, now - lanes, 4 * now, now // 4, 1, extent)
    return (n for n in dict.fromkeys(near_by) if 1 <= n <= extent and n != now)


def _covers(cover: Cover) -> Iterator[Cover]:
    """Other numbers of points of an instance, and other steps of the same kind."""
    name, points, steps = cover
    for size in (2 * points, points // 2, 4 * points):
        yield Cover(name, max(size, steps[0]), steps)
    if len(steps) > 1 and steps[1] > 1:
        for step in _STEPS:
            short = (step, tail_step(step), *steps[2:])
            yield Cover(name, step * max(1, round(points / step)), short)


def _with(pairs: Pairs, name: str, size: int) -> Pairs:
    """Pairs with a size for a name; a size of 1 is none."""
    found = dict(pairs)
    found[name] = size
    return tuple([(n, k) for n, k in found.items() if k > 1])
