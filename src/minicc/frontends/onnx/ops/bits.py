"""Operators on bits, and powers of integers, which are products chosen by the exponent's bits."""

from __future__ import annotations

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.model.tensors import element_type
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.core import Value
from minicc.ir.types import F64

# The bits of an exponent that count; a power beyond is 0 but for odd bases.
_EXPONENT_BITS = 32


@operator("BitShift", attributes="direction!")
def bit_shift(ctx: Context, node: Node, x: Value, by: Value) -> Value:
    """Left or right by a number of bits each; a right shift keeps the sign."""
    direction = node.text("direction", "")
    if direction not in ("LEFT", "RIGHT"):
        raise ctx.wrong(f"attribute direction is {direction!r}")
    return ctx.emit(graph.Shl if direction == "LEFT" else graph.Shr, x, by)


@operator("BitCast", attributes="to!")
def bit_cast(ctx: Context, node: Node, x: Value) -> Value:
    """The same bits as another element type."""
    to = element_type(node.integer("to", 0), "the result of BitCast", node.name)
    return x if to is x.type.dtype else ctx.emit(graph.BitCast, x, dtype=to)


def integer_power(ctx: Context, x: Value, exponent: Value) -> Value:
    """Integers to powers that are known when the model runs; products wrap.

    A negative power is the reciprocal, cut toward zero; a float exponent computes in f64.
    """
    if exponent.type.dtype.is_float:
        wide = ctx.emit(graph.Pow, ctx.cast(x, F64), ctx.cast(exponent, F64))
        # a whole power is seldom hit exactly, and the cast would cut it to the one below
        whole = ctx.emit(graph.Round, wide)
        gap = ctx.emit(graph.Abs, ctx.emit(graph.Sub, wide, whole))
        room = ctx.emit(graph.Mul, ctx.emit(graph.Abs, wide), ctx.scalar(2.0**-36, F64))
        near = ctx.emit(graph.Le, gap, room)
        return ctx.cast(ctx.emit(graph.Select, near, whole, wide), x.type.dtype)
    element = exponent.type.dtype
    bits = min(_EXPONENT_BITS, element.bits - (element.kind == "i"))
    zero, one = ctx.scalar(0, exponent), ctx.scalar(1, x)
    out, square = one, x
    for bit in range(bits):
        has = ctx.emit(graph.And, exponent, ctx.scalar(1 << bit, exponent))
        more = ctx.emit(graph.Mul, out, square)
        out = ctx.emit(graph.Select, ctx.emit(graph.Eq, has, zero), out, more)
        square = ctx.emit(graph.Mul, square, square) if bit + 1 < bits else square
    if element.kind == "u":
        return out
    # of 1 and -1 the power is its own reciprocal, and so is that of its bits
    inverse = ctx.emit(graph.Div, one, x)
    odd = ctx.emit(graph.And, exponent, ctx.scalar(1, exponent))
    square = ctx.emit(graph.Mul, inverse, inverse)
    below = ctx.emit(graph.Select, ctx.emit(graph.Eq, odd, zero), square, inverse)
    return ctx.emit(graph.Select, ctx.emit(graph.Lt, exponent, zero), below, out)
