"""Padding: constant, reflected, repeated at the edge, or wrapped around.

Mirrors: ONNX's Pad, NumPy's pad. A negative width cuts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.ops_movement import cut
from minicc.frontends.onnx.reader import Node
from minicc.frontends.onnx.registry import operator
from minicc.frontends.onnx.take import take
from minicc.ir import graph
from minicc.ir.core import Array, Literal, Value

# More elements than that are not made of an axis' own.
_MOST = 1 << 24
_MODES: dict[str, Any] = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}


@operator("Pad", attributes="mode pads paddings value")
def pad(
    ctx: Context,
    node: Node,
    x: Value,
    pads: Value | None = None,
    value: Value | None = None,
    axes: Value | None = None,
) -> Value:
    """Elements before and behind: attributes before opset 11, then inputs."""
    low, high = _widths(ctx, node, x, pads, axes)
    mode = node.text("mode", "constant")
    if mode != "constant" and mode not in _MODES:
        raise ctx.wrong(f"attribute mode is {mode!r}")
    cuts = {
        axis: (max(-a, 0), extent - max(-b, 0), 1)
        for axis, (a, b, extent) in enumerate(zip(low, high, x.type.shape, strict=True))
        if a < 0 or b < 0
    }
    x = cut(ctx, x, cuts)
    low, high = tuple(max(n, 0) for n in low), tuple(max(n, 0) for n in high)
    if not any((*low, *high)):
        return x
    if mode != "constant":
        return _by_index(ctx, x, low, high, _MODES[mode])
    literal = Literal(_fill(ctx, node, x, value))
    return ctx.emit(graph.Pad, x, low=low, high=high, value=literal)


@operator("CenterCropPad", attributes="axes")
def center_crop_pad(ctx: Context, node: Node, x: Value, shape: Value) -> Value:
    """Each axis cut or filled with zeros, the same at both ends as nearly as may be."""
    named = node.integers("axes")
    axes = tuple(range(x.type.rank)) if named is None else tuple(a % x.type.rank for a in named)
    wanted = ctx.integers(shape, "shape")
    if len(wanted) != len(axes):
        raise ctx.refused(f"{len(wanted)} extents for {len(axes)} axes")
    low, high = [0] * x.type.rank, [0] * x.type.rank
    for axis, n in zip(axes, wanted, strict=True):
        own = ctx.static(x.type.shape[axis], "an axis that is cut or filled")
        first = (own - n) // 2 if n < own else 0
        x = cut(ctx, x, {axis: (first, first + min(n, own), 1)})
        low[axis] = max(n - own, 0) // 2
        high[axis] = max(n - own, 0) - low[axis]
    if not any((*low, *high)):
        return x
    zero = Literal(np.zeros((), x.type.dtype.numpy))
    return ctx.emit(graph.Pad, x, low=tuple(low), high=tuple(high), value=zero)


def _widths(
    ctx: Context, node: Node, x: Value, pads: Value | None, axes: Value | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The widths before and behind, an entry an axis."""
    rank = x.type.rank
    if pads is None:
        given = node.integers("pads") or node.integers("paddings")
    else:
        given = ctx.integers(pads, "pads")
    named = tuple(range(rank)) if axes is None else ctx.integers(axes, "axes")
    if given is None or len(given) != 2 * len(named):
        raise ctx.wrong(f"pads {list(given or ())} for {len(named)} axes")
    ctx.axes(named, rank)
    low, high = [0] * rank, [0] * rank
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


def _by_index(
    ctx: Context, x: Value, low: tuple[int, ...], high: tuple[int, ...], mode: Any
) -> Value:
    """Take the elements that NumPy's padding of the indices names, an axis after the other."""
    for axis, width in enumerate(zip(low, high, strict=True)):
        if any(width):
            extent = ctx.static(x.type.shape[axis], "an axis that is padded by its own elements")
            if max(width) > _MOST:
                raise ctx.refused(f"axis {axis} can't be padded by {max(width)} of its elements")
            x = take(ctx, x, np.pad(np.arange(extent), width, mode=mode), axis)
    return x
