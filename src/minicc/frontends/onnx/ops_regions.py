"""Regions of an image brought to one size, and convolutions that carry their state.

Mirrors: ONNX's RoiAlign and CausalConvWithState, TorchVision's roi_align.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.ops_activation import swish
from minicc.frontends.onnx.ops_movement import cut
from minicc.frontends.onnx.ops_sampling import neighbours
from minicc.frontends.onnx.reader import Node
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.affine import Dim
from minicc.ir.core import Value

_ATTRIBUTES = "coordinate_transformation_mode mode output_height output_width sampling_ratio "
_ATTRIBUTES += "spatial_scale"


@operator("RoiAlign", attributes=_ATTRIBUTES)
def roi_align(ctx: Context, node: Node, x: Value, regions: Value, images: Value) -> Value:
    """The mean (or maximum) of samples in each cell of a grid over each region."""
    if x.type.rank != 4 or regions.type.rank != 2:
        raise ctx.refused("RoiAlign wants [N, C, H, W] and [regions, 4]")
    ratio = node.integer("sampling_ratio", 0)
    if ratio < 1:
        hint = "give the attribute sampling_ratio; 2 is usual"
        raise ctx.unsupported("as many samples as a region has pixels", hint)
    half = "half_pixel" if ctx.opset >= 16 else "output_half_pixel"
    moved = node.text("coordinate_transformation_mode", half) == "half_pixel"
    count, channels = regions.type.shape[0], x.type.shape[1]
    cells = (node.integer("output_height", 1), node.integer("output_width", 1))
    scale = ctx.scalar(node.number("spatial_scale", 1.0), regions)
    scaled = ctx.emit(graph.Mul, regions, scale)
    if moved:
        scaled = ctx.emit(graph.Sub, scaled, ctx.scalar(0.5, scaled))
    lines = [
        _line(ctx, scaled, 1 - k, n, ratio, moved, x.type.shape[2 + k]) for k, n in enumerate(cells)
    ]
    rows, columns = (n * ratio for n in cells)
    places: list[Value] = []
    seen: list[Value] = []
    for (place, inside), shape in zip(lines, ((rows, 1), (1, columns)), strict=True):
        for out, v in ((places, place), (seen, inside)):
            apart = ctx.reshape(v, (count, *shape))
            wide = ctx.emit(graph.Broadcast, apart, shape=(count, rows, columns))
            out.append(ctx.reshape(wide, (count, rows * columns)))
    chosen = ctx.emit(graph.Gather, x, images, axis=0)
    found, weights = neighbours(ctx, chosen, places, "linear", "border", True)
    assert weights is not None
    kept = ctx.emit(graph.And, *seen)
    kept = ctx.reshape(kept, (count, 1, rows * columns))
    weights = ctx.emit(graph.Select, kept, weights, ctx.scalar(0, weights))
    if node.text("mode", "avg") == "max":
        factors = ctx.reshape(weights, (*weights.type.shape, 1))
        each = ctx.emit(graph.Mul, found, factors)
        best = ctx.emit(graph.Reduce, each, axes=(1,), combine="max")
        points = ctx.emit(graph.Transpose, best, perm=(0, 2, 1))
    else:
        points = ctx.emit(graph.Contract, found, weights, equation="ntpc,ntp->ncp")
    grid = ctx.reshape(points, (count, channels, cells[0], ratio, cells[1], ratio))
    over: dict[str, Any] = {"axes": (3, 5)}
    if node.text("mode", "avg") == "max":
        return ctx.emit(graph.Reduce, grid, combine="max", **over)
    total = ctx.emit(graph.Reduce, grid, combine="add", **over)
    return ctx.emit(graph.Mul, total, ctx.scalar(1 / ratio**2, total))


def _line(
    ctx: Context, regions: Value, axis: int, cells: int, ratio: int, moved: bool, extent: Dim
) -> tuple[Value, Value]:
    """The samples' coordinates [regions, samples] along an axis, and whether they count."""
    first, last = (cut(ctx, regions, {1: (k, k + 1, 1)}) for k in (axis, axis + 2))
    length = ctx.emit(graph.Sub, last, first)
    if not moved:
        length = ctx.emit(graph.Max, length, ctx.scalar(1, length))
    share = (np.arange(cells * ratio) + 0.5) / (cells * ratio)
    steps = ctx.constant(share.reshape(1, -1).astype(regions.type.dtype.numpy))
    place = ctx.emit(graph.Add, first, ctx.emit(graph.Mul, length, steps))
    low = ctx.emit(graph.Le, ctx.scalar(-1, place), place)
    high = ctx.emit(graph.Le, place, ctx.extent(extent, place))
    return place, ctx.emit(graph.And, low, high)


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
    channels = ctx.static(x.type.shape[1], "the number of channels")
    reach = ctx.static(w.type.shape[2], "the length of the kernel") - 1
    if past is None:
        nothing = (x.type.shape[0], channels, reach)
        past = ctx.emit(graph.Broadcast, ctx.scalar(0, x), shape=nothing)
    whole = ctx.emit(graph.Concat, (past, x), axis=2) if reach else x
    out = ctx.emit(graph.Conv, whole, w, strides=(1,), dilations=(1,), groups=channels)
    if b is not None:
        out = ctx.emit(graph.Add, out, ctx.reshape(b, (channels, 1)))
    way = node.text("activation", "none")
    if way in ("silu", "swish"):
        out = swish(ctx, node, out)
    elif way != "none":
        raise ctx.wrong(f"attribute activation is {way!r}")
    length = whole.type.shape[2]
    return out, cut(ctx, whole, {2: (length - reach, length, 1)})
