"""Activations, softmax among them: composed of elementwise ops and reductions.

Those of more than one step compute f16 and bf16 in f32 and round once, at the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.widen import widened
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.core import Value
from minicc.ir.types import F64
from minicc.library.extremes import place_of_extreme


def sigmoid_of(ctx: Context, x: Value) -> Value:
    """1 / (1 + exp(-x)); exp may overflow to infinity, whose reciprocal is right."""
    one = ctx.scalar(1, x)
    return ctx.emit(
        graph.Div, one, ctx.emit(graph.Add, one, ctx.emit(graph.Exp, ctx.emit(graph.Neg, x)))
    )


def softplus_of(ctx: Context, x: Value) -> Value:
    """log(1 + exp(x)), written such that nothing overflows."""
    small = ctx.emit(graph.Exp, ctx.emit(graph.Neg, ctx.emit(graph.Abs, x)))
    log = ctx.emit(graph.Log, ctx.emit(graph.Add, ctx.scalar(1, x), small))
    return ctx.emit(graph.Add, ctx.emit(graph.Max, x, ctx.scalar(0, x)), log)


def _choose_negative(ctx: Context, x: Value, below: Value, above: Value) -> Value:
    return ctx.emit(graph.Select, ctx.emit(graph.Lt, x, ctx.scalar(0, x)), below, above)


def _exp_minus_one(ctx: Context, x: Value) -> Value:
    """exp(x) - 1 below 0, and 0 above."""
    low = ctx.emit(graph.Min, x, ctx.scalar(0, x))
    return ctx.emit(graph.Sub, ctx.emit(graph.Exp, low), ctx.scalar(1, x))


@operator("Relu")
def relu(ctx: Context, node: Node, x: Value) -> Value:
    """max(x, 0)."""
    return ctx.emit(graph.Max, x, ctx.scalar(0, x))


@operator("LeakyRelu", attributes="alpha")
def leaky_relu(ctx: Context, node: Node, x: Value) -> Value:
    """Alpha * x below 0."""
    return _choose_negative(ctx, x, ctx.scaled(x, node.number("alpha", 0.01)), x)


@operator("PRelu")
def prelu(ctx: Context, node: Node, x: Value, slope: Value) -> Value:
    """Itself, times a slope below 0; before opset 7 a slope of one axis lies on the channels."""
    if ctx.opset < 7 and slope.type.rank == 1 and x.type.rank > 1 and slope.type.shape != (1,):
        slope = ctx.reshape(slope, (*slope.type.shape, *(1,) * (x.type.rank - 2)))
    return _choose_negative(ctx, x, ctx.emit(graph.Mul, x, slope), x)


@operator("ThresholdedRelu", attributes="alpha")
def thresholded_relu(ctx: Context, node: Node, x: Value) -> Value:
    """Itself above alpha, else 0."""
    above = ctx.emit(graph.Lt, ctx.scalar(node.number("alpha", 1.0), x), x)
    return ctx.emit(graph.Select, above, x, ctx.scalar(0, x))


@operator("Elu", attributes="alpha")
@widened
def elu(ctx: Context, node: Node, x: Value) -> Value:
    """Alpha * (exp(x) - 1) below 0."""
    below = ctx.scaled(_exp_minus_one(ctx, x), node.number("alpha", 1.0))
    return _choose_negative(ctx, x, below, x)


@operator("Selu", attributes="alpha gamma")
@widened
def selu(ctx: Context, node: Node, x: Value) -> Value:
    """Gamma * x, and gamma * alpha * (exp(x) - 1) below 0."""
    alpha = node.number("alpha", 1.67326319217681884765625)
    gamma = node.number("gamma", 1.05070102214813232421875)
    below = ctx.scaled(_exp_minus_one(ctx, x), alpha)
    return ctx.scaled(_choose_negative(ctx, x, below, x), gamma)


@operator("Celu", attributes="alpha")
@widened
def celu(ctx: Context, node: Node, x: Value) -> Value:
    """Alpha * (exp(x / alpha) - 1) below 0."""
    alpha = node.number("alpha", 1.0)
    inner = ctx.emit(graph.Div, x, ctx.scalar(alpha, x))
    return _choose_negative(ctx, x, ctx.scaled(_exp_minus_one(ctx, inner), alpha), x)


@operator("Sigmoid")
@widened
def sigmoid(ctx: Context, node: Node, x: Value) -> Value:
    """1 / (1 + exp(-x))."""
    return sigmoid_of(ctx, x)


@operator("Swish", attributes="alpha")
@widened
def swish(ctx: Context, node: Node, x: Value) -> Value:
    """The product x * sigmoid(alpha * x)."""
    return ctx.emit(graph.Mul, x, sigmoid_of(ctx, ctx.scaled(x, node.number("alpha", 1.0))))


@operator("SwiGLU", attributes="alpha")
@widened
def swiglu(ctx: Context, node: Node, x: Value, linear: Value) -> Value:
    """The product of swish(x) and a second tensor."""
    return ctx.emit(graph.Mul, swish(ctx, node, x), ctx.cast(linear, x.type.dtype))


@operator("Shrink", attributes="bias lambd")
def shrink(ctx: Context, node: Node, x: Value) -> Value:
    """Less `bias` above `lambd`, more below -`lambd`, 0 between."""
    bias, lambd = node.number("bias", 0.0), node.number("lambd", 0.5)
    if x.type.dtype.is_integer:
        wide = ctx.cast(x, F64)
        return ctx.cast(shrink(ctx, node, wide), x.type.dtype)
    less = ctx.emit(graph.Sub, x, ctx.scalar(bias, x))
    more = ctx.emit(graph.Add, x, ctx.scalar(bias, x))
    above = ctx.emit(graph.Lt, ctx.scalar(lambd, x), x)
    below = ctx.emit(graph.Lt, x, ctx.scalar(-lambd, x))
    inner = ctx.emit(graph.Select, above, less, ctx.scalar(0, x))
    return ctx.emit(graph.Select, below, more, inner)


@operator("Softplus")
@widened
def softplus(ctx: Context, node: Node, x: Value) -> Value:
    """log(1 + exp(x))."""
    return softplus_of(ctx, x)


@operator("Softsign")
@widened
def softsign(ctx: Context, node: Node, x: Value) -> Value:
    """The quotient x / (1 + |x|)."""
    below = ctx.emit(graph.Add, ctx.scalar(1, x), ctx.emit(graph.Abs, x))
    return ctx.emit(graph.Div, x, below)


@operator("Mish")
@widened
def mish(ctx: Context, node: Node, x: Value) -> Value:
    """The product x * tanh(softplus(x))."""
    return ctx.emit(graph.Mul, x, ctx.emit(graph.Tanh, softplus_of(ctx, x)))


def _hard_sigmoid(ctx: Context, x: Value, alpha: float, beta: float) -> Value:
    line = ctx.emit(graph.Add, ctx.scaled(x, alpha), ctx.scalar(beta, x))
    above = ctx.emit(graph.Max, line, ctx.scalar(0, x))
    return ctx.emit(graph.Min, above, ctx.scalar(1, x))


@operator("HardSigmoid", attributes="alpha beta")
@widened
def hard_sigmoid(ctx: Context, node: Node, x: Value) -> Value:
    """Alpha * x + beta, kept between 0 and 1."""
    return _hard_sigmoid(ctx, x, node.number("alpha", 0.2), node.number("beta", 0.5))


@operator("HardSwish")
@widened
def hard_swish(ctx: Context, node: Node, x: Value) -> Value:
    """The product x * hard_sigmoid(x) with alpha 1/6 and beta 1/2."""
    # an attribute of HardSigmoid, of 32 bits
    return ctx.emit(graph.Mul, x, _hard_sigmoid(ctx, x, float(np.float32(1 / 6)), 0.5))


@operator("Gelu", attributes="approximate")
@widened
def gelu(ctx: Context, node: Node, x: Value) -> Value:
    """The product of x and (1 + erf(x / sqrt(2))) / 2, or its approximation by tanh."""
    kind = node.text("approximate", "none")
    if kind == "none":
        curve = ctx.emit(graph.Erf, ctx.scaled(x, float(np.sqrt(0.5))))
    elif kind == "tanh":
        cube = ctx.emit(graph.Mul, ctx.emit(graph.Mul, x, x), x)
        inner = ctx.emit(graph.Add, x, ctx.scaled(cube, 0.044715))
        curve = ctx.emit(graph.Tanh, ctx.scaled(inner, float(np.sqrt(2 / np.pi))))
    else:
        raise ctx.wrong(f"attribute approximate is {kind!r}, not 'none' or 'tanh'")
    both = ctx.emit(graph.Add, ctx.scalar(1, x), curve)
    return ctx.emit(graph.Mul, ctx.scaled(x, 0.5), both)


def softmax_axes(ctx: Context, node: Node, x: Value) -> tuple[int, ...]:
    """The axes that Softmax, LogSoftmax and Hardmax work on.

    Before opset 13 all axes from `axis` (then 1) on count as one, from then on only `axis` does.
    """
    rank = x.type.rank
    if ctx.opset >= 13:
        return (ctx.axis("axis", -1, rank),)
    first = node.integer("axis", 1)
    return tuple(range(rank if first == rank else ctx.axes((first,), rank)[0], rank))


def softmax_parts(ctx: Context, x: Value, axes: tuple[int, ...]) -> tuple[Value, Value, Value]:
    """The tensor less its maximum along axes, the exponentials of that, and their sum."""
    options: dict[str, Any] = {"axes": axes, "keepdims": True}
    less = ctx.emit(graph.Sub, x, ctx.emit(graph.Reduce, x, combine="max", **options))
    power = ctx.emit(graph.Exp, less)
    return less, power, ctx.emit(graph.Reduce, power, combine="add", **options)


@operator("Softmax", attributes="axis")
@widened
def softmax(ctx: Context, node: Node, x: Value) -> Value:
    """exp(x) over the sum of exp(x)."""
    _, power, total = softmax_parts(ctx, x, softmax_axes(ctx, node, x))
    return ctx.emit(graph.Div, power, total)


@operator("LogSoftmax", attributes="axis")
@widened
def log_softmax(ctx: Context, node: Node, x: Value) -> Value:
    """The logarithm of softmax, without dividing."""
    less, _, total = softmax_parts(ctx, x, softmax_axes(ctx, node, x))
    return ctx.emit(graph.Sub, less, ctx.emit(graph.Log, total))


@operator("Hardmax", attributes="axis")
def hardmax(ctx: Context, node: Node, x: Value) -> Value:
    """1 at the first maximum along the axes of `softmax_axes`, 0 elsewhere."""
    shape = x.type.shape
    axes = softmax_axes(ctx, node, x)
    if len(axes) != 1:
        # several axes, which are always the last ones, count as one
        first = len(shape) - len(axes)
        x = ctx.reshape(x, (*shape[:first], graph.product(shape[first:])))
        axes = (first,)
    best = place_of_extreme(ctx.emit, x, axes[0], "max")
    index = ctx.emit(graph.Iota, shape=x.type.shape, axis=axes[0], dtype=best.type.dtype)
    return ctx.reshape(ctx.cast(ctx.emit(graph.Eq, index, best), x.type.dtype), shape)
