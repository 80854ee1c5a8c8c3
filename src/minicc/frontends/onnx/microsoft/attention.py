"""Attention as transformer tools fuse it, with masks of several kinds and the keys seen before.

What a mask hides gets `mask_filter_value` added to its score, and is not left out wholly; what
comes later than a causal query is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.microsoft.common import DOMAIN, add, flag, permuted, standard
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.attention import (
    Pair,
    heads_of,
    scores_of,
    turned_heads,
    weighted,
    with_past,
)
from minicc.frontends.onnx.ops.movement import cut
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.affine import Dim
from minicc.ir.affine import add as add_extents
from minicc.ir.core import Value
from minicc.ir.types import I64

_HIDDEN = -10000.0  # what is added to the score of a hidden key unless a node says otherwise


def require_absent(ctx: Context, **given: object) -> None:
    """MC0221 for inputs and attributes that only other providers of ONNX Runtime have."""
    for name, value in given.items():
        if value is not None and value is not False:
            hint = "export the model for ONNX Runtime's CPU provider"
            raise ctx.unsupported(f"its {name.replace('_', ' ')}", hint)


def apart(ctx: Context, x: Value, sizes: Sequence[Dim], axis: int) -> list[Value]:
    """Parts of an axis, of given sizes, one after the other."""
    ends = list(accumulate(sizes, add_extents))
    ctx.demand(x.type.shape[axis], ends[-1], f"parts of {list(sizes)} of {x.type}")
    return [cut(ctx, x, {axis: (e - n, e, 1)}) for n, e in zip(sizes, ends, strict=True)]


def thirds(ctx: Context, x: Value) -> tuple[Dim, ...]:
    """The widths of queries, keys and values that lie side by side, which are equal."""
    return (ctx.quotient(x.type.shape[2], 3, "columns"),) * 3


def count_of_heads(ctx: Context, node: Node, name: str = "num_heads") -> int:
    """The attribute that says how many heads there are."""
    heads = node.integer(name, 0)
    if heads < 1:
        raise ctx.wrong(f"attribute {name} is {heads}")
    return heads


def together(ctx: Context, x: Value) -> Value:
    """[batch, steps, hidden] of [batch, heads, steps, size]."""
    batch, heads, steps, size = x.type.shape
    return ctx.reshape(permuted(ctx, x, (0, 2, 1, 3)), (batch, steps, heads * size))


def _numbers(ctx: Context, shape: tuple[Dim, ...]) -> Value:
    """The indices of the last axis."""
    return ctx.emit(graph.Iota, shape=shape, axis=len(shape) - 1, dtype=I64)


def _shown(ctx: Context, mask: Value, batch: Dim, seen: Dim) -> Value:
    """Which keys a mask shows, such that it broadcasts to [batch, heads, steps, keys].

    A matrix or a tensor of rank 3 has an entry a key; a vector has for each sentence the end of its
    words, then perhaps the start.
    """
    shape = mask.type.shape
    if len(shape) in (2, 3):
        wide = (shape[0], 1, *(1,) * (3 - len(shape)), *shape[1:])
        return ctx.emit(graph.Lt, ctx.scalar(0, mask), ctx.reshape(mask, wide))
    if len(shape) != 1:
        raise ctx.unsupported(f"a mask of rank {len(shape)}", "use one of rank 1, 2 or 3")
    both = shape[0] == 2 * batch
    first = both or shape[0] == 3 * batch + 2
    ends = cut(ctx, mask, {0: (0, batch, 1)}) if first else mask
    place = _numbers(ctx, (1, 1, 1, seen))
    column = (batch, 1, 1, 1)
    shown = ctx.emit(graph.Lt, place, ctx.cast(ctx.reshape(ends, column), I64))
    if not both:
        return shown
    starts = ctx.reshape(cut(ctx, mask, {0: (batch, 2 * batch, 1)}), column)
    return ctx.emit(graph.And, shown, ctx.emit(graph.Le, ctx.cast(starts, I64), place))


def attended(
    ctx: Context,
    node: Node,
    heads: tuple[Value, Value, Value],
    mask: Value | None,
    bias: Value | None,
    before: Dim = 0,
) -> tuple[Value, Value]:
    """The values of all keys weighted by soft-max of their scores, and the scores.

    `heads` are queries, keys and values, [batch, heads, steps, size] each. With the attribute
    `unidirectional` a query sees no later key; `before` the first query there were as many keys.
    """
    q, k, v = heads
    scores = scores_of(ctx, node, q, k)
    batch, _, steps, seen = scores.type.shape
    hidden: Value | None = None
    if mask is not None:
        filtered = ctx.scalar(node.number("mask_filter_value", _HIDDEN), scores)
        shown = _shown(ctx, mask, batch, seen)
        hidden = ctx.emit(graph.Select, shown, ctx.scalar(0, scores), filtered)
    if flag(node, "unidirectional"):
        row = ctx.emit(graph.Iota, shape=(steps, 1), axis=0, dtype=I64)
        newest = ctx.emit(graph.Add, row, ctx.extent(before, I64))
        early = ctx.emit(graph.Le, _numbers(ctx, (1, seen)), newest)
        never = ctx.scalar(float(np.finfo(np.float32).min), scores)
        hidden = ctx.scalar(0, scores) if hidden is None else hidden
        hidden = ctx.emit(graph.Select, early, hidden, never)
    scores = add(ctx, scores, hidden, bias)
    return weighted(ctx, standard(ctx, node, "Softmax", scores, axis=-1), v), scores


def self_attention(
    ctx: Context,
    node: Node,
    product: Value,
    past: Value | None,
    mask: Value | None = None,
    bias: Value | None = None,
) -> tuple[Value, ...]:
    """The attention of queries, keys and values that lie side by side in the last axis.

    `past` are keys and values in one tensor, and so are all of them, which is the second result.
    """
    heads = count_of_heads(ctx, node)
    sizes: Sequence[Dim] | None = node.integers("qkv_hidden_sizes")
    sizes = sizes or thirds(ctx, product)
    if len(sizes) != 3:
        raise ctx.wrong(f"attribute qkv_hidden_sizes is {list(sizes)}")
    q, k, v = (heads_of(ctx, x, heads) for x in apart(ctx, product, sizes, 2))
    before: Dim = 0
    if past is not None:
        before = past.type.shape[3]
        rest = past.type.shape[1:]
        parts = (cut(ctx, past, {0: (n, n + 1, 1)}) for n in (0, 1))
        keys, values = (ctx.reshape(p, rest) for p in parts)
        k, v = with_past(ctx, (keys, values), (k, v))
    out, _ = attended(ctx, node, (q, k, v), mask, bias, before)
    results = [together(ctx, out)]
    if any(node.outputs[1:]):
        present = tuple(ctx.reshape(x, (1, *x.type.shape)) for x in (k, v))
        results.append(ctx.emit(graph.Concat, present, axis=0))
    return tuple(results)


_ATTENTION = "do_rotary mask_filter_value num_heads past_present_share_buffer qkv_hidden_sizes "
_ATTENTION += "rotary_embedding_dim scale unidirectional"


@operator(f"{DOMAIN}.Attention", attributes=_ATTENTION)
def attention(
    ctx: Context,
    node: Node,
    x: Value,
    weights: Value,
    bias: Value | None = None,
    mask: Value | None = None,
    past: Value | None = None,
    attention_bias: Value | None = None,
    past_sequence_length: Value | None = None,
) -> tuple[Value, ...]:
    """Self-attention of an input times weights that queries, keys and values share."""
    require_absent(
        ctx,
        rotation=flag(node, "do_rotary"),
        shared_buffer=flag(node, "past_present_share_buffer"),
        past_sequence_length=past_sequence_length,
    )
    product = add(ctx, standard(ctx, node, "MatMul", x, weights), bias)
    return self_attention(ctx, node, product, past, mask, attention_bias)


def _packed(ctx: Context, x: Value, count: int) -> list[Value]:
    """[batch, heads, steps, size] each, of [batch, steps, heads, count, size]."""
    batch, steps, heads, _, size = x.type.shape
    shape = (batch, steps, heads, size)
    parts = (ctx.reshape(p, shape) for p in apart(ctx, x, (1,) * count, 3))
    return [permuted(ctx, p, (0, 2, 1, 3)) for p in parts]


def operands_of(
    ctx: Context, node: Node, q: Value, k: Value | None, v: Value | None, bias: Value | None
) -> list[Value]:
    """Queries, keys and values, however they are given, with heads apart and their bias."""
    if q.type.rank == 5:
        given = _packed(ctx, q, 3)
    elif k is not None and k.type.rank == 5:
        given = [heads_of(ctx, q, count_of_heads(ctx, node)), *_packed(ctx, k, 2)]
    elif k is None or v is None:
        raise ctx.wrong("its keys or its values are missing")
    else:
        given = [q, k, v]
    heads = count_of_heads(ctx, node)
    if bias is None:
        return [heads_of(ctx, x, heads) for x in given]
    if q.type.rank != 3 or (k is not None and k.type.rank == 5):
        raise ctx.unsupported("a bias of packed heads", "add it to them before")
    flat = [x if x.type.rank == 3 else together(ctx, x) for x in given]
    widths = [x.type.shape[2] for x in flat]
    parts = zip(given, apart(ctx, bias, widths, 0), strict=True)
    # what lies apart already are keys and values of before, which have their bias
    return [x if x.type.rank == 4 else heads_of(ctx, add(ctx, x, b), heads) for x, b in parts]


@operator(
    f"{DOMAIN}.MultiHeadAttention", attributes="mask_filter_value num_heads scale unidirectional"
)
def multi_head_attention(
    ctx: Context,
    node: Node,
    q: Value,
    k: Value | None = None,
    v: Value | None = None,
    bias: Value | None = None,
    mask: Value | None = None,
    attention_bias: Value | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    past_sequence_length: Value | None = None,
    cache_indirection: Value | None = None,
) -> tuple[Value, ...]:
    """Attention of queries, keys and values, which may come from elsewhere."""
    require_absent(
        ctx, past_sequence_length=past_sequence_length, cache_indirection=cache_indirection
    )
    q, k, v = operands_of(ctx, node, q, k, v, bias)
    k, v = with_past(ctx, (past_key, past_value), (k, v))
    before = 0 if past_key is None else past_key.type.shape[2]
    out, scores = attended(ctx, node, (q, k, v), mask, attention_bias, before)
    return together(ctx, out), k, v, scores


def rotated(ctx: Context, x: Value, tables: Pair, positions: Value | None, pairs: bool) -> Value:
    """Heads, each turned by the angles of its steps' positions."""
    return turned_heads(ctx, x, tables, positions, 2 * tables[0].type.shape[-1], pairs)


@operator(
    f"{DOMAIN}.RotaryEmbedding",
    attributes="interleaved is_packed_batching num_heads rotary_embedding_dim scale",
)
def rotary_embedding(
    ctx: Context, node: Node, x: Value, positions: Value, cosines: Value, sines: Value
) -> Value:
    """Pairs of elements of each head turned by the angle of their position."""
    require_absent(ctx, packed_batching=flag(node, "is_packed_batching"))
    heads = node.integer("num_heads", 0)
    flat = x.type.rank == 3
    if flat and not heads:
        batch, steps, width = x.type.shape
        size = 2 * cosines.type.shape[1]
        shape = (batch, steps, ctx.quotient(width, size, "elements of heads"), size)
        inner = permuted(ctx, ctx.reshape(x, shape), (0, 2, 1, 3))
    else:
        inner = heads_of(ctx, x, heads)
    if positions.type.rank == 1:
        # the position of the first step
        line = _numbers(ctx, (1, inner.type.shape[2]))
        first = ctx.reshape(ctx.cast(positions, I64), ())
        positions = ctx.emit(graph.Add, line, first)
    pairs = flag(node, "interleaved")
    out = rotated(ctx, inner, (cosines, sines), positions, pairs)
    return together(ctx, out) if flat else out
