"""Known places as an index map: those that lie on a line, rounded down.

    0, 0, 1, 1, 2, 3, 3, 4, ...   -->   5*d0 floordiv 8

So the rows of an image lie that another size of it is made of. What is read there needs no index
from memory and no check, and is read in place by what merges it. Where an axis is repeated at its
edges, the line is cut off there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minicc.ir import affine
from minicc.ir.affine import Dim
from minicc.ir.core import Array

_LONGEST = 1 << 16  # places, of which products fit i64 by far
_FINEST = 24  # bits of a slope behind the point
_SLOPES = 17  # that are tried at once
_ROUNDS = 7  # in which the best one is found


def on_line(places: Array, dims: Sequence[Dim]) -> Dim | None:
    """Known places, [n] or [n, m], as an expression over as many dimensions; None for others.

    Those of the second dimension are evenly apart.
    """
    if places.ndim not in (1, 2) or not places.size or len(places) > _LONGEST:
        return None
    first = places.reshape(len(places), -1).astype(np.int64)
    steps = np.unique(np.diff(first, axis=1))
    line = _line(first[:, 0], dims[0]) if len(steps) <= 1 else None
    if line is None or not len(steps):
        return line
    return line + affine.multiply(dims[1], int(steps[0]))


def _line(places: Array, at: Dim) -> Dim | None:
    """Places as the whole parts of a line, cut off at the first and at the last if need be."""
    if len(places) == 1:
        return int(places[0])
    steps = np.diff(places)
    rising = np.flatnonzero(steps)
    if not len(rising):
        return int(places[0])
    inner = steps[rising[0] : rising[-1] + 1]
    if steps.min() < 0 or inner[1:-1].max(initial=0) - inner[1:-1].min(initial=1 << 62) > 1:
        return None
    number = np.arange(len(places))
    everywhere = np.ones(len(places), bool)
    for least, most in (
        (everywhere, everywhere),
        # beyond its ends the line is where it likes
        (places != places[0], places != places[-1]),
    ):
        found = _fitted(places, number[least], number[most])
        if found is None:
            continue
        slope, start, divisor = found
        ends = [(slope * n + start) // divisor for n in (0, len(places) - 1)]
        line = affine.floordiv(affine.multiply(at, slope) + start, divisor)
        if ends[0] != places[0]:
            # a maximum that occurs once, whose bounds are so seen
            line = -affine.minimum(-line, -int(places[0]))
        return line if ends[1] == places[-1] else affine.minimum(line, int(places[-1]))
    return None


def _fitted(places: Array, least: Array, most: Array) -> tuple[int, int, int] | None:
    """The slope, start and divisor of a line; None where no such line fits.

    It is on or above the places at the numbers `least`, and less than 1 above those at `most`.
    """
    low, high = 0.0, float(np.diff(places).max())
    for _ in range(_ROUNDS):
        # how far a line may be moved is a concave function of its slope
        slopes = np.linspace(low, high, _SLOPES)[:, None]
        above = (places[most] + 1 - slopes * most).min(axis=1)
        best = int(np.argmax(above - (places[least] - slopes * least).max(axis=1)))
        low, high = float(slopes[max(best - 1, 0), 0]), float(slopes[min(best + 1, _SLOPES - 1), 0])
    for bits in range(_FINEST):
        divisor = 1 << bits
        slope = round((low + high) / 2 * divisor)
        start = int((places[least] * divisor - least * slope).max())
        end = int((places[most] * divisor + divisor - 1 - most * slope).min())
        if start <= end:
            return slope, (start + end) // 2, divisor
    return None
