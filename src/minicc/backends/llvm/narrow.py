"""Floats of 16 bits and less, and integers of less than 8, by integer arithmetic.

Tiles of these types are held as integers of the bytes that they take, and computed with as f32 (as
8-bit integers those of less than 8). LLVM's own `half` is converted alone, and where the processor
has instructions for that: elsewhere it would call library functions. No step makes a denormal f32
of a number that matters, so flushing denormals changes nothing but the least power of two of
f8e8m0fnu, which is one. Rounding is to the nearest, ties to even.
"""

from __future__ import annotations

from typing import NamedTuple

from minicc.backends.llvm.writer import Vec, Writer
from minicc.ir.types import BF16, F8E8M0FNU, F16, I8, U8, DType

_EXPONENT = 23  # where the exponent of an f32 begins
_QUIET = 0x7FC00000  # a NaN of f32
_F32 = 127  # its bias


class _Format(NamedTuple):
    """How a narrow float holds its sign, exponent and mantissa.

    The codes are those of the largest number, of what is larger, and of NaN (0 where there is none,
    and a NaN becomes a zero of the other sign). Where that of NaN is the sign alone, zero has none.
    """

    bits: int
    mantissa: int
    bias: int
    largest: int
    beyond: int
    nan: int

    @property
    def sign(self) -> int:
        """The bit of the sign."""
        return 1 << (self.bits - 1)

    @property
    def has_infinity(self) -> bool:
        """Whether what is too large is infinite."""
        return self.largest < self.beyond < self.nan


_FORMATS = {
    "f16": _Format(16, 10, 15, 0x7BFF, 0x7C00, 0x7E00),
    "f8e4m3fn": _Format(8, 3, 7, 0x7E, 0x7F, 0x7F),
    "f8e4m3fnuz": _Format(8, 3, 8, 0x7F, 0x80, 0x80),
    "f8e5m2": _Format(8, 2, 15, 0x7B, 0x7C, 0x7E),
    "f8e5m2fnuz": _Format(8, 2, 16, 0x7F, 0x80, 0x80),
    "f6e2m3fn": _Format(6, 3, 1, 0x1F, 0x1F, 0),
    "f6e3m2fn": _Format(6, 2, 3, 0x1F, 0x1F, 0),
    "f4e2m1fn": _Format(4, 1, 1, 0x7, 0x7, 0),
}
_INTEGERS = {"i4": I8, "u4": U8, "i2": I8, "u2": U8}


def is_narrow(dtype: DType) -> bool:
    """Whether a type is one of the two that are computed with in f32."""
    return dtype.is_float and dtype.bits == 16


def held_as(dtype: DType) -> DType | None:
    """The type of 8 bits that an integer of fewer is converted by; None for any other type."""
    return _INTEGERS.get(dtype.name)


def extend(w: Writer, lanes: int, x: str, dtype: DType) -> str:
    """The 8-bit integers that a vector of narrower ones holds; the bits above mean nothing."""
    byte, above = Vec(lanes, "i8"), 8 - dtype.bits
    lifted = w.binary("shl", byte, x, w.splat(byte, above))
    shift = "ashr" if _INTEGERS[dtype.name] is I8 else "lshr"
    return w.binary(shift, byte, lifted, w.splat(byte, above))


def truncate(w: Writer, lanes: int, x: str, dtype: DType) -> str:
    """The lowest bits of a vector of 8-bit integers; those above are 0, as ml_dtypes has them."""
    byte = Vec(lanes, "i8")
    return w.binary("and", byte, x, w.splat(byte, (1 << dtype.bits) - 1))


def widen(w: Writer, lanes: int, x: str, dtype: DType) -> str:
    """The f32 value of a vector of narrow floats' bits; exact."""
    bits, wide, f32 = Vec(lanes, f"i{8 * dtype.bytes}"), Vec(lanes, "i32"), Vec(lanes, "float")
    if w.has_half and dtype is F16:
        half = Vec(lanes, "half")
        return w.convert("fpext", half, w.bitcast(bits, x, half), f32)
    whole = w.convert("zext", bits, x, wide)
    if dtype is BF16:
        return w.bitcast(wide, w.binary("shl", wide, whole, w.splat(wide, 16)), f32)
    if dtype is F8E8M0FNU:
        return w.bitcast(wide, _power_of_two(w, wide, whole), f32)
    form = _FORMATS[dtype.name]
    moved = _EXPONENT - form.mantissa
    rebias = (_F32 - form.bias) << _EXPONENT
    sign = w.binary(
        "shl",
        wide,
        w.binary("and", wide, whole, w.splat(wide, form.sign)),
        w.splat(wide, 32 - form.bits),
    )
    size = w.binary(
        "shl",
        wide,
        w.binary("and", wide, whole, w.splat(wide, form.sign - 1)),
        w.splat(wide, moved),
    )
    normal = w.binary("add", wide, size, w.splat(wide, rebias))
    if form.has_infinity:
        special = w.compare("uge", wide, size, w.splat(wide, form.beyond << moved))
        normal = w.select(
            wide, special, w.binary("add", wide, normal, w.splat(wide, rebias)), normal
        )
    # below the normal range: a mantissa after a known exponent, less that power of two
    anchor = rebias + (1 << _EXPONENT)
    lifted = w.bitcast(wide, w.binary("add", wide, size, w.splat(wide, anchor)), f32)
    small = w.binary("fsub", f32, lifted, w.splat(f32, 2.0 ** (1 - form.bias)))
    tiny = w.compare("ult", wide, size, w.splat(wide, 1 << _EXPONENT))
    chosen = w.select(wide, tiny, w.bitcast(f32, small, wide), normal)
    if form.nan > form.sign - 1:
        nan = w.compare("eq", wide, whole, w.splat(wide, form.nan))
        chosen = w.select(wide, nan, w.splat(wide, _QUIET), chosen)
    elif form.nan and form.bits == 8:  # one of 16 bits keeps what else it says
        last = form.beyond if form.has_infinity else form.largest
        nan = w.compare("ugt", wide, size, w.splat(wide, last << moved))
        chosen = w.select(wide, nan, w.splat(wide, _QUIET), chosen)
    return w.bitcast(wide, w.binary("or", wide, chosen, sign), f32)


def _power_of_two(w: Writer, t: Vec, exponent: str) -> str:
    """The bits of the f32 with this exponent, of which the least is denormal and the last NaN."""
    plain = w.binary("shl", t, exponent, w.splat(t, _EXPONENT))
    least = w.compare("eq", t, exponent, w.splat(t, 0))
    plain = w.select(t, least, w.splat(t, 1 << (_EXPONENT - 1)), plain)
    nan = w.compare("eq", t, exponent, w.splat(t, 0xFF))
    return w.select(t, nan, w.splat(t, _QUIET), plain)


def shrink(w: Writer, lanes: int, x: str, dtype: DType) -> str:
    """The bits of the narrow floats nearest to a vector of f32."""
    wide, f32, bits = Vec(lanes, "i32"), Vec(lanes, "float"), Vec(lanes, f"i{8 * dtype.bytes}")
    if w.has_half and dtype is F16:
        half = Vec(lanes, "half")
        return w.bitcast(half, w.convert("fptrunc", f32, x, half), bits)
    whole = w.bitcast(f32, x, wide)
    nan = w.compare("uno", f32, x, x)
    if dtype is BF16:
        rounded = _round(w, wide, whole, 16)
        quiet = w.binary(
            "or", wide, w.binary("lshr", wide, whole, w.splat(wide, 16)), w.splat(wide, 0x40)
        )
        return w.convert("trunc", wide, w.select(wide, nan, quiet, rounded), bits)
    if dtype is F8E8M0FNU:
        return w.convert("trunc", wide, _exponent_of(w, wide, whole), bits)
    form = _FORMATS[dtype.name]
    sign = w.binary(
        "and",
        wide,
        w.binary("lshr", wide, whole, w.splat(wide, 32 - form.bits)),
        w.splat(wide, form.sign),
    )
    size = w.binary("and", wide, whole, w.splat(wide, 0x7FFFFFFF))
    rebias = (_F32 - form.bias) << _EXPONENT
    less = w.binary("sub", wide, size, w.splat(wide, rebias))
    normal = _round(w, wide, less, _EXPONENT - form.mantissa)
    # below the normal range: adding what has its last bit where the least number has its only one
    # aligns the mantissa, and rounds it in the processor
    power = 1 + _EXPONENT - form.bias - form.mantissa
    lifted = w.binary("fadd", f32, w.bitcast(wide, size, f32), w.splat(f32, 2.0**power))
    anchor = w.splat(wide, (_F32 + power) << _EXPONENT)
    small = w.binary("sub", wide, w.bitcast(f32, lifted, wide), anchor)
    tiny = w.compare("ult", wide, size, w.splat(wide, rebias + (1 << _EXPONENT)))
    out = w.select(wide, tiny, small, normal)
    large = w.compare("ugt", wide, out, w.splat(wide, form.largest))
    out = w.select(wide, large, w.splat(wide, form.beyond), out)
    out = w.select(wide, nan, w.splat(wide, form.nan), out)
    if not form.nan:
        other = w.binary("xor", wide, sign, w.splat(wide, form.sign))
        sign = w.select(wide, nan, other, sign)
    elif form.nan == form.sign:
        zero = w.compare("eq", wide, out, w.splat(wide, 0))
        sign = w.select(wide, zero, w.splat(wide, 0), sign)
    return w.convert("trunc", wide, w.binary("or", wide, out, sign), bits)


def _exponent_of(w: Writer, t: Vec, x: str) -> str:
    """The exponent of an f32's bits, rounded half up; 255 for what is no positive number."""
    denormal = w.compare("ult", t, x, w.splat(t, 1 << _EXPONENT))
    half = 1 << (_EXPONENT - 1)
    added = w.select(t, denormal, w.splat(t, half - 1), w.splat(t, half))
    out = w.binary("lshr", t, w.binary("add", t, x, added), w.splat(t, _EXPONENT))
    above = w.compare("ugt", t, x, w.splat(t, 0xFF << _EXPONENT))
    none = w.compare("eq", t, x, w.splat(t, 0))
    return w.select(t, w.binary("or", t.mask, above, none), w.splat(t, 0xFF), out)


def _round(w: Writer, t: Vec, x: str, shift: int) -> str:
    """X / 2**shift to the nearest, ties to even; a carry runs into the exponent, as it should."""
    odd = w.binary("and", t, w.binary("lshr", t, x, w.splat(t, shift)), w.splat(t, 1))
    added = w.binary("add", t, w.binary("add", t, x, w.splat(t, (1 << (shift - 1)) - 1)), odd)
    return w.binary("lshr", t, added, w.splat(t, shift))
