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
from math import isqrt, prod
from typing import NamedTuple

from minicc.ir import affine_facts
from minicc.ir.affine import Expr, symbols
from minicc.ir.core import Module, Value, walk_control
from minicc.ir.schedule import Cover, Schedule, Sums
from minicc.ir.space import REDUCTION, SEQUENTIAL
from minicc.ir.structured import (
    HOLD,
    PARTIAL,
    Constant,
    Generic,
    Group,
    Map,
    Scan,
    contiguous_name,
    names_of,
)
from minicc.ir.types import dense_strides
from minicc.passes.structured.fuse import is_contraction
from minicc.passes.structured.merge import plain_names
from minicc.passes.structured.rows import Steps
from minicc.passes.structured.tile_cost import (
    BLOCK,
    LONGEST_CHAIN,
    Apart,
    cheapest,
    free_cost,
    place_of,
)
from minicc.target import Target

# LONGEST_CHAIN for sums that are not of products: they cost little, and errors of one sign pile up
_PLAIN_BLOCK, _PLAIN_CHAIN = 16, 16
PACK_READS = 4  # reads of an element from which a copy in the tiles' order pays
_ROWS = 48  # of a free dimension that an instance has, about
_CHUNK = 2048  # elements of a long row that one instance handles
_MOST_SOUGHT = 1 << 16  # rounds of a block for which a divisor is sought
_MOST_VECTORS = 16  # of a tile of an op that is no contraction
_MOST_COMPUTED = 1024  # vectors that all ops of such a body have together, as each is code
_STREAMS = 4  # rows that are summed at once, each read as it lies
_LONG_ROW = 4  # vectors of a row, from which it is
_TALLEST = 12  # rows of a block that ops other than contractions handle at once


class _Draft:
    """The decisions for one group while they are made; `lengths` are those of steps over rows."""

    def __init__(
        self,
        grid: tuple[str, ...],
        tiles: Mapping[str, int],
        cuts: Mapping[Generic, Cuts],
        steps: Mapping[str, int] | None = None,
        widths: Mapping[str, int] | None = None,
    ) -> None:
        self.lengths: dict[str, Steps] = {}
        self.grid = grid
        self.tiles = dict(tiles)
        self.cuts = cuts
        self.steps = dict(steps or {})
        self.widths = dict(widths or {})


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
    cut = {n for n in draft.widths if all(is_contraction(op) for op in ops if n in op.space)}
    return Schedule(
        draft.grid,
        tuple([(n, size) for n, size in draft.tiles.items() if size > 1 and n not in cut]),
        tuple([(n, k) for n, k in draft.steps.items() if k < draft.tiles.get(n, 1)]),
        tuple([(n, size) for n, size in draft.widths.items() if size > 1]),
        cover,
        tuple([Sums(k, *cuts) for k, cuts in sums if cuts != NO_CUTS]),
    )


def _choose_cover(
    draft: _Draft, ops: Sequence[Generic], group: Group, target: Target
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
    lanes = min(_lanes(op, target) for op in ops)
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
            if any(is_contraction(op) for op in ops) and step > 2 and not plain:
                short = tail_step(step)
                # of several products, a row alone is worth no code of its own
                alone = (1,) if sum(is_contraction(op) for op in ops) == 1 else ()
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


def _draft(group: Group, target: Target, constants: frozenset[Value]) -> _Draft:
    ops = [op for op in group.body.ops if isinstance(op, Generic) and is_contraction(op)]
    if not ops:
        return _rows(group, target)
    vector = contiguous_name(ops[0].yield_maps[0])
    if vector is None or vector in group.shared or ops[0].space.typical[vector] == 1:
        return _contraction(group, ops[0], target, constants)
    return _whole_rows(group, ops, target)


def _lanes(op: Generic, target: Target) -> int:
    """Elements of a vector of the widest type that an op handles in vectors."""
    vector = contiguous_name(op.yield_maps[0])
    read = [v for v, m in zip(op.operands, op.input_maps, strict=True) if vector in names_of(m)]
    bits = max([v.type.dtype.bits for v in (*op.results, *read)], default=32)
    return max(1, target.vector_bits // max(8, bits))


class Product(NamedTuple):
    """A contraction as its register tiles see it.

    The dimension of its vectors, its rows (along which the wide operand's vectors serve again), the
    length of its sums, the elements of a vector, which rows have free extents, and which lie apart
    in the narrow operand's memory, with how often a tile computes the addresses of all.
    """

    vector: str
    rows: tuple[str, ...]
    depth: int
    lanes: int
    free: frozenset[str]
    apart: Apart


def product_of(
    group: Group, op: Generic, target: Target, constants: frozenset[Value]
) -> Product | None:
    """How a group's only contraction is tiled; None where it is not summed in vectors of rows."""
    extents = op.space.typical
    vector = contiguous_name(op.yield_maps[0])
    if vector is None or not _reads_vectors(group, op, vector, constants):
        return None
    narrow = _narrow_operand(op, vector)
    # along a row the wide operand's vectors serve again; where both operands vary none does
    rows = tuple(
        n
        for n in group.shared
        if n != vector
        and _mentions(op.input_maps[narrow], n)
        and not _mentions(op.input_maps[1 - narrow], n)
        and extents[n] > 1
    )
    reductions = [extents[i.name] for i in op.space.of_kind(REDUCTION)]
    free = frozenset(n for n in rows if not isinstance(op.space[n].extent, int))
    at, strides = op.input_maps[narrow], dense_strides(op.operands[narrow].type.shape)
    bent = frozenset(n for n in rows if not affine_facts.even(at, strides, n))
    return Product(
        vector, rows, prod(reductions), _lanes(op, target), free, (bent, prod(reductions[:-1]))
    )


def cheapest_tile(op: Generic, product: Product, target: Target) -> tuple[float, Mapping[str, int]]:
    """What the best register tile of a contraction costs, and that tile."""
    known = tuple(op.space.typical.items())
    vector, rows, depth, lanes, free, apart = product
    return cheapest(rows, vector, known, depth, lanes, target, free, apart=apart)


def _contraction(group: Group, op: Generic, target: Target, constants: frozenset[Value]) -> _Draft:
    product = product_of(group, op, target, constants)
    if product is None:
        return _rows(group, target)
    vector, rows, depth, lanes, free, _ = product
    extents = op.space.typical
    batch = [n for n in group.shared if n != vector and n not in rows]
    _, tiles = cheapest_tile(op, product, target)
    cuts = {op: cut_sums(op, tiles, LONGEST_CHAIN, BLOCK)}
    grid = (*batch, *([vector] if vector in group.shared else []), *rows)
    chosen = _Draft(grid, tiles, cuts)
    for n in free & tiles.keys():
        others = prod(tiles[m] for m in rows if m != n and m in tiles)
        where = place_of(tiles[vector], extents[vector], depth, lanes)
        vectors = -(-tiles[vector] // lanes)
        chosen.lengths[n] = free_cost(tiles[n], others, vectors, depth, target.registers, where)[1]
    return chosen


def _whole_rows(group: Group, contractions: Sequence[Generic], target: Target) -> _Draft:
    """Contractions that share rows alone, with what stands between them.

    An instance has one block of rows, and each contraction goes over it in register tiles of its
    own width; other ops take the block's rows together, a vector of each.
    """
    first = contractions[0]
    lanes, registers = _lanes(first, target), target.registers
    narrow = _narrow_operand(first, contiguous_name(first.yield_maps[0]))
    candidates = [n for n in group.shared if not _mentions(first.input_maps[1 - narrow], n)]
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
        return cheapest((row,), vector, known, depth, lanes, target, free, height)

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
        for name in _inner_tiles(op, group, lanes):
            tiles.setdefault(name, min(op.space.typical[name], lanes))
        if op in contractions:
            cuts[op] = cut_sums(op, tiles, LONGEST_CHAIN, BLOCK)
        elif "add" in op.combine:
            cuts[op] = cut_sums(op, tiles, _PLAIN_CHAIN, _PLAIN_BLOCK)
    grid = (*[n for n in group.shared if n != row], row)
    chosen = _Draft(grid, tiles, cuts, widths=widths)
    vector = str(contiguous_name(first.yield_maps[0]))
    depth = prod(first.space.typical[i.name] for i in first.space.of_kind(REDUCTION))
    width = best(first, height)[1][vector]
    where = place_of(width, first.space.typical[vector], depth, lanes)
    chosen.lengths[row] = free_cost(height, 1, -(-width // lanes), depth, registers, where)[1]
    return chosen


def _reads_vectors(group: Group, op: Generic, vector: str, constants: frozenset[Value]) -> bool:
    """Whether some operand has, or will be packed to have, the result's vectors side by side.

    A matrix times a vector has not: it is better summed in vectors along the reduction.
    """
    if op.space.typical[vector] < 2 or vector not in group.shared:
        return False
    for v, m in zip(op.operands, op.input_maps, strict=True):
        if not _mentions(m, vector):
            continue
        outer = group.operands[group.body.args.index(v)] if v in group.body.args else v
        others = {n for other in op.input_maps if other is not m for e in other for n in symbols(e)}
        reads = prod(
            op.space.typical[n] for n in group.shared if n in others and not _mentions(m, n)
        )
        if contiguous_name(m) == vector or outer in constants or reads >= PACK_READS:
            return True
    return False


def _mentions(m: Map, name: str) -> bool:
    return any(isinstance(e, Expr) and name in e.symbols() for e in m)


def _narrow_operand(op: Generic, vector: str | None) -> int:
    """The operand that is read element by element.

    The other one than that which has the contiguous dimension.
    """
    wide = [k for k, m in enumerate(op.input_maps) if vector is not None and _mentions(m, vector)]
    return 1 - wide[-1] if wide and wide[-1] < 2 else 0


class Cuts(NamedTuple):
    """Where the sums of one op restart: points of a block by dimension, and dimensions by round."""

    blocks: tuple[tuple[str, int], ...] = ()
    cut: tuple[str, ...] = ()


NO_CUTS = Cuts()


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


def _rows(group: Group, target: Target) -> _Draft:
    """Elementwise ops, reductions and windows.

    Whole vectors along what is contiguous, a few rows at once.
    """
    ops = [op for op in group.body.ops if isinstance(op, Generic)]
    main = max(ops, key=lambda o: prod(o.space.typical.values()))
    lanes = _lanes(main, target)
    vector = _vector_dimension(main)
    extents = main.space.typical
    tiles: dict[str, int] = {}
    steps: dict[str, int] = {}
    # an op that makes a block of its result at a point has enough to do at once
    longest = max((len(o.body.ops) for o in ops if not o.into), default=1)
    most = max(1, min(_MOST_VECTORS, _MOST_COMPUTED // max(1, longest)))
    vectors = 1 if any(o.into for o in ops) else min(4, most)
    along = _along_rows(main, vector, group, lanes)
    if along is not None:
        tiles = {str(vector): min(extents[str(vector)], _STREAMS), along: 3 * lanes}
    elif vector is not None and vector in group.shared:
        chunk = vectors * lanes
        if main.space.of_kind(SEQUENTIAL):
            chunk = 2 * lanes  # threads have nothing but this dimension to share
        elif len(ops) == 1 and not main.space.of_kind(REDUCTION):
            chunk = _CHUNK
        tiles[vector] = min(extents[vector], chunk)
        steps[vector] = vectors * lanes
        width = -(-min(tiles[vector], 4 * lanes) // lanes) if vectors > 1 else 4
        below = [n for n in group.shared if n != vector and extents[n] > 1]
        crossed = _crossed(main, vector, group)
        if crossed is not None and vectors > 1 and most == _MOST_VECTORS:
            # a square of registers, which is turned: read along one, written along the other
            steps[vector] = tiles[vector] = min(extents[vector], lanes)
            tiles[crossed] = min(extents[crossed], lanes)
        elif (
            below
            and width < min(4, most)
            and all(_mentions(m, below[-1]) for o in ops for m in o.yield_maps)
        ):
            tiles[below[-1]] = min(extents[below[-1]], min(8, most) // width)
    for op in ops:
        # where the shared dimensions fill vectors, few points of one of the op's own fit beside
        at_once = prod(min(steps.get(n, t), t) for n, t in tiles.items() if n in op.space)
        for name, size in _inner_tiles(op, group, lanes).items():
            tiles.setdefault(name, min(size, max(1, most * lanes // at_once)))
    grid = tuple(n for n in group.shared)
    lengths = {True: (LONGEST_CHAIN, BLOCK), False: (_PLAIN_CHAIN, _PLAIN_BLOCK)}
    cuts = {
        op: cut_sums(op, {**tiles, **steps}, *lengths[is_contraction(op)])
        for op in ops
        if "add" in op.combine
    }
    return _Draft(grid, tiles, cuts, steps)


def _along_rows(op: Generic, vector: str | None, group: Group, lanes: int) -> str | None:
    """The reduction along which a matrix lies, that is summed to one result for each of its rows.

    A vector of results would read a few elements of as many rows at once; rows that are read as
    they lie come as fast as memory gives them.
    """
    if vector is None or vector not in group.shared:
        return None
    for m in op.input_maps:
        name = contiguous_name(m)
        if name in {i.name for i in op.space.of_kind(REDUCTION)} and _mentions(m, vector):
            return name if op.space.typical[str(name)] >= _LONG_ROW * lanes else None
    return None


def _crossed(op: Generic, vector: str, group: Group) -> str | None:
    """The dimension along which a large operand is contiguous, where that is not the result's."""
    if op.space.of_kind(REDUCTION):
        return None
    for m in op.input_maps:
        name = contiguous_name(m)
        whole = all(n == 1 or _mentions(m, i) for i, n in op.space.typical.items())
        if name is not None and name != vector and name in group.shared and whole:
            return name if op.space.typical[name] > 1 else None
    return None


def _vector_dimension(op: Generic) -> str | None:
    """The contiguous dimension of the results, or of the operands where results have none."""
    for m in (*op.yield_maps, *op.input_maps):
        name = contiguous_name(m)
        if name is not None and name in op.space and op.space.typical[name] > 1:
            return name
    return None


def _inner_tiles(op: Generic, group: Group, lanes: int) -> dict[str, int]:
    """For an op with dimensions of its own: four vectors along the contiguous one of them."""
    for m in (*op.yield_maps, *op.input_maps):
        name = contiguous_name(m)
        if name is None or name in group.shared or name not in op.space:
            continue
        if op.space.typical[name] > 1:
            return {name: min(op.space.typical[name], 4 * lanes)}
    return {}
