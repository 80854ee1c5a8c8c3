"""A kernel for `graph.suppress`: one instance, which compares a box with those that are chosen.

    for box in boxes:  chosen = no overlap with any of mine;  mine[count] = box;  count += chosen

Those of a class are kept side by side, in the order in which they were chosen, and are compared a
vector at a time. The place after the last is written whether or not the box is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minicc.ir import arith, graph, kernel
from minicc.ir.affine import Dim, symbol
from minicc.ir.build import Builder
from minicc.ir.core import Literal, Value
from minicc.ir.types import BOOL, F32, I64, INDEX_TYPE, BufferType, DType, TensorType

_WIDTH = 16  # boxes that are compared at once
_I0, _I1, _T0 = symbol("i0"), symbol("i1"), symbol("t0")


def suppress_kernel(b: Builder, op: graph.Suppress) -> Sequence[Value]:
    """The op as a `graph.kernel`, whose second result is memory for the boxes that are chosen."""
    (n,) = op.kinds.type.shape
    one = [b.emit(graph.Reshape, v, shape=(1,)) for v in (op.limit, op.most)]
    inputs = (op.boxes, op.kinds, *one)
    kept = (BufferType(BOOL, (n,)), BufferType(F32, (5, n)))
    buffers = [Value(BufferType(v.type.dtype, v.type.shape)) for v in inputs]
    buffers += [Value(t) for t in kept]
    body = b.region(buffers, lambda inner: _Suppress(inner, n, buffers).loop())
    made = b.emit_all(graph.Kernel, inputs, label="suppress", grid=(), body=body)
    return made[:1]


class _Suppress:
    """Emits the kernel's body."""

    def __init__(self, b: Builder, n: Dim, buffers: Sequence[Value]) -> None:
        self.b = b
        self.n = n
        self.boxes, self.kinds, self.limit, self.most, self.chosen, self.mine = buffers

    def loop(self) -> Sequence[Value]:
        """Go over all boxes; a round hands on the class, where it starts, and how many it has."""
        none, first = self.number(-1), self.number(0)
        ends = [self.b.emit(kernel.Index, (), value=v) for v in (0, self.n)]
        carried = [Value(TensorType(I64)) for _ in range(3)]
        i = Value(INDEX_TYPE)
        body = self.b.region((i, *carried), lambda b: self.within(b).round(i, *carried))
        self.b.emit_all(kernel.Range, *ends, (none, first, first), body=body)
        return ()

    def within(self, b: Builder) -> _Suppress:
        """The same where a region's ops are emitted."""
        buffers = (self.boxes, self.kinds, self.limit, self.most, self.chosen, self.mine)
        return _Suppress(b, self.n, buffers)

    def round(self, i: Value, kind: Value, start: Value, count: Value) -> Sequence[Value]:
        """One box: compare it with those of its class, unless there are enough, and keep it."""
        emit = self.b.emit
        now = self.load(self.kinds, (i,), (_I0,))
        same = emit(arith.Eq, now, kind)
        place = emit(kernel.Coordinate, (i,), value=_I0, shape=())
        start = emit(arith.Select, same, start, place)
        count = emit(arith.Select, same, count, self.number(0))
        after = emit(arith.Add, start, count)
        more = emit(arith.Lt, count, self.load(self.most, (), (0,)))
        ends = [
            emit(kernel.Check, v, extent=self.n)
            for v in (start, emit(arith.Select, more, after, start))
        ]
        corners = [self.load(self.boxes, (i,), (k, _I0)) for k in range(4)]
        sides = [emit(arith.Sub, corners[k + 2], corners[k]) for k in range(2)]
        box = [*corners, emit(arith.Mul, *sides)]
        lost = self.lost(box, ends)
        chosen = emit(arith.And, more, emit(arith.Not, lost))
        self.store(self.chosen, chosen, (i,), (_I0,))
        at = emit(kernel.Check, after, extent=self.n)
        for k, number in enumerate(box):
            self.store(self.mine, number, (at,), (k, _I0))
        count = emit(arith.Add, count, emit(arith.Cast, chosen, dtype=I64))
        return now, start, count

    def lost(self, box: Sequence[Value], ends: Sequence[Value]) -> Value:
        """Whether a box overlaps too much of one that is chosen, between two places."""
        none = self.constant(False, BOOL, (_WIDTH,))
        before, j = Value(none.type), Value(INDEX_TYPE)

        def clash(b: Builder) -> Sequence[Value]:
            here = self.within(b).clash(box, j, ends[1])
            return (b.emit(arith.Or, before, here),)

        body = self.b.region((j, before), clash)
        (found,) = self.b.emit_all(kernel.Range, *ends, (none,), step=_WIDTH, body=body)
        whole = self.b.emit(kernel.Reduce, found, axis=0, combine="or")
        return self.b.emit(kernel.Reshape, whole, shape=())

    def clash(self, box: Sequence[Value], j: Value, end: Value) -> Value:
        """Which of the chosen boxes from `j` on share more than the limit with a box."""
        emit, there = self.b.emit, (_WIDTH,)
        within = _I1 - _I0
        mine = [
            emit(kernel.Load, self.mine, (j, end), at=(k, _I0 + _T0), shape=there, within=within)
            for k in range(5)
        ]
        one = [emit(kernel.Broadcast, self.as_tile(v), shape=there) for v in box]
        zero = self.constant(0, F32, there)
        sides = []
        for k in range(2):
            high = emit(arith.Min, one[k + 2], mine[k + 2])
            low = emit(arith.Max, one[k], mine[k])
            sides.append(emit(arith.Max, emit(arith.Sub, high, low), zero))
        common = emit(arith.Mul, *sides)
        together = emit(arith.Sub, emit(arith.Add, one[4], mine[4]), common)
        share = emit(arith.Div, common, together)
        share = emit(arith.Select, emit(arith.Lt, zero, together), share, zero)
        limit = self.load(self.limit, (), (_T0,), (1,))
        over = emit(arith.Lt, emit(kernel.Broadcast, limit, shape=there), share)
        mask = emit(kernel.Mask, (j, end), within=within, shape=there)
        return emit(arith.And, over, mask)

    def as_tile(self, x: Value) -> Value:
        """A number as a tile of one."""
        return self.b.emit(kernel.Reshape, x, shape=(1,))

    def load(
        self, buffer: Value, indices: Sequence[Value], at: tuple[Dim, ...], shape: Any = ()
    ) -> Value:
        """What stands at a place."""
        return self.b.emit(kernel.Load, buffer, tuple(indices), at=at, shape=shape)

    def store(self, buffer: Value, x: Value, indices: Sequence[Value], at: tuple[Dim, ...]) -> None:
        """Write a number at a place."""
        self.b.add(kernel.Store(buffer, x, tuple(indices), at=at, loc=self.b.loc))

    def number(self, x: int) -> Value:
        """A number."""
        return self.constant(x, I64, ())

    def constant(self, x: Any, element: DType, shape: tuple[int, ...]) -> Value:
        """A tile of one number."""
        literal = Literal(np.asarray(x, element.numpy))
        return self.b.emit(arith.Constant, value=literal, shape=shape)
