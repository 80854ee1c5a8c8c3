"""f16 and bf16 as integers: conversions from and to f32 by integer arithmetic, for every target.

Tiles of these types are held as 16-bit integers and computed with as f32; LLVM's own `half` would
call library functions where the processor has no conversions. No step makes a denormal f32 of a
number that matters, so flushing denormals changes nothing. Rounding is to the nearest, ties to
even.

Mirrors: compiler-rt's extend and trunc functions, XLA's float-normalization and
change-op-data-type passes.
"""

from __future__ import annotations

from minicc.backends.llvm.writer import Vec, Writer
from minicc.ir.types import DType

_EXPONENT = 23  # where the exponent of an f32 begins
_MOVED = 13  # how far an f16's mantissa stands from an f32's
_REBIAS = (127 - 15) << _EXPONENT


def is_narrow(dtype: DType) -> bool:
    """Whether a type is one of the two that are computed with in f32."""
    return dtype.is_float and dtype.bits == 16


def widen(w: Writer, lanes: int, x: str, dtype: DType) -> str:
    """The f32 value of a vector of f16 or bf16 bits; exact."""
    bits, wide, f32 = Vec(lanes, "i16"), Vec(lanes, "i32"), Vec(lanes, "float")
    whole = w.convert("zext", bits, x, wide)
    if dtype.name == "bf16":
        return w.bitcast(wide, w.binary("shl", wide, whole, w.splat(wide, 16)), f32)
    sign = w.binary(
        "shl", wide, w.binary("and", wide, whole, w.splat(wide, 0x8000)), w.splat(wide, 16)
    )
    size = w.binary(
        "shl", wide, w.binary("and", wide, whole, w.splat(wide, 0x7FFF)), w.splat(wide, _MOVED)
    )
    normal = w.binary("add", wide, size, w.splat(wide, _REBIAS))
    special = w.compare("uge", wide, size, w.splat(wide, 0x1F << _EXPONENT))
    normal = w.select(wide, special, w.binary("add", wide, normal, w.splat(wide, _REBIAS)), normal)
    # below the normal range: a mantissa behind a known exponent, less that power of two
    anchor = (127 - 14) << _EXPONENT
    lifted = w.bitcast(wide, w.binary("add", wide, size, w.splat(wide, anchor)), f32)
    small = w.binary("fsub", f32, lifted, w.splat(f32, 2.0**-14))
    tiny = w.compare("ult", wide, size, w.splat(wide, 1 << _EXPONENT))
    chosen = w.select(wide, tiny, w.bitcast(f32, small, wide), normal)
    return w.bitcast(wide, w.binary("or", wide, chosen, sign), f32)


def shrink(w: Writer, lanes: int, x: str, dtype: DType) -> str:
    """The f16 or bf16 bits nearest to a vector of f32."""
    wide, f32, bits = Vec(lanes, "i32"), Vec(lanes, "float"), Vec(lanes, "i16")
    whole = w.bitcast(f32, x, wide)
    nan = w.compare("uno", f32, x, x)
    shift = 16 if dtype.name == "bf16" else _MOVED
    if dtype.name == "bf16":
        rounded = _round(w, wide, whole, shift)
        quiet = w.binary(
            "or", wide, w.binary("lshr", wide, whole, w.splat(wide, 16)), w.splat(wide, 0x40)
        )
        return w.convert("trunc", wide, w.select(wide, nan, quiet, rounded), bits)
    sign = w.binary(
        "and", wide, w.binary("lshr", wide, whole, w.splat(wide, 16)), w.splat(wide, 0x8000)
    )
    size = w.binary("and", wide, whole, w.splat(wide, 0x7FFFFFFF))
    normal = _round(w, wide, w.binary("sub", wide, size, w.splat(wide, _REBIAS)), shift)
    # below the normal range: adding a half aligns the mantissa and rounds it in the processor
    lifted = w.binary("fadd", f32, w.bitcast(wide, size, f32), w.splat(f32, 0.5))
    small = w.binary("sub", wide, w.bitcast(f32, lifted, wide), w.splat(wide, 126 << _EXPONENT))
    tiny = w.compare("ult", wide, size, w.splat(wide, (127 - 14) << _EXPONENT))
    out = w.select(wide, tiny, small, normal)
    large = w.compare("uge", wide, size, w.splat(wide, (127 + 16) << _EXPONENT))
    out = w.select(wide, large, w.splat(wide, 0x7C00), out)
    out = w.select(wide, nan, w.splat(wide, 0x7E00), out)
    return w.convert("trunc", wide, w.binary("or", wide, out, sign), bits)


def _round(w: Writer, t: Vec, x: str, shift: int) -> str:
    """X / 2**shift to the nearest, ties to even; a carry runs into the exponent, as it should."""
    odd = w.binary("and", t, w.binary("lshr", t, x, w.splat(t, shift)), w.splat(t, 1))
    added = w.binary("add", t, w.binary("add", t, x, w.splat(t, (1 << (shift - 1)) - 1)), odd)
    return w.binary("lshr", t, added, w.splat(t, shift))
