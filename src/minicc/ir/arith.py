"""Arithmetic on elements: the ops of structured bodies (on scalars) and of kernels (on tiles).

Laws. Operands of one op have equal rank and equal extents, or extent 1, which is repeated.
Floating point is IEEE 754 in the type's own precision (f16 and bf16 compute in f32 and round once
an op). Integers wrap. Integer division truncates toward zero in `div` (as ONNX) and toward minus
infinity in `floordiv` (as NumPy); by zero it gives 0. `max` and `min` hand on NaN from either
side. Comparisons with NaN are false but for `ne`. Nothing here reassociates; `fma` rounds once
where the target has the instruction, else twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from minicc.ir.core import Array, Literal, Op, RunRegion, Value
from minicc.ir.types import BOOL, DType, TensorType, bits_type, converted, from_numpy

Evaluate = Callable[..., Any]


def broadcast_tiles(types: list[TensorType]) -> tuple[int, ...]:
    """The common shape of tiles of equal rank; TypeError where extents differ and neither is 1."""
    first = types[0].shape
    for t in types[1:]:
        if t.shape != first:
            break
    else:
        return first  # type: ignore[return-value]  # tiles are static
    ranks = {t.rank for t in types}
    if len(ranks) != 1:
        raise TypeError(f"operands {types} differ in rank")
    extents: list[int] = []
    for column in zip(*[t.extents for t in types], strict=True):
        widest = max(column)
        if any(n not in (1, widest) for n in column):
            raise TypeError(f"operands {types} do not broadcast")
        extents.append(widest)
    return tuple(extents)


class Elementwise(Op):
    """An op applied to each element; `compute` is its meaning on NumPy arrays."""

    __slots__ = ()
    compute: ClassVar[Evaluate]
    kinds: ClassVar[str] = "fiu"
    symbol: ClassVar[str] = ""

    @classmethod
    def result_dtype(cls, dtypes: list[DType]) -> DType:
        """The element type of the result; TypeError where the operands' do not fit."""
        first = dtypes[0]
        if any(d is not first for d in dtypes):
            raise TypeError(f"{cls.opname} wants operands of one element type, not {dtypes}")
        if first.kind not in cls.kinds:
            raise TypeError(f"{cls.opname} is not defined on {first}")
        return first

    def infer(self) -> tuple[TensorType, ...]:
        types = [v.type for v in self.operands]
        dtype, first = self.result_dtype([t.dtype for t in types]), types[0]
        if dtype is first.dtype and all(t is first for t in types):
            return (first,)
        return (TensorType(dtype, broadcast_tiles(types)),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        with np.errstate(all="ignore"):
            return (np.asarray(type(self).compute(*args), self.result.type.dtype.numpy),)


class Unary(Elementwise):
    """One operand."""

    __slots__ = ()
    x: Value


class Binary(Elementwise):
    """Two operands of one element type."""

    __slots__ = ()
    a: Value
    b: Value


class Comparison(Binary):
    """Two operands of one element type to a boolean."""

    __slots__ = ()
    kinds = "fiub"

    @classmethod
    def result_dtype(cls, dtypes: list[DType]) -> DType:
        super().result_dtype(dtypes)
        return BOOL


def widened(x: Array) -> Array:
    """f16 and bf16 as f32, in which they are computed before the caller rounds; others as is."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind in "fV" else x


def _wide(f: Evaluate) -> Evaluate:
    return lambda *args: f(*map(widened, args))


def _erf(x: Array) -> Array:
    flat = np.fromiter(map(math.erf, np.ravel(x).astype(np.float64)), np.float64, np.size(x))
    return flat.reshape(np.shape(x))


def _divide(a: Array, b: Array) -> Array:
    if a.dtype.kind not in "iu":
        return np.asarray(np.true_divide(a, b))
    safe = np.where(b == 0, 1, b)
    quotient = np.floor_divide(a, safe)
    inexact = (a - quotient * safe != 0) & ((a < 0) != (safe < 0))
    return np.where(b == 0, 0, quotient + inexact).astype(a.dtype)


def _floor_divide(a: Array, b: Array) -> Array:
    if a.dtype.kind not in "iu":
        return np.asarray(np.floor_divide(a, b))
    return np.where(b == 0, 0, np.floor_divide(a, np.where(b == 0, 1, b))).astype(a.dtype)


def _remainder(a: Array, b: Array) -> Array:
    if a.dtype.kind not in "iu":
        return np.asarray(np.remainder(a, b))
    return np.where(b == 0, 0, np.remainder(a, np.where(b == 0, 1, b))).astype(a.dtype)


def _fma(a: Array, b: Array, c: Array) -> Array:
    """One rounding: f32 products are exact in f64.

    The sum's second rounding differs in one case of 2^29.
    """
    if a.dtype == np.float32:
        return np.asarray(a.astype(np.float64) * b + c, np.float32)
    return np.asarray(a * b + c)


class Add(Binary, name="arith.add", compute=_wide(np.add)):
    """a + b."""


class Sub(Binary, name="arith.sub", compute=_wide(np.subtract)):
    """a - b."""


class Mul(Binary, name="arith.mul", compute=_wide(np.multiply)):
    """a * b."""


class Div(Binary, name="arith.div", compute=_wide(_divide)):
    """a / b; integers truncate toward zero, and anything by 0 is 0."""


class DivBy(Binary, name="arith.div_by", compute=_wide(_divide)):
    """a / b for a constant b of which `parts_of_inverse` gives parts: may be made of products.

    It is the same bit for bit, but where the quotient is smaller than 2^-960, or a float's 2^-75.
    """

    kinds = "f"


class FloorDiv(Binary, name="arith.floordiv", compute=_wide(_floor_divide)):
    """The largest integer not above a / b; integers by 0 give 0."""


class Mod(Binary, name="arith.mod", compute=_wide(_remainder)):
    """a - floordiv(a, b) * b, with the sign of b; integers by 0 give 0."""


def _upper_half(a: Array, b: Array) -> Array:
    return np.asarray(a.astype(object) * b.astype(object) >> 8 * a.itemsize).astype(a.dtype)


class MulHigh(Binary, name="arith.mulhi", kinds="u", compute=_upper_half):
    """The upper half of the bits of the product, of which `Mul` gives the lower one."""


class Max(Binary, name="arith.max", kinds="fiub", compute=_wide(np.maximum)):
    """The greater; NaN if either is."""


class Min(Binary, name="arith.min", kinds="fiub", compute=_wide(np.minimum)):
    """The smaller; NaN if either is."""


class MaxNumber(Binary, name="arith.maxnum", kinds="f", compute=_wide(np.fmax)):
    """The greater; where one is NaN, the other."""


class Pow(Binary, name="arith.pow", kinds="f", compute=_wide(np.power)):
    """a to the power b, for floats."""


class Atan2(Binary, name="arith.atan2", kinds="f", compute=_wide(np.arctan2)):
    """The angle of the point (b, a), with a's sign: the inverse tangent of a / b."""


class And(Binary, name="arith.and", kinds="iub", compute=np.bitwise_and):
    """Bitwise and; logical on booleans."""


class Or(Binary, name="arith.or", kinds="iub", compute=np.bitwise_or):
    """Bitwise or; logical on booleans."""


class Xor(Binary, name="arith.xor", kinds="iub", compute=np.bitwise_xor):
    """Bitwise exclusive or; logical on booleans."""


class Shl(Binary, name="arith.shl", kinds="iu", compute=np.left_shift):
    """a's bits moved up by b places; 0 where b is negative, or as many as there are bits."""


class Shr(Binary, name="arith.shr", kinds="iu", compute=np.right_shift):
    """a's bits moved down by b places, with its sign; only the sign where `Shl` gives 0."""


class Lt(Comparison, name="arith.lt", compute=_wide(np.less)):
    """a < b."""


class Le(Comparison, name="arith.le", compute=_wide(np.less_equal)):
    """a <= b."""


class Eq(Comparison, name="arith.eq", compute=_wide(np.equal)):
    """a == b."""


class Ne(Comparison, name="arith.ne", compute=_wide(np.not_equal)):
    """a != b."""


class Neg(Unary, name="arith.neg", compute=np.negative):
    """-x; flips the sign of zeros and NaNs too."""


class Abs(Unary, name="arith.abs", compute=np.abs):
    """|x|."""


class Exp(Unary, name="arith.exp", kinds="f", compute=_wide(np.exp)):
    """e to the power x."""


class Exp2(Unary, name="arith.exp2", kinds="f", compute=_wide(np.exp2)):
    """2 to the power x."""


class Expm1(Unary, name="arith.expm1", kinds="f", compute=_wide(np.expm1)):
    """e to the power x, less 1, which is exact to the last places near 0."""


class Exp2Nonpositive(Unary, name="arith.exp2_nonpositive", kinds="f", compute=_wide(np.exp2)):
    """2 to the power x, which is at most 0 or NaN: so no result is too large."""


class Log(Unary, name="arith.log", kinds="f", compute=_wide(np.log)):
    """The natural logarithm: -inf at 0, NaN below."""


class Log2(Unary, name="arith.log2", kinds="f", compute=_wide(np.log2)):
    """The logarithm to the base 2; that of a power of 2 is exact."""


class Log10(Unary, name="arith.log10", kinds="f", compute=_wide(np.log10)):
    """The logarithm to the base 10; that of a power of 10 is exact."""


class Cbrt(Unary, name="arith.cbrt", kinds="f", compute=_wide(np.cbrt)):
    """The cube root, also of negative numbers."""


class Sqrt(Unary, name="arith.sqrt", kinds="f", compute=_wide(np.sqrt)):
    """The square root, correctly rounded."""


class Tanh(Unary, name="arith.tanh", kinds="f", compute=_wide(np.tanh)):
    """The hyperbolic tangent."""


class Erf(Unary, name="arith.erf", kinds="f", compute=_wide(_erf)):
    """The error function."""


class Sin(Unary, name="arith.sin", kinds="f", compute=_wide(np.sin)):
    """The sine; NaN at infinities."""


class Cos(Unary, name="arith.cos", kinds="f", compute=_wide(np.cos)):
    """The cosine; NaN at infinities."""


class Tan(Unary, name="arith.tan", kinds="f", compute=_wide(np.tan)):
    """The tangent; NaN at infinities."""


class Asin(Unary, name="arith.asin", kinds="f", compute=_wide(np.arcsin)):
    """The inverse of the sine; NaN outside of -1 to 1."""


class Acos(Unary, name="arith.acos", kinds="f", compute=_wide(np.arccos)):
    """The inverse of the cosine; NaN outside of -1 to 1."""


class Atan(Unary, name="arith.atan", kinds="f", compute=_wide(np.arctan)):
    """The inverse of the tangent."""


class Sinh(Unary, name="arith.sinh", kinds="f", compute=_wide(np.sinh)):
    """The hyperbolic sine."""


class Cosh(Unary, name="arith.cosh", kinds="f", compute=_wide(np.cosh)):
    """The hyperbolic cosine."""


class Asinh(Unary, name="arith.asinh", kinds="f", compute=_wide(np.arcsinh)):
    """The inverse of the hyperbolic sine."""


class Acosh(Unary, name="arith.acosh", kinds="f", compute=_wide(np.arccosh)):
    """The inverse of the hyperbolic cosine; NaN below 1."""


class Atanh(Unary, name="arith.atanh", kinds="f", compute=_wide(np.arctanh)):
    """The inverse of the hyperbolic tangent; infinite at -1 and 1, NaN outside."""


class Floor(Unary, name="arith.floor", kinds="f", compute=_wide(np.floor)):
    """The largest integer not above x."""


class Ceil(Unary, name="arith.ceil", kinds="f", compute=_wide(np.ceil)):
    """The smallest integer not below x."""


class Round(Unary, name="arith.round", kinds="f", compute=_wide(np.rint)):
    """The nearest integer, ties to even."""


class Not(Unary, name="arith.not", kinds="iub", compute=np.invert):
    """Logical negation of booleans, bitwise of integers."""


class Fma(Elementwise, name="arith.fma"):
    """a * b + c."""

    kinds = "f"
    a: Value
    b: Value
    c: Value
    compute = _wide(_fma)


class Select(Elementwise, name="arith.select"):
    """`a` where the boolean `condition` holds, `b` elsewhere."""

    condition: Value
    a: Value
    b: Value
    compute = np.where

    @classmethod
    def result_dtype(cls, dtypes: list[DType]) -> DType:
        if dtypes[0] is not BOOL or dtypes[1] is not dtypes[2]:
            raise TypeError(f"arith.select wants bool and two equal element types, not {dtypes}")
        return dtypes[1]


class Cast(Unary, name="arith.cast"):
    """Convert to another element type.

    Floats to integers truncate; out of range is not defined. To bool is `x != 0`. Narrower floats
    round to even.
    """

    dtype: DType
    kinds = "fiub"

    def infer(self) -> tuple[TensorType, ...]:
        return (TensorType(self.dtype, self.x.type.shape),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (converted(args[0], self.x.type.dtype, self.dtype),)


class BitCast(Unary, name="arith.bitcast"):
    """The same bits read as another element type of the same width."""

    dtype: DType
    kinds = "fiu"

    def infer(self) -> tuple[TensorType, ...]:
        return (bits_type(self.opname, self.x.type, self.dtype),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (np.require(args[0], requirements="C").view(self.dtype.numpy),)


def widens(source: DType, target: DType) -> bool:
    """Whether each number of a type is one of a wider type of its kind."""
    kinds = (source.kind, target.kind)
    return kinds in (("f", "f"), ("i", "i"), ("u", "u"), ("u", "i")) and source.bits < target.bits


class Constant(Op, name="arith.constant"):
    """One value, repeated over a tile of `shape`; `value` is a literal of rank 0."""

    value: Literal
    shape: tuple[int, ...] = ()

    def infer(self) -> tuple[TensorType, ...]:
        element = from_numpy(self.value.array.dtype)
        if element is None or self.value.array.ndim:
            raise TypeError("arith.constant wants one element of a known type")
        return (TensorType(element, self.shape),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        # a leading axis of one stands for the batch of instances that kernels run over
        return (
            np.broadcast_to(self.value.array, (1, *self.shape)) if self.shape else self.value.array,
        )


# What combines partial results of a reduction: the op, and the value that changes nothing.
COMBINERS: dict[str, type[Binary]] = {
    "add": Add,
    "mul": Mul,
    "max": Max,
    "maxnum": MaxNumber,
    "min": Min,
    "and": And,
    "or": Or,
}
UFUNCS: dict[str, Any] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "maxnum": np.fmax,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}


def identity_of(combine: str, element: DType) -> Literal:
    """The neutral element of a combiner, as a literal of rank 0."""
    if combine in ("add", "or"):
        value: Any = 0
    elif combine == "mul":
        value = 1
    elif combine == "and":
        value = True if element is BOOL else -1 if element.kind == "i" else 2**element.bits - 1
    elif element.is_float:
        value = np.inf if combine == "min" else -np.inf
    elif element is BOOL:
        value = combine == "min"
    else:
        limits = np.iinfo(element.numpy)
        value = limits.min if combine == "max" else limits.max
    return Literal(np.array(value, element.numpy))


def reduce_array(combine: str, x: Array, axes: tuple[int, ...], keepdims: bool = False) -> Array:
    """Combine a NumPy array along axes; f16 and bf16 are combined in f32 and rounded once."""
    with np.errstate(all="ignore"):
        wide = widened(x)
        out = UFUNCS[combine].reduce(
            wide,
            axis=axes,
            keepdims=keepdims,
            dtype=wide.dtype,
            initial=identity_of_numpy(combine, wide),
        )
        return np.asarray(out, x.dtype)


def accumulated(combine: str, x: Array, axis: int) -> Array:
    """All elements up to each along an axis combined; f16 and bf16 in f32, rounded once."""
    with np.errstate(all="ignore"):
        wide = widened(x)
        return np.asarray(UFUNCS[combine].accumulate(wide, axis, dtype=wide.dtype), x.dtype)


def identity_of_numpy(combine: str, like: Array) -> Any:
    """The neutral element as a NumPy scalar of an array's dtype."""
    element = from_numpy(like.dtype)
    assert element is not None, like.dtype
    return identity_of(combine, element).array[()]
