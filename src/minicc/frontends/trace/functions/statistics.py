"""Means, variances, quantiles, and the functions that pass over NaN.

Element types are NumPy's: means of integers are f64, those of f16 are summed in f32 and rounded
once. Quantiles sort (`sorting`) and interpolate as NumPy does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.frontends.trace.dispatch import is_symbolic, value_of
from minicc.frontends.trace.functions.reductions import (
    Axis,
    axes_of,
    chosen,
    count,
    loop_and_result,
)
from minicc.frontends.trace.functions.sorting import ascending
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import FUNCTIONS, traces
from minicc.frontends.trace.tracer import Tracer
from minicc.frontends.trace.views import boxed
from minicc.ir import graph
from minicc.ir.core import Value
from minicc.ir.types import DType


def _number(recorder: Recorder, value: Value, axes: tuple[int, ...], loop: DType, where: Any,
            less: float = 0) -> Value:  # fmt: skip
    """How many elements are meant along the axes, less some, not below zero."""
    if where is True:
        return recorder.scalar(max(count(value, axes) - less, 0), loop)
    np_ = recorder.namespace
    mask = np_.broadcast_to(np_.asarray(where), value.type.extents)
    if mask.dtype != bool:
        recorder.refuse("MC0241", "a mean over a mask of numbers is not traced")
    number = value_of(recorder, np_.sum(mask, axis=axes, keepdims=True))
    found = recorder.emit(graph.Sub, recorder.cast(number, loop), recorder.scalar(less, loop))
    return recorder.emit(graph.Max, found, recorder.scalar(0, loop))


def _masked(recorder: Recorder, value: Value, where: Any) -> Value:
    if where is True:
        return value
    return chosen(recorder, value, where, np.zeros((), value.type.dtype.numpy))


def _narrow(recorder: Recorder, value: Value, axes: tuple[int, ...], keepdims: bool) -> Value:
    """Without the axes of extent 1 that were kept for broadcasting."""
    if keepdims:
        return value
    shape = tuple(n for k, n in enumerate(value.type.extents) if k not in axes)
    return recorder.reshape(value, shape)


@traces("mean")
def mean(
    recorder: Recorder,
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    *,
    keepdims: bool = False,
    where: Any = True,
) -> Value:
    """The arithmetic mean along axes."""
    value = value_of(recorder, a)
    loop, result = loop_and_result(recorder, value, dtype)
    axes = axes_of(value, axis)
    if loop.is_complex:
        np_, how = recorder.namespace, {"axis": axis, "keepdims": keepdims}
        total = np_.sum(Tracer(recorder, value), dtype=loop.numpy, where=where, **how)
        held = count(value, axes)
        if where is not True:
            held = np_.sum(np_.broadcast_to(where, value.type.extents), dtype=int, **how)
        return value_of(recorder, (total / held).astype(result.numpy))
    wide = _masked(recorder, recorder.cast(value, loop), where)
    if where is True:
        total = recorder.reduce(wide, axes, "add", keepdims)
        number = recorder.scalar(count(value, axes), loop)
        return recorder.cast(recorder.emit(graph.Div, total, number), result)
    total = recorder.reduce(wide, axes, "add", True)
    number = _number(recorder, value, axes, loop, where)
    out = recorder.cast(recorder.emit(graph.Div, total, number), result)
    return _narrow(recorder, out, axes, keepdims)


@traces("var")
def var(
    recorder: Recorder,
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    ddof: float = 0,
    *,
    keepdims: bool = False,
    where: Any = True,
    correction: float | None = None,
) -> Value:
    """The mean of squared distances to the mean, over n - ddof."""
    value = value_of(recorder, a)
    loop, result = loop_and_result(recorder, value, dtype)
    axes = axes_of(value, axis)
    wide = recorder.cast(value, loop)

    def stored(v: Value) -> Value:
        """As NumPy holds it between two steps, which 16 bits may not: a mean alone has more."""
        return recorder.cast(recorder.cast(v, result), loop)

    total = stored(recorder.reduce(_masked(recorder, wide, where), axes, "add", True))
    center = recorder.emit(graph.Div, total, _number(recorder, value, axes, loop, where))
    apart = stored(recorder.emit(graph.Sub, wide, stored(center)))
    squares = _masked(recorder, stored(recorder.emit(graph.Mul, apart, apart)), where)
    free = _number(recorder, value, axes, loop, where, ddof if correction is None else correction)
    total = stored(recorder.reduce(squares, axes, "add", keepdims if where is True else True))
    out = recorder.cast(recorder.emit(graph.Div, total, free), result)
    return out if where is True else _narrow(recorder, out, axes, keepdims)


@traces("std")
def std(recorder: Recorder, a: Any, *args: Any, **kwargs: Any) -> Value:
    """The square root of the variance."""
    return recorder.emit(graph.Sqrt, var(recorder, a, *args, **kwargs))


@traces("average")
def average(
    recorder: Recorder,
    a: Any,
    axis: Axis = None,
    weights: Any = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Any:
    """The mean, with weights of the same shape or along the axis."""
    np_ = recorder.namespace
    box = boxed(recorder, a)
    if weights is None:
        out = np_.mean(box, axis=axis, keepdims=keepdims)
        number = box.size // out.size  # NumPy divides by it whether that is wanted or not
        return (out, np_.full_like(out, number)) if returned else out
    heavy = boxed(recorder, weights)
    if heavy.shape != box.shape:
        if not isinstance(axis, int) or heavy.ndim != 1:
            recorder.refuse("MC0241", "np.average with weights of another shape is not traced")
        along = [1] * box.ndim
        along[axis] = -1
        heavy = heavy.reshape(along)
    kind = np.result_type(box.dtype, heavy.dtype, *(["f8"] if box.dtype.kind in "iub" else []))
    heavy = heavy.astype(kind)
    scale = np_.sum(heavy, axis=axis, keepdims=keepdims)
    # weights that sum to 0 are refused, as a place outside of one element is
    np_.take(np.zeros(1), np_.any(scale == 0).astype(np.intp))
    out = np_.sum(np_.multiply(box, heavy, dtype=kind), axis=axis, keepdims=keepdims) / scale
    if returned and scale.shape != out.shape:
        scale = np_.broadcast_to(scale, out.shape).copy()
    return (out, scale) if returned else out


def _but_nan(name: str, plain: str, fill: Any) -> None:
    """A reduction that takes NaN for an element that changes nothing."""

    def run(recorder: Recorder, a: Any, axis: Any = None, *args: Any, **kwargs: Any) -> Any:
        np_ = recorder.namespace
        box = boxed(recorder, a)
        function = getattr(np_, plain)
        if box.dtype.kind != "f":
            return function(box, axis, *args, **kwargs)
        number = np.asarray(fill, box.dtype)
        initial = kwargs.get("initial")
        if isinstance(initial, float) and np.isnan(initial):
            initial, kwargs = None, {**kwargs, "initial": fill}
        result = function(np_.where(np_.isnan(box), number, box), axis, *args, **kwargs)
        if not np.isinf(fill) or plain.startswith("arg") or initial is not None:
            return result
        keep = kwargs.get("keepdims", False)
        empty = np_.all(np_.isnan(box), axis=axis, keepdims=keep)
        return np_.where(empty, np.asarray(np.nan, box.dtype), result)

    FUNCTIONS[name] = run


_but_nan("nansum", "sum", 0)
_but_nan("nanprod", "prod", 1)
_but_nan("nanmax", "max", -np.inf)
_but_nan("nanmin", "min", np.inf)


def _of_numbers(name: str, plain: str) -> None:
    def run(recorder: Recorder, a: Any, axis: Any = None, *args: Any, **kwargs: Any) -> Any:
        np_ = recorder.namespace
        box = boxed(recorder, a)
        if box.dtype.kind != "f":
            return getattr(np_, plain)(box, axis, *args, **kwargs)
        there = ~np_.isnan(box)
        if plain == "mean" and box.dtype.itemsize == 2 and not args and "dtype" not in kwargs:
            # NumPy's mean has more bits for the sum, and its mean of numbers has not
            total = np_.nansum(box, axis, **kwargs)
            return (total / np_.sum(there, axis, **kwargs)).astype(box.dtype)
        return getattr(np_, plain)(box, axis, *args, where=there, **kwargs)

    FUNCTIONS[name] = run


for _plain in ("mean", "var", "std"):
    _of_numbers(f"nan{_plain}", _plain)


def _quantiles(recorder: Recorder, name: str, a: Any, q: Any, axis: Any, keepdims: bool) -> Any:
    """Interpolated between sorted elements; `q` from 0 to 1."""
    np_ = recorder.namespace
    box = boxed(recorder, a)
    axes = axes_of(box.value(), axis)
    kind = box.dtype
    if is_symbolic(q):
        recorder.refuse("MC0241", f"np.{name} with a share that is traced is not traced")
    q = q.content if isinstance(q, Tracer) else q
    share = np.asarray(q, kind if isinstance(q, (int, float)) and kind.kind == "f" else None)
    if name == "percentile":
        share = np.true_divide(share, kind.type(100) if kind.kind == "f" else 100)
    if ((share < 0) | (share > 1)).any():
        raise ValueError("Percentiles must be in the range [0, 100]" if name == "percentile" else
                         "Quantiles must be in the range [0, 1]")  # fmt: skip
    dtype = getattr(np, name)(np.ones(1, box.dtype), q).dtype
    kept = [k for k in range(box.ndim) if k not in axes]
    line = box.transpose([*kept, *axes]).reshape((*[box.shape[k] for k in kept], -1))
    n = line.shape[-1]
    places = [s * (n - 1) for s in share.reshape(-1)]
    greatest = [n - 1] if kind.kind == "f" else []  # which is NaN where there is one
    at = [*[k for p in places for k in _around(p, n)], *greatest]
    line = Tracer(recorder, ascending(recorder, line.value(), line.ndim - 1, at))
    parts = [_between(line, p).astype(dtype) for p in places]
    if greatest:
        bad = np_.isnan(line[..., -1])
        parts = [np_.where(bad, np.asarray(np.nan, dtype), p) for p in parts]
    if keepdims:
        shape = tuple(1 if k in axes else m for k, m in enumerate(box.shape))
        parts = [p.reshape(shape) for p in parts]
    stacked = np_.stack(parts)
    return stacked.reshape((*share.shape, *stacked.shape[1:]))


def _around(place: Any, n: int) -> tuple[int, int]:
    """The places of the elements that one between them is made of."""
    below = int(np.floor(place))
    return below, min(below + 1, n - 1)


def _between(line: Any, place: Any) -> Any:
    below, above = _around(place, line.shape[-1])
    part = place - np.floor(place)
    a, b = line[..., below], line[..., above]
    return b - (b - a) * (1 - part) if part >= 0.5 else a + (b - a) * part


@traces("percentile")
def percentile(
    recorder: Recorder, a: Any, q: Any, axis: Any = None, *, keepdims: bool = False
) -> Any:
    """The elements below which so many of a hundred lie."""
    return _quantiles(recorder, "percentile", a, q, axis, keepdims)


@traces("quantile")
def quantile(
    recorder: Recorder, a: Any, q: Any, axis: Any = None, *, keepdims: bool = False
) -> Any:
    """The elements below which such a share lies."""
    return _quantiles(recorder, "quantile", a, q, axis, keepdims)


@traces("median")
def median(recorder: Recorder, a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The element in the middle, or the mean of the two."""
    np_ = recorder.namespace
    box = boxed(recorder, a)
    axes = axes_of(box.value(), axis)
    kept = [k for k in range(box.ndim) if k not in axes]
    line = box.transpose([*kept, *axes]).reshape((*[box.shape[k] for k in kept], -1))
    n = line.shape[-1]
    greatest = [n - 1] if box.dtype.kind == "f" else []  # which is NaN where there is one
    at = ((n - 1) // 2, n // 2, *greatest)
    line = Tracer(recorder, ascending(recorder, line.value(), line.ndim - 1, at))
    middle = np_.mean(line[..., (n - 1) // 2 : n // 2 + 1], axis=-1)
    if greatest:
        middle = np_.where(np_.isnan(line[..., -1]), np.asarray(np.nan, box.dtype), middle)
    if keepdims:
        middle = middle.reshape(tuple(1 if k in axes else m for k, m in enumerate(box.shape)))
    return middle


@traces("cov", view=True)  # that of one variable is an array, as squeeze gives it
def cov(
    recorder: Recorder,
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
) -> Any:
    """The covariances of variables, rows by default."""
    np_ = recorder.namespace
    rows = _variables(recorder, m, rowvar)
    if y is not None:
        rows = np_.concatenate([rows, _variables(recorder, y, rowvar)], axis=0)
    free = (0 if bias else 1) if ddof is None else ddof
    apart = rows - np_.mean(rows, axis=1, keepdims=True)
    other = apart.conj() if apart.dtype.kind == "c" else apart
    out = np_.matmul(apart, other.T) / max(rows.shape[1] - free, 0)
    return np_.squeeze(out)


def _variables(recorder: Recorder, m: Any, rowvar: bool) -> Any:
    box = boxed(recorder, m)
    box = box.astype(np.result_type(box.dtype, np.float64))
    rows = recorder.namespace.atleast_2d(box)
    return rows if rowvar or box.ndim == 1 else rows.T


@traces("corrcoef")
def corrcoef(recorder: Recorder, x: Any, y: Any = None, rowvar: bool = True) -> Any:
    """Covariances over the standard deviations."""
    np_ = recorder.namespace
    c = np_.cov(x, y, rowvar)
    if not c.ndim:
        return c / c
    scale = np_.sqrt(np_.diagonal(c))
    return np_.clip(c / scale[:, None] / scale[None, :], -1, 1)
