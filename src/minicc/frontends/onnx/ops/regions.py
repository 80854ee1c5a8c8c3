"""Regions of an image brought to one size, and convolutions that carry their state.

A cell of a region is a sum over pixels, or a maximum over neighbours of its samples, each with a
weight: one gather of rows of channels, whose sums are made where the rows are read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.host.nodes import numbers_below
from minicc.frontends.onnx.lazy import Lazy
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.activation import swish
from minicc.frontends.onnx.ops.movement import cut
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.affine import Dim, minimum
from minicc.ir.core import Op, Value
from minicc.ir.types import BF16, F16, F32, I64

_ATTRIBUTES = "coordinate_transformation_mode mode output_height output_width sampling_ratio "
_ATTRIBUTES += "spatial_scale"
_MOST_SAMPLES = 1 << 20  # of a cell along an axis


class _Neighbours(NamedTuple):
    """What the cells of all regions are made of along an axis.

    The places of pixels, what they weigh, and (None where all do) which of them count, each
    [R, cells, K]; and for each region, [R, 1, 1], whether it has any (None where all have).
    """

    places: Value
    weights: Value
    there: Value | None = None
    some: Value | None = None


def _array(ctx: Context, value: Value) -> Any:
    """A value on which NumPy's functions work."""
    return Lazy(ctx, value)


class _Samples:
    """The samples of all regions along an axis, of which each cell of each region has some.

    How many those of a region have is `count`, and `number` 0, 1, ... below the most.
    """

    def __init__(self, ctx: Context, node: Node, regions: Value, k: int, extent: Dim) -> None:
        self.ctx, self.extent, self.element = ctx, extent, regions.type.dtype
        self.cells = node.integer(("output_height", "output_width")[k], 1)
        self.ratio = node.integer("sampling_ratio", 0)
        if self.ratio < 0 or self.cells < 1:
            text = f"attribute sampling_ratio is {self.ratio}, and it has {self.cells} cells"
            raise ctx.wrong(text)
        half = "half_pixel" if ctx.opset >= 16 else "output_half_pixel"
        moved = node.text("coordinate_transformation_mode", half) == "half_pixel"
        scale = node.number("spatial_scale", 1.0)
        first, last = (self._corner(regions, at, scale, moved) for at in (1 - k, 3 - k))
        length = last - first
        self.first = first
        self.length: Any = length if moved else np.maximum(length, 1)
        self.count, self.number = self._numbers()
        self.place = self._at(self.number)

    def _corner(self, regions: Value, at: int, scale: float, moved: bool) -> Any:
        """A coordinate of all regions, [R, 1, 1]."""
        column = cut(self.ctx, regions, {1: (at, at + 1, 1)})
        corner = _array(self.ctx, self.ctx.reshape(column, (regions.type.shape[0], 1, 1)))
        return corner * scale - 0.5 if moved else corner * scale

    def _scalar(self, number: float) -> Any:
        return _array(self.ctx, self.ctx.scalar(number, self.element))

    def _numbers(self) -> tuple[Any, Any]:
        """As many as the node says, or as a cell has pixels, of which data decide then."""
        ctx = self.ctx
        if self.ratio:
            ctx.room(self.cells, self.ratio)
            number = np.arange(self.ratio).astype(self.element.numpy)
            return self._scalar(self.ratio), _array(ctx, ctx.constant(number))
        wanted = np.ceil(self.length / self.cells)
        # of what is no number there are none
        most = np.minimum(wanted, _MOST_SAMPLES)
        count = np.where(np.less(0, wanted), most, self._scalar(0))
        whole = ctx.emit(graph.Reduce, count.cast(I64), axes=(0, 1, 2), combine="max")
        end = ctx.emit(graph.Max, whole, ctx.scalar(0, I64))
        return count, _array(ctx, ctx.cast(numbers_below(ctx, end, "samples"), self.element))

    def _at(self, number: Any) -> Any:
        """Where samples of these numbers are in each cell, [R, cells, numbers]."""
        steps = np.arange(self.cells).astype(self.element.numpy)
        cell = _array(self.ctx, self.ctx.constant(steps.reshape(-1, 1)))
        within = (number + 0.5) / np.maximum(self.count, 1)
        return self.first + self.length * ((cell + within) / self.cells)

    def _clipped(self, place: Any) -> Any:
        high = _array(self.ctx, self.ctx.extent(self.extent - 1, self.element))
        return np.minimum(np.maximum(place, 0), high)

    def _there(self) -> Any:
        """Which samples there are, [R, 1, numbers], where regions have unlike numbers of them."""
        return None if self.ratio else np.less(self.number, self.count)

    def _seen(self) -> Any:
        """Which samples there are that the image is around, or nearly."""
        edge = _array(self.ctx, self.ctx.extent(self.extent, self.element))
        seen: Any = np.less_equal(-1, self.place) & np.less_equal(self.place, edge)
        there = self._there()
        return seen if there is None else seen & there

    def _index(self, place: Any) -> Value:
        """Places as indices; also what is no number must not lead out of the tensor."""
        ctx = self.ctx
        whole = ctx.emit(graph.Max, place.cast(I64), ctx.scalar(0, I64))
        return ctx.emit(graph.Min, whole, ctx.extent(self.extent - 1, I64))

    def _some(self) -> Value | None:
        some: Any = None if self.ratio else np.less(0, self.count)
        return None if some is None else some.value

    def taps(self, average: bool) -> _Neighbours:
        """The two neighbours of each sample, all of them apart."""
        ctx = self.ctx
        at = self._clipped(self.place)
        left = np.floor(at)
        share, seen = at - left, self._seen()
        part = 1 / np.maximum(self.count, 1) if average else self._scalar(1)
        weights = [np.where(seen, w, self._scalar(0)) * part for w in (1 - share, share)]
        weight = ctx.emit(graph.Concat, tuple([w.value for w in weights]), axis=2)
        indices = [self._index(p) for p in (left, left + 1)]
        places = ctx.emit(graph.Concat, tuple(indices), axis=2)
        there = self._there()
        if there is None:
            return _Neighbours(places, weight)
        wide = ctx.emit(graph.Broadcast, there.value, shape=indices[0].type.shape)
        twice = ctx.emit(graph.Concat, (wide, wide), axis=2)
        return _Neighbours(places, weight, twice, self._some())

    def pixels(self) -> _Neighbours:
        """The neighbours of all samples of a cell, which are side by side, each once.

        Samples are at most a pixel apart, so a cell has at most one pixel more than it has samples.
        """
        ctx = self.ctx
        numbers = self.number.value.type.shape[0]
        room = minimum(numbers + 1, self.extent)
        pixel = ctx.emit(graph.Iota, shape=(room, 1), axis=0, dtype=self.element)
        low, last = (
            np.floor(self._clipped(self._at(n))) for n in (self._scalar(0), self.count - 1)
        )
        count, cells, _ = low.value.type.shape
        # what is beyond the last pixel of a cell is that again, which weighs so much less each time
        end = last + 1
        first, stop = (_array(ctx, ctx.reshape(v.value, (count, cells, 1, 1))) for v in (low, end))
        column = np.minimum(first + _array(ctx, pixel), stop)
        rows = [
            _array(ctx, ctx.reshape(v.value, (count, cells, 1, numbers)))
            for v in (self._clipped(self.place), self._seen())
        ]
        near = np.maximum(1 - np.absolute(rows[0] - column), 0)
        part = np.where(rows[1], near, self._scalar(0))
        total = ctx.emit(graph.Reduce, part.value, axes=(3,), combine="add")
        places = _array(ctx, ctx.reshape(column.value, (count, cells, room)))
        whole = _array(ctx, ctx.extent(room, self.element))
        times = np.where(np.less(places, end), self._scalar(1), whole - (end - low))
        weights = _array(ctx, total) / (np.maximum(self.count, 1) * times)
        return _Neighbours(self._index(places), weights.value, None, self._some())


def _paired(ctx: Context, cls: type[Op], column: Value, row: Value) -> Value:
    """What an op makes of both axes of the image, [R, cells, cells, K, L]."""
    (count, cells, room), (_, others, more) = column.type.shape, row.type.shape
    high = ctx.reshape(column, (count, cells, 1, room, 1))
    return ctx.emit(cls, high, ctx.reshape(row, (count, 1, others, 1, more)))


@operator("RoiAlign", attributes=_ATTRIBUTES)
def roi_align(ctx: Context, node: Node, x: Value, regions: Value, images: Value) -> Value:
    """The mean (or maximum) of samples in each cell of a grid over each region."""
    if x.type.rank != 4 or regions.type.rank != 2:
        raise ctx.refused("RoiAlign wants [N, C, H, W] and [regions, 4]")
    batch, channels, height, width = x.type.shape
    count = regions.type.shape[0]
    exact = F32 if regions.type.dtype in (F16, BF16) else regions.type.dtype
    corners = ctx.cast(ctx.taken_as(regions, (count, 4)), exact)
    samples = [_Samples(ctx, node, corners, k, n) for k, n in enumerate((height, width))]
    average = node.text("mode", "avg") != "max"
    adaptive = average and not samples[0].ratio
    high, wide = (s.pixels() if adaptive else s.taps(average) for s in samples)
    # the only index that may be out of range is an image's, which is checked by looking it up
    numbers = ctx.emit(graph.Iota, shape=(batch,), axis=0, dtype=I64)
    image = ctx.emit(graph.Gather, numbers, ctx.taken_as(images, (count,)), axis=0)
    first = _array(ctx, ctx.reshape(image, (count, 1, 1))) * _array(ctx, ctx.extent(height, I64))
    line = (first + _array(ctx, high.places)) * _array(ctx, ctx.extent(width, I64))
    index = _paired(ctx, graph.Add, line.value, wide.places)
    weights = ctx.cast(_paired(ctx, graph.Mul, high.weights, wide.weights), x.type.dtype)
    turned = ctx.emit(graph.Transpose, x, perm=(0, 2, 3, 1))
    rows = ctx.reshape(turned, (graph.product((batch, height, width)), channels))
    found = ctx.emit(graph.Gather, rows, index, axis=0)
    if average:
        out = ctx.emit(graph.Contract, found, weights, equation="nijklc,nijkl->nijc")
    else:
        out = _greatest(ctx, found, weights, high, wide)
    if high.some is not None and wide.some is not None:
        some = ctx.emit(graph.And, high.some, wide.some)
        some = ctx.reshape(some, (count, 1, 1, 1))
        out = ctx.emit(graph.Select, some, out, ctx.scalar(0, out))
    return ctx.emit(graph.Transpose, out, perm=(0, 3, 1, 2))


def _greatest(
    ctx: Context, found: Value, weights: Value, high: _Neighbours, wide: _Neighbours
) -> Value:
    """The greatest of neighbours times their weights, of those that count."""
    each = ctx.emit(graph.Mul, found, ctx.reshape(weights, (*weights.type.shape, 1)))
    if high.there is not None and wide.there is not None:
        there = _paired(ctx, graph.And, high.there, wide.there)
        there = ctx.reshape(there, (*there.type.shape, 1))
        each = ctx.emit(graph.Select, there, each, ctx.scalar(-np.inf, each))
    return ctx.emit(graph.Reduce, each, axes=(3, 4), combine="max")


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
    before = (x.type.shape[0], channels, reach)
    if past is None:
        past = ctx.emit(graph.Broadcast, ctx.scalar(0, x), shape=before)
    past = ctx.taken_as(past, before)
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
