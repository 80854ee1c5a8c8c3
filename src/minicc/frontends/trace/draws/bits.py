"""PCG64, written with NumPy and traced as that stands.

M. E. O'Neill, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms for
Random Number Generation", 2014: a linear congruential generator of 128 bits, of which 64 are put
out after an xor of both halves and a rotation (XSL RR).
"""

from __future__ import annotations

from typing import Any

import numpy as np

HIGH, LOW = 2549297995355413924, 4865540595714422341  # the multiplier


def times(a: Any, b: Any) -> Any:
    """The upper and the lower 64 bits of a product."""
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    a_low, a_high, b_low, b_high = a & low, a >> half, b & low, b >> half
    first, last = a_low * b_high, a_high * b_low
    middle = (a_low * b_low >> half) + (first & low) + (last & low)
    return a_high * b_high + (first >> half) + (last >> half) + (middle >> half), a * b


def following(low: Any, high: Any, add_low: Any, add_high: Any) -> Any:
    """The words of the next state, the lower ones first."""
    carried, new_low = times(low, np.uint64(LOW))
    new_high = carried + high * np.uint64(LOW) + low * np.uint64(HIGH)
    new_low = new_low + add_low
    return new_low, new_high + add_high + (new_low < add_low)


def output(low: Any, high: Any) -> Any:
    """The number that is put out at a state."""
    mixed, turns = high ^ low, high >> np.uint64(58)
    return (mixed >> turns) | (mixed << ((np.uint64(64) - turns) & np.uint64(63)))


def next64(words: Any) -> Any:
    """A number of 64 bits."""
    low, high = following(words[0], words[1], words[2], words[3])
    words[0] = low
    words[1] = high
    return output(low, high)


def next32(words: Any, spare: Any) -> Any:
    """A number of 32 bits, as one of 64: the half that is left, or the lower one of a new one."""
    left, low, high = spare[0] != 0, words[0], words[1]
    new_low, new_high = following(low, high, words[2], words[3])
    new = output(new_low, new_high)
    drawn = np.where(left, spare[1].astype(np.uint64), new & np.uint64(0xFFFFFFFF))
    words[0] = np.where(left, low, new_low)
    words[1] = np.where(left, high, new_high)
    spare[1] = np.where(left, spare[1], (new >> np.uint64(32)).astype(np.uint32))
    spare[0] = np.where(left, np.uint32(0), np.uint32(1))
    return drawn
