"""Regions of an image brought to one size, and convolutions that carry their state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.ops_activation import swish
from minicc.frontends.onnx.ops_movement import cut
from minicc.frontends.onnx.ops_sampling import neighbours
from minicc.frontends.onnx.reader import Node
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.affine import Dim
from minicc.ir.core import Array, Value

_ATTRIBUTES = "coordinate_transformation_mode mode output_height output_width sampling_ratio "
_ATTRIBUTES += "spatial_scale"
_MOST_SAMPLES = 1 << 20  # of a cell along an axis


class _Samples(NamedTuple):
    """The samples along an axis, for each region or (in one row) for all.

    Where they lie in a region whose side is 1, whether there is one, and how many a cell has; each
    cell has room for `room` of them.
    """

    places: Array
    there: Array
    counts: Array
    room: int


@operator("RoiAlign", attributes=_ATTRIBUTES)
def roi_align(ctx: Context, node: Node, x: Value, regions: Value, images: Value) -> Value:
    """The mean (or maximum) of samples in each cell of a grid over each region."""
    if x.type.rank != 4 or regions.type.rank != 2:
        raise ctx.refused("RoiAlign wants [N, C, H, W] and [regions, 4]")
    half = "half_pixel" if ctx.opset >= 16 else "output_half_pixel"
    moved = node.text("coordinate_transformation_mode", half) == "half_pixel"
    count, channels = regions.type.shape[0], x.type.shape[1]
    cells = (node.integer("output_height", 1), node.integer("output_width", 1))
    scale = ctx.scalar(node.number("spatial_scale", 1.0), regions)
    scaled = ctx.emit(graph.Mul, regions, scale)
    if moved:
        scaled = ctx.emit(graph.Sub, scaled, ctx.scalar(0.5, scaled))
    samples = [_samples(ctx, node, scaled, 1 - k, n, moved) for k, n in enumerate(cells)]
    rows, columns = (n * s.room for n, s in zip(cells, samples, strict=True))
    places: list[Value] = []
    seen: list[Value] = []
    for k, shape in enumerate(((rows, 1), (1, columns))):
        line = _line(ctx, scaled, 1 - k, samples[k], moved, x.type.shape[2 + k])
        for out, v in zip((places, seen), line, strict=True):
            apart = ctx.reshape(v, (count, *shape))
            wide = ctx.emit(graph.Broadcast, apart, shape=(count, rows, columns))
            out.append(ctx.reshape(wide, (count, rows * columns)))
    chosen = ctx.emit(graph.Gather, x, images, axis=0)
    found, weights = neighbours(ctx, chosen, places, "linear", "border", True)
    assert weights is not None
    kept = ctx.emit(graph.And, *seen)
    kept = ctx.reshape(kept, (count, 1, rows * columns))
    weights = ctx.emit(graph.Select, kept, weights, ctx.scalar(0, weights))
    most = node.text("mode", "avg") == "max"
    if most:
        factors = ctx.reshape(weights, (*weights.type.shape, 1))
        each = ctx.emit(graph.Mul, found, factors)
        best = ctx.emit(graph.Reduce, each, axes=(1,), combine="max")
        points = ctx.emit(graph.Transpose, best, perm=(0, 2, 1))
    else:
        points = ctx.emit(graph.Contract, found, weights, equation="ntpc,ntp->ncp")
    sides = [n for k in (0, 1) for n in (cells[k], samples[k].room)]
    return _pooled(ctx, ctx.reshape(points, (count, channels, *sides)), samples, most)


def _pooled(ctx: Context, x: Value, samples: Sequence[_Samples], most: bool) -> Value:
    """The mean or maximum of each cell's samples, of [regions, C, cells, room, cells, room]."""
    over: dict[str, Any] = {"axes": (3, 5)}
    number = np.multiply(*[s.counts for s in samples]).reshape(-1, 1, 1, 1)
    if not most:
        total = ctx.emit(graph.Reduce, x, combine="add", **over)
        share = 1 / np.maximum(number, 1)
        return ctx.emit(graph.Mul, total, ctx.constant(share.astype(x.type.dtype.numpy)))
    if not all(s.there.all() for s in samples):
        high, wide = (
            s.there.reshape(len(s.counts), 1, s.there.shape[1] // s.room, s.room) for s in samples
        )
        there = high[..., None, None] & wide[:, :, None, None]
        x = ctx.emit(graph.Select, ctx.constant(there), x, ctx.scalar(-np.inf, x))
    best = ctx.emit(graph.Reduce, x, combine="max", **over)
    if number.all():
        return best
    return ctx.emit(graph.Select, ctx.constant(number > 0), best, ctx.scalar(0, best))


def _samples(
    ctx: Context, node: Node, regions: Value, axis: int, cells: int, moved: bool
) -> _Samples:
    """The samples along an axis: as many as the node says, or as a region's cell has pixels."""
    ratio = node.integer("sampling_ratio", 0)
    if ratio < 0 or cells < 1:
        raise ctx.wrong(f"attribute sampling_ratio is {ratio}, and it has {cells} cells")
    if ratio:
        counts = np.array([ratio])
    else:
        known = ctx.known(regions, "regions, which say how many samples they have,")
        length = known[:, axis + 2] - known[:, axis]
        length = length if moved else np.maximum(length, 1)
        wanted = np.nan_to_num(np.ceil(length / cells), posinf=_MOST_SAMPLES)
        counts = np.clip(wanted, 0, _MOST_SAMPLES).astype(np.int64)
    room = int(counts.max(initial=1))
    ctx.room(len(counts), cells, room)
    number = np.arange(room)
    within = (number + 0.5) / np.maximum(counts, 1)[:, None]
    places = (np.arange(cells)[:, None] + within[:, None]) / cells
    there = np.broadcast_to(number < counts[:, None, None], places.shape)
    rows = (len(counts), cells * room)
    return _Samples(places.reshape(rows), there.reshape(rows), counts, room)


def _line(
    ctx: Context, regions: Value, axis: int, samples: _Samples, moved: bool, extent: Dim
) -> tuple[Value, Value]:
    """The samples' coordinates [regions, samples] along an axis, and whether they count."""
    first, last = (cut(ctx, regions, {1: (k, k + 1, 1)}) for k in (axis, axis + 2))
    length = ctx.emit(graph.Sub, last, first)
    if not moved:
        length = ctx.emit(graph.Max, length, ctx.scalar(1, length))
    steps = ctx.constant(samples.places.astype(regions.type.dtype.numpy))
    place = ctx.emit(graph.Add, first, ctx.emit(graph.Mul, length, steps))
    low = ctx.emit(graph.Le, ctx.scalar(-1, place), place)
    high = ctx.emit(graph.Le, place, ctx.extent(extent, place))
    inside = ctx.emit(graph.And, low, high)
    if not samples.there.all():
        inside = ctx.emit(graph.And, inside, ctx.constant(samples.there))
    return place, inside


@operator("CausalConvWithState", attributes="activation")
def causal_convolution(
    ctx: Context,
    node: Node,
    x: Value,
    w: Value,
    b: Value | None = None,
    past: Value | None = None,
) -> tuple[Value, ...]:
    """A convolution of each channel over the steps so far, and the last steps for the next call."""
    channels = x.type.shape[1]
    apart = node.integer("dilation", 1)  # which ONNX Runtime's operator has
    w = ctx.taken_as(w, (channels, 1, w.type.shape[2]))
    reach = (w.type.shape[2] - 1) * apart
    if past is None:
        nothing = (x.type.shape[0], channels, reach)
        past = ctx.emit(graph.Broadcast, ctx.scalar(0, x), shape=nothing)
    whole = ctx.emit(graph.Concat, (past, x), axis=2) if reach else x
    out = ctx.emit(graph.Conv, whole, w, strides=(1,), dilations=(apart,), groups=channels)
    if b is not None:
        out = ctx.emit(graph.Add, out, ctx.reshape(b, (channels, 1)))
    way = node.text("activation", "none")
    if way in ("silu", "swish"):
        out = swish(ctx, node, out)
    elif way != "none":
        raise ctx.wrong(f"attribute activation is {way!r}")
    length = whole.type.shape[2]
    return out, cut(ctx, whole, {2: (length - reach, length, 1)})
