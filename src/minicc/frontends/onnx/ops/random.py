"""Random numbers: with a seed they are drawn at import and become constants.

ONNX names no generator; the numbers are those of its reference evaluator, the Mersenne Twister of
`numpy.random.RandomState`, whose streams NumPy keeps as they are. A node without a seed runs on the
host, with another seed in each run (`host.fresh_seed`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.model.tensors import element_number, element_type
from minicc.frontends.onnx.registry import Importer, operator, register
from minicc.ir import graph
from minicc.ir.affine import Dim
from minicc.ir.core import Array, Value
from minicc.ir.types import BOOL, F64
from minicc.library.extremes import place_of_extreme


def _state(ctx: Context, node: Node) -> np.random.RandomState:
    """The generator of a node; the host runs it where it has no seed.

    MC0221 for a seed that starts no generator.
    """
    given = node.attributes.get("seed")
    if given is None:
        raise ctx.drawn_anew()
    # Dropout's is an integer, the others' a float
    seed = node.integer("seed", 0) if isinstance(given, int) else node.number("seed", 0.0)
    if not 0 <= seed < 2**32:
        raise ctx.unsupported(f"its seed is {seed:g}", "take one from 0 to 2**32 - 1")
    return np.random.RandomState(int(seed))


def _extents(ctx: Context, shape: Sequence[Dim]) -> tuple[int, ...]:
    numbers = tuple(ctx.static(n, "how many numbers are drawn") for n in shape)
    ctx.room(*numbers)
    return numbers


@operator("Dropout", attributes="is_test ratio seed")
def dropout(
    ctx: Context, node: Node, x: Value, ratio: Value | None = None, training: Value | None = None
) -> Value | tuple[Value, ...]:
    """In inference all is kept; in training what was drawn below the ratio becomes 0."""
    share = ctx.scalar(0.5, x) if ratio is None else ratio
    known = ctx.array(share)
    if training is not None and (known is None or known.any()):
        seeded = "seed" in node.attributes
        if seeded or bool(ctx.known(training, "training_mode").item()):
            return _trained(ctx, node, x, share, training)
    if not any(node.outputs[1:]):
        return x
    kept = ctx.constant(np.array(True)) if ctx.opset >= 10 else ctx.scalar(1, x)
    return x, ctx.emit(graph.Broadcast, kept, shape=x.type.shape)


def _trained(
    ctx: Context, node: Node, x: Value, ratio: Value, training: Value
) -> tuple[Value, ...]:
    """What is kept, scaled up for what is not, and which that is; all of it out of training."""
    state = _state(ctx, node)
    drawn = ctx.constant(state.random_sample(_extents(ctx, x.type.shape)))
    below = ctx.emit(graph.Lt, drawn, ctx.cast(ctx.reshape(ratio, ()), F64))
    dropped = ctx.emit(graph.And, below, ctx.reshape(training, ()))
    share = ctx.cast(ctx.reshape(ratio, ()), x.type.dtype)
    one = ctx.scalar(1, x)
    scaled = ctx.emit(graph.Mul, x, ctx.emit(graph.Div, one, ctx.emit(graph.Sub, one, share)))
    kept = ctx.emit(graph.Select, ctx.reshape(training, ()), scaled, x)
    out = ctx.emit(graph.Select, dropped, ctx.scalar(0, x), kept)
    return out, ctx.emit(graph.Not, ctx.cast(dropped, BOOL))


def _drawn(ctx: Context, node: Node, shape: Sequence[Dim], element: int, normal: bool) -> Value:
    """Numbers of a shape and an element type, rounded to it before they are scaled and moved."""
    to = element_type(node.integer("dtype", element), "the result", node.name).numpy
    state = _state(ctx, node)
    numbers = (state.standard_normal if normal else state.random_sample)(_extents(ctx, shape))
    if normal:
        scale, least = node.number("scale", 1.0), node.number("mean", 0.0)
    else:
        least = node.number("low", 0.0)
        scale = node.number("high", 1.0) - least
    out: Array = np.asarray(numbers).astype(to) * np.asarray(scale, to) + np.asarray(least, to)
    return ctx.constant(out)


def _of_shape(normal: bool) -> Importer:
    def run(ctx: Context, node: Node) -> Value:
        shape = node.integers("shape")
        if shape is None:
            raise ctx.wrong("its attribute shape is missing")
        return _drawn(ctx, node, shape, 1, normal)

    return run


def _like(normal: bool) -> Importer:
    def run(ctx: Context, node: Node, x: Value) -> Value:
        return _drawn(ctx, node, x.type.shape, element_number(x.type.dtype), normal)

    return run


@operator("Bernoulli", attributes="dtype seed")
def bernoulli(ctx: Context, node: Node, x: Value) -> Value:
    """1 with the probability that an element of `x` is, else 0."""
    number = node.integer("dtype", element_number(x.type.dtype))
    to = element_type(number, "the result", node.name)
    state = _state(ctx, node)
    drawn = ctx.constant(state.random_sample(_extents(ctx, x.type.shape)))
    return ctx.cast(ctx.emit(graph.Lt, drawn, ctx.cast(x, F64)), to)


@operator("Multinomial", attributes="dtype sample_size seed")
def multinomial(ctx: Context, node: Node, x: Value) -> Value:
    """Classes by their probabilities, whose logarithms but for a constant are a row of `x` each.

    The greatest of the logarithms, each with a draw from Gumbel's distribution, has that of `x`.
    """
    if x.type.rank != 2:
        raise ctx.refused("Multinomial takes a matrix")
    to = element_type(node.integer("dtype", 6), "the result", node.name)
    rows, classes = x.type.shape
    shape = (rows, node.integer("sample_size", 1), classes)
    noise = ctx.constant(_state(ctx, node).gumbel(size=_extents(ctx, shape)))
    scores = ctx.emit(graph.Add, ctx.cast(ctx.reshape(x, (rows, 1, classes)), F64), noise)
    return ctx.cast(ctx.reshape(place_of_extreme(ctx.emit, scores, 2, "max", False), shape[:2]), to)


for _name, _normal, _attributes in (
    ("RandomNormal", True, "dtype mean scale seed"),
    ("RandomUniform", False, "dtype high low seed"),
):
    register(_name, _of_shape(_normal), f"{_attributes} shape")
    register(f"{_name}Like", _like(_normal), _attributes)
