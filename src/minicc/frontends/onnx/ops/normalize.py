"""Normalisations in inference, and dropout."""

from __future__ import annotations

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.reduce import mean_of
from minicc.frontends.onnx.ops.widen import wide_of, widened
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.core import Literal, Value


def per_channel(ctx: Context, x: Value, like: Value) -> Value:
    """A vector with an entry a channel, such that it broadcasts along axis 1 of `like`."""
    return ctx.reshape(x, (*x.type.shape, *(1,) * max(like.type.rank - 2, 0)))


def _add(ctx: Context, a: Value, b: Value) -> Value:
    return ctx.emit(graph.Add, a, b)


def _mul(ctx: Context, a: Value, b: Value) -> Value:
    return ctx.emit(graph.Mul, a, b)


@operator("BatchNormalization", attributes="epsilon is_test momentum spatial training_mode")
def batch_normalization(
    ctx: Context, node: Node, x: Value, scale: Value, bias: Value, mean: Value, variance: Value
) -> Value | tuple[Value, ...]:
    """The line x * scale' + shift', a channel each, with the stored mean and variance.

    Before opset 9, `spatial` = 0 has one for each element.
    """
    if ctx.opset < 7 and not node.integer("is_test", 0):
        raise ctx.unsupported("training mode", "export the model for inference")
    if node.integer("training_mode", 0):
        return _training(ctx, node, x, scale, bias, (mean, variance))
    epsilon = node.number("epsilon", 1e-5)
    known = [ctx.array(v) for v in (scale, bias, mean, variance)]
    if any(a is None for a in known):
        deviation = ctx.emit(graph.Sqrt, _add(ctx, variance, ctx.scalar(epsilon, variance)))
        factor = ctx.emit(graph.Div, ctx.cast(scale, mean.type.dtype), deviation)
        shift = ctx.emit(graph.Sub, ctx.cast(bias, mean.type.dtype), _mul(ctx, mean, factor))
        factor, shift = ctx.cast(factor, x.type.dtype), ctx.cast(shift, x.type.dtype)
    else:
        s, b, m, v = (np.asarray(a, np.float64) for a in known)
        with np.errstate(all="ignore"):
            exact = s / np.sqrt(v + epsilon)
            factor = ctx.constant(exact.astype(x.type.dtype.numpy))
            shift = ctx.constant((b - m * exact).astype(x.type.dtype.numpy))
    if node.integer("spatial", 1):  # else they have the extents of all axes but the first
        factor, shift = per_channel(ctx, factor, x), per_channel(ctx, shift, x)
    return _add(ctx, _mul(ctx, x, factor), shift)


def _training(
    ctx: Context, node: Node, x: Value, scale: Value, bias: Value, running: tuple[Value, Value]
) -> tuple[Value, ...]:
    """With the mean and variance of the batch, and the running ones brought up to date."""
    axes = (0, *range(2, x.type.rank))
    wide = wide_of(ctx, x)
    mean = mean_of(ctx, wide, axes, True)
    less = ctx.emit(graph.Sub, wide, mean)
    variance = mean_of(ctx, _mul(ctx, less, less), axes, True)
    epsilon = ctx.scalar(node.number("epsilon", 1e-5), wide)
    out = ctx.emit(graph.Div, less, ctx.emit(graph.Sqrt, _add(ctx, variance, epsilon)))
    factor, shift = (per_channel(ctx, ctx.cast(v, wide.type.dtype), wide) for v in (scale, bias))
    out = ctx.cast(_add(ctx, _mul(ctx, out, factor), shift), x.type.dtype)
    momentum = node.number("momentum", 0.9)
    news: list[Value] = []
    for old, new in zip(running, (mean, variance), strict=True):
        now = ctx.cast(ctx.reshape(new, old.type.shape), old.type.dtype)
        kept = _mul(ctx, old, ctx.scalar(momentum, old))
        news.append(_add(ctx, kept, _mul(ctx, now, ctx.scalar(1 - momentum, old))))
    return out, *news


def _standardised(
    ctx: Context, x: Value, axes: tuple[int, ...], epsilon: float
) -> tuple[Value, Value, Value]:
    """Mean 0 and variance 1 over axes; also the mean and the reciprocal of the deviation."""
    mean = mean_of(ctx, x, axes, True)
    less = ctx.emit(graph.Sub, x, mean)
    variance = mean_of(ctx, _mul(ctx, less, less), axes, True)
    deviation = ctx.emit(graph.Sqrt, _add(ctx, variance, ctx.scalar(epsilon, x)))
    inverse = ctx.emit(graph.Div, ctx.scalar(1, x), deviation)
    return _mul(ctx, less, inverse), mean, inverse


@operator("LayerNormalization", attributes="axis epsilon stash_type")
def layer_normalization(
    ctx: Context, node: Node, x: Value, scale: Value, bias: Value | None = None
) -> tuple[Value, ...]:
    """Standardise over the axes from `axis` on, then scale and shift."""
    axes = tuple(range(ctx.axis("axis", -1, x.type.rank), x.type.rank))
    element = x.type.dtype
    out, mean, inverse = _standardised(ctx, wide_of(ctx, x), axes, node.number("epsilon", 1e-5))
    out = _mul(ctx, ctx.cast(out, element), scale)
    return (out if bias is None else _add(ctx, out, bias)), mean, inverse


@operator("RMSNormalization", attributes="axis epsilon stash_type")
def rms_normalization(ctx: Context, node: Node, x: Value, scale: Value) -> Value:
    """Divide by the root of the mean square over the axes from `axis` on, then scale."""
    axes = tuple(range(ctx.axis("axis", -1, x.type.rank), x.type.rank))
    wide = wide_of(ctx, x)
    square = mean_of(ctx, _mul(ctx, wide, wide), axes, True)
    epsilon = ctx.scalar(node.number("epsilon", 1e-5), wide)
    out = ctx.emit(graph.Div, wide, ctx.emit(graph.Sqrt, _add(ctx, square, epsilon)))
    return _mul(ctx, ctx.cast(out, x.type.dtype), scale)


@operator("InstanceNormalization", attributes="epsilon")
def instance_normalization(ctx: Context, node: Node, x: Value, scale: Value, bias: Value) -> Value:
    """Standardise each channel of each example, then scale and shift."""
    axes = tuple(range(2, x.type.rank))
    out, _, _ = _standardised(ctx, wide_of(ctx, x), axes, node.number("epsilon", 1e-5))
    out = _mul(ctx, ctx.cast(out, x.type.dtype), per_channel(ctx, scale, x))
    return _add(ctx, out, per_channel(ctx, bias, x))


@operator("GroupNormalization", attributes="epsilon num_groups! stash_type")
def group_normalization(ctx: Context, node: Node, x: Value, scale: Value, bias: Value) -> Value:
    """Standardise groups of channels; scales are a group's before opset 21, then a channel's."""
    groups = node.integer("num_groups", 1)
    if x.type.rank < 2 or groups < 1:
        raise ctx.refused(f"{groups} groups of [N, C, spatial...]")
    batch, channels, *spatial = x.type.shape
    width = ctx.quotient(channels, groups, "channels")
    grouped = ctx.reshape(wide_of(ctx, x), (batch, groups, width, *spatial))
    axes = tuple(range(2, grouped.type.rank))
    out, _, _ = _standardised(ctx, grouped, axes, node.number("epsilon", 1e-5))
    out = ctx.cast(out, x.type.dtype)
    if ctx.opset < 21:
        out = _mul(ctx, out, per_channel(ctx, scale, out))
        return ctx.reshape(_add(ctx, out, per_channel(ctx, bias, out)), x.type.shape)
    out = ctx.reshape(out, x.type.shape)
    return _add(ctx, _mul(ctx, out, per_channel(ctx, scale, x)), per_channel(ctx, bias, x))


@operator("MeanVarianceNormalization", attributes="axes")
@widened
def mean_variance_normalization(ctx: Context, node: Node, x: Value) -> Value:
    """Standardise over axes."""
    axes = ctx.axes(node.integers("axes") or (0, 2, 3), x.type.rank)
    return _standardised(ctx, x, axes, 1e-9)[0]


@operator("LRN", attributes="alpha beta bias size!")
@widened
def local_response_normalization(ctx: Context, node: Node, x: Value) -> Value:
    """The quotient x / (bias + alpha / size * the squares of near channels) ** beta."""
    size, rank = node.integer("size", 1), x.type.rank
    ahead, rest = (size - 1) // 2, (0,) * (rank - 2)
    square = ctx.emit(
        graph.Pad,
        _mul(ctx, x, x),
        low=(0, ahead, *rest),
        high=(0, size - 1 - ahead, *rest),
        value=Literal(np.zeros((), x.type.dtype.numpy)),
    )
    ones = (1,) * rank
    near = ctx.emit(
        graph.Window,
        square,
        combine="add",
        size=(1, size, *ones[2:]),
        strides=ones,
        dilations=ones,
    )
    part = _mul(ctx, near, ctx.scalar(node.number("alpha", 1e-4) / size, x))
    base = _add(ctx, part, ctx.scalar(node.number("bias", 1.0), x))
    below = ctx.emit(graph.Pow, base, ctx.scalar(node.number("beta", 0.75), x))
    return ctx.emit(graph.Div, x, below)


@operator("LpNormalization", attributes="axis p")
@widened
def lp_normalization(ctx: Context, node: Node, x: Value) -> Value:
    """Divide by the norm along an axis; where that is 0 the result is 0."""
    axis, p = ctx.axis("axis", -1, x.type.rank), node.integer("p", 2)
    part = ctx.emit(graph.Abs, x) if p == 1 else _mul(ctx, x, x)
    norm = ctx.emit(graph.Reduce, part, axes=(axis,), combine="add", keepdims=True)
    if p != 1:
        norm = ctx.emit(graph.Sqrt, norm)
    zero = ctx.emit(graph.Eq, norm, ctx.scalar(0, x))
    return ctx.emit(graph.Div, x, ctx.emit(graph.Select, zero, ctx.scalar(1, x), norm))
