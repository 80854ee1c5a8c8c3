"""Operators whose indices are data: gathering, scattering, the greatest elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.take import take
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.affine import Dim, maximum
from minicc.ir.core import Op, Value
from minicc.ir.types import I64


def emit_all(ctx: Context, cls: type[Op], *args: Any, **attrs: Any) -> tuple[Value, ...]:
    """Create an op with several results; MC0128 if it is refused."""
    try:
        op = cls(*args, loc=ctx.builder.loc, **attrs)
    except (TypeError, ValueError, IndexError) as error:
        raise ctx.refused(str(error)) from error
    ctx.use(op.operands)
    ctx.builder.add(op)
    return op.results


@operator("GatherElements", attributes="axis")
def gather_elements(ctx: Context, node: Node, x: Value, indices: Value) -> Value:
    """For each index the element that stands there along an axis."""
    axis = ctx.axis("axis", 0, x.type.rank)
    return ctx.emit(graph.GatherElements, x, indices, axis=axis)


@operator("GatherND", attributes="batch_dims")
def gather_nd(ctx: Context, node: Node, x: Value, indices: Value) -> Value:
    """For each vector of indices the slice with these coordinates."""
    return ctx.emit(graph.GatherND, x, indices, batch=node.integer("batch_dims", 0))


@operator("ScatterElements", attributes="axis reduction")
def scatter_elements(ctx: Context, node: Node, x: Value, indices: Value, updates: Value) -> Value:
    """Each update put or combined where its index says along an axis."""
    axis = ctx.axis("axis", 0, x.type.rank)
    combine = node.text("reduction", "none")
    return ctx.emit(graph.ScatterElements, x, indices, updates, axis=axis, combine=combine)


@operator("Scatter", attributes="axis")
def scatter(ctx: Context, node: Node, x: Value, indices: Value, updates: Value) -> Value:
    """The old name of ScatterElements."""
    axis = ctx.axis("axis", 0, x.type.rank)
    return ctx.emit(graph.ScatterElements, x, indices, updates, axis=axis)


@operator("ScatterND", attributes="reduction")
def scatter_nd(ctx: Context, node: Node, x: Value, indices: Value, updates: Value) -> Value:
    """Slices of updates put or combined where vectors of indices say."""
    if indices.type.rank:
        # how long the vectors are is told by how many axes are left for the slices
        *front, own = indices.type.shape
        depth = x.type.rank + len(front) - updates.type.rank
        text = f"updates {updates.type} into {x.type} at {indices.type}"
        ctx.demand(own, depth, text)
        indices = ctx.reshape(indices, (*front, depth))
    combine = node.text("reduction", "none")
    return ctx.emit(graph.ScatterND, x, indices, updates, combine=combine)


@operator("TopK", attributes="axis k largest sorted")
def top_k(ctx: Context, node: Node, x: Value, k: Value | None = None) -> tuple[Value, ...]:
    """The greatest or smallest along an axis with their indices; `k` was an attribute at first."""
    axis = ctx.axis("axis", -1, x.type.rank)
    if k is None and "k" not in node.attributes:
        raise ctx.wrong("its k is missing")
    (count,) = (node.integer("k", 0),) if k is None else ctx.dims(k, "K")
    largest = bool(node.integer("largest", 1))
    return emit_all(ctx, graph.TopK, x, axis=axis, k=count, largest=largest)


@operator("ReverseSequence", attributes="batch_axis time_axis")
def reverse_sequence(ctx: Context, node: Node, x: Value, lengths: Value) -> Value:
    """The first `lengths[b]` steps of each sequence backwards, the rest as it is."""
    rank = x.type.rank
    batch, time = ctx.axis("batch_axis", 1, rank), ctx.axis("time_axis", 0, rank)
    return reversed_steps(ctx, x, lengths, batch, time)


def reversed_steps(ctx: Context, x: Value, lengths: Value, batch: int, time: int) -> Value:
    """The first `lengths[b]` steps of each entry of a batch backwards, the rest as it is."""
    shape = x.type.shape
    known = ctx.array(lengths)
    if known is not None and (known == known.flat[0]).all() and isinstance(shape[time], int):
        n = int(known.flat[0])
        return take(ctx, x, np.r_[np.arange(n)[::-1], np.arange(n, shape[time])], time)
    # what other axes have is the same for all of their elements
    column = [n if a == time else 1 for a, n in enumerate(shape)]
    step = ctx.emit(graph.Iota, shape=tuple(column), axis=time, dtype=I64)
    last = ctx.reshape(
        ctx.cast(lengths, I64), [n if a == batch else 1 for a, n in enumerate(shape)]
    )
    back = ctx.emit(graph.Sub, ctx.emit(graph.Sub, last, ctx.scalar(1, I64)), step)
    index = ctx.emit(graph.Select, ctx.emit(graph.Lt, step, last), back, step)
    whole = ctx.emit(graph.Broadcast, index, shape=shape)
    return ctx.emit(graph.GatherElements, x, whole, axis=time)


@operator("TensorScatter", attributes="axis mode")
def tensor_scatter(
    ctx: Context, node: Node, cache: Value, update: Value, where: Value | None = None
) -> Value:
    """A cache with new steps from the given step of each sequence on, which may wrap around."""
    rank = cache.type.rank
    axis = ctx.axis("axis", -2, rank)
    most: Dim = cache.type.shape[axis]
    steps: Dim = update.type.shape[axis]
    column = [1] * rank
    first = ctx.scalar(0, I64)
    if where is not None:
        first = ctx.reshape(ctx.cast(where, I64), (*where.type.shape, *column[1:]))
    if isinstance(most, int):
        line = ctx.constant(np.arange(most))
    else:
        line = ctx.emit(graph.Iota, shape=(most,), axis=0, dtype=I64)
    line = ctx.reshape(line, [most if a == axis else 1 for a in range(rank)])
    place = ctx.emit(graph.Sub, line, first)
    if node.text("mode", "linear") == "circular":
        place = ctx.emit(graph.Mod, place, ctx.extent(most, I64))
    elif where is not None and isinstance(most, int) and isinstance(steps, int):
        _check_place(ctx, ctx.array(where), steps, most)
    zero, last = ctx.scalar(0, I64), ctx.extent(maximum(steps - 1, 0), I64)
    inside = ctx.emit(graph.And, ctx.emit(graph.Le, zero, place), ctx.emit(graph.Le, place, last))
    if steps == 0:
        return cache
    index = ctx.emit(graph.Min, ctx.emit(graph.Max, place, zero), last)
    wide = ctx.emit(graph.Broadcast, index, shape=cache.type.shape)
    new = ctx.emit(graph.GatherElements, update, wide, axis=axis)
    return ctx.emit(graph.Select, inside, new, cache)


def _check_place(ctx: Context, first: Any, steps: int, most: int) -> None:
    if first is not None and (first < 0).any() | (first + steps > most).any():
        raise ctx.refused(f"{steps} steps from {first.tolist()} on leave a cache of {most}")
