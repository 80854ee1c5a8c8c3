"""Reductions, with NumPy's element types.

Small integers are summed in 64 bits, means of integers are f64. `mean`, `var` and `std` of f16 sum
in f32 and round once, as NumPy's mean does. `argmax` and `argmin` are the least index that holds
the extreme, NaN counting as extreme.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from minicc.frontends.trace.dispatch import value_of
from minicc.frontends.trace.loops.extents import is_given_by_data
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import FUNCTIONS, traces
from minicc.frontends.trace.tracer import Tracer
from minicc.ir import graph
from minicc.ir.core import Value
from minicc.ir.types import BOOL, F32, F64, I64, DType
from minicc.library.extremes import place_of_extreme

Axis = int | tuple[int, ...] | None


def axes_of(value: Value, axis: Axis) -> tuple[int, ...]:
    """The axes that NumPy's `axis` names, sorted; AxisError outside of the array's."""
    if axis is None or (not value.type.rank and axis in (0, -1)):
        return tuple(range(value.type.rank))
    return tuple(sorted(normalize_axis_tuple(axis, value.type.rank)))


def count(value: Value, axes: tuple[int, ...]) -> int:
    """How many elements are combined into one."""
    return math.prod(value.type.extents[k] for k in axes)


def widened(recorder: Recorder, value: Value, wanted: Any) -> Value:
    """As NumPy sums it: in `wanted`, else bool and small integers in 64 bits."""
    if wanted is not None:
        return recorder.cast(value, recorder.dtype(np.dtype(wanted)))
    return recorder.cast(
        value, recorder.dtype(np.add.reduce(np.zeros(1, value.type.dtype.numpy)).dtype)
    )


def require_mask(where: Any) -> None:
    """NumPy's TypeError where a `where` is an array of other elements than booleans."""
    dtype = np.dtype(getattr(where, "dtype", bool))
    if dtype != np.bool_:
        text = (
            f"Cannot cast array data from {dtype!r} to dtype('bool') according to the rule 'safe'"
        )
        raise TypeError(text)


def chosen(recorder: Recorder, value: Value, where: Any, rest: Any) -> Value:
    """The elements where they are wanted, elsewhere another number; the shape stays."""
    require_mask(where)
    kept = recorder.namespace.where(where, Tracer(recorder, value), rest)
    if kept.shape != value.type.extents or kept.dtype != value.type.dtype.numpy:
        raise ValueError("a mask has more axes than what it chooses from")
    return value_of(recorder, kept)


_COMBINE = {"add": graph.Add, "mul": graph.Mul, "max": graph.Max, "min": graph.Min}


def _with_initial(recorder: Recorder, total: Value, initial: Any, combine: str) -> Value:
    if initial is None:
        return total
    if isinstance(initial, (int, float)) and not isinstance(initial, np.generic):
        initial = np.asarray(initial, total.type.dtype.numpy)  # NumPy says what does not fit
    start = recorder.cast(value_of(recorder, initial), total.type.dtype)
    return recorder.emit(_COMBINE[combine], total, start)


def _trace_total(name: str, combine: str) -> None:
    """Have a sum or product along axes be traced."""

    @traces(name)
    def total(
        recorder: Recorder,
        a: Any,
        axis: Axis = None,
        dtype: Any = None,
        *,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> Value:
        value = widened(recorder, value_of(recorder, a), dtype)
        if value.type.dtype is BOOL:
            recorder.refuse("MC0245", "a sum or product in bool is not traced")
        if where is not True:
            neutral = np.asarray(combine == "mul", value.type.dtype.numpy)
            value = chosen(recorder, value, where, neutral)
        whole = recorder.reduce(value, axes_of(value, axis), combine, keepdims)
        return _with_initial(recorder, whole, initial, combine)


_trace_total("sum", "add")
_trace_total("prod", "mul")


def _extreme(
    recorder: Recorder,
    a: Any,
    axis: Axis,
    keepdims: bool,
    combine: str,
    initial: Any = None,
    where: Any = True,
) -> Value:
    value = value_of(recorder, a)
    axes = axes_of(value, axis)
    if where is not True:
        if initial is None:
            raise ValueError("reduction operation needs an initial value where there is a mask")
        rest = np.asarray(initial).astype(value.type.dtype.numpy)
        value = chosen(recorder, value, where, rest)
    if count(value, axes) == 0:
        if initial is None:
            raise ValueError("zero-size array to reduction operation which has no identity")
        shape = value.type.extents
        left = [1 if k in axes and keepdims else n for k, n in enumerate(shape)]
        kept = tuple(n for k, n in enumerate(left) if keepdims or k not in axes)
        start = recorder.cast(value_of(recorder, initial), value.type.dtype)
        return recorder.broadcast(start, kept)
    given = recorder.rounds.data.keys()
    loose = [k for k in axes if is_given_by_data(given, value.type.shape[k])]
    if loose and initial is None:
        return _of_some(recorder, value, loose, axes, keepdims, combine)
    return _with_initial(
        recorder, recorder.reduce(value, axes, combine, keepdims), initial, combine
    )


def _of_some(
    recorder: Recorder,
    value: Value,
    loose: Sequence[int],
    axes: Sequence[int],
    keepdims: bool,
    combine: str,
) -> Value:
    """The greatest or least along axes as long as data say; of nothing NumPy is to raise.

    One more element is the least that there is, so that there is one in each round.
    """
    element = value.type.dtype.numpy
    if element == np.bool_:
        neutral: Any = combine == "min"
    elif np.issubdtype(element, np.floating):
        neutral = -np.inf if combine == "max" else np.inf
    else:
        limits = np.iinfo(element)
        neutral = limits.min if combine == "max" else limits.max
    one = recorder.lift(np.asarray(neutral, element))
    holds: Any = np.True_
    for k in loose:
        shape = value.type.shape
        size = Tracer(recorder, recorder.emit(graph.Sizes, (shape[k],), (), I64))
        holds = holds & (size > 0)
        more = recorder.broadcast(one, (*shape[:k], 1, *shape[k + 1 :]))
        value = recorder.emit(graph.Concat, [value, more], k)
    made: Any = Tracer(recorder, recorder.emit(graph.Reduce, value, tuple(axes), combine, keepdims))
    place = recorder.namespace.where(holds, np.int64(0), np.int64(1))
    return value_of(recorder, made.reshape((1, *made.shape))[place])


def _trace_extreme(combine: str) -> None:
    """Have the greatest or least along axes be traced; it is NaN if there is one."""

    @traces(combine, f"a{combine}")
    def extreme(
        recorder: Recorder,
        a: Any,
        axis: Axis = None,
        *,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> Value:
        return _extreme(recorder, a, axis, keepdims, combine, initial, where)


_trace_extreme("max")
_trace_extreme("min")


@traces("ptp")
def ptp(recorder: Recorder, a: Any, axis: Axis = None, *, keepdims: bool = False) -> Value:
    """The greatest less the least."""
    return recorder.emit(
        graph.Sub,
        _extreme(recorder, a, axis, keepdims, "max"),
        _extreme(recorder, a, axis, keepdims, "min"),
    )


def _trace_test(name: str, combine: str) -> None:
    """Have it be traced whether some element, or each, is not zero."""

    @traces(name)
    def test(
        recorder: Recorder, a: Any, axis: Axis = None, *, keepdims: bool = False, where: Any = True
    ) -> Value:
        value = recorder.cast(value_of(recorder, a), BOOL)
        if where is not True:
            value = chosen(recorder, value, where, np.bool_(combine == "and"))
        return recorder.reduce(value, axes_of(value, axis), combine, keepdims)


_trace_test("any", "or")
_trace_test("all", "and")


@traces("count_nonzero")
def count_nonzero(
    recorder: Recorder, a: Any, axis: Axis = None, *, keepdims: bool = False
) -> Value:
    """How many elements are not zero."""
    value = recorder.cast(recorder.cast(value_of(recorder, a), BOOL), I64)
    return recorder.reduce(value, axes_of(value, axis), "add", keepdims)


def loop_and_result(recorder: Recorder, value: Value, wanted: Any) -> tuple[DType, DType]:
    """In which type a mean is computed, and which it has."""
    given = value.type.dtype
    result = recorder.dtype(np.dtype(wanted)) if wanted is not None else given
    if wanted is None and not (given.is_float or given.is_complex):
        return F64, F64
    return (F32 if result.is_float and result.bits < 32 else result), result


def _trace_position(combine: str) -> None:
    """Have the first index of the greatest or least be traced."""

    @traces(f"arg{combine}")
    def position(
        recorder: Recorder, a: Any, axis: int | None = None, *, keepdims: bool = False
    ) -> Value:
        value = value_of(recorder, a)
        rank = value.type.rank
        if axis is None:
            value = recorder.reshape(value, (count(value, tuple(range(rank))),))
        (k,) = axes_of(value, 0 if axis is None else axis)
        extents = value.type.extents
        if extents[k] == 0:
            raise ValueError("attempt to get the position of an extreme of an empty sequence")
        recorder.require_some(value, (k,))
        place = place_of_extreme(recorder.emit, value, k, combine)
        if axis is None:
            return recorder.reshape(place, (1,) * rank if keepdims else ())
        left = tuple([n for a, n in enumerate(extents) if a != k])
        return place if keepdims else recorder.reshape(place, left)


_trace_position("max")
_trace_position("min")


def _register_reduce(ufunc: str, reduction: str) -> None:
    def reduce(recorder: Recorder, a: Any, axis: Axis = 0, **rest: Any) -> Value:
        value: Value = FUNCTIONS[reduction](recorder, a, axis, **rest)
        return value

    FUNCTIONS[f"{ufunc}.reduce"] = reduce


for _ufunc, _reduction in {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_or": "any",
    "logical_and": "all",
}.items():  # fmt: skip
    _register_reduce(_ufunc, _reduction)
