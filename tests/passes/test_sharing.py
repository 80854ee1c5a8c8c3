"""Along which axes of its grid a launch is shared among threads."""

import pytest

from minicc.ir import affine
from minicc.passes.program.parallelize import choose_split

BATCH, ROWS = affine.symbol("batch"), affine.symbol("rows")


@pytest.mark.parametrize(
    ("grid", "axes"),
    [
        # a free extent may be 1, so that a known one that shares well is better
        ((BATCH, 12, ROWS), (1,)),
        ((BATCH, 15, ROWS), (1,)),
        ((BATCH, 7, ROWS), (1, 0, 2)),
        # no known extent shares well: the free ones do together, whichever is 1
        ((BATCH, 3), (0, 1)),
        ((BATCH, ROWS), (0, 1)),
        ((BATCH, ROWS, 1), (0, 1)),
        ((2, ROWS), (1, 0)),
        ((1, BATCH), (1,)),
        # known extents alone: the most even, made more even by another
        ((1, 7, 8), (2,)),
        ((4, 7), (0,)),
        ((5, 7), (0, 1)),
        ((3, 5), (0, 1)),
        ((13,), (0,)),
        ((16, 16), (0,)),
        ((1, 1), ()),
        ((), ()),
    ],
)
def test_axes_that_are_shared(grid: tuple[affine.Dim, ...], axes: tuple[int, ...]) -> None:
    assert choose_split(grid, 1 << 20, lambda axis: 0) == axes


def test_an_axis_whose_shares_are_at_hand_comes_first() -> None:
    assert choose_split((8, 27), 1 << 20, lambda axis: 0) == (0,)
    assert choose_split((8, 27), 1 << 20, lambda axis: 100_000 * (1 - axis)) == (1,)
    assert choose_split((8, 5), 1 << 20, lambda axis: 300_000 * (1 - axis)) == (1, 0)
