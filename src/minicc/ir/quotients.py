"""Quotients by constants as sums of two products, where these are the same bit for bit.

For a constant c, let `high` be 1/c rounded toward 0, and `low` what that lacks, rounded. Then the
sum of x * high and x * low, which a fused multiply-add rounds once, is x / c rounded, but for a few
x that lie next to the middle between two numbers. Where they lie follows from a congruence, so it
is found out for each constant (Brisebarre, Muller and Raina, "Accelerating Correctly Rounded
Floating-Point Division when the Divisor Is Known in Advance", IEEE Transactions on Computers 53(8),
2004). That is for quotients from 2^-960 on; of smaller ones the second product is not exact enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

_BITS = 53  # of the significand of a double
_NEAR = 8  # units of the product of significands by which a quotient may be mistaken
_SIZES = (2.0**-900, 2.0**900)  # of constants whose parts are normal numbers


@lru_cache(1024)
def parts_of_inverse(c: float) -> tuple[float, float] | None:
    """`high` and `low` for a constant; None where some quotient would not be the same."""
    if not _SIZES[0] < abs(c) < _SIZES[1]:
        return None
    high = 1 / c
    if abs(Fraction(high) * Fraction(c)) > 1:
        high = math.nextafter(high, 0.0)
    # of the same sign as `high`, or 0: so the products of an infinity don't cancel
    low = float(1 / Fraction(c) - Fraction(high))
    exact = all(_product(x, high, low) == x / c for x in _doubtful(c))
    return (high, low) if low and exact else None


def _product(x: float, high: float, low: float) -> float:
    return float(Fraction(x) * Fraction(high) + Fraction(x * low))


def _doubtful(c: float) -> Iterator[float]:
    """The significands whose quotients may lie on the wrong side of the middle of two numbers.

    With whole significands x of 53 bits, y of the constant and m, odd, of 54 bits of the middle:
    x * 2^s - m * y is some d of at most 8 units, and not 0, where s is 53 if x is at least y, and
    else 54.
    """
    y = int(math.ldexp(abs(math.frexp(c)[0]), _BITS))
    even = (y & -y).bit_length() - 1
    odd = y >> even
    first, last = 1 << (_BITS - 1), 1 << _BITS
    for s in (_BITS, _BITS + 1):
        turn = pow(1 << (s - even), -1, odd) if odd > 1 else 0
        for d in range(-_NEAR, _NEAR + 1):
            if d and d % (1 << even) == 0:
                x = (d >> even) * turn % odd
                x += -(-(first - x) // odd) * odd
                yield from map(float, range(x, last, odd))
