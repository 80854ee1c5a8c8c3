"""Operators of decoders that write one token at a time, and of models that share their pieces."""

from __future__ import annotations

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.microsoft.attention import (
    apart,
    attended,
    operands_of,
    require_absent,
    thirds,
    together,
)
from minicc.frontends.onnx.microsoft.common import DOMAIN, add, flag, permuted, standard
from minicc.frontends.onnx.microsoft.normalize import root_mean_square
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.activation import sigmoid_of
from minicc.frontends.onnx.ops.attention import heads_of, power_of, with_past
from minicc.frontends.onnx.ops.movement import cut
from minicc.frontends.onnx.ops.widen import wide_of
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.core import Value
from minicc.ir.types import F32, F64, I32, I64

_MASKED = "mask_filter_value num_heads output_qk past_present_share_buffer scale"


@operator(f"{DOMAIN}.DecoderMaskedMultiHeadAttention", attributes=_MASKED)
def decoder_attention(
    ctx: Context,
    node: Node,
    q: Value,
    k: Value | None = None,
    v: Value | None = None,
    mask: Value | None = None,
    attention_bias: Value | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    past_length: Value | None = None,
    beam_width: Value | None = None,
    cache_indirection: Value | None = None,
    bias: Value | None = None,
) -> tuple[Value, ...]:
    """Attention of one new token to the keys of a cache, which its own is written into."""
    if k is None and v is None:
        q, k, v = apart(ctx, q, thirds(ctx, q), 2)
    q, k, v = operands_of(ctx, node, q, k, v, bias)
    if past_key is None or past_value is None:
        out, scores = attended(ctx, node, (q, k, v), mask, attention_bias)
        return together(ctx, out), k, v, scores
    if not flag(node, "past_present_share_buffer"):
        k, v = with_past(ctx, (past_key, past_value), (k, v))
        out, scores = attended(ctx, node, (q, k, v), mask, attention_bias)
        return together(ctx, out), k, v, scores
    if past_length is None:
        raise ctx.wrong("its past_sequence_length is missing")
    for x in (k, v):
        ctx.demand(x.type.shape[2], 1, "it writes one new token at a time")
    room = past_key.type.shape[2]
    newest = ctx.reshape(ctx.cast(past_length, I64), ())
    place = ctx.emit(graph.Iota, shape=(1, 1, room, 1), axis=2, dtype=I64)
    new = ctx.emit(graph.Eq, place, newest)
    k, v = (ctx.emit(graph.Select, new, x, past) for x, past in ((k, past_key), (v, past_value)))
    seen = room
    for given in (mask, attention_bias):
        seen = seen if given is None else given.type.shape[-1]
    keys, values = k, v
    if cache_indirection is not None:
        keys, values = (_of_beams(ctx, x, cache_indirection, newest) for x in (k, v))
    keys, values = (cut(ctx, x, {2: (0, seen, 1)}) for x in (keys, values))
    later = ctx.emit(graph.Iota, shape=(1, 1, 1, seen), axis=3, dtype=I64)
    none, never = ctx.scalar(0, q), ctx.scalar(float(np.finfo(np.float32).min), q)
    hidden = ctx.emit(graph.Select, ctx.emit(graph.Le, later, newest), none, never)
    out, scores = attended(ctx, node, (q, keys, values), mask, add(ctx, hidden, attention_bias))
    return together(ctx, out), k, v, scores


def _of_beams(ctx: Context, cache: Value, beams: Value, newest: Value) -> Value:
    """A cache of beams with each place from the beam that wrote it; a beam's newest is its own."""
    rows, _, room, _ = cache.type.shape
    batch, width, _ = beams.type.shape
    first = ctx.emit(graph.Iota, shape=(batch, 1, 1), axis=0, dtype=I64)
    first = ctx.emit(graph.Mul, first, ctx.extent(width, I64))
    writer = ctx.reshape(ctx.emit(graph.Add, first, ctx.cast(beams, I64)), (rows, room))
    place = ctx.emit(graph.Iota, shape=(1, room), axis=1, dtype=I64)
    own = ctx.emit(graph.Iota, shape=(rows, 1), axis=0, dtype=I64)
    writer = ctx.emit(graph.Select, ctx.emit(graph.Lt, place, newest), writer, own)
    index = ctx.emit(graph.Add, ctx.emit(graph.Mul, writer, ctx.extent(room, I64)), place)
    flat = permuted(ctx, cache, (0, 2, 1, 3))
    flat = ctx.reshape(flat, (rows * room, *flat.type.shape[2:]))
    return permuted(ctx, ctx.emit(graph.Gather, flat, index, axis=0), (0, 2, 1, 3))


@operator(
    f"{DOMAIN}.WordConvEmbedding",
    attributes="char_embedding_size conv_window_size embedding_size",
)
def word_embedding(
    ctx: Context, node: Node, words: Value, w: Value, b: Value, letters: Value
) -> Value:
    """For each word the greatest of what windows over its letters give; 0 ends a word."""
    count, length = words.type.shape
    width = ctx.static(w.type.shape[2], "the width of a window")
    places = length - width + 1
    zero = ctx.scalar(0, words)
    there = ctx.emit(graph.Lt, zero, words)
    size = ctx.emit(graph.Reduce, ctx.cast(there, I32), axes=(1,), combine="add", keepdims=True)
    windows = ctx.emit(graph.Max, ctx.emit(graph.Sub, size, ctx.scalar(width - 1, I32)),
                       ctx.scalar(1, I32))  # fmt: skip
    image = ctx.emit(graph.Gather, letters, words, axis=0)
    picture = ctx.reshape(image, (count, 1, length, image.type.shape[2]))
    out = standard(ctx, node, "Tanh", standard(ctx, node, "Conv", picture, w, b))
    out = ctx.reshape(out, (count, w.type.shape[0], places))
    place = ctx.emit(graph.Iota, shape=(1, 1, places), axis=2, dtype=I32)
    inside = ctx.emit(graph.Lt, place, ctx.reshape(windows, (count, 1, 1)))
    kept = ctx.emit(graph.Select, inside, out, ctx.scalar(-1, out))
    best = ctx.emit(graph.Reduce, kept, axes=(2,), combine="max")
    return ctx.emit(graph.Select, cut(ctx, there, {1: (0, 1, 1)}), best, ctx.scalar(0, best))


def _streams(ctx: Context, node: Node, x: Value) -> Value:
    """Streams with an axis of their own before the last, however they are given."""
    count = node.integer("num_branches", 0)
    if not count:
        return x
    width = ctx.quotient(x.type.shape[-1], count, "elements of streams")
    return ctx.reshape(x, (*x.type.shape[:-1], count, width))


@operator(f"{DOMAIN}.HyperConnectionPreMix", attributes="num_branches reduction_scale")
def mixed_before(ctx: Context, node: Node, streams: Value, gates: Value) -> Value:
    """The sum of streams, each times its gates."""
    x = _streams(ctx, node, streams)
    product = ctx.emit(graph.Mul, wide_of(ctx, x), wide_of(ctx, _gates(ctx, gates, x)))
    total = ctx.emit(graph.Reduce, product, axes=(x.type.rank - 2,), combine="add")
    return ctx.cast(ctx.scaled(total, node.number("reduction_scale", 1.0)), x.type.dtype)


def _gates(ctx: Context, gates: Value, x: Value) -> Value:
    """Gates of a stream each or of all its elements, such that they broadcast to the streams."""
    if gates.type.rank == x.type.rank:
        return gates
    branches, width = x.type.shape[-2:]
    last = 1 if gates.type.shape[-1] == branches else width
    return ctx.reshape(gates, (*x.type.shape[:-1], last))


@operator(f"{DOMAIN}.HyperConnectionPostMix", attributes="num_branches")
def mixed_after(
    ctx: Context, node: Node, streams: Value, out: Value, gates: Value, mix: Value | None = None
) -> Value:
    """Streams mixed with one another, and a branch's output times its gates."""
    x = wide_of(ctx, _streams(ctx, node, streams))
    block = wide_of(ctx, ctx.reshape(out, (*out.type.shape[:-1], 1, out.type.shape[-1])))
    if mix is not None:
        turned = permuted(ctx, wide_of(ctx, mix), (*range(x.type.rank - 2), -1 % x.type.rank,
                                                -2 % x.type.rank))  # fmt: skip
        product = standard(ctx, node, "MatMul", turned, x)
    else:
        product = x
    total = add(ctx, product, ctx.emit(graph.Mul, block, wide_of(ctx, _gates(ctx, gates, x))))
    return ctx.cast(ctx.reshape(total, streams.type.shape), streams.type.dtype)


@operator(f"{DOMAIN}.EngramGate", attributes="epsilon")
def engram_gate(
    ctx: Context,
    node: Node,
    key: Value,
    query: Value,
    value: Value,
    key_scale: Value,
    query_scale: Value,
    more_scale: Value | None = None,
) -> tuple[Value, ...]:
    """A value gated by how alike keys and queries are, and perhaps that with its mean square 1."""
    epsilon = node.number("epsilon", 1e-5)

    def normal(x: Value, scale: Value) -> Value:
        out, _ = root_mean_square(ctx, wide_of(ctx, x), (3,), epsilon)
        return ctx.emit(graph.Mul, out, wide_of(ctx, scale))

    both = ctx.emit(graph.Mul, normal(key, key_scale), normal(query, query_scale))
    alike = ctx.emit(graph.Reduce, both, axes=(3,), combine="add", keepdims=True)
    alike = ctx.emit(graph.Mul, alike, power_of(ctx, key.type.shape[3], -0.5, alike))
    size_of = ctx.emit(graph.Max, ctx.emit(graph.Abs, alike), ctx.scalar(1e-6, alike))
    bent = ctx.emit(graph.Mul, standard(ctx, node, "Sign", alike), ctx.emit(graph.Sqrt, size_of))
    batch, steps, width = value.type.shape
    one = wide_of(ctx, ctx.reshape(value, (batch, steps, 1, width)))
    out = ctx.emit(graph.Mul, sigmoid_of(ctx, bent), one)
    made = ctx.cast(out, key.type.dtype)
    return (
        (made,)
        if more_scale is None
        else (made, ctx.cast(normal(out, more_scale), made.type.dtype))
    )


@operator(f"{DOMAIN}.SampleOp")
def sample(ctx: Context, node: Node, x: Value) -> Value:
    """Its input: the operator that shows how others are written."""
    return x


@operator(f"{DOMAIN}.RelativePositionBias", attributes="is_bidirectional max_distance")
def relative_bias(ctx: Context, node: Node, table: Value, queries: Value, keys: Value) -> Value:
    """The entries of T5's buckets of distances between queries and keys: [1, heads, both]."""
    buckets, heads = table.type.shape
    both = flag(node, "is_bidirectional")
    (rows,), (columns,) = (ctx.dims(v, "a length") for v in (queries, keys))
    row = ctx.emit(graph.Iota, shape=(rows, 1), axis=0, dtype=I64)
    column = ctx.emit(graph.Iota, shape=(1, columns), axis=1, dtype=I64)
    before = ctx.emit(graph.Sub, row, column)
    zero = ctx.scalar(0, I64)
    count = buckets // 2 if both else buckets
    past = ctx.emit(graph.Lt, before, zero)
    start = ctx.emit(graph.Select, past, ctx.extent(count if both else 0, I64), zero)
    distance = ctx.emit(graph.Abs, before) if both else ctx.emit(graph.Max, before, zero)
    exact, most = count // 2, node.integer("max_distance", 128)
    far = ctx.cast(ctx.emit(graph.Max, distance, ctx.scalar(1, I64)), F32)
    ratio = ctx.emit(graph.Log, ctx.emit(graph.Div, far, ctx.extent(exact, F32)))
    span = ctx.emit(graph.Log, ctx.emit(graph.Div, ctx.scalar(most, F64), ctx.extent(exact, F64)))
    factor = ctx.cast(ctx.emit(graph.Div, ctx.extent(count - exact, F64), span), F32)
    large = ctx.cast(ctx.emit(graph.Mul, ratio, factor), I64)
    large = ctx.emit(graph.Add, large, ctx.extent(exact, I64))
    large = ctx.emit(graph.Min, large, ctx.extent(count - 1, I64))
    small = ctx.emit(graph.Lt, distance, ctx.extent(exact, I64))
    bucket = ctx.emit(graph.Add, start, ctx.emit(graph.Select, small, distance, large))
    found = permuted(ctx, ctx.emit(graph.Gather, table, bucket, axis=0), (2, 0, 1))
    return ctx.reshape(found, (1, heads, rows, columns))


@operator(f"{DOMAIN}.GatedRelativePositionBias", attributes="num_heads")
def gated_bias(
    ctx: Context,
    node: Node,
    query: Value,
    query_bias: Value,
    relative: Value,
    weight: Value,
    bias: Value,
    factor: Value,
    offset: Value | None = None,
) -> Value:
    """A bias of positions times a gate that each query computes."""
    require_absent(ctx, token_offset=offset)
    q = heads_of(ctx, add(ctx, query, query_bias), node.integer("num_heads", 0))
    product = add(ctx, standard(ctx, node, "MatMul", q, weight), bias)
    *outer, width = product.type.shape
    halves = ctx.reshape(product, (*outer, 2, ctx.quotient(width, 2, "elements of gates")))
    gates = sigmoid_of(ctx, ctx.emit(graph.Reduce, halves, axes=(4,), combine="add"))
    u, r = (cut(ctx, gates, {3: (k, k + 1, 1)}) for k in (0, 1))
    inner = add(ctx, ctx.emit(graph.Mul, r, factor), ctx.scalar(-1, r))
    gate = add(ctx, ctx.emit(graph.Mul, u, inner), ctx.scalar(2, u))
    return ctx.emit(graph.Mul, gate, relative)
