"""Elementwise operators, poolings and convolutions from quantised tensors to quantised ones.

They compute in f32 what the dequantised tensors give and quantise that. A zero point that is left
out is 0. With `channels_last` the channels are the last axis. Sums, products and means get their
zero point before they are rounded and others after, as in ONNX Runtime: an odd one sends halves
another way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.microsoft.common import (
    DOMAIN,
    attributes_of,
    channels_first,
    channels_last,
    flag,
    single,
    standard,
)
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.activation import softmax_parts
from minicc.frontends.onnx.ops.quantize import qlinear_conv, rounded
from minicc.frontends.onnx.ops.window import average_parts
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.core import Value
from minicc.ir.types import F32, DType

_WINDOW = "auto_pad ceil_mode dilations kernel_shape pads strides"


def _less_zero(ctx: Context, x: Value, zero: Value | None) -> Value:
    """`x` less its zero point, in f32."""
    whole = ctx.cast(x, F32)
    if zero is None:
        return whole
    return ctx.emit(graph.Sub, whole, ctx.cast(single(ctx, zero, "zero point"), F32))


def _real(ctx: Context, x: Value, scale: Value, zero: Value | None) -> Value:
    """What a quantised tensor stands for."""
    return ctx.emit(graph.Mul, _less_zero(ctx, x, zero), single(ctx, scale, "scale"))


def _quantised(ctx: Context, x: Value, scale: Value, zero: Value | None, element: DType) -> Value:
    """What stands for a tensor of floats."""
    at = None if zero is None else single(ctx, zero, "zero point")
    ratio = ctx.emit(graph.Div, x, single(ctx, scale, "scale"))
    return rounded(ctx, ratio, at, element)


def _shifted(ctx: Context, x: Value, zero: Value | None, element: DType) -> Value:
    """What stands for a tensor that is scaled already; it is rounded with its zero point."""
    if zero is not None:
        x = ctx.emit(graph.Add, x, ctx.cast(single(ctx, zero, "zero point"), F32))
    return rounded(ctx, x, None, element)


@operator(f"{DOMAIN}.QLinearAdd")
def qlinear_add(
    ctx: Context,
    node: Node,
    a: Value,
    a_scale: Value,
    a_zero: Value | None,
    b: Value,
    b_scale: Value,
    b_zero: Value | None,
    c_scale: Value,
    c_zero: Value | None = None,
) -> Value:
    """The sum of two quantised tensors; the zero points are one number."""
    whole = single(ctx, c_scale, "scale")
    shift = ctx.scalar(0, F32)
    terms: list[Value] = []
    for x, scale, zero in ((a, a_scale, a_zero), (b, b_scale, b_zero)):
        ratio = ctx.emit(graph.Div, single(ctx, scale, "scale"), whole)
        terms.append(ctx.emit(graph.Mul, ctx.cast(x, F32), ratio))
        if zero is not None:
            at = ctx.cast(single(ctx, zero, "zero point"), F32)
            shift = ctx.emit(graph.Add, shift, ctx.emit(graph.Mul, at, ratio))
    if c_zero is not None:
        at = ctx.cast(single(ctx, c_zero, "zero point"), F32)
        shift = ctx.emit(graph.Sub, at, shift)
    else:
        shift = ctx.emit(graph.Neg, shift)
    first = ctx.emit(graph.Add, terms[0], shift)
    return rounded(ctx, ctx.emit(graph.Add, first, terms[1]), None, a.type.dtype)


@operator(f"{DOMAIN}.QLinearMul")
def qlinear_mul(
    ctx: Context,
    node: Node,
    a: Value,
    a_scale: Value,
    a_zero: Value | None,
    b: Value,
    b_scale: Value,
    b_zero: Value | None,
    c_scale: Value,
    c_zero: Value | None = None,
) -> Value:
    """The product of two quantised tensors; that of the integers is exact."""
    product = ctx.emit(graph.Mul, _less_zero(ctx, a, a_zero), _less_zero(ctx, b, b_zero))
    scales = [single(ctx, s, "scale") for s in (a_scale, b_scale, c_scale)]
    factor = ctx.emit(graph.Div, ctx.emit(graph.Mul, *scales[:2]), scales[2])
    return _shifted(ctx, ctx.emit(graph.Mul, product, factor), c_zero, a.type.dtype)


def _unary(
    name: str,
    attributes: str,
    function: Callable[[Context, Node, Value], Value],
    before: bool = False,
) -> None:
    """Enter an operator; `before` says whether the zero point is added before rounding."""

    def run(
        ctx: Context,
        node: Node,
        x: Value,
        x_scale: Value,
        x_zero: Value | None,
        y_scale: Value,
        y_zero: Value | None = None,
    ) -> Value:
        out = function(ctx, node, _real(ctx, x, x_scale, x_zero))
        if before:
            ratio = ctx.emit(graph.Div, out, single(ctx, y_scale, "scale"))
            return _shifted(ctx, ratio, y_zero, x.type.dtype)
        return _quantised(ctx, out, y_scale, y_zero, x.type.dtype)

    operator(f"{DOMAIN}.{name}", attributes)(run)


def _sigmoid(ctx: Context, node: Node, x: Value) -> Value:
    return standard(ctx, node, "Sigmoid", x)


def _leaky_relu(ctx: Context, node: Node, x: Value) -> Value:
    return standard(ctx, node, "LeakyRelu", x, alpha=node.number("alpha", 0.01))


def _on_channels_first(
    ctx: Context, node: Node, x: Value, function: Callable[[Value], Value]
) -> Value:
    """A function of channels that come first, for those that come last if a node says so."""
    last = flag(node, "channels_last")
    out = function(channels_first(ctx, x) if last else x)
    return channels_last(ctx, out) if last else out


def _average_pool(ctx: Context, node: Node, x: Value) -> Value:
    """Means that are quotients: with reciprocals some would be rounded another way."""
    return _on_channels_first(
        ctx, node, x, lambda v: ctx.emit(graph.Div, *average_parts(ctx, node, v))
    )


def _global_average_pool(ctx: Context, node: Node, x: Value) -> Value:
    return _on_channels_first(ctx, node, x, lambda v: standard(ctx, node, "GlobalAveragePool", v))


def _reduce_mean(ctx: Context, node: Node, x: Value) -> Value:
    axes = node.integers("axes") or tuple(range(x.type.rank))
    options = {"keepdims": node.integer("keepdims", 1)}
    return standard(ctx, node, "ReduceMean", x, ctx.constant(np.array(axes)), **options)


_unary("QLinearSigmoid", "", _sigmoid)
_unary("QLinearLeakyRelu", "alpha", _leaky_relu)
_unary(
    "QLinearAveragePool", f"{_WINDOW} channels_last count_include_pad", _average_pool, before=True
)
_unary("QLinearGlobalAveragePool", "channels_last", _global_average_pool)
_unary("QLinearReduceMean", "axes keepdims", _reduce_mean)


@operator(f"{DOMAIN}.QLinearSoftmax", attributes="axis opset")
def qlinear_softmax(
    ctx: Context,
    node: Node,
    x: Value,
    x_scale: Value,
    x_zero: Value | None,
    y_scale: Value,
    y_zero: Value | None = None,
) -> Value:
    """The soft-max of a quantised tensor, by the opset that the attribute names.

    Before 13 all axes from `axis` on count as one. ONNX Runtime takes the reciprocal of the
    result's scale to be a whole number.
    """
    rank = x.type.rank
    first = ctx.axis("axis", -1, rank)
    axes = (first,) if node.integer("opset", 13) >= 13 else tuple(range(first, rank))
    _, power, total = softmax_parts(ctx, _real(ctx, x, x_scale, x_zero), axes)
    times = ctx.emit(graph.Div, ctx.scalar(1, F32), single(ctx, y_scale, "scale"))
    levels = ctx.emit(graph.Mul, power, ctx.emit(graph.Floor, times))
    at = None if y_zero is None else single(ctx, y_zero, "zero point")
    return rounded(ctx, ctx.emit(graph.Div, levels, total), at, x.type.dtype)


@operator(f"{DOMAIN}.QLinearConcat", attributes="axis")
def qlinear_concat(ctx: Context, node: Node, scale: Value, zero: Value, *xs: Value) -> Value:
    """Quantised tensors one after the other, each with a scale and a zero point of its own."""
    if len(xs) % 3:
        raise ctx.wrong(f"{len(xs)} inputs are no tensors with their scales and zero points")
    element = zero.type.dtype
    parts: list[Value] = []
    for k in range(0, len(xs), 3):
        x, own_scale, own_zero = xs[k : k + 3]
        parts.append(_quantised(ctx, _real(ctx, x, own_scale, own_zero), scale, zero, element))
    axis = ctx.axis("axis", 0, parts[0].type.rank)
    return standard(ctx, node, "Concat", *parts, axis=axis)


@operator(f"{DOMAIN}.QLinearWhere")
def qlinear_where(
    ctx: Context,
    node: Node,
    condition: Value,
    x: Value,
    x_scale: Value,
    x_zero: Value,
    y: Value,
    y_scale: Value,
    y_zero: Value,
    z_scale: Value,
    z_zero: Value,
) -> Value:
    """One quantised tensor where a condition holds, else another."""
    parts = (_real(ctx, x, x_scale, x_zero), _real(ctx, y, y_scale, y_zero))
    chosen = (_quantised(ctx, part, z_scale, z_zero, z_zero.type.dtype) for part in parts)
    return ctx.emit(graph.Select, condition, *chosen)


@operator(
    f"{DOMAIN}.QLinearConv",
    attributes="auto_pad channels_last dilations group kernel_shape pads strides",
)
@wraps(qlinear_conv)
def nhwc_qlinear_conv(ctx: Context, node: Node, x: Value, *rest: Any) -> Value:
    """A convolution of quantised tensors, quantised anew."""
    return _on_channels_first(ctx, node, x, lambda v: qlinear_conv(ctx, node, v, *rest))


@operator(f"{DOMAIN}.NhwcMaxPool", attributes=_WINDOW)
def nhwc_max_pool(ctx: Context, node: Node, x: Value) -> Value:
    """The greatest of each window; the channels are the last axis."""
    options = attributes_of(node, _WINDOW)
    out = standard(ctx, node, "MaxPool", channels_first(ctx, x), **options)
    return channels_last(ctx, out)
