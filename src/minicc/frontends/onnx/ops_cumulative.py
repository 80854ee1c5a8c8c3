"""Sums and products of all elements so far along an axis.

Blocks of 32 elements are combined by windows, then the blocks' totals by the same means: about 32
steps an element for each factor of 32 in the length, all of them independent, and an element
enters only the results behind it (a product with a triangle would let a NaN reach all of them).

Mirrors: ONNX's CumSum and CumProd; the two-level scans of parallel machines.
"""

from __future__ import annotations

from typing import Any

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.ops_movement import cut
from minicc.frontends.onnx.reader import Node
from minicc.frontends.onnx.registry import Importer, register
from minicc.ir import graph
from minicc.ir.affine import Dim, ceildiv
from minicc.ir.arith import COMBINERS, identity_of
from minicc.ir.core import Literal, Op, Value
from minicc.ir.types import BF16, F16, F32

_BLOCK = 32
_OPS: dict[str, type[Op]] = {"add": graph.Add, "mul": graph.Mul}


def scan(ctx: Context, x: Value, axis: int, combine: str, levels: int = 2) -> Value:
    """The combination of all elements up to each along an axis.

    A free one has so many levels of blocks, which are enough for all but extents that are rare.
    """
    assert combine in COMBINERS
    shape = x.type.shape
    n: Dim = shape[axis]
    neutral = identity_of(combine, x.type.dtype)
    if isinstance(n, int) and n <= _BLOCK:
        return _window(ctx, x, axis, n, combine, neutral)
    if not isinstance(n, int) and not levels:
        filled = _padded(ctx, x, axis, 0, _BLOCK - n, neutral)
        out = _window(ctx, filled, axis, _BLOCK, combine, neutral)
        return cut(ctx, out, {axis: (0, n, 1)})
    blocks = ceildiv(n, _BLOCK)
    filled = _padded(ctx, x, axis, 0, blocks * _BLOCK - n, neutral)
    apart = ctx.reshape(filled, (*shape[:axis], blocks, _BLOCK, *shape[axis + 1 :]))
    within = _window(ctx, apart, axis + 1, _BLOCK, combine, neutral)
    totals = cut(ctx, within, {axis + 1: (_BLOCK - 1, _BLOCK, 1)})
    before = _padded(ctx, cut(ctx, totals, {axis: (0, blocks - 1, 1)}), axis, 1, 0, neutral)
    whole = ctx.emit(_OPS[combine], scan(ctx, before, axis, combine, levels - 1), within)
    flat = ctx.reshape(whole, (*shape[:axis], blocks * _BLOCK, *shape[axis + 1 :]))
    return cut(ctx, flat, {axis: (0, n, 1)})


def _padded(ctx: Context, x: Value, axis: int, low: Dim, high: Dim, value: Literal) -> Value:
    if not low and not high:
        return x
    widths = {
        name: tuple(n if a == axis else 0 for a in range(x.type.rank))
        for name, n in (("low", low), ("high", high))
    }
    return ctx.emit(graph.Pad, x, value=value, **widths)


def _window(ctx: Context, x: Value, axis: int, n: int, combine: str, neutral: Literal) -> Value:
    if n < 2:
        return x
    ones = (1,) * x.type.rank
    return ctx.emit(
        graph.Window,
        _padded(ctx, x, axis, n - 1, 0, neutral),
        combine=combine,
        size=tuple(n if a == axis else 1 for a in range(x.type.rank)),
        strides=ones,
        dilations=ones,
    )


def _cumulative(combine: str) -> Importer:
    def run(ctx: Context, node: Node, x: Value, axis: Value) -> Value:
        (named,) = ctx.integers(axis, "axis")
        (along,) = ctx.axes((named,), x.type.rank)
        element = x.type.dtype
        wide = ctx.cast(x, F32) if element in (F16, BF16) else x
        n: Dim = x.type.shape[along]
        back: Any = {along: (n - 1, -1, -1)}
        reverse = bool(node.integer("reverse", 0)) and n not in (0, 1)
        wide = cut(ctx, wide, back) if reverse else wide
        if node.integer("exclusive", 0) and n:
            less = cut(ctx, wide, {along: (0, n - 1, 1)})
            wide = _padded(ctx, less, along, 1, 0, identity_of(combine, wide.type.dtype))
        out = scan(ctx, wide, along, combine) if n else wide
        return ctx.cast(cut(ctx, out, back) if reverse else out, element)

    return run


register("CumSum", _cumulative("add"), "exclusive reverse")
register("CumProd", _cumulative("mul"), "exclusive reverse")
