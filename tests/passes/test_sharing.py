"""Along which axis of its grid a launch is shared among threads."""

import pytest

from minicc.ir import affine
from minicc.passes.program.parallelize import choose_split

BATCH, ROWS = affine.symbol("batch"), affine.symbol("rows")


@pytest.mark.parametrize(
    ("grid", "axis"),
    [
        # a free extent may be 1, so that a known one that shares well is better
        ((BATCH, 12, ROWS), 1),
        ((BATCH, 3), 1),
        # no known extent shares well; the later free one is the less likely batch
        ((BATCH, ROWS), 1),
        ((BATCH, ROWS, 1), 1),
        ((2, ROWS), 0),
        ((1, BATCH), 1),
        # known extents alone: the most even, then the longest, then the first
        ((1, 7, 8), 2),
        ((4, 16), 1),
        ((16, 16), 0),
        ((1, 1), -1),
        ((), -1),
    ],
)
def test_axis_that_is_shared(grid: tuple[affine.Dim, ...], axis: int) -> None:
    assert choose_split(grid, 1 << 20, lambda axis: 0) == axis


def test_an_axis_whose_shares_are_at_hand_is_better_than_a_slightly_more_even_one() -> None:
    assert choose_split((4, 27), 1 << 20, lambda axis: 0) == 0
    assert choose_split((4, 27), 1 << 20, lambda axis: 100_000 * (1 - axis)) == 1
    assert choose_split((4, 3), 1 << 20, lambda axis: 100_000 * (1 - axis)) == 0
