"""Normalisations of sums and of embeddings, as transformer tools fuse them.

16-bit floats are added and normalised in f32 and rounded once, at the end.
"""

from __future__ import annotations

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.microsoft.common import (
    DOMAIN,
    add,
    all_of,
    channels_first,
    channels_last,
    flag,
    standard,
)
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.activation import sigmoid_of
from minicc.frontends.onnx.ops.movement import cut
from minicc.frontends.onnx.ops.reduce import mean_of
from minicc.frontends.onnx.ops.widen import wide_of
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.core import Value
from minicc.ir.graph.shapes import differ
from minicc.ir.types import F32, I32

_TINY = 1e-12  # what the fused ones add to a variance unless a node says otherwise


def root_mean_square(
    ctx: Context, x: Value, axes: tuple[int, ...], epsilon: float
) -> tuple[Value, Value]:
    """`x` divided by the root of its mean square over axes, and the reciprocal of that root."""
    square = mean_of(ctx, ctx.emit(graph.Mul, x, x), axes, True)
    root = ctx.emit(graph.Sqrt, ctx.emit(graph.Add, square, ctx.scalar(epsilon, x)))
    inverse = ctx.emit(graph.Div, ctx.scalar(1, x), root)
    return ctx.emit(graph.Mul, x, inverse), inverse


# ONNX Runtime enters it among ONNX's own operators.
@operator("SimplifiedLayerNormalization", attributes="axis epsilon stash_type")
def simplified_layer_normalization(
    ctx: Context, node: Node, x: Value, scale: Value
) -> tuple[Value, ...]:
    """Divide by the root of the mean square over the axes from `axis` on, then scale."""
    axes = tuple(range(ctx.axis("axis", -1, x.type.rank), x.type.rank))
    out, inverse = root_mean_square(ctx, wide_of(ctx, x), axes, node.number("epsilon", 1e-5))
    out = ctx.emit(graph.Mul, out, ctx.cast(scale, out.type.dtype))
    return ctx.cast(out, scale.type.dtype), ctx.cast(inverse, F32)


def _sum_of(ctx: Context, x: Value, skip: Value, bias: Value | None) -> Value:
    """The sum of an input, what skips a layer, and a bias."""
    more = None if bias is None else wide_of(ctx, bias)
    return add(ctx, wide_of(ctx, x), more, wide_of(ctx, skip))


def _layer_norm(
    ctx: Context, node: Node, x: Value, gamma: Value, beta: Value | None
) -> tuple[Value, ...]:
    """A layer normalisation over the last axis, with its mean and reciprocal deviation."""
    line = [None if v is None else ctx.cast(v, x.type.dtype) for v in (gamma, beta)]
    epsilon = node.number("epsilon", _TINY)
    return all_of(ctx, node, "LayerNormalization", x, *line, axis=-1, epsilon=epsilon)


@operator(f"{DOMAIN}.SkipLayerNormalization", attributes="epsilon")
def skip_layer_normalization(
    ctx: Context,
    node: Node,
    x: Value,
    skip: Value,
    gamma: Value,
    beta: Value | None = None,
    bias: Value | None = None,
) -> tuple[Value, ...]:
    """A sum, standardised over its last axis, scaled and shifted; and the sum itself."""
    total = _sum_of(ctx, x, skip, bias)
    out, mean, inverse = _layer_norm(ctx, node, total, gamma, beta)
    element = x.type.dtype
    return ctx.cast(out, element), mean, inverse, ctx.cast(total, element)


@operator(f"{DOMAIN}.SkipSimplifiedLayerNormalization", attributes="epsilon")
def skip_simplified_layer_normalization(
    ctx: Context, node: Node, x: Value, skip: Value, gamma: Value, bias: Value | None = None
) -> tuple[Value, ...]:
    """A sum, divided by the root of its mean square over the last axis; and the sum itself."""
    total = _sum_of(ctx, x, skip, bias)
    axes = (total.type.rank - 1,)
    out, inverse = root_mean_square(ctx, total, axes, node.number("epsilon", _TINY))
    out = ctx.emit(graph.Mul, out, ctx.cast(gamma, out.type.dtype))
    mean = mean_of(ctx, total, axes, True)
    element = x.type.dtype
    return ctx.cast(out, element), mean, inverse, ctx.cast(total, element)


def embedded(
    ctx: Context,
    node: Node,
    tables: tuple[Value, Value, Value | None],
    places: tuple[Value, Value | None, Value | None],
) -> Value:
    """The sum of the embeddings of words, of positions, and of segments.

    `places` are the words, their positions, which else are counted from 0, and their segments.
    """
    words, positions, segments = tables
    ids, at, kinds = places
    if ids.type.rank != 2:
        raise ctx.refused("its words are no matrix of a batch and its steps")
    if at is None:
        rows = cut(ctx, positions, {0: (0, ids.type.shape[1], 1)})
    else:
        rows = ctx.emit(graph.Gather, positions, at, axis=0)
    total = add(ctx, ctx.emit(graph.Gather, words, ids, axis=0), rows)
    if segments is None or kinds is None:
        return total
    return add(ctx, total, ctx.emit(graph.Gather, segments, kinds, axis=0))


def words_of(ctx: Context, ids: Value, mask: Value | None) -> Value:
    """How many words of each sentence a mask lets through; 0 where there is none."""
    if mask is None:
        return ctx.emit(graph.Broadcast, ctx.scalar(0, I32), shape=ids.type.shape[:1])
    ones = ctx.cast(ctx.emit(graph.Eq, mask, ctx.scalar(1, mask)), I32)
    return ctx.emit(graph.Reduce, ones, axes=(1,), combine="add", keepdims=False)


@operator(f"{DOMAIN}.EmbedLayerNormalization", attributes="epsilon mask_index_type")
def embed_layer_normalization(
    ctx: Context,
    node: Node,
    ids: Value,
    kinds: Value | None,
    words: Value,
    positions: Value,
    segments: Value | None,
    gamma: Value,
    beta: Value,
    mask: Value | None = None,
    at: Value | None = None,
) -> tuple[Value, ...]:
    """Embeddings of words, positions and segments, added and standardised.

    Also how long each sentence is by its mask, and the sum.
    """
    total = embedded(ctx, node, (words, positions, segments), (ids, at, kinds))
    out = _layer_norm(ctx, node, wide_of(ctx, total), gamma, beta)[0]
    return ctx.cast(out, words.type.dtype), words_of(ctx, ids, mask), total


@operator(f"{DOMAIN}.BranchwiseRMSNorm", attributes="epsilon num_branches")
def branchwise_rms_norm(ctx: Context, node: Node, x: Value, scale: Value | None = None) -> Value:
    """Divide each branch by the root of its mean square over the last axis, then scale."""
    shape, element = x.type.shape, x.type.dtype
    count = node.integer("num_branches", 0)
    if count < 0:
        raise ctx.refused(f"{count} branches")
    apart = ctx.cast(x, F32)
    if count:
        width = ctx.quotient(shape[-1], count, "elements of branches")
        apart = ctx.reshape(apart, (*shape[:-1], count, width))
    epsilon = node.number("epsilon", 1e-5)
    out, _ = root_mean_square(ctx, apart, (apart.type.rank - 1,), epsilon)
    if scale is not None:
        own = scale.type.shape[-1]
        # one for each branch, as it is taken to be where there are some and that can't be told
        of_each = scale.type.rank == 1 and own != apart.type.shape[-1]
        if of_each and (count or differ(own, apart.type.shape[-1])):
            scale = ctx.reshape(scale, apart.type.shape[-2:])
        out = ctx.emit(graph.Mul, out, ctx.cast(scale, F32))
    return ctx.reshape(ctx.cast(out, element), shape)


@operator(f"{DOMAIN}.GatedRMSNorm", attributes="activation epsilon")
def gated_rms_norm(ctx: Context, node: Node, x: Value, scale: Value, gate: Value) -> Value:
    """Divide groups by the root of their mean square, scale, and let a gate through."""
    shape, element = x.type.shape, x.type.dtype
    size = scale.type.shape[0]
    groups = ctx.quotient(shape[-1], size, "elements")
    name = node.text("activation", "silu")
    if name not in ("silu", "swish", "sigmoid"):
        raise ctx.wrong(f"attribute activation is {name!r}, not 'silu', 'swish' or 'sigmoid'")
    apart = ctx.reshape(ctx.cast(x, F32), (*shape[:-1], groups, size))
    epsilon = node.number("epsilon", 1e-5)
    out, _ = root_mean_square(ctx, apart, (apart.type.rank - 1,), epsilon)
    out = ctx.reshape(ctx.emit(graph.Mul, out, ctx.cast(scale, F32)), shape)
    door = ctx.cast(gate, F32)
    through = sigmoid_of(ctx, door)
    if name != "sigmoid":
        through = ctx.emit(graph.Mul, door, through)
    return ctx.cast(ctx.emit(graph.Mul, out, through), element)


_OF_GROUPS = "activation channels_last epsilon groups"


def _group_norm(ctx: Context, node: Node, inner: Value, line: tuple[Value, Value]) -> Value:
    """Standardised groups of channels, which are first, scaled and shifted; SiLU if asked for."""
    wide = [ctx.cast(v, F32) for v in (inner, *line)]
    options = {"num_groups": node.integer("groups", 1), "epsilon": node.number("epsilon", 1e-5)}
    out = standard(ctx, node, "GroupNormalization", *wide, **options)
    return standard(ctx, node, "Swish", out) if flag(node, "activation") else out


@operator(f"{DOMAIN}.GroupNorm", attributes=_OF_GROUPS)
def group_norm(ctx: Context, node: Node, x: Value, gamma: Value, beta: Value) -> Value:
    """Standardise groups of channels, scale and shift them, and apply SiLU if asked for."""
    last, element = flag(node, "channels_last", 1), x.type.dtype
    inner = channels_first(ctx, x) if last else x
    out = _group_norm(ctx, node, inner, (gamma, beta))
    return ctx.cast(channels_last(ctx, out) if last else out, element)


@operator(f"{DOMAIN}.SkipGroupNorm", attributes=_OF_GROUPS)
def skip_group_norm(
    ctx: Context,
    node: Node,
    x: Value,
    gamma: Value,
    beta: Value,
    skip: Value,
    bias: Value | None = None,
) -> tuple[Value, Value]:
    """The same of a sum, and the sum itself.

    What is added may be an image, or a number for each channel: of each image, or of all.
    """
    last, element = flag(node, "channels_last", 1), x.type.dtype
    total = channels_first(ctx, x) if last else x
    total = wide_of(ctx, total)
    for v in (skip, bias):
        if v is None:
            continue
        if v.type.rank < 3:
            v = ctx.reshape(v, (*v.type.shape, *[1] * (x.type.rank - 2)))
        elif last:
            v = channels_first(ctx, v)
        total = ctx.emit(graph.Add, total, ctx.cast(v, total.type.dtype))
    results = _group_norm(ctx, node, total, (gamma, beta)), total
    placed = (channels_last(ctx, v) for v in results) if last else results
    out, whole = (ctx.cast(v, element) for v in placed)
    return out, whole
