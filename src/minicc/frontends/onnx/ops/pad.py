"""Padding: constant, reflected, repeated at the edge, or wrapped around.

Widths may be free, and so may the axes.

A negative width cuts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.movement import Range, cut
from minicc.frontends.onnx.ops.take import take
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.affine import Dim, evaluate, maximum, minimum, symbols
from minicc.ir.affine_facts import natural
from minicc.ir.core import Array, Literal, Value
from minicc.ir.graph.shapes import Shape

# More elements than that are not made of an axis' own.
_MOST = 1 << 24
_MODES = ("reflect", "edge", "wrap")
# Sizes for which it is tried whether a width cuts.
_SIZES = (1, 7, 30, 64, 100, 224, 513, 1000, 4096)


@operator("Pad", attributes="mode pads paddings value")
def pad(
    ctx: Context,
    node: Node,
    x: Value,
    pads: Value | None = None,
    value: Value | None = None,
    axes: Value | None = None,
) -> Value:
    """Elements before and after: attributes before opset 11, then inputs."""
    low, high = _widths(ctx, node, x, pads, axes)
    mode = node.text("mode", "constant")
    if mode != "constant" and mode not in _MODES:
        raise ctx.wrong(f"attribute mode is {mode!r}")
    less = [(_less(a), _less(b)) for a, b in zip(low, high, strict=True)]
    cuts = {
        axis: (first, extent - last, 1)
        for axis, ((first, last), extent) in enumerate(zip(less, x.type.shape, strict=True))
        if first or last
    }
    x = cut(ctx, x, cuts)
    low = tuple(n + first for n, (first, _) in zip(low, less, strict=True))
    high = tuple(n + last for n, (_, last) in zip(high, less, strict=True))
    if not any((*low, *high)):
        return x
    if mode != "constant":
        return _by_index(ctx, x, low, high, mode)
    literal = Literal(_fill(ctx, node, x, value))
    return ctx.emit(graph.Pad, x, low=low, high=high, value=literal)


@operator("CenterCropPad", attributes="axes")
def center_crop_pad(ctx: Context, node: Node, x: Value, shape: Value) -> Value:
    """Each axis cut or filled with zeros, the same at both ends as nearly as may be."""
    named = node.integers("axes")
    axes = tuple(range(x.type.rank)) if named is None else tuple(a % x.type.rank for a in named)
    wanted = ctx.dims(shape, "shape")
    if len(wanted) != len(axes):
        raise ctx.refused(f"{len(wanted)} extents for {len(axes)} axes")
    low: list[Dim] = [0] * x.type.rank
    high = low[:]
    for axis, n in zip(axes, wanted, strict=True):
        own = x.type.shape[axis]
        first = maximum(own - n, 0) // 2
        x = cut(ctx, x, {axis: (first, first + minimum(n, own), 1)})
        low[axis] = maximum(n - own, 0) // 2
        high[axis] = maximum(n - own, 0) - low[axis]
    if not any((*low, *high)):
        return x
    zero = Literal(np.zeros((), x.type.dtype.numpy))
    return ctx.emit(graph.Pad, x, low=tuple(low), high=tuple(high), value=zero)


def _less(width: Dim) -> Dim:
    """How much a width cuts off: nothing where it is free and cuts for none of some sizes."""
    if isinstance(width, int):
        return max(-width, 0)
    numbers = (evaluate(width, dict.fromkeys(symbols(width), n)) for n in _SIZES)
    return 0 if natural(width) or all(n >= 0 for n in numbers) else -minimum(width, 0)


def _widths(
    ctx: Context, node: Node, x: Value, pads: Value | None, axes: Value | None
) -> tuple[Shape, Shape]:
    """The widths before and after, an entry an axis."""
    rank = x.type.rank
    given: Shape | None
    if pads is None:
        given = node.integers("pads") or node.integers("paddings")
    else:
        given = ctx.dims(pads, "pads")
    named = tuple(range(rank)) if axes is None else ctx.integers(axes, "axes")
    if given is None or len(given) != 2 * len(named):
        raise ctx.wrong(f"pads {list(given or ())} for {len(named)} axes")
    ctx.axes(named, rank)
    low: list[Dim] = [0] * rank
    high = low[:]
    for k, axis in enumerate(named):
        low[axis], high[axis] = given[k], given[k + len(named)]
    return tuple(low), tuple(high)


def _fill(ctx: Context, node: Node, x: Value, value: Value | None) -> Array:
    element = x.type.dtype.numpy
    if value is None:
        return np.array(node.number("value", 0.0)).astype(element)
    known = ctx.known(value, "constant_value")
    if known.size != 1:
        raise ctx.refused(f"a constant_value of {known.size} elements")
    return known.reshape(()).astype(element)


def _by_index(ctx: Context, x: Value, low: Shape, high: Shape, mode: Any) -> Value:
    """Take the elements that NumPy's padding of the indices names, an axis after the other."""
    for axis, (a, b) in enumerate(zip(low, high, strict=True)):
        if not a and not b:
            continue
        extent = x.type.shape[axis]
        if isinstance(extent, int) and isinstance(a, int) and isinstance(b, int):
            if max(a, b) > _MOST:
                raise ctx.refused(f"axis {axis} can't be padded by {max(a, b)} of its elements")
            x = take(ctx, x, np.pad(np.arange(extent), (a, b), mode=mode), axis)
        else:
            x = padded_by_slices(ctx, x, axis, a, b, mode)
    return x


def padded_by_slices(ctx: Context, x: Value, axis: int, low: Dim, high: Dim, mode: str) -> Value:
    """The same of free extents, of which there are enough: the ends of the axis around it."""
    n = x.type.shape[axis]
    ends: dict[str, tuple[Range, Range]] = {
        "reflect": ((low, 0, -1), (n - 2, n - 2 - high, -1)),
        "wrap": ((n - low, n, 1), (0, high, 1)),
        "edge": ((0, 1, 1), (n - 1, n, 1)),
    }
    parts = [x]
    for end, width, first in zip(ends[mode], (low, high), (True, False), strict=True):
        if width:
            part = cut(ctx, x, {axis: end})
            if mode == "edge":
                wide = (*x.type.shape[:axis], width, *x.type.shape[axis + 1 :])
                part = ctx.emit(graph.Broadcast, part, shape=wide)
            parts = [part, *parts] if first else [*parts, part]
    return ctx.emit(graph.Concat, tuple(parts), axis=axis)
