"""Convolution and pooling: windows that slide over the spatial axes.

Padding becomes `graph.Pad` in front, of those elements that a window reaches.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from math import prod
from typing import Any

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.movement import Range, cut
from minicc.frontends.onnx.ops.normalize import per_channel
from minicc.frontends.onnx.ops.reduce import mean_of
from minicc.frontends.onnx.ops.widen import widened
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.affine import Dim, ceildiv, maximum, minimum, number, typical
from minicc.ir.affine_facts import at_least
from minicc.ir.arith import identity_of
from minicc.ir.core import Array, Literal, Value
from minicc.ir.graph.shapes import Shape, differ, product, show
from minicc.ir.types import I64, static_shape

_TAPS = 9  # of which the maxima are compared one after the other

Places = tuple[Value, Value]  # maxima, and where in the whole tensor they stand


@dataclass(frozen=True, slots=True)
class Frame:
    """How windows lie, an entry a spatial axis.

    `low` and `high` are the padding as the node has it; `reached` is the part of `high` that
    windows reach, which may also lie beyond `high` where `ceil_mode` rounds up. On a free axis a
    few elements more may be, into which no window fits. Axes of `without` have one window, which
    the node does not have.
    """

    size: Shape
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    low: Shape
    high: Shape
    reached: Shape
    without: frozenset[int] = frozenset()


def frame_of(ctx: Context, node: Node, x: Value, size: Shape, pool: bool = False) -> Frame:
    """The windows of a node over the spatial axes of `x`; one of a pool may be cut short."""
    spatial: tuple[Dim, ...] = x.type.shape[2:]
    rank = len(spatial)
    if rank < 1 or len(size) != rank:
        raise ctx.refused(f"a kernel of {list(size)} over {rank} spatial axes")
    strides = node.integers("strides") or (1,) * rank
    dilations = node.integers("dilations") or (1,) * rank
    pads = node.integers("pads") or (0,) * (2 * rank)
    counts = (len(strides), len(dilations), len(pads))
    known = [n for n in size if isinstance(n, int)]
    if counts != (rank, rank, 2 * rank) or min(*known, *strides, *dilations) < 1 or min(pads) < 0:
        text = f"kernel {list(size)}, strides {list(strides)}, dilations {list(dilations)}"
        raise ctx.wrong(f"{text}, pads {list(pads)} do not fit {rank} spatial axes")
    spans = tuple((k - 1) * d + 1 for k, d in zip(size, dilations, strict=True))
    low: Shape = pads[:rank]
    high: Shape = pads[rank:]
    auto = node.text("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        parts = zip(spatial, spans, strides, strict=True)
        less, more = zip(*[_same(*part) for part in parts], strict=True)
        low, high = (less, more) if auto == "SAME_UPPER" else (more, less)
    elif auto == "VALID":
        low = high = (0,) * rank
    elif auto not in ("NOTSET", ""):
        raise ctx.wrong(f"attribute auto_pad is {auto!r}")
    # as many windows as strides begin within an axis need no rounding
    ceil = bool(node.integer("ceil_mode", 0)) and auto not in ("SAME_UPPER", "SAME_LOWER")
    axes = list(zip(spatial, spans, strides, low, high, strict=True))
    without = frozenset(k for k, axis in enumerate(axes) if pool and _has_no_window(*axis))
    reached = tuple(
        spans[k] - spatial[k] - low[k] if k in without else _reached(ctx, *axis, ceil, pool)
        for k, axis in enumerate(axes)
    )
    return Frame(size, strides, dilations, low, high, reached, without)


def _same(n: Dim, span: Dim, stride: int) -> tuple[Dim, Dim]:
    """The lesser and the greater half of the padding that gives ceil(n / stride) windows."""
    lack: Dim = span - stride + (stride - 1) * n % stride
    if stride > 1 and not at_least(span, stride):
        lack = 0 if span == 1 else maximum(lack, 0)
        return lack // 2, lack - lack // 2
    # the same, but such that the extent with its padding is simple
    whole = ceildiv(n, stride) * stride + span - stride
    return lack // 2, whole - n - lack // 2


def _has_no_window(n: Dim, span: Dim, stride: int, low: Dim, high: Dim) -> bool:
    """Whether a pool has no window along an axis, by as much as a stride.

    ONNX Runtime gives an empty result then, and refuses what lacks more, and axes without elements.
    """
    if not all(isinstance(e, int) for e in (n, span, low, high)):
        return False
    n, span, low, high = map(number, (n, span, low, high))
    room = n + low + high - span
    return n > 0 and -2 * stride < room <= -stride


def _reached(
    ctx: Context, n: Dim, span: Dim, stride: int, low: Dim, high: Dim, ceil: bool, pool: bool
) -> Dim:
    """How many elements after an axis its windows reach."""
    if not all(isinstance(e, int) for e in (n, span, low, high)):
        return _reached_of(n, span, stride, low, high) if ceil and stride > 1 else high
    n, span, low, high = map(number, (n, span, low, high))
    room = n + low + high - span
    last = -(-room // stride) if ceil else room // stride
    # a window that would begin in the padding after is left out
    if ceil and last * stride >= n + low:
        last -= 1
    if pool and n and -stride < room < 0:
        # ONNX Runtime rounds the count of windows towards zero, and pools what there is
        last = 0
    if last < 0:
        raise ctx.refused(f"a window of {span} does not fit {n} elements with their padding")
    return max(last * stride + span - n - low, 0)


def _reached_of(n: Dim, span: Dim, stride: int, low: Dim, high: Dim) -> Dim:
    """The same of a free axis in `ceil_mode`: for as many windows, with up to a stride more."""
    if isinstance(high, int) and at_least(span, high + stride):
        # the last window begins before the padding after
        return high + stride - 1
    count = minimum(ceildiv(n + low + high - span, stride) + 1, ceildiv(n + low, stride))
    return count * stride + span - 1 - n - low


def padded(ctx: Context, x: Value, low: Shape, high: Shape, value: Literal) -> Value:
    """`x` with padding around its spatial axes; itself where there is none."""
    if not any((*low, *high)):
        return x
    return ctx.emit(graph.Pad, x, low=(0, 0, *low), high=(0, 0, *high), value=value)


def _taps(ctx: Context, n: Dim, frame: Frame, axis: int) -> tuple[Dim, Dim]:
    """The taps of windows that are not in the padding after for all of them, and what these reach.

    A window may be much larger than a tensor, which is not padded to its size then.
    """
    size, dilation, stride = frame.size[axis], frame.dilations[axis], frame.strides[axis]
    before, reached = n + frame.low[axis], frame.reached[axis]
    span = (size - 1) * dilation + 1
    if not isinstance(span, int) or typical(before) >= span or axis in frame.without:
        return size, reached
    room = before + reached - span
    if not at_least(room, 0):
        ctx.demand(minimum(room, 0), 0, "a window that fits")
    # the first that lies in the padding, too, without which more windows would fit
    taps, last = minimum(size, ceildiv(before - 1, dilation) + 1), room // stride
    return taps, maximum(last * stride + (taps - 1) * dilation + 1 - before, 0)


def _window(ctx: Context, x: Value, frame: Frame, combine: str) -> Value:
    """Pad with what changes nothing and combine each window."""
    axes = enumerate(x.type.shape[2:])
    taps, after = zip(*[_taps(ctx, n, frame, axis) for axis, n in axes], strict=True)
    x = padded(ctx, x, frame.low, after, identity_of(combine, x.type.dtype))
    out = ctx.emit(
        graph.Window,
        x,
        combine=combine,
        size=(1, 1, *taps),
        strides=(1, 1, *frame.strides),
        dilations=(1, 1, *frame.dilations),
    )
    return _without(ctx, out, frame)


def _without(ctx: Context, out: Value, frame: Frame) -> Value:
    """One element a window, without those windows that the node does not have."""
    return cut(ctx, out, {axis + 2: (0, 0, 1) for axis in frame.without}) if frame.without else out


def _zero(x: Value) -> Literal:
    return Literal(np.zeros((), x.type.dtype.numpy))


def _biased(ctx: Context, x: Value, b: Value | None) -> Value:
    return x if b is None else ctx.emit(graph.Add, x, per_channel(ctx, b, x))


@operator("Conv", attributes="group auto_pad dilations kernel_shape pads strides")
def conv(ctx: Context, node: Node, x: Value, w: Value, b: Value | None = None) -> Value:
    """Cross-correlation in groups, with a bias a channel."""
    if w.type.rank < 3 or x.type.rank != w.type.rank:
        raise ctx.refused("Conv wants [N, C, spatial...] and weights of that rank")
    w = with_kernel(ctx, node, w)
    frame = frame_of(ctx, node, x, w.type.shape[2:])
    out = ctx.emit(
        graph.Conv,
        padded(ctx, x, frame.low, frame.reached, _zero(x)),
        w,
        strides=frame.strides,
        dilations=frame.dilations,
        groups=node.integer("group", 1),
    )
    return _biased(ctx, out, b)


def with_kernel(ctx: Context, node: Node, w: Value) -> Value:
    """Weights whose spatial extents are those of the attribute kernel_shape, if there is one."""
    size = node.integers("kernel_shape")
    if not size:
        return w
    own = w.type.shape
    if len(size) != len(own) - 2 or any(map(differ, own[2:], size)):
        raise ctx.wrong(f"attribute kernel_shape is {list(size)}, the weights have {show(own[2:])}")
    return ctx.taken_as(w, (*own[:2], *size))


def kernel_shape(ctx: Context, node: Node) -> tuple[int, ...]:
    """The attribute of that name, which must be there."""
    size = node.integers("kernel_shape")
    if not size:
        raise ctx.wrong("its attribute kernel_shape is missing")
    return size


@operator(
    "MaxPool", attributes="ceil_mode storage_order auto_pad dilations kernel_shape! pads strides"
)
def max_pool(ctx: Context, node: Node, x: Value) -> tuple[Value, ...]:
    """The greatest of each window, padding never is; and where in the whole tensor it stands.

    As in ONNX Runtime, a NaN is not the greatest of a window that has a number.
    """
    frame = frame_of(ctx, node, x, kernel_shape(ctx, node), pool=True)
    out = _window(ctx, x, frame, "maxnum" if x.type.dtype.is_float else "max")
    if not any(node.outputs[1:]):
        return (out,)
    if x.type.dtype.is_float:
        number = ctx.emit(graph.Eq, x, x)
        x = ctx.emit(graph.Select, number, x, ctx.scalar(-np.inf, x))
    places = _places(ctx, x, frame, bool(node.integer("storage_order", 0)))
    return out, _without(ctx, places, frame)


def _places(ctx: Context, x: Value, frame: Frame, columns: bool) -> Value:
    """The index of the first maximum of each window; axes count in reverse in column order."""
    shape: Shape = x.type.shape
    turned = (*shape[:2], *reversed(shape[2:])) if columns else shape
    perm = (0, 1, *reversed(_spatial(x))) if columns else tuple(range(x.type.rank))
    count = product(shape)
    if isinstance(count, int):
        index = ctx.constant(np.arange(count).reshape(static_shape(turned)).transpose(perm))
    else:
        numbers = ctx.emit(graph.Iota, shape=(count,), axis=0, dtype=I64)
        index = ctx.reshape(numbers, turned)
        index = ctx.emit(graph.Transpose, index, perm=perm) if columns else index
    lowest = identity_of("max", x.type.dtype)
    padded_x = padded(ctx, x, frame.low, frame.reached, lowest)
    index = padded(ctx, index, frame.low, frame.reached, Literal(np.int64(-1)))
    counts = window_counts(padded_x, frame)
    found, spatial = (padded_x, index), range(len(counts))
    if prod(static_shape(frame.size)) <= _TAPS:
        return _firsts(ctx, found, spatial, frame, counts)[1]
    # the last axis goes first, so that of several maxima the first in row order is left
    for k in reversed(spatial):
        found = _firsts(ctx, found, [k], frame, counts)
    return found[1]


def _firsts(
    ctx: Context, found: Places, along: Sequence[int], frame: Frame, counts: Sequence[Dim]
) -> Places:
    """The first maximum of each of so many windows along spatial axes, and where it stands.

    Long windows are made of overlapping shorter ones, as of two maxima the first one counts.
    """
    ways: list[list[tuple[int, Range]]] = []
    for k in along:
        axis, apart, step = k + 2, frame.dilations[k], frame.strides[k]
        size, taken = static_shape(frame.size)[k], 1
        while size > taken * _TAPS:
            shift, extent = taken * apart, found[0].type.shape[axis]
            near, far = (0, extent - shift, 1), (shift, extent, 1)
            found = _first(ctx, _part(ctx, found, [(axis, near)]), _part(ctx, found, [(axis, far)]))
            taken *= 2
        starts = [apart * tap for tap in (*range(0, size - taken, taken), size - taken)]
        last = (counts[k] - 1) * step + 1
        ways.append([(axis, (start, start + last, step)) for start in starts])
    return reduce(
        partial(_first, ctx), (_part(ctx, found, way) for way in itertools.product(*ways))
    )


def _part(ctx: Context, found: Places, ranges: Iterable[tuple[int, Range]]) -> Places:
    value, at = (cut(ctx, v, dict(ranges)) for v in found)
    return value, at


def _first(ctx: Context, one: Places, other: Places) -> Places:
    """The greater of two, element for element, the first of equals, and where it stands."""
    (best, at), (value, where) = one, other
    # an element that is no padding goes before padding, also where both are the lowest
    padding = ctx.emit(graph.Lt, at, ctx.scalar(0, at))
    later = ctx.emit(graph.Or, ctx.emit(graph.Lt, best, value), padding)
    return ctx.emit(graph.Max, best, value), ctx.emit(graph.Select, later, where, at)


def window_counts(x: Value, frame: Frame) -> list[Any]:
    """How many windows there are along each spatial axis of a padded tensor."""
    per_axis = zip(x.type.shape[2:], frame.size, frame.strides, frame.dilations, strict=True)
    return [(n - (k - 1) * d - 1) // s + 1 for n, k, s, d in per_axis]


@operator(
    "AveragePool",
    attributes="ceil_mode count_include_pad auto_pad dilations kernel_shape! pads strides",
)
@widened
def average_pool(ctx: Context, node: Node, x: Value) -> Value:
    """The sum of each window times the reciprocal of how many of its elements count."""
    total, counts = average_parts(ctx, node, x)
    return ctx.emit(graph.Mul, total, ctx.emit(graph.Div, ctx.scalar(1, x), counts))


def average_parts(ctx: Context, node: Node, x: Value) -> tuple[Value, Value]:
    """The sum of each window, and how many of its elements count, which may be one number."""
    frame = frame_of(ctx, node, x, kernel_shape(ctx, node), pool=True)
    total = _window(ctx, x, frame, "add")
    padding = bool(node.integer("count_include_pad", 0))
    plain = padding and all(map(at_least, frame.high, frame.reached))
    if plain or not any((*frame.low, *frame.reached)):
        return total, ctx.scalar(prod(static_shape(frame.size)), x)
    if not all(isinstance(n, int) for n in total.type.shape[2:]):
        return total, _free_counts(ctx, x, total, frame, padding)
    ctx.room(*total.type.shape[2:])
    known = np.ones(())
    for axis, extent in enumerate(x.type.shape[2:]):
        known = known[..., None] * _counts(frame, axis, extent, padding)
    counts = np.maximum(known, 1).astype(x.type.dtype.numpy)
    if (counts == counts.flat[0]).all():
        counts = counts.flat[0].reshape(())
    return total, ctx.constant(counts)


def _counts(frame: Frame, axis: int, extent: int, padding: bool) -> Array:
    """How many elements of each window along an axis count."""
    low, high, reached = map(number, (frame.low[axis], frame.high[axis], frame.reached[axis]))
    line = np.zeros(low + extent + max(high, reached))
    line[: low + extent + high] = padding
    line[low : low + extent] = 1
    line = line[: low + extent + reached]
    stride, dilation = frame.strides[axis], frame.dilations[axis]
    span = (number(frame.size[axis]) - 1) * dilation + 1
    firsts = np.arange(0, len(line) - span + 1, stride)
    return np.asarray(line[firsts[:, None] + np.arange(0, span, dilation)].sum(axis=1))


def _free_counts(ctx: Context, x: Value, total: Value, frame: Frame, padding: bool) -> Value:
    """The same for all axes, of which some are free, in the element type of `x`."""
    counts = ctx.scalar(1, x)
    for axis, n in enumerate(x.type.shape[2:]):
        low, dilation, taps = frame.low[axis], frame.dilations[axis], number(frame.size[axis])
        shape = (total.type.shape[axis + 2], *(1,) * (x.type.rank - axis - 3))
        first = ctx.emit(graph.Iota, shape=shape, axis=0, dtype=I64)
        first = ctx.emit(graph.Mul, first, ctx.scalar(frame.strides[axis], first))
        ends: list[Value] = []
        for end in (low + n + frame.high[axis] if padding else low + n, 0 if padding else low):
            # how many taps of a window stand before an end
            room = ctx.emit(graph.Sub, ctx.extent(end + dilation - 1, first), first)
            if dilation > 1:
                room = ctx.emit(graph.FloorDiv, room, ctx.scalar(dilation, room))
            room = ctx.emit(graph.Max, room, ctx.scalar(0, room))
            ends.append(ctx.emit(graph.Min, room, ctx.scalar(taps, room)))
        line = ctx.cast(ctx.emit(graph.Sub, *ends), x.type.dtype)
        counts = ctx.emit(graph.Mul, counts, ctx.emit(graph.Max, line, ctx.scalar(1, x)))
    return counts


@operator("LpPool", attributes="ceil_mode p auto_pad dilations kernel_shape! pads strides")
@widened
def lp_pool(ctx: Context, node: Node, x: Value) -> Value:
    """The p-norm of each window."""
    frame = frame_of(ctx, node, x, kernel_shape(ctx, node), pool=True)
    p = node.integer("p", 2)
    part = ctx.emit(graph.Abs, x)
    part = part if p == 1 else ctx.emit(graph.Pow, part, ctx.scalar(p, x))
    total = _window(ctx, part, frame, "add")
    return total if p == 1 else ctx.emit(graph.Pow, total, ctx.scalar(1 / p, x))


def _spatial(x: Value) -> tuple[int, ...]:
    return tuple(range(2, x.type.rank))


@operator("GlobalMaxPool")
def global_max_pool(ctx: Context, node: Node, x: Value) -> Value:
    """The greatest over all spatial axes, which stay."""
    return ctx.emit(graph.Reduce, x, axes=_spatial(x), combine="max", keepdims=True)


@operator("GlobalLpPool", attributes="p")
@widened
def global_lp_pool(ctx: Context, node: Node, x: Value) -> Value:
    """The p-norm over all spatial axes, which stay."""
    p = node.integer("p", 2)
    part = ctx.emit(graph.Abs, x)
    part = part if p == 1 else ctx.emit(graph.Pow, part, ctx.scalar(p, x))
    total = ctx.emit(graph.Reduce, part, axes=_spatial(x), combine="add", keepdims=True)
    return total if p == 1 else ctx.emit(graph.Pow, total, ctx.scalar(1 / p, x))


@operator("GlobalAveragePool")
@widened
def global_average_pool(ctx: Context, node: Node, x: Value) -> Value:
    """The mean over all spatial axes, which stay."""
    return mean_of(ctx, x, _spatial(x), True)
