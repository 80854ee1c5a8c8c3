"""Powers of Python's numbers that the graph computes.

Python raises an error where a power of floats overflows or divides by zero, and gives a complex
number for a root of a negative one. Where data are so, NumPy runs the call.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import numpy as np

from minicc.frontends.trace.loops.indices import Index
from minicc.frontends.trace.numbers import Number, as_float, checked, mixed_like
from minicc.frontends.trace.registry import Dispatch

_SHIFT = 61  # up to which 64 bits hold a power of 2


def power(base: Any, exponent: Any) -> Any:
    """`base ** exponent`, of which one at least is traced; None where Python has to know."""
    if type(base) is int and type(exponent) is Index:
        return _of_an_int(base, exponent)
    pair = base, exponent
    numbers = [n for n in pair if issubclass(type(n), Number)]
    if all(n.term is not None or n.known is not None for n in numbers):
        return None
    few = type(exponent) is int and exponent in (2, 3)
    if few and type(base) is Number and base.kind is int and base.is_lazy:
        return functools.reduce(operator.mul, [base] * exponent)
    kinds = {n.kind if issubclass(type(n), Number) else type(n) for n in pair}
    inverse = type(exponent) is int and exponent < 0
    if not (float in kinds or inverse) or not kinds <= {int, float}:
        return None
    made = _of_floats(numbers[0], base, exponent)
    return None if made is None else mixed_like(Number(made, float), *pair)


def _of_an_int(base: int, exponent: Index) -> Any:
    """A power of -1 or 2; None of others."""
    low, high = exponent.bounds()
    if low >= 0 and base == -1:
        return exponent % 2 * -2 + 1
    if low < 0 or base != 2 or high > _SHIFT:
        return None
    box = exponent.box
    shifted = Dispatch.call(box.recorder, "left_shift", (np.asarray(1, np.int64), box), {})
    made = Number(shifted, int, True)
    made.most = 1 << high
    return made


def _of_floats(like: Number, base: Any, exponent: Any) -> Any:
    """The power as a traced scalar; None of a known negative base where the exponent is no int."""
    whole = exponent.is_integer() if type(exponent) is float else _is_int(exponent)
    if not whole and type(base) in (int, float) and not base >= 0:
        return None
    left, right = (n.as_float().box if type(n) is Index else as_float(n) for n in (base, exponent))
    if not whole and issubclass(type(base), Number):
        left = checked(left, left >= 0)
    square = type(exponent) is int and exponent == 2
    call = ("multiply", (left, left)) if square else ("power", (left, right))
    out = Dispatch.call(like._recorder, *call, {})
    if _is_finite(base, exponent):
        return out
    infinite = ~(abs(left) < math.inf) | ~(abs(right) < math.inf)
    return checked(out, (abs(out) < math.inf) | infinite)


def _is_int(x: Any) -> bool:
    return x.kind is int if issubclass(type(x), Number) else type(x) is int


def _is_finite(base: Any, exponent: Any) -> bool:
    """Whether a known base to the power of the number of a round is finite in all rounds."""
    if type(base) not in (int, float) or type(exponent) is not Index:
        return False
    try:
        return all(math.isfinite(float(base) ** n) for n in exponent.bounds())
    except (OverflowError, ZeroDivisionError):
        return False


Dispatch.power = power
