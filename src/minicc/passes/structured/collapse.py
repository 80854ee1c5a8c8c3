"""Count two dimensions of a contraction's rows as one, where register tiles then fit better.

    (h, w) of 7 x 7 points   -->   hw of 49, where h = hw floordiv 7 and w = hw mod 7

A tile of a few rows of registers ends where a row of the image does: of 7 pixels by 4 that is 8
computed for 7, of 49 by 6 it is 54 for 49. The tensors keep their shapes. Where their rows lie one
after the other, the address of a point is a multiple of its number; where they don't (a border
around the image, a step of two pixels), each row of a tile has an address of its own. The extents
may be free: what divides is a size then, and the gain is that of images of few rows; of rows that
all lie one after the other, as sequences of a batch do, nothing is lost by that. Groups without
contractions, whose tensors can be viewed so, are for `flatten`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from minicc.ir import affine
from minicc.ir.affine import Dim
from minicc.ir.affine_facts import is_free
from minicc.ir.core import Function, Module, Op, Region, Value, walk_control
from minicc.ir.index_maps import Map, names_of
from minicc.ir.rewrite import Rebuilder, everywhere, rebuild
from minicc.ir.space import PARALLEL, Iter, Space
from minicc.ir.structured import Generic, Group, Pad
from minicc.passes.structured.contraction import contractions_in
from minicc.passes.structured.flatten import flatten
from minicc.passes.structured.products import cheapest_tile, cycles_of_a_point, product_of
from minicc.passes.structured.schedule import constants_of
from minicc.target import Target

_GAIN = 0.97  # of the cost before: for less the maps are not made longer


class Pair:
    """Two dimensions of a group, and the one that they become."""

    def __init__(self, outer: Iter, inner: Iter) -> None:
        columns = self.columns = inner.extent
        self.plain = affine.symbol(outer.name), affine.symbol(inner.name)
        self.whole = Iter(f"{outer.name}{inner.name}", outer.extent * columns, PARALLEL)
        self.point = affine.symbol(self.whole.name)
        parts = affine.floordiv(self.point, columns), affine.mod(self.point, columns)
        self.outer, self.inner = outer.name, inner.name
        self.split: Callable[[Dim], Dim] = affine.substitution(
            dict(zip((outer.name, inner.name), parts, strict=True))
        )

    def axis(self, m: Map) -> int | None:
        """The axis of a map that is the outer one where the inner one is the next."""
        return next((k for k in range(len(m) - 1) if m[k : k + 2] == self.plain), None)

    def space(self, space: Space) -> Space:
        """A space with the one in the place of the two."""
        iters = [self.whole if i.name == self.inner else i for i in space.iters]
        return Space(i for i in iters if i.name != self.outer)


def collapse(module: Module, target: Target) -> Module:
    """Collapse pairs of rows in every group where that is legal and profitable."""
    module = flatten(module, target)
    constants = constants_of(module)
    ops = [op for f in module.functions for op in walk_control(f.body)]
    # what is written as the inside of an image with a border
    bordered = frozenset(v for op in ops if isinstance(op, Pad) for v in op.operands)
    groups = [op for op in ops if isinstance(op, Group)]
    made = {g: _collapsed(g, target, constants, bordered) for g in groups}

    def visit(out: Rebuilder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        if not isinstance(op, Group) or made[op] is op:
            return None
        return out.add(made[op].rebuilt(operands)).results

    def one(function: Function) -> Function:
        return rebuild(function, visit)

    return Module(module.level, [everywhere(f, one) for f in module.functions])


def _collapsed(
    group: Group, target: Target, constants: frozenset[Value], bordered: frozenset[Value]
) -> Group:
    """The group with pairs of rows collapsed, from the innermost on, as long as that pays."""
    apart = not bordered.isdisjoint((*group.operands, *group.results))
    found = _best(group, target, constants)
    while found is not None:
        cost, rows = found
        pair = legal(group, rows)
        if pair is None:
            return group
        even = is_free(pair.columns) and not apart and _is_even(group, pair)
        if not even and contractions_in(group.body.ops)[0].is_batch(pair.outer):
            return group
        candidate = apply(group, pair)
        found = _best(candidate, target, constants)
        if not even and (found is None or found[0] > _GAIN * cost):
            return group
        group = candidate
    return group


def _is_even(group: Group, pair: Pair) -> bool:
    """Whether rows lie at equal distances, through all of the outer dimension, in each tensor.

    So it costs nothing to count them as one, and there may be few of the inner ones: sequences of
    a batch of one.
    """
    for op in (o for o in group.body.ops if isinstance(o, Generic)):
        for v, m in zip((*op.operands, *op.results), op.maps, strict=True):
            at = pair.axis(m)
            if at is None and {pair.outer, pair.inner}.isdisjoint(names_of(m)):
                continue
            if at is None or v.type.shape[at + 1] != pair.columns or not _stays(m, pair):
                return False
    return True


def _best(
    group: Group, target: Target, constants: frozenset[Value]
) -> tuple[float, tuple[str, ...]] | None:
    """What the best register tile of the group's only contraction costs, and what its rows are.

    Where their number is free it is what one of few rows costs, by which others can be measured.
    """
    found = contractions_in(group.body.ops)
    product = product_of(group, found[0], target, constants) if len(found) == 1 else None
    if product is None:
        return None
    cost, tiles = cheapest_tile(product, target)
    few = cycles_of_a_point(product, tiles, target)
    return cost if few is None else few, product.rows


def legal(group: Group, rows: Sequence[str]) -> Pair | None:
    """The innermost two rows, where nothing in the group needs them apart.

    What passes between ops has them as neighbouring axes, which become one; no op makes blocks,
    reads where data say, or takes coordinates of them.
    """
    if len(rows) < 2:
        return None
    ops = [op for op in group.body.ops if isinstance(op, Generic)]
    outer, inner = (ops[0].space[n] for n in rows[-2:])
    pair = Pair(outer, inner)
    passed = {v for op in ops for v in op.results} - set(group.body.yields)
    for op in ops:
        if op.into or op.indices or pair.whole.name in op.space:
            return None
        if any(op.space[i.name] != i for i in (outer, inner)):
            return None
        if not {outer.name, inner.name}.isdisjoint(names_of(op.coordinates)):
            return None
        for v, m in zip((*op.operands, *op.results), op.maps, strict=True):
            if v in passed and not _stays(m, pair):
                return None
    return pair


def _stays(m: Map, pair: Pair) -> bool:
    """Whether the map of a value that passes has both dimensions as axes of their own, or none."""
    at = pair.axis(m)
    others = m if at is None else (*m[:at], *m[at + 2 :])
    return {pair.outer, pair.inner}.isdisjoint(names_of(others))


def apply(group: Group, pair: Pair) -> Group:
    """The group over the one dimension in the place of both."""
    passed = {v for op in group.body.ops for v in op.results} - set(group.body.yields)
    forward: dict[Value, Value] = {}
    ops: list[Op] = []
    for op in group.body.ops:
        assert isinstance(op, Generic)
        maps = [
            _joined(m, pair, pair.point) if v in passed else tuple(map(pair.split, m))
            for v, m in zip((*op.operands, *op.results), op.maps, strict=True)
        ]
        shapes = [
            _joined_shape(shape, m, pair) if v in passed else shape
            for v, shape, m in zip(op.results, op.shapes, op.yield_maps, strict=True)
        ]
        fresh = op.rebuilt(
            [forward.get(v, v) for v in op.operands],
            space=pair.space(op.space),
            maps=tuple(maps),
            shapes=tuple(shapes),
            nonzero=tuple([(pair.split(e), *ends) for e, *ends in op.nonzero]),
        )
        forward.update(zip(op.results, fresh.results, strict=True))
        ops.append(fresh)
    body = Region(group.body.args, ops, [forward[v] for v in group.body.yields])
    names = [pair.whole.name if n == pair.inner else n for n in group.shared]
    shared = tuple(n for n in names if n != pair.outer)
    return group.rebuilt(group.operands, (body,), shared=shared)


def _joined(m: Map, pair: Pair, point: Dim) -> Map:
    at = pair.axis(m)
    return m if at is None else (*m[:at], point, *m[at + 2 :])


def _joined_shape(shape: tuple[Dim, ...], m: Map, pair: Pair) -> tuple[Dim, ...]:
    at = pair.axis(m)
    return shape if at is None else (*shape[:at], pair.whole.extent, *shape[at + 2 :])
