"""Scattering: what `graph.scatter_elements` and `graph.scatter_nd` become, and its kernel.

    %y = scatter %x, %at, %u {combine = "add"}   -->   for i: y[at[i]] = y[at[i]] + u[i]

The updates are put one after the other, so that those which meet are combined in their order, and
of several that replace the last one stays. Each goes to where an index says, counted from the end
if it is negative, and checked as that of a gather is. Along an axis, instances share what is before
it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minicc.ir import graph, kernel, structured
from minicc.ir.affine import Dim, minimum, symbol
from minicc.ir.arith import COMBINERS
from minicc.ir.bind import sizes_of
from minicc.ir.build import Builder
from minicc.ir.core import Function, Region, Value
from minicc.ir.structured import Scatter
from minicc.ir.types import BOOL, INDEX_TYPE, STORED, BufferType, is_free, is_index, static_shape

_TILE = 32  # elements of a row that are put at once


def _is_empty(op: graph.ScatterElements | graph.ScatterND) -> bool:
    """Whether there are no updates, of which the shape of indices may tell alone."""
    indices = op.indices.type.shape
    front = indices[:-1] if isinstance(op, graph.ScatterND) else indices
    return 0 in (*front, *op.updates.type.shape)


def can_scatter(op: graph.ScatterElements | graph.ScatterND) -> bool:
    """Whether an op becomes a kernel: of how many numbers an index is, and that there is a tensor.

    That is no matter where there are no updates. What is combined in narrow floats would be rounded
    with each update.
    """
    element = op.x.type.dtype
    vectors = isinstance(op, graph.ScatterND)
    if _is_empty(op):
        return True
    if (vectors and is_free(op.indices.type.shape[-1:])) or 0 in op.x.type.shape:
        return False
    whole = element not in (BOOL, *STORED) and not (element.is_float and element.bits < 32)
    return (whole or op.combine == "none") and is_index(op.indices.type.dtype)


def lower_scatter(
    b: Builder, op: graph.ScatterElements | graph.ScatterND, operands: Sequence[Value]
) -> Value:
    """The structured op; `x` itself where there are no updates."""
    if _is_empty(op):
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
    sizes = sizes_of(body)
    attrs: dict[str, Any] = {"grid": tuple(made.front[:shared])}
    return Function("scatter", body, attrs | ({"sizes": sizes} if sizes else {}))


class _Kernel:
    def __init__(self, op: Scatter, at: Value, new: Value, out: Value) -> None:
        self.op = op
        self.at, self.new, self.out = at, new, out
        shape, extents = op.x.type.shape, op.indices.type.shape
        self.depth = len(shape) if op.axis is not None else static_shape(extents[-1:])[0]
        # what has an index each, and the axes of what an index says the place of
        self.front = extents if op.axis is not None else extents[:-1]
        self.rest = shape[self.depth :]
        checked = shape[: self.depth] if op.axis is None else shape[op.axis : op.axis + 1]
        # 0 where an axis that is free has no element: there is no place for any update
        room: Dim = 1
        for n in checked:
            room = room if isinstance(n, int) else room * minimum(n, 1)
        self.room = room

    def loops(
        self,
        b: Builder,
        before: Sequence[Value],
        extents: Sequence[Dim],
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
        _loop(b, 0, n, 1, Region((index,), inner.ops, ()))

    def put(self, b: Builder, position: Sequence[Value]) -> None:
        """Put the update at a position where its indices say."""
        axis, extents = self.op.axis, self.op.x.type.shape
        if axis is not None:
            place = list(position)
            place[axis] = self.index(b, position, (), extents[axis])
        else:
            place = [self.index(b, position, (k,), extents[k]) for k in range(self.depth)]
        if self.room == 1:
            self.put_at(b, place, position)
            return
        inner = Builder(b.loc)
        self.put_at(inner, place, position)
        _loop(b, 0, self.room, 1, Region((Value(INDEX_TYPE),), inner.ops, ()))

    def put_at(self, b: Builder, place: Sequence[Value], position: Sequence[Value]) -> None:
        """Put the update at a position to a place."""
        if not self.rest:
            self.update(b, place, position, ())
            return
        *outer, width = self.rest
        self.loops(b, [], outer, lambda b, row: self.row(b, place, position, row, width))

    def index(self, b: Builder, position: Sequence[Value], last: tuple[int, ...], n: Dim) -> Value:
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
        width: Dim,
    ) -> None:
        """Put a row of the update in tiles; what is left of a free one element by element."""
        whole = width // _TILE * _TILE

        def tiles(start: Dim, stop: Dim, step: int) -> None:
            index, inner = Value(INDEX_TYPE), Builder(b.loc)
            self.update(inner, [*place, *row, index], [*position, *row, index], (step,))
            _loop(b, start, stop, step, Region((index,), inner.ops, ()))

        if whole != 0:
            tiles(0, whole, _TILE)
        if not isinstance(width, int):
            tiles(whole, width, 1)
        elif isinstance(whole, int) and width > whole:
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


def _loop(b: Builder, start: Dim, stop: Dim, step: int, body: Region) -> None:
    """A loop over indices, whose bounds may be free."""
    if isinstance(start, int) and isinstance(stop, int):
        b.add(kernel.For((), lo=start, hi=stop, step=step, body=body, loc=b.loc))
        return
    ends = [b.emit(kernel.Index, (), value=n) for n in (start, stop)]
    b.add(kernel.Range(*ends, (), step=step, body=body, loc=b.loc))


def _plain(indices: Sequence[Value]) -> tuple[Dim, ...]:
    return tuple([symbol(f"i{k}") for k in range(len(indices))])
