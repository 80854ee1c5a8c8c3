"""Activations with a bias or a gate, as ONNX Runtime's optimiser fuses them."""

from __future__ import annotations

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.microsoft.common import DOMAIN, add, flag, single, standard
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.activation import sigmoid_of, softmax_parts
from minicc.frontends.onnx.ops.movement import cut
from minicc.frontends.onnx.ops.widen import widened
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.core import Value
from minicc.ir.types import F32


@operator(f"{DOMAIN}.Gelu")
def gelu(ctx: Context, node: Node, x: Value) -> Value:
    """The product of x and (1 + erf(x / sqrt(2))) / 2."""
    return standard(ctx, node, "Gelu", x)


@operator(f"{DOMAIN}.BiasGelu")
def bias_gelu(ctx: Context, node: Node, x: Value, bias: Value) -> Value:
    """Gelu of a sum."""
    return gelu(ctx, node, add(ctx, x, bias))


@operator(f"{DOMAIN}.FastGelu")
def fast_gelu(ctx: Context, node: Node, x: Value, bias: Value | None = None) -> Value:
    """Gelu by its approximation with tanh, of a sum where there is a bias."""
    return standard(ctx, node, "Gelu", add(ctx, x, bias), approximate="tanh")


@operator(f"{DOMAIN}.GemmFastGelu")
def gemm_fast_gelu(
    ctx: Context, node: Node, x: Value, w: Value, bias: Value | None = None
) -> Value:
    """FastGelu of a product of matrices."""
    return fast_gelu(ctx, node, standard(ctx, node, "MatMul", x, w), bias)


@operator(f"{DOMAIN}.QuickGelu", attributes="alpha")
def quick_gelu(ctx: Context, node: Node, x: Value) -> Value:
    """The product x * sigmoid(alpha * x)."""
    return standard(ctx, node, "Swish", x, alpha=node.number("alpha", 1.702))


@operator(f"{DOMAIN}.BiasSplitGelu")
def bias_split_gelu(ctx: Context, node: Node, x: Value, bias: Value) -> Value:
    """One half of the last axis of a sum, times Gelu of the other half."""
    both = add(ctx, x, bias)
    axis = both.type.rank - 1
    half = ctx.quotient(both.type.shape[axis], 2, "channels")
    left, right = (cut(ctx, both, {axis: (k, k + half, 1)}) for k in (0, half))
    return ctx.emit(graph.Mul, left, gelu(ctx, node, right))


@operator(f"{DOMAIN}.BiasAdd")
def bias_add(ctx: Context, node: Node, x: Value, bias: Value, skip: Value) -> Value:
    """The sum of a tensor, a bias of its last axis, and another tensor."""
    return add(ctx, x, bias, skip)


@operator(f"{DOMAIN}.GatedAdd")
def gated_add(ctx: Context, node: Node, x: Value, y: Value, gate: Value) -> Value:
    """The sum of a tensor and another one that is scaled by rows."""
    return add(ctx, x, ctx.emit(graph.Mul, y, gate))


@operator(f"{DOMAIN}.ScaledSiLU", attributes="alpha")
def scaled_silu(ctx: Context, node: Node, x: Value, scale: Value | None = None) -> Value:
    """The product z * sigmoid(z) of z = scale * x, each step rounded to the element type."""
    element = x.type.dtype
    if scale is None:
        factor = ctx.scalar(node.number("alpha", 1.0), F32)
    else:
        factor = ctx.cast(single(ctx, scale, "scale"), F32)
    z = ctx.cast(ctx.emit(graph.Mul, ctx.cast(x, F32), factor), element)
    s = ctx.cast(sigmoid_of(ctx, ctx.cast(z, F32)), element)
    return ctx.emit(graph.Mul, z, s)


@operator(f"{DOMAIN}.BiasSoftmax", attributes="axis is_inner_broadcast")
@widened
def bias_softmax(ctx: Context, node: Node, x: Value, bias: Value) -> Value:
    """The soft-max of a sum over all axes from `axis` on.

    The bias repeats along the batch axes: the last of them, or with `is_inner_broadcast` 0 the
    first.
    """
    rank = x.type.rank
    axis = ctx.axis("axis", 1, rank)
    if bias.type.rank == rank or not flag(node, "is_inner_broadcast", 1):
        both = add(ctx, x, ctx.cast(bias, x.type.dtype))
    else:
        # the leading axes are the bias' own, and those between are the repeated ones
        own = bias.type.rank - (rank - axis)
        shape = (*bias.type.shape[:own], *(1,) * (axis - own), *bias.type.shape[own:])
        both = add(ctx, x, ctx.reshape(ctx.cast(bias, x.type.dtype), shape))
    _, power, total = softmax_parts(ctx, both, tuple(range(axis, rank)))
    return ctx.emit(graph.Div, power, total)
