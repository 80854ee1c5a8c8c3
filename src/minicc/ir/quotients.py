"""Quotients by constants as sums of two products, where these are the same bit for bit.

For a constant c, let `high` be 1/c rounded toward 0, and `low` what that lacks, rounded. Then the
sum of x * high and x * low, which a fused multiply-add rounds once, is x / c rounded, but for a few
x that lie next to the middle between two numbers. Where they lie follows from a congruence, so it
is found out for each constant (Brisebarre, Muller and Raina, "Accelerating Correctly Rounded
Floating-Point Division when the Divisor Is Known in Advance", IEEE Transactions on Computers 53(8),
2004). That is for quotients from 2^-960 on, or of floats from 2^-75 on; of smaller ones the second
product is not exact enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

from minicc.ir.types import F32, F64

SIGNIFICANDS = {F64: 53, F32: 24}  # their bits
_NEAR = 8  # units of the product of significands by which a quotient may be mistaken
# by the bits of a significand: the sizes of constants whose parts are normal numbers
_SIZES = {53: (2.0**-900, 2.0**900), 24: (2.0**-60, 2.0**60)}


@lru_cache(1024)
def parts_of_inverse(c: float, bits: int) -> tuple[float, float] | None:
    """`high` and `low` for a constant; None where some quotient would not be the same.

    All of them are numbers whose significands have so many bits: 53, or 24 of floats.
    """
    least, most = _SIZES[bits]
    if not least < abs(c) < most:
        return None
    high = _rounded(1 / Fraction(c), bits)
    if abs(high * Fraction(c)) > 1:
        high -= _last_place(high, bits)
    # of the same sign as `high`, or 0: so the products of an infinity don't cancel
    low = _rounded(1 / Fraction(c) - high, bits)
    exact = all(
        _product(x, high, low, bits) == _rounded(x / Fraction(c), bits) for x in _doubtful(c, bits)
    )
    return (float(high), float(low)) if low and exact else None


def _last_place(x: Fraction, bits: int) -> Fraction:
    """The unit of the last place of a number, with its sign."""
    exponent = abs(x.numerator).bit_length() - x.denominator.bit_length()
    unit = Fraction(2) ** (exponent - bits)
    if abs(x) >= unit * 2**bits:
        unit *= 2
    return unit if x > 0 else -unit


def _rounded(x: Fraction, bits: int) -> Fraction:
    """The nearest number of so many bits; of two as near, the even one."""
    if not x:
        return x
    unit = _last_place(x, bits)
    return round(x / unit) * unit


def _product(x: int, high: Fraction, low: Fraction, bits: int) -> Fraction:
    return _rounded(x * high + _rounded(x * low, bits), bits)


def _doubtful(c: float, bits: int) -> Iterator[int]:
    """The significands whose quotients may lie on the wrong side of the middle of two numbers.

    With whole significands x of `bits` bits, y of the constant and m, odd, of one bit more of the
    middle: x * 2^s - m * y is some d of at most 8 units, and not 0, where s is `bits` if x is at
    least y, and else one more.
    """
    y = int(math.ldexp(abs(math.frexp(c)[0]), bits))
    even = (y & -y).bit_length() - 1
    odd = y >> even
    first, last = 1 << (bits - 1), 1 << bits
    for s in (bits, bits + 1):
        turn = pow(1 << (s - even), -1, odd) if odd > 1 else 0
        for d in range(-_NEAR, _NEAR + 1):
            if d and d % (1 << even) == 0:
                x = (d >> even) * turn % odd
                x += -(-(first - x) // odd) * odd
                yield from range(x, last, odd)
