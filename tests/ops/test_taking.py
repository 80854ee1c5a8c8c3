"""Known places along an axis, as runs: what they are, and how many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minicc
from minicc.library.taking import Run, runs_of


def _places(runs: Sequence[Run]) -> list[int]:
    return [first + step * k for first, step, length in runs for k in range(length)]


@given(st.lists(st.integers(0, 5), max_size=40))
def test_runs_are_the_places(places: list[int]) -> None:
    runs = runs_of(np.array(places, np.int64), 40)
    assert runs is not None
    assert _places(runs) == places
    assert all(run.length for run in runs) or not places
    assert runs_of(np.array(places, np.int64), len(runs)) == runs
    assert len(runs) == 1 or runs_of(np.array(places, np.int64), len(runs) - 1) is None


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap"])
def test_a_border_leaves_the_axis_whole(mode: Any) -> None:
    for low, high in [(1, 1), (2, 3), (0, 1), (4, 0)]:
        runs = runs_of(np.pad(np.arange(9), (low, high), mode), 8)
        assert runs is not None
        assert Run(0, 1, 9) in runs
        assert len(runs) == 1 + (low > 0) + (high > 0)


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap"])
def test_borders(mode: Any) -> None:
    x = np.arange(60.0).reshape(5, 4, 3)
    for widths in [((1, 1), (2, 0), (0, 2)), ((0, 0), (1, 2), (1, 1))]:
        f = minicc.jit(lambda x, w=widths: np.pad(x, w, mode=mode))
        np.testing.assert_array_equal(f(x), np.pad(x, widths, mode=mode))
