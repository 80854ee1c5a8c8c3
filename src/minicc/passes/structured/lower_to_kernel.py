"""structured -> kernel: a tiled group becomes a kernel.

Its shared dimensions become the grid, its ops loops over tiles.

For each op of the group, in order: loops over the parallel dimensions that are its own, within
them loops over its reductions that carry accumulators, innermost the body on tiles. What passes
between ops stays in registers where one tile covers it, else in scratch. Extents that a tile does
not divide get a second, smaller tile at the end. `add` of a product becomes a multiply-add.
Long sums are cut: `op.blocks` cuts a
reduction into blocks, `op.cut` names loops, and each block or round starts from fresh accumulators.

A shared dimension whose extent is free is covered by loops around all ops of the group, in the
steps of `group.cover`; one of an op's own in shorter and shorter steps.

Mirrors: Linalg's vectorisation of tiled ops, Triton's program bodies, TIR's blocks with init and
update.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from minicc.ir import affine, kernel
from minicc.ir.affine import Dim, symbol
from minicc.ir.bind import sizes_of
from minicc.ir.core import Function, Region, Value
from minicc.ir.structured import Generic, Group
from minicc.ir.types import INDEX_TYPE, BufferType
from minicc.passes.structured.loop_nest import GroupState, Memory, Nest


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
    grid = [Value(INDEX_TYPE, n) for n in group.shared]
    ins = [Value(t, v.hint) for t, v in zip(inputs, group.body.args, strict=True)]
    outs = [Value(t, v.hint) for t, v in zip(outputs, group.body.yields, strict=True)]
    lowering = _Lowering(group, dict(zip(group.shared, grid, strict=True)))
    points = {name: n for name, n, _ in group.cover}
    for v, buffer in zip((*group.body.args, *group.body.yields), (*ins, *outs), strict=True):
        lowering.memory[v] = Memory(buffer, tuple(range(buffer.type.rank)))
    lowering.scratch()
    lowering.covered(0)
    extents = tuple(affine.ceildiv(first.space[n].extent, points.get(n, 1)) for n in group.shared)
    body = Region((*grid, *ins, *outs), lowering.b.ops, ())
    sizes = sizes_of(body) if free else ()
    return Function(name, body, {"grid": extents} | ({"sizes": sizes} if sizes else {}))


class _Lowering(GroupState):
    """The lowering of one group: its scratch, and the loops that all its ops share."""

    def scratch(self) -> None:
        """Allocate what passes from one op to another and does not fit a tile."""
        for number, op in enumerate(self.group.body.ops):
            assert isinstance(op, Generic)
            self.b.loc = (f"#{number}",)
            nest = Nest(self, op)
            for k, v in enumerate(op.results):
                if v not in self.memory and not nest.fits_registers(k):
                    self._scratch(op, k, v)

    def _scratch(self, op: Generic, k: int, v: Value) -> None:
        kept: list[int] = []
        extents: list[Dim] = []
        for axis, es in enumerate(zip(*op.maps_of(k), strict=True)):
            names = affine.symbols(es[0])
            if len({*es}) == 1 and names and names <= set(self.shared):
                continue
            steps = self.steps.get(str(es[0]))
            kept.append(axis)
            extents.append(steps[0] if steps else v.type.shape[axis])
        buffer = self.b.emit(kernel.Alloc, type=BufferType(v.type.dtype, tuple(extents)))
        self.memory[v] = Memory(buffer, tuple(kept), self.steps)

    def covered(self, depth: int) -> None:
        """The loops over the covered dimensions from `depth` on; within them all ops."""
        if depth < len(self.group.cover):
            name, points, steps = self.group.cover[depth]
            for step, start, stop, end, fetches in self._pieces(name, points, steps):
                self.fetches = fetches
                index = Value(INDEX_TYPE, name)
                outer = self.enter()
                at = index
                if end is not None:
                    inside = affine.minimum(symbol("i0"), symbol("i1") - step)
                    at = self.b.emit(kernel.Index, (index, end), value=inside)
                self.shared[name] = (at, step)
                self.covered(depth + 1)
                body = Region((index,), self.b.ops, ())
                self.b = outer
                self.b.add(kernel.Range(start, stop, (), step=step, body=body, loc=self.b.loc))
            return
        for number, op in enumerate(self.group.body.ops):
            assert isinstance(op, Generic)
            self.b.loc = (f"#{number}",)
            Nest(self, op).parallel(0)

    def _pieces(
        self, name: str, points: int, steps: Sequence[int]
    ) -> Iterator[tuple[int, Value, Value, Value | None, bool]]:
        """Each step with the indices between which it is taken.

        Then the end of the instance's points where the last one is shifted to end there, and
        whether what comes next is fetched meanwhile: once is enough, so only the first of the
        program's longest steps does it.
        """
        first = self.group.body.ops[0]
        assert isinstance(first, Generic)
        extent = first.space[name].extent
        lo = symbol("i0") * points
        hi = affine.minimum(lo + points, extent)
        done: Dim = lo
        ends: list[tuple[int, Dim, Dim]] = []
        step, following, *others = steps
        again = 0
        if step != following:
            done = lo + (hi - lo) // step * step
            fetching = any(op.ahead for op in self.group.body.ops if isinstance(op, Generic))
            first_stop = affine.minimum((1 - affine.minimum(symbol("i0"), 1)) * step, done)
            if fetching:
                ends.append((step, lo, first_stop))
                again = 1
            ends.append((step, affine.maximum(lo, first_stop) if fetching else lo, done))
        longer: Dim = 1
        for step in (following, *others):
            fits = affine.minimum(extent // step, 1) if step > 1 else 1
            start = done if step == following else lo
            ends.append((step, start, start + (hi - start) * (fits * longer)))
            longer = longer - affine.minimum(extent // step, 1) * longer
        block = (self.grid[name],)

        def index(value: Dim) -> Value:
            return self.b.emit(kernel.Index, block, value=value)

        for k, (step, start, stop) in enumerate(ends):
            shifted = step > 1 and (k > again or steps[0] == steps[1])
            end = index(hi) if shifted else None
            yield step, index(start), index(stop), end, k != again or not again
