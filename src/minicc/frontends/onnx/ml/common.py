"""What operators of classical machine learning share: attributes, final transforms, labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.host.nodes import ANYTHING
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.model.tensors import array_of
from minicc.frontends.onnx.ops.activation import sigmoid_of
from minicc.ir import graph
from minicc.ir.core import Array, Value
from minicc.ir.types import I64

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")  # as TreeEnsemble counts
_NEARLY_ZERO = 1e-7


def numbers(node: Node, name: str, element: Any = np.float32) -> Array | None:
    """An attribute of several numbers, as a list or a tensor; None where there is none."""
    value = node.attributes.get(name)
    if value is None:
        value = node.attributes.get(f"{name}_as_tensor")
    if value is None:
        return None
    if hasattr(value, "data_type"):
        value = array_of(value, node.name)
    try:
        return np.asarray(value, element).reshape(-1)
    except (TypeError, ValueError):
        raise node.mistyped(name, "a list of numbers") from None


def required(ctx: Context, node: Node, name: str, element: Any = np.float32) -> Array:
    """An attribute of several numbers that must be there (MC0127)."""
    found = numbers(node, name, element)
    if found is None:
        raise ctx.wrong(f"its attribute {name} is missing")
    return found


def rows_of(ctx: Context, x: Value) -> Value:
    """A matrix as it is, and a vector as one row."""
    if x.type.rank == 1:
        return ctx.reshape(x, (1, *x.type.shape))
    if x.type.rank != 2:
        raise ctx.wrong(f"its input has {x.type.rank} axes, of which it takes one or two")
    return x


def joined(ctx: Context, *columns: Value) -> Value:
    """Columns [N] side by side, [N,C]."""
    apart = [ctx.reshape(c, (*c.type.shape, 1)) for c in columns]
    return apart[0] if len(apart) == 1 else ctx.emit(graph.Concat, tuple(apart), axis=1)


def column(ctx: Context, x: Value, k: int) -> Value:
    """A column of a matrix."""
    n = x.type.shape[0]
    one = ctx.emit(graph.Slice, x, starts=(0, k), stops=(n, k + 1), steps=(1, 1))
    return ctx.reshape(one, (n,))


def transform_of(ctx: Context, node: Node) -> str:
    """The name of what is done to scores at the end; MC0127 where there is no such."""
    way = node.attributes.get("post_transform", "NONE")
    if isinstance(way, int) and 0 <= way < len(TRANSFORMS):
        way = TRANSFORMS[way]
    if way not in TRANSFORMS:
        raise ctx.wrong(f"its post_transform is {way!r}, none of {', '.join(TRANSFORMS)}")
    return str(way)


def transformed(ctx: Context, x: Value, way: str) -> Value:
    """Scores [N,C] after the transform of this name."""
    if way == "NONE":
        return x
    if way == "LOGISTIC":
        return sigmoid_of(ctx, x)
    if way == "PROBIT":
        return _probit(ctx, x)
    axis: dict[str, Any] = {"axes": (x.type.rank - 1,), "keepdims": True}
    best = ctx.emit(graph.Reduce, x, combine="max", **axis)
    power = ctx.emit(graph.Exp, ctx.emit(graph.Sub, x, best))
    counted = power
    if way == "SOFTMAX_ZERO":
        small = ctx.emit(graph.Le, ctx.emit(graph.Abs, x), ctx.scalar(_NEARLY_ZERO, x))
        scale = ctx.emit(graph.Exp, ctx.emit(graph.Neg, best))
        counted = ctx.emit(graph.Select, small, ctx.scalar(0, x), power)
        power = ctx.emit(graph.Select, small, ctx.emit(graph.Mul, x, scale), power)
    return ctx.emit(graph.Div, power, ctx.emit(graph.Reduce, counted, combine="add", **axis))


def both_scores(ctx: Context, score: Value, way: str, probable: bool) -> Value:
    """The scores [N,2] of two classes of which one score [N] is known, that of the second.

    Where it is a probability the first has what is left, else its negative; so it is in ONNX
    Runtime, which leaves them alone under SOFTMAX and SOFTMAX_ZERO.
    """
    rest = ctx.emit(graph.Sub, ctx.scalar(1, score), score)
    turned = way == "LOGISTIC" or not (probable or way == "PROBIT")
    other = ctx.emit(graph.Neg, score) if turned else rest
    pair = joined(ctx, other, score)
    return transformed(ctx, pair, way) if way in ("LOGISTIC", "PROBIT") else pair


def _probit(ctx: Context, x: Value) -> Value:
    """The quantile of the normal distribution: Winitzki's approximation, with ONNX Runtime's pi."""

    def number(value: float) -> Value:
        return ctx.scalar(value, x)

    y = ctx.emit(graph.Sub, ctx.emit(graph.Mul, number(2), x), number(1))
    rest = ctx.emit(graph.Mul, ctx.emit(graph.Sub, number(1), y), ctx.emit(graph.Add, number(1), y))
    log = ctx.emit(graph.Log, rest)
    half = ctx.emit(graph.Mul, number(0.5), log)
    v = ctx.emit(graph.Add, number(2 / (3.14159 * 0.147)), half)
    square = ctx.emit(graph.Mul, v, v)
    inner = ctx.emit(graph.Sub, square, ctx.emit(graph.Mul, number(1 / 0.147), log))
    size = ctx.emit(graph.Sqrt, ctx.emit(graph.Sub, ctx.emit(graph.Sqrt, inner), v))
    scaled = ctx.emit(graph.Mul, number(2**0.5), size)
    below = ctx.emit(graph.Lt, y, number(0))
    return ctx.emit(graph.Select, below, ctx.emit(graph.Neg, scaled), scaled)


def class_labels(ctx: Context, node: Node, integers: str) -> tuple[Any, ...]:
    """The labels of a classifier's classes: its texts, else its numbers (MC0127 without)."""
    found = node.texts("classlabels_strings") or node.integers(integers)
    if not found:
        raise ctx.wrong(f"its attribute {integers} is missing, and so is classlabels_strings")
    return tuple(found)


def labelled(ctx: Context, index: Value, labels: tuple[Any, ...]) -> Value:
    """The labels that stand at indices: numbers, or texts, which the host looks up."""
    if isinstance(labels[0], str):
        return texts_at(ctx, index, labels)
    return ctx.emit(graph.Gather, ctx.constant(np.array(labels, np.int64)), index, axis=0)


def texts_at(ctx: Context, index: Value, texts: tuple[str, ...], default: str = "") -> Value:
    """The texts that stand at indices, by an op of the host; a default for one that is outside."""
    index = ctx.cast(index, I64)
    ctx.use([index])
    options = (
        ("cats_int64s", tuple(range(len(texts)))),
        ("cats_strings", texts),
        ("default_string", default),
    )
    op = graph.Host(
        (index,),
        operator="onnx.ai.onnx.ml.CategoryMapper",
        places=(0,),
        types=(ANYTHING,),
        options=options,
        versions=(ctx.opset, 1),
        loc=ctx.builder.loc,
    )
    return ctx.builder.add(op).result
