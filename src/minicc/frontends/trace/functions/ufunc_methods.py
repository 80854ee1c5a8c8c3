"""`reduce` and `accumulate` of ufuncs that the graph has no reduction or scan for, out of others.

What rounds is computed in another order than NumPy's where it is reduced, as sums are; elements so
far are accumulated in NumPy's order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from minicc.frontends.trace.functions.reductions import Axis
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import FUNCTIONS, traces
from minicc.frontends.trace.tracer import Tracer
from minicc.frontends.trace.views import boxed


def _of(recorder: Recorder, ufunc: str, a: Any, kinds: str) -> Tracer:
    """The operand; refused where its elements are of another kind."""
    box: Tracer = boxed(recorder, a)
    if box.dtype.kind not in kinds:
        recorder.refuse("MC0241", f"np.{ufunc} of {box.dtype} along an axis is not traced")
    return box


def _truth(ufunc: str, kinds: str, scan: str = "") -> None:
    """A ufunc of truth values, of which bitwise ones are such for booleans."""

    def reduce(recorder: Recorder, a: Any, axis: Axis = 0, *, keepdims: bool = False) -> Any:
        np_, box = recorder.namespace, _of(recorder, ufunc, a, kinds)
        if scan:
            return getattr(np_, "all" if scan == "minimum" else "any")(box, axis, keepdims=keepdims)
        return np_.count_nonzero(box, axis, keepdims=keepdims) % 2 == 1

    def accumulate(recorder: Recorder, array: Any, axis: int = 0) -> Any:
        np_, box = recorder.namespace, _of(recorder, ufunc, array, kinds)
        if scan:
            return getattr(np_, scan).accumulate(box.astype(bool), axis)
        return np_.add.accumulate(box.astype(bool), axis, int) % 2 == 1

    FUNCTIONS.setdefault(f"{ufunc}.reduce", reduce)
    FUNCTIONS[f"{ufunc}.accumulate"] = accumulate


_NUMBERS = "biuf"
for _name, _scan in (("and", "minimum"), ("or", "maximum"), ("xor", "")):
    _truth(f"logical_{_name}", _NUMBERS, _scan)
    _truth(f"bitwise_{_name}", "b", _scan)


def _but_nan(ufunc: str, plain: str, fill: float) -> None:
    """The greatest or least that is not NaN, if there is one."""

    def reduce(recorder: Recorder, a: Any, axis: Axis = 0, **rest: Any) -> Any:
        box = _of(recorder, ufunc, a, _NUMBERS)
        return FUNCTIONS[f"nan{plain[:3]}"](recorder, box, axis, **rest)

    def accumulate(recorder: Recorder, array: Any, axis: int = 0) -> Any:
        np_, box = recorder.namespace, _of(recorder, ufunc, array, _NUMBERS)
        if box.dtype.kind != "f":
            return getattr(np_, plain).accumulate(box, axis)
        none = np_.isnan(box)
        best = np_.where(none, np.asarray(fill, box.dtype), box)
        best = getattr(np_, plain).accumulate(best, axis)
        return np_.where(np_.logical_and.accumulate(none, axis), box, best)

    FUNCTIONS[f"{ufunc}.reduce"] = reduce
    FUNCTIONS[f"{ufunc}.accumulate"] = accumulate


_but_nan("fmax", "maximum", -np.inf)
_but_nan("fmin", "minimum", np.inf)


def _signed(recorder: Recorder, a: Any, axis: int) -> tuple[Tracer, int]:
    """The first element, and with changed signs what is subtracted from it; and the axis."""
    np_, box = recorder.namespace, _of(recorder, "subtract", a, "iufc")
    k = normalize_axis_index(axis, box.ndim)
    front = (slice(None),) * k
    parts = [box[(*front, slice(0, 1))], -box[(*front, slice(1, None))]]
    return np_.concatenate(parts, axis=k), k


@traces("subtract.reduce")
def _difference(recorder: Recorder, a: Any, axis: int = 0, *, keepdims: bool = False) -> Any:
    signed, k = _signed(recorder, a, axis)
    if not signed.shape[k]:
        recorder.refuse("MC0241", "np.subtract of nothing is not traced")
    return recorder.namespace.add.reduce(signed, k, dtype=signed.dtype, keepdims=keepdims)


@traces("subtract.accumulate")
def _differences(recorder: Recorder, array: Any, axis: int = 0) -> Any:
    signed, k = _signed(recorder, array, axis)
    return recorder.namespace.add.accumulate(signed, k, signed.dtype)


def _logarithm_of_sum(ufunc: str, exponential: str, logarithm: str) -> None:
    """The logarithm of a sum, less the greatest exponent before and with it after."""

    def reduce(recorder: Recorder, a: Any, axis: Axis = 0, *, keepdims: bool = False) -> Any:
        np_, box = recorder.namespace, _of(recorder, ufunc, a, "f")
        most = np_.max(box, axis, keepdims=True, initial=-np.inf)
        most = np_.where(np_.isfinite(most), most, np.zeros((), box.dtype))
        total = np_.sum(getattr(np_, exponential)(box - most), axis, keepdims=True)
        found = getattr(np_, logarithm)(total) + most
        return found if keepdims else np_.squeeze(found, _axes(axis, box.ndim))

    FUNCTIONS[f"{ufunc}.reduce"] = reduce


def _axes(axis: Axis, rank: int) -> Axis:
    return tuple(range(rank)) if axis is None else axis


_logarithm_of_sum("logaddexp", "exp", "log")
_logarithm_of_sum("logaddexp2", "exp2", "log2")


@traces("hypot.reduce")
def _hypotenuse(recorder: Recorder, a: Any, axis: Axis = 0, *, keepdims: bool = False) -> Any:
    """The root of the sum of squares of what is divided by the greatest, so that none overflows."""
    np_, box = recorder.namespace, _of(recorder, "hypot", a, "f")
    size = np_.abs(box)
    most = np_.max(size, axis, keepdims=True, initial=0)
    scale = np_.where(np_.isfinite(most) & (most > 0), most, np.ones((), box.dtype))
    found = np_.sqrt(np_.sum(np_.square(size / scale), axis, keepdims=True)) * scale
    found = np_.where(np_.any(np_.isinf(box), axis, keepdims=True), np.inf, found)
    return found if keepdims else np_.squeeze(found, _axes(axis, box.ndim))
