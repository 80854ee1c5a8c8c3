"""Operators that read or write at places which are values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.generate.draft import Draft, Item
from tests.generate.families.table import family
from tests.generate.sizes import size
from tests.generate.source import BOOL, F32, F64, I32, I64, U8, Array

_TYPES = (F32, F32, F64, I64, I32)


def _data(draft: Draft, rank: int | None = None) -> Item:
    return draft.tensor(_TYPES, rank, accept=lambda i: i.rank > 0, least=1)


def _indices(draft: Draft, extent: int, shape: Sequence[int]) -> Item:
    """Places along an axis, some counted from its end."""
    source = draft.source
    low = -extent if draft.opset >= 11 else 0
    drawn = source.rng.integers(low, extent, tuple(shape))
    return draft.fresh(drawn.astype(source.pick((I64, I32))), 0.4)


@family
def gather(draft: Draft) -> None:
    source = draft.source
    x = _data(draft)
    axis = source.axis(x.rank) if draft.opset >= 11 else source.count(0, x.rank - 1)
    indices = _indices(draft, x.shape[axis], source.shape(source.count(0, 2)))
    draft.node("Gather", [x, indices], exact=True, axis=axis)


@family
def gather_elements(draft: Draft) -> None:
    source = draft.source
    x = _data(draft)
    axis = source.axis(x.rank)
    shape = [source.count(1, n) if source.chance(0.5) else n for n in x.shape]
    indices = _indices(draft, x.shape[axis], shape)
    draft.node("GatherElements", [x, indices], exact=True, axis=axis)


@family
def gather_nd(draft: Draft) -> None:
    source = draft.source
    x = _data(draft)
    depth = source.count(1, x.rank)
    around = source.shape(source.count(0, 2))
    drawn = [source.rng.integers(-n, n, around) for n in x.shape[:depth]]
    indices = np.stack(drawn, axis=-1).astype(I64)
    draft.node("GatherND", [x, draft.fresh(indices, 0.3)], exact=True)


def _reduction(draft: Draft) -> str | None:
    if draft.opset < 16:
        return None
    names = (None, "none", "add", "mul")
    return draft.source.pick((*names, "max", "min") if draft.opset >= 18 else names)


@family
def scatter_elements(draft: Draft) -> None:
    source = draft.source
    x = draft.tensor(_TYPES, accept=lambda i: i.rank > 0, least=1, special=0)
    axis = source.axis(x.rank)
    reduction = _reduction(draft)
    shape = [source.count(1, n) if source.chance(0.5) else n for n in x.shape]
    if reduction in (None, "none"):
        # each place once: which of two writes wins is left open
        drawn: Array = np.argsort(source.rng.random(shape), axis=axis).astype(I64)
        indices = draft.fresh(drawn, 0.4)
    else:
        indices = _indices(draft, x.shape[axis], shape)
    updates = draft.like(x, shape, special=0)
    exact = reduction in (None, "none", "max", "min") or x.dtype.kind == "i"
    draft.node(
        "ScatterElements", [x, indices, updates], exact=exact, axis=axis, reduction=reduction
    )


@family
def scatter_nd(draft: Draft) -> None:
    source = draft.source
    x = draft.tensor(_TYPES, accept=lambda i: i.rank > 0, least=1, special=0)
    depth = source.count(1, x.rank)
    reduction = _reduction(draft)
    places = int(np.prod(x.shape[:depth]))
    rows = source.count(0, min(4, places))
    if reduction in (None, "none"):
        flat = source.rng.permutation(places)[:rows]
    else:
        flat = source.rng.integers(0, places, rows)
    indices = np.stack(np.unravel_index(flat, x.shape[:depth]), axis=-1).astype(I64)
    updates = draft.like(x, (rows, *x.shape[depth:]), special=0)
    exact = reduction in (None, "none", "max", "min") or x.dtype.kind == "i"
    given = [x, draft.fresh(indices, 0.4), updates]
    draft.node("ScatterND", given, exact=exact, reduction=reduction)


@family
def one_hot(draft: Draft) -> None:
    source = draft.source
    places = source.rng.integers(-4, 6, source.shape(source.count(1, 2)))
    indices = draft.fresh(places.astype(source.pick((I64, I32, F32))), 0.2)
    values = draft.fresh(source.array((2,), source.pick((F32, I64)), special=0), 0.6)
    depth = size(draft, source.pick((3, 4)))
    axis = source.pick((None, -1, 0, 1))
    draft.node("OneHot", [indices, depth, values], exact=True, axis=axis)


@family
def compress(draft: Draft) -> None:
    source = draft.source
    x = _data(draft)
    axis = source.pick((None, source.count(0, x.rank - 1)))
    extent = int(np.prod(x.shape)) if axis is None else x.shape[axis]
    keep = draft.tensor((BOOL,), shape=(source.count(1, max(extent, 1)),), exact=True)
    draft.node("Compress", [x, keep], exact=True, axis=axis)


@family
def nonzero(draft: Draft) -> None:
    x = draft.tensor((F32, I64, BOOL, U8), accept=lambda i: i.rank > 0, exact=True)
    draft.node("NonZero", [x], exact=True)


@family
def unique(draft: Draft) -> None:
    source = draft.source
    x = draft.tensor((F32, I64), accept=lambda i: i.rank > 0, least=1, exact=True, special=0)
    axis = source.pick((None, source.count(0, x.rank - 1)))
    draft.node("Unique", [x], 4, exact=True, axis=axis, sorted=source.pick((None, 0, 1)))


@family
def reverse_sequence(draft: Draft) -> None:
    source = draft.source
    x = draft.tensor(_TYPES, accept=lambda i: i.rank >= 2, rank=source.pick((2, 3)), least=1)
    time = source.pick((0, 1))
    lengths = source.rng.integers(1, x.shape[time] + 1, x.shape[1 - time])
    given = [x, draft.fresh(lengths.astype(I64), 0.3)]
    draft.node("ReverseSequence", given, exact=True, time_axis=time, batch_axis=1 - time)
