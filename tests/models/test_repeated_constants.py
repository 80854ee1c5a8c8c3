"""Constants that repeat one number stay small, and those that nearly do are as they are."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import minicc

LENGTH = 40


def constants(dtype: str) -> list[Any]:
    """One number again and again, and the same with another one at a place."""
    numbers: list[Any] = [0, 1]
    numbers += [-0.0, np.nan] if dtype[0] in "fc" else []
    numbers += [1j, complex(0, -0.0)] if dtype[0] == "c" else []
    found = [np.full(LENGTH, n, dtype) for n in numbers]
    for first in tuple(found):
        for other, place in zip(numbers, (0, 7, LENGTH - 1) * 2, strict=False):
            array = first.copy()
            array[place] = other
            found.append(array)
    return found


def chosen(array: Any, x: Any) -> Any:
    return np.where(x, array, array[::-1])


@pytest.mark.parametrize("dtype", ["?", "u1", "i8", "f2", "f4", "f8", "c8", "c16"])
def test_bits_are_kept(dtype: str) -> None:
    for array in constants(dtype):
        function = minicc.jit(partial(chosen, array), threads=1)
        for x in (np.ones(LENGTH, bool), np.arange(LENGTH) % 3 == 0):
            want, have = chosen(array, x), function(x)
            assert have.dtype == want.dtype
            assert have.tobytes() == want.tobytes()


def test_one_number_is_one_number() -> None:
    """A large constant of one number is none in the graph."""
    function = minicc.jit(lambda x: x + np.full(100_000, 2.5), threads=1)
    text = function.lower(np.arange(100_000.0)).as_text()
    assert "value = dense<f64, 2.5>" in text
    assert text.count("graph.constant") == 1
