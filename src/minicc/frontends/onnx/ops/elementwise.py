"""Arithmetic, comparisons, logic, and choice: elementwise operators that broadcast.

Before opset 7 broadcasting is asked for by attributes.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.bits import integer_power
from minicc.frontends.onnx.registry import Importer, operator, register
from minicc.ir import graph
from minicc.ir.core import Op, Value

_UNARY: dict[str, type[Op]] = {
    "Neg": graph.Neg,
    "Abs": graph.Abs,
    "Exp": graph.Exp,
    "Log": graph.Log,
    "Sqrt": graph.Sqrt,
    "Tanh": graph.Tanh,
    "Erf": graph.Erf,
    "Floor": graph.Floor,
    "Ceil": graph.Ceil,
    "Round": graph.Round,
    "Not": graph.Not,
    "BitwiseNot": graph.Not,
    "Sin": graph.Sin,
    "Cos": graph.Cos,
    "Tan": graph.Tan,
    "Asin": graph.Asin,
    "Acos": graph.Acos,
    "Atan": graph.Atan,
    "Sinh": graph.Sinh,
    "Cosh": graph.Cosh,
    "Asinh": graph.Asinh,
    "Acosh": graph.Acosh,
    "Atanh": graph.Atanh,
}
_BINARY: dict[str, type[Op]] = {
    "Add": graph.Add,
    "Sub": graph.Sub,
    "Mul": graph.Mul,
    "Div": graph.Div,
    "And": graph.And,
    "Or": graph.Or,
    "Xor": graph.Xor,
    "BitwiseAnd": graph.And,
    "BitwiseOr": graph.Or,
    "BitwiseXor": graph.Xor,
    "Equal": graph.Eq,
    "Less": graph.Lt,
    "LessOrEqual": graph.Le,
}
_SWAPPED: dict[str, type[Op]] = {"Greater": graph.Lt, "GreaterOrEqual": graph.Le}
_CHAINED: dict[str, type[Op]] = {"Sum": graph.Add, "Max": graph.Max, "Min": graph.Min}


def _unary(cls: type[Op]) -> Importer:
    def run(ctx: Context, node: Node, x: Value) -> Value:
        return ctx.emit(cls, x)

    return run


def _aligned(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    """`b` with extents of 1 added, where an old opset lays it on axes of `a` from `axis` on."""
    if ctx.opset >= 7 or not node.integer("broadcast", 0):
        return b
    axis = node.integer("axis", a.type.rank - b.type.rank)
    after = a.type.rank - axis % max(a.type.rank, 1) - b.type.rank
    return ctx.reshape(b, (*b.type.shape, *(1,) * after))


def _binary(cls: type[Op], swap: bool = False) -> Importer:
    def run(ctx: Context, node: Node, a: Value, b: Value) -> Value:
        b = _aligned(ctx, node, a, b)
        return ctx.emit(cls, b, a) if swap else ctx.emit(cls, a, b)

    return run


def _chained(cls: type[Op]) -> Importer:
    def run(ctx: Context, node: Node, *xs: Value) -> Value:
        return reduce(lambda a, b: ctx.emit(cls, a, b), xs)

    return run


for _name, _cls in _UNARY.items():
    register(_name, _unary(_cls))
for _name, _cls in _BINARY.items():
    register(_name, _binary(_cls), "axis broadcast")
for _name, _cls in _SWAPPED.items():
    register(_name, _binary(_cls, swap=True), "axis broadcast")
for _name, _cls in _CHAINED.items():
    register(_name, _chained(_cls))


@operator("Mean")
def mean(ctx: Context, node: Node, *xs: Value) -> Value:
    """The sum of the inputs divided by their number."""
    total = reduce(lambda a, b: ctx.emit(graph.Add, a, b), xs)
    return ctx.emit(graph.Div, total, ctx.scalar(len(xs), total))


@operator("Mod", attributes="fmod")
def mod(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    """The remainder with the sign of `b`, or with that of `a` if `fmod` is set."""
    if not node.integer("fmod", 0) or a.type.dtype.kind == "u":
        return ctx.emit(graph.Mod, a, b)
    negative = ctx.emit(graph.Lt, a, ctx.scalar(0, a))
    if a.type.dtype.is_integer:  # of which the least has no absolute value
        rest = ctx.emit(graph.Mod, a, b)
        other_sign = ctx.emit(graph.Xor, negative, ctx.emit(graph.Lt, b, ctx.scalar(0, b)))
        left = ctx.emit(graph.Ne, rest, ctx.scalar(0, rest))
        apart = ctx.emit(graph.And, other_sign, left)
        return ctx.emit(graph.Select, apart, ctx.emit(graph.Sub, rest, b), rest)
    rest = ctx.emit(graph.Mod, ctx.emit(graph.Abs, a), ctx.emit(graph.Abs, b))
    return ctx.emit(graph.Select, negative, ctx.emit(graph.Neg, rest), rest)


@operator("Pow", attributes="axis broadcast")
def power(ctx: Context, node: Node, x: Value, exponent: Value) -> Value:
    """Of floats; of integers by multiplying."""
    if x.type.dtype.is_float:
        exponent = ctx.cast(_aligned(ctx, node, x, exponent), x.type.dtype)
        return ctx.emit(graph.Pow, x, exponent)
    known = ctx.array(exponent)
    if known is None or known.size != 1 or not 0 <= known.item() <= 16 or known.item() % 1:
        return integer_power(ctx, x, exponent)
    product = ctx.emit(graph.Broadcast, ctx.scalar(1, x), shape=x.type.shape)
    for k in range(int(known.item())):
        product = ctx.emit(graph.Mul, product, x) if k else x
    rank = max(x.type.rank, exponent.type.rank)
    return ctx.reshape(product, (*(1,) * (rank - x.type.rank), *x.type.shape))


@operator("Reciprocal")
def reciprocal(ctx: Context, node: Node, x: Value) -> Value:
    """1 / x."""
    return ctx.emit(graph.Div, ctx.scalar(1, x), x)


@operator("Sign")
def sign(ctx: Context, node: Node, x: Value) -> Value:
    """-1, 0 or 1; NaN of NaN."""
    zero, one = ctx.scalar(0, x), ctx.scalar(1, x)
    positive = ctx.emit(graph.Select, ctx.emit(graph.Lt, zero, x), one, x)
    if x.type.dtype.kind == "u":
        return positive
    return ctx.emit(graph.Select, ctx.emit(graph.Lt, x, zero), ctx.scalar(-1, x), positive)


@operator("IsNaN")
def is_nan(ctx: Context, node: Node, x: Value) -> Value:
    """Only a NaN differs from itself."""
    return ctx.emit(graph.Ne, x, x)


@operator("IsInf", attributes="detect_negative detect_positive")
def is_inf(ctx: Context, node: Node, x: Value) -> Value:
    """Whether infinite, of either sign or of one."""
    if not x.type.dtype.is_float:
        raise ctx.refused("only floats are infinite")
    signs = {s for s in (1, -1) if node.integer(f"detect_{'positive' if s > 0 else 'negative'}", 1)}
    if len(signs) == 2:
        return ctx.emit(graph.Eq, ctx.emit(graph.Abs, x), ctx.scalar(np.inf, x))
    if not signs:
        return ctx.emit(graph.And, ctx.emit(graph.Eq, x, x), ctx.emit(graph.Ne, x, x))
    return ctx.emit(graph.Eq, x, ctx.scalar(signs.pop() * np.inf, x))


@operator("Where")
def where(ctx: Context, node: Node, condition: Value, a: Value, b: Value) -> Value:
    """`a` where the condition holds, else `b`."""
    return ctx.emit(graph.Select, condition, a, b)


@operator("Clip", attributes="max min")
def clip(
    ctx: Context, node: Node, x: Value, low: Value | None = None, high: Value | None = None
) -> Value:
    """Not below `low`, not above `high`: attributes before opset 11, then inputs."""
    if ctx.opset < 11:
        if "min" in node.attributes:
            low = ctx.scalar(node.number("min", 0), x)
        if "max" in node.attributes:
            high = ctx.scalar(node.number("max", 0), x)
    if low is not None:
        x = ctx.emit(graph.Max, x, ctx.reshape(low, ()))
    return x if high is None else ctx.emit(graph.Min, x, ctx.reshape(high, ()))
