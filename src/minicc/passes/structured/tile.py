"""Apply schedules: split shared dimensions into a grid and tiles.

    shared = [w] with w=55, tile 14
    -->   shared = [wo] with wo=4, and in each op w = min(14*wo, 41) + wi, wi < 14

A last block overlaps its neighbour instead of being ragged: the same values are written twice, and
no loop needs a bounds check. A dimension whose extent is free stays as it is, and the kernel's own
loops cover it (`Schedule.cover`). What passes between ops of the group is indexed by (wo, wi) from
then on: each instance has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

from minicc.ir import affine
from minicc.ir.affine import Dim
from minicc.ir.core import Function, Module, Op, Region, Value
from minicc.ir.index_maps import Map, plain_names
from minicc.ir.rewrite import everywhere, live
from minicc.ir.schedule import Schedule
from minicc.ir.space import PARALLEL, Iter, Space
from minicc.ir.structured import Generic, Group
from minicc.passes.structured.contraction import contraction_of


class Split:
    """How one dimension is cut: into `parts`, of which the innermost has `size` points, or a step.

    Blocks of an instance are outermost, where there are several; then come the steps through one,
    where each has a part of a packing.
    """

    __slots__ = ("expression", "inner", "outer", "parts", "size")

    def __init__(self, name: str, extent: int, size: int, step: int = 0) -> None:
        blocks = -(-extent // size)
        self.outer = Iter(f"{name}o", blocks) if blocks > 1 else None
        steps = [Iter(f"{name}s", size // step)] if step and step < size else []
        self.size = step if steps else size
        self.inner = Iter(f"{name}i", self.size)
        self.parts = [*([self.outer] if self.outer else []), *steps, self.inner]
        start: Dim = 0
        if self.outer is not None:
            start = affine.symbol(self.outer.name) * size
            if extent % size:
                start = affine.minimum(start, extent - size)
        for part in steps:
            start = affine.add(start, affine.symbol(part.name) * step)
        self.expression = affine.add(start, affine.symbol(self.inner.name))


def tile(module: Module) -> Module:
    """Rewrite each group as its schedule says."""
    return Module(module.level, [everywhere(f, _tile_function) for f in module.functions])


def _tile_function(function: Function) -> Function:
    forward: dict[Value, Value] = {}
    out: list[Op] = []
    for op in function.body.ops:
        fresh = op.rebuilt([forward.get(v, v) for v in op.operands])
        if isinstance(fresh, Group) and fresh.schedule is not None:
            fresh = tile_group(fresh, fresh.schedule)
        for old, new in zip(op.results, fresh.results, strict=True):
            new.hint = old.hint
            forward[old] = new
        out.append(fresh)
    yields = [forward.get(v, v) for v in function.body.yields]
    return function.with_body(Region(function.args, live(out, yields), yields))


def tile_group(group: Group, schedule: Schedule) -> Group:
    """One group as its schedule says."""
    tiling = _Tiling(group, schedule)
    forward: dict[Value, Value] = {}
    ops: list[Op] = []
    for k, op in enumerate(group.body.ops):
        assert isinstance(op, Generic)
        fresh = tiling.tiled(op, k, [forward.get(v, v) for v in op.operands])
        forward.update(zip(op.results, fresh.results, strict=True))
        ops.append(fresh)
    body = Region(group.body.args, ops, [forward[v] for v in group.body.yields])
    return group.rebuilt(
        group.operands,
        (body,),
        shared=tuple(tiling.shared),
        cover=schedule.cover,
        schedule=schedule.tiled(),
    )


class _Tiling:
    """How the dimensions that the ops of a group share are cut, and what passes between the ops."""

    def __init__(self, group: Group, schedule: Schedule) -> None:
        first = group.body.ops[0]
        assert isinstance(first, Generic)
        self.schedule = schedule
        sizes = dict(schedule.tiles)
        # an instance with its own copy of an operand, or its own blocks of sums, goes over panels
        self.ordered = schedule.grid if schedule.around or schedule.promotes else ()
        panels = {n: k for n, k in schedule.steps if self.ordered and sizes.get(n, 1) % k == 0}
        self.splits = {
            n: Split(n, first.space.extent_of(n), sizes[n], panels.get(n, 0))
            for n in group.shared
            if sizes.get(n, 1) > 1
        }
        self.shared: list[str] = []
        for n in schedule.grid:
            if n not in self.splits:
                self.shared.append(n)
            elif (outer := self.splits[n].outer) is not None:
                self.shared.append(outer.name)
        self.passed = {v for op in group.body.ops for v in op.results} - set(group.body.yields)
        self.axes: dict[Value, Map] = {}  # of the results of ops that were tiled

    def tiled(self, op: Generic, position: int, operands: Sequence[Value]) -> Generic:
        """The op at a position of the group, with operands in the place of its own."""
        blocks = _block_splits(op, position, self.schedule)
        cut = {**self.splits, **_own_splits(op, self.schedule)}
        every = {**cut, **blocks}
        bound = affine.substitution({n: s.expression for n, s in every.items()})
        space = _split_space(op.space, every, self.shared, self.ordered)
        maps = [
            self._map(v, m, self.axes.get(v, m), bound)
            for v, m in zip(op.operands, op.input_maps, strict=True)
        ]
        maps += [
            self._map(op.results[target], m, m, bound)
            for target, m in zip(op.targets, op.yield_maps, strict=True)
        ]
        for k, v in enumerate(op.results):
            self.axes[v] = op.maps_of(k)[0]
        shapes = tuple(
            _passed_shape(self.axes[v], shape, self.splits) if v in self.passed else shape
            for v, shape in zip(op.results, op.shapes, strict=True)
        )
        return op.rebuilt(
            operands,
            space=space,
            maps=tuple(maps),
            shapes=shapes,
            tile=self._tile(space, cut, blocks),
            coordinates=tuple(map(bound, op.coordinates)),
            nonzero=tuple([(bound(e), *ends) for e, *ends in op.nonzero]),
            skips=tuple([s.name for s in self.schedule.skips if s.op == position]),
            **_cuts(position, self.schedule, blocks),
        )

    def _map(self, v: Value, m: Map, defined: Map, bound: Callable[[Dim], Dim]) -> Map:
        """A map of a value; `defined` are the axes that one has which stays in the group."""
        if v in self.passed:
            return _passed_map(m, defined, self.splits, bound)
        return tuple(map(bound, m))

    def _tile(
        self, space: Space, cut: Mapping[str, Split], blocks: Mapping[str, Split]
    ) -> tuple[tuple[str, int], ...]:
        """How many points of each dimension of a space an op handles at once."""
        steps, inner = dict(self.schedule.steps), {n: s.inner.name for n, s in blocks.items()}
        tiles = {s.inner.name: min(s.size, steps.get(n, s.size)) for n, s in cut.items()}
        tiles.update({inner.get(n, n): t for n, t in self.schedule.tiles if n not in cut})
        tiles.update({c.name: c.steps[0] for c in self.schedule.cover})
        extents = {i.name: i.extent if isinstance(i.extent, int) else inf for i in space.iters}
        limited = ((n, int(min(t, extents[n]))) for n, t in tiles.items() if n in extents)
        return tuple([(n, t) for n, t in limited if t > 1])


def _own_splits(op: Generic, schedule: Schedule) -> dict[str, Split]:
    """How a contraction cuts dimensions of its own, for each tile to have its part of a packing."""
    if contraction_of(op) is None:
        return {}
    widths = dict(schedule.widths)
    return {
        i.name: Split(i.name, op.space.extent_of(i.name), widths[i.name])
        for i in op.space.of_kind(PARALLEL)
        if i.name in widths
    }


def _block_splits(op: Generic, position: int, schedule: Schedule) -> dict[str, Split]:
    """How a reduction is cut whose blocks a loop goes around, for packed operands to lie in blocks.

    What a round of that loop reads lies together then. Panels as long as the whole reduction may be
    a large power of two apart, and a cache has few places for them.
    """
    if position not in {p.op for p in schedule.packs}:
        return {}
    found: dict[str, Split] = {}
    for name, size in [(a.name, a.size) for a in schedule.around if a.op == position]:
        extent = op.space.extent_of(name)
        if size < extent and extent % size == 0:
            found[name] = Split(name, extent, size)
    return found


def _cuts(position: int, schedule: Schedule, blocks: Mapping[str, Split]) -> dict[str, Any]:
    """Where the sums of an op restart, and the loop around it, whose `blocks` may be cut."""
    inner = {n: s.inner.name for n, s in blocks.items()}
    cuts: dict[str, Any] = {}
    for s in schedule.sums:
        if s.op == position:
            cuts["blocks"] = tuple([(inner.get(n, n), size) for n, size in s.blocks])
            cuts["cut"] = tuple([inner.get(n, n) for n in s.cut])
    for a in schedule.around:
        if a.op == position:
            split = blocks.get(a.name)
            outer = split.outer if split is not None else None
            cuts["around"] = ((a.name, a.size) if outer is None else (outer.name, 1),)
    return cuts


def _split_space(
    space: Space, splits: Mapping[str, Split], shared: list[str], grid: tuple[str, ...]
) -> Space:
    """The space of an op of which some dimensions are cut; its loops over those run as `grid`."""
    iters: dict[str, Iter] = {}
    last = len(grid)
    for i in sorted(space.iters, key=lambda i: grid.index(i.name) if i.name in grid else last):
        split = splits.get(i.name)
        if split is None:
            iters[i.name] = i
            continue
        for part in split.parts:
            iters[part.name] = Iter(part.name, part.extent, i.kind)
    ordered = [iters[n] for n in shared if n in iters]
    return Space([*ordered, *[i for n, i in iters.items() if n not in shared]])


def _passed_map(
    m: Map, defined: Map, splits: Mapping[str, Split], bound: Callable[[Dim], Dim]
) -> Map:
    """A map of a value that stays in the group.

    An axis that a split dimension indexed becomes two.
    """
    out: list[Dim] = []
    for e, axis in zip(m, defined, strict=True):
        name = plain_names((axis,))
        split = splits.get(name[0]) if name else None
        if split is None:
            out.append(bound(e))
            continue
        out += [affine.symbol(part.name) for part in split.parts]
    return tuple(out)


def _passed_shape(
    defined: Map, shape: tuple[Dim, ...], splits: Mapping[str, Split]
) -> tuple[Dim, ...]:
    out: list[Dim] = []
    for axis, n in zip(defined, shape, strict=True):
        name = plain_names((axis,))
        split = splits.get(name[0]) if name else None
        if split is None:
            out.append(n)
            continue
        out += [part.extent for part in split.parts]
    return tuple(out)
