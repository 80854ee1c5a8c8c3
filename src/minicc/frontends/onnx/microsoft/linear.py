"""Products and convolutions with what follows them, as ONNX Runtime's optimiser fuses them."""

from __future__ import annotations

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.microsoft.common import (
    DOMAIN,
    activated,
    activation_parameters,
    add,
    channels_first,
    channels_last,
    flag,
    permuted,
    standard,
)
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.linear import gemm
from minicc.frontends.onnx.ops.window import conv
from minicc.frontends.onnx.registry import operator
from minicc.ir.core import Value

_CONV = "auto_pad dilations group kernel_shape pads strides"


def _turned(ctx: Context, x: Value, rows: bool, batch: bool) -> Value:
    """An operand of a product as its attributes say; a vector stays.

    With `batch` the first axis is that of the rows, and the batch axes are those after it.
    """
    rank = x.type.rank
    if rank < 2:
        return x
    perm = [*range(1, rank - 1), 0, rank - 1] if batch else [*range(rank)]
    if rows:
        perm[-2:] = [perm[-1], perm[-2]]
    return permuted(ctx, x, perm)


@operator(f"{DOMAIN}.TransposeMatMul", attributes="alpha transA transB")  # its old name
@operator(f"{DOMAIN}.FusedMatMul", attributes="alpha transA transB transBatchA transBatchB")
def fused_matmul(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    """A multiple of a product of matrices, either transposed if asked for."""
    a = _turned(ctx, a, flag(node, "transA"), flag(node, "transBatchA"))
    b = _turned(ctx, b, flag(node, "transB"), flag(node, "transBatchB"))
    return ctx.scaled(standard(ctx, node, "MatMul", a, b), node.number("alpha", 1.0))


_GEMM = "activation activation_alpha activation_beta activation_gamma alpha beta transA transB"


@operator(f"{DOMAIN}.FusedGemm", attributes=_GEMM)
def fused_gemm(ctx: Context, node: Node, a: Value, b: Value, c: Value | None = None) -> Value:
    """Gemm, and an activation."""
    prefix = "activation_"
    names = [name for name in node.attributes if name.startswith(prefix)]
    parameters = {name.removeprefix(prefix): node.number(name, 0.0) for name in names}
    out = gemm(ctx, node, a, b, c)
    return activated(ctx, node, out, node.text("activation", ""), parameters)


def fused(ctx: Context, node: Node, x: Value) -> Value:
    """The activation that a convolution's attributes name."""
    name = node.text("activation", "")
    return activated(ctx, node, x, name, activation_parameters(ctx, node, name))


@operator(f"{DOMAIN}.FusedConv", attributes=f"{_CONV} activation activation_params")
def fused_conv(
    ctx: Context, node: Node, x: Value, w: Value, b: Value | None = None, z: Value | None = None
) -> Value:
    """A convolution, a tensor added to it, and an activation."""
    return fused(ctx, node, add(ctx, conv(ctx, node, x, w, b), z))


@operator(f"{DOMAIN}.NhwcConv", attributes=_CONV)
def nhwc_conv(ctx: Context, node: Node, x: Value, w: Value, b: Value | None = None) -> Value:
    """A convolution whose channels are the last axis, of the weights too."""
    out = conv(ctx, node, channels_first(ctx, x), channels_first(ctx, w), b)
    return channels_last(ctx, out)


@operator(f"{DOMAIN}.NhwcFusedConv", attributes=f"{_CONV} activation activation_params")
def nhwc_fused_conv(
    ctx: Context, node: Node, x: Value, w: Value, b: Value | None = None, z: Value | None = None
) -> Value:
    """A convolution whose channels are the last axis, a tensor added to it, and an activation."""
    out = conv(ctx, node, channels_first(ctx, x), w, b)
    return fused(ctx, node, add(ctx, channels_last(ctx, out), z))
