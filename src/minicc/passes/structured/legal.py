"""Say in words what is wrong with a schedule for a group; `tile` refuses it then.

A legal schedule changes how a group is computed, and not what, up to the order of sums. So a person
may write one, and a search may try any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from minicc.errors import UserError
from minicc.ir import affine
from minicc.ir.affine_facts import bends
from minicc.ir.index_maps import names_of, plain_names
from minicc.ir.schedule import Cover, Schedule, Sums
from minicc.ir.space import PARALLEL, REDUCTION, SEQUENTIAL, Iter
from minicc.ir.structured import HOLD, PARTIAL, Generic, Group
from minicc.passes.structured.contraction import contraction_of
from minicc.passes.structured.past_caches import read_by_others
from minicc.passes.structured.skips import can_skip
from minicc.target import Target

_MOST_AT_ONCE = 1 << 13  # elements of an op's tile, as code is written out for its vectors
MOST_TOTALS = 1 << 20  # of an op, that wait in scratch
MOST_COPIED = 1 << 20  # elements of an operand that an instance copies
_MOST_WRITTEN_OUT = 1 << 15  # elements of all tiles of a loop that is written out


def require_legal(group: Group, schedule: Schedule, target: Target, tiled: bool = False) -> None:
    """UserError (MC0185) that says what is wrong with a schedule, if anything is.

    Of a group that is tiled only what is left of it is looked at.
    """
    check = _Check(group, schedule, target)
    left = (check.packs, check.promotes, check.nontemporal)
    wrong = (
        [text for found in left for text in found()] if tiled else legal(group, schedule, target)
    )
    if wrong:
        text = f"a schedule does not fit its group: {'; '.join(wrong)}"
        raise UserError("MC0185", text, where=group.loc)


def legal(group: Group, schedule: Schedule, target: Target) -> tuple[str, ...]:
    """What is wrong with a schedule for a group, in words; nothing where it is legal."""
    return tuple(_Check(group, schedule, target).wrong())


class _Check:
    """A group with a schedule, and what rules ask of them."""

    def __init__(self, group: Group, schedule: Schedule, target: Target) -> None:
        self.group = group
        self.schedule = schedule
        self.target = target
        self.ops = [op for op in group.body.ops if isinstance(op, Generic)]
        self.tiles = dict(schedule.tiles)
        # what data are read at: one after the other
        self.data = {n for op in self.ops for _, k, _ in op.indices for n in names_of(op.maps[k])}

    def wrong(self) -> Iterator[str]:
        """Everything that is wrong."""
        grid, shared = self.schedule.grid, self.group.shared
        if sorted(grid) != sorted(shared):
            yield f"its grid is of {_list(grid)}, and the group shares {_list(shared)}"
            return
        found = [*self.sizes(), *self.steps(), *self.widths(), *self.covers(), *self.sums()]
        found += [*self.skips(), *self.around(), *self.packs(), *self.promotes()]
        found += self.nontemporal()
        yield from found or [*self.amounts()]

    def sizes(self) -> Iterator[str]:
        """What is wrong with the tiles."""
        for name, size in self.schedule.tiles:
            having = [op.space[name] for op in self.ops if name in op.space]
            if not having:
                yield f"no op has a dimension {name} to tile"
            elif any(i.kind == SEQUENTIAL for i in having):
                yield f"the points of {name} run in order, and can't be handled at once"
            elif name in self.data:
                yield f"indices that are data are read along {name}, one by one"
            elif size < 1:
                yield f"a tile has no {size} points of {name}"
            elif name in self.group.shared:
                extent = having[0].extent
                if not isinstance(extent, int):
                    yield f"{name} has no known extent: it is covered, and not tiled"
                elif size > extent:
                    yield f"a tile of {size} points of {name}, which has {extent}"

    def steps(self) -> Iterator[str]:
        """What is wrong with the points that are handled at once."""
        for name, step in self.schedule.steps:
            size = self.tiles.get(name, 1) if name in self.group.shared else 0
            if not size:
                yield f"{name} is not shared: its tile is what is handled at once"
            elif not 1 <= step <= size:
                yield f"{step} points of {name} can't be handled at once of the {size} of a tile"

    def widths(self) -> Iterator[str]:
        """What is wrong with the widths of products."""
        for name, width in self.schedule.widths:
            products = [op for op in self.ops if contraction_of(op) and name in op.space]
            having = [op.space[name] for op in products if op.space[name].kind == PARALLEL]
            if not having or name in self.group.shared:
                yield f"no product has a parallel dimension {name} of its own"
            for extent in (i.extent for i in having):
                if not isinstance(extent, int):
                    yield f"{name} has no known extent to be cut into widths"
                elif not 1 <= width <= extent:
                    yield f"a width of {width} of the {extent} points of {name}"

    def covers(self) -> Iterator[str]:
        """What is wrong with how dimensions of free extents are covered."""
        names = [cover.name for cover in self.schedule.cover]
        if len({*names}) < len(names):
            yield f"a dimension is covered twice: {_list(names)}"
        for cover in self.schedule.cover:
            if cover.name not in self.group.shared:
                yield f"{cover.name} is not shared, and can't be covered"
            elif isinstance(self.ops[0].space[cover.name].extent, int):
                yield f"{cover.name} has a known extent: it is tiled, and not covered"
            elif cover.name in self.data:
                yield f"indices that are data are read along {cover.name}, one by one"
            elif any(cover.name in names_of(m) for m in self._crooked()):
                yield f"what ops pass on is not indexed by {cover.name} alone"
            else:
                yield from self._cover(cover)
        if sum(cover.steps[-1:] == (HOLD,) for cover in self.schedule.cover) > 1:
            yield "the rows of two dimensions can't both be held"

    def _crooked(self) -> Iterator[tuple[affine.Dim]]:
        """What axes of values that pass between ops are indexed by, other than a dimension."""
        passed = {v for op in self.ops for v in op.results} - set(self.group.body.yields)
        for op in self.ops:
            for k, v in enumerate(op.results):
                axes = [e for m in op.maps_of(k) for e in m] if v in passed else []
                yield from ((e,) for e in axes if plain_names((e,)) is None)

    def _cover(self, cover: Cover) -> Iterator[str]:
        name, points, steps = cover
        numbers, last = steps, ""
        if steps[-1:] in ((HOLD,), (PARTIAL,)):
            numbers, last = steps[:-1], "hold" if steps[-1] == HOLD else "partial"
        if not numbers or min(numbers) < 1 or list(numbers) != sorted(numbers, reverse=True):
            yield f"the steps {_list(steps)} over {name} don't fall"
        elif points < numbers[0]:
            yield f"an instance has {points} points of {name}, and its first step {numbers[0]}"
        elif last == "partial":
            vectors = {name for op in self.ops for name in op.yield_vectors}
            types = [v.type.dtype for op in self.ops for v in (*op.operands, *op.results)]
            if len(numbers) != 1 or name not in vectors:
                yield f"a step over {name} is not partial, as its points don't lie side by side"
            elif not all(self.target.masks(t.bits) for t in types):
                yield f"{self.target.name} has no masks for partial steps over {name}"
        elif last == "hold":
            lengths = [n for n in numbers if n > 1]
            if not 2 <= len(lengths) <= 3:
                yield f"the rows of {name} are held by two or three lengths of steps above 1"
            if any(name in names_of(op.coordinates) for op in self.ops):
                yield f"the coordinate {name} is computed, and its rows can't be held"
        elif len(numbers) < 2 or numbers[-1] != 1:
            yield f"the steps {_list(steps)} over {name} don't end with 1, for the last points"

    def sums(self) -> Iterator[str]:
        """What is wrong with where sums restart."""
        positions = [s.op for s in self.schedule.sums]
        if len({*positions}) < len(positions):
            yield f"the sums of an op are said twice: {_list(positions)}"
        for sums in self.schedule.sums:
            yield from self._sums(sums)

    def _sums(self, sums: Sums) -> Iterator[str]:
        if not 0 <= sums.op < len(self.ops):
            yield f"there is no op {sums.op}"
            return
        space = self.ops[sums.op].space
        reductions = {i.name for i in space.of_kind(REDUCTION)}
        for name in (*dict(sums.blocks), *sums.cut):
            if name not in reductions:
                yield f"op {sums.op} has no sums along {name}"
        for name, size in sums.blocks:
            tile = min(self.tiles.get(name, 1), affine.typical(space[name].extent) or 1)
            if name in reductions and (size < 1 or size % tile):
                yield f"a block of {size} points of {name} is no multiple of the tile of {tile}"

    def skips(self) -> Iterator[str]:
        """What is wrong with rounds that are left out."""
        parted = {(s.op, n) for s in self.schedule.sums for n, _ in s.blocks}
        parted |= {(a.op, a.name) for a in self.schedule.around}
        for position, name in self.schedule.skips:
            if not 0 <= position < len(self.ops):
                yield f"there is no op {position}"
            elif not can_skip(self.ops[position], name):
                yield f"nothing says where the terms of op {position} along {name} are zero"
            elif self.tiles.get(name, 1) > 1:
                yield f"several points of {name} are handled at once, and none can be left out"
            elif (position, name) in parted:
                yield f"the sums of op {position} along {name} are in blocks, of which all are run"

    def around(self) -> Iterator[str]:
        """What is wrong with loops around all others of an op."""
        positions = [a.op for a in self.schedule.around]
        if len({*positions}) < len(positions):
            yield f"loops around an op are said twice: {_list(positions)}"
        for position, name, size in self.schedule.around:
            if not 0 <= position < len(self.ops):
                yield f"there is no op {position}"
                continue
            op = self.ops[position]
            reductions = {i.name for i in op.space.of_kind(REDUCTION)}
            free = [i.name for i in op.space.iters if not isinstance(i.extent, int)]
            if name not in reductions:
                yield f"op {position} has no sums along {name}"
            elif free:
                yield f"op {position} has no known number of totals, as {_list(free)} are free"
            elif op.indices or None in op.combine:
                yield f"op {position} does not combine alone what it reads at known places"
            elif size < 1 or size % (min(self.tiles.get(name, 1), op.space.extent_of(name)) or 1):
                yield f"a block of {size} points of {name} is no multiple of the tile"
            elif all(self.points(op, i) < 2 for i in op.space.iters):
                yield f"op {position} has no tile, and a loop around it"
            elif self._totals(op) > MOST_TOTALS:
                yield f"{self._totals(op)} totals of op {position} wait, and {MOST_TOTALS} may"

    def _totals(self, op: Generic) -> int:
        """How many totals of an op an instance has."""
        shared = self.group.shared
        own = [i for i in op.space.of_kind(PARALLEL) if i.name not in shared]
        tiles = [self.tiles.get(n, 1) for n in shared if n in op.space]
        return prod(tiles) * prod(i.extent for i in own if isinstance(i.extent, int))

    def packs(self) -> Iterator[str]:
        """What is wrong with packings."""
        pairs = [(p.op, p.operand) for p in self.schedule.packs]
        if len({*pairs}) < len(pairs):
            yield "an operand is packed twice"
        for position, k, _ in self.schedule.packs:
            yield from self._packing(position, k)

    def promotes(self) -> Iterator[str]:
        """What is wrong with copies that instances make."""
        packed = {(p.op, p.operand) for p in self.schedule.packs}
        copied = {(p.op, p.operand) for p in self.schedule.promotes}
        if len(copied - packed) < len(self.schedule.promotes):
            yield "an operand is copied twice"
        for position, k in self.schedule.promotes:
            yield from [*self._packing(position, k)] or self._promotion(position, k)

    def _promotion(self, position: int, k: int) -> Iterator[str]:
        op = self.ops[position]
        names = names_of(op.maps[k])
        blocks = {a.name: a.size for a in self.schedule.around if a.op == position}
        size = 1
        for i in op.space.iters:
            extent, shared = i.extent, i.name in self.group.shared
            if not isinstance(extent, int):
                yield f"{i.name} has no known extent, and op {position} an operand that is promoted"
                return
            points = self.tiles.get(i.name, 1) if shared else extent
            if i.name in names:
                size *= min(points, blocks.get(i.name, points))
        if size > MOST_COPIED:
            yield f"instances copy {size} elements for op {position}, and {MOST_COPIED} may"

    def _packing(self, position: int, k: int) -> Iterator[str]:
        if not 0 <= position < len(self.ops) or not 0 <= k < len(self.ops[position].operands):
            yield f"there is no operand {k} of op {position}"
            return
        op = self.ops[position]
        if op.operands[k] not in self.group.body.args:
            yield f"operand {k} of op {position} is made in the group, and can't be packed"
        elif k in {operand for _, operand, _ in op.indices}:
            yield f"operand {k} of op {position} is of indices, and can't be packed"
            return
        names = {n for n in names_of(op.maps[k]) if not affine.is_size(n)}
        if any(n not in op.space for n in names):
            yield f"operand {k} of op {position} is read where data say, and can't be packed"
        elif not names:
            yield f"operand {k} of op {position} is a single element, and needs no packing"

    def nontemporal(self) -> Iterator[str]:
        """What is wrong with results that are written past the caches."""
        places, count = self.schedule.nontemporal, len(self.group.body.yields)
        if len({*places}) < len(places):
            yield f"a result is written past the caches twice: {_list(places)}"
        for k in places:
            if k >= count:
                yield f"there is no result {k}"
            elif k not in read_by_others(self.group):
                yield f"result {k} is read again in the group, and can't go past the caches"

    def amounts(self) -> Iterator[str]:
        """Whether there is too much code."""
        rounds, elements, _ = self.schedule.unroll
        if rounds * elements and elements > _MOST_WRITTEN_OUT:
            yield f"loops of {elements} elements would be written out, and {_MOST_WRITTEN_OUT} may"
        for position, op in enumerate(self.ops):
            points = {i.name: self.points(op, i) for i in op.space.iters}
            at_once = prod(points.values())
            if at_once > _MOST_AT_ONCE:
                text = f"op {position} handles {at_once} elements at once"
                yield f"{text}, and {_MOST_AT_ONCE} are the most: make its tiles smaller"
            yield from self.bent(position, op, points)

    def points(self, op: Generic, i: Iter) -> int:
        """How many points of a dimension an op handles at once."""
        widths, covered = dict(self.schedule.widths), {c.name: c for c in self.schedule.cover}
        if i.name in covered:
            return covered[i.name].steps[0]
        size = self.tiles.get(i.name, 1)
        if i.name in widths and contraction_of(op):
            size = widths[i.name]
        size = dict(self.schedule.steps).get(i.name, size)
        return min(size, i.extent) if isinstance(i.extent, int) else size

    def bent(self, position: int, op: Generic, points: Mapping[str, int]) -> Iterator[str]:
        """Whether points are handled at once that don't lie evenly in memory.

        They have addresses of their own then, and are all that a tile has, or steps over rows.
        """
        rows = {c.name for c in self.schedule.cover if c.steps[-1] != PARTIAL}
        for m in op.maps:
            together = [n for n in names_of(m) & points.keys() if points[n] > 1]
            bent = [n for n in together if bends(m, n)]
            for name in bent:
                extent = op.space[name].extent
                whole = self.tiles.get(name, 1) if name in self.group.shared else extent
                if points[name] != whole and name not in rows:
                    yield f"points of {name} don't lie evenly, and op {position} has a part of them"
            if len(bent) > 1:
                yield f"the points of {_list(bent)} of op {position} don't lie evenly"


def _list(values: Sequence[object]) -> str:
    return ", ".join(map(str, values)) or "nothing"
