"""Operators whose result is known from their attributes, or from shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.frontends.onnx.bodies import Importing
from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.dims import ratio
from minicc.frontends.onnx.host.registry import gives_texts, host_operator
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.model.tensors import array_of
from minicc.frontends.onnx.registry import operator, search
from minicc.ir import affine, affine_facts, graph
from minicc.ir.affine import Dim
from minicc.ir.core import Array, Value
from minicc.ir.graph.shapes import Shape
from minicc.ir.types import F64, I64

# A longer range is computed when the model runs.
_MOST = 1 << 16
_NUMBERS: dict[str, Any] = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}


def contents_of(node: Node) -> Array | None:
    """What a Constant holds, the tensor, the number or the list of numbers of an attribute."""
    for name in ("value", "sparse_value"):
        if name in node.attributes:
            return array_of(node.attributes[name], node.name)
    for name, element in _NUMBERS.items():
        value = node.attributes.get(name)
        if isinstance(value, (int, float, tuple)):
            return np.array(value, element)
    return None


@host_operator("Constant")
def hosted_constant(node: Node) -> Array:
    """The texts that an attribute holds; numbers may come here too."""
    if not gives_texts(node):
        return np.asarray(contents_of(node))
    tensor = node.attributes.get("value")
    if tensor is None:
        return np.array(node.attributes.get("value_string", node.texts("value_strings")), object)
    from onnx.numpy_helper import to_array

    return to_array(tensor)


@operator("Constant", attributes="sparse_value value value_float value_floats value_int value_ints")
def constant(ctx: Context, node: Node) -> Value:
    """The tensor, the number or the list of numbers that an attribute holds."""
    found = contents_of(node)
    if found is None:
        raise ctx.wrong("its value is missing")
    return ctx.constant(found)


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
    """A range of integers between dimensions that may be free, as their distance may be."""
    (first,), (last,) = ctx.dims(start, "start"), ctx.dims(limit, "limit")
    (step,) = ctx.dims(delta, "delta")
    if isinstance(step, int):
        count = affine.ceildiv(last - first if step > 0 else first - last, abs(step))
    else:
        if not affine_facts.at_least(step, 0):
            raise ctx.free([step], "its delta")
        ctx.demand(affine.minimum(step - 1, 0), 0, "its delta is 0")
        whole = ratio([last - first], [step])
        count = affine.floordiv(last - first + step - 1, step) if whole is None else whole
    return _line(ctx, count, start, delta)


def _line(ctx: Context, count: Dim, start: Value, delta: Value) -> Value:
    """So many numbers from one on, so far apart."""
    count = count if affine_facts.at_least(count, 0) else affine.maximum(count, 0)
    line = ctx.emit(graph.Iota, shape=(count,), axis=0, dtype=start.type.dtype)
    line = line if ctx.array(delta) == 1 else ctx.emit(graph.Mul, line, delta)
    return line if ctx.array(start) == 0 else ctx.emit(graph.Add, line, start)


@operator("Range", attributes="stash_type")
def range_(ctx: Context, node: Node, start: Value, limit: Value, delta: Value) -> Value:
    """The numbers from `start` on before `limit`, `delta` apart."""
    element = start.type.dtype
    known = [ctx.array(v) for v in (start, limit, delta)]
    if known[2] is not None and known[2].item() == 0:
        raise ctx.wrong("its delta is 0")
    if any(a is None for a in known):
        if element.is_integer:
            return _free_range(ctx, start, limit, delta)
        ends = [v for v in map(ctx.whole, (start, limit, delta)) if v is not None]
        if len(ends) == 3:
            return ctx.cast(_free_range(ctx, *ends), element)
        first, last, apart = (ctx.cast(v, F64) for v in (start, limit, delta))
        times = ctx.emit(graph.Div, ctx.emit(graph.Sub, last, first), apart)
        whole = ctx.cast(ctx.emit(graph.Ceil, times), I64)
        (count,) = ctx.dims(whole, "number of elements")
        return _line(ctx, count, start, delta)
    first, last, step = (a.item() for a in known if a is not None)
    number = max(0, int(np.ceil((last - first) / step)))
    if number <= _MOST:
        return ctx.constant((first + step * np.arange(number)).astype(element.numpy))
    return _line(ctx, number, start, delta)
