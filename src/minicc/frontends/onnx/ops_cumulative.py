"""Sums and products of all elements so far along an axis.

Blocks of 32 elements are combined by windows, then the blocks' totals by the same means: about 32
steps an element for each factor of 32 in the length, all of them independent, and an element
enters only the results after it (a product with a triangle would let a NaN reach all of them).
Along an axis of free extent a loop of the program goes from element to element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.ops_movement import cut
from minicc.frontends.onnx.reader import Node
from minicc.frontends.onnx.registry import Importer, register
from minicc.frontends.onnx.scans import Loop, emit_scan
from minicc.ir import graph
from minicc.ir.arith import COMBINERS, identity_of
from minicc.ir.core import Literal, Op, Value
from minicc.ir.types import BF16, F16, F32

_BLOCK = 32
_OPS: dict[str, type[Op]] = {"add": graph.Add, "mul": graph.Mul}


def scan(ctx: Context, x: Value, axis: int, combine: str) -> Value:
    """The combination of all elements up to each along an axis of known extent."""
    assert combine in COMBINERS
    n = ctx.static(x.type.shape[axis], "the axis")
    shape = x.type.shape
    neutral = identity_of(combine, x.type.dtype)
    if n <= _BLOCK:
        return _window(ctx, x, axis, n, combine, neutral)
    blocks = -(-n // _BLOCK)
    filled = _padded(ctx, x, axis, 0, blocks * _BLOCK - n, neutral)
    apart = ctx.reshape(filled, (*shape[:axis], blocks, _BLOCK, *shape[axis + 1 :]))
    within = _window(ctx, apart, axis + 1, _BLOCK, combine, neutral)
    totals = cut(ctx, within, {axis + 1: (_BLOCK - 1, _BLOCK, 1)})
    before = _padded(ctx, cut(ctx, totals, {axis: (0, blocks - 1, 1)}), axis, 1, 0, neutral)
    whole = ctx.emit(_OPS[combine], scan(ctx, before, axis, combine), within)
    flat = ctx.reshape(whole, (*shape[:axis], blocks * _BLOCK, *shape[axis + 1 :]))
    return cut(ctx, flat, {axis: (0, n, 1)})


def _padded(ctx: Context, x: Value, axis: int, low: int, high: int, value: Literal) -> Value:
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


def _in_a_loop(
    ctx: Context, x: Value, axis: int, combine: str, exclusive: bool, reverse: bool
) -> Value:
    """The same along an axis of free extent, a round for each of its slices."""
    rank = x.type.rank
    order = (axis, *(a for a in range(rank) if a != axis))
    slices = ctx.emit(graph.Transpose, x, perm=order) if axis else x
    neutral = ctx.constant(identity_of(combine, x.type.dtype).array)
    start = ctx.emit(graph.Broadcast, neutral, shape=slices.type.shape[1:]) if rank > 1 else neutral
    ends = frozenset({0} if reverse else ())

    def each(states: Sequence[Value], rows: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        made = ctx.emit(_OPS[combine], states[0], rows[0])
        return [made], [states[0] if exclusive else made]

    loop = Loop(slices.type.shape[0], [start], [slices], ends, ends)
    _, whole = emit_scan(ctx, loop, each)
    back = tuple(order.index(a) for a in range(rank))
    return ctx.emit(graph.Transpose, whole, perm=back) if axis else whole


def _cumulative(combine: str) -> Importer:
    def run(ctx: Context, node: Node, x: Value, axis: Value) -> Value:
        (named,) = ctx.integers(axis, "axis")
        (along,) = ctx.axes((named,), x.type.rank)
        element = x.type.dtype
        wide = ctx.cast(x, F32) if element in (F16, BF16) else x
        n = x.type.shape[along]
        if not isinstance(n, int):
            first = bool(node.integer("exclusive", 0)), bool(node.integer("reverse", 0))
            return ctx.cast(_in_a_loop(ctx, wide, along, combine, *first), element)
        back: Any = {along: (n - 1, -1, -1)}
        reverse = bool(node.integer("reverse", 0)) and n > 1
        wide = cut(ctx, wide, back) if reverse else wide
        if node.integer("exclusive", 0) and n:
            less = cut(ctx, wide, {along: (0, n - 1, 1)})
            wide = _padded(ctx, less, along, 1, 0, identity_of(combine, wide.type.dtype))
        out = scan(ctx, wide, along, combine) if n else wide
        return ctx.cast(cut(ctx, out, back) if reverse else out, element)

    return run


register("CumSum", _cumulative("add"), "exclusive reverse")
register("CumProd", _cumulative("mul"), "exclusive reverse")
