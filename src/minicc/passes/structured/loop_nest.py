"""The loops of one op of a group, and its body on tiles: what `lower_to_kernel` emits op by op.

Loops over the parallel dimensions that are the op's own; within them loops over its reductions that
carry accumulators; innermost the body. Results go to registers or memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from minicc.ir import affine, arith, kernel
from minicc.ir.affine import Dim, symbol
from minicc.ir.arith import COMBINERS, identity_of
from minicc.ir.core import Region, Value
from minicc.ir.index_maps import Map, contiguous_name, names_of
from minicc.ir.space import REDUCTION
from minicc.ir.structured import Generic
from minicc.ir.types import INDEX_TYPE, BufferType
from minicc.passes.structured.contraction import contraction_of, dots_of
from minicc.passes.structured.fetch_ahead import Share, share_of
from minicc.passes.structured.group_state import (
    GroupState,
    Indices,
    Memory,
    Position,
    Register,
    Segment,
    segments,
)
from minicc.passes.structured.skips import ends_of, nonzero_along
from minicc.passes.structured.tile_access import TileAccess

_SUMS = 4  # of a vector, where one row is multiplied alone


class Nest(TileAccess):
    """The loops of one op."""

    def __init__(self, lowering: GroupState, op: Generic) -> None:
        self.low = lowering
        self.op = op
        self.tiles = dict(op.tile)
        self.blocks = dict(op.blocks)
        shared = {*lowering.group.shared, *lowering.shared}
        own = [i for i in op.space.iters if i.name not in shared]
        self.reductions = [i.name for i in own if i.kind == REDUCTION or i.name == op.running]
        self.own_parallel = [i.name for i in own if i.name not in self.reductions]
        self.extents = {i.name: i.extent for i in op.space.iters}
        if lowering.alone and self.reductions and contraction_of(op):
            # a row alone has too few sums to hide the latency of a multiply-add; they part a block
            last = self.reductions[-1]
            block = self.blocks.get(last, _SUMS)
            self.tiles.setdefault(last, max(n for n in range(1, _SUMS + 1) if block % n == 0))
        self.base: dict[str, Value] = {}
        self.in_round = {}
        self.axes = self._axis_order()
        self.at: dict[str, Position] = dict(lowering.shared)
        self.checks: dict[int, list[tuple[str, int, Dim]]] = {}
        for name, k, extent in op.indices:
            self.checks.setdefault(self._depth(k), []).append((name, k, extent))
        self.steps: dict[str, Segment] = {}

    def _axis_order(self) -> tuple[str, ...]:
        """What is contiguous last; dimensions that ops before this one had keep their order.

        So tiles in registers never need to be transposed from one op to the next.
        """
        contiguous = [*self.op.yield_vectors, *map(contiguous_name, self.op.input_maps)]
        last = next((n for n in contiguous if n in self.tiles), None)
        # sums along rows that are read as they lie
        long = [n for n in contiguous if n in self.tiles and n in self.reductions]
        if last is not None and long and self.tiles[long[0]] > self.tiles[last]:
            last = long[0]
        known = [n for n in self.low.axes if n in self.tiles]
        fresh = sorted((n for n in self.tiles if n not in known), key=lambda n: n == last)
        if last in fresh:
            self.low.axes += fresh
            return (*known, *fresh)
        # in front for all that follow, too: what is contiguous stays last
        self.low.axes[:0] = fresh
        return (*fresh, *known)

    def fits_registers(self, k: int) -> bool:
        """Whether one tile is all of an instance's result `k`.

        And every reader wants all of it at once.
        """
        result = self.op.results[k]
        m, *others = self.op.maps_of(k)
        if others or self.op.running:
            return False
        names = names_of(m)
        own = {n: self.extents[n] for n in self.own_parallel if n in names}
        whole = all(self.tiles.get(n, 1) == extent for n, extent in own.items())
        alone = all(n in names or self.extents[n] == 1 for n in self.own_parallel)
        return (whole and alone) and all(
            other == m and all(tile.get(n, 1) == extent for n, extent in own.items())
            for other, tile in self.low.readers.get(result, ())
        )

    def run(self) -> None:
        """All loops of the op."""
        for name, size in self.op.around:
            self._around(name, size)
            return
        self._copy_within(self.reduce_and_finish)

    def _copy_within(self, visit: Callable[[], None]) -> None:
        """The parallel loops; the first steps make the copy that others read, if there is one."""
        pairs = zip(self.op.operands, self.op.input_maps, strict=True)
        self.copying = next((names_of(m) for v, m in pairs if v in self.low.copies), None)
        self.parallel(0, visit)
        self.copying = None

    # parallel loops

    def parallel(self, depth: int, visit: Callable[[], None]) -> None:
        """Loops over the op's own parallel dimensions from `depth` on; within them `visit`."""
        self.check(depth)
        if depth == len(self.own_parallel):
            visit()
            return
        name = self.own_parallel[depth]
        for s in self._passes_over(name):
            if s.hi - s.lo == s.step:
                self._be_at(name, s.lo, s.step)
                self.parallel(depth + 1, visit)
                continue
            index = Value(INDEX_TYPE, name)
            outer = self.low.enter()
            self._be_at(name, index, s.step)
            with self._partial(name, s):
                self.parallel(depth + 1, visit)
            self.low.leave(outer, (index,), (), s, ())

    def _passes_over(self, name: str) -> Iterator[Segment]:
        """The segments of a dimension; the first step apart, where it copies what others read."""
        parts, copying = self._segments(name), self.copying
        if copying is None or name in copying or not parts:
            yield from parts
            return
        first, *others = parts
        end = affine.add(first.lo, first.step)
        yield first._replace(hi=end)
        self.copying = None
        if end != first.hi:
            yield first._replace(lo=end)
        yield from others
        self.copying = copying

    def _be_at(self, name: str, place: Value | Dim, points: int) -> None:
        """Handle so many points of a dimension from a place on, which counts from its base."""
        base = self.base.get(name)
        if base is None:
            self.at[name] = (place, points)
            return
        self.in_round[name] = place
        if place == 0:
            self.at[name] = (base, points)
            return
        named, more = ([place], symbol("i1")) if isinstance(place, Value) else ([], place)
        at = self.low.b.emit(kernel.Index, (base, *named), value=affine.add(symbol("i0"), more))
        self.at[name] = (at, points)

    def _segments(self, name: str) -> list[Segment]:
        last = self.axes[-1] if self.axes else None
        return segments(self.extents[name], self.tiles.get(name, 1), name == last)

    @contextmanager
    def _partial(self, name: str, s: Segment) -> Iterator[None]:
        """Within it, the points of a dimension may lie beyond its end."""
        if s.partial:
            self.low.ends[name] = s.hi
        yield
        self.low.ends.pop(name, None)

    def _depth(self, k: int) -> int:
        """How many of the op's own loops stand around the read of operand `k` as an index."""
        names = names_of(self.op.maps[k])
        if names & set(self.reductions):
            return len(self.own_parallel) + 1
        return max((d + 1 for d, n in enumerate(self.own_parallel) if n in names), default=0)

    def check(self, depth: int) -> None:
        """Read the indices that are known within so many loops, and check them."""
        for name, k, extent in self.checks.get(depth, ()):
            element = self.read(self.op.operands[k], self.op.maps[k])
            self.at[name] = (self.low.b.emit(kernel.Check, element, extent=extent), 1)

    # reductions

    def _around(self, reduction: str, size: int) -> None:
        """A loop over blocks of a reduction, and within it all others; totals wait in scratch.

        So what each round reads lies together, however many results there are.
        """
        combined = self._combining()
        last = self.axes[-1]
        names = sorted(self.own_parallel, key=lambda n: n == last)
        extents = tuple(self.extents[n] for n in names)
        types = [self.op.results[self.op.targets[k]].type.dtype for k in combined]
        buffers = [self.low.b.emit(kernel.Alloc, type=BufferType(t, extents)) for t in types]
        point = tuple(map(symbol, names))
        totals = [Memory(buffer, tuple(range(len(names)))) for buffer in buffers]

        def begin() -> None:
            for k, memory in zip(combined, totals, strict=True):
                self.store(memory, point, self._identity(k, names))

        def add() -> None:
            found = self._reduced()
            for k, memory, v in zip(combined, totals, found, strict=True):
                before = self.load_at(memory, point, frozenset(names))
                self.store(memory, point, self._combine(k, before, v))

        def end() -> None:
            for k, memory in zip(combined, totals, strict=True):
                self.finish(k, self.load_at(memory, point, frozenset(names)))

        self.parallel(0, begin)
        whole = self.extents[reduction]
        for s in segments(whole, size, side_by_side=False):
            index = Value(INDEX_TYPE, reduction)
            self.base, self.extents[reduction] = {reduction: index}, s.step
            outer = self.low.enter()
            self._make(reduction)
            self._copy_within(add)
            self.low.leave(outer, (index,), (), s, ())
        self.base, self.extents[reduction] = {}, whole
        self.parallel(0, end)

    def _make(self, reduction: str) -> None:
        """What is computed in each round of the loop around the op, for that round."""
        for op in self.low.made_in_rounds:
            if op.results[0] in self.op.operands and op.results[0] not in self.low.copies:
                self.low.locate(op)
                nest = Nest(self.low, op)
                nest.base, nest.extents[reduction] = self.base, self.extents[reduction]
                nest.run()
        self.low.locate(self.op)

    def reduce_and_finish(self) -> None:
        """All of the op at one place of its parallel dimensions, results stored or kept."""
        for k, v in zip(self._combining(), self._reduced(), strict=True):
            if not self.op.running:  # else each round has stored its own
                self.finish(k, v)

    def _reduced(self) -> list[Value]:
        """The totals of all reductions at one place of the op's parallel dimensions."""
        combined = self._combining()
        totals: list[Value] = []
        for combination in self._reduction_segments():
            self.steps = combination
            for name, s in combination.items():
                self._be_at(name, 0, s.step)
            found = self.loop(0, self._identities())
            found = [self._reduce_lanes(k, v) for k, v in zip(combined, found, strict=True)]
            totals = self._combined(totals, found) if totals else found
        if combined and not totals:  # a reduction over nothing
            self.at.update(dict.fromkeys(self.reductions, (0, 1)))
            totals = self._identities()
        return totals

    def _reduction_segments(self) -> Iterator[dict[str, Segment]]:
        for chosen in itertools.product(*map(self._segments, self.reductions)):
            yield dict(zip(self.reductions, chosen, strict=True))

    def _identity(self, k: int, names: Sequence[str] | None = None) -> Value:
        combine = self.combiner(k)
        dtype = self.op.results[self.op.targets[k]].type.dtype
        shape = self.shape_of(self.axes_of(k) if names is None else names)
        return self.low.b.emit(arith.Constant, value=identity_of(combine, dtype), shape=shape)

    def combiner(self, k: int) -> str:
        """The combiner of a reduced yield."""
        combine = self.op.combine[k]
        assert combine is not None
        return combine

    def axes_of(self, k: int) -> tuple[str, ...]:
        """The tile axes that the accumulator of a yield has: all that its operands vary along."""
        names = set().union(*map(names_of, self.op.maps))
        return tuple(n for n in self.axes if n in names)

    def _combine(self, k: int, a: Value, b: Value) -> Value:
        """An accumulator with what is new."""
        if self.combiner(k) == "maxnum":
            # a comparison with NaN fails: the accumulator, which never is one, stays
            return self.low.b.emit(arith.Select, self.low.b.emit(arith.Lt, a, b), b, a)
        return self.low.b.emit(COMBINERS[self.combiner(k)], a, b)

    def _reduce_lanes(self, k: int, v: Value) -> Value:
        reduced = self.op.reduced(k)
        for axis, name in enumerate(self.axes):
            if name in reduced and v.type.shape[axis] != 1:
                v = self.low.b.emit(kernel.Reduce, v, axis=axis, combine=self.combiner(k))
        return v

    def loop(self, depth: int, carried: list[Value]) -> list[Value]:
        """The reductions from `depth` on; returns the accumulators."""
        if depth == len(self.reductions):
            return self.body(carried)
        s = self.steps[self.reductions[depth]]
        if self.reductions[depth] in self.base:
            return self._rounds(depth, carried, s)
        if self.reductions[depth] in self.op.skips:
            return self._rounds(depth, carried, s, ends=self._ends(self.reductions[depth], s))
        block = self.blocks.get(self.reductions[depth], 0)
        length = s.hi - s.lo
        short = isinstance(length, int) and length <= block
        if not block or short or s.partial or s.step < self.tiles.get(self.reductions[depth], 1):
            return self._rounds(depth, carried, s)
        if not isinstance(length, int) and s.step == 1 and depth + 1 < len(self.reductions):
            return self._free_blocks(depth, carried, s, block)
        main = s.lo + length // block * block
        totals = self._blocks(depth, carried, Segment(s.lo, main, block), s.step)
        if main != s.hi:
            rest = self._rounds(depth, self._identities(), s._replace(lo=main))
            totals = self._combined(totals, rest)
        return totals

    def _blocks(self, depth: int, carried: list[Value], s: Segment, step: int) -> list[Value]:
        """A loop over blocks of a reduction, each summed from nothing before it joins the total."""
        index = Value(INDEX_TYPE, self.reductions[depth])
        args = [Value(v.type, "total") for v in carried]
        fresh = self._identities()
        outer = self.low.enter()
        self.base[self.reductions[depth]] = index
        inner = self._rounds(depth, fresh, Segment(0, s.step, step))
        del self.base[self.reductions[depth]]
        return list(self.low.leave(outer, (index, *args), carried, s, self._combined(args, inner)))

    def _free_blocks(self, depth: int, carried: list[Value], s: Segment, block: int) -> list[Value]:
        """The same blocks, of which the last may be shorter, with one loop over the rounds of each.

        What is within stands once then, and not once more for what is left over.
        """
        name, b = self.reductions[depth], self.low
        first = Value(INDEX_TYPE, name)
        totals = [Value(v.type, "total") for v in carried]
        outer = b.enter()
        stop = b.b.emit(kernel.Index, (first,), value=affine.minimum(symbol("i0") + block, s.hi))
        index = Value(INDEX_TYPE, name)
        args = [Value(v.type, "acc") for v in carried]
        fresh = self._identities()
        around = b.enter()
        self.at[name] = (index, 1)
        sums = self.loop(depth + 1, args)
        body = Region((index, *args), b.b.ops, sums)
        b.b = around
        inner = around.emit_all(kernel.Range, first, stop, tuple(fresh), step=1, body=body)
        blocks = s._replace(step=block)
        joined = self._combined(totals, inner)
        return list(b.leave(outer, (first, *totals), carried, blocks, joined))

    def _ends(self, name: str, s: Segment) -> tuple[Value, Value]:
        """Where the rounds of a reduction begin and end of which some term may not be zero."""
        indices = Indices(self.low.b)
        first: dict[str, Dim] = {}
        last: dict[str, Dim] = {}
        for n, (at, count) in self.at.items():
            if isinstance(at, Value):
                indices.known[f"at.{n}"] = at
                at = symbol(f"at.{n}")
            first[n], last[n] = at, at + (count - 1)
        start, stop = s.lo, s.hi
        for step, others, lo, hi in nonzero_along(self.op, name):
            least, most = ends_of(others, first, last)
            start = affine.maximum(start, affine.ceildiv(lo - most, step))
            stop = affine.minimum(stop, affine.ceildiv(hi - least, step))
        return indices.value(start), indices.value(stop)

    def _rounds(
        self,
        depth: int,
        carried: list[Value],
        s: Segment,
        ends: tuple[Value, Value] | None = None,
    ) -> list[Value]:
        """One loop over a reduction, or its only round.

        `ends` are where it begins and ends, if that is computed.
        """
        name = self.reductions[depth]
        if s.hi - s.lo == s.step:
            self._be_at(name, s.lo, s.step)
            return self.loop(depth + 1, carried)
        index = Value(INDEX_TYPE, name)
        args = [Value(v.type, "acc") for v in carried]
        fresh = self._identities() if name in self.op.cut else []
        outer = self.low.enter()
        self._be_at(name, index, s.step)
        with self._partial(name, s):
            inner = self.loop(depth + 1, fresh or args)
        if fresh:
            inner = self._combined(args, inner)
        return list(self.low.leave(outer, (index, *args), carried, s, inner, ends))

    def _combining(self) -> list[int]:
        return [k for k, c in enumerate(self.op.combine) if c is not None]

    def _identities(self) -> list[Value]:
        return [self._identity(k) for k in self._combining()]

    def _combined(self, left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
        parts = zip(self._combining(), left, right, strict=True)
        return [self._combine(k, a, b) for k, a, b in parts]

    # the body on tiles

    def body(self, carried: list[Value]) -> list[Value]:
        """The scalar body on tiles at the current point.

        Parallel results are finished, others combined.
        """
        op, b = self.op, self.low.b
        self.check(len(self.own_parallel) + 1)
        used = {*op.body.yields, *[v for inner in op.body.ops for v in inner.operands]}
        loaded: dict[tuple[Value, Map], Value] = {}
        tiles: dict[Value, Value] = {}
        ahead = dict(op.ahead)
        for k, (a, v, m) in enumerate(zip(op.body.args, op.operands, op.input_maps, strict=False)):
            if a not in used:  # an index
                continue
            if (v, m) not in loaded:
                if k in ahead:
                    self.fetch(v, self.share(m, ahead[k]))
                loaded[v, m] = self.read(v, m)
            tiles[a] = loaded[v, m]
        for a, e in zip(op.body.args[len(op.operands) :], op.coordinates, strict=True):
            tiles[a] = self.coordinate(e)
        dots = dots_of(op)
        inside = {v for dot in dots.values() for v in dot.inside}
        for inner in op.body.ops:
            if inner.result in inside:
                continue
            operands = [tiles[v] for v in inner.operands]
            if isinstance(inner, arith.Constant):
                tiles[inner.result] = b.emit(
                    arith.Constant, value=inner.value, shape=(1,) * len(self.axes)
                )
            else:
                tiles[inner.result] = b.emit(type(inner), *operands, **inner.attrs)
        sums = iter(carried)
        out: list[Value] = []
        for k, y in enumerate(op.body.yields):
            if op.combine[k] is None:
                self.finish(k, tiles[y])
                continue
            before = next(sums)
            if y in dots:
                lhs, rhs = (tiles[v] for v in dots[y].operands)
                after = b.emit(kernel.Dot, lhs, rhs, before, form=dots[y].form)
            else:
                after = self._combine(k, before, tiles[y])
            if op.running:
                self.finish(k, after)
            out.append(self.where_there(after, before))
        return out

    def share(self, m: Map, distance: int) -> Share:
        """What to fetch here of what lies a `distance` after what is read at `m`."""
        shared, cover = self.low.group.shared, self.low.group.cover
        # loops over what is covered are within the instance, wherever that is in the grid
        grid = sorted(shared, key=self.low.steps.__contains__)
        around = {n: self.at[n] for n in grid} | self._passes()
        if self.op.around:  # a part of a panel is read again and again, not all of it
            around = {}
        # shorter steps are one or two, and follow longer ones that have fetched half, if any
        least = 2 if any(self.at[n][1] < steps[0] for n, _, steps in cover) else 1
        within = self.reductions
        return share_of(self.low.b, m, distance, self.at, around, within, self.extents, least)

    def _passes(self) -> dict[str, Position]:
        """Where the loops over the op's own dimensions are, with the points of all but the last."""
        return {n: (self.at[n][0], self.tiles.get(n, 1)) for n in self.own_parallel}

    def finish(self, k: int, tile: Value) -> None:
        """Keep what yield `k` gave in its register, and store it if it has memory."""
        target, m = self.op.targets[k], self.op.yield_maps[k]
        v = self.op.results[target]
        names = names_of(m)
        shape = self.shape_of(tuple(names))
        if tile.type.shape != shape:
            tile = self.low.b.emit(kernel.Broadcast, tile, shape=shape)
        memory = self.low.memory.get(v)
        if memory is None or (self.fits_registers(target) and v in self.low.readers):
            self.low.registers[v] = Register(tile, self.axes)
        if memory is not None:
            self.write_apart(memory, m, tile, frozenset())
