"""Attention of decoders: heads that share keys, and a cache of the keys seen before.

Sentences of a batch may differ in length: the new keys of each come after its own old ones, and
what lies beyond is 0. How many there are is known when the model runs; the cache's extent is a
dimension.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.microsoft.attention import (
    apart,
    count_of_heads,
    require_absent,
    rotated,
    together,
)
from minicc.frontends.onnx.microsoft.common import DOMAIN, add, flag, permuted
from minicc.frontends.onnx.microsoft.normalize import root_mean_square
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.attention import heads_of, scores_of, weighted
from minicc.frontends.onnx.ops.movement import cut
from minicc.frontends.onnx.ops.widen import wide_of
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.affine import Dim, maximum
from minicc.ir.affine_facts import at_least
from minicc.ir.core import Literal, Value
from minicc.ir.types import BOOL, I32, I64

_ATTRIBUTES = "causal do_rotary k_quant_type kv_cache_bit_width kv_num_heads local_window_size "
_ATTRIBUTES += "num_heads qk_norm_epsilon qk_output rotary_interleaved scale sliding_window_cache "
_ATTRIBUTES += "smooth_softmax softcap v_quant_type"


@dataclass(frozen=True, slots=True)
class _Lengths:
    """How many keys each sentence has in all, and had before: [batch] each, as i64."""

    whole: Value
    before: Value
    steps: Dim  # of the queries
    seen: Dim  # of the cache that results
    total: Dim  # of the longest sentence: what lies beyond it in the cache is nobody's


def _lengths(ctx: Context, q: Value, past: Value | None, less_one: Value, total: Value) -> _Lengths:
    batch, _, steps, _ = q.type.shape
    one = ctx.scalar(1, I64)
    rows = ctx.reshape(ctx.cast(less_one, I64), (batch,))
    whole = ctx.emit(graph.Add, rows, one)
    before = _before(ctx, whole, total, steps)
    if past is None:
        # nothing was before: all keys are new
        return _Lengths(whole, before, steps, steps, steps)
    (extent,) = ctx.dims(total, "total sequence length")
    room: Dim = past.type.shape[2]
    return _Lengths(whole, before, steps, extent if room == 0 else _larger(extent, room), extent)


def _before(ctx: Context, whole: Value, total: Value, steps: Dim) -> Value:
    """How many of its keys each sentence had before these steps."""
    # where all is new, sentences begin at the first step and end in padding
    first = ctx.emit(graph.Eq, ctx.reshape(ctx.cast(total, I64), ()), ctx.extent(steps, I64))
    old = ctx.emit(graph.Sub, whole, ctx.extent(steps, I64))
    return ctx.emit(graph.Select, first, ctx.scalar(0, I64), old)


def _larger(a: Dim, b: Dim) -> Dim:
    return a if at_least(a - b, 0) else b if at_least(b - a, 0) else maximum(a, b)


def _cached(
    ctx: Context, past: Value | None, new: Value, lengths: _Lengths, rest: Value | None = None
) -> Value:
    """The old keys of each sentence, then the new ones, then zeros or the rest of a cache."""
    if past is None:
        return new
    batch, heads, room, size = past.type.shape
    wanted = (batch, heads, lengths.seen, size)
    rest = ctx.scalar(0, new) if rest is None else rest
    place = ctx.emit(graph.Iota, shape=(1, lengths.seen), axis=1, dtype=I64)
    at = ctx.emit(graph.Sub, place, ctx.reshape(lengths.before, (batch, 1)))
    last = ctx.extent(lengths.steps - 1, I64)
    index = ctx.emit(graph.Max, ctx.emit(graph.Min, at, last), ctx.scalar(0, I64))
    rows = permuted(ctx, new, (0, 2, 1, 3))
    index = ctx.reshape(index, (batch, lengths.seen, 1))
    moved = permuted(ctx, ctx.emit(graph.GatherND, rows, index, batch=1), (0, 2, 1, 3))
    at = ctx.reshape(at, (batch, 1, lengths.seen, 1))
    after = ctx.emit(graph.Le, at, last)
    out = ctx.emit(graph.Select, after, ctx.reshape(moved, wanted), rest)
    if room == 0:
        return out
    old = past
    if lengths.seen != room:
        literal = Literal(np.zeros((), past.type.dtype.numpy))
        high = (0, 0, lengths.seen - room, 0)
        old = ctx.emit(graph.Pad, past, low=(0, 0, 0, 0), high=high, value=literal)
    return ctx.emit(graph.Select, ctx.emit(graph.Lt, at, ctx.scalar(0, I64)), old, out)


def _of_cache(ctx: Context, bias: Value, lengths: _Lengths) -> Value:
    """A bias of those keys that there are, with 0 for what lies beyond them in the cache."""
    if lengths.seen == lengths.total:
        return bias
    bias = ctx.taken_as(bias, (*bias.type.shape[:3], lengths.total))
    literal = Literal(np.zeros((), bias.type.dtype.numpy))
    high = (0, 0, 0, lengths.seen - lengths.total)
    return ctx.emit(graph.Pad, bias, low=(0, 0, 0, 0), high=high, value=literal)


def _positions(ctx: Context, lengths: _Lengths) -> Value:
    """The place of each query among its sentence's keys: [batch, steps]."""
    (batch,) = lengths.before.type.shape
    row = ctx.emit(graph.Iota, shape=(1, lengths.steps), axis=1, dtype=I64)
    return ctx.emit(graph.Add, ctx.reshape(lengths.before, (batch, 1)), row)


def _allowed(ctx: Context, node: Node, lengths: _Lengths, seen: Dim) -> Value:
    """Which keys each query sees: [batch, 1, steps, keys]."""
    (batch,) = lengths.before.type.shape
    end = ctx.reshape(lengths.whole, (batch, 1, 1, 1))
    key = ctx.emit(graph.Iota, shape=(1, 1, 1, seen), axis=3, dtype=I64)
    allowed = ctx.emit(graph.Lt, key, end)
    if not flag(node, "causal", 1):
        return allowed
    place = ctx.reshape(_positions(ctx, lengths), (batch, 1, lengths.steps, 1))
    allowed = ctx.emit(graph.And, allowed, ctx.emit(graph.Le, key, place))
    window = node.integer("local_window_size", -1)
    if window < 0:
        return allowed
    outside = ctx.emit(graph.Sub, place, ctx.scalar(window, I64))
    return ctx.emit(graph.And, allowed, ctx.emit(graph.Lt, outside, key))


def _likely(ctx: Context, node: Node, scores: Value, allowed: Value, sink: Value | None) -> Value:
    """The soft-max of what a query sees, with a score that belongs to no key if asked for."""
    never = ctx.scalar(-np.inf, scores)
    seen = ctx.emit(graph.Select, allowed, scores, never)
    best = ctx.emit(graph.Reduce, seen, axes=(3,), combine="max", keepdims=True)
    extra: Value | None = None
    if sink is not None:
        extra = ctx.reshape(ctx.cast(sink, scores.type.dtype), (1, *sink.type.shape, 1, 1))
    elif node.integer("smooth_softmax", -1) > 0:
        extra = ctx.scalar(0, scores)
    if extra is not None:
        best = ctx.emit(graph.Max, best, extra)
    # a step in the padding may see no key at all, and gets 0: any other total is at least 1
    best = ctx.emit(graph.Max, best, ctx.scalar(float(np.finfo(np.float32).min), scores))
    power = ctx.emit(graph.Exp, ctx.emit(graph.Sub, seen, best))
    total = ctx.emit(graph.Reduce, power, axes=(3,), combine="add", keepdims=True)
    if extra is not None:
        total = add(ctx, total, ctx.emit(graph.Exp, ctx.emit(graph.Sub, extra, best)))
    return ctx.emit(graph.Div, power, ctx.emit(graph.Max, total, ctx.scalar(1, scores)))


def _normalised(ctx: Context, node: Node, x: Value, weight: Value | None) -> Value:
    """Heads divided by the root of their mean square, if there are weights for that."""
    if weight is None:
        return x
    epsilon = node.number("qk_norm_epsilon", 1e-6)
    out, _ = root_mean_square(ctx, wide_of(ctx, x), (3,), epsilon)
    out = ctx.emit(graph.Mul, out, ctx.cast(weight, out.type.dtype))
    return ctx.cast(out, x.type.dtype)


def _operands(
    ctx: Context, node: Node, q: Value, k: Value | None, v: Value | None
) -> tuple[Value, Value, Value]:
    """Queries, keys and values with their heads apart, of one tensor or of three."""
    heads, shared = (count_of_heads(ctx, node, f"{kind}num_heads") for kind in ("", "kv_"))
    if (k is None) != (v is None):
        raise ctx.wrong("its keys or its values are missing")
    if k is None or v is None:
        size = ctx.quotient(q.type.shape[-1], heads + 2 * shared, "elements of heads")
        q, k, v = apart(ctx, q, (heads * size, shared * size, shared * size), 2)
    return heads_of(ctx, q, heads), heads_of(ctx, k, shared), heads_of(ctx, v, shared)


@operator(f"{DOMAIN}.GroupQueryAttention", attributes=_ATTRIBUTES)
def group_query_attention(
    ctx: Context,
    node: Node,
    query: Value,
    key: Value | None,
    value: Value | None,
    past_key: Value | None,
    past_value: Value | None,
    less_one: Value,
    total: Value,
    cosines: Value | None = None,
    sines: Value | None = None,
    positions: Value | None = None,
    bias: Value | None = None,
    sink: Value | None = None,
    k_scale: Value | None = None,
    v_scale: Value | None = None,
    q_norm: Value | None = None,
    k_norm: Value | None = None,
) -> tuple[Value, ...]:
    """Causal attention to the keys of a cache and new ones, and the caches with these."""
    require_absent(
        ctx,
        quantised_cache=k_scale or v_scale,
        sliding_window_cache=flag(node, "sliding_window_cache"),
    )
    q, k, v = _operands(ctx, node, query, key, value)
    q, k = _normalised(ctx, node, q, q_norm), _normalised(ctx, node, k, k_norm)
    lengths = _lengths(ctx, q, past_key, less_one, total)
    if flag(node, "do_rotary"):
        if cosines is None or sines is None:
            raise ctx.wrong("its cosines or sines are missing")
        at = _positions(ctx, lengths) if positions is None else positions
        pairs = flag(node, "rotary_interleaved")
        q, k = (rotated(ctx, x, (cosines, sines), at, pairs) for x in (q, k))
    k, v = _cached(ctx, past_key, k, lengths), _cached(ctx, past_value, v, lengths)
    scores = wide_of(ctx, scores_of(ctx, node, q, k))
    cap = node.number("softcap", 0.0)
    if cap > 0:
        bent = ctx.emit(graph.Tanh, ctx.emit(graph.Div, scores, ctx.scalar(cap, scores)))
        scores = ctx.emit(graph.Mul, bent, ctx.scalar(cap, scores))
    if bias is not None:
        scores = add(ctx, scores, ctx.cast(_of_cache(ctx, bias, lengths), scores.type.dtype))
    allowed = _allowed(ctx, node, lengths, k.type.shape[2])
    likely = _likely(ctx, node, scores, allowed, sink)
    element = q.type.dtype
    out = together(ctx, weighted(ctx, ctx.cast(likely, element), v))
    shown = node.integer("qk_output", 0)
    if shown not in (0, 1, 2):
        raise ctx.wrong(f"attribute qk_output is {shown}")
    if shown == 1:
        likely = ctx.emit(graph.Select, allowed, scores, ctx.scalar(0, scores))
    shown_keys = cut(ctx, likely, {3: (0, lengths.total, 1)})
    return out, k, v, ctx.cast(shown_keys, element)


_SPARSE = "do_rotary kv_num_heads num_heads rotary_interleaved scale sparse_block_size"


@operator(f"{DOMAIN}.SparseAttention", attributes=_SPARSE)
def sparse_attention(
    ctx: Context,
    node: Node,
    query: Value,
    key: Value | None,
    value: Value | None,
    past_key: Value,
    past_value: Value,
    rows: Value,
    columns: Value,
    total: Value,
    lengths: Value,
    cosines: Value | None = None,
    sines: Value | None = None,
) -> tuple[Value, ...]:
    """Causal attention to those blocks of a cache's keys that a layout of each head names.

    A layout's blocks are given as the columns of each row, one row after the other.
    """
    q, k, v = _operands(ctx, node, query, key, value)
    whole = ctx.cast(lengths, I64)
    steps, room = q.type.shape[2], past_key.type.shape[2]
    known = _Lengths(whole, _before(ctx, whole, total, steps), steps, room, room)
    place = _positions(ctx, known)
    if flag(node, "do_rotary"):
        if cosines is None or sines is None:
            raise ctx.wrong("its cosines or sines are missing")
        pairs = flag(node, "rotary_interleaved")
        q, k = (rotated(ctx, x, (cosines, sines), place, pairs) for x in (q, k))
    k = _cached(ctx, past_key, k, known, past_key)
    v = _cached(ctx, past_value, v, known, past_value)
    scores = wide_of(ctx, scores_of(ctx, node, q, k))
    blocks = _blocks(ctx, node, rows, columns, place, known)
    shown = ctx.emit(graph.And, _allowed(ctx, node, known, known.seen), blocks)
    likely = _likely(ctx, node, scores, shown, None)
    out = weighted(ctx, ctx.cast(likely, q.type.dtype), v)
    return together(ctx, out), k, v


def _blocks(
    ctx: Context, node: Node, rows: Value, columns: Value, place: Value, lengths: _Lengths
) -> Value:
    """Which keys lie in a block that a query's row names: [batch, heads, steps, keys]."""
    size = node.integer("sparse_block_size", 0)
    heads = node.integer("num_heads", 0)
    layouts = rows.type.shape[0]
    count, most = rows.type.shape[1] - 1, columns.type.shape[1]
    if size < 1 or heads < 1:
        raise ctx.wrong(f"blocks of {size} in layouts of {heads} heads")
    ctx.quotient(heads, layouts, "heads")
    number = ctx.emit(graph.Iota, shape=(1, 1, most, 1), axis=2, dtype=I32)
    first = ctx.reshape(cut(ctx, rows, {1: (0, count, 1)}), (layouts, count, 1, 1))
    end = ctx.reshape(cut(ctx, rows, {1: (1, count + 1, 1)}), (layouts, count, 1, 1))
    column = ctx.emit(graph.Iota, shape=(1, 1, 1, count), axis=3, dtype=I32)
    named = ctx.emit(graph.Eq, ctx.reshape(columns, (layouts, 1, most, 1)), column)
    for held in (ctx.emit(graph.Le, first, number), ctx.emit(graph.Lt, number, end)):
        named = ctx.emit(graph.And, named, held)
    some = ctx.emit(graph.Reduce, ctx.cast(named, I32), axes=(2,), combine="max")
    layout = ctx.emit(graph.Mod, ctx.constant(np.arange(heads)), ctx.extent(layouts, I64))
    row = ctx.emit(graph.FloorDiv, place, ctx.scalar(size, I64))
    keys = ctx.emit(graph.Iota, shape=(lengths.seen,), axis=0, dtype=I64)
    block = ctx.emit(graph.FloorDiv, keys, ctx.scalar(size, I64))
    of_heads = ctx.emit(graph.Gather, some, layout, axis=0)
    of_queries = ctx.emit(graph.Gather, of_heads, row, axis=1)
    found = permuted(ctx, ctx.emit(graph.Gather, of_queries, block, axis=3), (1, 0, 2, 3))
    return ctx.cast(found, BOOL)
