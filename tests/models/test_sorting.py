"""Sorted elements and medians are those of NumPy: by networks, by ranks, and on the host."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.sweeps import part

import minicc
from minicc.passes.graph.sort_network import MOST, comparisons

FUNCTIONS = [
    lambda x, axis: np.sort(x, axis),
    lambda x, axis: np.median(x, axis),
    lambda x, axis: np.quantile(x.astype(float), [0, 0.3, 1], axis),
    lambda x, axis: np.partition(x, x.shape[axis] // 2, axis).take(x.shape[axis] // 2, axis),
    lambda x, axis: np.take_along_axis(x, np.argpartition(x, 0, axis), axis).min(axis),
]


def test_networks_sort_whatever_is_given() -> None:
    """Zeros and ones in every order, and so any numbers (Knuth's principle)."""
    for count in range(1, MOST + 1):
        number = np.arange(1 << min(count, 12))[:, None]
        shift = np.arange(count) if count <= 12 else np.random.default_rng(count).permutation(count)
        bits = number >> (shift % 12) & 1
        for low, high in comparisons(count):
            pair = bits[:, [low, high]]
            bits[:, low], bits[:, high] = pair.min(1), pair.max(1)
        assert (np.diff(bits, axis=1) >= 0).all(), count


TYPES, AXES = ("f8", "f4", "f2", "i8", "u1", "?"), (0, 1, -1)


@pytest.mark.parametrize(("dtype", "axis"), part(product(TYPES, AXES), 12))
def test_rows_of_every_length(dtype: str, axis: int) -> None:
    for f, n in product(FUNCTIONS, (1, 2, 5, 16, 17, 40, 600)):
        x = np.random.default_rng(n).integers(0, 9, (n, 3) if axis == 0 else (3, n)).astype(dtype)
        if dtype[0] == "f":
            x[x == 4] = np.nan
        if dtype == "?" and f is not FUNCTIONS[0]:
            continue
        got, want = minicc.jit(lambda x, f=f: f(x, axis))(x), f(x, axis)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_a_median_of_windows_is_comparisons_of_shifted_rows() -> None:
    x = np.random.default_rng(0).random(3000)

    def smooth(x: Any) -> Any:
        return np.median(np.lib.stride_tricks.sliding_window_view(x, 5), axis=1)

    g = minicc.jit(smooth)
    np.testing.assert_array_equal(g(x), smooth(x))
    assert len(g.lower(x).at("structured").main.body.ops) <= 2


@pytest.mark.parametrize("function", [np.sort, np.unique], ids=["a graph", "a break"])
def test_what_has_no_machine_code_is_run_as_it_is(function: Any) -> None:
    g, x = minicc.jit(lambda x: function(x), threads=1), np.random.default_rng(0).random(3000)
    np.testing.assert_array_equal(g(x), function(x))
    g.__wrapped__ = lambda x: "as it is"
    assert g(x) == "as it is"
