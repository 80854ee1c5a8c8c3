"""The transposes of windows: ConvTranspose, Col2Im and MaxUnpool.

A transposed convolution with strides is made phase by phase of these, see `phases`. With stride 1
or dilations the turned kernel runs over the elements, with zeros between them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import reduce
from math import prod

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.fitting import clamped, fitted
from minicc.frontends.onnx.ops.movement import Range, cut
from minicc.frontends.onnx.ops.normalize import per_channel
from minicc.frontends.onnx.ops.phases import by_phases
from minicc.frontends.onnx.ops.window import kernel_shape, with_kernel
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.affine import Dim
from minicc.ir.core import Literal, Value
from minicc.ir.graph.shapes import Shape

_ATTRIBUTES = "auto_pad dilations group kernel_shape output_padding output_shape pads strides"


def spread(ctx: Context, x: Value, strides: Sequence[int], first: int = 2) -> Value:
    """`x` with `stride - 1` zeros after each element along its axes from `first` on."""
    if all(s == 1 for s in strides):
        return x
    shape = x.type.shape
    apart = [*shape[:first]]
    wide = [*shape[:first]]
    high = [0] * first
    for n, s in zip(shape[first:], strides, strict=True):
        apart += [n, 1]
        wide += [n * s]
        high += [0, s - 1]
    split = ctx.reshape(x, apart)
    zero = Literal(np.zeros((), x.type.dtype.numpy))
    filled = ctx.emit(graph.Pad, split, low=(0,) * len(high), high=tuple(high), value=zero)
    return ctx.reshape(filled, wide)


def _frame(
    ctx: Context, node: Node, x: Value, size: Sequence[Dim]
) -> tuple[tuple[int, ...], tuple[int, ...], list[Dim], list[Dim]]:
    """Strides, dilations, and what is cut off before and after (negative: zeros are added)."""
    rank = len(size)
    strides = node.integers("strides") or (1,) * rank
    dilations = node.integers("dilations") or (1,) * rank
    extra = node.integers("output_padding") or (0,) * rank
    pads = node.integers("pads") or (0,) * (2 * rank)
    wanted = node.integers("output_shape")
    auto = node.text("auto_pad", "NOTSET")
    if (
        len({len(strides), len(dilations), len(extra), rank}) > 1
        or len(pads) != 2 * rank
        or min(*strides, *dilations) < 1
    ):
        raise ctx.wrong(f"its attributes do not fit {rank} spatial axes")
    low: list[Dim] = [*pads[:rank]]
    high: list[Dim] = [b - e for b, e in zip(pads[rank:], extra, strict=True)]
    if wanted is None and auto not in ("SAME_UPPER", "SAME_LOWER"):
        return strides, dilations, low, high
    spatial: Shape = x.type.shape[2:]
    sides: Shape = wanted or tuple(n * s for n, s in zip(spatial, strides, strict=True))
    if len(sides) != rank:
        sides = sides[-rank:]
    for k in range(rank):
        full = strides[k] * (spatial[k] - 1) + (size[k] - 1) * dilations[k] + 1 + extra[k]
        total = full - sides[k]
        # what is wanted beyond the whole result stands after it
        gone = clamped(total, size)
        low[k] = gone // 2 if auto == "SAME_UPPER" else gone - gone // 2
        high[k] = total - low[k] - extra[k]
    return strides, dilations, low, high


@operator("ConvTranspose", attributes=_ATTRIBUTES)
def conv_transpose(ctx: Context, node: Node, x: Value, w: Value, b: Value | None = None) -> Value:
    """Each element times the kernel, added up where kernels overlap."""
    if w.type.rank < 3 or x.type.rank != w.type.rank:
        raise ctx.refused("ConvTranspose wants [N, C, spatial...] and weights of that rank")
    w = with_kernel(ctx, node, w)
    size: Shape = w.type.shape[2:]
    strides, dilations, low, high = _frame(ctx, node, x, size)
    groups = node.integer("group", 1)
    if groups == 1 and all(n == 1 for n in (*x.type.shape[2:], *dilations)):
        out = fitted(ctx, _of_one(ctx, x, w), [-n for n in low], [-n for n in high], taps=size)
    elif max(strides) > 1 and all(d == 1 for d in dilations):
        out = by_phases(ctx, x, w, groups, strides, (low, high))
    else:
        reach = [(k - 1) * d for k, d in zip(size, dilations, strict=True)]
        axes = zip(x.type.shape[2:], strides, reach, low, high, strict=True)
        sides = [s * (n - 1) + r + 1 - a - b for n, s, r, a, b in axes]
        if 0 in sides:  # no window would fit
            shape = (x.type.shape[0], w.type.shape[1] * groups, *sides)
            return ctx.emit(graph.Broadcast, ctx.scalar(0, x), shape=shape)
        before = [r - a for r, a in zip(reach, low, strict=True)]
        # the zeros after the last element of an axis count
        after = [r - b - s + 1 for r, b, s in zip(reach, high, strides, strict=True)]
        out = ctx.emit(
            graph.Conv,
            fitted(ctx, spread(ctx, x, strides), before, after, taps=size),
            _turned(ctx, w, groups),
            strides=(1,) * len(size),
            dilations=dilations,
            groups=groups,
        )
    return out if b is None else ctx.emit(graph.Add, out, per_channel(ctx, b, out))


def _of_one(ctx: Context, x: Value, w: Value) -> Value:
    """The whole result for images of one element, whose kernels do not overlap: a product."""
    (batch, channels, *_), (_, *rest) = x.type.shape, w.type.shape
    rows = ctx.reshape(x, (batch, channels))
    columns = ctx.reshape(w, (channels, graph.product(tuple(rest))))
    made = ctx.emit(graph.Contract, rows, columns, equation="nc,co->no")
    return ctx.reshape(made, (batch, *rest))


def _turned(ctx: Context, w: Value, groups: int) -> Value:
    """[C, O/groups, kernel] as the weights [O, C/groups, turned kernel] of a convolution."""
    channels, width, *kernel = w.type.shape
    rank = w.type.rank
    share = ctx.quotient(channels, groups, "channels")
    grouped = ctx.reshape(w, (groups, share, width, *kernel))
    swapped = ctx.emit(graph.Transpose, grouped, perm=(0, 2, 1, *range(3, rank + 1)))
    flat = ctx.reshape(swapped, (groups * width, share, *kernel))
    return cut(ctx, flat, {k + 2: (n - 1, -1, -1) for k, n in enumerate(kernel) if n != 1})


@operator("Col2Im", attributes="dilations pads strides")
def col2im(ctx: Context, node: Node, x: Value, image: Value, block: Value) -> Value:
    """Columns back to an image: what stands at one pixel is added up.

    The images of all taps are as large as the strides make them, and what is beyond is cut off.
    Where blocks do not overlap, they are laid out anew.
    """
    sides, size = ctx.dims(image, "image_shape"), ctx.integers(block, "block_shape")
    rank = len(sides)
    strides = node.integers("strides") or (1,) * rank
    dilations = node.integers("dilations") or (1,) * rank
    pads = node.integers("pads") or (0,) * (2 * rank)
    if not len(size) == len(strides) == len(dilations) == len(pads) / 2 == rank or min(pads) < 0:
        raise ctx.wrong(f"pads {list(pads)} and a block of {list(size)} for {rank} axes")
    spans = [(k - 1) * d for k, d in zip(size, dilations, strict=True)]
    full = [n + a + b for n, a, b in zip(sides, pads[:rank], pads[rank:], strict=True)]
    counts = [(n - span - 1) // s + 1 for n, span, s in zip(full, spans, strides, strict=True)]
    channels = x.type.shape[1] // prod(size)
    batch = x.type.shape[0]
    apart = ctx.reshape(x, (batch, channels, *size, *counts))
    inner = {k + 2: (a, a + n, 1) for k, (a, n) in enumerate(zip(pads[:rank], sides, strict=True))}
    if tuple(strides) == tuple(size) and max(dilations) == 1:
        # blocks side by side: no pixel is in two of them
        axes = [axis for k in range(rank) for axis in (2 + rank + k, 2 + k)]
        beside = ctx.emit(graph.Transpose, apart, perm=(0, 1, *axes))
        whole = [n * s for n, s in zip(counts, strides, strict=True)]
        left = [n - m for n, m in zip(full, whole, strict=True)]
        after = [n if isinstance(n, int) else span for n, span in zip(left, spans, strict=True)]
        laid = ctx.reshape(beside, (batch, channels, *whole))
        return cut(ctx, fitted(ctx, laid, (0,) * rank, after), inner)
    images: list[Value] = []
    for tap in itertools.product(*map(range, size)):
        ranges: dict[int, Range] = {k + 2: (t, t + 1, 1) for k, t in enumerate(tap)}
        one = ctx.reshape(cut(ctx, apart, ranges), (batch, channels, *counts))
        before = [t * d for t, d in zip(tap, dilations, strict=True)]
        after = [span - a for span, a in zip(spans, before, strict=True)]
        images.append(fitted(ctx, spread(ctx, one, strides), before, after))
    total = reduce(lambda a, b: ctx.emit(graph.Add, a, b), images)
    return cut(ctx, total, inner)


@operator("MaxUnpool", attributes="kernel_shape! pads strides")
def max_unpool(
    ctx: Context, node: Node, x: Value, places: Value, shape: Value | None = None
) -> Value:
    """The elements of a pooled tensor where they stood, 0 elsewhere, cut or filled to a shape."""
    size = kernel_shape(ctx, node)
    rank = len(size)
    strides = node.integers("strides") or (1,) * rank
    pads = node.integers("pads") or (0,) * (2 * rank)
    own: Shape = x.type.shape
    full = [*own[:2]]
    for k, (n, s) in enumerate(zip(own[2:], strides, strict=True)):
        full.append((n - 1) * s - pads[k] - pads[k + rank] + size[k])
    zeros = ctx.emit(graph.Broadcast, ctx.scalar(0, x), shape=(graph.product(tuple(full)),))
    where, what = (ctx.reshape(v, (graph.product(own),)) for v in (places, x))
    out = ctx.reshape(ctx.emit(graph.ScatterElements, zeros, where, what, axis=0), full)
    if shape is None:
        return out
    wanted = ctx.dims(shape, "output_shape")
    if len(wanted) != len(full):
        raise ctx.refused(f"an output_shape of {len(wanted)} extents")
    more = [n - m for n, m in zip(wanted, full, strict=True)]
    return fitted(ctx, out, [0] * len(full), more, 0)
