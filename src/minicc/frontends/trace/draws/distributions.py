"""Distributions of `numpy.random.Generator`, written with NumPy and traced as that stands.

They give what NumPy gives in each bit, but for the tail of a normal or an exponential, of which the
logarithm may be one in the last place off. Normal and exponential numbers come of ziggurats
(G. Marsaglia and W. W. Tsang, "The Ziggurat Method for Generating Random Variables", 2000),
integers below a bound of D. Lemire, "Fast Random Integer Generation in an Interval", 2019.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.frontends.trace.draws.bits import next32, next64, times

CAPTURED = True  # loops, however few rounds they have


def uniform(words: Any) -> Any:
    """A float from 0 to 1, of 53 bits."""
    return (next64(words) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


def normal(words: Any, width: Any, within: Any, height: Any, end: Any) -> Any:
    """A normal number; the tables are those of `tables.normal`."""
    raw = next64(words)
    level = raw & np.uint64(255)
    place = (raw >> np.uint64(9)) & np.uint64(0xFFFFFFFFFFFFF)
    x = place * width[level]
    x = np.where((raw >> np.uint64(8)) & np.uint64(1), -x, x)
    outside = place >= within[level]
    far = outside & (level == 0)
    while outside & ~far:
        above = (height[level - np.uint64(1)] - height[level]) * uniform(words) + height[level]
        outside = above >= np.exp(-0.5 * x * x)
        if outside:
            raw = next64(words)
            level = raw & np.uint64(255)
            place = (raw >> np.uint64(9)) & np.uint64(0xFFFFFFFFFFFFF)
            x = place * width[level]
            x = np.where((raw >> np.uint64(8)) & np.uint64(1), -x, x)
            outside = place >= within[level]
            far = outside & (level == 0)
    while far:
        beyond = -(1.0 / end) * np.log1p(-uniform(words))
        other = -np.log1p(-uniform(words))
        far = other + other <= beyond * beyond
        x = np.where((place >> np.uint64(8)) & np.uint64(1), -(end + beyond), end + beyond)
    return x


def exponential(words: Any, width: Any, within: Any, height: Any, end: Any) -> Any:
    """An exponential number of scale 1; the tables are those of `tables.exponential`."""
    raw = next64(words) >> np.uint64(3)
    level = raw & np.uint64(255)
    place = raw >> np.uint64(8)
    x = place * width[level]
    outside = place >= within[level]
    far = outside & (level == 0)
    while outside & ~far:
        above = (height[level - np.uint64(1)] - height[level]) * uniform(words) + height[level]
        outside = above >= np.exp(-x)
        if outside:
            raw = next64(words) >> np.uint64(3)
            level = raw & np.uint64(255)
            place = raw >> np.uint64(8)
            x = place * width[level]
            outside = place >= within[level]
            far = outside & (level == 0)
    while far:
        x = end - np.log1p(-uniform(words))
        far = False  # a loop, for its one round is not run where none is needed
    return x


def below(words: Any, spare: Any, bound: Any) -> Any:
    """An integer from 0 to below a bound of less than 2**32, of 32 bits."""
    product = next32(words, spare) * bound
    rest = product & np.uint64(0xFFFFFFFF)
    while (rest < bound) & (rest < (np.uint64(1 << 32) - bound) % bound):
        product = next32(words, spare) * bound
        rest = product & np.uint64(0xFFFFFFFF)
    return product >> np.uint64(32)


def maybe_below(words: Any, spare: Any, bound: Any) -> Any:
    """The same; below 1 there is nothing to draw."""
    product, again = np.uint64(0), bound > 1
    while again:
        product = next32(words, spare) * bound
        rest = product & np.uint64(0xFFFFFFFF)
        again = (rest < bound) & (rest < (np.uint64(1 << 32) - bound) % bound)
    return product >> np.uint64(32)


def far_below(words: Any, bound: Any) -> Any:
    """The same for a larger bound, of 64 bits."""
    whole, rest = times(next64(words), bound)
    while (rest < bound) & (rest < (np.uint64(0xFFFFFFFFFFFFFFFF) - bound + np.uint64(1)) % bound):
        whole, rest = times(next64(words), bound)
    return whole


def fill(out: Any, one: Any, *args: Any) -> None:
    """Fill an array of one axis with what a function draws for its arguments."""
    for k in range(len(out)):
        out[k] = one(*args)


def up_to(last: Any, draw: Any, *bits: Any) -> Any:
    """An integer from 0 to a last one of less than 2**32: the first drawn that is not above it.

    Up to 0 there is nothing to draw.
    """
    mask = last
    for shift in (1, 2, 4, 8, 16):
        mask = mask | (mask >> np.uint64(shift))
    drawn, again = np.uint64(0), last > 0
    while again:
        drawn = draw(*bits) & mask
        again = drawn > last
    return drawn


def shuffle(x: Any, draw: Any, *bits: Any) -> None:
    """Change the order of rows, as Fisher and Yates do from the last one on."""
    for k in range(len(x) - 1, 0, -1):
        j = up_to(np.uint64(k), draw, *bits).astype(np.int64)
        row = x[j].copy()
        x[j] = x[k]
        x[k] = row
