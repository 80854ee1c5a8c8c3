"""Sorting, and what of it comes first.

Equal elements stay in their order, whatever `kind` says, and NaN is the greatest. The places of
many elements are NumPy's own, so that equal ones are in its order.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from minicc.frontends.trace.dispatch import value_of
from minicc.frontends.trace.functions.movement import flat
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import traces
from minicc.ir import graph
from minicc.ir.core import Value

_RANKED = 512  # elements that are sorted where only some, or their places, are wanted
_COMPARED = 1 << 22  # of all rows, each with each of its row, where their places are wanted


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
