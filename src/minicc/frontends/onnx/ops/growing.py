"""States that each round of a loop makes longer: all of one has a place, which the rounds fill.

    scan %y { ^(%y): %z = concat %y, %row; yield %z }
    -->   scan %all { ^(%all): %y = slice %all [: n + i]; yield insert_slice %all, %row [n + i] }

So decoders are written that join what they have chosen, and caches. By how much a state grows is
found by importing the body for one that doesn't; the body is imported again then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.ops.scans import Each, Emit, Loop
from minicc.ir import graph
from minicc.ir.affine import Dim, multiply
from minicc.ir.core import Literal, Value
from minicc.ir.types import TensorType


class _Growth(NamedTuple):
    """Along which axis a state grows, how long it is at first, and by how much in each round."""

    axis: int
    first: Dim
    by: Dim

    def after(self, rounds: Dim) -> Dim:
        """How long it is after so many rounds."""
        return self.first + multiply(self.by, rounds)


class _GrowingError(Exception):
    """A round makes states longer."""

    def __init__(self, found: dict[int, _Growth]) -> None:
        super().__init__()
        self.found = found


def with_growth(emit: Emit) -> Emit:
    """What emits loops whose states may grow by concatenation, as `emit` does others."""

    def emitted(ctx: Context, loop: Loop, body: Each) -> tuple[Value, ...]:
        try:
            return emit(ctx, loop, _checked(ctx, body) if loop.numbered else body)
        except _GrowingError as error:
            growth = error.found
        states = [
            _lengthened(ctx, v, growth[k], loop.rounds) if k in growth else v
            for k, v in enumerate(loop.states)
        ]
        return emit(ctx, loop._replace(states=states), _filling(ctx, body, growth))

    return emitted


def _checked(ctx: Context, body: Each) -> Each:
    """A body that tells which states it makes longer."""

    def each(
        states: Sequence[Value], slices: Sequence[Value]
    ) -> tuple[Sequence[Value], Sequence[Value]]:
        made, rows = body(states, slices)
        pairs = enumerate(zip(states, made, strict=True))
        growth = {k: _growth(ctx, old.type, new.type) for k, (old, new) in pairs}
        found = {k: g for k, g in growth.items() if g is not None}
        if found:
            raise _GrowingError(found)
        return made, rows

    return each


def _growth(ctx: Context, old: TensorType, new: TensorType) -> _Growth | None:
    if old.dtype is not new.dtype or old.rank != new.rank:
        return None
    pairs = enumerate(zip(old.shape, new.shape, strict=True))
    longer = [_Growth(k, n, m - n) for k, (n, m) in pairs if n != m]
    if len(longer) != 1 or not ctx.symbols.at_least(longer[0].by, 0):
        return None
    return None if ctx.decides(longer[0].by) else longer[0]


def _lengthened(ctx: Context, x: Value, growth: _Growth, rounds: Dim) -> Value:
    """A state before the first round, with place for what all of them add."""
    nothing = (0,) * x.type.rank
    more = tuple(multiply(growth.by, rounds) if k == growth.axis else 0 for k in range(x.type.rank))
    value = Literal(np.zeros((), x.type.dtype.numpy))
    return ctx.emit(graph.Pad, x, low=nothing, high=more, value=value)


def _filling(ctx: Context, body: Each, growth: dict[int, _Growth]) -> Each:
    """A body on states that have their last extents; it writes what it adds into them."""

    def each(
        states: Sequence[Value], slices: Sequence[Value]
    ) -> tuple[Sequence[Value], Sequence[Value]]:
        (number,) = ctx.dims(slices[0], "number of the round")
        views = list(states)
        for k, g in growth.items():
            stops = list(states[k].type.shape)
            stops[g.axis] = g.after(number)
            parts = {"starts": (0,) * len(stops), "stops": tuple(stops), "steps": (1,) * len(stops)}
            views[k] = ctx.emit(graph.Slice, states[k], **parts)
        made, rows = body(views, slices)
        filled = list(made)
        for k, g in growth.items():
            joined = ctx.maker(made[k])
            along = isinstance(joined, graph.Concat) and joined.axis == g.axis
            first, *added = joined.operands if joined is not None and along else (None,)
            if first is not views[k]:
                raise ctx.refused("a state grows in another way than by concatenation")
            new = added[0] if len(added) == 1 else ctx.emit(graph.Concat, tuple(added), axis=g.axis)
            if new.type.shape[g.axis] != g.by:
                raise ctx.refused("a state grows by another number of elements in each round")
            starts = tuple(g.after(number) if a == g.axis else 0 for a in range(new.type.rank))
            steps = (1,) * new.type.rank
            filled[k] = ctx.emit(graph.InsertSlice, states[k], new, starts=starts, steps=steps)
        return filled, rows

    return each
