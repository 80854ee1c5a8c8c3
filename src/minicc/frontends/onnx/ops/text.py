"""Operators on texts that are numbers: tokens in place of words.

ONNX Runtime looks n-grams up in a tree; ours compares each place of a row with all of them, which
is quicker where they are few.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.host.text import columns_of_grams, steps_of_grams, weights_of_grams
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.movement import cut
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.affine import maximum
from minicc.ir.core import Array, Literal, Value
from minicc.ir.types import F32, I32, I64

_ATTRIBUTES = "max_gram_length! max_skip_count! min_gram_length! mode! "
_ATTRIBUTES += "ngram_counts! ngram_indexes! "
_ATTRIBUTES += "pool_int64s pool_strings weights"


@operator("TfIdfVectorizer", attributes=_ATTRIBUTES)
def tf_idf_vectorizer(ctx: Context, node: Node, x: Value) -> Value:
    """How often each n-gram of a pool of integers stands in a row, perhaps weighted."""
    columns, weights = columns_of_grams(node), weights_of_grams(node)
    ctx.room(len(weights))
    mode = node.text("mode", "TF")
    if mode not in ("TF", "IDF", "TFIDF"):
        raise ctx.wrong(f"attribute mode is {mode!r}")
    rows = x if x.type.rank == 2 else ctx.reshape(x, (1, *(x.type.shape or (1,))))
    counts: list[Value] = []
    places: list[int] = []
    steps = list(steps_of_grams(node))
    for size in dict.fromkeys(size for size, _ in steps):
        pool = [gram for gram in columns if len(gram) == size]
        if pool:
            apart = [step for n, step in steps if n == size]
            counts.append(_counted(ctx, rows, np.array(pool), apart))
            places += [columns[gram] for gram in pool]
    out = _placed(ctx, rows, counts, places, len(weights))
    if mode != "TF":
        if mode == "IDF":
            out = ctx.cast(ctx.emit(graph.Lt, ctx.scalar(0, out), out), F32)
        out = ctx.emit(graph.Mul, out, ctx.constant(weights))
    return ctx.reshape(out, (*x.type.shape[:-1], len(weights)))


def _counted(ctx: Context, rows: Value, pool: Array, steps: Sequence[int]) -> Value:
    """How often each n-gram [G,n] stands in each row [N,C] with elements so far apart: f32[N,G]."""
    batch, length = rows.type.shape
    limits = np.iinfo(np.int32)
    if rows.type.dtype is I32 and (pool.min() < limits.min or pool.max() > limits.max):
        rows = ctx.cast(rows, I64)
    element, last = rows.type.dtype, pool.shape[1] - 1
    zero, reach = Literal(np.zeros((), element.numpy)), last * max(steps)
    padded = ctx.emit(graph.Pad, rows, low=(0, 0), high=(0, reach), value=zero) if reach else rows
    same: list[Value] = []
    for k, column in enumerate(pool.T):
        # of all places where one may begin the element that is its k-th
        ranges = [(k * step, k * step + maximum(length - last * step, 0), 1) for step in steps]
        found = ctx.emit(graph.Concat, tuple(cut(ctx, padded, {1: r}) for r in ranges), axis=1)
        apart = ctx.reshape(found, (batch, found.type.shape[1], 1))
        same.append(ctx.emit(graph.Eq, apart, ctx.constant(column.astype(element.numpy))))
    match = reduce(lambda a, b: ctx.emit(graph.And, a, b), same)
    return ctx.emit(graph.Reduce, ctx.cast(match, F32), axes=(1,), combine="add")


def _placed(
    ctx: Context, rows: Value, counts: Sequence[Value], places: Sequence[int], width: int
) -> Value:
    """Counts in their columns, of which some may have none."""
    none = ctx.emit(graph.Broadcast, ctx.scalar(0, F32), shape=(rows.type.shape[0], 1))
    joined = ctx.emit(graph.Concat, (*counts, none), axis=1)
    order = np.full(width, len(places), np.int64)
    order[list(places)] = np.arange(len(places))
    return ctx.emit(graph.Gather, joined, ctx.constant(order), axis=1)
