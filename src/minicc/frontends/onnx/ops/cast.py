"""Conversions between element types.

To floats of 8 bits they saturate where asked for, and powers of two (f8e8m0) are made of the bits
of an f32; the rest is `graph.cast`.
"""

from __future__ import annotations

import ml_dtypes

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.model.tensors import element_type
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.core import Value
from minicc.ir.types import (
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F8E8M0FNU,
    F32,
    U8,
    U32,
    DType,
)

_SATURATING = (F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ)
_MANTISSA = (1 << 23) - 1


@operator("Cast", attributes="round_mode saturate to!")
def cast(ctx: Context, node: Node, x: Value) -> Value:
    """To the element type `to`, which is a word before opset 6."""
    to = node.attributes.get("to")
    if isinstance(to, str):
        from onnx import TensorProto

        to = dict(TensorProto.DataType.items()).get(to, to)
    if not isinstance(to, int):
        raise ctx.wrong(f"attribute to is {to!r}, not an element type")
    element = element_type(to, f"the result of {node.op}", node.name)
    return converted(ctx, node, x, element)


@operator("CastLike", attributes="round_mode saturate")
def cast_like(ctx: Context, node: Node, x: Value, like: Value) -> Value:
    """To the element type of another tensor."""
    return converted(ctx, node, x, like.type.dtype)


def converted(ctx: Context, node: Node, x: Value, element: DType) -> Value:
    """`x` as another element type, as the attributes of a node say."""
    if x.type.dtype is element:
        return x
    if element is F8E8M0FNU:
        way = node.text("round_mode", "up")
        return _power_of_two(ctx, ctx.cast(x, F32), way, bool(node.integer("saturate", 1)))
    if element in _SATURATING and node.integer("saturate", 1):
        x = saturated(ctx, ctx.cast(x, F32), element)
    return ctx.cast(x, element)


def saturated(ctx: Context, x: Value, element: DType) -> Value:
    """An f32 within what a narrower float can hold; NaN stays."""
    most = float(ml_dtypes.finfo(element.numpy).max)  # type: ignore[no-untyped-call]
    low = ctx.emit(graph.Max, x, ctx.scalar(-most, x))
    return ctx.emit(graph.Min, low, ctx.scalar(most, x))


def _power_of_two(ctx: Context, x: Value, way: str, saturate: bool) -> Value:
    """The exponent of an f32, rounded by its fraction; infinities become NaN."""
    bits = ctx.emit(graph.BitCast, x, dtype=U32)

    def part(mask: int) -> Value:
        return ctx.emit(graph.And, bits, ctx.scalar(mask, U32))

    zero = ctx.scalar(0, U32)
    exponent = ctx.emit(graph.Div, part(0xFF << 23), ctx.scalar(1 << 23, U32))
    if way == "up":
        more = ctx.emit(graph.Lt, zero, part(_MANTISSA))
    elif way == "nearest":
        half = ctx.emit(graph.Lt, zero, part(1 << 22))
        rest = ctx.emit(graph.Lt, zero, part((1 << 22) - 1))
        odd = ctx.emit(graph.Lt, zero, exponent)
        more = ctx.emit(graph.And, half, ctx.emit(graph.Or, rest, odd))
    elif way == "down":
        more = ctx.emit(graph.Lt, bits, zero)
    else:
        raise ctx.wrong(f"attribute round_mode is {way!r}")
    last = ctx.scalar(0xFE if saturate else 0xFF, U32)
    more = ctx.emit(graph.And, more, ctx.emit(graph.Lt, exponent, last))
    rounded = ctx.emit(graph.Add, exponent, ctx.cast(more, U32))
    return ctx.emit(graph.BitCast, ctx.cast(rounded, U8), dtype=F8E8M0FNU)
