"""Elements of an axis at known indices: slices where the indices form few runs, else a gather."""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.ir import graph
from minicc.ir.core import Array, Value

_MOST_RUNS = 8


def take(ctx: Context, x: Value, indices: Array, axis: int) -> Value:
    """`numpy.take` along an axis of known extent; MC0128 where an index is out of range."""
    extent = ctx.static(x.type.shape[axis], "an axis that is taken from")
    where = indices.astype(np.int64)
    if where.size and (where.min() < -extent or where.max() >= extent):
        raise ctx.refused(f"indices from {where.min()} to {where.max()} of an extent of {extent}")
    flat = np.where(where < 0, where + extent, where).ravel()
    runs = _runs(flat)
    before, after = x.type.shape[:axis], x.type.shape[axis + 1 :]
    if len(runs) <= _MOST_RUNS:
        parts = [_run(ctx, x, axis, *run) for run in runs]
        joined = parts[0] if len(parts) == 1 else ctx.emit(graph.Concat, tuple(parts), axis=axis)
        return ctx.reshape(joined, (*before, *where.shape, *after))
    times = _repeats(flat)
    if times > 1:
        once = take(ctx, x, flat[::times], axis)
        apart = ctx.reshape(once, (*before, len(flat) // times, 1, *after))
        shape = (*before, len(flat) // times, times, *after)
        many = ctx.emit(graph.Broadcast, apart, shape=shape)
        return ctx.reshape(many, (*before, *where.shape, *after))
    return ctx.emit(graph.Gather, x, ctx.constant(flat.reshape(where.shape)), axis=axis)


def _runs(flat: Array) -> list[tuple[int, int, int]]:
    """The start, step and length of each arithmetic progression that the indices consist of."""
    if not len(flat):
        return [(0, 1, 0)]
    runs: list[tuple[int, int, int]] = []
    at = 0
    while at < len(flat) and len(runs) <= _MOST_RUNS:
        steps = np.diff(flat[at:])
        step = int(steps[0]) if len(steps) else 1
        other = np.flatnonzero(steps != step)
        length = int(other[0]) + 1 if len(other) else len(flat) - at
        if length == 2 and len(steps) > 1 and steps[1] != step:
            # a pair may as well be the end of one run and the beginning of the next
            length = 1
        runs.append((int(flat[at]), step if length > 1 else 1, length))
        at += length
    return runs


def _repeats(flat: Array) -> int:
    """How often each index stands in a row, where all do equally often."""
    changes = np.flatnonzero(np.diff(flat)) + 1
    if not len(changes):
        return len(flat)
    times = int(np.gcd.reduce([*changes, len(flat)]))
    return times


def _run(ctx: Context, x: Value, axis: int, start: int, step: int, length: int) -> Value:
    shape = x.type.shape
    one = {"starts": [0] * len(shape), "stops": [*shape], "steps": [1] * len(shape)}
    if step == 0:
        point = _run(ctx, x, axis, start, 1, 1)
        wide = (*shape[:axis], length, *shape[axis + 1 :])
        return ctx.emit(graph.Broadcast, point, shape=wide)
    if (start, step, length) == (0, 1, shape[axis]):
        return x
    last = start + (length - 1) * step
    one["starts"][axis] = start
    one["stops"][axis] = start if not length else last + (1 if step > 0 else -1)
    one["steps"][axis] = step
    options: dict[str, Any] = {name: tuple(values) for name, values in one.items()}
    return ctx.emit(graph.Slice, x, **options)
