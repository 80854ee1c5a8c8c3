"""Steps over rows whose number is free: all rows are covered, and few more than there are."""

from __future__ import annotations

import pytest

from minicc.ir.affine import evaluate, number, symbol
from minicc.passes.structured.rows import Steps, choices, long_steps, numbers_of, steps_of

NUMBERS = numbers_of(symbol("$n"))
CHOICES = [choices(long, three=True, more=0, numbers=NUMBERS) for long in range(3, 29)]
ALL = [Steps(*row) for found in CHOICES for row in found.lengths.tolist()]


@pytest.mark.parametrize("steps", ALL[::7], ids=str)
def test_what_long_steps_leave_is_for_the_other_two(steps: Steps) -> None:
    counted = long_steps(symbol("n"), steps)
    for rows in range(1, 4 * steps.long):
        count = number(long_steps(rows, steps))
        assert evaluate(counted, {"n": rows}) == count >= -1
        left = rows - max(count, 0) * steps.long
        assert -steps.long < left <= 2 * steps.middle
        assert count <= 0 or rows > steps.middle


def test_few_rows_more_than_there_are_are_computed() -> None:
    steps = Steps(12, 9, 5)
    computed = []
    for rows in range(13, 37):
        count = number(long_steps(rows, steps))
        left = rows - count * steps.long
        middle = -(-max(left - steps.short, 0) // steps.middle)
        short = int(left - middle * steps.middle > 0)
        computed.append(count * 12 + middle * 9 * (left > 0) + short * 5 * (left > 0) - rows)
    assert max(computed) <= 3
    assert sum(computed) < 30


def test_steps_are_read_off_a_cover() -> None:
    assert steps_of((12, 9, 5, 1, 0)) == Steps(12, 9, 5)
    assert steps_of((6, 4, 0)) == Steps(6, 4, 4)
    assert Steps(12, 9, 5).least == 10
    assert Steps(6, 4, 4).least == 6
    assert Steps(14, 9, 5).least == 14


def test_counts_are_for_a_row() -> None:
    for lengths, *averages in CHOICES:
        for counts in averages:
            covered = (lengths * counts).sum(axis=1)
            assert (covered > 0.999).all()
            assert (covered < 2.5).all()


def test_numbers_of_rows_are_those_of_small_sizes() -> None:
    assert tuple(range(2, 36)) == NUMBERS
    assert numbers_of(8 * symbol("$w"))[:3] == (16, 24, 32)
    assert numbers_of(symbol("$h") * symbol("$w"))[:3] == (4, 9, 16)
    assert numbers_of(symbol("$n") - 40) == NUMBERS


def test_more_rows_than_a_memory_holds_are_no_example() -> None:
    """As of a damaged file whose extents are products of large numbers."""
    assert all(n < 1 << 48 for n in numbers_of(symbol("$n") * (1 << 62)))
    assert numbers_of(symbol("$n") * (1 << 62)) == tuple(range(2, 36))
