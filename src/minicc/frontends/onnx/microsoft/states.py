"""What models of linear attention and of several positions a step have besides attention."""

from __future__ import annotations

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.microsoft.attention import require_absent, rotated, together
from minicc.frontends.onnx.microsoft.common import (
    DOMAIN,
    channels_first,
    channels_last,
    flag,
    standard,
)
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.activation import sigmoid_of
from minicc.frontends.onnx.ops.attention import heads_of
from minicc.frontends.onnx.ops.movement import cut
from minicc.frontends.onnx.ops.regions import causal_convolution
from minicc.frontends.onnx.ops.widen import wide_of
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.core import Value


@operator(
    f"{DOMAIN}.CausalConvWithState",
    attributes="activation channels_last dilation ndim state_window",
)
def causal_convolution_of_states(
    ctx: Context,
    node: Node,
    x: Value,
    w: Value,
    b: Value | None = None,
    past: Value | None = None,
) -> tuple[Value, ...]:
    """ONNX's operator, with steps apart, and with channels last, which may be several axes."""
    require_absent(ctx, window_of_states=flag(node, "state_window"))
    if node.integer("ndim", 1) != 1:
        raise ctx.unsupported("a convolution of several axes", "use one axis")
    if not flag(node, "channels_last"):
        return causal_convolution(ctx, node, x, w, b, past)
    batch, _, *rest = x.type.shape

    def first(v: Value) -> Value:
        return channels_first(ctx, ctx.reshape(v, (batch, v.type.shape[1], graph.product(rest))))

    def last(v: Value) -> Value:
        return ctx.reshape(channels_last(ctx, v), (batch, v.type.shape[2], *rest))

    held = None if past is None else first(past)
    out, state = causal_convolution(ctx, node, first(x), w, b, held)
    return last(out), last(state)


@operator(f"{DOMAIN}.LinearAttentionGate")
def linear_attention_gate(
    ctx: Context, node: Node, a: Value, bias: Value, scale: Value, b: Value | None = None
) -> tuple[Value, ...]:
    """The decay, scale * softplus(a + bias), and the rate sigmoid(b), both computed in f32."""
    open_ = standard(ctx, node, "Softplus", ctx.emit(graph.Add, wide_of(ctx, a), bias))
    decay = ctx.cast(ctx.emit(graph.Mul, open_, scale), a.type.dtype)
    if b is None:
        return (decay,)
    return decay, ctx.cast(sigmoid_of(ctx, wide_of(ctx, b)), b.type.dtype)


@operator(
    f"{DOMAIN}.MRotaryEmbedding",
    attributes="interleaved is_packed_batching mrope_layout mrope_section num_heads"
    " rotary_embedding_dim scale",
)
def rotary_embedding_of_three(
    ctx: Context, node: Node, x: Value, positions: Value, cosines: Value, sines: Value
) -> Value:
    """Pairs of elements turned by the angle of one of their step's three positions."""
    require_absent(ctx, packed_batching=flag(node, "is_packed_batching"))
    sections = node.integers("mrope_section") or ()
    half = sum(sections)
    if len(sections) != 3 or min(sections) < 0:
        raise ctx.wrong(f"attribute mrope_section is {list(sections)}")
    text = f"sections {list(sections)} of the angles {cosines.type}"
    ctx.demand(cosines.type.shape[1], half, text)
    if node.integer("mrope_layout", 0):
        number = np.arange(half)
        which = np.where(number < 3 * np.array(sections)[number % 3], number % 3, 0)
    else:
        which = np.repeat(np.arange(3), sections)

    def angles(table: Value) -> Value:
        found = ctx.emit(graph.Gather, table, positions, axis=0)
        parts = [
            ctx.reshape(cut(ctx, found, {0: (k, k + 1, 1)}), found.type.shape[1:]) for k in range(3)
        ]
        rest = ctx.emit(graph.Select, ctx.constant(which == 1), parts[1], parts[0])
        return ctx.emit(graph.Select, ctx.constant(which == 2), parts[2], rest)

    tables = angles(cosines), angles(sines)
    inner = heads_of(ctx, x, node.integer("num_heads", 0))
    out = rotated(ctx, inner, tables, None, flag(node, "interleaved"))
    return together(ctx, out) if x.type.rank == 3 else out
