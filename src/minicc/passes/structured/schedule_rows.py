"""How groups without products are tiled: elementwise ops, reductions and windows.

Whole vectors along what is contiguous, a few rows at once; what is reduced along a row is read as
it lies.
"""

from __future__ import annotations

from math import prod

from minicc.ir.index_maps import contiguous_name
from minicc.ir.space import REDUCTION, SEQUENTIAL
from minicc.ir.structured import Generic, Group
from minicc.passes.structured.contraction import contraction_of
from minicc.passes.structured.draft import (
    PLAIN_BLOCK,
    PLAIN_CHAIN,
    Draft,
    cut_sums,
    is_long,
    lanes_of,
    mentions,
    own_vectors,
    streamed,
)
from minicc.passes.structured.tile_cost import BLOCK, LONGEST_CHAIN
from minicc.target import Target

_LINE = 512  # bits of a line of a cache
_CHUNK = 2048  # elements of a long row that one instance handles
_MOST_SOUGHT = 256  # numbers of parts of a row that are compared
_MOST_VECTORS = 16  # of a tile of an op that is no contraction
_MOST_COMPUTED = 1024  # vectors that all ops of such a body have together, as each is code
_STREAMS = 4  # rows that are summed at once, each read as it lies
LONG_ROW = 4  # vectors of a row from which it counts as long


def rows_of(group: Group, target: Target) -> Draft:
    """Elementwise ops, reductions and windows.

    Whole vectors along what is contiguous, a few rows at once.
    """
    ops = [op for op in group.body.ops if isinstance(op, Generic)]
    main = max(ops, key=lambda o: prod(o.space.typical.values()))
    vector = _vector_dimension(main)
    if vector is not None and _is_streamed(ops, main, vector, group, target):
        return streamed(group, main, vector, (), lanes_of(main, target), target)
    return _in_vectors(ops, main, vector, group, target)


def _in_vectors(
    ops: list[Generic], main: Generic, vector: str | None, group: Group, target: Target
) -> Draft:
    """Vectors of the main op, a few rows at once, and what others have beside them."""
    lanes = lanes_of(main, target)
    extents = main.space.typical
    tiles: dict[str, int] = {}
    steps: dict[str, int] = {}
    # an op that makes a block of its result at a point has enough to do at once
    longest = max((len(o.body.ops) for o in ops if not o.into), default=1)
    most = max(1, min(_MOST_VECTORS, _MOST_COMPUTED // max(1, longest)))
    into = any(o.into for o in ops)
    vectors = 1 if into else min(4, most)
    if into and main.space.of_kind(SEQUENTIAL):
        # what many instances write next to each other: whole lines of the caches
        vectors = min(2, max(1, _LINE // target.vector_bits))
    along = _along_rows(main, vector, group, lanes)
    if along is not None:
        tiles = {str(vector): min(extents[str(vector)], _STREAMS), along: 3 * lanes}
    elif vector is not None and vector in group.shared:
        chunk = vectors * lanes
        if into and main.space.of_kind(SEQUENTIAL):
            chunk = 2 * lanes  # threads have nothing but this dimension to share
        elif len(ops) == 1 and not main.space.of_kind(REDUCTION) and not main.running:
            chunk = _CHUNK
        tiles[vector] = _part(extents[vector], chunk, lanes)
        steps[vector] = min(vectors * lanes, tiles[vector])
        many = vectors > 1 and not into
        width = -(-min(tiles[vector], 4 * lanes) // lanes) if many else 4
        below = [n for n in group.shared if n != vector and extents[n] > 1]
        crossed = _crossed(main, vector, group)
        if crossed is not None and many and most == _MOST_VECTORS:
            # a square of registers, which is turned: read along one, written along the other
            steps[vector] = tiles[vector] = min(extents[vector], lanes)
            tiles[crossed] = min(extents[crossed], lanes)
        elif (
            below
            and width < min(4, most)
            and all(mentions(m, below[-1]) for o in ops for m in o.yield_maps)
        ):
            tiles[below[-1]] = min(extents[below[-1]], min(8, most) // width)
    if vector not in group.shared:
        tiles = {**_turned(ops, main, group, lanes), **tiles}
    for op in ops:
        # where the shared dimensions fill vectors, few points of one of the op's own fit beside
        at_once = prod(min(steps.get(n, t), t) for n, t in tiles.items() if n in op.space)
        at_most = min(most, target.registers // (2 * max(1, _sums(op))))
        for name, size in inner_tiles(op, group, lanes).items():
            tiles.setdefault(name, min(size, max(1, at_most * lanes // at_once)))
    grid = tuple(n for n in group.shared)
    lengths = {True: (LONGEST_CHAIN, BLOCK), False: (PLAIN_CHAIN, PLAIN_BLOCK)}
    cuts = {
        op: cut_sums(op, {**tiles, **steps}, *lengths[contraction_of(op) is not None])
        for op in ops
        if "add" in op.combine and not op.running
    }
    return Draft(grid, tiles, cuts, steps)


def _sums(op: Generic) -> int:
    """How many accumulators an op has for each point of its tile."""
    return sum(c is not None for c in op.combine)


def _is_streamed(
    ops: list[Generic], main: Generic, vector: str, group: Group, target: Target
) -> bool:
    """Whether the rows of a large matrix are combined, all of them to one, and nothing else is."""
    reductions = [i.name for op in ops for i in op.space.of_kind(REDUCTION)]
    plain = None not in main.combine and not (main.indices or main.into or main.running)
    if len(reductions) != 1 or not plain or vector not in group.shared or not main.space.static:
        return False
    return any(
        contiguous_name(m) == vector
        and mentions(m, reductions[0])
        and is_long(main, vector, reductions[0], v, target)
        for v, m in zip(main.operands, main.input_maps, strict=True)
    )


def _turned(ops: list[Generic], main: Generic, group: Group, lanes: int) -> dict[str, int]:
    """A vector along each shared dimension along which ops have vectors, and the main one has none.

    The main op turns what the others make in vectors.
    """
    own = ((op, own_vectors(op, main, lanes)) for op in ops)
    return {n: min(op.space.typical[n], lanes) for op, n in own if n in group.shared}


def _part(extent: int, most: int, lanes: int) -> int:
    """A part of a row, of whole vectors: of those that are least in excess, the largest.

    The last part overlaps its neighbour where they are more than the row. It is read again there,
    and so can't be changed in place.
    """
    if extent <= most:
        return extent
    fewest = -(-extent // most)
    numbers = range(fewest, fewest + min(fewest, _MOST_SOUGHT) + 1)
    sizes = (-(-extent // (n * lanes)) * lanes for n in numbers)
    return min(sizes, key=lambda size: (-(-extent // size) * size, -size))


def _along_rows(op: Generic, vector: str | None, group: Group, lanes: int) -> str | None:
    """The reduction along which a matrix lies, that is summed to one result for each of its rows.

    A vector of results would read a few elements of as many rows at once; rows that are read as
    they lie come as fast as memory gives them.
    """
    if vector is None or vector not in group.shared:
        return None
    for m in op.input_maps:
        name = contiguous_name(m)
        if name in {i.name for i in op.space.of_kind(REDUCTION)} and mentions(m, vector):
            return name if op.space.typical[str(name)] >= LONG_ROW * lanes else None
    return None


def _crossed(op: Generic, vector: str, group: Group) -> str | None:
    """The dimension along which a large operand is contiguous, where that is not the result's."""
    if op.space.of_kind(REDUCTION):
        return None
    for m in op.input_maps:
        name = contiguous_name(m)
        whole = all(n == 1 or mentions(m, i) for i, n in op.space.typical.items())
        if name is not None and name != vector and name in group.shared and whole:
            return name if op.space.typical[name] > 1 else None
    return None


def _vector_dimension(op: Generic) -> str | None:
    """The dimension of vectors of the results, or of the operands where results have none."""
    for name in (*op.yield_vectors, *map(contiguous_name, op.input_maps)):
        if name is not None and name in op.space and op.space.typical[name] > 1:
            return name
    return None


def inner_tiles(op: Generic, group: Group, lanes: int) -> dict[str, int]:
    """For an op with dimensions of its own: four vectors along the contiguous one of them."""
    for m in (*op.yield_maps, *op.input_maps):
        name = contiguous_name(m)
        if name is None or name in group.shared or name not in op.space or name == op.running:
            continue
        if op.space.typical[name] > 1:
            return {name: min(op.space.typical[name], 4 * lanes)}
    return {}
