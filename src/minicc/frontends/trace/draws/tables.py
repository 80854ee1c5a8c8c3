"""The tables of NumPy's ziggurats, as NumPy itself tells them.

NumPy's were computed with rounding errors of their own, so no formula gives them in each bit. But
what a generator draws whose next number of 64 bits is known says how wide a level is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from minicc.frontends.trace.draws.bits import HIGH, LOW
from minicc.ir.core import Array

_MODULUS = 1 << 128
_BACK = pow((HIGH << 64) + LOW, -1, _MODULUS)
_NEAR = 1 << 40  # a place within a level that is surely taken


class Ziggurat(NamedTuple):
    """A curve in 256 levels of the same area, the lowest first, which has no end.

    Of each the width for a unit of a place, the places that are surely below the curve, and the
    height of the curve at its end; and where the lowest one is cut off.
    """

    width: Array
    within: Array
    height: Array
    end: float


def _before(number: int) -> dict[str, Any]:
    """The state of a PCG64 that draws a number of 64 bits next."""
    state = {"state": (number - 1) * _BACK % _MODULUS, "inc": 1}
    return {"bit_generator": "PCG64", "state": state, "has_uint32": 0, "uinteger": 0}


def _learnt(draw: str, bits: int, number: Callable[[int], int], curve: Any) -> Ziggurat:
    generator = np.random.Generator(np.random.PCG64(0))
    width = np.empty(256)
    for level in range(256):
        generator.bit_generator.state = _before(number(level))
        width[level] = getattr(generator, draw)() / _NEAR
    ends = width * 2.0**bits
    height = curve(ends)
    height[0] = 1.0
    within = np.zeros(256, np.uint64)
    within[0] = int(ends[255] / ends[0] * 2.0**bits)
    within[2:] = (ends[1:255] / ends[2:] * 2.0**bits).astype(np.uint64)
    return Ziggurat(width, within, height, float(ends[255]))


@cache
def normal() -> Ziggurat:
    """That of normal numbers, of 52 bits and a sign."""
    return _learnt("standard_normal", 52, lambda k: k | _NEAR << 9, lambda x: np.exp(-0.5 * x * x))


@cache
def exponential() -> Ziggurat:
    """That of exponential numbers, of 53 bits."""
    return _learnt("standard_exponential", 53, lambda k: k << 3 | _NEAR << 11, lambda x: np.exp(-x))
