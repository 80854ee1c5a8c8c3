"""Where the tiles of one op lie: they are loaded and stored at the current point of its loops."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from minicc.ir import affine, affine_facts, arith, kernel
from minicc.ir.affine import Dim, symbol
from minicc.ir.core import Value
from minicc.ir.index_maps import Map, names_of
from minicc.passes.structured.fetch_ahead import Share
from minicc.passes.structured.group_state import GroupState, Indices, Memory, Position, Register


class TileAccess:
    """The current point of an op's loops, and the axes of its tiles."""

    low: GroupState
    axes: tuple[str, ...]
    at: dict[str, Position]
    in_round: dict[str, Value | Dim]  # where it is in a round of a loop around, along that one
    reductions: list[str]
    # the dimensions of what is copied while it is read, where that is now
    copying: frozenset[str] | None = None

    def shape_of(self, names: Sequence[str]) -> tuple[int, ...]:
        """The tile's shape with extent 1 for axes not among `names`."""
        return tuple(self.at[n][1] if n in names else 1 for n in self.axes)

    def within(self, names: Collection[str], indices: list[Value]) -> Dim | None:
        """How many points of a tile along its last axis are there; None where all are.

        An expression over i0, i1, ..., which `indices` are; one may be added to them.
        """
        name = self.axes[-1] if self.axes else ""
        # points of another axis could not be left out, and would be written beyond its end
        assert self.low.ends.keys().isdisjoint({*self.axes[:-1]} & {*names}), self.axes
        if name not in self.low.ends or name not in names:
            return None

        def number(at: Value | Dim) -> Dim:
            if not isinstance(at, Value):
                return at
            if at not in indices:
                indices.append(at)
            return symbol(f"i{indices.index(at)}")

        return number(self.low.ends[name]) - number(self.at[name][0])

    def expressions(
        self, m: Map, axes: Sequence[int], local: Collection[str] = frozenset()
    ) -> tuple[tuple[Dim, ...], list[Value]]:
        """The coordinates of a map's axes over i0, i1, ...

        And t0, t1, ..., and the indices that i0, ... are. Along `local` dimensions they count from
        the first point of the step or round.
        """
        indices: list[Value] = []
        binding: dict[str, Dim] = {}
        used = names_of(tuple([m[a] for a in axes]))
        for name, (index, points) in self.at.items():
            if name not in used:
                continue
            start: Dim = 0
            if name in local:
                index = self.in_round.get(name, 0 if isinstance(index, Value) else index)
            if not isinstance(index, Value):
                start = index
            else:
                start = symbol(f"i{len(indices)}")
                indices.append(index)
            if points > 1:
                start = affine.add(start, symbol(f"t{self.axes.index(name)}"))
            binding[name] = start
        return tuple(affine.substitute(m[a], binding) for a in axes), indices

    def read(self, v: Value, m: Map) -> Value:
        """The tile of a value at the current point.

        Where a copy is made now, it is read from what is copied, and left behind.
        """
        register = self.low.registers.get(v)
        if register is not None:
            return self.realign(register)
        if self.copying is not None and v in self.low.copies:
            copy = self.low.copies[v]
            tile = self.read(copy.operands[0], copy.input_maps[0])
            self.store(self.low.memory[v], m, tile)
            return tile
        names = names_of(m)
        return self.read_apart(self.low.memory[v], m, names, frozenset())

    def read_apart(
        self, memory: Memory, m: Map, names: frozenset[str], apart: frozenset[str]
    ) -> Value:
        """The tile that lies there; of the dimensions `apart` it is at one point already."""
        rows = self.rows_apart(m, names - apart, memory)
        if rows is None:
            return self.load_at(memory, m, names)
        name, points = rows
        apart |= {name}
        tiles = [self.read_apart(memory, m, names, apart) for _ in self.each(name, points)]
        return self.low.b.emit(kernel.Concat, tuple(tiles), axis=self.axes.index(name))

    def write_apart(self, memory: Memory, m: Map, tile: Value, apart: frozenset[str]) -> None:
        """Write a tile there; of the dimensions `apart` it is at one point already."""
        names = names_of(m)
        rows = self.rows_apart(m, names - apart, memory)
        if rows is None:
            self.store(memory, m, tile)
            return
        name, points = rows
        for k in self.each(name, points):
            row = self.low.b.emit(kernel.Slice, tile, axis=self.axes.index(name), start=k)
            self.write_apart(memory, m, row, apart | {name})

    def each(self, name: str, points: Sequence[Value | Dim]) -> Iterator[int]:
        """Be at each point of a dimension, one after the other."""
        together = self.at[name]
        for k, point in enumerate(points):
            self.at[name] = (point, 1)
            yield k
        self.at[name] = together

    def load_at(self, memory: Memory, m: Map, names: frozenset[str]) -> Value:
        """The tile that lies there, along the dimensions `names`."""
        at, indices = self.expressions(m, memory.axes, memory.local)
        within, shape = self.within(names, indices), self.shape_of(tuple(names))
        return self.low.b.emit(
            kernel.Load, memory.buffer, tuple(indices), at=at, shape=shape, within=within
        )

    def rows_apart(
        self, m: Map, names: frozenset[str], memory: Memory
    ) -> tuple[str, Sequence[Value | Dim]] | None:
        """The dimension whose points of a tile have addresses of their own, and where they are.

        They are kept within its extent one by one, or do not lie evenly in memory.
        """
        found = [n for n in self.low.held if n in names and n not in memory.local]
        if found:
            return found[0], self.low.held[found[0]]
        at, strides = [m[a] for a in memory.axes], memory.buffer.type.strides
        for name in names & self.at.keys():
            start, points = self.at[name]
            if points == 1 or affine_facts.even(at, strides, name):
                continue
            if not isinstance(start, Value):
                return name, [start + k for k in range(points)]
            first = Indices(self.low.b, at=start)
            return name, [first.value(symbol("at") + k) for k in range(points)]
        return None

    def fetch(self, v: Value, share: Share) -> None:
        """Bring in a share of a packed operand."""
        memory, last = self.low.memory[v], max(len(self.axes) - 1, 0)
        at, indices = self.expressions(share.start, memory.axes, memory.local)
        far = affine.add(at[-1], symbol(f"t{last}"))
        for k, index in enumerate(share.further, len(indices)):
            indices.append(index)
            far = affine.add(far, symbol(f"i{k}"))
        self.low.b.add(
            kernel.Prefetch(
                memory.buffer,
                tuple(indices),
                at=(*at[:-1], far),
                shape=(*[1] * last, share.elements),
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
        shape = self.shape_of(tuple(affine.symbols(expression)))
        return self.low.b.emit(kernel.Coordinate, tuple(indices), value=value, shape=shape)

    def store(self, memory: Memory, m: Map, tile: Value) -> None:
        """Write a tile there."""
        at, indices = self.expressions(m, memory.axes, memory.local)
        names = names_of(m)
        within = self.within(names, indices)
        attrs = {"at": at, "within": within, "nontemporal": memory.nontemporal}
        self.low.b.emit_all(kernel.Store, memory.buffer, tile, tuple(indices), **attrs)

    def where_there(self, after: Value, before: Value) -> Value:
        """What is combined with a tile, only with its points that are there."""
        name = self.axes[-1] if self.axes else ""
        if name not in self.low.ends or name not in self.reductions:
            return after
        indices: list[Value] = []
        within = self.within((name,), indices)
        shape = self.shape_of((name,))
        mask = self.low.b.emit(kernel.Mask, tuple(indices), within=within, shape=shape)
        return self.low.b.emit(arith.Select, mask, after, before)
