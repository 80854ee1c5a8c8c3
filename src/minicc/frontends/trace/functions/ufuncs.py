"""NumPy's ufuncs: NumPy chooses the element types of the loop, a table says which ops it is.

`ufunc.resolve_dtypes` is NumPy's own promotion, weak Python scalars included, so types agree with
NumPy's by construction. The formulas of composed functions stand in `formulas`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from minicc.frontends.trace.dispatch import content_of, value_of
from minicc.frontends.trace.functions.complex_numbers import OF_COMPLEX
from minicc.frontends.trace.functions.formulas import EMIT
from minicc.frontends.trace.lens import Content
from minicc.frontends.trace.mixed import is_mixed, own_type, require_one_type
from minicc.frontends.trace.numbers import Number, has_term
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import FUNCTIONS, traces
from minicc.frontends.trace.tracer import Tracer
from minicc.ir import graph
from minicc.ir.build import whole_power
from minicc.ir.core import Value
from minicc.ir.types import BOOL, I64, DType

_COMPARISONS = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}
Operand = Content | int | float | complex | Number


def operand(recorder: Recorder, x: Any) -> Operand:
    """An argument of a ufunc; Python's own numbers stay themselves, for they are weak."""
    if isinstance(x, Number) and x.kind is not bool:
        return x
    if isinstance(x, (int, float, complex)) and not isinstance(x, (bool, np.generic)):
        return x
    return content_of(recorder, x)


def kind(x: Operand) -> Any:
    """What NumPy's promotion wants to know of an operand: a dtype, or Python's type if weak."""
    if isinstance(x, Value):
        return x.type.dtype.numpy
    if isinstance(x, np.ndarray):
        return x.dtype
    if isinstance(x, Number):
        return own_type(x)
    return next(k for k in (int, float, complex) if isinstance(x, k))


def converted(recorder: Recorder, x: Operand, element: DType) -> Value:
    """An operand as a value of an element type."""
    if isinstance(x, Value):
        return recorder.cast(x, element)
    if isinstance(x, Number):
        return _converted_number(recorder, x, element)
    if isinstance(x, np.ndarray):
        if x.ndim == 0 or x.size < 1 << 12:
            with np.errstate(all="ignore"):
                return recorder.lift(x.astype(element.numpy) if x.dtype != element.numpy else x)
        return recorder.cast(recorder.lift(x), element)
    return recorder.scalar(x, element)


def _converted_number(recorder: Recorder, x: Any, element: DType) -> Value:
    """A traced Python number in the type of the loop; an integer that may not fit is read."""
    exact = has_term(x) or element.is_integer
    if exact and x.kind is int and not (x.fits(element) and x.fits(I64)):
        return recorder.scalar(x.read(f"a conversion to {element}"), element)
    return recorder.cast(x.box.value(), element)


def apply(recorder: Recorder, name: str, *xs: Any, dtype: Any = None) -> Value:
    """Record a ufunc on array-likes; NumPy's TypeError where no loop fits."""
    ufunc = getattr(np, name)
    operands = [operand(recorder, x) for x in xs]
    if name == "power" and len(operands) == 2:
        operands[1] = _exponent(operands[0], operands[1])
    if name == "power" and len(operands) == 2 and dtype is None:
        special = _power(recorder, operands[0], operands[1])
        if special is not None:
            return special
    kinds = tuple(kind(x) for x in operands)
    out = (None,) * ufunc.nout
    wanted: dict[str, Any] = {}
    if dtype is not None:
        wanted["signature"] = (*(None,) * ufunc.nin, np.dtype(dtype))
    *ins, result = ufunc.resolve_dtypes((*kinds, *out), **wanted)
    mixed: list[Any] = [x for x in operands if is_mixed(x)]
    if mixed:  # it must not matter whose they are
        pairs: Any = zip(operands, kinds, strict=True)
        sure = [np.dtype(x.mixed.kinds.theirs) if is_mixed(x) else k for x, k in pairs]
        if ufunc.resolve_dtypes((*sure, *out), **wanted) != (*ins, result):
            require_one_type(mixed[0])
    if name in _COMPARISONS:
        uniform = _out_of_range(recorder, ufunc, operands)
        if uniform is not None:
            return uniform
        if ins[0] != ins[1]:
            recorder.refuse("MC0245", f"np.{name} of {ins[0]} and {ins[1]} is not traced")
    element = recorder.dtype(result)
    loop = [recorder.dtype(t) for t in ins]
    if name == "power" and element.is_integer:
        recorder.refuse("MC0241", "np.power of integers to a traced power is not traced")
    values = [converted(recorder, x, e) for x, e in zip(operands, loop, strict=True)]
    emit = (OF_COMPLEX if any(e.is_complex for e in loop) else EMIT).get(name)
    if emit is None:
        recorder.refuse("MC0241", f"np.{name} of complex numbers is not traced")
    return recorder.cast(emit(recorder, *values), element)


def _out_of_range(recorder: Recorder, ufunc: Any, operands: list[Operand]) -> Value | None:
    """A comparison with a Python int that the element type can't hold has one outcome for all."""
    for k, x in enumerate(operands):
        other = operands[1 - k]
        if type(x) is int and isinstance(other, Value) and other.type.dtype.is_integer:
            limits = np.iinfo(other.type.dtype.numpy)
            if not limits.min <= x <= limits.max:
                zero = np.zeros((), other.type.dtype.numpy)
                outcome = ufunc(x, zero) if k == 0 else ufunc(zero, x)
                return recorder.broadcast(recorder.scalar(outcome, BOOL), tuple(other.type.extents))
    return None


def _exponent(base: Operand, exponent: Any) -> Operand:
    """An exponent; one of those that NumPy has other ways for as a constant."""
    if not has_term(exponent):
        return exponent  # type: ignore[no-any-return]
    if isinstance(base, (Value, np.ndarray)) and kind(base).kind != "f":
        return exponent.read("an exponent")  # type: ignore[no-any-return]
    short = [exponent.kind(e) for e in (0.5, 1, 2) if exponent == e]
    return short[0] if short else exponent  # type: ignore[no-any-return]


def _power(recorder: Recorder, base: Operand, exponent: Operand) -> Value | None:
    """Powers by a Python number that NumPy computes exactly; None where there is no short way."""
    if not isinstance(base, Value) or type(exponent) not in (int, float):
        return None
    element = base.type.dtype
    if element.is_float or element.is_complex:
        if exponent == 2:
            return recorder.emit(graph.Mul, base, base)
        if exponent == 1:
            return base
        if exponent == 0.5 and element.is_float and element.bits > 16:
            return recorder.emit(graph.Sqrt, base)
        return None
    if not isinstance(exponent, int) or not element.is_integer:
        return None
    if exponent > np.iinfo(element.numpy).max:
        raise OverflowError(f"Python integer {exponent} out of bounds for {element.numpy}")
    if exponent < 0:
        raise ValueError("Integers to negative integer powers are not allowed.")
    if not exponent:
        return recorder.broadcast(recorder.scalar(1, element), tuple(base.type.extents))
    return whole_power(partial(recorder.emit, graph.Mul), base, exponent)


def _register(name: str) -> None:
    def ufunc(recorder: Recorder, *xs: Any, dtype: Any = None) -> Value:
        wanted = getattr(np, name).nin
        if len(xs) != wanted:
            raise TypeError(f"takes {wanted} arrays, not {len(xs)}")
        return apply(recorder, name, *xs, dtype=dtype)

    def outer(recorder: Recorder, a: Any, b: Any) -> Value:
        left, right = value_of(recorder, a), value_of(recorder, b)
        shape = (*left.type.extents, *(1,) * right.type.rank)
        column = Tracer(recorder, recorder.reshape(left, shape))
        return apply(recorder, name, column, Tracer(recorder, right))

    FUNCTIONS[name] = ufunc
    if getattr(np, name).nin == 2:
        FUNCTIONS[f"{name}.outer"] = outer


for _name in EMIT:
    if isinstance(getattr(np, _name, None), np.ufunc):
        _register(_name)
FUNCTIONS["abs"] = FUNCTIONS["absolute"]


@traces("erf")
def erf(recorder: Recorder, x: Any) -> Value:
    """The error function; scipy.special's arrives by `__array_ufunc__`."""
    return _special(recorder, "erf", x)


@traces("expit")
def expit(recorder: Recorder, x: Any) -> Value:
    """The logistic function; scipy.special's arrives by `__array_ufunc__`."""
    return _special(recorder, "expit", x)


def _special(recorder: Recorder, name: str, x: Any) -> Value:
    value = value_of(recorder, x)
    element = recorder.dtype(np.sqrt.resolve_dtypes((value.type.dtype.numpy, None))[1])
    return recorder.cast(EMIT[name](recorder, recorder.cast(value, element)), element)


def _promoted(x: Operand) -> Any:
    """An operand for `np.result_type`."""
    if isinstance(x, Number):
        return x.kind(0)
    return x if isinstance(x, (int, float, complex)) else kind(x)


@traces("where")
def where(recorder: Recorder, condition: Any, x: Any, y: Any) -> Value:
    """Elements of `x` where the condition holds, of `y` elsewhere."""
    operands = [operand(recorder, x), operand(recorder, y)]
    numpy_dtype = np.result_type(*map(_promoted, operands))
    element = recorder.dtype(numpy_dtype)
    chosen = recorder.cast(value_of(recorder, condition), BOOL)
    a, b = (converted(recorder, _cast_int(o, element), element) for o in operands)
    return recorder.emit(graph.Select, chosen, a, b)


def _is_int(x: Any) -> bool:
    return type(x) is int or (has_term(x) and x.kind is int)


def _cast_int(x: Any, element: DType) -> Any:
    """A Python int of `where`, which NumPy casts, so that one that does not fit wraps."""
    if not _is_int(x) or not element.is_integer or (has_term(x) and x.fits(element)):
        return x
    return np.asarray(x.read("a cast") if has_term(x) else x).astype(element.numpy)


@traces("clip")
def clip(
    recorder: Recorder,
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    min: Any = None,
    max: Any = None,
) -> Value:
    """Not below `a_min`, not above `a_max`; either may be None."""
    low, high = a_min if min is None else min, a_max if max is None else max
    x = value_of(recorder, a)
    out: Any = Tracer(recorder, x)
    if x.type.dtype.is_integer:  # a Python int beyond the type's own bounds is none
        limits = np.iinfo(x.type.dtype.numpy)
        low = None if _is_int(low) and low <= limits.min else low
        high = None if _is_int(high) and high >= limits.max else high
    ends = [_promoted(operand(recorder, e)) for e in (low, high) if e is not None]
    # of one type, as NumPy's loop of three operands is
    out = Tracer(recorder, recorder.cast(x, recorder.dtype(np.result_type(out.dtype, *ends))))
    if low is not None:
        out = Tracer(recorder, apply(recorder, "maximum", out, low))
    if high is not None:
        out = Tracer(recorder, apply(recorder, "minimum", out, high))
    return value_of(recorder, out)


@traces("round", "around")
def round_(recorder: Recorder, a: Any, decimals: int = 0) -> Value:
    """The nearest number with so many decimals, ties to even, scaled as NumPy does."""
    x = value_of(recorder, a)
    element = x.type.dtype
    if element.is_integer and decimals >= 0:
        return x
    if not element.is_float:
        recorder.refuse("MC0241", f"np.round of {element} to {decimals} decimals is not traced")
    if not decimals:
        return recorder.emit(graph.Round, x)
    scale = recorder.scalar(10.0 ** abs(decimals), element)
    up, down = (graph.Mul, graph.Div) if decimals > 0 else (graph.Div, graph.Mul)
    return recorder.emit(down, recorder.emit(graph.Round, recorder.emit(up, x, scale)), scale)


@traces("isclose")
def isclose(
    recorder: Recorder,
    a: Any,
    b: Any,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> Value:
    """Whether |a - b| <= atol + rtol * |b|, equal infinities included."""
    np_ = recorder.namespace
    left, right = Tracer(recorder, value_of(recorder, a)), Tracer(recorder, value_of(recorder, b))
    if right.dtype.kind != "f":
        right = right.astype(np.result_type(right.dtype, 1.0))
    near = (abs(left - right) <= atol + rtol * abs(right)) & np_.isfinite(right)
    same = near | (left == right)
    if equal_nan and left.dtype.kind == "f":
        same = same | (np_.isnan(left) & np_.isnan(right))
    return value_of(recorder, same)
