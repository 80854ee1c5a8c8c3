"""Cover rows whose number is free by steps of a few lengths.

Most rows are handled in long steps. What is left over is one short step, or a middle one, or both
or two middle ones in the place of a long one, or one more long step: whichever computes the fewest
rows more than there are. So nine rows are two steps of five where steps are of eight and of five,
and what the rows are multiplied by is read no more often than it must be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from minicc.ir import affine
from minicc.ir.affine import Dim
from minicc.ir.core import Array

_SIZES = range(2, 36)  # numbers that sizes are taken for, by which lengths of steps are judged
_MOST = 1 << 48  # rows, of which no memory holds as many
_VECTOR = 16  # elements
ADDRESSES = 12  # rows that may have addresses of their own: more don't fit the registers


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
        holds = self.short < self.middle and self.long <= ADDRESSES
        return self.middle + 1 if holds else self.long


def partial_step(step: int) -> int:
    """The elements of a step that may be partial, where whole ones have so many: about a vector."""
    return max(step // 4, min(step, _VECTOR))


def steps_of(cover: Sequence[int]) -> Steps:
    """The lengths that a cover of rows has, but for that of a row alone."""
    long, *others = (n for n in cover if n > 1)
    return Steps(long, others[0], others[-1])


def long_steps(rows: Dim, steps: Steps) -> Dim:
    """How many long steps cover so many rows; below 0 where one less than none would do.

    What is left over are at most as many rows as two middle steps have.
    """
    long, middle, short = steps
    count: Dim = _long_steps(rows, long, middle, short, max)
    return count


def _long_steps(rows: Any, long: int, middle: Any, short: Any, larger: Callable[..., Any]) -> Any:
    """As above, of numbers and of arrays, of which `larger` gives the larger."""
    # so many rows beyond a long step are done in a middle step and a short one, or in two middle
    # ones, which are tried where a short step alone does not do
    both, twice = larger(middle + short - long, 0), larger(2 * middle - long, short)

    def steps(least: Any) -> Any:
        return (rows + (long - least - 1)) // long  # one more where more rows are left over

    count = steps(middle) + steps(both) - (rows - 1) // long - 1
    return count - steps(short) + steps(twice)


class Choices(NamedTuple):
    """Lengths of steps in order, and how many of each length there are for a row, on average.

    All are arrays of three columns. By `counts` lengths are chosen; `few` is the average over few
    rows alone.
    """

    lengths: Array
    counts: Array
    few: Array


@cache
def numbers_of(extent: Dim) -> tuple[int, ...]:
    """How many rows there are where the sizes in their extent are small, one after the other."""
    names = affine.symbols(extent)
    found = (affine.evaluate(extent, dict.fromkeys(names, n)) for n in _SIZES)
    return tuple(n for n in found if 1 < n < _MOST) or tuple(_SIZES)


@cache
def choices(long: int, three: bool, more: int, numbers: tuple[int, ...]) -> Choices:
    """Lengths of middle and short steps beside long ones, of which the shorter two may differ.

    The average is over some `numbers` of rows, and as often over many. What there is to do but for
    the steps takes as long as some rows `more`.
    """
    lengths = range(min(3, -(-long // 2)), max(min(long, ADDRESSES + 1), 2))
    found = [Steps(long, m, s) for m in lengths for s in lengths if s == m or (three and s < m)]
    middle, short, least = (
        np.array(column)[:, None]
        for column in zip(*[(k.middle, k.short, k.least) for k in found], strict=True)
    )
    rows = np.array(numbers, np.int64)
    counted = _long_steps(rows, long, middle, short, np.maximum)
    first = np.where(rows >= least, np.maximum(counted, 0), 0)
    left = np.maximum(rows - first * long, 0)
    second = -(-np.maximum(left - short, 0) // middle)
    third = -(-np.maximum(left - second * middle, 0) // short)
    counts = first, second, third
    judged = [(count / (rows + more)).mean(axis=1) / 2 for count in counts]
    judged[0] = judged[0] + 1 / (2 * long)
    few = [(count / rows).mean(axis=1) for count in counts]
    return Choices(np.array(found), np.stack(judged, axis=1), np.stack(few, axis=1))
