"""Elementwise ops of whole tensors: the scalar ops of `arith`, with NumPy's broadcasting.

Each class names the scalar op that it applies to every element; the rule for element types and the
meaning are that op's. Only the shapes are this module's own.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from minicc.ir import arith
from minicc.ir.core import Op, RunRegion, Value
from minicc.ir.graph.shapes import broadcast_shapes
from minicc.ir.types import BOOL, DType, TensorType, bits_type, converted


class Elementwise(Op):
    """`scalar` applied to each element of operands that broadcast.

    TypeError where shapes do not broadcast, or the scalar op is not defined on the element types.
    """

    __slots__ = ()
    scalar: ClassVar[type[arith.Elementwise]]
    of_complex: ClassVar[bool] = False  # whether it is defined on complex numbers

    @classmethod
    def result_dtype(cls, elements: list[DType]) -> DType:
        """The element type of the result for operands of these."""
        first = elements[-1]
        if first.is_complex and cls.of_complex and all(e is first for e in elements):
            return BOOL if issubclass(cls.scalar, arith.Comparison) else first
        try:
            return cls.scalar.result_dtype(elements)
        except TypeError as error:
            message = str(error).replace(cls.scalar.opname, cls.opname)
            raise TypeError(message) from error

    def infer(self) -> tuple[TensorType, ...]:
        cls: Any = type(self)
        types = [v.type for v in self.operands]
        # a tracer's extents are equal to those of other traces, and may not stand for them
        numbers = all(type(n) is int for t in types for n in t.shape)
        return _inferred(cls, *types) if numbers else _infer(cls, *types)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        with np.errstate(all="ignore"):
            out = self.scalar.compute(*args)
            return (np.asarray(out, self.result.type.dtype.numpy),)


def _infer(cls: type[Elementwise], *types: TensorType) -> tuple[TensorType, ...]:
    shape = broadcast_shapes(*[t.shape for t in types])
    return (TensorType(cls.result_dtype([t.dtype for t in types]), shape),)


_inferred = lru_cache(maxsize=1024)(_infer)


class Unary(Elementwise):
    """One operand."""

    __slots__ = ()
    x: Value


class Binary(Elementwise):
    """Two operands of one element type."""

    __slots__ = ()
    a: Value
    b: Value


class Add(Binary, name="graph.add", scalar=arith.Add, of_complex=True):
    """a + b; integers wrap."""


class Sub(Binary, name="graph.sub", scalar=arith.Sub, of_complex=True):
    """a - b; integers wrap."""


class Mul(Binary, name="graph.mul", scalar=arith.Mul, of_complex=True):
    """a * b; integers wrap."""


class Div(Binary, name="graph.div", scalar=arith.Div):
    """a / b; integers truncate toward zero, and anything by 0 is 0."""


class FloorDiv(Binary, name="graph.floordiv", scalar=arith.FloorDiv):
    """The largest integer not above a / b; integers by 0 give 0."""


class Mod(Binary, name="graph.mod", scalar=arith.Mod):
    """a - floordiv(a, b) * b, with the sign of b; integers by 0 give 0."""


class MulHigh(Binary, name="graph.mulhi", scalar=arith.MulHigh):
    """The upper half of the bits of the product of unsigned integers."""


class Max(Binary, name="graph.max", scalar=arith.Max):
    """The greater; NaN if either is."""


class Min(Binary, name="graph.min", scalar=arith.Min):
    """The smaller; NaN if either is."""


class Pow(Binary, name="graph.pow", scalar=arith.Pow):
    """a to the power b, for floats."""


class And(Binary, name="graph.and", scalar=arith.And):
    """Bitwise and; logical on booleans."""


class Or(Binary, name="graph.or", scalar=arith.Or):
    """Bitwise or; logical on booleans."""


class Xor(Binary, name="graph.xor", scalar=arith.Xor):
    """Bitwise exclusive or; logical on booleans."""


class Shl(Binary, name="graph.shl", scalar=arith.Shl):
    """a's bits moved up by b places; 0 where b is negative, or as many as there are bits."""


class Shr(Binary, name="graph.shr", scalar=arith.Shr):
    """a's bits moved down by b places, with its sign; only the sign where `Shl` gives 0."""


class Lt(Binary, name="graph.lt", scalar=arith.Lt):
    """a < b, as booleans."""


class Le(Binary, name="graph.le", scalar=arith.Le):
    """a <= b, as booleans."""


class Eq(Binary, name="graph.eq", scalar=arith.Eq, of_complex=True):
    """a == b, as booleans."""


class Ne(Binary, name="graph.ne", scalar=arith.Ne, of_complex=True):
    """a != b, as booleans."""


class Neg(Unary, name="graph.neg", scalar=arith.Neg, of_complex=True):
    """-x; flips the sign of zeros and NaNs too."""


class Abs(Unary, name="graph.abs", scalar=arith.Abs):
    """|x|."""


class Exp(Unary, name="graph.exp", scalar=arith.Exp):
    """e to the power x."""


class Exp2(Unary, name="graph.exp2", scalar=arith.Exp2):
    """2 to the power x."""


class Expm1(Unary, name="graph.expm1", scalar=arith.Expm1):
    """e to the power x, less 1, which is exact to the last places near 0."""


class Exp2Nonpositive(Unary, name="graph.exp2_nonpositive", scalar=arith.Exp2Nonpositive):
    """2 to the power x, which is at most 0 or NaN."""


class Log(Unary, name="graph.log", scalar=arith.Log):
    """The natural logarithm: -inf at 0, NaN below."""


class Log2(Unary, name="graph.log2", scalar=arith.Log2):
    """The logarithm to the base 2; that of a power of 2 is exact."""


class Log10(Unary, name="graph.log10", scalar=arith.Log10):
    """The logarithm to the base 10; that of a power of 10 is exact."""


class Cbrt(Unary, name="graph.cbrt", scalar=arith.Cbrt):
    """The cube root, also of negative numbers."""


class Sqrt(Unary, name="graph.sqrt", scalar=arith.Sqrt):
    """The square root, correctly rounded."""


class Tanh(Unary, name="graph.tanh", scalar=arith.Tanh):
    """The hyperbolic tangent."""


class Erf(Unary, name="graph.erf", scalar=arith.Erf):
    """The error function."""


class Floor(Unary, name="graph.floor", scalar=arith.Floor):
    """The largest integer not above x."""


class Ceil(Unary, name="graph.ceil", scalar=arith.Ceil):
    """The smallest integer not below x."""


class Round(Unary, name="graph.round", scalar=arith.Round):
    """The nearest integer, ties to even."""


class Not(Unary, name="graph.not", scalar=arith.Not):
    """Logical negation of booleans, bitwise of integers."""


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

    def infer(self) -> tuple[TensorType, ...]:
        return (TensorType(self.dtype, self.x.type.shape),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (converted(args[0], self.x.type.dtype, self.dtype),)


class BitCast(Unary, name="graph.bitcast"):
    """The same bits read as another element type of the same width."""

    dtype: DType
    scalar = arith.BitCast

    def infer(self) -> tuple[TensorType, ...]:
        return (bits_type(self.opname, self.x.type, self.dtype),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (np.require(args[0], requirements="C").view(self.dtype.numpy),)
