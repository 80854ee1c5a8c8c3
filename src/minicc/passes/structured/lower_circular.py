"""Circular and hyperbolic functions as scalar bodies in f64, rounded once to the narrower type.

    graph.sin f32   -->   structured.generic { turns of x, exactly; the nearest quarter; two
                                               polynomials on an eighth of a turn; select; cast }

Turns are x / (2 pi) without its whole part. 1 / (2 pi) is cut into pieces of 28 bits, so that the
products with an f32 are exact and their whole parts can be dropped one by one, whatever the size of
x. There is no f64 form: what f64 wants is more than f64 gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from minicc.ir import arith, graph
from minicc.ir.build import Builder
from minicc.ir.core import Literal, Op, Value
from minicc.ir.types import BOOL, F64

# pi to 250 bits: enough for the largest f32, whose last bit stands for 2**104
_PI = Fraction(
    int("3141592653589793238462643383279502884197169399375105820974944592307816406286208998"),
    10**81,
)
_BITS = 28
_PIECES = 8
_TERMS = 9


class Body:
    """Short names for the scalar ops of a body in f64."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder

    def number(self, value: float) -> Value:
        """A constant."""
        return self.builder.emit(arith.Constant, value=Literal(np.float64(value)))

    def op(self, cls: type[Op], *args: Value | float) -> Value:
        """An op on values and numbers."""
        values = [a if isinstance(a, Value) else self.number(a) for a in args]
        return self.builder.emit(cls, *values)

    def choose(self, condition: Value, a: Value | float, b: Value | float) -> Value:
        """`a` where the condition holds, else `b`."""
        assert condition.type.dtype is BOOL
        return self.op(arith.Select, condition, a, b)

    def polynomial(self, x: Value, factors: Sequence[float]) -> Value:
        """A polynomial, of which the constant term comes first."""
        out = self.number(factors[-1])
        for factor in reversed(factors[:-1]):
            out = self.op(arith.Add, self.op(arith.Mul, out, x), factor)
        return out


def _pieces() -> list[float]:
    """1 / (2 pi) as a sum of numbers of 28 bits each."""
    rest = 1 / (2 * _PI)
    out: list[float] = []
    for k in range(_PIECES):
        scale = 2 ** (_BITS * (k + 1) + 2)
        whole = int(rest * scale)
        out.append(float(Fraction(whole, scale)))
        rest -= Fraction(whole, scale)
    return out


_TURNS = _pieces()
_SIN = [(-1) ** k / math.factorial(2 * k + 1) for k in range(_TERMS)]
_COS = [(-1) ** k / math.factorial(2 * k) for k in range(_TERMS)]
_ATAN = [(-1) ** k / (2 * k + 1) for k in range(16)]


def _quarters(b: Body, x: Value) -> tuple[Value, Value, Value]:
    """The nearest quarter of a turn (-2 to 2), and sine and cosine of what is beyond it."""
    turns: Value | None = None
    for piece in _TURNS:
        product = b.op(arith.Mul, x, piece)
        part = b.op(arith.Sub, product, b.op(arith.Round, product))
        turns = part if turns is None else b.op(arith.Add, turns, part)
    assert turns is not None
    turns = b.op(arith.Sub, turns, b.op(arith.Round, turns))
    quarter = b.op(arith.Round, b.op(arith.Mul, turns, 4.0))
    rest = b.op(arith.Sub, turns, b.op(arith.Mul, quarter, 0.25))
    angle = b.op(arith.Mul, rest, 2 * math.pi)
    square = b.op(arith.Mul, angle, angle)
    sine = b.op(arith.Mul, angle, b.polynomial(square, _SIN))
    return quarter, sine, b.polynomial(square, _COS)


def _is_odd(b: Body, quarter: Value) -> Value:
    return b.op(arith.Eq, b.op(arith.Abs, quarter), 1.0)


def _wave(b: Body, quarter: Value, on_even: Value, on_odd: Value, negative: Sequence[int]) -> Value:
    """One of two values by the quarter, less than 0 in some quarters."""
    value = b.choose(_is_odd(b, quarter), on_odd, on_even)
    less: Value | None = None
    for q in negative:
        here = b.op(arith.Eq, quarter, float(q))
        less = here if less is None else b.op(arith.Or, less, here)
    assert less is not None
    return b.choose(less, b.op(arith.Neg, value), value)


def _sin(b: Body, x: Value) -> Value:
    quarter, sine, cosine = _quarters(b, x)
    return _wave(b, quarter, sine, cosine, (-2, -1, 2))


def _cos(b: Body, x: Value) -> Value:
    quarter, sine, cosine = _quarters(b, x)
    return _wave(b, quarter, cosine, sine, (-2, 1, 2))


def _tan(b: Body, x: Value) -> Value:
    quarter, sine, cosine = _quarters(b, x)
    odd = _is_odd(b, quarter)
    above = b.choose(odd, b.op(arith.Neg, cosine), sine)
    return b.op(arith.Div, above, b.choose(odd, sine, cosine))


def _atan(b: Body, x: Value) -> Value:
    size = b.op(arith.Abs, x)
    large = b.op(arith.Lt, 1.0, size)
    small = b.choose(large, b.op(arith.Div, 1.0, size), size)
    # of the second half the distance from an eighth of a turn
    upper = b.op(arith.Lt, math.tan(math.pi / 8), small)
    less, more = b.op(arith.Sub, small, 1.0), b.op(arith.Add, small, 1.0)
    z = b.choose(upper, b.op(arith.Div, less, more), small)
    out = b.op(arith.Mul, z, b.polynomial(b.op(arith.Mul, z, z), _ATAN))
    out = b.choose(upper, b.op(arith.Add, out, math.pi / 4), out)
    out = b.choose(large, b.op(arith.Sub, math.pi / 2, out), out)
    return b.choose(b.op(arith.Lt, x, 0.0), b.op(arith.Neg, out), out)


def _asin(b: Body, x: Value) -> Value:
    both = b.op(arith.Mul, b.op(arith.Sub, 1.0, x), b.op(arith.Add, 1.0, x))
    return _atan(b, b.op(arith.Div, x, b.op(arith.Sqrt, both)))


def _acos(b: Body, x: Value) -> Value:
    return b.op(arith.Sub, math.pi / 2, _asin(b, x))


def _near_zero(b: Body, x: Value, limit: float, factors: Sequence[float], other: Value) -> Value:
    """A series of odd powers about 0, elsewhere something else."""
    near = b.op(arith.Lt, b.op(arith.Abs, x), limit)
    series = b.op(arith.Mul, x, b.polynomial(b.op(arith.Mul, x, x), factors))
    return b.choose(near, series, other)


def _sinh(b: Body, x: Value) -> Value:
    power = b.op(arith.Exp, x)
    gap = b.op(arith.Sub, power, b.op(arith.Div, 1.0, power))
    half = b.op(arith.Mul, gap, 0.5)
    return _near_zero(b, x, 0.1, [1, 1 / 6, 1 / 120, 1 / 5040, 1 / 362880], half)


def _cosh(b: Body, x: Value) -> Value:
    power = b.op(arith.Exp, x)
    return b.op(arith.Mul, b.op(arith.Add, power, b.op(arith.Div, 1.0, power)), 0.5)


def _asinh(b: Body, x: Value) -> Value:
    size = b.op(arith.Abs, x)
    root = b.op(arith.Sqrt, b.op(arith.Add, b.op(arith.Mul, x, x), 1.0))
    log = b.op(arith.Log, b.op(arith.Add, size, root))
    signed = b.choose(b.op(arith.Lt, x, 0.0), b.op(arith.Neg, log), log)
    return _near_zero(b, x, 0.02, [1, -1 / 6, 3 / 40, -15 / 336, 105 / 3456], signed)


def _acosh(b: Body, x: Value) -> Value:
    root = b.op(arith.Sqrt, b.op(arith.Sub, b.op(arith.Mul, x, x), 1.0))
    return b.op(arith.Log, b.op(arith.Add, x, root))


def _atanh(b: Body, x: Value) -> Value:
    ratio = b.op(arith.Div, b.op(arith.Add, 1.0, x), b.op(arith.Sub, 1.0, x))
    half = b.op(arith.Mul, b.op(arith.Log, ratio), 0.5)
    return _near_zero(b, x, 0.02, [1, 1 / 3, 1 / 5, 1 / 7, 1 / 9], half)


_BODIES: dict[type[Op], Callable[[Body, Value], Value]] = {
    graph.Sin: _sin,
    graph.Cos: _cos,
    graph.Tan: _tan,
    graph.Asin: _asin,
    graph.Acos: _acos,
    graph.Atan: _atan,
    graph.Sinh: _sinh,
    graph.Cosh: _cosh,
    graph.Asinh: _asinh,
    graph.Acosh: _acosh,
    graph.Atanh: _atanh,
}
_ODD = (graph.Sin, graph.Tan, graph.Asin, graph.Atan, graph.Sinh, graph.Asinh, graph.Atanh)


def circular_body(op: Any) -> Callable[[Builder, Sequence[Value]], Value]:
    """The scalar body of a circular function on f32, f16 or bf16."""

    def body(builder: Builder, scalars: Sequence[Value]) -> Value:
        b = Body(builder)
        element = scalars[0].type.dtype
        x = builder.emit(arith.Cast, scalars[0], dtype=F64)
        out = _BODIES[type(op)](b, x)
        if isinstance(op, _ODD):
            # these keep the sign of a zero
            out = b.choose(b.op(arith.Eq, x, 0.0), x, out)
        return builder.emit(arith.Cast, out, dtype=element)

    return body
