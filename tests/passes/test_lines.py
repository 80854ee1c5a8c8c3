"""Known places that are an index map: what is read at them is what was listed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minicc.ir.affine import Dim, evaluate, symbol
from minicc.passes.structured.lines import on_line
from tests.sweeps import examples

Array = np.ndarray[Any, Any]
DIMS = (symbol("d0"), symbol("d1"))


def listed(line: Dim, shape: tuple[int, ...]) -> Array:
    """The places that an expression stands for."""
    at = [dict(zip(("d0", "d1"), index, strict=False)) for index in np.ndindex(shape)]
    return np.array([evaluate(line, names) for names in at]).reshape(shape)


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(data=st.data())
def test_rows_of_a_resized_image(data: st.DataObject) -> None:
    extent, length = (data.draw(st.integers(2, 300)) for _ in range(2))
    offset = data.draw(st.integers(-5, 5))
    # off the half, where a float that is rounded would decide
    source = (np.arange(length) * 2 + 1) * extent // (2 * length) + offset
    places = np.clip(source, 0, extent - 1)
    line = on_line(places, DIMS)
    assert line is not None
    assert np.array_equal(listed(line, places.shape), places)


@pytest.mark.parametrize("step", [-2, 0, 1, 3])
def test_windows(step: int) -> None:
    places = np.array([0, 1, 3, 4, 6])[:, None] + 6 + step * np.arange(4)
    line = on_line(places, DIMS)
    assert line is not None
    assert np.array_equal(listed(line, places.shape), places)


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=12))
def test_whatever_is_taken_for_a_line_is_one(drawn: list[int]) -> None:
    for places in (np.array(drawn), np.sort(drawn)):
        line = on_line(places, DIMS)
        if line is not None:
            assert np.array_equal(listed(line, places.shape), places)


@pytest.mark.parametrize(
    "places",
    [[], [1, 0], [0, 3, 4, 9], [0, 1, 5, 6, 7, 8], [[0, 1], [1, 3]], [[[0, 1], [1, 2]]]],
)
def test_what_lies_on_no_line(places: Any) -> None:
    assert on_line(np.array(places, np.int64), DIMS) is None
