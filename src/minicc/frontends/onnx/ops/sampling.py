"""Elements at places that are data: one gather of all neighbours, then a product with weights."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import Any, NamedTuple

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.lazy import Lazy
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.movement import cut
from minicc.frontends.onnx.ops.normalize import per_channel
from minicc.frontends.onnx.ops.window import with_kernel
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.affine import Dim, number
from minicc.ir.core import Array, Op, Value
from minicc.ir.graph.shapes import Shape
from minicc.ir.types import BF16, F16, F32, F64, I64, static_shape

_ALPHA = -0.75  # of cubic interpolation
_MOST_POINTS = 1 << 20  # of a grid, which are made when the model is read


class Taps(NamedTuple):
    """The neighbours of points along an axis, all of them whole numbers, as floats, or indices.

    Where the first is, [N, P], and how far each is from it; and (None for one) their weights,
    [N, P] each.
    """

    first: Value
    steps: Sequence[int]
    weights: Sequence[Value] | None


def _op(ctx: Context, cls: type[Op], a: Value, b: Value | float) -> Value:
    return ctx.emit(cls, a, b if isinstance(b, Value) else ctx.scalar(b, a))


def _polynomial(ctx: Context, x: Value, factors: Sequence[float]) -> Value:
    """A polynomial of which the highest factor comes first."""
    out = _op(ctx, graph.Add, _op(ctx, graph.Mul, x, factors[0]), factors[1])
    for factor in factors[2:]:
        out = _op(ctx, graph.Add, ctx.emit(graph.Mul, out, x), factor)
    return out


def _taps(ctx: Context, x: Value, mode: str) -> Taps:
    """The neighbours of coordinates along an axis."""
    if mode == "nearest":
        return Taps(x, (0,), None)
    left = ctx.emit(graph.Floor, x)
    share = ctx.emit(graph.Sub, x, left)
    rest = ctx.emit(graph.Sub, ctx.scalar(1, x), share)
    if mode == "linear":
        return Taps(left, (0, 1), (rest, share))
    near = (_ALPHA + 2, -(_ALPHA + 3), 0, 1)
    # of the distance less 1
    far = (_ALPHA, -2 * _ALPHA, _ALPHA, 0)
    ways = ((share, far), (share, near), (rest, near), (rest, far))
    return Taps(left, (-1, 0, 1, 2), [_polynomial(ctx, at, way) for at, way in ways])


def _reflected(ctx: Context, x: Value, low: float, width: Dim) -> Value:
    """Thrown back at the borders, that are so far apart, until it lies within."""
    if width == 0:
        return ctx.emit(graph.Mul, x, ctx.scalar(0, x)) if low == 0 else x
    # twice the width is a period, of which the second half runs backwards
    less = _op(ctx, graph.Sub, x, low)
    period = ctx.extent(2 * width, x)
    within = ctx.emit(graph.Mod, less, period)
    back = ctx.emit(graph.Sub, period, within)
    out = ctx.emit(graph.Min, within, back)
    if not isinstance(width, int) and low == 0:
        # a point has no width: all is thrown back there
        out = ctx.emit(graph.Select, _op(ctx, graph.Eq, period, 0), ctx.scalar(0, x), out)
    return _op(ctx, graph.Add, out, low)


def _within(ctx: Context, x: Value, extent: Dim, padding: str, corners: bool) -> Value:
    """A coordinate as the padding brings it back; as it is where zeros are around.

    Without corners half an element around the tensor belongs to it and is left as it is.
    """
    if padding == "zeros":
        return x
    low, width = (0.0, extent - 1) if corners else (-0.5, extent)
    if padding == "reflection":
        back = _reflected(ctx, x, low, width)
    else:
        back = ctx.emit(graph.Min, _op(ctx, graph.Max, x, 0), ctx.extent(extent - 1, x))
        if corners:
            return back
    high = _op(ctx, graph.Add, ctx.extent(width, x), low)
    outside = ctx.emit(graph.Or, _op(ctx, graph.Lt, x, low), ctx.emit(graph.Lt, high, x))
    return ctx.emit(graph.Select, outside, back, x)


def sampled(
    ctx: Context, x: Value, places: Sequence[Value], mode: str, padding: str, corners: bool
) -> Value:
    """[N, P, C] elements of [N, C, spatial...] at coordinates [N, P] along each spatial axis."""
    batch, channels = x.type.shape[:2]
    extents: Shape = x.type.shape[2:]
    indices: list[Value] = []
    inside: list[Value] = []
    weights: list[Value] = []
    for k, (place, n) in enumerate(zip(places, extents, strict=True)):
        at = ctx.emit(graph.Round, place) if mode == "nearest" else place
        # of cubic weights only the taps are brought back, as torch and ONNX Runtime have it
        at = at if mode == "cubic" else _within(ctx, at, n, padding, corners)
        taps = _taps(ctx, at, mode)
        index, kept = _index(ctx, taps, n, padding, corners)
        step = ctx.extent(graph.product(extents[k + 1 :]), index)
        indices.append(ctx.emit(graph.Mul, index, step))
        inside += [] if kept is None else [kept]
        weights += [] if taps.weights is None else [_stacked(ctx, taps.weights)]
    flat = ctx.reshape(x, (batch, channels, graph.product(extents)))
    rows = ctx.emit(graph.Transpose, flat, perm=(0, 2, 1))
    index = _crossed(ctx, graph.Add, indices)
    vectors = ctx.reshape(index, (*index.type.shape, 1))
    found = ctx.emit(graph.GatherND, rows, vectors, batch=1)
    if inside:
        mask = _crossed(ctx, graph.And, inside)
        mask = ctx.reshape(mask, (*mask.type.shape, 1))
        found = ctx.emit(graph.Select, mask, found, ctx.scalar(0, found))
    if weights:
        factors = _crossed(ctx, graph.Mul, weights)
        return ctx.emit(graph.Contract, found, factors, equation="ntpc,ntp->npc")
    return ctx.reshape(found, (batch, found.type.shape[2], channels))


def _stacked(ctx: Context, parts: Sequence[Value]) -> Value:
    """Values [N, P] of each tap, [N, T, P]."""
    rows = [ctx.reshape(v, (v.type.shape[0], 1, v.type.shape[1])) for v in parts]
    return ctx.emit(graph.Concat, tuple(rows), axis=1)


def _crossed(ctx: Context, cls: type[Op], parts: Sequence[Value]) -> Value:
    """What an op makes of the taps [N, T, P] of all axes: each with each, [N, T * T ..., P]."""
    rank = len(parts)
    apart: list[Value] = []
    for k, part in enumerate(parts):
        batch, taps, points = part.type.shape
        shape = (batch, *(1,) * k, taps, *(1,) * (rank - k - 1), points)
        apart.append(ctx.reshape(part, shape))
    whole = reduce(lambda a, b: ctx.emit(cls, a, b), apart)
    batch, *taps, points = whole.type.shape
    return ctx.reshape(whole, (batch, graph.product(tuple(taps)), points))


def _index(
    ctx: Context, taps: Taps, extent: Dim, padding: str, corners: bool
) -> tuple[Value, Value | None]:
    """Where the neighbours along an axis stand, [N, T, P]; with zeros around, which are there."""
    steps = np.array(taps.steps).astype(taps.first.type.dtype.numpy)
    column = ctx.constant(steps.reshape(-1, 1))
    batch, points = taps.first.type.shape
    place = ctx.emit(graph.Add, ctx.reshape(taps.first, (batch, 1, points)), column)
    place = _within(ctx, place, extent, padding, corners)
    kept: Value | None = None
    if padding == "zeros":
        above = ctx.emit(graph.Le, ctx.scalar(0, place), place)
        below = ctx.emit(graph.Le, place, ctx.extent(extent - 1, place))
        kept = ctx.emit(graph.And, above, below)
        place = ctx.emit(graph.Select, kept, place, ctx.scalar(0, place))
    # also what is no number must not lead out of the tensor
    whole = _op(ctx, graph.Max, ctx.cast(place, I64), 0)
    return ctx.emit(graph.Min, whole, ctx.extent(extent - 1, whole)), kept


@operator("GridSample", attributes="align_corners mode padding_mode")
def grid_sample(ctx: Context, node: Node, x: Value, grid: Value) -> Value:
    """Elements at places that a grid names, from -1 to 1 along each axis, the last axis first."""
    rank = x.type.rank - 2
    if rank < 1 or grid.type.rank != x.type.rank:
        raise ctx.refused("GridSample wants [N, C, spatial...] and [N, spatial..., axes]")
    grid = ctx.taken_as(grid, (*grid.type.shape[:-1], rank))
    mode = node.text("mode", "linear")
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    padding = node.text("padding_mode", "zeros")
    if mode not in ("nearest", "linear", "cubic"):
        raise ctx.wrong(f"attribute mode is {mode!r}")
    if padding not in ("zeros", "border", "reflection"):
        raise ctx.wrong(f"attribute padding_mode is {padding!r}")
    corners = bool(node.integer("align_corners", 0))
    element = x.type.dtype
    narrow = element in (F16, BF16)
    wide = ctx.cast(x, F32) if narrow else x
    exact = wide.type.dtype if wide.type.dtype.is_float else F32
    shape = grid.type.shape
    batch, points = shape[0], graph.product(shape[1:-1])
    flat = ctx.cast(ctx.reshape(grid, (batch, points, rank)), exact)
    places: list[Value] = []
    for axis in range(rank):
        k = rank - 1 - axis
        along = ctx.reshape(cut(ctx, flat, {2: (k, k + 1, 1)}), (batch, points))
        n = x.type.shape[2 + axis]
        from_low = _op(ctx, graph.Add, along, 1)
        width = ctx.extent(n - 1 if corners else n, along)
        if corners:
            places.append(ctx.emit(graph.Mul, _op(ctx, graph.Mul, from_low, 0.5), width))
        else:
            far = _op(ctx, graph.Sub, ctx.emit(graph.Mul, from_low, width), 1)
            places.append(_op(ctx, graph.Mul, far, 0.5))
    found = sampled(ctx, ctx.cast(wide, exact), places, mode, padding, corners)
    out = ctx.emit(graph.Transpose, found, perm=(0, 2, 1))
    return ctx.reshape(ctx.cast(out, element), (*x.type.shape[:2], *shape[1:-1]))


@operator("AffineGrid", attributes="align_corners")
def affine_grid(ctx: Context, node: Node, theta: Value, size: Value) -> Value:
    """The places of a grid's points under an affine map each, for GridSample."""
    _, _, *extents = ctx.dims(size, "size")
    corners = bool(node.integer("align_corners", 0))
    sides = [n for n in extents if isinstance(n, int)]
    if len(sides) < len(extents) or prod(sides) > _MOST_POINTS:
        known = _free_points(ctx, extents, corners, theta)
    else:
        lines: list[Array] = []
        for n in sides:
            if corners:
                lines.append(np.linspace(-1, 1, n) if n > 1 else np.zeros(n))
            else:
                lines.append((2 * np.arange(n) + 1) / n - 1)
        columns = [c.ravel() for c in reversed(np.meshgrid(*lines, indexing="ij"))]
        points = np.stack([*columns, np.ones(prod(sides))], axis=1)
        known = ctx.constant(points.astype(theta.type.dtype.numpy))
    out = ctx.emit(graph.Contract, known, theta, equation="ph,nah->npa")
    return ctx.reshape(out, (theta.type.shape[0], *extents, len(extents)))


def _free_points(ctx: Context, extents: Sequence[Dim], corners: bool, like: Value) -> Value:
    """The points of a grid of free extents, each with a 1 after its coordinates."""
    count = graph.product(tuple(extents))
    columns = [ctx.emit(graph.Broadcast, ctx.scalar(1, like), shape=(count, 1))]
    for k, m in enumerate(extents):
        shape = (m, *(1,) * (len(extents) - k - 1))
        x: Any = Lazy(ctx, ctx.emit(graph.Iota, shape=shape, axis=0, dtype=F64))
        n: Any = Lazy(ctx, ctx.extent(m, F64))
        line: Any = (x * 2 + 1) / n - 1
        if corners:
            line = np.where(np.equal(n, 1), x * 0, x * 2 / (n - 1) - 1)
        wide = ctx.emit(graph.Broadcast, line.cast(like.type.dtype), shape=tuple(extents))
        columns.insert(0, ctx.reshape(wide, (count, 1)))
    return ctx.emit(graph.Concat, tuple(columns), axis=1)


def _grid(ctx: Context, axis: int, steps: tuple[int, int, int], shape: Shape, like: Value) -> Value:
    """Where the taps of an axis are, for each tap of a kernel and each place that it stands at.

    `steps` are from tap to tap and from place to place, and from the first element to the first.
    """
    rank = len(shape) // 2
    apart, stride, start = steps
    known = all(isinstance(n, int) for n in shape)

    def line(axis: int) -> Any:
        column = (shape[axis], *(1,) * (2 * rank - axis - 1))
        if known:
            return np.arange(number(shape[axis])).reshape(static_shape(column))
        return Lazy(ctx, ctx.emit(graph.Iota, shape=column, axis=0, dtype=like.type.dtype))

    whole = line(axis) * apart + start + line(rank + axis) * stride
    if known:
        flat = np.broadcast_to(whole, static_shape(shape)).reshape(1, -1)
        return ctx.constant(flat.astype(like.type.dtype.numpy))
    wide = ctx.emit(graph.Broadcast, whole.value, shape=shape)
    return ctx.reshape(wide, (1, graph.product(shape)))


@operator("DeformConv", attributes="dilations group kernel_shape offset_group pads strides")
def deform_conv(
    ctx: Context,
    node: Node,
    x: Value,
    w: Value,
    offset: Value,
    b: Value | None = None,
    mask: Value | None = None,
) -> Value:
    """A convolution whose taps are moved by offsets, and weighted by a mask."""
    rank = x.type.rank - 2
    batch, channels = x.type.shape[:2]
    outputs, width, *kernel = with_kernel(ctx, node, w).type.shape
    counts: Shape = offset.type.shape[2:]
    groups, moved = node.integer("group", 1), node.integer("offset_group", 1)
    strides = node.integers("strides") or (1,) * rank
    dilations = node.integers("dilations") or (1,) * rank
    pads = node.integers("pads") or (0,) * (2 * rank)
    taps, points = graph.product(tuple(kernel)), graph.product(counts)
    ctx.demand(channels, width * groups, f"{groups} groups of {width} of {channels} channels")
    share = ctx.quotient(channels, moved, "channels")
    filters = ctx.quotient(outputs, groups, "filters")
    apart = ctx.reshape(offset, (batch * moved, taps, rank, points))
    places: list[Value] = []
    for axis in range(rank):
        here = ctx.reshape(
            cut(ctx, apart, {2: (axis, axis + 1, 1)}), (batch * moved, taps * points)
        )
        steps = (dilations[axis], strides[axis], -pads[axis])
        grid = _grid(ctx, axis, steps, (*kernel, *counts), here)
        places.append(ctx.emit(graph.Add, here, grid))
    image = ctx.reshape(x, (batch * moved, share, *x.type.shape[2:]))
    found = sampled(ctx, image, places, "linear", "zeros", True)
    if mask is not None:
        shown = ctx.reshape(mask, (batch * moved, taps * points, 1))
        found = ctx.emit(graph.Mul, found, shown)
    found = ctx.reshape(found, (batch, moved, taps, points, share))
    found = ctx.emit(graph.Transpose, found, perm=(0, 2, 3, 1, 4))
    found = ctx.reshape(found, (batch, taps, points, groups, width))
    weights = ctx.reshape(w, (groups, filters, width, taps))
    out = ctx.emit(graph.Contract, found, weights, equation="ntpgc,goct->npgo")
    out = ctx.emit(graph.Transpose, out, perm=(0, 2, 3, 1))
    out = ctx.reshape(out, (batch, outputs, *counts))
    return out if b is None else ctx.emit(graph.Add, out, per_channel(ctx, b, out))
