"""Products as their register tiles see them: what is summed in vectors of which rows."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import NamedTuple

from minicc.ir import affine, affine_facts
from minicc.ir.affine import Dim, symbols
from minicc.ir.affine_facts import is_free
from minicc.ir.core import Value
from minicc.ir.index_maps import Map, names_of
from minicc.ir.schedule import Unroll
from minicc.ir.space import REDUCTION
from minicc.ir.structured import Generic, Group
from minicc.ir.types import dense_strides
from minicc.passes.structured.contraction import Contraction
from minicc.passes.structured.draft import lanes_of, mentions
from minicc.passes.structured.rows import numbers_of
from minicc.passes.structured.tile_cost import (
    Apart,
    Free,
    Vectors,
    Window,
    cheapest,
    free_cost,
    strip_of,
)
from minicc.target import Target

PACK_READS = 4  # reads of an element from which a copy in the tiles' order pays


class Product(NamedTuple):
    """A contraction as its register tiles see it.

    The dimension of its vectors, the rows of its group that have more than a point, the length of
    its sums, its vectors, rows with free extents, and which rows lie apart in the memory of lhs,
    with how often a tile computes the addresses of all.
    """

    contraction: Contraction
    vector: str
    rows: tuple[str, ...]
    depth: int
    layout: Vectors
    free: Free
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
    lhs = contraction.lhs
    free = tuple((n, _few(contraction, n)) for n in rows if is_free(op.space[n].extent))
    at, strides = op.input_maps[lhs], dense_strides(op.operands[lhs].type.shape)
    bent = frozenset(n for n in rows if not affine_facts.even(at, strides, n))
    divided = frozenset(n for n in rows if any(_divides(e, n) for m in op.maps for e in m))
    size = op.operands[lhs].type.dtype.bytes
    split = affine_facts.linear(affine_facts.place(at, strides), rows)
    steps = [(n, split[0].get(n, 0)) for n in rows] if split else []
    known = tuple((n, step * size) for n, step in steps if isinstance(step, int))
    apart = Apart(bent, prod(reductions[:-1]), divided, known)
    layout = vectors_of(contraction, target)
    if layout.both and rows:
        layout = layout._replace(window=_window(contraction, rows[-1]))
    return Product(contraction, vector, rows, prod(reductions), layout, free, apart)


def _few(contraction: Contraction, name: str) -> Dim:
    """The extent of rows, or that of one sequence where they go through a batch, which may be one.

    So few rows are any number, and not some number of sequences as long as there are of them.
    """
    op, lhs = contraction.op, contraction.lhs
    extent, place, shape = op.space[name].extent, op.input_maps[lhs], op.operands[lhs].type.shape
    if len(shape) < 2 or not is_free(shape[1]):
        return extent
    return shape[1] if place[0] == affine.floordiv(affine.symbol(name), shape[1]) else extent


def _divides(e: Dim, name: str) -> bool:
    """Whether a coordinate divides what a dimension takes part in by a size."""
    atoms = (
        a for monomial, _ in getattr(e, "terms", ()) for a in monomial if not isinstance(a, str)
    )
    return any(
        a.kind in ("floordiv", "mod") and is_free(a.args[1]) and name in symbols(a.args[0])
        for a in atoms
    )


def vectors_of(contraction: Contraction, target: Target) -> Vectors:
    """The vectors in which a contraction's rhs is read."""
    lanes = lanes_of(contraction.op, target)
    both = contraction.columns in contraction.varies(contraction.lhs)
    shifted = False
    if contraction.rhs is not None:
        at = contraction.op.input_maps[contraction.rhs][-1]
        shifted = names_of((at,)) > {contraction.columns}
    return Vectors(lanes, lanes * contraction.vectors, both, shifted=shifted)


def _window(contraction: Contraction, row: str) -> Window | None:
    """How terms of a sum share what rows of a dimension read, where they are written out."""
    op, lhs = contraction.op, contraction.lhs
    term = op.space.of_kind(REDUCTION)[-1]
    at = affine_facts.place(op.input_maps[lhs], dense_strides(op.operands[lhs].type.shape))
    split = affine_facts.linear(at, (row, term.name))
    if split is None or not isinstance(term.extent, int) or not 1 < term.extent <= Unroll().rounds:
        return None
    next_row, next_term = split[0].get(row), split[0].get(term.name)
    if not isinstance(next_row, int) or not isinstance(next_term, int) or not next_term:
        return None
    return Window(row, next_row, next_term, term.extent)


def cheapest_tile(product: Product, target: Target) -> tuple[float, Mapping[str, int]]:
    """What the best register tile of a contraction costs, and that tile."""
    contraction, vector, rows, depth, layout, free, apart = product
    known = tuple(contraction.op.space.typical.items())
    return cheapest(rows, vector, known, depth, layout, target, free, apart=apart)


def cycles_of_a_point(product: Product, tiles: Mapping[str, int], target: Target) -> float | None:
    """Cycles for one of few rows of a free extent in a tile; None where its rows are known."""
    contraction, vector, rows, depth, layout, free, apart = product
    extents = contraction.op.space.typical
    unknown = dict(free)
    name = next((n for n in rows if tiles.get(n, 1) > 1), "")
    if name not in unknown:
        return None
    width, columns = tiles[vector], extents[vector]
    strip = strip_of(width, columns, depth, layout.along(name), target)
    row = free_cost(tiles[name], 1, strip, numbers_of(unknown[name])).few + apart.cycles(name)
    return row * -(-columns // width)


def _lies_along(m: Map, vector: str) -> bool:
    """Whether elements lie side by side along a dimension, wherever its other coordinates are."""
    split = affine_facts.linear(m[-1], (vector,)) if m else None
    return split is not None and split[0].get(vector) == 1 and not mentions(m[:-1], vector)


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
        if _lies_along(m, vector) or outer in constants or reads >= PACK_READS:
            return True
    return False
