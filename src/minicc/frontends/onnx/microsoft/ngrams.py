"""Hashes of the last few tokens before each, for tables of embeddings of n-grams.

A token's neighbours are those before it in its own sequence, then the ones that the caller kept of
an earlier call, then a token that pads. What lies before an end of text, or in another segment, is
that token too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.microsoft.common import DOMAIN, flag, standard
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.movement import cut
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.core import Value
from minicc.ir.types import I64

_ATTRIBUTES = "max_ngram_size n_head_per_ngram pad_id reset_on_eos"


class _Tables(NamedTuple):
    """What hashes are made with: factors of the neighbours, and sizes and starts of the tables."""

    factors: Value
    sizes: Value
    offsets: Value | None
    end: Value | None


def _missing(ctx: Context, node: Node, end: Value | None, ids: Value) -> Value:
    """The token that stands for what is not there."""
    return ctx.scalar(node.integer("pad_id", 0), ids) if end is None else ctx.reshape(end, ())


def _hashes(
    ctx: Context,
    node: Node,
    tables: _Tables,
    neighbour: Callable[[int], Value],
    parted: Callable[[int], Value | None],
) -> Value:
    """The hashes of tokens, of which `neighbour` is the one so far before each.

    `parted` says where a segment begins after that one, up to the next.
    """
    count, heads = node.integer("max_ngram_size", 0), node.integer("n_head_per_ngram", 0)
    if count < 2 or heads < 1:
        raise ctx.wrong(f"n-grams of up to {count} tokens with {heads} heads each")
    own = neighbour(0)
    none = _missing(ctx, node, tables.end, own)

    def times(x: Value, k: int) -> Value:
        factor = cut(ctx, tables.factors, {0: (k, k + 1, 1)})
        return ctx.emit(graph.Mul, x, ctx.reshape(factor, ()))

    mixed, away, out = times(own, 0), None, []
    for k in range(1, count):
        found = neighbour(k)
        ends = tables.end if flag(node, "reset_on_eos") else None
        flags = (away, parted(k), None if ends is None else ctx.emit(graph.Eq, found, none))
        for one in filter(None, flags):
            away = one if away is None or one is away else ctx.emit(graph.Or, away, one)
        seen = found if away is None else ctx.emit(graph.Select, away, none, found)
        mixed = standard(ctx, node, "BitwiseXor", mixed, times(seen, k))
        part = {0: ((k - 1) * heads, k * heads, 1)}
        each = ctx.reshape(mixed, (*mixed.type.shape, 1))
        sizes = cut(ctx, tables.sizes, part)
        hashed = ctx.emit(graph.Mod, each, sizes)
        if tables.offsets is not None:
            hashed = ctx.emit(graph.Add, hashed, cut(ctx, tables.offsets, part))
        out.append(hashed)
    return ctx.emit(graph.Concat, tuple(out), axis=own.type.rank)


@operator(f"{DOMAIN}.NGramHashMapping", attributes=_ATTRIBUTES)
def ngram_hashes(
    ctx: Context,
    node: Node,
    ids: Value,
    factors: Value,
    sizes: Value,
    past: Value | None = None,
    offsets: Value | None = None,
    end: Value | None = None,
    segments: Value | None = None,
) -> tuple[Value, ...]:
    """The hashes of [batch, steps] tokens, and the last tokens for the next call."""
    room = node.integer("max_ngram_size", 0) - 1
    batch, steps = ids.type.shape
    if past is None:
        none = _missing(ctx, node, end, ids)
        past = ctx.emit(graph.Broadcast, none, shape=(batch, room))
    whole = ctx.emit(graph.Concat, (past, ids), axis=1)

    def parted(k: int) -> Value | None:
        if segments is None:
            return None
        line = ctx.emit(graph.Iota, shape=(steps,), axis=0, dtype=I64)
        zero = ctx.scalar(0, I64)

        def at(distance: int) -> Value:
            back = ctx.emit(graph.Sub, line, ctx.scalar(distance, I64))
            return ctx.emit(graph.Gather, segments, ctx.emit(graph.Max, back, zero), axis=1)

        return ctx.emit(graph.Ne, at(k - 1), at(k))

    def neighbour(k: int) -> Value:
        return cut(ctx, whole, {1: (room - k, room - k + steps, 1)})

    hashed = _hashes(ctx, node, _Tables(factors, sizes, offsets, end), neighbour, parted)
    return hashed, cut(ctx, whole, {1: (steps, steps + room, 1)})


class _At(NamedTuple):
    """Places of tokens of several requests: where each lies, its request, and where that begins."""

    place: Value
    first: Value
    request: Value


def _back(ctx: Context, tensor: Value, old: Value | None, none: Value, at: _At) -> Value:
    """What stands at places that may lie before the first of their requests."""
    zero = ctx.scalar(0, I64)
    inside = ctx.emit(graph.Gather, tensor, ctx.emit(graph.Max, at.place, zero), axis=0)
    if old is not None:
        requests, room = old.type.shape
        before = ctx.emit(graph.Add, ctx.emit(graph.Sub, at.place, at.first), ctx.extent(room, I64))
        limit = ctx.extent(room - 1, I64)
        before = ctx.emit(graph.Min, ctx.emit(graph.Max, before, zero), limit)
        row = ctx.emit(graph.Mul, at.request, ctx.extent(room, I64))
        flat = ctx.reshape(old, (requests * room,))
        none = ctx.emit(graph.Gather, flat, ctx.emit(graph.Add, row, before), axis=0)
    return ctx.emit(graph.Select, ctx.emit(graph.Le, at.first, at.place), inside, none)


@operator(f"{DOMAIN}.VarlenNGramHashMapping", attributes=f"{_ATTRIBUTES} state_update_capacity")
def packed_ngram_hashes(
    ctx: Context,
    node: Node,
    ids: Value,
    factors: Value,
    sizes: Value,
    starts: Value,
    past: Value | None = None,
    offsets: Value | None = None,
    end: Value | None = None,
    segments: Value | None = None,
    past_segments: Value | None = None,
    captured: Value | None = None,
) -> tuple[Value, ...]:
    """The hashes of tokens of several requests, one after the other."""
    if captured is not None or node.integer("state_update_capacity", 0):
        raise ctx.unsupported("states after each token", "leave out capture_count")
    room = node.integer("max_ngram_size", 0) - 1
    (count,), (bounds,) = ids.type.shape, starts.type.shape
    firsts = ctx.cast(starts, I64)
    places = ctx.emit(graph.Iota, shape=(count,), axis=0, dtype=I64)
    begun = ctx.emit(graph.Le, ctx.reshape(cut(ctx, firsts, {0: (1, bounds, 1)}), (1, bounds - 1)),
                     ctx.reshape(places, (count, 1)))  # fmt: skip
    owner = ctx.emit(graph.Reduce, ctx.cast(begun, I64), axes=(1,), combine="add")
    start = ctx.emit(graph.Gather, firsts, owner, axis=0)

    missing = _missing(ctx, node, end, ids)

    def distant(k: int) -> _At:
        return _At(ctx.emit(graph.Sub, places, ctx.scalar(k, I64)), start, owner)

    def neighbour(k: int) -> Value:
        return _back(ctx, ids, past, missing, distant(k))

    def parted(k: int) -> Value | None:
        if segments is None:
            return None
        own = ctx.emit(graph.Gather, segments, start, axis=0)
        one, other = (_back(ctx, segments, past_segments, own, distant(n))
                      for n in (k - 1, k))  # fmt: skip
        return ctx.emit(graph.Ne, one, other)

    hashed = _hashes(ctx, node, _Tables(factors, sizes, offsets, end), neighbour, parted)
    requests = ctx.emit(graph.Iota, shape=(bounds - 1, 1), axis=0, dtype=I64)
    line = ctx.emit(graph.Iota, shape=(1, room), axis=1, dtype=I64)
    first, last = (ctx.reshape(cut(ctx, firsts, {0: (n, bounds - 1 + n, 1)}), (bounds - 1, 1))
                   for n in (0, 1))  # fmt: skip
    ends = ctx.emit(graph.Add, ctx.emit(graph.Sub, last, ctx.scalar(room, I64)), line)
    newest = _At(ends, first, requests)
    made = [hashed, _back(ctx, ids, past, missing, newest)]
    if segments is not None:
        own = ctx.emit(graph.Gather, segments, first, axis=0)
        made.append(_back(ctx, segments, past_segments, own, newest))
    return tuple(made)
