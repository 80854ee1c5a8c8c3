"""The ops of each ufunc, for values that have the element types of its loop.

Functions without an op of their own are composed where the formula keeps NumPy's accuracy to a few
units in the last place (Kahan's `expm1` and `log1p`, scaled `hypot`); others (`frexp`, `gcd`) are
not here, so NumPy computes them on the host.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minicc.frontends.trace.recorder import Recorder
from minicc.ir import graph
from minicc.ir.core import Op, Value
from minicc.ir.types import BOOL, DTYPES, F32, DType

Emit = Callable[..., Value]
EMIT: dict[str, Emit] = {}


class Formula:
    """Arithmetic on values, written as in a book: operators record ops."""

    __slots__ = ("r", "v")

    def __init__(self, recorder: Recorder, value: Value) -> None:
        self.r = recorder
        self.v = value

    @property
    def dtype(self) -> DType:
        """The element type."""
        element: DType = self.v.type.dtype
        return element

    def _other(self, x: Any) -> Value:
        return x.v if isinstance(x, Formula) else self.r.scalar(x, self.dtype)

    def op(self, cls: type[Op], *rest: Any) -> Formula:
        """Another op on this and further operands, numbers among them."""
        return Formula(self.r, self.r.emit(cls, self.v, *[self._other(x) for x in rest]))

    def __add__(self, x: Any) -> Formula:
        return self.op(graph.Add, x)

    def __sub__(self, x: Any) -> Formula:
        return self.op(graph.Sub, x)

    def __mul__(self, x: Any) -> Formula:
        return self.op(graph.Mul, x)

    def __truediv__(self, x: Any) -> Formula:
        return self.op(graph.Div, x)

    def __neg__(self) -> Formula:
        return self.op(graph.Neg)

    def __lt__(self, x: Any) -> Formula:
        return self.op(graph.Lt, x)

    def eq(self, x: Any) -> Formula:
        """Elementwise equality."""
        return self.op(graph.Eq, x)

    def is_nan(self) -> Formula:
        """Where it is not a number."""
        return self.op(graph.Ne, self)

    def abs(self) -> Formula:
        """The magnitude."""
        return self.op(graph.Abs)

    def exp(self) -> Formula:
        """The exponential."""
        return self.op(graph.Exp)

    def log(self) -> Formula:
        """The natural logarithm."""
        return self.op(graph.Log)

    def choose(self, a: Any, b: Any) -> Formula:
        """`a` where this holds, `b` elsewhere; one of them may be a number."""
        kind = a if isinstance(a, Formula) else b
        if not isinstance(kind, Formula):
            raise TypeError("one of the choices must be a value")
        chosen = (kind._other(a), kind._other(b))
        return Formula(self.r, self.r.emit(graph.Select, self.v, *chosen))


def _plain(name: str, cls: type[Op]) -> None:
    EMIT[name] = lambda recorder, *values: recorder.emit(cls, *values)


for _name, _cls in {
    "subtract": graph.Sub, "divide": graph.Div, "true_divide": graph.Div,
    "floor_divide": graph.FloorDiv, "remainder": graph.Mod, "mod": graph.Mod,
    "power": graph.Pow, "maximum": graph.Max, "minimum": graph.Min, "negative": graph.Neg,
    "exp": graph.Exp, "exp2": graph.Exp2, "log": graph.Log, "sqrt": graph.Sqrt, "tanh": graph.Tanh,
    "log2": graph.Log2, "log10": graph.Log10, "expm1": graph.Expm1, "cbrt": graph.Cbrt,
    "rint": graph.Round, "equal": graph.Eq, "not_equal": graph.Ne, "less": graph.Lt,
    "less_equal": graph.Le, "bitwise_and": graph.And, "bitwise_or": graph.Or,
    "bitwise_xor": graph.Xor, "left_shift": graph.Shl, "right_shift": graph.Shr,
    "invert": graph.Not, "bitwise_not": graph.Not,
    "sin": graph.Sin, "cos": graph.Cos, "tan": graph.Tan, "arcsin": graph.Asin,
    "arccos": graph.Acos, "arctan": graph.Atan, "arcsinh": graph.Asinh, "arccosh": graph.Acosh,
    "arctanh": graph.Atanh, "arctan2": graph.Atan2, "sinh": graph.Sinh,
    "cosh": graph.Cosh, "float_power": graph.Pow,
}.items():  # fmt: skip
    _plain(_name, _cls)


def _formula(*names: str) -> Callable[[Callable[..., Formula]], Callable[..., Formula]]:
    """Register a composed function; f16 and bf16 compute in f32 and are rounded once."""

    def register(f: Callable[..., Formula]) -> Callable[..., Formula]:
        def emit(recorder: Recorder, *values: Value) -> Value:
            narrow = values[0].type.dtype.is_float and values[0].type.dtype.bits < 32
            wide = [recorder.cast(v, F32) if narrow else v for v in values]
            return f(*[Formula(recorder, v) for v in wide]).v

        for name in names:
            EMIT[name] = emit
        return f

    return register


def _by_dtype(name: str, chosen: Callable[[DType], type[Op] | None]) -> None:
    def emit(recorder: Recorder, *values: Value) -> Value:
        cls = chosen(values[0].type.dtype)
        return values[0] if cls is None else recorder.emit(cls, *values)

    EMIT[name] = emit


_by_dtype("add", lambda e: graph.Or if e is BOOL else graph.Add)
_by_dtype("multiply", lambda e: graph.And if e is BOOL else graph.Mul)
_by_dtype("absolute", lambda e: None if e.kind in "bu" else graph.Abs)
_by_dtype("fabs", lambda e: graph.Abs)
_by_dtype("floor", lambda e: graph.Floor if e.is_float else None)
_by_dtype("ceil", lambda e: graph.Ceil if e.is_float else None)
_by_dtype("positive", lambda e: None)
_by_dtype("conjugate", lambda e: None)


def _logical(name: str, cls: type[Op]) -> None:
    EMIT[name] = lambda recorder, *values: recorder.emit(
        cls, *[recorder.cast(v, BOOL) for v in values]
    )


_logical("logical_and", graph.And)
_logical("logical_or", graph.Or)
_logical("logical_xor", graph.Xor)
_logical("logical_not", graph.Not)

EMIT["greater"] = lambda recorder, a, b: recorder.emit(graph.Lt, b, a)
EMIT["greater_equal"] = lambda recorder, a, b: recorder.emit(graph.Le, b, a)


def _classify(name: str, of_float: Callable[[Formula], Formula], of_integer: bool) -> None:
    def emit(recorder: Recorder, x: Value) -> Value:
        if x.type.dtype.is_float:
            return of_float(Formula(recorder, x)).v
        return recorder.broadcast(recorder.scalar(of_integer, BOOL), tuple(x.type.extents))

    EMIT[name] = emit


_classify("isnan", Formula.is_nan, False)
_classify("isinf", lambda x: x.abs().eq(np.inf), False)
_classify("isfinite", lambda x: x.abs() < np.inf, True)


@_formula("square")
def _square(x: Formula) -> Formula:
    return Formula(x.r, EMIT["multiply"](x.r, x.v, x.v))


@_formula("reciprocal")
def _reciprocal(x: Formula) -> Formula:
    if x.dtype.is_float:
        return Formula(x.r, x.r.scalar(1, x.dtype)) / x
    with np.errstate(all="ignore"):
        of_zero = np.reciprocal(np.zeros(1, x.dtype.numpy))[0].item()  # the machine's own
    unit = (
        x.eq(1) if x.dtype.kind == "u" else Formula(x.r, x.r.emit(graph.Or, x.eq(1).v, x.eq(-1).v))
    )
    zero = Formula(x.r, x.r.scalar(0, x.dtype))
    return unit.choose(x, x.eq(0).choose(of_zero, zero))


@_formula("sign")
def _sign(x: Formula) -> Formula:
    zero = Formula(x.r, x.r.scalar(0, x.dtype))
    signed = x if x.dtype.kind == "u" else (x < 0).choose(-1, x)
    return (zero < x).choose(1, x.eq(0).choose(0, signed))


@_formula("trunc")
def _trunc(x: Formula) -> Formula:
    return (x < 0).choose(x.op(graph.Ceil), x.op(graph.Floor)) if x.dtype.is_float else x


@_formula("fmax")
def _fmax(a: Formula, b: Formula) -> Formula:
    return _but_nan(a, b, graph.Max)


@_formula("fmin")
def _fmin(a: Formula, b: Formula) -> Formula:
    return _but_nan(a, b, graph.Min)


def _but_nan(a: Formula, b: Formula, cls: type[Op]) -> Formula:
    if not a.dtype.is_float:
        return a.op(cls, b)
    return a.is_nan().choose(b, b.is_nan().choose(a, a.op(cls, b)))


@_formula("log1p")
def _log1p(x: Formula) -> Formula:
    u = x + 1
    kahan = u.log() * (x / (u - 1))
    return u.eq(1).choose(x, u.eq(np.inf).choose(u, kahan))


@_formula("hypot")
def _hypot(a: Formula, b: Formula) -> Formula:
    large = a.abs().op(graph.Max, b.abs())
    ratio = a.abs().op(graph.Min, b.abs()) / large
    scaled = large * (ratio * ratio + 1).op(graph.Sqrt)
    infinite = a.abs().eq(np.inf).op(graph.Or, b.abs().eq(np.inf))
    return infinite.choose(np.inf, large.eq(0).choose(large, scaled))


@_formula("logaddexp")
def _logaddexp(a: Formula, b: Formula) -> Formula:
    larger = a.op(graph.Max, b)
    apart = larger + _log1p((-(a - b).abs()).exp())
    return a.eq(b).choose(a + math.log(2), apart)


@_formula("deg2rad", "radians")
def _radians(x: Formula) -> Formula:
    return x * (math.pi / 180)


@_formula("rad2deg", "degrees")
def _degrees(x: Formula) -> Formula:
    return x * (180 / math.pi)


@_formula("erf")
def _erf(x: Formula) -> Formula:
    return x.op(graph.Erf)


@_formula("expit")
def _expit(x: Formula) -> Formula:
    one = Formula(x.r, x.r.scalar(1, x.dtype))
    return one / ((-x).exp() + 1)


@_formula("signbit")
def _signbit(x: Formula) -> Formula:
    """Where the sign is set, also that of a zero or of what is no number."""
    whole = DTYPES[f"i{x.dtype.bits}"] if x.dtype.is_float else x.dtype
    return Formula(x.r, x.r.emit(graph.BitCast, x.v, whole)) < 0


@_formula("copysign")
def _copysign(a: Formula, b: Formula) -> Formula:
    return _signbit(b).choose(-a.abs(), a.abs())


@_formula("heaviside")
def _heaviside(x: Formula, h: Formula) -> Formula:
    level = (x < 0).choose(0, x.eq(0).choose(h, Formula(x.r, x.r.scalar(1, x.dtype))))
    return x.is_nan().choose(x, level)


@_formula("logaddexp2")
def _logaddexp2(a: Formula, b: Formula) -> Formula:
    larger = a.op(graph.Max, b)
    apart = larger + _log1p((-(a - b).abs()).op(graph.Exp2)) / math.log(2)
    return a.eq(b).choose(a + 1, apart)


@_formula("fmod")
def _fmod(a: Formula, b: Formula) -> Formula:
    if a.dtype.kind == "u":
        return a.op(graph.Mod, b)
    if a.dtype.is_float:
        size = a.abs().op(graph.Mod, b.abs())
        return _signbit(a).choose(-size, size)
    floored = a.op(graph.Mod, b)
    apart = (a < 0).op(graph.Xor, b < 0).op(graph.And, floored.eq(0).op(graph.Not))
    return apart.choose(floored - b, floored)
