"""Sums, products and extremes of all elements so far along an axis, and differences."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from minicc.frontends.trace.dispatch import value_of
from minicc.frontends.trace.functions.movement import flat
from minicc.frontends.trace.functions.reductions import widened
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import FUNCTIONS, traces
from minicc.frontends.trace.tracer import Tracer
from minicc.ir import graph
from minicc.ir.core import Value
from minicc.ir.types import BOOL, U8


def _scanned(recorder: Recorder, value: Value, axis: int | None, combine: str) -> Value:
    if axis is None:
        value, axis = flat(recorder, value), 0
    k = normalize_axis_index(axis, value.type.rank)
    return recorder.emit(graph.Accumulate, value, k, combine)


def _cumulative(name: str, combine: str) -> None:
    def run(recorder: Recorder, a: Any, axis: int | None = None, dtype: Any = None) -> Value:
        value = widened(recorder, value_of(recorder, a), dtype)
        if not value.type.rank:
            value = recorder.reshape(value, (1,))
        return _scanned(recorder, value, axis, combine)

    FUNCTIONS[name] = run


_cumulative("cumsum", "add")
_cumulative("cumprod", "mul")


def _accumulate(ufunc: str, combine: str) -> None:
    def run(recorder: Recorder, array: Any, axis: int = 0, dtype: Any = None) -> Value:
        value = value_of(recorder, array)
        if combine in ("add", "mul"):
            value = widened(recorder, value, dtype)
        elif value.type.dtype is BOOL:
            return recorder.cast(_scanned(recorder, recorder.cast(value, U8), axis, combine), BOOL)
        return _scanned(recorder, value, axis, combine)

    FUNCTIONS[f"{ufunc}.accumulate"] = run


for _ufunc, _combine in (
    ("add", "add"),
    ("multiply", "mul"),
    ("maximum", "max"),
    ("minimum", "min"),
):
    _accumulate(_ufunc, _combine)


def _but_nan(name: str, plain: str, neutral: int) -> None:
    """A cumulative sum or product that takes NaN for an element that changes nothing."""

    def run(recorder: Recorder, a: Any, axis: int | None = None, dtype: Any = None) -> Any:
        np_ = recorder.namespace
        box = Tracer(recorder, value_of(recorder, a))
        known = np_.where(np_.isnan(box), np.asarray(neutral, box.dtype), box)
        return getattr(np_, plain)(known, axis, dtype)

    FUNCTIONS[name] = run


_but_nan("nancumsum", "cumsum", 0)
_but_nan("nancumprod", "cumprod", 1)


@traces("diff")
def diff(
    recorder: Recorder, a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None
) -> Any:
    """Differences between neighbours, `n` times."""
    np_ = recorder.namespace
    box = Tracer(recorder, value_of(recorder, a))
    k = normalize_axis_index(axis, box.ndim)
    if prepend is not None or append is not None:
        ends = [_as_part(recorder, e, box, k) for e in (prepend, append)]
        box = np_.concatenate([p for p in (ends[0], box, ends[1]) if p is not None], axis=k)
    for _ in range(n):
        front = (slice(None),) * k
        later, earlier = box[(*front, slice(1, None))], box[(*front, slice(None, -1))]
        box = later ^ earlier if box.dtype == bool else later - earlier
    return box


def _as_part(recorder: Recorder, x: Any, box: Tracer, axis: int) -> Any:
    if x is None or np.ndim(x):
        return x
    shape = tuple(1 if k == axis else n for k, n in enumerate(box.shape))
    return recorder.namespace.broadcast_to(recorder.namespace.asarray(x), shape)
