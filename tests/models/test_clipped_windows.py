"""Loops over windows that the edges of an array clip: `range(max(0, i - 3), min(n, i + 4))`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.models.test_captured_loops import same

import minicc

Function = Callable[..., Any]
CAPTURED: list[tuple[Function, Callable[[int], tuple[Any, ...]]]] = []


def data(*shape: int) -> Callable[[Function], Function]:
    """Have a function be tried on arrays of a shape."""

    def note(f: Function) -> Function:
        CAPTURED.append((f, lambda seed: (np.random.default_rng(seed).standard_normal(shape),)))
        return f

    return note


@data(400)
def sums(x: Any) -> Any:
    n, y, many = len(x), np.zeros(len(x)), np.zeros(len(x), int)
    for i in range(n):
        count = 0
        for j in range(max(0, i - 5), min(n, i + 6)):
            y[i] += x[j]
            if abs(x[i] - x[j]) < 0.1:
                count += 1
        many[i] = count
    return y, many


@data(400)
def means_of_slices(x: Any) -> Any:
    y, n = np.zeros(len(x)), len(x)
    for i in range(n):
        y[i] = x[max(0, i - 3) : min(n, i + 4)].mean()
    return y


@data(400)
def neighbours_at_the_edge(x: Any) -> Any:
    y, n = np.zeros(len(x)), len(x)
    for i in range(n):
        y[i] = (x[max(i - 1, 0)] + x[i] + x[min(i + 1, n - 1)]) / 3
    return y


@data(25, 30)
def means_of_squares(x: Any) -> Any:
    n, m = x.shape
    y = np.zeros_like(x)
    for i in range(n):
        for j in range(m):
            s, count = 0.0, 0
            for a in range(max(0, i - 1), min(n, i + 2)):
                for b in range(max(0, j - 1), min(m, j + 2)):
                    s += x[a, b]
                    count += 1
            y[i, j] = s / count
    return y


@data(2, 90)
def warped_distance(x: Any) -> Any:
    """Dynamic time warping within a band (Sakoe and Chiba)."""
    a, b, w = x[0, :80], x[1], 15
    n, m = len(a), len(b)
    table = np.full((n + 1, m + 1), np.inf)
    table[0, 0] = 0
    for i in range(1, n + 1):
        for j in range(max(1, i - w), min(m, i + w) + 1):
            least = min(table[i - 1, j], table[i, j - 1], table[i - 1, j - 1])
            table[i, j] = abs(a[i - 1] - b[j - 1]) + least
    return table


@data(100)
def numbers_of_rounds(x: Any) -> Any:
    """What is made of such ints besides: floats, conditions, elements, what is left at last."""
    y = np.zeros(len(x))
    for i in range(len(x)):
        low, high = max(2, i - 1, 1), min(i, 7)
        y[i] = low / 2 + high * x[i] + (1 if low > high else x[low - 1])
    return y, low, high


@data(300)
def extremes_of_slices(x: Any) -> Any:
    n = len(x)
    y, narrow = np.zeros((n, 2)), x.astype(np.int16)
    for i in range(n):
        window = x[max(0, i - 3) : min(n, i + 4)]
        y[i] = window.max() - window.min(), narrow[max(0, i - 2) : i + 1].max()
    return y


@data(20, 30)
def dilated(x: Any) -> Any:
    y = np.zeros_like(x)
    for i in range(20):
        for j in range(30):
            y[i, j] = x[max(0, i - 1) : i + 2, max(0, j - 1) : j + 2].max()
    return y


def test_the_greatest_of_nothing_is_numpys_error() -> None:
    def f(x: Any, k: int) -> Any:
        y = np.zeros(len(x))
        for i in range(1, len(x)):
            y[i] = x[max(0, i - 3) : min(i, k)].max()
        return y

    x = np.random.default_rng(0).standard_normal(50)
    jitted = minicc.jit(f, threads=1)
    same(f(x, 60), jitted(x, 60))
    for _ in range(2):
        with pytest.raises(ValueError, match="zero-size array to reduction operation maximum"):
            jitted(x, 7)
    same(f(x, 60), jitted(x, 60))


def test_the_greatest_is_nan_where_there_is_one() -> None:
    def f(x: Any) -> Any:
        y = np.zeros(len(x))
        for i in range(len(x)):
            y[i] = x[max(0, i - 2) : i + 1].min()
        return y

    x = np.random.default_rng(0).standard_normal(50)
    x[7], x[20:25], x[40] = np.nan, np.inf, -np.inf
    np.testing.assert_array_equal(minicc.jit(f, threads=1)(x), f(x))


@pytest.mark.parametrize("k", range(len(CAPTURED)), ids=[f.__name__ for f, _ in CAPTURED])
def test_windows_that_edges_clip(k: int) -> None:
    f, given = CAPTURED[k]
    jitted = minicc.jit(f, threads=1)
    for seed in range(3):
        same(f(*given(seed)), jitted(*given(seed)), 1e-10, 1e-10)
    told = jitted.explain(*given(0))
    assert told.loops
    assert all("of the graph" in text for text in told.loops), told.loops


@pytest.mark.parametrize("n", [1, 2, 3, 9, 40])
def test_windows_of_arrays_of_any_length(n: int) -> None:
    for f, _ in CAPTURED[:3]:
        jitted = minicc.jit(f, threads=1)
        for length in (n + 30, n, n + 1, n + 7):
            x = np.random.default_rng(length).standard_normal(length)
            same(f(x), jitted(x), 1e-10, 1e-10)


def test_two_loops_over_windows_of_arrays_of_many_lengths() -> None:
    """What one of them needs at most, as far as is known, is more memory than there is."""

    def f(x: Any) -> Any:
        n, y, z = len(x), np.zeros(len(x)), np.zeros(len(x))
        for i in range(n):
            y[i] = x[max(0, i - 1) : min(i + 4, n)].max()
        for i in range(n):
            for j in range(max(1, i), min(i + 4, n - 1)):
                z[i] += x[j]
        return y, z

    jitted = minicc.jit(f, threads=1)
    for n in (60, 60, 7, 60, 50, 80, 60):
        x = np.random.default_rng(n).standard_normal(n)
        same(f(x), jitted(x), 1e-12, 1e-12)
