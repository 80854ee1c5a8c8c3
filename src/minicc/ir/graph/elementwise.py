"""Elementwise ops of whole tensors: the scalar ops of `arith`, with NumPy's broadcasting.

Each class names the scalar op that it applies to every element; the rule for element types and the
meaning are that op's. Only the shapes are this module's own.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from minicc.ir import arith
from minicc.ir.core import Op, RunRegion, Value
from minicc.ir.graph.shapes import broadcast_shapes
from minicc.ir.types import BOOL, DType, TensorType, converted


class Elementwise(Op):
    """`scalar` applied to each element of operands that broadcast.

    TypeError where shapes do not broadcast, or the scalar op is not defined on the element types.
    """

    __slots__ = ()
    scalar: ClassVar[type[arith.Elementwise]]
    of_complex: ClassVar[bool] = False  # whether it is defined on complex numbers

    def result_dtype(self) -> DType:
        """The element type of the result."""
        elements = [v.type.dtype for v in self.operands]
        first = elements[-1]
        if first.is_complex and self.of_complex and all(e is first for e in elements):
            return BOOL if issubclass(self.scalar, arith.Comparison) else first
        try:
            return self.scalar.result_dtype([v.type.dtype for v in self.operands])
        except TypeError as error:
            message = str(error).replace(self.scalar.opname, self.opname)
            raise TypeError(message) from error

    def infer(self) -> tuple[TensorType, ...]:
        shape = broadcast_shapes(*[v.type.shape for v in self.operands])
        return (TensorType(self.result_dtype(), shape),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        with np.errstate(all="ignore"):
            out = self.scalar.compute(*args)
            return (np.asarray(out, self.result.type.dtype.numpy),)


class Unary(Elementwise):
    """One operand."""

    __slots__ = ()
    x: Value


class Binary(Elementwise):
    """Two operands of one element type."""

    __slots__ = ()
    a: Value
    b: Value


class Add(Binary, name="graph.add"):
    """a + b; integers wrap."""

    scalar = arith.Add
    of_complex = True


class Sub(Binary, name="graph.sub"):
    """a - b; integers wrap."""

    scalar = arith.Sub
    of_complex = True


class Mul(Binary, name="graph.mul"):
    """a * b; integers wrap."""

    scalar = arith.Mul
    of_complex = True


class Div(Binary, name="graph.div"):
    """a / b; integers truncate toward zero, and anything by 0 is 0."""

    scalar = arith.Div


class FloorDiv(Binary, name="graph.floordiv"):
    """The largest integer not above a / b; integers by 0 give 0."""

    scalar = arith.FloorDiv


class Mod(Binary, name="graph.mod"):
    """a - floordiv(a, b) * b, with the sign of b; integers by 0 give 0."""

    scalar = arith.Mod


class Max(Binary, name="graph.max"):
    """The greater; NaN if either is."""

    scalar = arith.Max


class Min(Binary, name="graph.min"):
    """The smaller; NaN if either is."""

    scalar = arith.Min


class Pow(Binary, name="graph.pow"):
    """a to the power b, for floats."""

    scalar = arith.Pow


class And(Binary, name="graph.and"):
    """Bitwise and; logical on booleans."""

    scalar = arith.And


class Or(Binary, name="graph.or"):
    """Bitwise or; logical on booleans."""

    scalar = arith.Or


class Xor(Binary, name="graph.xor"):
    """Bitwise exclusive or; logical on booleans."""

    scalar = arith.Xor


class Lt(Binary, name="graph.lt"):
    """a < b, as booleans."""

    scalar = arith.Lt


class Le(Binary, name="graph.le"):
    """a <= b, as booleans."""

    scalar = arith.Le


class Eq(Binary, name="graph.eq"):
    """a == b, as booleans."""

    scalar = arith.Eq
    of_complex = True


class Ne(Binary, name="graph.ne"):
    """a != b, as booleans."""

    scalar = arith.Ne
    of_complex = True


class Neg(Unary, name="graph.neg"):
    """-x; flips the sign of zeros and NaNs too."""

    scalar = arith.Neg
    of_complex = True


class Abs(Unary, name="graph.abs"):
    """|x|."""

    scalar = arith.Abs


class Exp(Unary, name="graph.exp"):
    """e to the power x."""

    scalar = arith.Exp


class Exp2(Unary, name="graph.exp2"):
    """2 to the power x."""

    scalar = arith.Exp2


class Exp2Nonpositive(Unary, name="graph.exp2_nonpositive"):
    """2 to the power x, which is at most 0 or NaN."""

    scalar = arith.Exp2Nonpositive


class Log(Unary, name="graph.log"):
    """The natural logarithm: -inf at 0, NaN below."""

    scalar = arith.Log


class Sqrt(Unary, name="graph.sqrt"):
    """The square root, correctly rounded."""

    scalar = arith.Sqrt


class Tanh(Unary, name="graph.tanh"):
    """The hyperbolic tangent."""

    scalar = arith.Tanh


class Erf(Unary, name="graph.erf"):
    """The error function."""

    scalar = arith.Erf


class Floor(Unary, name="graph.floor"):
    """The largest integer not above x."""

    scalar = arith.Floor


class Ceil(Unary, name="graph.ceil"):
    """The smallest integer not below x."""

    scalar = arith.Ceil


class Round(Unary, name="graph.round"):
    """The nearest integer, ties to even."""

    scalar = arith.Round


class Not(Unary, name="graph.not"):
    """Logical negation of booleans, bitwise of integers."""

    scalar = arith.Not


class Select(Elementwise, name="graph.select"):
    """`a` where the boolean `condition` holds, `b` elsewhere (numpy.where)."""

    condition: Value
    a: Value
    b: Value
    scalar = arith.Select


class Cast(Unary, name="graph.cast"):
    """Convert to another element type.

    Floats to integers truncate; out of range is not defined. To bool is `x != 0`. Narrower floats
    round to even.
    """

    dtype: DType
    scalar = arith.Cast

    def result_dtype(self) -> DType:
        return self.dtype

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (converted(args[0], self.x.type.dtype, self.dtype),)
