"""One of two values of Python, as a condition that data decide says, in one value of the graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.frontends.trace.dispatch import content_of
from minicc.frontends.trace.loops.carried import (
    ELEMENTS,
    Unlike,
    either_kind,
    is_scalar,
    number_value,
    strides_of,
    theirs_of,
)
from minicc.frontends.trace.loops.indices import Index
from minicc.frontends.trace.mixed import Mixed, is_mixed
from minicc.frontends.trace.numbers import Number
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.restarts import WrittenOut
from minicc.frontends.trace.tracer import Tracer
from minicc.ir import graph
from minicc.ir.core import Value


def selected(recorder: Recorder, condition: Value, name: str, then: Any, other: Any) -> Any:
    """The value of a name that is one of two; Unlike where no one value is either.

    Of a number that is Python's or NumPy's there has to be a loop around.
    """
    kinds = [x.kind if isinstance(x, Number) else type(x) for x in (then, other)]
    if is_scalar(then) != is_scalar(other) or is_mixed(then) or is_mixed(other):
        return _either(recorder, condition, name, then, other)
    if kinds[0] is kinds[1] and kinds[0] in ELEMENTS:
        element = ELEMENTS[kinds[0]]
        plain = all(type(x) is not Number or x.counts for x in (then, other))
        try:
            values = [
                x.value() if type(x) is Index else
                x.box.value() if isinstance(x, Number) else recorder.scalar(x, element)
                for x in (then, other)
            ]  # fmt: skip
        except OverflowError:
            raise Unlike("is an int that 64 bits do not hold") from None
        chosen = recorder.emit(graph.Select, condition, *values)
        return Number(Tracer(recorder, chosen), kinds[0], plain and kinds[0] is int)
    if not all(isinstance(x, (Tracer, np.generic)) for x in (then, other)):
        raise Unlike("is of two types")
    contents = [content_of(recorder, x) for x in (then, other)]
    left, right = (c if isinstance(c, Value) else recorder.lift(c) for c in contents)
    strides = strides_of(then)
    if left.type != right.type or strides != strides_of(other):
        raise Unlike("is an array of two types")
    chosen = recorder.emit(graph.Select, condition, left, right)
    made = Tracer(recorder, chosen, scalar=is_scalar(then))
    made.unsure = bool(made.ndim)
    if strides:
        made.lies(strides)
    return made


def _either(recorder: Recorder, condition: Value, name: str, then: Any, other: Any) -> Number:
    """A number that is Python's on one side and NumPy's on the other, or may be."""
    kinds = either_kind(then, other)
    if kinds is None:
        raise Unlike("is a number of two types")
    values = [number_value(recorder, x, kinds.value) for x in (then, other)]
    chosen = recorder.emit(graph.Select, condition, *values)
    theirs = _chosen_flag(recorder, condition, theirs_of(then), theirs_of(other))
    what = f"`{name}`" if name else "a number"
    why = f"{what} is Python's {kinds.own.__name__} or NumPy's, as data say"
    mixed = Mixed(Tracer(recorder, theirs), kinds, WrittenOut(recorder.loops[-1], why))
    return Number.mix(Tracer(recorder, chosen), mixed)


def _chosen_flag(
    recorder: Recorder, condition: Value, then: Tracer | bool, other: Tracer | bool
) -> Value:
    """Which of two truth values a condition chooses, without a choice where one is known."""
    emit = recorder.emit
    if isinstance(then, bool) and isinstance(other, bool):
        return condition if then else emit(graph.Not, condition)
    if isinstance(other, bool):
        condition, then, other = emit(graph.Not, condition), other, then
    assert not isinstance(other, bool)
    if not isinstance(then, bool):
        return emit(graph.Select, condition, then.value(), other.value())
    if then:
        return emit(graph.Or, condition, other.value())
    return emit(graph.And, emit(graph.Not, condition), other.value())
