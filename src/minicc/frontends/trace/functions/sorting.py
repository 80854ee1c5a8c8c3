"""Sorting, searching, and counting by bins.

Equal elements stay in their order, whatever `kind` says, and NaN is the greatest. The places of
many elements are NumPy's own, so that equal ones are in its order.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from minicc.frontends.trace.dispatch import is_symbolic, value_of
from minicc.frontends.trace.functions.movement import flat
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import traces
from minicc.frontends.trace.tracer import Tracer
from minicc.frontends.trace.views import boxed
from minicc.ir import graph
from minicc.ir.core import Value
from minicc.ir.types import F64, I64

_RANKED = 512  # elements that are sorted where only some, or their places, are wanted
_COMPARED = 1 << 22  # of all rows, each with each of its row, where their places are wanted
_SEARCHED = 1 << 20  # comparisons that a search may make; beyond, NumPy's bisection is faster


def ascending(recorder: Recorder, value: Value, axis: int, at: Sequence[int] = ()) -> Value:
    """The elements in ascending order along an axis, or, if such are given, at some places.

    Of an extent that is a symbol all are sorted: which places are asked for depends on it.
    """
    known = all(type(k) is int for k in (*at, *value.type.shape))
    return recorder.emit(graph.Sort, value, axis, tuple(dict.fromkeys(at)) if known else ())


def _sorted(recorder: Recorder, a: Any, axis: int | None, which: int, order: Any = None) -> Value:
    value = value_of(recorder, a)
    if order is not None:
        raise ValueError("Cannot specify order when the array has no fields.")
    if axis is None:
        value, axis = flat(recorder, value), 0
    if not value.type.rank:
        raise ValueError("a scalar has no axis to sort along")
    k = normalize_axis_index(axis, value.type.rank)
    if not which:
        return ascending(recorder, value, k)
    length = value.type.extents[k]
    if length > _RANKED or length * prod(value.type.extents) > _COMPARED:
        recorder.refuse("MC0241", "the places of many sorted elements are not traced")
    return recorder.emit_all(graph.TopK, value, k, value.type.extents[k], False)[1]


def _trace_sorting(prefix: str, which: int) -> None:
    """Have sorted elements, or their places with the prefix "arg", be traced.

    A sorted array is partitioned at every place; a long one is for NumPy, which does not sort all.
    """

    @traces(f"{prefix}sort")
    def sort(
        recorder: Recorder,
        a: Any,
        axis: int | None = -1,
        kind: Any = None,
        order: Any = None,
        *,
        stable: Any = None,
    ) -> Value:
        return _sorted(recorder, a, axis, which, order)

    @traces(f"{prefix}partition")
    def partition(recorder: Recorder, a: Any, kth: Any, axis: int | None = -1) -> Value:
        made = _sorted(recorder, a, axis, which)
        extent = made.type.extents[-1 if axis is None else axis]
        if extent > _RANKED:
            recorder.refuse("MC0241", f"np.{prefix}partition of a long axis is not traced")
        for k in np.ravel(kth):
            place = k + extent if k < 0 else k
            if not 0 <= place < extent:
                raise ValueError(f"kth(={place}) out of bounds ({extent})")
        return made


_trace_sorting("", 0)
_trace_sorting("arg", 1)


@traces("searchsorted")
def searchsorted(recorder: Recorder, a: Any, v: Any, side: str = "left") -> Any:
    """Before how many elements of a sorted vector each would stand: how many are less."""
    np_ = recorder.namespace
    line, wanted = boxed(recorder, a), boxed(recorder, v)
    if line.ndim != 1 or side not in ("left", "right") or line.size * wanted.size > _SEARCHED:
        recorder.refuse("MC0241", "a long search is not traced")
    wide = wanted[..., None]
    before = line < wide if side == "left" else line <= wide
    if wanted.dtype.kind == "f":
        ends = np_.isnan(wide)
        before = before | (ends & ~np_.isnan(line) if side == "left" else ends)
    return np_.sum(before, axis=-1)


@traces("digitize")
def digitize(recorder: Recorder, x: Any, bins: Any, right: bool = False) -> Any:
    """In which bin each element lies."""
    edges = bins.content if isinstance(bins, Tracer) else np.asarray(bins)
    if isinstance(edges, Value) or edges.ndim != 1 or (np.diff(edges) < 0).any():
        recorder.refuse("MC0241", "np.digitize with bins that are traced or fall is not traced")
    return recorder.namespace.searchsorted(edges, x, side="left" if right else "right")


@traces("histogram")
def histogram(
    recorder: Recorder,
    a: Any,
    bins: Any = 10,
    range: Any = None,
    density: Any = None,
    weights: Any = None,
) -> Any:
    """How many elements, or how much of their weights, bins of equal width hold; and their edges.

    The steps of `numpy.histogram`: a guess by the width, and one back or on where rounding missed.
    Where NumPy raises, since the data are not finite or too near, an index is outside of the bins.
    """
    np_, x = recorder.namespace, boxed(recorder, a).reshape(-1)
    weight = None if weights is None else boxed(recorder, weights).reshape(-1)
    equal = type(bins) is int and bins > 0 and not any(map(is_symbolic, range or ()))
    real = all(v.dtype.kind in "fiu" for v in (x, weight) if v is not None)
    if not (equal and real and x.size) or (weight is not None and weight.shape != x.shape):
        recorder.refuse("MC0241", "np.histogram but by a number of bins of equal width")
    first, last = (x.min(), x.max()) if range is None else range
    if range is not None and not (first < last and np.isfinite([first, last]).all()):
        recorder.refuse("MC0241", "np.histogram of a range that is none")
    element = np.result_type(*[e.dtype if range is None else e for e in (first, last)], x.dtype)
    element = element if element.kind == "f" else np.dtype(np.float64)
    wide, kept = x.astype(element), None
    if range is None:
        first, last = first.astype(element), last.astype(element)
        half = np_.where(first == last, 0.5, 0).astype(element)
        first, last = first - half, last + half
    else:
        kept = (x >= first) & (x <= last)
        wide = np_.where(kept, wide, first)
    edges = np_.linspace(first, last, bins + 1).astype(element)
    index = np_.minimum(((wide - first) / (last - first) * bins).astype(np.int64), bins - 1)
    index = index + np_.where(np_.any(edges[:-1] >= edges[1:]), 2 * bins, 0)
    index = index - (wide < edges[index])
    index = index + ((wide >= edges[index + 1]) & (index != bins - 1))
    kind = np.dtype(np.int64) if weight is None else weight.dtype
    total = I64 if weight is None else F64
    terms = np_.ones(x.size, np.int64) if weight is None else weight.astype(np.float64)
    terms = terms if kept is None else np_.where(kept, terms, 0)
    sums = recorder.emit(
        graph.ScatterND,
        recorder.lift(np.zeros(bins, total.numpy)),
        recorder.reshape(value_of(recorder, index), (x.size, 1)),
        recorder.cast(value_of(recorder, terms), total),
        "add",
    )
    held = Tracer(recorder, sums).astype(kind)
    if density:
        held = held / np_.diff(edges) / np_.sum(held)
    return held, edges
