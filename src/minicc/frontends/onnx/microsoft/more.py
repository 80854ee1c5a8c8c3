"""Operators of ONNX Runtime's own domain that ONNX has in another form, or that are small."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.microsoft.common import DOMAIN, attributes_of, permuted, single, standard
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.movement import cut
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.core import Op, Value
from minicc.ir.types import I64


@operator(f"{DOMAIN}.Trilu", attributes="upper")
def trilu(ctx: Context, node: Node, x: Value, k: Value | None = None) -> Value:
    """The upper or lower triangle of matrices, 0 elsewhere."""
    return standard(ctx, node, "Trilu", x, k, upper=node.integer("upper", 1))


@operator(f"{DOMAIN}.Range")
def range_(
    ctx: Context, node: Node, start: Value, limit: Value, delta: Value | None = None
) -> Value:
    """The numbers from `start` on before `limit`, `delta` or 1 apart."""
    step = ctx.scalar(1, start) if delta is None else single(ctx, delta, "delta")
    ends = (single(ctx, v, "end") for v in (start, limit))
    return standard(ctx, node, "Range", *ends, step)


@operator(f"{DOMAIN}.ExpandDims")
def expand_dims(ctx: Context, node: Node, x: Value, axis: Value) -> Value:
    """With a new axis of extent 1, counted in the result."""
    return standard(ctx, node, "Unsqueeze", x, ctx.reshape(axis, (1,)))


@operator(f"{DOMAIN}.GatherND")
def gather_nd(ctx: Context, node: Node, x: Value, indices: Value) -> Value:
    """For each vector of indices the slice with these coordinates."""
    return standard(ctx, node, "GatherND", x, indices)


@operator(f"{DOMAIN}.Pad", attributes="mode")
def pad(ctx: Context, node: Node, x: Value, pads: Value, value: Value | None = None) -> Value:
    """Elements before and after; the widths may be negative, or a row of a matrix."""
    line = ctx.reshape(pads, (2 * x.type.rank,))
    return standard(ctx, node, "Pad", x, line, value, **attributes_of(node, "mode"))


@operator(f"{DOMAIN}.GridSample", attributes="align_corners mode padding_mode")
def grid_sample(ctx: Context, node: Node, x: Value, grid: Value) -> Value:
    """Elements at places that a grid names, from -1 to 1 along each axis, the last axis first."""
    options = attributes_of(node, "align_corners mode padding_mode")
    return standard(ctx, node, "GridSample", x, grid, **options)


_TRANSPOSED = "auto_pad dilations group kernel_shape output_padding strides"


@operator(f"{DOMAIN}.ConvTransposeWithDynamicPads", attributes=_TRANSPOSED)
def conv_transpose(
    ctx: Context,
    node: Node,
    x: Value,
    w: Value,
    pads: Value | None = None,
    b: Value | None = None,
) -> Value:
    """A transposed convolution whose padding is an input."""
    options = attributes_of(node, _TRANSPOSED)
    if pads is not None:
        options["pads"] = ctx.integers(pads, "pads")
    return standard(ctx, node, "ConvTranspose", x, w, b, **options)


@operator(f"{DOMAIN}.TorchEmbedding")
def torch_embedding(
    ctx: Context,
    node: Node,
    weight: Value,
    indices: Value,
    padding: Value | None = None,
    scaling: Value | None = None,
) -> Value:
    """Rows at indices; what pads and what scales gradients means nothing in inference."""
    return ctx.emit(graph.Gather, weight, indices, axis=0)


def _complex(ctx: Context, a: Value, b: Value, sign: int) -> Value:
    """Products of complex numbers, whose parts are the last axis; `b` or its conjugate."""
    last = a.type.rank - 1
    text = "complex numbers have two parts, which are the last axis"
    for v in (a, b):
        ctx.demand(v.type.shape[-1] if v.type.rank else 0, 2, text)
    (re, im), (other, part) = (
        [cut(ctx, v, {v.type.rank - 1: (k, k + 1, 1)}) for k in (0, 1)] for v in (a, b)
    )

    def mixed(cls: type[Op], *parts: Value) -> Value:
        left = ctx.emit(graph.Mul, parts[0], parts[1])
        return ctx.emit(cls, left, ctx.emit(graph.Mul, parts[2], parts[3]))

    less, more = (graph.Sub, graph.Add) if sign > 0 else (graph.Add, graph.Sub)
    real = mixed(less, re, other, im, part)
    imaginary = mixed(more, im, other, re, part)
    axis = max(last, b.type.rank - 1)
    return ctx.emit(graph.Concat, (real, imaginary), axis=axis)


@operator(f"{DOMAIN}.ComplexMul")
def complex_mul(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    """Products of complex numbers."""
    return _complex(ctx, a, b, 1)


@operator(f"{DOMAIN}.ComplexMulConj")
def complex_mul_conj(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    """Products of complex numbers with the conjugates of others."""
    return _complex(ctx, a, b, -1)


@operator(f"{DOMAIN}.CDist", attributes="metric")
def cdist(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    """The distance of each row of a matrix to each row of another."""
    metric = node.text("metric", "sqeuclidean")
    if metric not in ("euclidean", "sqeuclidean"):
        raise ctx.unsupported(f"the metric {metric}", "use euclidean or sqeuclidean")
    if a.type.rank != 2 or b.type.rank != 2:
        raise ctx.refused("CDist wants two matrices")
    rows, width = a.type.shape
    less = ctx.emit(graph.Sub, ctx.reshape(a, (rows, 1, width)), b)
    square = ctx.emit(graph.Mul, less, less)
    total = ctx.emit(graph.Reduce, square, axes=(2,), combine="add", keepdims=False)
    return total if metric == "sqeuclidean" else ctx.emit(graph.Sqrt, total)


@operator(f"{DOMAIN}.UnfoldTensor", attributes="dim size step")
def unfold_tensor(ctx: Context, node: Node, x: Value) -> Value:
    """All windows of an axis; their elements are a new last axis."""
    axis = ctx.axis("dim", -1, x.type.rank)
    size, step = node.integer("size", 0), node.integer("step", 1)
    if size < 1 or step < 1:
        raise ctx.wrong(f"attributes size {size} and step {step}")
    return ctx.emit(graph.Frames, x, axis=axis, size=size, step=step)


@operator(f"{DOMAIN}.NGramRepeatBlock", attributes="ngram_size")
def n_gram_repeat_block(ctx: Context, node: Node, ids: Value, scores: Value) -> Value:
    """Scores of -inf for words that would repeat as many words as were said before."""
    size = node.integer("ngram_size", 0)
    if size < 1 or ids.type.rank != 2:
        raise ctx.refused(f"{size} words of sentences")
    steps = ids.type.shape[1]
    windows = steps - size + 1
    if isinstance(windows, int) and windows < 1:
        return scores
    words = cut(ctx, ids, {1: (size - 1, steps, 1)})
    never = ctx.scalar(-np.inf, scores)
    blocks = ctx.emit(graph.Broadcast, never, shape=words.type.shape)
    if size > 1:
        before = cut(ctx, ids, {1: (0, steps - 1, 1)})
        runs = ctx.emit(graph.Frames, before, axis=1, size=size - 1)
        newest = cut(ctx, ids, {1: (windows, steps, 1)})
        newest = ctx.reshape(newest, (ids.type.shape[0], 1, size - 1))
        alike = ctx.emit(graph.Eq, runs, newest)
        again = ctx.emit(graph.Reduce, alike, axes=(2,), combine="and")
        blocks = ctx.emit(graph.Select, again, never, ctx.scalar(np.inf, scores))
    return ctx.emit(graph.ScatterElements, scores, words, blocks, axis=1, combine="min")


def _line(ctx: Context, rois: Value, axis: int, count: int, extent: Value) -> Value:
    """Where the elements of each crop lie along an axis of the image: [crops, count]."""
    boxes = rois.type.shape[0]
    low, high = (cut(ctx, rois, {1: (k, k + 1, 1)}) for k in (axis, axis + 2))
    last = ctx.emit(graph.Sub, extent, ctx.scalar(1, extent))
    if count == 1:
        both = ctx.emit(graph.Mul, ctx.emit(graph.Add, low, high), ctx.scalar(0.5, rois))
        return ctx.emit(graph.Mul, both, last)
    span = ctx.emit(graph.Mul, ctx.emit(graph.Sub, high, low), last)
    step = ctx.emit(graph.Div, span, ctx.scalar(count - 1, rois))
    place = ctx.constant(np.arange(count, dtype=rois.type.dtype.numpy)[None])
    out = ctx.emit(graph.Mul, step, place)
    out = ctx.emit(graph.Add, ctx.emit(graph.Mul, low, last), out)
    return ctx.reshape(out, (boxes, count))


@operator(f"{DOMAIN}.CropAndResize", attributes="extrapolation_value mode")
def crop_and_resize(
    ctx: Context, node: Node, x: Value, rois: Value, images: Value, size: Value
) -> Value:
    """Parts of images, each resized to one size; their corners are kept."""
    mode = node.text("mode", "bilinear")
    if mode not in ("bilinear", "nearest"):
        raise ctx.wrong(f"attribute mode is {mode!r}, not 'bilinear' or 'nearest'")
    if x.type.rank != 4 or rois.type.rank != 2:
        raise ctx.refused("CropAndResize wants [N, C, H, W] and boxes [crops, 4]")
    shape = ctx.integers(size, "crop size")
    boxes = rois.type.shape[0]
    full = (boxes, *shape)
    lines: list[Value] = []
    inside: Value | None = None
    for k, (count, extent) in enumerate(zip(shape, x.type.shape[2:], strict=True)):
        whole = ctx.extent(extent, rois)
        at = ctx.reshape(
            _line(ctx, rois, k, count, whole), (boxes, count, 1) if k == 0 else (boxes, 1, count)
        )
        last = ctx.emit(graph.Sub, whole, ctx.scalar(1, whole))
        within = ctx.emit(
            graph.And,
            ctx.emit(graph.Le, ctx.scalar(0, at), at),
            ctx.emit(graph.Le, at, last),
        )
        inside = within if inside is None else ctx.emit(graph.And, inside, within)
        lines.append(ctx.emit(graph.Max, ctx.emit(graph.Min, at, last), ctx.scalar(0, at)))
    assert inside is not None
    pixels = permuted(ctx, x, (0, 2, 3, 1))
    batch = ctx.reshape(ctx.cast(images, I64), (boxes, 1, 1))

    def taken(row: Value, column: Value) -> Value:
        parts = [
            ctx.emit(graph.Broadcast, ctx.cast(v, I64), shape=full) for v in (batch, row, column)
        ]
        index = ctx.emit(graph.Concat, tuple(ctx.reshape(p, (*full, 1)) for p in parts), axis=3)
        return ctx.emit(graph.GatherND, pixels, index, batch=0)

    if mode == "nearest":
        out = taken(*(_nearest(ctx, at) for at in lines))
    else:
        out = _between(ctx, lines, taken)
    fill = ctx.scalar(node.number("extrapolation_value", 0.0), x)
    out = ctx.emit(graph.Select, ctx.reshape(inside, (*full, 1)), out, fill)
    return permuted(ctx, out, (0, 3, 1, 2))


def _nearest(ctx: Context, at: Value) -> Value:
    """The integer that is nearest; halves go up."""
    return ctx.emit(graph.Floor, ctx.emit(graph.Add, at, ctx.scalar(0.5, at)))


def _between(ctx: Context, lines: list[Value], taken: Any) -> Value:
    """The four pixels around each place, weighted by how near they are."""
    lows = [ctx.emit(graph.Floor, at) for at in lines]
    ends = [(low, ctx.emit(graph.Ceil, at)) for low, at in zip(lows, lines, strict=True)]
    shares = [ctx.emit(graph.Sub, at, low) for low, at in zip(lows, lines, strict=True)]
    total: Value | None = None
    for far in product((0, 1), repeat=2):
        weight: Value | None = None
        for k, share in zip(far, shares, strict=True):
            part = share if k else ctx.emit(graph.Sub, ctx.scalar(1, share), share)
            weight = part if weight is None else ctx.emit(graph.Mul, weight, part)
        assert weight is not None
        pixel = taken(*(end[k] for k, end in zip(far, ends, strict=True)))
        part = ctx.emit(graph.Mul, pixel, ctx.reshape(weight, (*weight.type.shape, 1)))
        total = part if total is None else ctx.emit(graph.Add, total, part)
    assert total is not None
    return total
