"""Scattering: what `graph.scatter_elements` and `graph.scatter_nd` become, and its kernel.

    %y = scatter %x, %at, %u {combine = "add"}   -->   for i: y[at[i]] = y[at[i]] + u[i]

The updates are put one after the other, so that those which meet are combined in their order, and
of several that replace the last one stays. Each goes to where an index says, counted from the end
if it is negative, and checked as that of a gather is. Along an axis, instances share what is before
it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from minicc.ir import graph, kernel, structured
from minicc.ir.affine import Dim, symbol
from minicc.ir.arith import COMBINERS
from minicc.ir.build import Builder
from minicc.ir.core import Function, Region, Value
from minicc.ir.structured import Scatter
from minicc.ir.types import BOOL, INDEX_TYPE, STORED, BufferType, is_free, is_index

_TILE = 32  # elements of a row that are put at once


def can_scatter(op: graph.ScatterElements | graph.ScatterND) -> bool:
    """Whether an op becomes a kernel: its shapes are known, and there is something to put it to.

    What is combined in narrow floats would be rounded with each update.
    """
    element = op.x.type.dtype
    if any(is_free(v.type.shape) for v in op.operands) or 0 in op.x.type.extents:
        return False
    whole = element not in (BOOL, *STORED) and not (element.is_float and element.bits < 32)
    return (whole or op.combine == "none") and is_index(op.indices.type.dtype)


def lower_scatter(
    b: Builder, op: graph.ScatterElements | graph.ScatterND, operands: Sequence[Value]
) -> Value:
    """The structured op; `x` itself where there are no updates."""
    if 0 in op.updates.type.extents:
        return operands[0]
    axis = op.axis if isinstance(op, graph.ScatterElements) else None
    return b.emit(structured.Scatter, *operands, combine=op.combine, axis=axis)


def scatter_kernel(op: Scatter, types: Sequence[BufferType]) -> Function:
    """The kernel for buffers of indices, updates and the result, which holds `x` already."""
    at, new, out = (Value(t) for t in types)
    made = _Kernel(op, at, new, out)
    shared = 1 if op.axis else 0  # axes of the updates that are the grid's
    grid = [Value(INDEX_TYPE) for _ in range(shared)]
    b = Builder(("#0",))
    made.loops(b, grid, made.front[shared:], made.put)
    body = Region((*grid, at, new, out), b.ops, ())
    return Function("scatter", body, {"grid": tuple(made.front[:shared])})


class _Kernel:
    def __init__(self, op: Scatter, at: Value, new: Value, out: Value) -> None:
        self.op = op
        self.at, self.new, self.out = at, new, out
        extents = op.indices.type.extents
        depth = op.x.type.rank if op.axis is not None else extents[-1]
        # what has an index each, and the axes of what an index says the place of
        self.front = extents if op.axis is not None else extents[:-1]
        self.rest = op.x.type.extents[depth:]

    def loops(
        self,
        b: Builder,
        before: Sequence[Value],
        extents: Sequence[int],
        body: Callable[[Builder, Sequence[Value]], None],
    ) -> None:
        """Loops over some extents, within which the body gets all indices."""
        if not extents:
            body(b, before)
            return
        n, *others = extents
        if n == 1:
            zero = b.emit(kernel.Index, (), value=0)
            self.loops(b, [*before, zero], others, body)
            return
        index, inner = Value(INDEX_TYPE), Builder(b.loc)
        self.loops(inner, [*before, index], others, body)
        b.add(kernel.For((), hi=n, body=Region((index,), inner.ops, ()), loc=b.loc))

    def put(self, b: Builder, position: Sequence[Value]) -> None:
        """Put the update at a position where its indices say."""
        axis, extents = self.op.axis, self.op.x.type.extents
        if axis is not None:
            place = list(position)
            place[axis] = self.index(b, position, (), extents[axis])
        else:
            depth = self.op.indices.type.extents[-1]
            place = [self.index(b, position, (k,), extents[k]) for k in range(depth)]
        if not self.rest:
            self.update(b, place, position, ())
            return
        *outer, width = self.rest
        self.loops(b, [], outer, lambda b, row: self.row(b, place, position, row, width))

    def index(self, b: Builder, position: Sequence[Value], last: tuple[int, ...], n: int) -> Value:
        """An index of the update, checked."""
        at = (*_plain(position), *last)
        loaded = b.emit(kernel.Load, self.at, tuple(position), at=at, shape=())
        return b.emit(kernel.Check, loaded, extent=n)

    def row(
        self,
        b: Builder,
        place: Sequence[Value],
        position: Sequence[Value],
        row: Sequence[Value],
        width: int,
    ) -> None:
        """Put a row of the update in tiles."""
        whole = width // _TILE * _TILE
        if whole:
            index, inner = Value(INDEX_TYPE), Builder(b.loc)
            self.update(inner, [*place, *row, index], [*position, *row, index], (_TILE,))
            body = Region((index,), inner.ops, ())
            b.add(kernel.For((), hi=whole, step=_TILE, body=body, loc=b.loc))
        if width - whole:
            self.update(b, [*place, *row], [*position, *row], (width - whole,), whole)

    def update(
        self,
        b: Builder,
        place: Sequence[Value],
        position: Sequence[Value],
        shape: tuple[int, ...],
        start: int | None = None,
    ) -> None:
        """Put a tile of the update, which begins at the last index or, if there is one, `start`."""

        def at(indices: Sequence[Value]) -> tuple[Dim, ...]:
            found = _plain(indices)
            if not shape:
                return found
            tile = symbol("t0")
            return (*found[:-1], found[-1] + tile) if start is None else (*found, tile + start)

        value = b.emit(kernel.Load, self.new, tuple(position), at=at(position), shape=shape)
        if self.op.combine != "none":
            old = b.emit(kernel.Load, self.out, tuple(place), at=at(place), shape=shape)
            value = b.emit(COMBINERS[self.op.combine], old, value)
        b.emit_all(kernel.Store, self.out, value, tuple(place), at=at(place))


def _plain(indices: Sequence[Value]) -> tuple[Dim, ...]:
    return tuple([symbol(f"i{k}") for k in range(len(indices))])
