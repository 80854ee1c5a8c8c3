"""Random numbers: with a seed they are drawn at import and become constants.

ONNX names no generator; the numbers are those of its reference evaluator, the Mersenne Twister of
`numpy.random.RandomState`, whose streams NumPy keeps as they are. What a node without a seed draws,
the host draws anew in each run (`host.random`).
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
from minicc.ir.types import BOOL, F64, I64, TensorType
from minicc.library.extremes import place_of_extreme

_DRAWS = 1  # the opset in which the operators that draw are as they still are


def _state(ctx: Context, node: Node) -> np.random.RandomState | None:
    """The generator of a node; None where it has no seed.

    MC0221 for a seed that starts no generator.
    """
    given = node.attributes.get("seed")
    if given is None:
        return None
    # Dropout's is an integer, the others' a float
    seed = node.integer("seed", 0) if isinstance(given, int) else node.number("seed", 0.0)
    if not 0 <= seed < 2**32:
        raise ctx.unsupported(f"its seed is {seed:g}", "take one from 0 to 2**32 - 1")
    return np.random.RandomState(int(seed))


def _uniform(ctx: Context, node: Node, like: Value) -> Value:
    """Numbers from 0 up to 1, as many as a tensor has; the host draws them where there is no seed.

    MC0223 where the host may run nothing.
    """
    state = _state(ctx, node)
    if state is not None:
        return ctx.constant(state.random_sample(_extents(ctx, like.type.shape)))
    if not ctx.hosting:
        raise ctx.drawn_anew()
    ctx.use([like])
    op = graph.Host(
        (like,),
        operator="onnx.RandomUniformLike",
        places=(0,),
        types=(TensorType(F64, like.type.shape),),
        options=(("dtype", element_number(F64)),),
        versions=(_DRAWS, _DRAWS),
        draws=True,
        loc=ctx.builder.loc,
    )
    return ctx.builder.add(op).results[0]


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
    drawn = _uniform(ctx, node, x)
    below = ctx.emit(graph.Lt, drawn, ctx.cast(ctx.reshape(ratio, ()), F64))
    dropped = ctx.emit(graph.And, below, ctx.reshape(training, ()))
    share = ctx.cast(ctx.reshape(ratio, ()), x.type.dtype)
    one = ctx.scalar(1, x)
    scaled = ctx.emit(graph.Mul, x, ctx.emit(graph.Div, one, ctx.emit(graph.Sub, one, share)))
    kept = ctx.emit(graph.Select, ctx.reshape(training, ()), scaled, x)
    out = ctx.emit(graph.Select, dropped, ctx.scalar(0, x), kept)
    return out, ctx.emit(graph.Not, ctx.cast(dropped, BOOL))


def _drawn(ctx: Context, node: Node, shape: Sequence[Dim], element: int, normal: bool) -> Value:
    """A constant of this shape of what is drawn."""
    state = _state(ctx, node)
    if state is None:
        raise ctx.drawn_anew()
    return ctx.constant(draw(node, state, _extents(ctx, shape), element, normal))


def draw(
    node: Node, state: np.random.RandomState, shape: Sequence[int], element: int, normal: bool
) -> Array:
    """Numbers of a shape and an element type, rounded to it before they are scaled and moved."""
    to = element_type(node.integer("dtype", element), "the result", node.name).numpy
    numbers = (state.standard_normal if normal else state.random_sample)(tuple(shape))
    if normal:
        scale, least = node.number("scale", 1.0), node.number("mean", 0.0)
    else:
        least = node.number("low", 0.0)
        scale = node.number("high", 1.0) - least
    out: Array = np.asarray(numbers).astype(to) * np.asarray(scale, to) + np.asarray(least, to)
    return out


def _of_shape(normal: bool) -> Importer:
    def run(ctx: Context, node: Node) -> Value:
        return _drawn(ctx, node, node.integers("shape") or (), 1, normal)

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
    drawn = _uniform(ctx, node, x)
    return ctx.cast(ctx.emit(graph.Lt, drawn, ctx.cast(x, F64)), to)


@operator("Multinomial", attributes="dtype sample_size seed")
def multinomial(ctx: Context, node: Node, x: Value) -> Value:
    """Classes by their probabilities, whose logarithms but for a constant are a row of `x` each."""
    if x.type.rank != 2:
        raise ctx.refused("Multinomial takes a matrix")
    to = element_type(node.integer("dtype", 6), "the result", node.name)
    state, count = _state(ctx, node), node.integer("sample_size", 1)
    logits = ctx.cast(x, F64)
    if state is None:
        return ctx.cast(_by_shares(ctx, node, logits, count), to)
    # the greatest of the logarithms, each with a draw from Gumbel's distribution
    rows, classes = x.type.shape
    noise = ctx.constant(state.gumbel(size=_extents(ctx, (rows, count, classes))))
    scores = ctx.emit(graph.Add, ctx.reshape(logits, (rows, 1, classes)), noise)
    found = place_of_extreme(ctx.emit, scores, 2, "max", False)
    return ctx.cast(ctx.reshape(found, (rows, count)), to)


def _by_shares(ctx: Context, node: Node, logits: Value, count: int) -> Value:
    """Of each row as many classes, each as often as its share of the sum is large.

    A class is how many of the sums up to a class are no more than what was drawn.
    """
    rows, classes = logits.type.shape
    top = ctx.emit(graph.Reduce, logits, axes=(1,), combine="max", keepdims=True)
    shares = ctx.emit(graph.Exp, ctx.emit(graph.Sub, logits, top))
    sums = ctx.emit(graph.Accumulate, shares, axis=1, combine="add")
    total = ctx.emit(graph.Reduce, shares, axes=(1,), combine="add", keepdims=True)
    drawn = _uniform(ctx, node, ctx.emit(graph.Broadcast, total, shape=(rows, count)))
    least = ctx.reshape(ctx.emit(graph.Mul, drawn, total), (rows, count, 1))
    below = ctx.emit(graph.Le, ctx.reshape(sums, (rows, 1, classes)), least)
    places = ctx.emit(graph.Reduce, ctx.cast(below, I64), axes=(2,), combine="add", keepdims=False)
    last = ctx.emit(graph.Sub, ctx.extent(classes, I64), ctx.scalar(1, I64))
    return ctx.emit(graph.Min, places, last)


for _name, _normal, _attributes in (
    ("RandomNormal", True, "dtype mean scale seed"),
    ("RandomUniform", False, "dtype high low seed"),
):
    register(_name, _of_shape(_normal), f"{_attributes} shape!")
    register(f"{_name}Like", _like(_normal), _attributes)
