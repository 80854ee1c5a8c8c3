"""Operators of classical machine learning that are arithmetic on tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.ml.common import numbers, rows_of, texts_at
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.model.tensors import array_of
from minicc.frontends.onnx.ops.take import take
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.core import Array, Value
from minicc.ir.types import F32, F64, I64

_DOMAIN = "ai.onnx.ml"
_STRING = 8  # TensorProto.DataType
_SPARSE = 8  # integers of a range for each that is a key of it, of which a table is made


@operator(f"{_DOMAIN}.ArrayFeatureExtractor")
def array_feature_extractor(ctx: Context, node: Node, x: Value, indices: Value) -> Value:
    """Some columns."""
    known, last = ctx.array(indices), x.type.rank - 1
    if known is not None and isinstance(x.type.shape[last], int):
        out = take(ctx, x, known.reshape(-1), last)
    else:
        flat = ctx.reshape(indices, (graph.product(indices.type.shape),))
        out = ctx.emit(graph.Gather, x, flat, axis=last)
    return ctx.reshape(out, (1, *out.type.shape)) if x.type.rank == 1 else out


@operator(f"{_DOMAIN}.Binarizer", attributes="threshold")
def binarizer(ctx: Context, node: Node, x: Value) -> Value:
    """1 above a threshold, else 0."""
    wide = ctx.cast(x, F64) if x.type.dtype.is_integer else x
    limit = ctx.scalar(node.number("threshold", 0.0), wide)
    return ctx.cast(ctx.emit(graph.Lt, limit, wide), x.type.dtype)


@operator(f"{_DOMAIN}.Scaler", attributes="offset scale")
def scaler(ctx: Context, node: Node, x: Value) -> Value:
    """(x - offset) * scale, of each column."""
    wide = ctx.cast(x, F32)
    for name, cls in (("offset", graph.Sub), ("scale", graph.Mul)):
        given = numbers(node, name)
        if given is not None and given.size:
            wide = ctx.emit(cls, wide, ctx.constant(given))
    return wide


@operator(f"{_DOMAIN}.Normalizer", attributes="norm")
def normalizer(ctx: Context, node: Node, x: Value) -> Value:
    """Rows divided by their norm; rows of zeros stay. MAX is that of the numbers with signs."""
    wide = ctx.cast(x, F32)
    norm = node.text("norm", "MAX")
    if norm not in ("MAX", "L1", "L2"):
        raise ctx.wrong(f"its norm is {norm!r}, none of MAX, L1, L2")
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
        new, old = numbers(node, "imputed_value_floats"), node.number("replaced_value_float", 0)
    else:
        new = numbers(node, "imputed_value_int64s", np.int64)
        old = node.integer("replaced_value_int64", 0)
    if new is None or not new.size:
        raise ctx.wrong("its imputed values are missing")
    gone = ctx.emit(graph.Eq, x, ctx.scalar(old, x)) if old == old else ctx.emit(graph.Ne, x, x)
    value = ctx.constant(new.astype(x.type.dtype.numpy))
    return ctx.emit(graph.Select, gone, value, x)


@operator(f"{_DOMAIN}.FeatureVectorizer", attributes="inputdimensions")
def feature_vectorizer(ctx: Context, node: Node, *xs: Value) -> Value:
    """Columns of several tensors side by side, as floats.

    Of each as many as `inputdimensions` says: fewer than it has, or zeros after those. Of a tensor
    of more axes than two all but the first are counted as one, as ONNX Runtime does.
    """
    wanted = node.integers("inputdimensions") or (-1,) * len(xs)
    if len(wanted) != len(xs):
        raise ctx.wrong(f"its inputdimensions are {len(wanted)} for {len(xs)} inputs")
    wide = [rows_of(ctx, ctx.cast(_with_columns(ctx, x), F32)) for x in xs]
    parts = [_of_width(ctx, x, n) for x, n in zip(wide, wanted, strict=True)]
    return parts[0] if len(parts) == 1 else ctx.emit(graph.Concat, tuple(parts), axis=1)


def _with_columns(ctx: Context, x: Value) -> Value:
    first, *others = x.type.shape or (1,)
    return ctx.reshape(x, (first, graph.product(tuple(others)))) if x.type.rank > 2 else x


def _of_width(ctx: Context, x: Value, width: int) -> Value:
    rows, own = x.type.shape
    if width < 0 or width == own:
        return x
    if not isinstance(own, int) or own < width:
        zero = ctx.scalar(0, F32)
        missing = width - own if isinstance(own, int) else width
        zeros = ctx.emit(graph.Broadcast, zero, shape=(rows, missing))
        x = ctx.emit(graph.Concat, (x, zeros), axis=1)
    if x.type.shape[1] == width:
        return x
    return ctx.emit(graph.Slice, x, starts=(0, 0), stops=(rows, width), steps=(1, 1))


@operator(f"{_DOMAIN}.OneHotEncoder", attributes="cats_int64s cats_strings zeros")
def one_hot_encoder(ctx: Context, node: Node, x: Value) -> Value:
    """Which of the categories each number is, along a new axis.

    Where `zeros` is 0 a number that is none of them is out of range when the model runs.
    """
    categories = numbers(node, "cats_int64s", np.int64)
    if categories is None or not categories.size:
        raise ctx.wrong("its attribute cats_int64s is missing")
    given = ctx.reshape(ctx.cast(x, I64), (*x.type.shape, 1))
    if node.integer("zeros", 1):
        return ctx.cast(ctx.emit(graph.Eq, given, ctx.constant(categories)), F32)
    place = _place(ctx, categories, ctx.cast(x, I64))
    return ctx.emit(graph.Gather, ctx.constant(np.eye(len(categories), dtype=np.float32)), place,
                    axis=0)  # fmt: skip


@operator(
    f"{_DOMAIN}.LabelEncoder",
    attributes="classes_strings default_float default_int64 default_string default_tensor "
    "keys_floats keys_int64s keys_strings keys_tensor values_floats values_int64s values_strings "
    "values_tensor",
)
def label_encoder(ctx: Context, node: Node, x: Value) -> Value:
    """What a table has for each number, else a default; texts are looked up on the host."""
    if "classes_strings" in node.attributes:
        texts = node.texts("classes_strings")
        return texts_at(ctx, x, texts, node.text("default_string", "_Unused"))
    keys = _side(ctx, node, "keys")
    values = _side(ctx, node, "values")
    if not keys.ndim or not values.ndim:
        raise ctx.wrong(f"its keys are of the shape {keys.shape}, its values of {values.shape}")
    if len(keys) != len(values) or keys.dtype == object:
        raise ctx.wrong(f"it has {len(keys)} keys of {keys.dtype} and {len(values)} values")
    missing = default_of(node, values)
    place = _place(ctx, keys.astype(x.type.dtype.numpy), x)
    if values.dtype == object:
        return texts_at(ctx, place, tuple(values.tolist()), str(missing))
    table = np.append(values, np.array([missing], values.dtype))
    return ctx.emit(graph.Gather, ctx.constant(table), place, axis=0)


_KINDS: tuple[tuple[str, Any, Any], ...] = (
    ("strings", object, "_Unused"),
    ("int64s", np.int64, -1),
    ("floats", np.float32, -0.0),
)


def _side(ctx: Context, node: Node, side: str) -> Array:
    """The keys or the values of a LabelEncoder."""
    for kind, element, _ in _KINDS:
        given = node.attributes.get(f"{side}_{kind}")
        if given is not None:
            return np.array(given, element)
    if f"{side}_tensor" not in node.attributes:
        raise ctx.wrong(f"its {side} are missing")
    return listed(node.attributes[f"{side}_tensor"], node.name)


def default_of(node: Node, values: Array) -> Any:
    """What a LabelEncoder has for what is no key, by its values' element type."""
    for kind, element, missing in _KINDS:
        if values.dtype == element and f"values_{kind}" in node.attributes:
            return node.attributes.get(f"default_{kind[:-1]}", missing)
    given = node.attributes.get("default_tensor")
    if given is not None:
        return listed(given, node.name)[0]
    return "_Unused" if values.dtype == object else -1


def listed(tensor: Any, where: str) -> Array:
    """The elements of a tensor attribute, texts among them."""
    if getattr(tensor, "data_type", 0) == _STRING:
        return np.array([s.decode("utf-8", "replace") for s in tensor.string_data], object)
    return np.asarray(array_of(tensor, where)).reshape(-1)


def _place(ctx: Context, keys: Array, x: Value) -> Value:
    """The place of the first key that each number is equal to, or their count where none is.

    Keys that are nearly all integers of a range are a table, others are searched for in their
    order; NaN is equal to itself.
    """
    found, first = np.unique(keys[keys == keys], return_index=True)
    places = np.flatnonzero(keys == keys)[first]
    count = len(found)
    if count and keys.dtype.kind in "iu" and int(found[-1]) - int(found[0]) < _SPARSE * count:
        return _place_in_range(ctx, found, places, len(keys), x)
    at = ctx.emit(graph.Broadcast, ctx.scalar(0, I64), shape=x.type.shape)
    if not count:
        out = ctx.emit(graph.Broadcast, ctx.scalar(len(keys), I64), shape=x.type.shape)
    else:
        look = _reader(ctx, found)
        step = 1 << (count.bit_length() - 1)
        while step:
            # the last key that is not above the number
            further = ctx.emit(graph.Add, at, ctx.scalar(step, I64))
            inside = ctx.emit(graph.Lt, further, ctx.scalar(count, I64))
            key = look(ctx.emit(graph.Min, further, ctx.scalar(count - 1, I64)))
            goes = ctx.emit(graph.And, inside, ctx.emit(graph.Le, key, x))
            at = ctx.emit(graph.Select, goes, further, at)
            step >>= 1
        same = ctx.emit(graph.Eq, look(at), x)
        out = ctx.emit(graph.Select, same, _reader(ctx, places)(at), ctx.scalar(len(keys), I64))
    if keys.dtype.kind == "f" and len(places) < len(keys) and np.isnan(keys).any():
        number = int(np.flatnonzero(np.isnan(keys))[0])
        unknown = ctx.emit(graph.Ne, x, x)
        out = ctx.emit(graph.Select, unknown, ctx.scalar(number, I64), out)
    return out


def _place_in_range(ctx: Context, found: Array, places: Array, absent: int, x: Value) -> Value:
    """The places of integers of a range, each of which has an entry in a table."""
    low, high = int(found[0]), int(found[-1])
    table = np.full(high - low + 2, absent, np.int64)
    table[found - low] = places
    least, most = ctx.scalar(low, x), ctx.scalar(high, x)
    below, above = ctx.emit(graph.Lt, x, least), ctx.emit(graph.Lt, most, x)
    outside = ctx.emit(graph.Or, below, above)
    at = ctx.cast(ctx.emit(graph.Sub, x, least), I64)
    inside = ctx.emit(graph.Select, outside, ctx.scalar(high - low + 1, I64), at)
    return _reader(ctx, table)(inside)


def _reader(ctx: Context, table: Array) -> Callable[[Value], Value]:
    constant = ctx.constant(table)
    return lambda at: ctx.emit(graph.Gather, constant, at, axis=0)
