"""Reductions over axes, which are an attribute and in later opsets an input."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.widen import fractional, widened
from minicc.frontends.onnx.registry import Importer, operator, register
from minicc.ir import graph
from minicc.ir.affine import minimum
from minicc.ir.core import Op, Value
from minicc.ir.graph.shapes import product
from minicc.library.extremes import place_of_extreme

Step = Callable[[Context, Value], Value]


def reduce_axes(ctx: Context, node: Node, x: Value, axes: Value | None) -> tuple[int, ...] | None:
    """The axes of a Reduce*; all where none are named, None where then nothing is to be done."""
    named = node.integers("axes") if axes is None else ctx.integers(axes, "axes")
    if named:
        return ctx.axes(named, x.type.rank)
    if node.integer("noop_with_empty_axes", 0):
        return None
    return tuple(range(x.type.rank))


def count_of(ctx: Context, x: Value, axes: tuple[int, ...]) -> Value:
    """How many elements of `x` the axes have together, in its element type."""
    total = product(tuple(x.type.shape[a] for a in axes))
    if isinstance(total, int):
        return ctx.scalar(total, x)
    number = ctx.of_dims(np.array(total, object))
    return ctx.emit(graph.Cast, number, dtype=x.type.dtype)


def mean_of(ctx: Context, x: Value, axes: tuple[int, ...], keepdims: bool) -> Value:
    """The mean over axes."""
    total = ctx.emit(graph.Reduce, x, axes=axes, combine="add", keepdims=keepdims)
    return ctx.emit(graph.Div, total, count_of(ctx, x, axes))


def _same(ctx: Context, x: Value) -> Value:
    return x


def _square(ctx: Context, x: Value) -> Value:
    return ctx.emit(graph.Mul, x, x)


def _by(op: type[Op]) -> Step:
    return lambda ctx, x: ctx.emit(op, x)


# The combiner, what is done to each element before, and what to the result.
_REDUCTIONS: dict[str, tuple[str, Step, Step]] = {
    "ReduceSum": ("add", _same, _same),
    "ReduceProd": ("mul", _same, _same),
    "ReduceMax": ("max", _same, _same),
    "ReduceMin": ("min", _same, _same),
    "ReduceL1": ("add", _by(graph.Abs), _same),
    "ReduceL2": ("add", _square, _by(graph.Sqrt)),
    "ReduceSumSquare": ("add", _square, _same),
    "ReduceLogSum": ("add", _same, _by(graph.Log)),
}


def _reduction(combine: str, before: Step, after: Step) -> Importer:
    def run(ctx: Context, node: Node, x: Value, axes: Value | None = None) -> Value:
        over = reduce_axes(ctx, node, x, axes)
        if over is None:
            return after(ctx, before(ctx, x))
        keep = bool(node.integer("keepdims", 1))
        x = before(ctx, x)
        return after(ctx, ctx.emit(graph.Reduce, x, axes=over, combine=combine, keepdims=keep))

    if before is after:
        return run
    return widened(run if after is _same else fractional(run))


for _name, _parts in _REDUCTIONS.items():
    register(_name, _reduction(*_parts), "axes keepdims noop_with_empty_axes")


@operator("ReduceMean", attributes="axes keepdims noop_with_empty_axes")
@widened
def reduce_mean(ctx: Context, node: Node, x: Value, axes: Value | None = None) -> Value:
    """The mean over axes."""
    over = reduce_axes(ctx, node, x, axes)
    return x if over is None else mean_of(ctx, x, over, bool(node.integer("keepdims", 1)))


@operator("ReduceLogSumExp", attributes="axes keepdims noop_with_empty_axes")
@widened
@fractional
def reduce_log_sum_exp(ctx: Context, node: Node, x: Value, axes: Value | None = None) -> Value:
    """log(sum(exp(x))), less the maximum inside so that nothing overflows."""
    over = reduce_axes(ctx, node, x, axes)
    if over is None:
        return x
    best = ctx.emit(graph.Reduce, x, axes=over, combine="max", keepdims=True)
    # an infinite maximum less itself is no number; less 0 it decides the sum as it should
    endless = ctx.emit(graph.Eq, ctx.emit(graph.Abs, best), ctx.scalar(np.inf, best))
    best = ctx.emit(graph.Select, endless, ctx.scalar(0, best), best)
    power = ctx.emit(graph.Exp, ctx.emit(graph.Sub, x, best))
    total = ctx.emit(graph.Reduce, power, axes=over, combine="add", keepdims=True)
    out = ctx.emit(graph.Add, ctx.emit(graph.Log, total), best)
    if node.integer("keepdims", 1):
        return out
    return ctx.reshape(out, [n for a, n in enumerate(x.type.shape) if a not in over])


def _arg(combine: str) -> Importer:
    def run(ctx: Context, node: Node, x: Value) -> Value:
        axis = ctx.axis("axis", 0, x.type.rank)
        others = graph.product(tuple(n for a, n in enumerate(x.type.shape) if a != axis))
        missing = minimum(others, 1) * (1 - minimum(x.type.shape[axis], 1))
        ctx.demand(missing, 0, "of no elements none is the greatest or the least")
        out = place_of_extreme(
            ctx.emit, x, axis, combine, bool(node.integer("select_last_index", 0))
        )
        if node.integer("keepdims", 1):
            return out
        return ctx.reshape(out, [n for a, n in enumerate(x.type.shape) if a != axis])

    return run


register("ArgMax", _arg("max"), "axis keepdims select_last_index")
register("ArgMin", _arg("min"), "axis keepdims select_last_index")
