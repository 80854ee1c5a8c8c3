"""Attention: products of queries, keys and values with a soft-max between, and rotary positions.

Heads that share keys are a letter of the contractions of their own; nothing is repeated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.model.tensors import element_type
from minicc.frontends.onnx.ops.movement import cut
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.affine import Dim
from minicc.ir.affine_facts import at_least
from minicc.ir.core import Literal, Value
from minicc.ir.types import BOOL, F64, I64

_ATTRIBUTES = "is_causal kv_num_heads left_window_size q_num_heads qk_matmul_output_mode "
_ATTRIBUTES += "right_window_size scale softcap softmax_precision"


def heads_of(ctx: Context, x: Value, heads: int) -> Value:
    """[batch, heads, steps, size]; of rank 3 the heads lie side by side in the last axis."""
    if x.type.rank == 4:
        return x
    if x.type.rank != 3 or heads < 1:
        raise ctx.refused("Attention wants tensors of rank 4, or 3 with their number of heads")
    batch, steps, size = x.type.shape
    apart = ctx.reshape(x, (batch, steps, heads, size // heads))
    return ctx.emit(graph.Transpose, apart, perm=(0, 2, 1, 3))


Pair = tuple[Value, Value]


def with_past(ctx: Context, past: tuple[Value | None, Value | None], new: Pair) -> Pair:
    """Keys and values seen before, if there are such, and new ones after them.

    Of both there are as many, which lets their extents have one name.
    """
    for one, other in (past, new):
        extents = [v.type.shape[2] for v in (other, one) if v is not None]
        if len(extents) == 2 and not ctx.decides(*extents):
            ctx.demand(
                extents[0], extents[1], f"keys of {extents[1]} steps, values of {extents[0]}"
            )
    k, v = (
        x if old is None else ctx.emit(graph.Concat, (old, x), axis=2)
        for old, x in zip(past, new, strict=True)
    )
    return k, v


@operator("Attention", attributes=_ATTRIBUTES)
def attention(
    ctx: Context,
    node: Node,
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    lengths: Value | None = None,
) -> tuple[Value, ...]:
    """softmax(q k' + mask) v, with the keys and values seen so far and the scores."""
    flat = q.type.rank == 3
    q = heads_of(ctx, q, node.integer("q_num_heads", 0))
    k, v = (heads_of(ctx, x, node.integer("kv_num_heads", 0)) for x in (k, v))
    k, v = with_past(ctx, (past_key, past_value), (k, v))
    before = None if past_key is None else past_key.type.shape[2]
    bias = _bias(ctx, node, q, k, mask, before, lengths)
    scores = scores_of(ctx, node, q, k)
    capped = scores
    cap = node.number("softcap", 0.0)
    if cap > 0:
        bent = ctx.emit(graph.Tanh, ctx.emit(graph.Div, scores, ctx.scalar(cap, scores)))
        capped = ctx.emit(graph.Mul, bent, ctx.scalar(cap, scores))
    biased = capped if bias is None else ctx.emit(graph.Add, capped, bias)
    likely = _likely(ctx, node, biased, bias)
    mode = node.integer("qk_matmul_output_mode", 0)
    if not 0 <= mode <= 3:
        raise ctx.wrong(f"attribute qk_matmul_output_mode is {mode}")
    element = q.type.dtype
    shown = ctx.cast((scores, capped, biased, likely)[mode], element)
    out = weighted(ctx, ctx.cast(likely, element), v)
    if flat:
        batch, heads, steps, size = out.type.shape
        turned = ctx.emit(graph.Transpose, out, perm=(0, 2, 1, 3))
        out = ctx.reshape(turned, (batch, steps, heads * size))
    return out, k, v, shown


def _groups(ctx: Context, x: Value, k: Value) -> tuple[Any, ...]:
    """The batch, the heads of the keys, and how many heads of `x` share one of them."""
    heads, shared = x.type.shape[1], k.type.shape[1]
    return x.type.shape[0], shared, ctx.quotient(heads, shared, "heads of queries")


def scores_of(ctx: Context, node: Node, q: Value, k: Value) -> Value:
    """Queries times keys, each scaled by the root of the factor."""
    size, factor = q.type.shape[3], node.number("scale", 0.0)
    scale = ctx.scalar(float(np.sqrt(factor)), q) if factor else power_of(ctx, size, -0.25, q)
    left, right = ctx.emit(graph.Mul, q, scale), ctx.emit(graph.Mul, k, scale)
    batch, shared, each = _groups(ctx, q, k)
    steps, seen = q.type.shape[2], k.type.shape[2]
    if each == 1:
        return ctx.emit(graph.Contract, left, right, equation="bhqd,bhkd->bhqk")
    left = ctx.reshape(left, (batch, shared, each, steps, size))
    out = ctx.emit(graph.Contract, left, right, equation="bgrqd,bgkd->bgrqk")
    return ctx.reshape(out, (batch, shared * each, steps, seen))


def power_of(ctx: Context, size: Dim, exponent: float, like: Value) -> Value:
    """A size to a power, computed in f64; that of 1 for an extent of 0."""
    if isinstance(size, int):
        return ctx.scalar(float(max(size, 1)) ** exponent, like)
    power = ctx.emit(graph.Pow, ctx.extent(size, F64), ctx.scalar(exponent, F64))
    return ctx.cast(power, like.type.dtype)


def weighted(ctx: Context, likely: Value, v: Value) -> Value:
    """Values, weighted by how likely each is."""
    batch, shared, each = _groups(ctx, likely, v)
    steps, seen = likely.type.shape[2:]
    if each == 1:
        return ctx.emit(graph.Contract, likely, v, equation="bhqk,bhkd->bhqd")
    apart = ctx.reshape(likely, (batch, shared, each, steps, seen))
    out = ctx.emit(graph.Contract, apart, v, equation="bgrqk,bgkd->bgrqd")
    return ctx.reshape(out, (batch, shared * each, steps, v.type.shape[3]))


def _likely(ctx: Context, node: Node, scores: Value, bias: Value | None) -> Value:
    """The soft-max over the last axis; a row without any key is 0."""
    precision = node.integer("softmax_precision", 0)
    if precision:
        scores = ctx.cast(scores, element_type(precision, "softmax_precision", node.name))
    options: dict[str, Any] = {"axes": (3,), "keepdims": True}
    lowest = ctx.scalar(-np.inf, scores)
    best = ctx.emit(graph.Reduce, scores, combine="max", **options)
    none = ctx.emit(graph.Eq, best, lowest)
    best = ctx.emit(graph.Select, none, ctx.scalar(0, scores), best)
    power = ctx.emit(graph.Exp, ctx.emit(graph.Sub, scores, best))
    total = ctx.emit(graph.Reduce, power, combine="add", **options)
    empty = ctx.emit(graph.Eq, total, ctx.scalar(0, scores))
    likely = ctx.emit(graph.Div, power, ctx.emit(graph.Select, empty, ctx.scalar(1, scores), total))
    if bias is None:
        return likely
    options["axes"] = (bias.type.rank - 1,)
    allowed = ctx.emit(graph.Reduce, bias, combine="max", **options)
    masked = ctx.emit(graph.Eq, allowed, ctx.scalar(-np.inf, bias))
    return ctx.emit(graph.Select, masked, ctx.scalar(0, likely), likely)


def _bias(
    ctx: Context,
    node: Node,
    q: Value,
    k: Value,
    mask: Value | None,
    before: Any,
    lengths: Value | None,
) -> Value | None:
    """What is added to the scores: the mask, and -inf where a key may not be seen."""
    steps, seen = q.type.shape[2], k.type.shape[2]
    allowed: list[Value] = []
    if mask is not None:
        mask = _as_long(ctx, mask, seen)
        if mask.type.dtype is BOOL:
            allowed.append(mask)
            mask = None
    last = None
    if lengths is not None:
        column = (*lengths.type.shape, 1, 1, 1)
        last = ctx.reshape(ctx.cast(lengths, I64), column)
    windows = [node.integer(f"{side}_window_size", -1) for side in ("left", "right")]
    if node.integer("is_causal", 0):
        windows[1] = 0 if windows[1] < 0 else min(windows[1], 0)
    row = ctx.emit(graph.Iota, shape=(steps, 1), axis=0, dtype=I64)
    column_ = ctx.emit(graph.Iota, shape=(1, seen), axis=1, dtype=I64)
    place = row
    if before is not None:
        place = ctx.emit(graph.Add, row, ctx.extent(before, I64))
    elif last is not None:
        first = ctx.emit(graph.Sub, last, ctx.extent(steps, I64))
        place = ctx.emit(graph.Add, row, first)
    if windows[0] >= 0:
        oldest = ctx.emit(graph.Sub, place, ctx.scalar(windows[0], I64))
        allowed.append(ctx.emit(graph.Le, oldest, column_))
    if windows[1] >= 0:
        newest = ctx.emit(graph.Add, place, ctx.scalar(windows[1], I64))
        allowed.append(ctx.emit(graph.Le, column_, newest))
    if last is not None:
        allowed.append(ctx.emit(graph.Lt, column_, last))
    if not allowed:
        return mask
    together = allowed[0]
    for other in allowed[1:]:
        together = ctx.emit(graph.And, together, other)
    base = ctx.scalar(0, q) if mask is None else mask
    return ctx.emit(graph.Select, together, base, ctx.scalar(-np.inf, q))


def _as_long(ctx: Context, mask: Value, seen: Dim) -> Value:
    """A mask for all keys; those beyond its end may not be seen.

    One of another symbol's length is as long as the keys: else the sizes don't fit the graph.
    """
    lack = seen - mask.type.shape[-1]
    if lack == 0 or not at_least(lack, 0):
        return mask
    hidden = np.zeros((), bool) if mask.type.dtype is BOOL else np.array(-np.inf)
    rest = (0,) * (mask.type.rank - 1)
    value = Literal(hidden.astype(mask.type.dtype.numpy))
    return ctx.emit(graph.Pad, mask, low=(*rest, 0), high=(*rest, lack), value=value)


@operator("RotaryEmbedding", attributes="interleaved num_heads rotary_embedding_dim")
def rotary_embedding(
    ctx: Context,
    node: Node,
    x: Value,
    cosines: Value,
    sines: Value,
    positions: Value | None = None,
) -> Value:
    """Pairs of elements of each head turned by the angle of their position."""
    shape = x.type.shape
    x = heads_of(ctx, x, node.integer("num_heads", 0))
    turned = node.integer("rotary_embedding_dim", 0) or x.type.shape[3]
    pairs = bool(node.integer("interleaved", 0))
    out = turned_heads(ctx, x, (cosines, sines), positions, turned, pairs)
    if len(shape) == 4:
        return out
    return ctx.reshape(ctx.emit(graph.Transpose, out, perm=(0, 2, 1, 3)), shape)


def turned_heads(
    ctx: Context, x: Value, tables: Pair, positions: Value | None, turned: Dim, pairs: bool
) -> Value:
    """[batch, heads, steps, size] with so many elements of each head turned by angles.

    `tables` are cosines and sines of the angles, of which `positions` name a step's. What is
    turned together are `pairs` of neighbours, or else elements of both halves.
    """
    cosines, sines = tables
    batch, heads, steps, size = x.type.shape
    half = ctx.quotient(turned, 2, "elements that are turned")
    if positions is not None:
        cosines = ctx.emit(graph.Gather, cosines, positions, axis=0)
        sines = ctx.emit(graph.Gather, sines, positions, axis=0)
    # of steps alone, or of the batch too; the heads share them
    column = (cosines.type.shape[0], 1, steps, half)
    cosines, sines = ctx.reshape(cosines, column), ctx.reshape(sines, column)
    if pairs:
        first, second = (cut(ctx, x, {3: (k, k + turned - 1, 2)}) for k in (0, 1))
    else:
        first, second = (cut(ctx, x, {3: (k, k + half, 1)}) for k in (0, half))

    def mixed(a: Value, b: Value, cls: Any) -> Value:
        left = ctx.emit(graph.Mul, cosines, a)
        return ctx.emit(cls, left, ctx.emit(graph.Mul, sines, b))

    parts = [mixed(first, second, graph.Sub), mixed(second, first, graph.Add)]
    if pairs:
        parts = [ctx.reshape(p, (batch, heads, steps, half, 1)) for p in parts]
        whole = ctx.emit(graph.Concat, tuple(parts), axis=4)
        parts = [ctx.reshape(whole, (batch, heads, steps, turned))]
    if turned != size:
        parts.append(cut(ctx, x, {3: (turned, size, 1)}))
    return parts[0] if len(parts) == 1 else ctx.emit(graph.Concat, tuple(parts), axis=3)
