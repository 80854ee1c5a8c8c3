"""Resizing a free axis: by slices where taps repeat from period to period, else by gathers.

So is one resized of which the part is cropped that the run's data say.

The indices and weights of gathers are computed when the model runs, by the formulas and in the
precision that `interpolation` has for known extents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.lazy import Lazy
from minicc.frontends.onnx.ops.interpolation import (
    Axis,
    Table,
    period_of,
    precision_of,
    reach_of,
    table_of,
    taps_of,
)
from minicc.frontends.onnx.ops.movement import cut
from minicc.frontends.onnx.ops.pad import padded_by_slices
from minicc.ir import graph
from minicc.ir.affine import Dim, floordiv, maximum
from minicc.ir.core import Value
from minicc.ir.types import F64, I64

# Interpolations with more slices than that are gathers.
_MOST_SLICES = 24
# Coordinates that depend on places and the scale alone.
_OF_PLACES = ("half_pixel", "asymmetric", "tf_half_pixel_for_nn")
# Extents whose taps tell those of all; odd and even, and longer than a window.
_SAMPLES = (24, 35)


def resized_free(ctx: Context, x: Value, axis: int, plan: Axis, fill: float) -> Value:
    """`x` with an axis of a free extent, or of a free new one, resized."""
    table = _repeating(plan)
    if table is not None:
        return _by_phases(ctx, x, axis, plan, table)
    element = precision_of(plan.mode)
    n, m = (Lazy(ctx, ctx.extent(side, element)) for side in (plan.extent, plan.length))
    known = isinstance(plan.scale, float)

    def precise(x: Any) -> Any:
        return Lazy(ctx, x.cast(element)) if isinstance(x, Lazy) else x

    scale = m / n if plan.scale is None else precise(plan.scale)
    low, high = map(precise, plan.roi)
    bound = replace(plan, extent=n, length=m, scale=scale, roi=(low, high))
    if plan.antialias and not known and plan.mode != "nearest":
        return _by_many_taps(ctx, x, axis, plan, bound, fill)
    places = ctx.emit(graph.Iota, shape=(plan.length,), axis=0, dtype=element)
    taps = taps_of(bound, Lazy(ctx, places))
    column = (plan.length, *(1,) * (x.type.rank - axis - 1))
    parts: list[Value] = []
    for place, weight in zip(taps.indices, taps.weights, strict=True):
        part = ctx.emit(graph.Gather, x, _inside(ctx, place, plan.extent), axis=axis)
        if isinstance(weight, Lazy):
            part = ctx.emit(graph.Mul, part, ctx.reshape(weight.cast(x.type.dtype), column))
        parts.append(part)
    out = _sum(ctx, parts)
    if taps.outside is None:
        return out
    here = ctx.reshape(taps.outside.value, column)
    return ctx.emit(graph.Select, here, ctx.scalar(fill, out), out)


def _by_many_taps(ctx: Context, x: Value, axis: int, plan: Axis, bound: Axis, fill: float) -> Value:
    """The same with as many taps as a scale wants that is free: [length, taps] of all at once.

    There may be more than it wants, which weigh nothing. `bound` is `plan` as values of the graph.
    """
    reach = reach_of(plan.mode)
    # a scale that gives that length is more than (2 * length - 1) / (2 * extent)
    wanted = floordiv(2 * reach * plan.extent, maximum(2 * plan.length - 1, 1)) + 1
    side = maximum(wanted, reach)
    rows = Lazy(ctx, ctx.emit(graph.Iota, shape=(plan.length, 1), axis=0, dtype=F64))
    count = Lazy(ctx, ctx.emit(graph.Iota, shape=(2 * side,), axis=0, dtype=F64))
    offset: Any = count + 1 - Lazy(ctx, ctx.extent(side, F64))

    def total_of(weights: Sequence[Lazy]) -> Lazy:
        (each,) = weights
        total = ctx.emit(graph.Reduce, each.value, axes=(1,), combine="add", keepdims=True)
        return Lazy(ctx, total)

    taps = taps_of(bound, rows, (offset,), total_of)
    (place,), (weight,) = taps.indices, taps.weights
    found = ctx.emit(graph.Gather, x, _inside(ctx, place, plan.extent), axis=axis)
    before, after = "abcdefgh"[:axis], "abcdefgh"[axis + 1 : x.type.rank]
    equation = f"{before}yz{after},yz->{before}y{after}"
    out = ctx.emit(graph.Contract, found, weight.cast(x.type.dtype), equation=equation)
    if taps.outside is None:
        return out
    here = ctx.reshape(taps.outside.value, (plan.length, *(1,) * len(after)))
    return ctx.emit(graph.Select, here, ctx.scalar(fill, out), out)


def _inside(ctx: Context, place: Lazy, extent: Dim) -> Value:
    """Places as indices, those beyond an axis at its ends."""
    last = ctx.extent(extent - 1, I64)
    above = ctx.emit(graph.Max, place.cast(I64), ctx.scalar(0, I64))
    return ctx.emit(graph.Min, above, last)


def _sum(ctx: Context, parts: Sequence[Value]) -> Value:
    return reduce(lambda a, b: ctx.emit(graph.Add, a, b), parts)


def _repeating(plan: Axis) -> Table | None:
    """The taps of one period, which has as many elements as one of the axis gives, or one.

    None where they don't repeat, or not for all extents alike.
    """
    if not isinstance(plan.scale, float) or isinstance(plan.roi[0], Lazy):
        return None
    whole, parts = plan.scale.as_integer_ratio()
    if 1 not in (whole, parts) or whole * parts > _MOST_SLICES:
        return None
    if parts > 1 and plan.coordinates not in _OF_PLACES:
        return None
    found: list[Table] = []
    for n in _SAMPLES:
        extent = n * parts + (parts > 1) * (n % 2)
        table = table_of(replace(plan, extent=extent, length=int(extent * plan.scale)))
        period, step = period_of(table)
        if (period, step) != (whole, parts) or table.outside.any():
            return None
        if period * table.indices.shape[1] > _MOST_SLICES:
            return None
        found.append(Table(*[part[:period] for part in table]))
    first, second = found
    return first if all(map(np.array_equal, first, second)) else None


def _by_phases(ctx: Context, x: Value, axis: int, plan: Axis, table: Table) -> Value:
    """A sum of slices for each phase of the period; then the phases, one beside the other."""
    period = len(table.indices)
    step = plan.scale.as_integer_ratio()[1]
    rounds: Dim = plan.length // period
    low = max(-int(table.indices.min()), 0)
    high = max(int(table.indices.max()) - step + 1, 0)
    padded = padded_by_slices(ctx, x, axis, low, high, "edge") if low or high else x
    phases: list[Value] = []
    for places, weights in zip(table.indices, table.weights, strict=True):
        parts: list[Value] = []
        for place, weight in zip(places.tolist(), weights.tolist(), strict=True):
            if weight:
                first = place + low
                last = first + (rounds - 1) * step
                part = cut(ctx, padded, {axis: (first, last + 1, step)})
                scaled = weight != 1
                parts.append(ctx.emit(graph.Mul, part, ctx.scalar(weight, x)) if scaled else part)
        phases.append(_sum(ctx, parts))
    if period == 1:
        return phases[0]
    before, after = x.type.shape[:axis], x.type.shape[axis + 1 :]
    apart = (*before, rounds, 1, *after)
    joined = ctx.emit(graph.Concat, tuple(ctx.reshape(p, apart) for p in phases), axis=axis + 1)
    return ctx.reshape(joined, (*before, plan.length, *after))
