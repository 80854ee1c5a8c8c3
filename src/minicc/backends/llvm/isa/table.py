"""The instructions of x86-64 that LLVM has no name of its own for, as data.

Of several that compute the same, the first that a target has is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from minicc.backends.llvm.instructions import Instruction
from minicc.backends.llvm.writer import Apply, Vec, Writer
from minicc.ir.core import Array
from minicc.ir.words import word_products
from minicc.target import Target

_WIDTHS = (128, 256, 512)
_MASKED = frozenset({"avx512f", "avx512dq", "avx512vl"})

Lanes = Callable[[Vec], Sequence[int]]


def _registers(widest: int) -> Lanes:
    """The lanes of vectors that fill a register of at most so many bits."""
    return lambda t: [bits // t.bits for bits in _WIDTHS if bits <= widest]


def _masked(name: str, immediate: str = "") -> Callable[[Writer, Vec, Sequence[str]], str]:
    """An instruction of AVX-512 in its intrinsic's masked form, unmasked, in the mode's rounding.

    Its intrinsic of 512 bits has the rounding as an operand.
    """

    def emit(w: Writer, t: Vec, operands: Sequence[str]) -> str:
        bits = t.lanes * t.bits
        arguments = [(str(t), x) for x in operands]
        if immediate:
            arguments.append(("i32", immediate))
        arguments += [(str(t), "poison"), ("i16" if t.lanes == 16 else "i8", "-1")]
        if bits == 512:
            arguments.append(("i32", "4"))
        kind = "ps" if t.element == "float" else "pd"
        full = f"llvm.x86.avx512.mask.{name}.{kind}.{bits}"
        kinds = ", ".join([k for k, _ in arguments])
        w.declares.setdefault(full, f"declare {t} @{full}({kinds})")
        return w.inst(f"call {t} @{full}({', '.join([f'{k} {x}' for k, x in arguments])})")

    return emit


def _halves(t: Vec) -> Vec:
    return Vec(2 * t.lanes, "i16")


def _multiplied_pairs(w: Writer, t: Vec, operands: Sequence[str]) -> str:
    """Products of 16 bits, the sums of pairs, and their sum with the accumulator."""
    lhs, rhs, acc = operands
    names = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}
    pair = _halves(t)
    factors = [(pair, w.bitcast(t, x, pair)) for x in (lhs, rhs)]
    product = w.intrinsic(f"llvm.x86.{names[t.lanes]}", t, *factors)
    return w.binary("add", t, acc, product)


def _accumulated(name: str) -> Callable[[Writer, Vec, Sequence[str]], str]:
    """An instruction that adds the products of what words hold to its accumulator."""

    def emit(w: Writer, t: Vec, operands: Sequence[str]) -> str:
        lhs, rhs, acc = operands
        full = f"llvm.x86.avx512.{name}.{32 * t.lanes}"
        return w.intrinsic(full, t, (t, acc), (t, lhs), (t, rhs))

    return emit


def _dot(
    form: str, needs: str, widest: int, emit: Callable[[Writer, Vec, Sequence[str]], str]
) -> Instruction:
    def means(lhs: Array, rhs: Array, acc: Array) -> Array:
        return np.asarray(acc + word_products(lhs, rhs, form), np.int32)

    return Instruction(f"dot.{form}", means, frozenset(needs.split()), _registers(widest), emit)


def _significand(x: Array) -> Any:
    fraction, _ = np.frexp(x)
    return np.where(x < 0, np.nan, np.where(fraction >= 0.75, fraction, 2 * fraction))


def _of_floats(
    name: str, means: Callable[..., Any], called: str, immediate: str = ""
) -> Instruction:
    return Instruction(name, means, _MASKED, _registers(512), _masked(called, immediate))


INSTRUCTIONS = (
    # x * 2**floor(n), with gradual underflow
    _of_floats("scale", lambda x, n: np.ldexp(x, np.floor(n).astype(int)), "scalef"),
    # x less the nearest whole number, without exceptions; immediate 8: no fraction bits are kept
    _of_floats("fraction", lambda x: np.where(np.isinf(x), 0, x - np.rint(x)), "reduce", "8"),
    # immediate 11: in [3/4, 3/2), and NaN for a negative number
    _of_floats("significand", _significand, "getmant", "11"),
    _of_floats("exponent", lambda x: np.floor(np.log2(np.abs(x))), "getexp"),
    _dot("u8.i8", "avx512_vnni avx512vl", 512, _accumulated("vpdpbusd")),
    _dot("u8.i8", "avx_vnni", 256, _accumulated("vpdpbusd")),
    _dot("i16", "avx512_vnni avx512vl", 512, _accumulated("vpdpwssd")),
    _dot("i16", "avx_vnni", 256, _accumulated("vpdpwssd")),
    _dot("i16", "avx512bw", 512, _multiplied_pairs),
    _dot("i16", "avx2", 256, _multiplied_pairs),
    _dot("i16", "", 128, _multiplied_pairs),
)
"""All of them; the last three kinds are exact but for what wraps, as sums of integers do."""


@cache
def instructions_of(target: Target) -> dict[str, Instruction]:
    """The instructions that a target has, by what they compute."""
    found: dict[str, Instruction] = {}
    for instruction in INSTRUCTIONS:
        if instruction.needs <= target.needs:
            found.setdefault(instruction.name, instruction)
    return found


def writer_for(target: Target) -> Writer:
    """A writer that knows what a target has."""
    own: dict[str, Apply] = {name: i.apply for name, i in instructions_of(target).items()}
    return Writer(target.has_fma, own, has_half="f16c" in target.needs)
