"""`max` and `min` of numbers that data give, which the graph chooses."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from minicc.frontends.trace.loops.carried import ELEMENTS, Unlike, either_kind
from minicc.frontends.trace.loops.filled import flat_list
from minicc.frontends.trace.loops.grown import Grown
from minicc.frontends.trace.loops.indices import Index
from minicc.frontends.trace.loops.selected import selected
from minicc.frontends.trace.numbers import Number, checked
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import Dispatch
from minicc.frontends.trace.tracer import Tracer


def extreme(recorder: Recorder, real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`max` or `min`, chosen by the graph where numbers are traced that are of one type.

    Of several it is that of one after the other, as Python has it.
    """
    if not kwargs and len(args) == 1 and type(args[0]) is Grown:
        return args[0].extreme(real.__name__)
    if not kwargs and len(args) == 1 and type(args[0]) is list:
        found = _of_whole(recorder, real.__name__, args[0])
        return real(args[0]) if found is None else found
    if kwargs or recorder.path is None or len(args) < 2:
        return real(*args, **kwargs)
    return reduce(lambda a, b: _of_two(recorder, real, a, b), args)


def _of_whole(recorder: Recorder, name: str, items: list[Any]) -> Any:
    """The extreme of a list that loops have filled, or set; None where Python has to find it.

    Of floats NumPy runs the call where their order counts, as that of NaN and of both zeros does.
    """
    known = flat_list(recorder, items)
    if known is None or known.like is None or known.like[0] is not Number:
        return None
    array: Any = known.array
    like = known.like
    found = Dispatch.call(recorder, name, (array,), {})
    if like[1] is float:
        signs = (found != 0) | (np.signbit(array) == np.signbit(array[0])).all()
        found = checked(found, (array == array).all() & signs)
    return Number(found, *like[1:])


def _of_two(recorder: Recorder, real: Callable[..., Any], first: Any, second: Any) -> Any:
    if all(map(_is_known, (first, second))) or not _are_alike(recorder, first, second):
        return real(first, second)
    takes = second > first if real is max else second < first
    if _is_known(takes):
        return second if takes else first
    condition = takes.box.value() if type(takes) is Number else takes.value()
    try:
        return selected(recorder, condition, "", second, first)
    except Unlike:
        return real(first, second)


def _are_alike(recorder: Recorder, first: Any, second: Any) -> bool:
    """Whether two values are numbers of one type, or of what is the same in arithmetic.

    That is Python's number and NumPy's in a loop, of which data say whose it is.
    """
    types = {_type_of(first), _type_of(second)}
    if len(types) == 1:
        return "" not in types
    kinds = either_kind(first, second) if recorder.loops else None
    return kinds is not None and kinds.is_one


def _type_of(x: Any) -> str:
    """What type a traced scalar, or a number of Python's, is of; empty for others."""
    if _turns(x):
        return "int"
    if type(x) in ELEMENTS or (type(x) is Number and x.mixed is None):
        kind: type = x.kind if type(x) is Number else type(x)
        return kind.__name__
    scalar = isinstance(x, np.generic) or (type(x) is Tracer and x.scalar)
    return str(x.dtype) if scalar and x.dtype.kind in "iuf" else ""


def _is_known(x: Any) -> bool:
    unknown = x.symbolic if type(x) is Tracer else type(x) is Number and x.term is None
    return not (unknown or _turns(x))


def _turns(x: Any) -> bool:
    """Whether it is an int that depends on the number of the round."""
    return type(x) is Index and x.turns
