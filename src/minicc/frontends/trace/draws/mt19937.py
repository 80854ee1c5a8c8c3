"""The Mersenne Twister and the old distributions, written with NumPy and traced as that stands.

M. Matsumoto and T. Nishimura, "Mersenne Twister: A 623-Dimensionally Equidistributed Uniform
Pseudo-Random Number Generator", 1998. What is drawn of it here is what `numpy.random.RandomState`
draws, whose numbers NumPy keeps as they are (NEP 19).
"""

from __future__ import annotations

from typing import Any

import numpy as np

WORDS = 624


def seed(key: Any, at: Any, left: Any, number: Any) -> None:
    """Begin with a number of 32 bits."""
    key[0] = number
    for k in range(1, WORDS):
        before = key[k - 1]
        key[k] = np.uint32(1812433253) * (before ^ (before >> np.uint32(30))) + np.uint32(k)
    at[0] = WORDS
    left[0] = 0


def twist(key: Any) -> None:
    """Make all words anew."""
    for k in range(WORDS):
        one = np.uint32(1)
        joined = (key[k] & np.uint32(1 << 31)) | (key[(k + 1) % WORDS] & np.uint32((1 << 31) - 1))
        turned = (joined >> one) ^ (np.uint32(0x9908B0DF) * (joined & one))
        key[k] = key[(k + 397) % WORDS] ^ turned


def next32(key: Any, at: Any) -> Any:
    """A number of 32 bits, as one of 64."""
    spent = at[0] >= WORDS
    while spent:
        twist(key)
        at[0] = 0
        spent = False
    y = key[at[0]]
    at[0] += 1
    y = y ^ (y >> np.uint32(11))
    y = y ^ ((y << np.uint32(7)) & np.uint32(0x9D2C5680))
    y = y ^ ((y << np.uint32(15)) & np.uint32(0xEFC60000))
    return (y ^ (y >> np.uint32(18))).astype(np.uint64)


def uniform(key: Any, at: Any) -> Any:
    """A float from 0 to 1, of 53 bits."""
    high = (next32(key, at) >> np.uint64(5)).astype(np.float64)
    low = (next32(key, at) >> np.uint64(6)).astype(np.float64)
    return (high * 67108864.0 + low) / 9007199254740992.0


def normal(key: Any, at: Any, left: Any, other: Any) -> Any:
    """A normal number, of which there are two at a time, in polar form (Marsaglia).

    `left` says whether the `other` one of the last two is not drawn yet.
    """
    x, again = other[0], left[0] == 0
    left[0] = np.where(again, 1, 0)
    while again:
        first = 2.0 * uniform(key, at) - 1.0
        second = 2.0 * uniform(key, at) - 1.0
        square = first * first + second * second
        again = (square >= 1.0) | (square == 0.0)
        factor = np.sqrt(-2.0 * np.log(square) / square)
        x = factor * second
        other[0] = factor * first
    other[0] = np.where(left[0] == 0, 0.0, other[0])
    return x


def exponential(key: Any, at: Any) -> Any:
    """An exponential number of scale 1."""
    return -np.log(1.0 - uniform(key, at))
