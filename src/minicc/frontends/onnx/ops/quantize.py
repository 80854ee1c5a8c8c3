"""Quantised tensors, and products of them, which are exact in i32."""

from __future__ import annotations

import ml_dtypes

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.model.tensors import element_type
from minicc.frontends.onnx.ops.cast import converted, saturated
from minicc.frontends.onnx.ops.linear import matmul
from minicc.frontends.onnx.ops.movement import cut
from minicc.frontends.onnx.ops.normalize import per_channel
from minicc.frontends.onnx.ops.resize import repeated
from minicc.frontends.onnx.ops.widen import wide_of
from minicc.frontends.onnx.ops.window import conv
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.core import Value
from minicc.ir.types import BF16, F16, F32, F64, I32, U8, DType

_FLOATS8 = ("f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz")


def _laid(ctx: Context, node: Node, part: Value, x: Value) -> Value:
    """A scale or zero point such that it broadcasts to `x`: whole, along an axis, or in blocks."""
    block, axis = node.integer("block_size", 0), node.integer("axis", 1)
    if part.type.rank == 0 or (part.type.shape == (1,) and not block):
        return ctx.reshape(part, ())
    free = part.type.rank == 1 and not isinstance(part.type.shape[0], int)
    if free and not block and not -x.type.rank <= axis < x.type.rank:
        return ctx.reshape(part, ())  # where there is no such axis it can only be one element
    axis = ctx.axes((axis,), x.type.rank)[0]
    if (part.type.rank == 1 and x.type.rank != 1) or not block:
        return ctx.reshape(part, (*part.type.shape, *(1,) * (x.type.rank - axis - 1)))
    whole = repeated(ctx, part, {axis: block})
    return cut(ctx, whole, {axis: (0, x.type.shape[axis], 1)})


def rounded(ctx: Context, x: Value, zero: Value | None, element: DType) -> Value:
    """Round half to even, add the zero point, keep within the element type's range.

    What is not a number is the least of it, as ONNX Runtime has it.
    """
    limits = ml_dtypes.iinfo(element.numpy)  # type: ignore[no-untyped-call]
    x = ctx.emit(graph.Round, x)
    if zero is not None:
        x = ctx.emit(graph.Add, x, ctx.cast(zero, x.type.dtype))
    least = ctx.scalar(float(limits.min), x)
    x = ctx.emit(graph.Select, ctx.emit(graph.Lt, least, x), x, least)
    inside = ctx.emit(graph.Min, x, ctx.scalar(float(limits.max), x))
    return ctx.cast(ctx.cast(inside, I32), element)


@operator("QuantizeLinear", attributes="axis block_size output_dtype precision saturate")
def quantize_linear(
    ctx: Context, node: Node, x: Value, scale: Value, zero: Value | None = None
) -> Value:
    """round(x / scale) + zero, saturated; without a zero point to u8 or the type named."""
    element = U8 if zero is None else zero.type.dtype
    if zero is None and node.integer("output_dtype", 0):
        element = element_type(node.integer("output_dtype", 0), "the result", node.name)
    by = _laid(ctx, node, scale, x)
    at = None if zero is None else _laid(ctx, node, zero, x)
    precision = node.integer("precision", 0)
    if precision:
        exact = element_type(precision, "precision", node.name)
    else:
        # as NumPy has it: an integer with a float is at least of the integer's precision
        exact = x.type.dtype if x.type.dtype.is_float else by.type.dtype
    parts = [ctx.cast(ctx.cast(v, exact), F32 if exact is not F64 else F64) for v in (x, by)]
    ratio = ctx.emit(graph.Div, *parts)
    if exact in (F16, BF16):
        ratio = ctx.cast(ctx.cast(ratio, exact), F32)
    if element.is_integer or element.name in ("i4", "u4", "i2", "u2"):
        return rounded(ctx, ratio, at, element)
    if element.name in _FLOATS8:
        ratio = ctx.cast(ratio, F32)
        return ctx.cast(
            saturated(ctx, ratio, element) if node.integer("saturate", 1) else ratio, element
        )
    if at is not None:
        ratio = ctx.emit(graph.Add, ratio, ctx.cast(at, ratio.type.dtype))
    return converted(ctx, node, ratio, element)


@operator("DequantizeLinear", attributes="axis block_size output_dtype")
def dequantize_linear(
    ctx: Context, node: Node, x: Value, scale: Value, zero: Value | None = None
) -> Value:
    """(x - zero) * scale."""
    by = _laid(ctx, node, scale, x)
    element = scale.type.dtype
    if node.integer("output_dtype", 0):
        element = element_type(node.integer("output_dtype", 0), "the result", node.name)
    integer = x.type.dtype.is_integer or x.type.dtype.name in ("i4", "u4", "i2", "u2")
    if zero is not None and integer:
        at = ctx.cast(_laid(ctx, node, zero, x), I32)
        whole = ctx.emit(graph.Sub, ctx.cast(x, I32), at)
    else:
        whole = x
    wide = F64 if element is F64 else F32
    # passes.graph.sum_integers looks for the integers, those of weights too
    emit = ctx.emit_late if integer and wide is F32 and x.type.rank >= 2 else ctx.emit
    floats = emit(graph.Cast, whole, dtype=wide)
    return ctx.cast(emit(graph.Mul, floats, ctx.cast(by, wide)), element)


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(ctx: Context, node: Node, x: Value) -> tuple[Value, ...]:
    """To u8, with the scale and zero point that the least and the greatest element ask for."""
    axes = tuple(range(x.type.rank))
    none = ctx.scalar(0, x)
    high = ctx.emit(graph.Max, ctx.emit(graph.Reduce, x, axes=axes, combine="max"), none)
    low = ctx.emit(graph.Min, ctx.emit(graph.Reduce, x, axes=axes, combine="min"), none)
    reach = ctx.emit(graph.Sub, high, low)
    flat = ctx.emit(graph.Eq, high, low)
    reach = ctx.emit(graph.Select, flat, ctx.scalar(1, x), reach)
    scale = ctx.emit(graph.Div, reach, ctx.scalar(255, x))
    zero = ctx.emit(graph.Neg, ctx.emit(graph.Div, low, scale))
    zero = ctx.emit(graph.Min, ctx.emit(graph.Max, zero, none), ctx.scalar(255, x))
    zero = ctx.emit(graph.Round, zero)
    out = rounded(ctx, ctx.emit(graph.Div, x, scale), zero, U8)
    return out, scale, ctx.cast(ctx.cast(zero, I32), U8)


def _whole(ctx: Context, x: Value, zero: Value | None, shape: tuple[int, ...] = ()) -> Value:
    """`x` less its zero point, in i32; a zero point of several elements gets the given shape."""
    wide = ctx.cast(x, I32)
    if zero is None:
        return wide
    known = ctx.array(zero)
    if known is not None and not known.any():
        return wide
    count = zero.type.shape
    at = ctx.reshape(zero, shape if shape and count not in ((), (1,)) else count or ())
    at = ctx.reshape(at, ()) if count == (1,) else at
    return ctx.emit(graph.Sub, wide, ctx.cast(at, I32))


def _rows(zero: Value | None) -> tuple[int, ...]:
    """The shape in which a zero point of each row broadcasts along the columns."""
    return (*zero.type.shape, 1) if zero is not None and zero.type.rank == 1 else ()


@operator("MatMulInteger")
def matmul_integer(
    ctx: Context,
    node: Node,
    a: Value,
    b: Value,
    a_zero: Value | None = None,
    b_zero: Value | None = None,
) -> Value:
    """A product of integers less their zero points, in i32."""
    return matmul(ctx, node, _whole(ctx, a, a_zero, _rows(a_zero)), _whole(ctx, b, b_zero))


@operator("QLinearMatMul")
def qlinear_matmul(
    ctx: Context,
    node: Node,
    a: Value,
    a_scale: Value,
    a_zero: Value,
    b: Value,
    b_scale: Value,
    b_zero: Value,
    y_scale: Value,
    y_zero: Value,
) -> Value:
    """A product of quantised matrices, quantised anew."""
    out = matmul(ctx, node, _whole(ctx, a, a_zero, _rows(a_zero)), _whole(ctx, b, b_zero))
    rows = ctx.reshape(a_scale, _rows(a_scale) or a_scale.type.shape)
    if a_scale.type.shape == (1,):
        rows = ctx.reshape(a_scale, ())
    factor = ctx.emit(graph.Mul, wide_of(ctx, rows), wide_of(ctx, b_scale))
    factor = ctx.emit(graph.Div, factor, wide_of(ctx, y_scale))
    exact = ctx.emit(graph.Mul, ctx.cast(out, F32), ctx.cast(factor, F32))
    return ctx.reshape(_added(ctx, exact, y_zero), out.type.shape)


def _added(ctx: Context, exact: Value, zero: Value) -> Value:
    """Round, add the zero point, saturate."""
    return rounded(ctx, exact, zero, zero.type.dtype)


_CONV = "auto_pad dilations group kernel_shape pads strides"


@operator("ConvInteger", attributes=_CONV)
def conv_integer(
    ctx: Context,
    node: Node,
    x: Value,
    w: Value,
    x_zero: Value | None = None,
    w_zero: Value | None = None,
) -> Value:
    """A convolution of integers less their zero points, in i32; padding is the zero point."""
    ones = (1,) * (w.type.rank - 1)
    column = (w.type.shape[0], *ones)
    return conv(ctx, node, _whole(ctx, x, x_zero), _whole(ctx, w, w_zero, column))


@operator("QLinearConv", attributes=_CONV)
def qlinear_conv(
    ctx: Context,
    node: Node,
    x: Value,
    x_scale: Value,
    x_zero: Value,
    w: Value,
    w_scale: Value,
    w_zero: Value,
    y_scale: Value,
    y_zero: Value,
    b: Value | None = None,
) -> Value:
    """A convolution of quantised tensors, quantised anew; scales of weights may be a channel's."""
    out = conv_integer(ctx, node, x, w, x_zero, w_zero)
    if b is not None:
        out = ctx.emit(graph.Add, out, per_channel(ctx, b, out))
    scale = ctx.reshape(w_scale, ()) if w_scale.type.shape in ((), (1,)) else w_scale
    factor = ctx.emit(graph.Mul, ctx.reshape(x_scale, ()), scale)
    factor = ctx.emit(graph.Div, factor, ctx.reshape(y_scale, ()))
    if factor.type.rank:
        factor = per_channel(ctx, factor, out)
    exact = ctx.emit(graph.Mul, ctx.cast(out, F32), ctx.cast(factor, F32))
    return _added(ctx, exact, ctx.reshape(y_zero, ()))
