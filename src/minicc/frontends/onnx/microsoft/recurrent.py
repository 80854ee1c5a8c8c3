"""Recurrent layers with quantised weights.

The inputs of all steps are quantised together by their least and greatest element, the state in
each step by its own; their products with the weights are exact before they are scaled. So does
ONNX Runtime with one thread; with more it may quantise each thread's sentences for themselves.
"""

from __future__ import annotations

from dataclasses import replace

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.microsoft.common import DOMAIN, all_of
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.movement import cut
from minicc.frontends.onnx.ops.recurrent import Recurrent, layer
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.affine import Dim
from minicc.ir.core import Value
from minicc.ir.types import F32, I32

_ATTRIBUTES = "activation_alpha activation_beta activations clip direction hidden_size input_forget"


def _row(ctx: Context, part: Value, k: int) -> Value:
    """A direction's scale or zero point: of each column, or one of all."""
    own = cut(ctx, part, {0: (k, k + 1, 1)})
    return ctx.reshape(own, part.type.shape[1:] if part.type.rank > 1 else ())


@operator(f"{DOMAIN}.DynamicQuantizeLSTM", attributes=_ATTRIBUTES)
def dynamic_quantize_lstm(
    ctx: Context,
    node: Node,
    x: Value,
    w: Value,
    r: Value,
    b: Value | None,
    lengths: Value | None,
    h: Value | None,
    c: Value | None,
    p: Value | None,
    w_scale: Value,
    w_zero: Value,
    r_scale: Value,
    r_zero: Value,
) -> tuple[Value, ...]:
    """An LSTM whose weights are quantised, and its inputs and states when it runs."""

    def products(
        ctx: Context, k: int, x: Value, w: Value, r: Value, each: tuple[int, Dim]
    ) -> tuple[Value, Recurrent]:
        def quantised(a: Value, weights: Value, scale: Value) -> Value:
            whole, a_scale, a_zero = all_of(ctx, node, "DynamicQuantizeLinear", a)
            less = ctx.emit(graph.Sub, ctx.cast(whole, I32), ctx.cast(a_zero, I32))
            sums = ctx.emit(graph.Contract, less, weights, equation="tbi,ig->tbg")
            factor = ctx.emit(graph.Mul, a_scale, scale)
            return ctx.emit(graph.Mul, ctx.cast(sums, F32), factor)

        def less_zero(v: Value, zero: Value) -> Value:
            own = ctx.reshape(cut(ctx, v, {0: (k, k + 1, 1)}), v.type.shape[1:])
            return ctx.emit(graph.Sub, ctx.cast(own, I32), ctx.cast(_row(ctx, zero, k), I32))

        weights, recurrent = less_zero(w, w_zero), less_zero(r, r_zero)

        def product(h: Value, first: int, last: int) -> Value:
            out = quantised(h, recurrent, _row(ctx, r_scale, k))
            out = ctx.reshape(out, (*h.type.shape[:2], *each))
            return cut(ctx, out, {2: (first, last, 1)})

        return quantised(x, weights, _row(ctx, w_scale, k)), product

    inner = replace(node, op="LSTM")
    return layer(ctx, inner, (x, w, r, b), lengths, (h, c), p, products, True)
