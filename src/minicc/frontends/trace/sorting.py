"""Sorting and searching.

Equal elements stay in their order, whatever `kind` says, and NaN is the greatest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from minicc.frontends.trace.dispatch import value_of
from minicc.frontends.trace.movement import flat
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import traces
from minicc.frontends.trace.tracer import Tracer
from minicc.frontends.trace.views import boxed
from minicc.ir import graph
from minicc.ir.core import Value

_SEARCHED = 1 << 20  # comparisons that a search may make; beyond, NumPy's bisection is faster


def ascending(recorder: Recorder, value: Value, axis: int) -> tuple[Value, ...]:
    """The elements in ascending order along an axis, and where they stood."""
    extent = value.type.extents[axis]
    return recorder.emit_all(graph.TopK, value, axis, extent, False)


def _sorted(recorder: Recorder, a: Any, axis: int | None, which: int, order: Any = None) -> Value:
    value = value_of(recorder, a)
    if order is not None:
        raise ValueError("Cannot specify order when the array has no fields.")
    if axis is None:
        value, axis = flat(recorder, value), 0
    if not value.type.rank:
        raise ValueError("a scalar has no axis to sort along")
    k = normalize_axis_index(axis, value.type.rank)
    return ascending(recorder, value, k)[which]


@traces("sort")
def sort(
    recorder: Recorder,
    a: Any,
    axis: int | None = -1,
    kind: Any = None,
    order: Any = None,
    *,
    stable: Any = None,
) -> Value:
    """The elements in ascending order."""
    return _sorted(recorder, a, axis, 0, order)


@traces("argsort")
def argsort(
    recorder: Recorder,
    a: Any,
    axis: int | None = -1,
    kind: Any = None,
    order: Any = None,
    *,
    stable: Any = None,
) -> Value:
    """The places of the elements in ascending order."""
    return _sorted(recorder, a, axis, 1, order)


@traces("partition")
def partition(recorder: Recorder, a: Any, kth: Any, axis: int | None = -1) -> Value:
    """A sorted array is partitioned at every place."""
    return _sorted(recorder, a, axis, 0)


@traces("argpartition")
def argpartition(recorder: Recorder, a: Any, kth: Any, axis: int | None = -1) -> Value:
    """The places of the elements in ascending order."""
    return _sorted(recorder, a, axis, 1)


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
