"""Products of quantised tensors, quantised when the model runs or before."""

from __future__ import annotations

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.microsoft.attention import require_absent, self_attention
from minicc.frontends.onnx.microsoft.common import DOMAIN, add, all_of, flag, permuted, standard
from minicc.frontends.onnx.microsoft.normalize import embedded, words_of
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.quantize import rounded
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.core import Value
from minicc.ir.types import F32, I32


def _column(ctx: Context, part: Value) -> Value:
    """A scale or zero point of the left operand: of each row, or one of all."""
    return (
        _row(ctx, part)
        if part.type.rank != 1 or part.type.shape == (1,)
        else ctx.reshape(part, (*part.type.shape, 1))
    )


def _row(ctx: Context, part: Value) -> Value:
    """A scale or zero point of the right operand: of each column, or one of all."""
    return ctx.reshape(part, ()) if part.type.shape == (1,) else part


def integer_product(
    ctx: Context, node: Node, a: Value, b: Value, a_zero: Value | None, b_zero: Value | None
) -> Value:
    """The product of integers less their zero points, in f32; it is exact before."""
    zeros = (
        None if a_zero is None else _row(ctx, a_zero),
        None if b_zero is None else _row(ctx, b_zero),
    )
    return ctx.cast(standard(ctx, node, "MatMulInteger", a, b, *zeros), F32)


def _times(ctx: Context, a: Value, *factors: Value) -> Value:
    for factor in factors:
        a = ctx.emit(graph.Mul, a, factor)
    return a


@operator(f"{DOMAIN}.QuantizeLinear", attributes="axis")
def quantize_linear(
    ctx: Context, node: Node, x: Value, scale: Value, zero: Value | None = None
) -> Value:
    """round(x / scale) + zero, saturated."""
    axis = node.integer("axis", 1)
    return standard(ctx, node, "QuantizeLinear", x, scale, zero, axis=axis)


@operator(f"{DOMAIN}.DequantizeLinear", attributes="axis")
def dequantize_linear(
    ctx: Context, node: Node, x: Value, scale: Value, zero: Value | None = None
) -> Value:
    """(x - zero) * scale."""
    axis = node.integer("axis", 1)
    return standard(ctx, node, "DequantizeLinear", x, scale, zero, axis=axis)


@operator(f"{DOMAIN}.MatMulInteger16")
def matmul_integer16(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    """A product of integers of 16 bits, in i32."""
    return standard(ctx, node, "MatMul", ctx.cast(a, I32), ctx.cast(b, I32))


@operator(f"{DOMAIN}.MatMulIntegerToFloat")
def matmul_integer_to_float(
    ctx: Context,
    node: Node,
    a: Value,
    b: Value,
    a_scale: Value,
    b_scale: Value,
    a_zero: Value | None = None,
    b_zero: Value | None = None,
    bias: Value | None = None,
) -> Value:
    """A product of quantised matrices, in f32."""
    product = integer_product(ctx, node, a, b, a_zero, b_zero)
    scale = ctx.emit(graph.Mul, _column(ctx, a_scale), _row(ctx, b_scale))
    return add(ctx, _times(ctx, product, scale), bias)


@operator(f"{DOMAIN}.DynamicQuantizeMatMul")
def dynamic_quantize_matmul(
    ctx: Context,
    node: Node,
    a: Value,
    b: Value,
    b_scale: Value,
    b_zero: Value | None = None,
    bias: Value | None = None,
) -> Value:
    """A product of a matrix, which is quantised by its least and greatest element, and another."""
    whole, a_scale, a_zero = all_of(ctx, node, "DynamicQuantizeLinear", a)
    return matmul_integer_to_float(ctx, node, whole, b, a_scale, b_scale, a_zero, b_zero, bias)


@operator(f"{DOMAIN}.QGemm", attributes="alpha transA transB")
def qgemm(
    ctx: Context,
    node: Node,
    a: Value,
    a_scale: Value,
    a_zero: Value | None,
    b: Value,
    b_scale: Value,
    b_zero: Value | None,
    c: Value | None = None,
    y_scale: Value | None = None,
    y_zero: Value | None = None,
) -> Value:
    """A product of quantised matrices and integers added to it; quantised anew or in f32."""
    if a.type.rank != 2 or b.type.rank != 2:
        raise ctx.refused("QGemm wants two matrices")
    a = permuted(ctx, a, (1, 0)) if flag(node, "transA") else a
    b = permuted(ctx, b, (1, 0)) if flag(node, "transB") else b
    zeros = [None if z is None else _row(ctx, z) for z in (a_zero, b_zero)]
    product = standard(ctx, node, "MatMulInteger", a, b, *zeros)
    product = ctx.cast(add(ctx, product, c), F32)
    factor = ctx.emit(graph.Mul, _row(ctx, a_scale), _row(ctx, b_scale))
    factor = ctx.emit(graph.Mul, factor, ctx.scalar(node.number("alpha", 1.0), factor))
    if y_scale is None:
        return ctx.emit(graph.Mul, product, factor)
    exact = ctx.emit(graph.Mul, product, ctx.emit(graph.Div, factor, _row(ctx, y_scale)))
    zero = None if y_zero is None else _row(ctx, y_zero)
    return rounded(ctx, exact, zero, a.type.dtype if zero is None else zero.type.dtype)


_ATTENTION = "do_rotary mask_filter_value num_heads past_present_share_buffer scale unidirectional"


@operator(f"{DOMAIN}.QAttention", attributes=_ATTENTION)
def qattention(
    ctx: Context,
    node: Node,
    x: Value,
    weights: Value,
    bias: Value,
    x_scale: Value,
    w_scale: Value,
    mask: Value | None = None,
    x_zero: Value | None = None,
    w_zero: Value | None = None,
    past: Value | None = None,
) -> tuple[Value, ...]:
    """Self-attention of a quantised input times quantised weights; the rest is in f32."""
    require_absent(
        ctx,
        rotation=flag(node, "do_rotary"),
        shared_buffer=flag(node, "past_present_share_buffer"),
    )
    product = matmul_integer_to_float(ctx, node, x, weights, x_scale, w_scale, x_zero, w_zero, bias)
    return self_attention(ctx, node, product, past, mask)


@operator(f"{DOMAIN}.QEmbedLayerNormalization", attributes="epsilon")
def qembed_layer_normalization(
    ctx: Context,
    node: Node,
    ids: Value,
    kinds: Value | None,
    words: Value,
    positions: Value,
    segments: Value | None,
    gamma: Value,
    beta: Value,
    mask: Value | None,
    word_scale: Value,
    position_scale: Value,
    segment_scale: Value | None,
    gamma_scale: Value,
    beta_scale: Value,
    word_zero: Value,
    position_zero: Value,
    segment_zero: Value | None,
    gamma_zero: Value,
    beta_zero: Value,
) -> tuple[Value, ...]:
    """Quantised embeddings of words, positions and segments, added and standardised."""

    def real(x: Value, scale: Value, zero: Value) -> Value:
        return standard(ctx, node, "DequantizeLinear", x, _row(ctx, scale), _row(ctx, zero))

    segment: Value | None = None
    if segments is not None:
        if segment_scale is None or segment_zero is None:
            raise ctx.wrong("the scale or the zero point of its segments is missing")
        segment = real(segments, segment_scale, segment_zero)
    word, position = (
        real(words, word_scale, word_zero),
        real(positions, position_scale, position_zero),
    )
    factor, shift = real(gamma, gamma_scale, gamma_zero), real(beta, beta_scale, beta_zero)
    total = embedded(ctx, node, (word, position, segment), (ids, None, kinds))
    epsilon = node.number("epsilon", 1e-12)
    options = {"axis": -1, "epsilon": epsilon}
    out = standard(ctx, node, "LayerNormalization", total, factor, shift, **options)
    return out, words_of(ctx, ids, mask)
