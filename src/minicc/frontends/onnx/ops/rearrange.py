"""Operators composed of movements and comparisons of indices."""

from __future__ import annotations

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.model.tensors import element_type
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.affine import Dim
from minicc.ir.core import Value
from minicc.ir.graph.shapes import Shape
from minicc.ir.types import BOOL, I64, static_shape


@operator("Tile")
def tile(ctx: Context, node: Node, x: Value, repeats: Value) -> Value:
    """Repeated along each axis."""
    times = ctx.dims(repeats, "repeats")
    if len(times) != x.type.rank:
        raise ctx.refused(f"{len(times)} repeats for {x.type.rank} axes")
    if all(n == 1 for n in times):
        return x
    pairs = list(zip(times, x.type.shape, strict=True))
    apart = ctx.reshape(x, [n for _, extent in pairs for n in (1, extent)])
    spread = ctx.emit(graph.Broadcast, apart, shape=tuple(n for pair in pairs for n in pair))
    return ctx.reshape(spread, [a * b for a, b in pairs])


def _split_space(ctx: Context, node: Node, x: Value) -> tuple[Dim, Dim, Dim, Dim, int]:
    """The extents and the block size."""
    if x.type.rank != 4:
        raise ctx.refused(f"{node.op} wants [N, C, H, W]")
    n, c, h, w = x.type.shape
    return n, c, h, w, node.integer("blocksize", 1)


@operator("DepthToSpace", attributes="blocksize! mode")
def depth_to_space(ctx: Context, node: Node, x: Value) -> Value:
    """Blocks of channels become blocks of pixels."""
    n, c, h, w, b = _split_space(ctx, node, x)
    apart: Shape
    if node.text("mode", "DCR") == "DCR":
        apart, perm = (n, b, b, c // b**2, h, w), (0, 3, 4, 1, 5, 2)
    else:
        apart, perm = (n, c // b**2, b, b, h, w), (0, 1, 4, 2, 5, 3)
    moved = ctx.emit(graph.Transpose, ctx.reshape(x, apart), perm=perm)
    return ctx.reshape(moved, (n, c // b**2, h * b, w * b))


@operator("SpaceToDepth", attributes="blocksize! mode")
def space_to_depth(ctx: Context, node: Node, x: Value) -> Value:
    """Blocks of pixels become blocks of channels."""
    n, c, h, w, b = _split_space(ctx, node, x)
    apart = ctx.reshape(x, (n, c, h // b, b, w // b, b))
    perm = (0, 3, 5, 1, 2, 4) if node.text("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    moved = ctx.emit(graph.Transpose, apart, perm=perm)
    return ctx.reshape(moved, (n, c * b**2, h // b, w // b))


@operator("OneHot", attributes="axis")
def one_hot(ctx: Context, node: Node, indices: Value, depth: Value, values: Value) -> Value:
    """The second value at the index along a new axis, the first elsewhere."""
    (extent,) = ctx.dims(depth, "depth")
    rank = indices.type.rank + 1
    axis = ctx.axis("axis", -1, rank)
    shape = list(indices.type.shape)
    index = ctx.reshape(ctx.cast(indices, I64), [*shape[:axis], 1, *shape[axis:]])
    below = ctx.emit(graph.Lt, index, ctx.scalar(0, I64))
    from_end = ctx.emit(graph.Add, index, ctx.extent(extent, I64))
    index = ctx.emit(graph.Select, below, from_end, index)
    column = (extent, *(1,) * (rank - 1 - axis))
    if isinstance(extent, int) and ctx.array(index) is not None:
        # known as the index is: the values may be sizes, and the result a shape
        line = ctx.constant(np.arange(extent).reshape(static_shape(column)))
    else:
        line = ctx.emit(graph.Iota, shape=column, axis=0, dtype=I64)
    off, on = (
        ctx.reshape(ctx.emit(graph.Gather, values, ctx.scalar(k, I64), axis=0), ()) for k in (0, 1)
    )
    return ctx.emit(graph.Select, ctx.emit(graph.Eq, index, line), on, off)


def _row_and_column(ctx: Context, x: Value) -> tuple[Value, Value]:
    """The numbers of the rows as a column, and those of the columns as a row."""
    rows, columns = x.type.shape[-2:]
    row = ctx.emit(graph.Iota, shape=(rows, 1), axis=0, dtype=I64)
    return row, ctx.emit(graph.Iota, shape=(1, columns), axis=1, dtype=I64)


@operator("Trilu", attributes="upper")
def trilu(ctx: Context, node: Node, x: Value, k: Value | None = None) -> Value:
    """The upper or lower triangle of matrices, 0 elsewhere."""
    row, column = _row_and_column(ctx, x)
    diagonal = ctx.emit(graph.Add, row, ctx.scalar(0, I64) if k is None else ctx.reshape(k, ()))
    pair = (diagonal, column) if node.integer("upper", 1) else (column, diagonal)
    zero = ctx.constant(np.array(False)) if x.type.dtype is BOOL else ctx.scalar(0, x)
    return ctx.emit(graph.Select, ctx.emit(graph.Le, *pair), x, zero)


@operator("EyeLike", attributes="dtype k")
def eye_like(ctx: Context, node: Node, x: Value) -> Value:
    """1 on a diagonal, 0 elsewhere."""
    to = node.attributes.get("dtype")
    element = x.type.dtype if to is None else element_type(to, "the result of EyeLike", node.name)
    row, column = _row_and_column(ctx, x)
    diagonal = ctx.emit(graph.Add, row, ctx.scalar(node.integer("k", 0), I64))
    return ctx.cast(ctx.emit(graph.Eq, diagonal, column), element)
