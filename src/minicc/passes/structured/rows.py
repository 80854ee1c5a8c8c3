"""Cover rows whose number is free by steps of a few lengths.

Most rows are handled in long steps. What is left over is one short step, or a middle one, or both
in the place of a long one, or one more long step: whichever computes the fewest rows more than
there are. So nine rows are two steps of five where steps are of eight and of five, and what the
rows are multiplied by is read no more often than it must be.

Mirrors: the kernels for what is left over in BLIS and XNNPACK, which have one for each number of
rows; ours are two or three for all numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from statistics import fmean
from typing import NamedTuple

from minicc.ir.affine import Dim, number

_FEWEST, _MOST = 2, 36  # numbers of rows that lengths of steps are judged by
_ADDRESSES = 12  # rows that may have addresses of their own: more don't fit the registers


class Steps(NamedTuple):
    """How many rows the steps have: long ones, middle ones, short ones; two may be the same."""

    long: int
    middle: int
    short: int

    @property
    def least(self) -> int:
        """The fewest rows for which there are long steps.

        Where there are middle ones, too, reading what the rows are multiplied by takes long, and a
        long step may have rows beyond the end.
        """
        holds = self.short < self.middle and self.long <= _ADDRESSES
        return self.middle + 1 if holds else self.long


def steps_of(cover: Sequence[int]) -> Steps:
    """The lengths that a cover of rows has, but for that of a row alone."""
    long, *others = (n for n in cover if n > 1)
    return Steps(long, others[0], others[-1])


def long_steps(rows: Dim, steps: Steps) -> Dim:
    """How many long steps cover so many rows; below 0 where one less than none would do.

    What is left over are at most as many rows as a middle step and a short one have.
    """
    long, middle, short = steps
    spare = max(0, middle + short - long)  # rows beyond a long step for which these two do
    count = (rows + (long - spare - 1)) // long - (rows - 1) // long
    return count + (rows + (long - middle - 1)) // long - 1


def _counts(rows: int, steps: Steps) -> tuple[int, int, int]:
    if rows <= steps.middle:
        return (0, 1, 0) if rows > steps.short else (0, 0, 1)
    long = max(0, number(long_steps(rows, steps))) if rows >= steps.least else 0
    left = max(0, rows - long * steps.long)
    middle = int(left > steps.short)
    return long, middle, -(-max(0, left - middle * steps.middle) // steps.short)


@cache
def average_counts(steps: Steps, more: int) -> tuple[float, float, float]:
    """The steps of each kind for a row, on average over few rows and as often over many.

    What there is to do but for the steps takes as long as some rows `more`.
    """
    numbers = range(_FEWEST, _MOST)
    counts = [(_counts(n, steps), n + more) for n in numbers]
    few = [fmean(c[k] / n for c, n in counts) for k in range(3)]
    return (few[0] + 1 / steps.long) / 2, few[1] / 2, few[2] / 2


@cache
def choices(long: int, three: bool) -> tuple[Steps, ...]:
    """Lengths of middle and short steps beside long ones, of which the shorter two may differ."""
    lengths = range(min(3, -(-long // 2)), max(min(long, _ADDRESSES + 1), 2))
    return tuple(Steps(long, m, s) for m in lengths for s in lengths if s == m or (three and s < m))
