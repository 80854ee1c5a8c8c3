"""Elementwise graph ops.

NumPy's ufuncs with implicit broadcasting, each with the meaning of one arith op.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from minicc.ir import arith
from minicc.ir.affine import Dim
from minicc.ir.core import Op, RunRegion, Value
from minicc.ir.types import DType, TensorType


def broadcast_shapes(*shapes: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """NumPy's broadcasting of shapes that may hold symbols.

    TypeError where two extents differ and neither is 1.
    """
    rank = max((len(s) for s in shapes), default=0)
    out: list[Dim] = []
    for axis in range(-rank, 0):
        extents = [s[axis] for s in shapes if len(s) >= -axis and s[axis] != 1]
        if any(n != extents[0] for n in extents[1:]):
            raise TypeError(f"shapes {[list(s) for s in shapes]} do not broadcast")
        out.append(extents[0] if extents else 1)
    return tuple(out)


class Elementwise(Op):
    """Apply `scalar`, an arith op, to each element of operands that broadcast to one shape."""

    __slots__ = ()
    scalar: ClassVar[type[arith.Elementwise]]

    def infer(self) -> tuple[TensorType, ...]:
        types = [v.type for v in self.operands]
        dtype: DType = self.scalar.result_dtype([t.dtype for t in types])
        return (TensorType(dtype, broadcast_shapes(*[t.shape for t in types])),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        with np.errstate(all="ignore"):
            out = self.scalar.compute(*[np.asarray(a) for a in args])
        return (np.asarray(out, self.result.type.dtype.numpy),)


class _Unary(Elementwise):
    __slots__ = ()
    x: Value


class _Binary(Elementwise):
    __slots__ = ()
    a: Value
    b: Value


class Add(_Binary, name="graph.add"):
    """a + b."""

    scalar = arith.Add


class Sub(_Binary, name="graph.sub"):
    """a - b."""

    scalar = arith.Sub


class Mul(_Binary, name="graph.mul"):
    """a * b."""

    scalar = arith.Mul


class Div(_Binary, name="graph.div"):
    """a / b; integers truncate toward zero, and anything by 0 is 0."""

    scalar = arith.Div


class FloorDiv(_Binary, name="graph.floordiv"):
    """The largest integer not above a / b; integers by 0 give 0."""

    scalar = arith.FloorDiv


class Mod(_Binary, name="graph.mod"):
    """a - floordiv(a, b) * b, with the sign of b; integers by 0 give 0."""

    scalar = arith.Mod


class Max(_Binary, name="graph.max"):
    """The greater; NaN if either is."""

    scalar = arith.Max


class Min(_Binary, name="graph.min"):
    """The smaller; NaN if either is."""

    scalar = arith.Min


class Pow(_Binary, name="graph.pow"):
    """a to the power b, for floats."""

    scalar = arith.Pow


class And(_Binary, name="graph.and"):
    """Bitwise and; logical on booleans."""

    scalar = arith.And


class Or(_Binary, name="graph.or"):
    """Bitwise or; logical on booleans."""

    scalar = arith.Or


class Xor(_Binary, name="graph.xor"):
    """Bitwise exclusive or; logical on booleans."""

    scalar = arith.Xor


class Lt(_Binary, name="graph.lt"):
    """a < b."""

    scalar = arith.Lt


class Le(_Binary, name="graph.le"):
    """a <= b."""

    scalar = arith.Le


class Eq(_Binary, name="graph.eq"):
    """a == b."""

    scalar = arith.Eq


class Ne(_Binary, name="graph.ne"):
    """a != b."""

    scalar = arith.Ne


class Neg(_Unary, name="graph.neg"):
    """-x; flips the sign of zeros and NaNs too."""

    scalar = arith.Neg


class Abs(_Unary, name="graph.abs"):
    """|x|."""

    scalar = arith.Abs


class Exp(_Unary, name="graph.exp"):
    """e to the power x."""

    scalar = arith.Exp


class Log(_Unary, name="graph.log"):
    """The natural logarithm: -inf at 0, NaN below."""

    scalar = arith.Log


class Sqrt(_Unary, name="graph.sqrt"):
    """The square root, correctly rounded."""

    scalar = arith.Sqrt


class Tanh(_Unary, name="graph.tanh"):
    """The hyperbolic tangent."""

    scalar = arith.Tanh


class Erf(_Unary, name="graph.erf"):
    """The error function."""

    scalar = arith.Erf


class Floor(_Unary, name="graph.floor"):
    """The largest integer not above x."""

    scalar = arith.Floor


class Ceil(_Unary, name="graph.ceil"):
    """The smallest integer not below x."""

    scalar = arith.Ceil


class Round(_Unary, name="graph.round"):
    """The nearest integer, ties to even."""

    scalar = arith.Round


class Not(_Unary, name="graph.not"):
    """Logical negation of booleans, bitwise of integers."""

    scalar = arith.Not


class Select(Elementwise, name="graph.select"):
    """`a` where the boolean `condition` holds, `b` elsewhere."""

    condition: Value
    a: Value
    b: Value
    scalar = arith.Select


class Cast(_Unary, name="graph.cast"):
    """Convert to another element type, as `arith.cast`."""

    dtype: DType
    scalar = arith.Cast

    def infer(self) -> tuple[TensorType, ...]:
        return (TensorType(self.dtype, self.x.type.shape),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        with np.errstate(all="ignore"):
            return (np.asarray(args[0]).astype(self.dtype.numpy),)
