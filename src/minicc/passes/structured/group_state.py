"""What is known while a group is lowered: where its values and dimensions are, and the builder."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from minicc.ir import affine, kernel
from minicc.ir.affine import Dim, symbol
from minicc.ir.build import Builder
from minicc.ir.core import Op, Region, Value
from minicc.ir.index_maps import Map
from minicc.ir.structured import Generic, Group
from minicc.passes.structured.copies import copies_in
from minicc.passes.structured.rows import partial_step

# where a dimension stands: index of the first point, and how many points
Position = tuple["Value | Dim", int]


class Segment(NamedTuple):
    """A part of a dimension in equal steps, of which the last may go beyond a `partial` one."""

    lo: Dim
    hi: Dim
    step: int
    partial: bool = False


class Register(NamedTuple):
    """A value held as one tile; `axes` names the dimension of each axis."""

    tile: Value
    axes: tuple[str, ...]


class Memory(NamedTuple):
    """A value in a buffer, perhaps one that is written past the caches.

    `axes` are the axes of the tensor that the buffer has (the others are the instance's). Along the
    dimensions of `local` it has the points of one step alone, or of one round.
    """

    buffer: Value
    axes: tuple[int, ...]
    local: Collection[str] = frozenset()
    nontemporal: bool = False


def segments(extent: Dim, step: int, side_by_side: bool) -> list[Segment]:
    """The extent in whole steps, and what is left as one smaller step.

    Where the extent is free, what is left is taken in vectors, of which the last is partial, if
    the points lie `side_by_side` in a tile; else in shorter and shorter steps.
    """
    if isinstance(extent, int):
        whole = extent - extent % step
        parts = [Segment(0, whole, step)] if whole else []
        return parts + ([Segment(whole, extent, extent - whole)] if whole < extent else [])
    out: list[Segment] = []
    done: Dim = 0
    while step > 1:
        end = done + (extent - done) // step * step
        out.append(Segment(done, end, step))
        if side_by_side:
            return [*out, Segment(end, extent, partial_step(step), partial=True)]
        done, step = end, max(1, step // 4)
    return [*out, Segment(done, extent, 1)]


class Indices:
    """Numbers that are computed where a builder stands, by the symbols that mean them.

    An expression that others are made of is computed once, as a number of its own: written out in
    each of them, it would come back in each many times.
    """

    def __init__(self, builder: Builder, **known: Value) -> None:
        self.builder = builder
        self.known = known

    def named(self, expression: Dim) -> Dim:
        """A symbol for an expression that is computed here; a number as it is."""
        if isinstance(expression, int):
            return expression
        name = f"x{len(self.known)}"
        self.known[name] = self.value(expression)
        return symbol(name)

    def value(self, expression: Dim) -> Value:
        """An expression over symbols that were given or named."""
        for name, known in self.known.items():
            if expression == symbol(name):
                return known
        used = sorted(affine.symbols(expression) & self.known.keys())
        binding: dict[str, Dim] = {name: symbol(f"i{k}") for k, name in enumerate(used)}
        value = affine.substitute(expression, binding)
        return self.builder.emit(kernel.Index, [self.known[n] for n in used], value=value)


class GroupState:
    """The state while a group is lowered: the builder, and where values and dimensions are."""

    def __init__(self, group: Group, grid: Mapping[str, Value]) -> None:
        self.b = Builder(("#0",))
        self.group = group
        self.grid = grid
        self.steps = {name: steps for name, _, steps in group.cover}
        self.shared: dict[str, Position] = {
            n: (grid.get(n, 0), 1) for n in group.shared if n not in self.steps
        }
        self.memory: dict[Value, Memory] = {}
        self.registers: dict[Value, Register] = {}
        self.axes: list[str] = []
        self.alone = False  # whether there is one point of what is covered at a time
        self.held: dict[str, list[Value]] = {}
        self.ends: dict[str, Value | Dim] = {}  # of dimensions whose step may be partial
        self.made_in_rounds = _made_in_rounds(group)
        self.copies = copies_in(group)
        self.readers: dict[Value, list[tuple[Map, dict[str, int]]]] = {}
        for op in group.body.ops:
            assert isinstance(op, Generic)
            for v, m in zip(op.operands, op.input_maps, strict=True):
                self.readers.setdefault(v, []).append((m, dict(op.tile)))

    def locate(self, op: Op) -> None:
        """What is built next is an op's."""
        self.b.loc = (f"#{self.group.body.ops.index(op)}",)

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
        ends: tuple[Value, Value] | None = None,
    ) -> tuple[Value, ...]:
        """End the body of a loop, and build on after what its builder had before it.

        `ends` are where it begins and ends, if they are computed.
        """
        body = Region(args, self.b.ops, yields)
        self.b = outer
        lo, hi, step, _ = s
        if ends is None and isinstance(lo, int) and isinstance(hi, int):
            return outer.emit_all(kernel.For, tuple(inits), lo=lo, hi=hi, step=step, body=body)
        start, stop = ends or [outer.emit(kernel.Index, (), value=end) for end in (lo, hi)]
        return outer.emit_all(kernel.Range, start, stop, tuple(inits), step=step, body=body)


def _made_in_rounds(group: Group) -> dict[Generic, dict[str, int]]:
    """The ops that are computed in each round of a loop around another one.

    With the dimension of that loop, and how many points a round has. The other op alone reads what
    they give, and in a round what they give at these points.
    """
    ops = [op for op in group.body.ops if isinstance(op, Generic)]
    found: dict[Generic, dict[str, int]] = {}
    for op in ops:
        (result, *others) = op.results
        readers = [reader for reader in ops if result in reader.operands]
        if others or len(readers) != 1 or result in group.body.yields:
            continue
        rounds = dict(readers[0].around)
        if rounds and all(_is_of_a_round(op, readers[0], name) for name in rounds):
            found[op] = rounds
    return found


def _is_of_a_round(op: Generic, reader: Generic, name: str) -> bool:
    """Whether a dimension is an axis of what an op gives, and another one reads it along that."""
    (result,) = op.results
    read = [m for v, m in zip(reader.operands, reader.input_maps, strict=True) if v is result]
    places = [[k for k, e in enumerate(m) if e == symbol(name)] for m in (*op.yield_maps, *read)]
    return len(places[0]) == 1 and all(p == places[0] for p in places)
