"""The derivatives of elementwise ops: what came to the result, times the slope by an operand.

Where a function has a corner, as a maximum has where both are equal, its slope is the mean of those
on both sides. So a smooth function that is made of such ones has its own slope there, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minicc.ir import graph
from minicc.ir.build import Builder
from minicc.ir.core import Literal, Op, Value
from minicc.ir.graph.shapes import Shape

Rule = Callable[[Builder, Any, Value, int], Value | None]


class NoDerivativeError(Exception):
    """An op on the way from an input to the result has no rule; `op` is this op."""

    def __init__(self, op: Op) -> None:
        super().__init__(op.opname)
        self.op = op


def number(b: Builder, n: float, like: Value) -> Value:
    """A constant of rank 0 with the element type of `like`."""
    return b.emit(graph.Constant, Literal(np.array(n, like.type.dtype.numpy)))


def summed_to(b: Builder, x: Value, shape: Shape) -> Value:
    """A tensor of as many elements as `shape` has, of one that was broadcast from it."""
    lead = x.type.rank - len(shape)
    pairs = enumerate(zip(x.type.shape[lead:], shape, strict=True), lead)
    axes = (*range(lead), *(k for k, (n, m) in pairs if m == 1 and n != 1))
    return b.emit(graph.Reduce, x, axes=axes, combine="add") if axes else x


class Term:
    """A value in a formula, where numbers become constants of its element type."""

    __slots__ = ("b", "value")

    def __init__(self, b: Builder, value: Value) -> None:
        self.b = b
        self.value = value

    def _made(self, cls: type[Op], *operands: Term | float) -> Term:
        values = [
            t.value if isinstance(t, Term) else number(self.b, t, self.value) for t in operands
        ]
        return Term(self.b, self.b.emit(cls, *values))

    def __add__(self, other: Term | float) -> Term:
        return self._made(graph.Add, self, other)

    def __sub__(self, other: Term | float) -> Term:
        return self._made(graph.Sub, self, other)

    def __rsub__(self, other: float) -> Term:
        return self._made(graph.Sub, other, self)

    def __mul__(self, other: Term | float) -> Term:
        return self._made(graph.Mul, self, other)

    def __truediv__(self, other: Term | float) -> Term:
        return self._made(graph.Div, self, other)

    def __rtruediv__(self, other: float) -> Term:
        return self._made(graph.Div, other, self)

    def __neg__(self) -> Term:
        return self._made(graph.Neg, self)

    def of(self, cls: type[Op], *others: Term | float) -> Term:
        """An op on this value, and on others after it."""
        return self._made(cls, self, *others)

    def zero_where(self, other: Term) -> Term:
        """This value, but 0 where another is."""
        nothing = number(self.b, 0, self.value)
        is_zero = other.of(graph.Eq, 0).value
        return Term(self.b, self.b.emit(graph.Select, is_zero, nothing, self.value))

    def step(self) -> Term:
        """1 above 0, 0 below, and a half at 0."""
        above, below = (number(self.b, n, self.value) for n in (1, 0))
        half = number(self.b, 0.5, self.value)
        least = self.b.emit(graph.Select, self.of(graph.Lt, 0).value, below, half)
        is_above = self.b.emit(graph.Lt, below, self.value)
        return Term(self.b, self.b.emit(graph.Select, is_above, above, least))


def scaled(b: Builder, came: Value, slope: Term) -> Value:
    """What came times a slope; nothing, as from a branch that was not chosen, stays nothing."""
    return (Term(b, came) * slope).zero_where(Term(b, came)).value


# The slope of a function of x whose value is y.
_SLOPES: dict[type[Op], Callable[[Term, Term], Term]] = {
    graph.Abs: lambda x, y: x.step() * 2 - 1,
    graph.Exp: lambda x, y: y,
    graph.Exp2: lambda x, y: y * math.log(2),
    graph.Exp2Nonpositive: lambda x, y: y * math.log(2),
    graph.Expm1: lambda x, y: y + 1,
    graph.Log: lambda x, y: 1 / x,
    graph.Log2: lambda x, y: math.log2(math.e) / x,
    graph.Log10: lambda x, y: math.log10(math.e) / x,
    graph.Cbrt: lambda x, y: y / (x * 3),
    graph.Sqrt: lambda x, y: 0.5 / y,
    graph.Tanh: lambda x, y: 1 - y * y,
    graph.Erf: lambda x, y: (-(x * x)).of(graph.Exp) * (2 / math.sqrt(math.pi)),
    graph.Sin: lambda x, y: x.of(graph.Cos),
    graph.Cos: lambda x, y: -x.of(graph.Sin),
    graph.Tan: lambda x, y: y * y + 1,
    graph.Asin: lambda x, y: 1 / (1 - x * x).of(graph.Sqrt),
    graph.Acos: lambda x, y: -1 / (1 - x * x).of(graph.Sqrt),
    graph.Atan: lambda x, y: 1 / (x * x + 1),
    graph.Sinh: lambda x, y: x.of(graph.Cosh),
    graph.Cosh: lambda x, y: x.of(graph.Sinh),
    graph.Asinh: lambda x, y: 1 / (x * x + 1).of(graph.Sqrt),
    graph.Acosh: lambda x, y: 1 / (x * x - 1).of(graph.Sqrt),
    graph.Atanh: lambda x, y: 1 / (1 - x * x),
}


def _power(a: Term, b: Term, y: Term, k: int) -> Term:
    """The slopes of a to the power b; neither is infinite where the power is constant at 0."""
    if k == 0:
        return (b * a.of(graph.Pow, b - 1)).zero_where(b)
    return (y * a.of(graph.Log)).zero_where(a)


def _angle(a: Term, b: Term, k: int) -> Term:
    return (-a if k else b) / (a * a + b * b)


# The slope of a function of a and b whose value is y, by the first (0) or the second (1).
_SLOPES_OF_TWO: dict[type[Op], Callable[[Term, Term, Term, int], Term]] = {
    graph.Mul: lambda a, b, y, k: a if k else b,
    graph.Div: lambda a, b, y, k: -(y / b) if k else 1 / b,
    graph.Max: lambda a, b, y, k: (b - a if k else a - b).step(),
    graph.Min: lambda a, b, y, k: (a - b if k else b - a).step(),
    graph.Pow: _power,
    graph.Atan2: lambda a, b, y, k: _angle(a, b, k),
}


def _by_slope(b: Builder, op: Op, came: Value, k: int) -> Value:
    """What came, times the slope."""
    terms = [Term(b, v) for v in (*op.operands, op.result)]
    if len(terms) == 2:
        slope = _SLOPES[type(op)](terms[0], terms[1])
    else:
        slope = _SLOPES_OF_TWO[type(op)](terms[0], terms[1], terms[2], k)
    return scaled(b, came, slope)


def _sum(b: Builder, op: Op, came: Value, k: int) -> Value:
    """As it came, with the other sign where it was taken away."""
    taken_away = isinstance(op, graph.Neg) or (isinstance(op, graph.Sub) and k == 1)
    return b.emit(graph.Neg, came) if taken_away else came


def _remainder(b: Builder, op: graph.Mod, came: Value, k: int) -> Value:
    """The quotient is constant between its steps."""
    if k == 0:
        return came
    return scaled(b, came, -Term(b, op.a).of(graph.FloorDiv, Term(b, op.b)))


def _select(b: Builder, op: graph.Select, came: Value, k: int) -> Value:
    nothing = number(b, 0, came)
    parts = (came, nothing) if k == 1 else (nothing, came)
    return b.emit(graph.Select, op.condition, *parts)


def _cast(b: Builder, op: graph.Cast, came: Value, k: int) -> Value:
    return b.emit(graph.Cast, came, dtype=op.x.type.dtype)


ELEMENTS: dict[type[Op], Rule] = {
    **dict.fromkeys((*_SLOPES, *_SLOPES_OF_TWO), _by_slope),
    **dict.fromkeys((graph.Add, graph.Sub, graph.Neg), _sum),
    graph.Mod: _remainder,
    graph.Select: _select,
    graph.Cast: _cast,
}
