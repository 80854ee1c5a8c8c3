"""Operators whose result is known from their attributes, or from shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.frontends.onnx.bodies import Importing
from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.reader import Node
from minicc.frontends.onnx.registry import operator, search
from minicc.frontends.onnx.tensors import array_of
from minicc.ir import affine, affine_facts, graph
from minicc.ir.core import Value
from minicc.ir.graph.shapes import Shape
from minicc.ir.types import I64

# A longer range is computed when the model runs.
_MOST = 1 << 16
_NUMBERS: dict[str, Any] = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}


@operator("Constant", attributes="sparse_value value value_float value_floats value_int value_ints")
def constant(ctx: Context, node: Node) -> Value:
    """The tensor, the number or the list of numbers that an attribute holds."""
    if "value" in node.attributes:
        return ctx.constant(array_of(node.attributes["value"], node.name))
    for name, element in _NUMBERS.items():
        value = node.attributes.get(name)
        if isinstance(value, (int, float, tuple)):
            return ctx.constant(np.array(value, element))
    if "sparse_value" in node.attributes:
        return ctx.constant(array_of(node.attributes["sparse_value"], node.name))
    raise ctx.wrong("its value is missing")


@operator("ConstantOfShape", attributes="value")
def constant_of_shape(ctx: Context, node: Node, shape: Value) -> Value:
    """One value, 0 in f32 where none is given, in a given shape."""
    tensor = node.attributes.get("value")
    value = np.zeros((), np.float32) if tensor is None else array_of(tensor, node.name)
    if value.size != 1:
        raise ctx.wrong(f"its value has {value.size} elements, not one")
    element = ctx.constant(value.reshape(()))
    dims = ctx.dims(shape, "shape")
    return ctx.emit(graph.Broadcast, element, shape=dims) if dims else element


@search("NonZero")
def non_zero(importer: Importing, node: Node) -> tuple[Value, ...] | None:
    """The places of all elements of a tensor that one number fills; the host finds those of others.

    Exporters count so: NonZero(ConstantOfShape([n], 1)) are the numbers below n.
    """
    ctx = importer.ctx
    # what one number fills is computed by a node, and has a value by now
    x = importer.values.get(node.inputs[0]) if len(node.inputs) == 1 else None
    if x is None or not ctx.is_filled(x):
        return None
    ctx.stand_at(node, (x,), ctx.opset)
    shape: Shape = x.type.shape
    lines = [ctx.emit(graph.Iota, shape=shape, axis=k, dtype=I64) for k in range(len(shape))]
    rows = tuple(ctx.reshape(line, (1, graph.product(shape))) for line in lines)
    return (rows[0] if len(rows) == 1 else ctx.emit(graph.Concat, rows, axis=0),)


@operator("Shape", attributes="end start")
def shape(ctx: Context, node: Node, x: Value) -> Value:
    """The extents of a tensor, or of a part of its axes."""
    all_of_it = ctx.shape_of(x)
    rank = x.type.rank
    part = slice(node.integer("start", 0), node.integer("end", rank)).indices(rank)
    start, stop, _ = part
    if (start, stop) == (0, rank):
        return all_of_it
    options: dict[str, Any] = {"starts": (start,), "stops": (max(start, stop),), "steps": (1,)}
    return ctx.emit(graph.Slice, all_of_it, **options)


@operator("Size")
def size(ctx: Context, node: Node, x: Value) -> Value:
    """The number of elements of a tensor."""
    return ctx.of_dims(np.array(graph.product(x.type.shape), object))


def _free_range(ctx: Context, start: Value, limit: Value, delta: Value) -> Value:
    """A range of integers between dimensions that may be free."""
    (first,), (last,) = ctx.dims(start, "start"), ctx.dims(limit, "limit")
    (step,) = ctx.integers(delta, "delta")
    count = affine.ceildiv(last - first if step > 0 else first - last, abs(step))
    count = count if affine_facts.at_least(count, 0) else affine.maximum(count, 0)
    line = ctx.emit(graph.Iota, shape=(count,), axis=0, dtype=start.type.dtype)
    if step != 1:
        line = ctx.emit(graph.Mul, line, delta)
    return line if first == 0 else ctx.emit(graph.Add, line, start)


@operator("Range", attributes="stash_type")
def range_(ctx: Context, node: Node, start: Value, limit: Value, delta: Value) -> Value:
    """The numbers from `start` on before `limit`, `delta` apart."""
    step = ctx.known(delta, "delta").item()
    if step == 0:
        raise ctx.wrong("its delta is 0")
    if ctx.array(start) is None or ctx.array(limit) is None:
        if start.type.dtype.is_integer:
            return _free_range(ctx, start, limit, delta)
        ends = [v for v in map(ctx.whole, (start, limit, delta)) if v is not None]
        if len(ends) == 3:
            return ctx.cast(_free_range(ctx, *ends), start.type.dtype)
    first = ctx.known(start, "start").item()
    count = max(0, int(np.ceil((ctx.known(limit, "limit").item() - first) / step)))
    element = start.type.dtype
    if count <= _MOST:
        return ctx.constant((first + step * np.arange(count)).astype(element.numpy))
    line = ctx.emit(graph.Iota, shape=(count,), axis=0, dtype=element)
    line = ctx.emit(graph.Mul, line, ctx.scalar(step, element))
    return ctx.emit(graph.Add, line, ctx.scalar(first, element))
