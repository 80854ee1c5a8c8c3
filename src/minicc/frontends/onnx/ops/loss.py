"""Losses: what a classifier should have said against what it said.

The score of the right class is chosen by comparing indices, so that nothing is gathered.
"""

from __future__ import annotations

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.core import Value
from minicc.ir.types import BF16, F16, F32, I64

_ATTRIBUTES = "ignore_index reduction"


@operator("NegativeLogLikelihoodLoss", attributes=_ATTRIBUTES)
def negative_log_likelihood(
    ctx: Context, node: Node, x: Value, target: Value, weight: Value | None = None
) -> Value:
    """Less the score of the right class, weighted a class each."""
    element = x.type.dtype
    wide = ctx.cast(x, F32) if element in (F16, BF16) else x
    return ctx.cast(_loss(ctx, node, wide, target, weight), element)


@operator("SoftmaxCrossEntropyLoss", attributes=_ATTRIBUTES)
def softmax_cross_entropy(
    ctx: Context, node: Node, x: Value, target: Value, weight: Value | None = None
) -> tuple[Value, ...]:
    """The same of the logarithm of the soft-max, which is the second output."""
    element = x.type.dtype
    wide = ctx.cast(x, F32) if element in (F16, BF16) else x
    best = ctx.emit(graph.Reduce, wide, axes=(1,), combine="max", keepdims=True)
    less = ctx.emit(graph.Sub, wide, best)
    power = ctx.emit(graph.Exp, less)
    total = ctx.emit(graph.Reduce, power, axes=(1,), combine="add", keepdims=True)
    likely = ctx.emit(graph.Sub, less, ctx.emit(graph.Log, total))
    loss = _loss(ctx, node, likely, target, weight)
    return ctx.cast(loss, element), ctx.cast(likely, element)


def _loss(ctx: Context, node: Node, x: Value, target: Value, weight: Value | None) -> Value:
    if x.type.rank < 2 or target.type.rank != x.type.rank - 1:
        raise ctx.refused("scores are [N, C, ...] and the right classes [N, ...]")
    shape = target.type.shape
    classes = x.type.shape[1]
    right = ctx.cast(target, I64)
    column = (classes, *(1,) * (x.type.rank - 2))
    index = ctx.emit(graph.Iota, shape=column, axis=0, dtype=I64)
    here = ctx.emit(graph.Eq, index, ctx.reshape(right, (shape[0], 1, *shape[1:])))
    weights: Value | None = None
    factors = None if weight is None else ctx.cast(ctx.reshape(weight, column), x.type.dtype)
    ignored = node.attributes.get("ignore_index")
    if ignored is not None:
        lost = ctx.emit(graph.Eq, right, ctx.scalar(int(ignored), I64))
        ones = factors if factors is not None else ctx.scalar(1, x)
        weights = _chosen(ctx, here, ones, x)
        weights = ctx.emit(graph.Select, lost, ctx.scalar(0, x), weights)
    elif factors is not None:
        weights = _chosen(ctx, here, factors, x)
    loss = ctx.emit(graph.Neg, _chosen(ctx, here, x, x))
    if weights is not None:
        loss = ctx.emit(graph.Mul, loss, weights)
        if ignored is not None:
            loss = ctx.emit(graph.Select, lost, ctx.scalar(0, x), loss)
    return _reduced(ctx, node, loss, weights)


def _chosen(ctx: Context, here: Value, x: Value, like: Value) -> Value:
    """What stands at the right class; its axis vanishes."""
    kept = ctx.emit(graph.Select, here, x, ctx.scalar(0, like))
    return ctx.emit(graph.Reduce, kept, axes=(1,), combine="add")


def _reduced(ctx: Context, node: Node, loss: Value, weights: Value | None) -> Value:
    way = node.text("reduction", "mean")
    if way == "none":
        return loss
    if way not in ("sum", "mean"):
        raise ctx.wrong(f"attribute reduction is {way!r}")
    axes = tuple(range(loss.type.rank))
    total = ctx.emit(graph.Reduce, loss, axes=axes, combine="add")
    if way == "sum":
        return total
    if weights is None:
        weights = ctx.emit(graph.Broadcast, ctx.scalar(1, loss), shape=loss.type.shape)
    count = ctx.emit(graph.Reduce, weights, axes=axes, combine="add")
    return ctx.emit(graph.Div, total, count)
