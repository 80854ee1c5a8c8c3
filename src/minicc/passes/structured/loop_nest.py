"""The loops of one op of a group, and its body on tiles: what `lower_to_kernel` emits op by op.

Loops over the parallel dimensions that are the op's own; within them loops over its reductions that
carry accumulators; innermost the body. Results go to registers or memory.

Mirrors: Linalg's vectorisation of one op, TE's compute and its reduce axes made loops.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence

from minicc.ir import affine, arith, kernel
from minicc.ir.affine import Dim, symbol
from minicc.ir.arith import COMBINERS, identity_of
from minicc.ir.build import Builder
from minicc.ir.core import Region, Value
from minicc.ir.space import REDUCTION
from minicc.ir.structured import Generic, Group, Map, contiguous_name, names_of
from minicc.ir.types import INDEX_TYPE
from minicc.passes.structured.fuse import is_contraction

Position = tuple[
    "Value | Dim", int
]  # where a dimension stands: index of the first point, and how many points
Segment = tuple[Dim, Dim, int]  # lo, hi, step
_SUMS = 4  # of a vector, where one row is multiplied alone


class Register:
    """A value held as one tile; `axes` names the dimension of each axis."""

    __slots__ = ("axes", "tile")

    def __init__(self, tile: Value, axes: tuple[str, ...]) -> None:
        self.tile = tile
        self.axes = axes


class Memory:
    """A value in a buffer.

    `axes` are the axes of the tensor that the buffer has (the others are the instance's). Along the
    dimensions of `local` it has the points of one step alone.
    """

    __slots__ = ("axes", "buffer", "local")

    def __init__(
        self, buffer: Value, axes: tuple[int, ...], local: Collection[str] = frozenset()
    ) -> None:
        self.buffer = buffer
        self.axes = axes
        self.local = local


def segments(extent: Dim, step: int) -> list[Segment]:
    """The extent in whole steps, and what is left as one smaller step.

    Where the extent is free, what is left is taken in shorter and shorter steps.
    """
    if not isinstance(extent, int):
        out: list[Segment] = []
        done: Dim = 0
        while step > 1:
            end = done + (extent - done) // step * step
            out.append((done, end, step))
            done, step = end, max(1, step // 4)
        return [*out, (done, extent, 1)]
    main = extent - extent % step
    parts: list[Segment] = [(0, main, step)] if main else []
    return parts + ([(main, extent, extent - main)] if main < extent else [])


class GroupState:
    """The state while a group is lowered: the builder, and where values and dimensions are."""

    def __init__(self, group: Group, grid: Mapping[str, Value]) -> None:
        self.b = Builder(("#0",))
        self.group = group
        self.grid = grid
        self.steps = {name: steps for name, _, steps in group.cover}
        self.shared: dict[str, Position] = {
            n: (v, 1) for n, v in grid.items() if n not in self.steps
        }
        self.memory: dict[Value, Memory] = {}
        self.registers: dict[Value, Register] = {}
        self.axes: list[str] = []
        self.fetches = True
        self.alone = False  # whether there is one point of what is covered at a time
        self.held: dict[str, list[Value]] = {}
        self.readers: dict[Value, list[Map]] = {}
        for op in group.body.ops:
            assert isinstance(op, Generic)
            for v, m in zip(op.operands, op.input_maps, strict=True):
                self.readers.setdefault(v, []).append(m)

    def enter(self) -> Builder:
        """Begin the body of a loop; what was built so far."""
        outer = self.b
        self.b = Builder(outer.loc)
        return outer

    def leave(
        self,
        outer: Builder,
        args: Sequence[Value],
        inits: Sequence[Value],
        s: Segment,
        yields: Sequence[Value],
    ) -> tuple[Value, ...]:
        """End the body of a loop, which goes on behind what was built before."""
        body = Region(args, self.b.ops, yields)
        self.b = outer
        lo, hi, step = s
        if isinstance(lo, int) and isinstance(hi, int):
            return outer.emit_all(kernel.For, tuple(inits), lo=lo, hi=hi, step=step, body=body)
        start, stop = (outer.emit(kernel.Index, (), value=end) for end in (lo, hi))
        return outer.emit_all(kernel.Range, start, stop, tuple(inits), step=step, body=body)


class Nest:
    """The loops of one op."""

    def __init__(self, lowering: GroupState, op: Generic) -> None:
        self.low = lowering
        self.op = op
        self.tiles = dict(op.tile)
        self.blocks = dict(op.blocks)
        own = [i for i in op.space.iters if i.name not in lowering.grid]
        self.own_parallel = [i.name for i in own if i.kind != REDUCTION]
        self.reductions = [i.name for i in own if i.kind == REDUCTION]
        self.extents = {i.name: i.extent for i in op.space.iters}
        if lowering.alone and self.reductions and is_contraction(op):
            # a row alone has too few sums to hide the latency of a multiply-add
            self.tiles.setdefault(self.reductions[-1], _SUMS)
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
        contiguous = [contiguous_name(m) for m in (*self.op.yield_maps, *self.op.input_maps)]
        last = next((n for n in contiguous if n in self.tiles), None)
        known = [n for n in self.low.axes if n in self.tiles]
        fresh = sorted((n for n in self.tiles if n not in known), key=lambda n: n == last)
        axes = known + fresh if last in fresh else fresh + known
        self.low.axes += [n for n in axes if n not in self.low.axes]
        return tuple(axes)

    def fits_registers(self, k: int) -> bool:
        """Whether one tile is all of an instance's result `k`.

        And every reader wants it at the same point.
        """
        result = self.op.results[k]
        m, *others = self.op.maps_of(k)
        if others:
            return False
        names = set().union(*[affine.symbols(e) for e in m])
        whole = all(
            self.tiles.get(n, 1) == self.extents[n] for n in self.own_parallel if n in names
        )
        alone = all(n in names or self.extents[n] == 1 for n in self.own_parallel)
        return whole and alone and all(r == m for r in self.low.readers.get(result, ()))

    # parallel loops

    def parallel(self, depth: int) -> None:
        """Loops over the op's own parallel dimensions; within them the reductions."""
        self.check(depth)
        if depth == len(self.own_parallel):
            self.reduce_and_finish()
            return
        name = self.own_parallel[depth]
        for lo, hi, step in segments(self.extents[name], self.tiles.get(name, 1)):
            if hi - lo == step:
                self.at[name] = (lo, step)
                self.parallel(depth + 1)
                continue
            index = Value(INDEX_TYPE, name)
            self.at[name] = (index, step)
            outer = self.low.enter()
            self.parallel(depth + 1)
            self.low.leave(outer, (index,), (), (lo, hi, step), ())

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

    def reduce_and_finish(self) -> None:
        """All of the op at one place of its parallel dimensions, results stored or kept."""
        combined = self._combining()
        totals: list[Value] = []
        for combination in self._reduction_segments():
            self.steps = combination
            for name, (_, _, step) in combination.items():
                self.at[name] = (0, step)
            found = self.loop(0, self._identities())
            found = [self._reduce_lanes(k, v) for k, v in zip(combined, found, strict=True)]
            totals = self._combined(totals, found) if totals else found
        if combined and not totals:  # a reduction over nothing
            self.at.update(dict.fromkeys(self.reductions, (0, 1)))
            totals = self._identities()
        for k, v in zip(combined, totals, strict=True):
            self.finish(k, v)

    def _reduction_segments(self) -> Iterator[dict[str, Segment]]:
        choices = [segments(self.extents[n], self.tiles.get(n, 1)) for n in self.reductions]
        for chosen in itertools.product(*choices):
            yield dict(zip(self.reductions, chosen, strict=True))

    def _shape(self, names: Sequence[str]) -> tuple[int, ...]:
        """The tile's shape with extent 1 for axes not among `names`."""
        return tuple(self.at[n][1] if n in names else 1 for n in self.axes)

    def _identity(self, k: int) -> Value:
        combine = self.combiner(k)
        dtype = self.op.results[self.op.targets[k]].type.dtype
        return self.low.b.emit(
            arith.Constant, value=identity_of(combine, dtype), shape=self._shape(self.axes_of(k))
        )

    def combiner(self, k: int) -> str:
        """The combiner of a reduced yield."""
        combine = self.op.combine[k]
        assert combine is not None
        return combine

    def axes_of(self, k: int) -> tuple[str, ...]:
        """The tile axes that the accumulator of a yield has: all that its operands vary along."""
        names = set().union(*[affine.symbols(e) for m in self.op.maps for e in m])
        return tuple(n for n in self.axes if n in names)

    def _combine(self, k: int, a: Value, b: Value) -> Value:
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
        lo, hi, step = self.steps[self.reductions[depth]]
        block = self.blocks.get(self.reductions[depth], 0)
        length = hi - lo
        short = isinstance(length, int) and length <= block
        if not block or short or step < self.tiles.get(self.reductions[depth], 1):
            return self._rounds(depth, carried, (lo, hi, step))
        main = lo + length // block * block
        totals = self._blocks(depth, carried, (lo, main, block), step)
        if main != hi:
            rest = self._rounds(depth, self._identities(), (main, hi, step))
            totals = self._combined(totals, rest)
        return totals

    def _blocks(self, depth: int, carried: list[Value], s: Segment, step: int) -> list[Value]:
        """A loop over blocks of a reduction, each summed from nothing before it joins the total."""
        index = Value(INDEX_TYPE, self.reductions[depth])
        args = [Value(v.type, "total") for v in carried]
        fresh = self._identities()
        outer = self.low.enter()
        inner = self._rounds(depth, fresh, (0, s[2], step), index)
        return list(self.low.leave(outer, (index, *args), carried, s, self._combined(args, inner)))

    def _rounds(
        self, depth: int, carried: list[Value], s: Segment, base: Value | None = None
    ) -> list[Value]:
        """One loop over a reduction, or its only round; indices count from `base`."""
        name = self.reductions[depth]
        lo, hi, step = s
        if hi - lo == step:
            self.at[name] = (lo if base is None else base, step)
            return self.loop(depth + 1, carried)
        index = Value(INDEX_TYPE, name)
        args = [Value(v.type, "acc") for v in carried]
        fresh = self._identities() if name in self.op.cut else []
        outer = self.low.enter()
        at = index
        if base is not None:
            total = affine.add(symbol("i0"), symbol("i1"))
            at = self.low.b.emit(kernel.Index, (base, index), value=total)
        self.at[name] = (at, step)
        inner = self.loop(depth + 1, fresh or args)
        if fresh:
            inner = self._combined(args, inner)
        return list(self.low.leave(outer, (index, *args), carried, s, inner))

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
            if a not in used:
                continue  # an index
            if (v, m) not in loaded:
                if k in ahead and self.low.fetches:
                    self.fetch(v, m, ahead[k])
                loaded[v, m] = self.read(v, m)
            tiles[a] = loaded[v, m]
        for a, e in zip(op.body.args[len(op.operands) :], op.coordinates, strict=True):
            tiles[a] = self.coordinate(e)
        products = {op.body.yields[k] for k, c in enumerate(op.combine) if c == "add"}
        products -= {v for inner in op.body.ops for v in inner.operands}
        products -= {op.body.yields[k] for k, c in enumerate(op.combine) if c != "add"}
        fused: dict[Value, tuple[Value, Value]] = {}
        for inner in op.body.ops:
            operands = [tiles[v] for v in inner.operands]
            if isinstance(inner, arith.Constant):
                tiles[inner.result] = b.emit(
                    arith.Constant, value=inner.value, shape=(1,) * len(self.axes)
                )
            elif (
                isinstance(inner, arith.Mul)
                and inner.result in products
                and inner.result.type.dtype.is_float
            ):
                fused[inner.result] = (operands[0], operands[1])
            else:
                tiles[inner.result] = b.emit(type(inner), *operands, **inner.attrs)
        sums = iter(carried)
        out: list[Value] = []
        for k, y in enumerate(op.body.yields):
            if op.combine[k] is None:
                self.finish(k, tiles[y])
            elif y in fused:
                out.append(b.emit(arith.Fma, *fused[y], next(sums)))
            else:
                out.append(self._combine(k, next(sums), tiles[y]))
        return out

    def expressions(
        self, m: Map, axes: Sequence[int], local: Collection[str] = frozenset()
    ) -> tuple[tuple[Dim, ...], list[Value]]:
        """The coordinates of a map's axes over i0, i1, ...

        And t0, t1, ..., and the indices that i0, ... are. Along `local` dimensions they count from
        the first point of the step.
        """
        indices: list[Value] = []
        binding: dict[str, Dim] = {}
        used = set().union(*[affine.symbols(m[a]) for a in axes]) if axes else set()
        for name, (index, points) in self.at.items():
            if name not in used:
                continue
            start: Dim = 0
            if not isinstance(index, Value):
                start = index
            elif name not in local:
                start = symbol(f"i{len(indices)}")
                indices.append(index)
            if points > 1:
                start = affine.add(start, symbol(f"t{self.axes.index(name)}"))
            binding[name] = start
        return tuple(affine.substitute(m[a], binding) for a in axes), indices

    def read(self, v: Value, m: Map) -> Value:
        """The tile of a value at the current point."""
        register = self.low.registers.get(v)
        if register is not None:
            return self.realign(register)
        names = set().union(*[affine.symbols(e) for e in m]) if m else set()
        rows = self._held(names, self.low.memory[v])
        if rows is None:
            return self._load(v, m, names)
        name, points = rows
        tiles: list[Value] = []
        for point in points:
            self.at[name] = (point, 1)
            tiles.append(self._load(v, m, names))
        self.at[name] = self.low.shared[name]
        return self.low.b.emit(kernel.Concat, tuple(tiles), axis=self.axes.index(name))

    def _load(self, v: Value, m: Map, names: set[str]) -> Value:
        memory = self.low.memory[v]
        at, indices = self.expressions(m, memory.axes, memory.local)
        return self.low.b.emit(
            kernel.Load, memory.buffer, tuple(indices), at=at, shape=self._shape(tuple(names))
        )

    def _held(self, names: set[str], memory: Memory) -> tuple[str, list[Value]] | None:
        """The dimension whose points are kept within its extent one by one, and where they are."""
        found = [n for n in self.low.held if n in names and n not in memory.local]
        return (found[0], self.low.held[found[0]]) if found else None

    def fetch(self, v: Value, m: Map, distance: int) -> None:
        """Bring in the tile that lies so many elements behind the current one."""
        memory = self.low.memory[v]
        at, indices = self.expressions(m, memory.axes, memory.local)
        following = (*at[:-1], affine.add(at[-1], distance))
        names = set().union(*[affine.symbols(e) for e in m])
        self.low.b.add(
            kernel.Prefetch(
                memory.buffer,
                tuple(indices),
                at=following,
                shape=self._shape(tuple(names)),
                loc=self.low.b.loc,
            )
        )

    def realign(self, register: Register) -> Value:
        """A register's tile with the axes of this op: axes that it lacks get extent 1."""
        extents = dict(zip(register.axes, register.tile.type.extents, strict=True))
        if register.axes == self.axes:
            return register.tile
        shape = tuple(extents.get(n, 1) for n in self.axes)
        return self.low.b.emit(kernel.Reshape, register.tile, shape=shape)

    def coordinate(self, expression: Dim) -> Value:
        """The values of an expression over the space as a tile of i64."""
        (value,), indices = self.expressions((expression,), (0,))
        shape = self._shape(tuple(affine.symbols(expression)))
        return self.low.b.emit(kernel.Coordinate, tuple(indices), value=value, shape=shape)

    def finish(self, k: int, tile: Value) -> None:
        """Keep what yield `k` gave in its register, and store it if it has memory."""
        target, m = self.op.targets[k], self.op.yield_maps[k]
        v = self.op.results[target]
        names = set().union(*[affine.symbols(e) for e in m]) if m else set()
        shape = self._shape(tuple(names))
        if tile.type.shape != shape:
            tile = self.low.b.emit(kernel.Broadcast, tile, shape=shape)
        memory = self.low.memory.get(v)
        if memory is None or (self.fits_registers(target) and v in self.low.readers):
            self.low.registers[v] = Register(tile, self.axes)
        if memory is None:
            return
        rows = self._held(names, memory)
        if rows is None:
            self._store(memory, m, tile)
            return
        name, points = rows
        for k, point in enumerate(points):
            self.at[name] = (point, 1)
            row = self.low.b.emit(kernel.Slice, tile, axis=self.axes.index(name), start=k)
            self._store(memory, m, row)
        self.at[name] = self.low.shared[name]

    def _store(self, memory: Memory, m: Map, tile: Value) -> None:
        at, indices = self.expressions(m, memory.axes, memory.local)
        self.low.b.add(kernel.Store(memory.buffer, tile, tuple(indices), at=at, loc=self.low.b.loc))
