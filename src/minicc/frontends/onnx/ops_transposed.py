"""The transposes of windows: ConvTranspose, Col2Im and MaxUnpool.

A transposed convolution with strides is a convolution with a channel for each phase of the strides,
whose result is laid out anew, phases side by side. With stride 1 or dilations the turned kernel
runs over the elements, with zeros between them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import reduce
from math import prod

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.ops_movement import Range, cut
from minicc.frontends.onnx.ops_normalize import per_channel
from minicc.frontends.onnx.ops_window import kernel_shape, with_kernel
from minicc.frontends.onnx.reader import Node
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.affine import Dim, ceildiv, maximum, substitute, symbol, symbols
from minicc.ir.affine_facts import at_least
from minicc.ir.core import Literal, Value
from minicc.ir.graph.shapes import Shape

_ATTRIBUTES = "auto_pad dilations group kernel_shape output_padding output_shape pads strides"


def _is_natural(value: Dim, taps: Sequence[Dim]) -> bool:
    """Whether a number is surely not negative, of kernels that have so many taps, at least 1."""
    more = {name: n + 1 for n in taps for name in symbols(n) if n == symbol(name)}
    return at_least(substitute(value, more), 0)


def _clamped(value: Dim, taps: Sequence[Dim]) -> Dim:
    """A number, or 0 where it is negative."""
    if _is_natural(value, taps):
        return value
    return 0 if _is_natural(-value, taps) else maximum(value, 0)


def fitted(
    ctx: Context,
    x: Value,
    low: Sequence[Dim],
    high: Sequence[Dim],
    first: int = 2,
    taps: Sequence[Dim] = (),
) -> Value:
    """`x` with zeros around its axes from `first` on, or with so much less where it is negative.

    `taps` are extents that are at least 1, by which signs can be told.
    """
    shape = x.type.shape
    before, after = ([_clamped(n, taps) for n in side] for side in (low, high))
    ranges: dict[int, Range] = {}
    for k, (a, b) in enumerate(zip(low, high, strict=True)):
        if before[k] != a or after[k] != b:
            end = shape[first + k] - (after[k] - b)
            ranges[first + k] = (before[k] - a, end, 1)
    x = cut(ctx, x, ranges)
    if not any((*before, *after)):
        return x
    zero = Literal(np.zeros((), x.type.dtype.numpy))
    outer = (0,) * first
    return ctx.emit(graph.Pad, x, low=(*outer, *before), high=(*outer, *after), value=zero)


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
        gone = _clamped(total, size)
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
    if max(strides) > 1 and all(d == 1 for d in dilations):
        out = _by_phases(ctx, x, w, groups, strides)
        # the last phases of the last element lie after the end
        spare = [-k % s for k, s in zip(size, strides, strict=True)]
        after = [-b - n for b, n in zip(high, spare, strict=True)]
        out = fitted(ctx, out, [-n for n in low], after, taps=size)
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


def _by_phases(ctx: Context, x: Value, w: Value, groups: int, strides: tuple[int, ...]) -> Value:
    """One convolution for all phases of the strides, then the phases side by side."""
    channels, width, *kernel = w.type.shape
    share = ctx.quotient(channels, groups, "channels")
    rank = len(kernel)
    steps = [ceildiv(k, s) for k, s in zip(kernel, strides, strict=True)]
    lack = [m * s - k for m, s, k in zip(steps, strides, kernel, strict=True)]
    whole = fitted(ctx, w, [0] * rank, lack)
    pairs = [n for pair in zip(steps, strides, strict=True) for n in pair]
    apart = ctx.reshape(whole, (groups, share, width, *pairs))
    step_axes = tuple(3 + 2 * k for k in range(rank))
    phase_axes = tuple(4 + 2 * k for k in range(rank))
    turned = cut(
        ctx, apart, {a: (m - 1, -1, -1) for a, m in zip(step_axes, steps, strict=True) if m != 1}
    )
    perm = (0, 2, *phase_axes, 1, *step_axes)
    moved = ctx.emit(graph.Transpose, turned, perm=perm)
    phases = prod(strides)
    weights = ctx.reshape(moved, (groups * width * phases, share, *steps))
    around = [m - 1 for m in steps]
    out = ctx.emit(
        graph.Conv,
        fitted(ctx, x, around, around, taps=kernel),
        weights,
        strides=(1,) * rank,
        dilations=(1,) * rank,
        groups=groups,
    )
    batch, _, *spatial = out.type.shape
    split = ctx.reshape(out, (batch, groups * width, *strides, *spatial))
    mixed = [2 + k + rank * side for k in range(rank) for side in (1, 0)]
    laid = ctx.emit(graph.Transpose, split, perm=(0, 1, *mixed))
    wide = [n * s for n, s in zip(spatial, strides, strict=True)]
    return ctx.reshape(laid, (batch, groups * width, *wide))


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


@operator("MaxUnpool", attributes="kernel_shape pads strides")
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
