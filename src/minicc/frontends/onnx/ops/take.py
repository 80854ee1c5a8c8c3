"""Elements of an axis at known indices: slices where the indices form few runs, else a gather."""

from __future__ import annotations

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.ir import graph
from minicc.ir.core import Array, Value
from minicc.library.taking import by_slices

_MOST_RUNS = 8


def take(ctx: Context, x: Value, indices: Array, axis: int) -> Value:
    """`numpy.take` along an axis of known extent; MC0128 where an index is out of range."""
    extent = ctx.static(x.type.shape[axis], "an axis that is taken from")
    where = indices.astype(np.int64)
    if where.size and (where.min() < -extent or where.max() >= extent):
        raise ctx.refused(f"indices from {where.min()} to {where.max()} of an extent of {extent}")
    flat = np.where(where < 0, where + extent, where).ravel()
    before, after = x.type.shape[:axis], x.type.shape[axis + 1 :]
    runs = by_slices(ctx.emit, x, flat, axis, _MOST_RUNS)
    if runs is not None:
        return ctx.reshape(runs, (*before, *where.shape, *after))
    times = _repeats(flat)
    if times > 1:
        once = take(ctx, x, flat[::times], axis)
        apart = ctx.reshape(once, (*before, len(flat) // times, 1, *after))
        shape = (*before, len(flat) // times, times, *after)
        many = ctx.emit(graph.Broadcast, apart, shape=shape)
        return ctx.reshape(many, (*before, *where.shape, *after))
    return ctx.emit(graph.Gather, x, ctx.constant(flat.reshape(where.shape)), axis=axis)


def _repeats(flat: Array) -> int:
    """How often each index stands in a row, where all do equally often."""
    changes = np.flatnonzero(np.diff(flat)) + 1
    if not len(changes):
        return len(flat)
    times = int(np.gcd.reduce([*changes, len(flat)]))
    return times
