"""Arithmetic ops to LLVM instructions, one vector at a time: a table keyed by op class."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

from minicc.backends.llvm import circular, hyperbolic, logarithms, math
from minicc.backends.llvm.narrow import extend, held_as, is_narrow, shrink, truncate, widen
from minicc.backends.llvm.power import cbrt, power
from minicc.backends.llvm.tiles import ELEMENT
from minicc.backends.llvm.writer import Vec, Writer
from minicc.ir import arith
from minicc.ir.core import Op
from minicc.ir.quotients import SIGNIFICANDS, parts_of_inverse
from minicc.ir.types import F32, F64, I32, DType

_MANY_TIMES = {"float": 2.0**23, "double": 2.0**52}  # from which quotients are not exact
# integers that doubles divide: below which, and the bits and the number that end with such a one
_SHORT = 1 << 51, 0x4338 << 48, 1.5 * 2**52
# (writer, vector type of the operands, operand type, operands) -> result
Emit = Callable[[Writer, Vec, DType, list[str]], str]


def _by_kind(float_op: str, signed_op: str, unsigned_op: str) -> Emit:
    def emit(w: Writer, t: Vec, d: DType, x: list[str]) -> str:
        op = float_op if d.is_float else signed_op if d.kind == "i" else unsigned_op
        return w.binary(op, t, x[0], x[1])

    return emit


def _compare(float_predicate: str, signed: str, unsigned: str) -> Emit:
    def emit(w: Writer, t: Vec, d: DType, x: list[str]) -> str:
        predicate = float_predicate if d.is_float else signed if d.kind == "i" else unsigned
        return w.compare(predicate, t, x[0], x[1])

    return emit


_DOUBLE = re.compile(r"0x[0-9A-F]{16}")  # in a constant
_NAN = re.compile(r"0x[7F]FF(?!0{13})")  # in a constant: no infinity, whose other digits are 0


def _is_constant(operand: str) -> bool:
    return not operand.startswith("%")


def extremum(greater: bool) -> Emit:
    """Max or min that hands on NaN from either side.

    One instruction where one side is a constant, unless that is NaN.
    """

    def emit(w: Writer, t: Vec, d: DType, x: list[str]) -> str:
        a, b = x
        if not d.is_float:
            sign = "s" if d.kind == "i" else "u"
            name = f"llvm.{sign}{'max' if greater else 'min'}.{t.suffix}"
            return w.intrinsic(name, t, (t, a), (t, b))
        if _is_constant(a):
            a, b = b, a
        # a comparison with NaN fails, so the constant is chosen only against a number
        predicate = "olt" if greater else "ogt"
        if _is_constant(b) and not _NAN.search(b):
            return w.select(t, w.compare(predicate, t, a, b), b, a)
        best = w.select(t, w.compare(predicate, t, a, b), b, a)
        return w.select(t, w.compare("uno", t, b, b), b, best)

    return emit


def _max_number(w: Writer, t: Vec, d: DType, x: list[str]) -> str:
    a, b = x
    # a comparison with NaN fails, so a NaN is never put in the place of a number
    best = w.select(t, w.compare("olt", t, a, b), b, a)
    return w.select(t, w.compare("uno", t, a, a), b, best)


def _quotient(w: Writer, t: Vec, d: DType, a: str, b: str, constant: bool) -> str:
    """The quotient of integers, rounded towards zero.

    Processors divide no vectors of integers. Those of floats are as good where the integers have
    two bits less than a float holds: a quotient that is no whole number is further from the next
    one than rounding takes it.
    """
    sign = "s" if d.kind == "i" else "u"
    if constant or t.lanes == 1:
        return w.binary(f"{sign}div", t, a, b)
    if d.bits == 64:
        return _long_quotient(w, t, sign, a, b)
    f = Vec(t.lanes, "double" if d.bits == 32 else "float")
    wide = [w.convert(f"{sign}itofp", t, x, f) for x in (a, b)]
    return w.convert(f"fpto{sign}i", f, w.binary("fdiv", f, *wide), t)


def _long_quotient(w: Writer, t: Vec, sign: str, a: str, b: str) -> str:
    """The same of integers of 64 bits: by floats where all are short, else one by one.

    An integer is a float's last bits where so much is added that nothing else is left of these.
    """
    f, (most, shift, magic) = Vec(t.lanes, "double"), _SHORT
    floats: list[str] = []
    far = ""
    for x in (a, b):
        least = most if sign == "s" else 0
        from_least = w.binary("add", t, x, w.splat(t, least))
        long = w.compare("uge", t, from_least, w.splat(t, most + least))
        far = w.binary("or", t.mask, far, long) if far else long
        bits = w.bitcast(t, w.binary("add", t, x, w.splat(t, shift)), f)
        floats.append(w.binary("fsub", f, bits, w.splat(f, magic)))
    whole = w.intrinsic(f"llvm.trunc.{f.suffix}", f, (f, w.binary("fdiv", f, *floats)))
    bits = w.bitcast(f, w.binary("fadd", f, whole, w.splat(f, magic)), t)
    near = w.binary("sub", t, bits, w.splat(t, shift))
    return _divided(w, t, near, far, f"{sign}div", a, b)


def _divided(w: Writer, t: Vec, near: str, far: str, opcode: str, a: str, b: str) -> str:
    """The quick result, or the instruction's for the whole vector where any lane is far."""
    apart, after, before = w.fresh("apart"), w.fresh("divided"), w.block
    w.line(f"br i1 {w.any(t, far)}, label %{apart}, label %{after}")
    w.label(apart)
    slow = w.binary(opcode, t, a, b)
    w.line(f"br label %{after}")
    w.label(after)
    return w.phi(t, near, before, slow, apart)


def _integer_division(
    w: Writer, t: Vec, d: DType, x: list[str], floor: bool
) -> tuple[str, str, str]:
    """(quotient, remainder, divisor is zero).

    Overflow and zero are kept away from the instruction.
    """
    a, b = x
    zero = w.compare("eq", t, b, w.splat(t, 0))
    unsafe = zero
    if d.kind == "i":
        overflow = w.binary(
            "and",
            t.mask,
            w.compare("eq", t, a, w.splat(t, -(2 ** (d.bits - 1)))),
            w.compare("eq", t, b, w.splat(t, -1)),
        )
        unsafe = w.binary("or", t.mask, zero, overflow)
    safe = w.select(t, unsafe, w.splat(t, 1), b)
    quotient = _quotient(w, t, d, a, safe, _is_constant(b))
    rest = w.binary("sub", t, a, w.binary("mul", t, quotient, safe))
    if floor and d.kind == "i":
        nonzero = w.compare("ne", t, rest, w.splat(t, 0))
        opposite = w.compare("slt", t, w.binary("xor", t, rest, safe), w.splat(t, 0))
        adjust = w.binary("and", t.mask, nonzero, opposite)
        quotient = w.select(t, adjust, w.binary("sub", t, quotient, w.splat(t, 1)), quotient)
        rest = w.select(t, adjust, w.binary("add", t, rest, safe), rest)
    return quotient, rest, zero


def _divide(w: Writer, t: Vec, d: DType, x: list[str]) -> str:
    if d.is_float:
        return w.binary("fdiv", t, x[0], x[1])
    quotient, _, zero = _integer_division(w, t, d, x, floor=False)
    return w.select(t, zero, w.splat(t, 0), quotient)


def _divide_by(w: Writer, t: Vec, d: DType, x: list[str]) -> str:
    """A product with a part of the constant's inverse, to which another adds the rest."""
    found = _DOUBLE.search(x[1])
    bits = SIGNIFICANDS.get(d) if w.has_fma else None
    parts = parts_of_inverse(_double(found[0]), bits) if found and bits else None
    if parts is None:
        return _divide(w, t, d, x)
    high, low = (w.splat(t, part) for part in parts)
    return w.fma(t, x[0], high, w.binary("fmul", t, x[0], low))


def _double(bits: str) -> float:
    """The number that a constant is written as."""
    number: float = struct.unpack("<d", struct.pack("<Q", int(bits, 16)))[0]
    return number


def _zero_signed_as(w: Writer, t: Vec, x: str) -> str:
    return w.intrinsic(f"llvm.copysign.{t.suffix}", t, (t, w.splat(t, 0.0)), (t, x))


def _division_rest(w: Writer, t: Vec, a: str, b: str) -> str:
    """The exact remainder of a division that is rounded towards zero; its sign is the dividend's.

    A quotient of fewer bits than a float has is the whole number below, or one more where the
    division was rounded up: what is left of the dividend is exact, and below zero then. Others, and
    those of infinities, are for the C library, element by element.
    """
    if not w.has_fma:
        return w.binary("frem", t, a, b)
    size, by = (w.intrinsic(f"llvm.fabs.{t.suffix}", t, (t, x)) for x in (a, b))
    quotient = w.binary("fdiv", t, size, by)
    whole = w.intrinsic(f"llvm.trunc.{t.suffix}", t, (t, quotient))
    left = w.fma(t, w.inst(f"fneg {t} {whole}"), by, size)
    below = w.compare("olt", t, left, w.splat(t, 0.0))
    left = w.select(t, below, w.binary("fadd", t, left, by), left)
    # nothing times an infinity is no number
    left = w.select(t, w.compare("olt", t, size, by), size, left)
    near = w.intrinsic(f"llvm.copysign.{t.suffix}", t, (t, left), (t, a))
    many = w.compare("uge", t, quotient, w.splat(t, _MANY_TIMES[t.element]))
    return _divided(w, t, near, many, "frem", a, b)


def _float_rest(w: Writer, t: Vec, x: list[str]) -> tuple[str, str]:
    """(remainder with the dividend's sign, whether that is another sign than the divisor's)."""
    zero = w.splat(t, 0.0)
    rest = _division_rest(w, t, *x)
    opposite = w.binary(
        "xor", t.mask, w.compare("olt", t, rest, zero), w.compare("olt", t, x[1], zero)
    )
    return rest, w.binary("and", t.mask, w.compare("une", t, rest, zero), opposite)


def _float_floor_divide(w: Writer, t: Vec, x: list[str]) -> str:
    """What NumPy makes of zeros and infinities too: the step down counts after the division."""
    a, b = x
    rest, adjust = _float_rest(w, t, x)
    exact = w.binary("fdiv", t, w.binary("fsub", t, a, rest), b)
    exact = w.select(t, adjust, w.binary("fsub", t, exact, w.splat(t, 1.0)), exact)
    # the division rounds: the integer that is meant may lie just above
    below = w.intrinsic(f"llvm.floor.{t.suffix}", t, (t, exact))
    above = w.compare("ogt", t, w.binary("fsub", t, exact, below), w.splat(t, 0.5))
    near = w.select(t, above, w.binary("fadd", t, below, w.splat(t, 1.0)), below)
    plain = w.binary("fdiv", t, a, b)
    none = w.compare("oeq", t, exact, w.splat(t, 0.0))
    near = w.select(t, none, _zero_signed_as(w, t, plain), near)
    return w.select(t, w.compare("oeq", t, b, w.splat(t, 0.0)), plain, near)


def _floor_divide(w: Writer, t: Vec, d: DType, x: list[str]) -> str:
    if d.is_float:
        return _float_floor_divide(w, t, x)
    quotient, _, zero = _integer_division(w, t, d, x, floor=True)
    return w.select(t, zero, w.splat(t, 0), quotient)


def _modulo(w: Writer, t: Vec, d: DType, x: list[str]) -> str:
    if not d.is_float:
        _, rest, zero = _integer_division(w, t, d, x, floor=True)
        return w.select(t, zero, w.splat(t, 0), rest)
    rest, adjust = _float_rest(w, t, x)
    adjusted = w.select(t, adjust, w.binary("fadd", t, rest, x[1]), rest)
    zero = w.compare("oeq", t, rest, w.splat(t, 0.0))
    return w.select(t, zero, _zero_signed_as(w, t, x[1]), adjusted)


def _negate(w: Writer, t: Vec, d: DType, x: list[str]) -> str:
    return w.inst(f"fneg {t} {x[0]}") if d.is_float else w.binary("sub", t, w.splat(t, 0), x[0])


def _absolute(w: Writer, t: Vec, d: DType, x: list[str]) -> str:
    if d.is_float:
        return w.intrinsic(f"llvm.fabs.{t.suffix}", t, (t, x[0]))
    if d.kind == "u":
        return x[0]
    negative = w.compare("slt", t, x[0], w.splat(t, 0))
    return w.select(t, negative, w.binary("sub", t, w.splat(t, 0), x[0]), x[0])


def _intrinsic(name: str) -> Emit:
    return lambda w, t, d, x: w.intrinsic(f"llvm.{name}.{t.suffix}", t, (t, x[0]))


def _function(f: Callable[[Writer, Vec, str], str]) -> Emit:
    return lambda w, t, d, x: f(w, t, x[0])


def _not(w: Writer, t: Vec, d: DType, x: list[str]) -> str:
    return w.binary("xor", t, x[0], w.splat(t, -1) if d.kind != "b" else w.splat(t, 1))


def _multiply_high(w: Writer, t: Vec, d: DType, x: list[str]) -> str:
    wide = Vec(t.lanes, f"i{2 * t.bits}")
    factors = [w.convert("zext", t, value, wide) for value in x]
    shifted = w.binary("lshr", wide, w.binary("mul", wide, *factors), w.splat(wide, t.bits))
    return w.convert("trunc", wide, shifted, t)


def _shift_left(w: Writer, t: Vec, d: DType, x: list[str]) -> str:
    """Places are compared as unsigned: a negative number of them is too great."""
    few = w.compare("ult", t, x[1], w.splat(t, d.bits))
    places = w.select(t, few, x[1], w.splat(t, 0))
    return w.select(t, few, w.binary("shl", t, x[0], places), w.splat(t, 0))


def _shift_right(w: Writer, t: Vec, d: DType, x: list[str]) -> str:
    few = w.compare("ult", t, x[1], w.splat(t, d.bits))
    if d.kind == "i":
        return w.binary("ashr", t, x[0], w.select(t, few, x[1], w.splat(t, d.bits - 1)))
    places = w.select(t, few, x[1], w.splat(t, 0))
    return w.select(t, few, w.binary("lshr", t, x[0], places), w.splat(t, 0))


def _fma(w: Writer, t: Vec, d: DType, x: list[str]) -> str:
    return w.fma(t, x[0], x[1], x[2])


TABLE: dict[type[Op], Emit] = {
    arith.Add: _by_kind("fadd", "add", "add"),
    arith.Sub: _by_kind("fsub", "sub", "sub"),
    arith.Mul: _by_kind("fmul", "mul", "mul"),
    arith.Div: _divide,
    arith.DivBy: _divide_by,
    arith.FloorDiv: _floor_divide,
    arith.Mod: _modulo,
    arith.MulHigh: _multiply_high,
    arith.Max: extremum(True),
    arith.MaxNumber: _max_number,
    arith.Min: extremum(False),
    arith.And: _by_kind("", "and", "and"),
    arith.Or: _by_kind("", "or", "or"),
    arith.Xor: _by_kind("", "xor", "xor"),
    arith.Shl: _shift_left,
    arith.Shr: _shift_right,
    arith.Lt: _compare("olt", "slt", "ult"),
    arith.Le: _compare("ole", "sle", "ule"),
    arith.Eq: _compare("oeq", "eq", "eq"),
    arith.Ne: _compare("une", "ne", "ne"),
    arith.Neg: _negate,
    arith.Abs: _absolute,
    arith.Exp: _function(math.exp),
    arith.Exp2: _function(math.exp2),
    arith.Exp2Nonpositive: _function(math.exp2_nonpositive),
    arith.Expm1: _function(math.expm1),
    arith.Log: _function(math.log),
    arith.Log2: _function(logarithms.log2),
    arith.Log10: _function(logarithms.log10),
    arith.Cbrt: _function(cbrt),
    arith.Tanh: _function(math.tanh),
    arith.Erf: _function(math.erf),
    arith.Sin: _function(circular.sin),
    arith.Cos: _function(circular.cos),
    arith.Tan: _function(circular.tan),
    arith.Asin: _function(circular.asin),
    arith.Acos: _function(circular.acos),
    arith.Atan: _function(circular.atan),
    arith.Sinh: _function(hyperbolic.sinh),
    arith.Cosh: _function(hyperbolic.cosh),
    arith.Asinh: _function(hyperbolic.asinh),
    arith.Acosh: _function(hyperbolic.acosh),
    arith.Atanh: _function(hyperbolic.atanh),
    arith.Sqrt: _intrinsic("sqrt"),
    arith.Floor: _intrinsic("floor"),
    arith.Ceil: _intrinsic("ceil"),
    arith.Round: _intrinsic("rint"),
    arith.Pow: lambda w, t, d, x: power(w, t, x[0], x[1]),
    arith.Atan2: lambda w, t, d, x: circular.atan2(w, t, x[0], x[1]),
    arith.Not: _not,
    arith.Fma: _fma,
}


def apply(op: type[Op], w: Writer, lanes: int, dtype: DType, x: list[str], result: DType) -> str:
    """One op on vectors of `lanes` elements of `dtype`; f16 and bf16 are computed with as f32."""
    if not is_narrow(dtype):
        return TABLE[op](w, Vec(lanes, ELEMENT[dtype.name]), dtype, x)
    wide = [widen(w, lanes, v, dtype) for v in x]
    out = TABLE[op](w, Vec(lanes, "float"), F32, wide)
    return shrink(w, lanes, out, dtype) if result is dtype else out


def cast(w: Writer, lanes: int, x: str, source: DType, target: DType) -> str:
    """Convert one vector between element types as `arith.cast` defines it."""
    if source is target:
        return x
    held = held_as(source)
    if held is not None:
        return cast(w, lanes, extend(w, lanes, x, source), held, target)
    if is_narrow(source) or source.kind == "s":
        return cast(w, lanes, widen(w, lanes, x, source), F32, target)
    held = held_as(target)
    if held is not None:
        whole = cast(w, lanes, x, source, I32) if source.is_float else x
        byte = cast(w, lanes, whole, I32 if source.is_float else source, held)
        return truncate(w, lanes, byte, target)
    if is_narrow(target):
        single = _narrowed_once(w, lanes, x, source)
        return shrink(w, lanes, single, target)
    if target.kind == "s":
        return shrink(w, lanes, cast(w, lanes, x, source, F32), target)
    from_vec, to_vec = Vec(lanes, ELEMENT[source.name]), Vec(lanes, ELEMENT[target.name])
    if target.kind == "b":
        zero = w.splat(from_vec, 0)
        return w.compare("une" if source.is_float else "ne", from_vec, x, zero)
    if source.is_float and target.is_float:
        return w.convert("fpext" if source.bits < target.bits else "fptrunc", from_vec, x, to_vec)
    if source.is_float and target.kind in "iu" and target.bits < 32:
        # the low bits of a wider integer, as NumPy does: what is out of range is no accident
        wide = Vec(lanes, "i32")
        return w.convert("trunc", wide, w.convert("fptosi", from_vec, x, wide), to_vec)
    if source.is_float and target.kind == "u":
        return _wrapped(w, from_vec, x, to_vec)
    if source.is_float:
        return w.convert("fptosi", from_vec, x, to_vec)
    if target.is_float:
        return w.convert("sitofp" if source.kind == "i" else "uitofp", from_vec, x, to_vec)
    if from_vec == to_vec:
        return x
    if from_vec.bits > to_vec.bits:
        return w.convert("trunc", from_vec, x, to_vec)
    return w.convert("sext" if source.kind == "i" else "zext", from_vec, x, to_vec)


def _wrapped(w: Writer, source: Vec, x: str, target: Vec) -> str:
    """Floats as unsigned integers by way of signed ones: one below 0 wraps, as NumPy's do."""
    half = w.splat(source, 2.0 ** (target.bits - 1))
    low = w.convert("fptosi", source, x, target)
    less = w.convert("fptosi", source, w.binary("fsub", source, x, half), target)
    top = w.splat(target, -1 << (target.bits - 1))
    high = w.binary("xor", target, less, top)
    return w.select(target, w.compare("oge", source, x, half), high, low)


def _narrowed_once(w: Writer, lanes: int, x: str, source: DType) -> str:
    """An f32 from which rounding again gives what rounding once would: f64 is rounded to odd.

    Rounding to odd keeps in the last bit that something was cut off (Boldo and Melquiond).
    """
    if source is not F64:
        return cast(w, lanes, x, source, F32)
    f32, f64, bits = Vec(lanes, "float"), Vec(lanes, "double"), Vec(lanes, "i32")
    near = w.convert("fptrunc", f64, x, f32)
    back = w.convert("fpext", f32, near, f64)
    inexact = w.compare("one", f64, back, x)
    pattern = w.bitcast(f32, near, bits)
    # toward zero first: one step back where rounding went away from zero
    size, original = (w.intrinsic(f"llvm.fabs.{f64.suffix}", f64, (f64, v)) for v in (back, x))
    away = w.compare("ogt", f64, size, original)
    toward = w.select(bits, away, w.binary("sub", bits, pattern, w.splat(bits, 1)), pattern)
    odd = w.binary("or", bits, toward, w.splat(bits, 1))
    return w.bitcast(bits, w.select(bits, inexact, odd, pattern), f32)
