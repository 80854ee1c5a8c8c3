"""Ints of data that rounds need to know, as the size of an array, are read before the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minicc

DRAW = np.random.default_rng(4)
X, Y = DRAW.normal(size=(40, 12)), DRAW.integers(0, 3, 40)


def counted(x: Any, y: Any) -> Any:
    k, out = y.max() + 1, np.zeros(x.shape[1])
    for j in range(x.shape[1]):
        counts = np.zeros(k)
        for i in range(len(y)):
            counts[y[i]] += x[i, j]
        out[j] = counts.max()
    return out, k


def as_int(x: Any, y: Any) -> Any:
    k, total = int(y.max()) + 1, 0.0
    for j in range(x.shape[1]):
        total += np.tile(x[0, j], k).sum() + np.full(k, 0.5).sum()
    return total, k


def best_split(x: Any, y: Any) -> Any:
    """Which column tells classes apart, and where, as trees look for it.

    The first round is written out, as the best so far becomes NumPy's number there.
    """
    k, best = y.max() + 1, (np.inf, -1, 0.0)
    for j in range(x.shape[1]):
        order = np.argsort(x[:, j], kind="stable")
        column, classes = x[order, j], y[order]
        left, right = np.zeros(k), np.bincount(y, minlength=k).astype(float)
        for i in range(len(y) - 1):
            left[classes[i]] += 1
            right[classes[i]] -= 1
            n, m = i + 1, len(y) - i - 1
            now = n * (1 - ((left / n) ** 2).sum()) + m * (1 - ((right / m) ** 2).sum())
            if column[i] != column[i + 1] and now < best[0]:
                best = (now, j, (column[i] + column[i + 1]) / 2)
    return *best, k


def of_a_loop(x: Any, y: Any) -> Any:
    """An int that rounds count is not read ahead, as it is another one in each."""
    k, total = int(y.max()), 0.0
    for j in range(4):
        total += np.ones(k).sum() + x[0, j]
        k += 1
    return total, k


@pytest.mark.parametrize("f", [counted, as_int, best_split, of_a_loop], ids=lambda f: f.__name__)
def test_sizes_in_rounds(f: Callable[..., Any]) -> None:
    g = minicc.jit(f, threads=1)
    for data in (Y, Y[::-1].copy(), Y % 2, Y + 1, Y):
        for got, want in zip(g(X, data), f(X, data), strict=True):
            assert type(got) is type(want)
            np.testing.assert_allclose(got, want)
    told = g.explain()
    assert "run by NumPy" not in str(told)
    if f is not of_a_loop:
        assert len(told.breaks) == 1
        assert all("a loop of the graph" in text for text in told.loops)
