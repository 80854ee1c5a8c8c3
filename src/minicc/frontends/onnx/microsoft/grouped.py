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
from minicc.frontends.onnx.ops.quantize import rounded
from minicc.frontends.onnx.ops.widen import wide_of
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.affine import Dim, maximum
from minicc.ir.affine_facts import at_least
from minicc.ir.core import Literal, Value
from minicc.ir.types import BOOL, F32, I8, I32, I64, U8, DType

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


def _lengths(
    ctx: Context,
    q: Value,
    past: Value | None,
    less_one: Value,
    total: Value,
    new: Value | None,
) -> _Lengths:
    batch, _, steps, _ = q.type.shape
    one = ctx.scalar(1, I64)
    rows = ctx.reshape(ctx.cast(less_one, I64), (batch,))
    whole = ctx.emit(graph.Add, rows, one)
    if new is None:
        before = _before(ctx, whole, total, steps)
    else:
        before = ctx.emit(graph.Sub, whole, ctx.reshape(ctx.cast(new, I64), (batch,)))
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
    moved = _rows_at(ctx, new, ctx.reshape(index, (batch, lengths.seen, 1)))
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


def _rows_at(ctx: Context, x: Value, index: Value) -> Value:
    """Rows of each sentence, [batch, heads, rows, size], at places of its own, [batch, n, 1]."""
    rows = permuted(ctx, x, (0, 2, 1, 3))
    return permuted(ctx, ctx.emit(graph.GatherND, rows, index, batch=1), (0, 2, 1, 3))


@dataclass(frozen=True, slots=True)
class _Window:
    """A cache of the last keys alone, whose rows move down when older ones leave it.

    Attention sees the rows that were kept before, and the new keys after them.
    """

    lengths: _Lengths  # by places among all keys of a sentence
    staged: _Lengths  # by places among the kept and the new
    count: Value  # of the keys that are kept afterwards
    room: Dim

    def of_bias(self, ctx: Context, bias: Value) -> Value:
        """A bias of the places among all keys, as one of those that attention sees."""
        (batch,) = self.count.type.shape
        seen = self.staged.seen
        rows = ctx.emit(graph.Broadcast, bias, shape=(batch, *bias.type.shape[1:]))
        gone = ctx.emit(graph.Sub, self.lengths.before, self.staged.before)
        place = ctx.emit(graph.Iota, shape=(1, seen), axis=1, dtype=I64)
        place = ctx.emit(graph.Add, place, ctx.reshape(gone, (batch, 1)))
        last = ctx.extent(bias.type.shape[3] - 1, I64)
        index = ctx.reshape(ctx.emit(graph.Min, place, last), (batch, seen, 1))
        rows = permuted(ctx, rows, (0, 3, 1, 2))
        return permuted(ctx, ctx.emit(graph.GatherND, rows, index, batch=1), (0, 2, 3, 1))

    def kept(self, ctx: Context, rows: Value) -> Value:
        """The cache that results: zeros where nothing is kept."""
        (batch,) = self.count.type.shape
        gone = ctx.emit(graph.Sub, self.lengths.whole, self.count)
        earlier = ctx.emit(graph.Sub, self.lengths.before, self.staged.before)
        first = ctx.reshape(ctx.emit(graph.Sub, gone, earlier), (batch, 1))
        place = ctx.emit(graph.Iota, shape=(1, self.room), axis=1, dtype=I64)
        last = ctx.extent(self.staged.seen - 1, I64)
        index = ctx.emit(graph.Min, ctx.emit(graph.Add, place, first), last)
        moved = _rows_at(ctx, rows, ctx.reshape(index, (batch, self.room, 1)))
        there = ctx.emit(graph.Lt, place, ctx.reshape(self.count, (batch, 1)))
        there = ctx.reshape(there, (batch, 1, self.room, 1))
        return ctx.emit(graph.Select, there, moved, ctx.scalar(0, rows))


def _window(ctx: Context, node: Node, past: Value | None, lengths: _Lengths) -> _Window | None:
    """The window of a cache that has no room for more, if the node says that it is such."""
    if not flag(node, "sliding_window_cache"):
        return None
    size = node.integer("local_window_size", -1)
    if past is None or size < 1:
        raise ctx.wrong("a cache of a window needs its old keys, and a window of 1 or more")
    room: Dim = past.type.shape[2]
    if isinstance(room, int) and room < size:
        raise ctx.wrong(f"a cache of {room} keys holds no window of {size}")
    before = _resident(ctx, lengths.before, room, size)
    new = ctx.emit(graph.Sub, lengths.whole, lengths.before)
    seen = room + lengths.steps
    staged = _Lengths(ctx.emit(graph.Add, before, new), before, lengths.steps, seen, seen)
    return _Window(lengths, staged, _resident(ctx, lengths.whole, room, size), room)


def _resident(ctx: Context, count: Value, room: Dim, window: int) -> Value:
    """How many of a sentence's keys its cache keeps: [batch].

    When they outgrow it, all leave that the window does not need, so that none leave for a while.
    """
    spare = ctx.emit(graph.Max, ctx.extent(room - (window - 1), I64), ctx.scalar(1, I64))
    over = ctx.emit(graph.Sub, count, ctx.extent(room, I64))
    over = ctx.emit(graph.Max, over, ctx.scalar(0, I64))
    upward = ctx.emit(graph.Sub, ctx.emit(graph.Add, over, spare), ctx.scalar(1, I64))
    groups = ctx.emit(graph.FloorDiv, upward, spare)
    return ctx.emit(graph.Sub, count, ctx.emit(graph.Mul, groups, spare))


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


def _require_scales(
    ctx: Context, node: Node, past: Value | None, k_scale: Value | None, v_scale: Value | None
) -> None:
    """A quantised cache has scales of both, and a cache of other elements none."""
    bits = None if past is None else {I8: 8, U8: 4}.get(past.type.dtype)
    if bits is None:
        require_absent(ctx, scales_of_a_cache=k_scale or v_scale)
    elif k_scale is None or v_scale is None:
        raise ctx.wrong("the scales of its quantised cache are missing")
    elif node.integer("kv_cache_bit_width", 0) != bits:
        raise ctx.wrong(f"attribute kv_cache_bit_width is not {bits}, as its cache is")


def _stored(ctx: Context, node: Node, x: Value, scale: Value | None) -> Value:
    """New keys or values as the cache has them: of 4 bits, two in a byte, the even one lower."""
    if scale is None:
        return x
    levels = ctx.emit(graph.Div, wide_of(ctx, x), _by_channel(ctx, scale))
    if node.integer("kv_cache_bit_width", 0) == 8:
        return rounded(ctx, levels, None, I8)
    least, most = ctx.scalar(-8, levels), ctx.scalar(7, levels)
    levels = ctx.emit(graph.Max, ctx.emit(graph.Round, levels), least)
    whole = ctx.cast(ctx.emit(graph.Min, levels, most), I32)
    whole = ctx.emit(graph.Add, whole, ctx.scalar(8, I32))
    size = whole.type.shape[3]
    low, high = (cut(ctx, whole, {3: (first, size, 2)}) for first in (0, 1))
    high = ctx.emit(graph.Mul, high, ctx.scalar(16, I32))
    return ctx.cast(ctx.emit(graph.Add, low, high), U8)


def _read(ctx: Context, node: Node, x: Value, scale: Value | None, element: DType) -> Value:
    """The keys or values that a cache stands for."""
    if scale is None:
        return x
    levels = ctx.cast(x, I32)
    if node.integer("kv_cache_bit_width", 0) == 4:
        *outer, half = levels.type.shape
        sixteen, eight = ctx.scalar(16, I32), ctx.scalar(8, I32)
        high = ctx.emit(graph.FloorDiv, levels, sixteen)
        low = ctx.emit(graph.Sub, levels, ctx.emit(graph.Mul, high, sixteen))
        parts = [ctx.reshape(part, (*outer, half, 1)) for part in (low, high)]
        levels = ctx.reshape(ctx.emit(graph.Concat, parts, axis=4), (*outer, 2 * half))
        levels = ctx.emit(graph.Sub, levels, eight)
    wide = ctx.cast(levels, F32)
    return ctx.cast(ctx.emit(graph.Mul, wide, _by_channel(ctx, scale)), element)


def _by_channel(ctx: Context, scale: Value) -> Value:
    """A scale of all, or of each channel of each head, beside [batch, heads, keys, size]."""
    scale = ctx.cast(scale, F32)
    return ctx.reshape(scale, ()) if scale.type.rank < 2 else scale


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
    new: Value | None = None,
) -> tuple[Value, ...]:
    """Causal attention to the keys of a cache and new ones, and the caches with these."""
    _require_scales(ctx, node, past_key, k_scale, v_scale)
    q, k, v = _operands(ctx, node, query, key, value)
    q, k = _normalised(ctx, node, q, q_norm), _normalised(ctx, node, k, k_norm)
    lengths = _lengths(ctx, q, past_key, less_one, total, new)
    if flag(node, "do_rotary"):
        if cosines is None or sines is None:
            raise ctx.wrong("its cosines or sines are missing")
        at = _positions(ctx, lengths) if positions is None else positions
        pairs = flag(node, "rotary_interleaved")
        q, k = (rotated(ctx, x, (cosines, sines), at, pairs) for x in (q, k))
    window = _window(ctx, node, past_key, lengths)
    seen = window.staged if window else lengths
    element = q.type.dtype
    k, v = _stored(ctx, node, k, k_scale), _stored(ctx, node, v, v_scale)
    k, v = _cached(ctx, past_key, k, seen), _cached(ctx, past_value, v, seen)
    keys, values = _read(ctx, node, k, k_scale, element), _read(ctx, node, v, v_scale, element)
    scores = _bent(ctx, node, wide_of(ctx, scores_of(ctx, node, q, keys)))
    if bias is not None:
        bias = window.of_bias(ctx, bias) if window else _of_cache(ctx, bias, lengths)
        scores = add(ctx, scores, ctx.cast(bias, scores.type.dtype))
    allowed = _allowed(ctx, node, seen, k.type.shape[2])
    likely = _likely(ctx, node, scores, allowed, sink)
    out = together(ctx, weighted(ctx, ctx.cast(likely, element), values))
    if window:
        k, v = window.kept(ctx, k), window.kept(ctx, v)
    return out, k, v, ctx.cast(_shown(ctx, node, seen, scores, allowed, likely), element)


def _bent(ctx: Context, node: Node, scores: Value) -> Value:
    """Scores that stay below a cap, if there is one."""
    cap = node.number("softcap", 0.0)
    if cap <= 0:
        return scores
    bent = ctx.emit(graph.Tanh, ctx.emit(graph.Div, scores, ctx.scalar(cap, scores)))
    return ctx.emit(graph.Mul, bent, ctx.scalar(cap, scores))


def _shown(
    ctx: Context, node: Node, seen: _Lengths, scores: Value, allowed: Value, likely: Value
) -> Value:
    """The scores or their soft-max, of the keys that there are, as a result."""
    shown = node.integer("qk_output", 0)
    if shown not in (0, 1, 2):
        raise ctx.wrong(f"attribute qk_output is {shown}")
    if shown and flag(node, "sliding_window_cache"):
        hint = "leave out the scores as a result"
        raise ctx.unsupported("its scores to keys of a cache of a window", hint)
    if shown == 1:
        likely = ctx.emit(graph.Select, allowed, scores, ctx.scalar(0, scores))
    return cut(ctx, likely, {3: (0, seen.total, 1)})


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
