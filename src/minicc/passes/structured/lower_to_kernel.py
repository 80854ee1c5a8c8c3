"""structured -> kernel: a tiled group becomes a kernel.

Its shared dimensions become the grid, its ops loops over tiles.

For each op of the group, in order: loops over the parallel dimensions that are its own, within
them loops over its reductions that carry accumulators, innermost the body on tiles. What passes
between ops stays in registers where one tile covers it, else in scratch. Extents that a tile does
not divide get a second, smaller tile at the end. `add` of a product becomes a multiply-add.
Long sums are cut: `op.blocks` cuts a reduction into blocks, `op.cut` names loops, and each block or
round starts from fresh accumulators. Where a loop over blocks goes around an op (`op.around`), what
this op alone reads is computed in each of its rounds, and has memory for one.

A shared dimension whose extent is free is covered by loops around all ops of the group, in the
steps of `group.cover`; one of an op's own by loops around that op. Vectors along it end in a
partial one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from minicc.ir import affine, kernel
from minicc.ir.affine import Dim, symbol
from minicc.ir.bind import sizes_of
from minicc.ir.core import Function, Region, Value
from minicc.ir.structured import HOLD, PARTIAL, Generic, Group
from minicc.ir.types import INDEX_TYPE, BufferType, DType, dense_strides
from minicc.passes.structured.group_state import GroupState, Indices, Memory
from minicc.passes.structured.loop_nest import Nest
from minicc.passes.structured.rows import Steps, long_steps, partial_step, steps_of

_LINE = 64  # bytes of a line of the cache
EXACT, SHIFTED, HELD, CUT = "exact", "shifted", "held", "cut"


class Piece(NamedTuple):
    """A loop that covers some points of a dimension in equal steps.

    `last` says what becomes of a last step that would go beyond `end`: there is none, it is shifted
    to end there, or that too and, where there are fewer points in all, those beyond are the last
    one, or it is cut there.
    """

    step: int
    start: Dim
    stop: Dim
    end: Dim
    last: str = EXACT


def lower_group(
    group: Group,
    inputs: Sequence[BufferType],
    outputs: Sequence[BufferType],
    name: str,
    free: bool,
) -> Function:
    """The kernel of a tiled group for buffers of the given types, inputs before outputs.

    Of programs where no size is `free`, none is looked for.
    """
    first = group.body.ops[0]
    assert isinstance(first, Generic)
    points = {name: n for name, n, _ in group.cover}
    extents = {n: affine.ceildiv(first.space[n].extent, points.get(n, 1)) for n in group.shared}
    # an axis of one instance would be a loop of one round
    axes = {n: Value(INDEX_TYPE, n) for n in group.shared if n in points or extents[n] != 1}
    ins = [Value(t, v.hint) for t, v in zip(inputs, group.body.args, strict=True)]
    outs = [Value(t, v.hint) for t, v in zip(outputs, group.body.yields, strict=True)]
    lowering = _Lowering(group, axes)
    for v, buffer in zip((*group.body.args, *group.body.yields), (*ins, *outs), strict=True):
        lowering.memory[v] = Memory(buffer, tuple(range(buffer.type.rank)))
    for k in group.schedule.nontemporal if group.schedule else ():
        v = group.body.yields[k]
        lowering.memory[v] = lowering.memory[v]._replace(nontemporal=True)
    lowering.scratch()
    lowering.covered(0)
    grid = tuple(extents[n] for n in axes)
    body = Region((*axes.values(), *ins, *outs), lowering.b.ops, ())
    sizes = sizes_of(body) if free else ()
    attrs: dict[str, Any] = {"grid": grid} | ({"sizes": sizes} if sizes else {})
    if group.schedule is not None:
        attrs["unroll"] = group.schedule.unroll
    return Function(name, body, attrs)


def _in_lines(dtype: DType, shape: tuple[Dim, ...]) -> BufferType:
    """Memory of which each row begins with a line of the cache, where it has more than one.

    A vector that lies in two lines takes two reads.
    """
    dense, per_line = BufferType(dtype, shape), max(1, _LINE // dtype.bytes)
    row = shape[-1] if len(shape) > 1 else 1
    if not isinstance(row, int) or row <= per_line or row % per_line == 0:
        return dense
    padded = dense_strides((*shape[:-1], -(-row // per_line) * per_line))
    return BufferType(dtype, shape, padded)


class _Lowering(GroupState):
    """The lowering of one group: its scratch, and the loops that all its ops share."""

    def scratch(self) -> None:
        """Allocate what passes from one op to another and does not fit a tile."""
        for op in self.group.body.ops:
            assert isinstance(op, Generic)
            self.locate(op)
            nest = Nest(self, op)
            for k, v in enumerate(op.results):
                if v not in self.memory and not nest.fits_registers(k):
                    self._scratch(op, k, v)
        self.copies = {v: op for v, op in self.copies.items() if v in self.memory}

    def _scratch(self, op: Generic, k: int, v: Value) -> None:
        kept: list[int] = []
        extents: list[Dim] = []
        rounds = self.made_in_rounds.get(op, {})
        single = {*self.shared, *[name for name, points in rounds.items() if points == 1]}
        for axis, es in enumerate(zip(*op.maps_of(k), strict=True)):
            names = affine.symbols(es[0])
            if len({*es}) == 1 and names and names <= single:
                continue
            steps = self.steps.get(str(es[0]))
            kept.append(axis)
            extents.append(rounds.get(str(es[0])) or (steps[0] if steps else v.type.shape[axis]))
        buffer = self.b.emit(kernel.Alloc, type=_in_lines(v.type.dtype, tuple(extents)))
        self.memory[v] = Memory(buffer, tuple(kept), {*self.steps, *rounds})

    def covered(self, depth: int) -> None:
        """The loops over the covered dimensions from `depth` on; within them all ops."""
        if depth < len(self.group.cover):
            name, points, steps = self.group.cover[depth]
            indices = Indices(self.b, block=self.grid[name])
            for piece in self._pieces(name, points, steps, indices):
                self._piece(piece, name, depth, indices)
            return
        for op in self.group.body.ops:
            assert isinstance(op, Generic)
            if op not in self.made_in_rounds and self.copies.keys().isdisjoint(op.results):
                self.locate(op)
                Nest(self, op).run()

    def _piece(self, piece: Piece, name: str, depth: int, indices: Indices) -> None:
        """The loop of one step over a covered dimension."""
        step = piece.step
        start, stop, end = map(indices.value, (piece.start, piece.stop, piece.end))
        self.alone = piece.step == 1
        index = Value(INDEX_TYPE, name)
        outer = self.enter()
        at = index
        within = Indices(self.b, at=index, end=end)
        shifted = affine.minimum(symbol("at"), symbol("end") - step)
        if piece.last == SHIFTED:
            at = within.value(shifted)
        elif piece.last == HELD:
            first = within.named(affine.maximum(within.named(shifted), 0))
            at = within.value(first)
            points = [affine.minimum(first + k, symbol("end") - 1) for k in range(step)]
            self.held[name] = list(map(within.value, points))
        elif piece.last == CUT:
            self.ends[name] = end
        self.shared[name] = (at, step)
        self.covered(depth + 1)
        self.held.pop(name, None)
        self.ends.pop(name, None)
        body = Region((index,), self.b.ops, ())
        self.b = outer
        self.b.add(kernel.Range(start, stop, (), step=step, body=body, loc=self.b.loc))

    def _pieces(
        self, name: str, points: int, steps: Sequence[int], indices: Indices
    ) -> Iterator[Piece]:
        """The loops that cover a dimension, over the number of the instance's block."""
        first = self.group.body.ops[0]
        assert isinstance(first, Generic)
        extent = first.space[name].extent
        lo = indices.named(symbol("block") * points)
        hi = indices.named(affine.minimum(lo + points, extent))
        if steps[-1] == HOLD:
            yield from self._rows(extent, lo, hi, steps_of(steps), 1 in steps, indices)
            return
        cut = steps[-1] == PARTIAL and self._lies_last(name)
        if steps[-1] == PARTIAL:
            steps = (steps[0], partial_step(steps[0]), 1)
        step, following, *others = steps
        done: Dim = lo
        if cut or step != following:
            done = indices.named(lo + (hi - lo) // step * step)
            yield Piece(step, lo, done, hi)
        if cut:
            yield Piece(following, done, hi, hi, CUT)
            return
        longer: Dim = 1
        for n in (following, *others):
            start = done if n == following else lo
            last = SHIFTED if n > 1 else EXACT
            yield Piece(n, start, start + (hi - start) * (_least(extent, n) * longer), hi, last)
            longer = longer - _least(extent, n) * longer if n > 1 else 0

    def _lies_last(self, name: str) -> bool:
        """Whether the points of a dimension lie side by side in the tiles of all ops."""
        nests = (Nest(self, op) for op in self.group.body.ops if isinstance(op, Generic))
        return all(nest.axes[-1:] == (name,) for nest in nests)

    def _rows(
        self, extent: Dim, lo: Dim, hi: Dim, steps: Steps, alone: bool, indices: Indices
    ) -> Iterator[Piece]:
        """Steps over any number of rows, as `long_steps` counts them.

        The last step is shifted back to end with the rows. Where there are fewer rows than its own
        in all, those beyond the end are the last one. A row `alone` may have a step of its own.
        """
        long, middle, short = steps
        named = indices.named
        rows = named(hi - lo)
        whole, most, some, two = (
            named(_least(extent, n)) for n in (long, steps.least, short + 1, 1 + alone)
        )
        longs = affine.maximum(named(long_steps(rows, steps)), 0)
        done = named(lo + longs * long * whole)
        if steps.least < long:
            yield Piece(long, lo, lo + rows * (most - whole), hi, HELD)
        yield Piece(long, lo, done, hi, SHIFTED)
        if middle != short:
            left = affine.maximum(named(hi - done - short), 0)
            middles = affine.ceildiv(left, middle) * middle * (whole + some - most)
            after = named(done + middles)
            yield Piece(middle, done, after, hi, HELD)
            done = after
        yield Piece(short, done, done + (hi - done) * (whole + two - most), hi, HELD)
        if alone:
            yield Piece(1, lo, lo + rows * (1 - two), hi)


def _least(extent: Dim, n: int) -> Dim:
    """1 where the extent is at least `n`, else 0."""
    return affine.minimum(extent // n, 1) if n > 1 else 1
