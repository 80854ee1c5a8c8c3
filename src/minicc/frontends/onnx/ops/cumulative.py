"""Sums and products of all elements so far along an axis."""

from __future__ import annotations

from typing import Any

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.movement import cut
from minicc.frontends.onnx.registry import Importer, register
from minicc.ir import graph
from minicc.ir.arith import identity_of
from minicc.ir.core import Value


def _cumulative(combine: str) -> Importer:
    def run(ctx: Context, node: Node, x: Value, axis: Value) -> Value:
        (named,) = ctx.integers(axis, "axis")
        (along,) = ctx.axes((named,), x.type.rank)
        n = x.type.shape[along]
        back: Any = {along: (n - 1, -1, -1)}
        reverse = bool(node.integer("reverse", 0))
        out = cut(ctx, x, back) if reverse else x
        if node.integer("exclusive", 0):
            # the last one is dropped after there is one more: there may be none
            low = tuple(int(k == along) for k in range(x.type.rank))
            neutral = identity_of(combine, x.type.dtype)
            out = ctx.emit(graph.Pad, out, low=low, high=(0,) * x.type.rank, value=neutral)
            out = cut(ctx, out, {along: (0, n, 1)})
        out = ctx.emit(graph.Accumulate, out, axis=along, combine=combine)
        return cut(ctx, out, back) if reverse else out

    return run


register("CumSum", _cumulative("add"), "exclusive reverse")
register("CumProd", _cumulative("mul"), "exclusive reverse")
