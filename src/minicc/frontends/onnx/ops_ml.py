"""Operators of classical machine learning that are arithmetic on tensors.

Mirrors: ONNX's ai.onnx.ml domain.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.ops_activation import sigmoid_of
from minicc.frontends.onnx.reader import Node
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.core import Value
from minicc.ir.types import F32, F64

_DOMAIN = "ai.onnx.ml"


def _numbers(node: Node, name: str) -> Any:
    value = node.attributes.get(name)
    return None if value is None else np.asarray(value)


def _as_float(ctx: Context, x: Value) -> Value:
    return ctx.cast(x, F32 if x.type.dtype is not F64 else F64)


@operator(f"{_DOMAIN}.ArrayFeatureExtractor")
def array_feature_extractor(ctx: Context, node: Node, x: Value, indices: Value) -> Value:
    """Some columns."""
    flat = ctx.reshape(indices, (graph.product(indices.type.shape),))
    out = ctx.emit(graph.Gather, x, flat, axis=x.type.rank - 1)
    return ctx.reshape(out, (1, *out.type.shape)) if x.type.rank == 1 else out


@operator(f"{_DOMAIN}.Binarizer", attributes="threshold")
def binarizer(ctx: Context, node: Node, x: Value) -> Value:
    """1 above a threshold, else 0."""
    limit = ctx.scalar(node.number("threshold", 0.0), x)
    return ctx.cast(ctx.emit(graph.Lt, limit, x), x.type.dtype)


@operator(f"{_DOMAIN}.Scaler", attributes="offset scale")
def scaler(ctx: Context, node: Node, x: Value) -> Value:
    """(x - offset) * scale, of each column."""
    wide = ctx.cast(x, F32)
    for name, cls in (("offset", graph.Sub), ("scale", graph.Mul)):
        given = _numbers(node, name)
        if given is not None:
            wide = ctx.emit(cls, wide, ctx.constant(given.astype(np.float32)))
    return wide


@operator(f"{_DOMAIN}.Normalizer", attributes="norm")
def normalizer(ctx: Context, node: Node, x: Value) -> Value:
    """Rows divided by their norm; rows of zeros stay."""
    wide = ctx.cast(x, F32)
    norm = node.text("norm", "MAX")
    axis = (x.type.rank - 1,)
    size = ctx.emit(graph.Abs, wide) if norm != "L2" else ctx.emit(graph.Mul, wide, wide)
    if norm == "MAX":
        size = wide
    combine = "max" if norm == "MAX" else "add"
    total = ctx.emit(graph.Reduce, size, axes=axis, combine=combine, keepdims=True)
    total = ctx.emit(graph.Sqrt, total) if norm == "L2" else total
    zero = ctx.emit(graph.Eq, total, ctx.scalar(0, wide))
    return ctx.emit(graph.Div, wide, ctx.emit(graph.Select, zero, ctx.scalar(1, wide), total))


@operator(
    f"{_DOMAIN}.Imputer",
    attributes="imputed_value_floats imputed_value_int64s "
    "replaced_value_float replaced_value_int64",
)
def imputer(ctx: Context, node: Node, x: Value) -> Value:
    """Other values for those that are missing."""
    if x.type.dtype.is_float:
        new, old = _numbers(node, "imputed_value_floats"), node.number("replaced_value_float", 0)
    else:
        new, old = _numbers(node, "imputed_value_int64s"), node.integer("replaced_value_int64", 0)
    if new is None:
        raise ctx.wrong("its imputed values are missing")
    gone = ctx.emit(graph.Eq, x, ctx.scalar(old, x)) if old == old else ctx.emit(graph.Ne, x, x)
    value = ctx.constant(new.astype(x.type.dtype.numpy))
    return ctx.emit(graph.Select, gone, value, x)


def _post(ctx: Context, node: Node, x: Value) -> Value:
    """What is done to scores at the end."""
    way = node.text("post_transform", "NONE")
    if way == "NONE":
        return x
    if way == "LOGISTIC":
        return sigmoid_of(ctx, x)
    if way == "SOFTMAX":
        axis: dict[str, Any] = {"axes": (x.type.rank - 1,), "keepdims": True}
        best = ctx.emit(graph.Reduce, x, combine="max", **axis)
        power = ctx.emit(graph.Exp, ctx.emit(graph.Sub, x, best))
        return ctx.emit(graph.Div, power, ctx.emit(graph.Reduce, power, combine="add", **axis))
    raise ctx.unsupported(f"post_transform {way}", "export it with NONE, LOGISTIC or SOFTMAX")


@operator(f"{_DOMAIN}.LinearRegressor", attributes="coefficients intercepts post_transform targets")
def linear_regressor(ctx: Context, node: Node, x: Value) -> Value:
    """A product with coefficients, and intercepts."""
    factors = _numbers(node, "coefficients")
    count = node.integer("targets", 1)
    if factors is None or factors.size % max(count, 1):
        raise ctx.wrong("its coefficients do not fit its targets")
    matrix = ctx.constant(factors.reshape(count, -1).astype(np.float32))
    out = ctx.emit(graph.Contract, ctx.cast(x, F32), matrix, equation="nf,tf->nt")
    shift = _numbers(node, "intercepts")
    if shift is not None:
        out = ctx.emit(graph.Add, out, ctx.constant(shift.astype(np.float32)))
    return _post(ctx, node, out)


@operator(f"{_DOMAIN}.FeatureVectorizer", attributes="inputdimensions")
def feature_vectorizer(ctx: Context, node: Node, *xs: Value) -> Value:
    """Columns of several tensors side by side, as floats."""
    wide = [_as_float(ctx, x) for x in xs]
    wide = [ctx.reshape(x, (x.type.shape[0], 1)) if x.type.rank == 1 else x for x in wide]
    return wide[0] if len(wide) == 1 else ctx.emit(graph.Concat, tuple(wide), axis=1)
