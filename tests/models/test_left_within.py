"""`for` loops that a `return` or `break` of a loop within them leaves, and others like these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.models.test_captured_loops import same

import minicc

Function = Callable[..., Any]


def found(x: Any, v: float) -> Any:
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if x[i, j] > v:
                return i, j
    return -1, -1


def pair(x: Any, v: float) -> Any:
    y = x[:, 0]
    for i in range(len(y)):
        for j in range(i + 1, len(y)):
            if y[i] + y[j] > 2 * v - 0.1:
                return i, j, y[i]
    return None


def repeated(x: Any, v: float) -> Any:
    """The loop within may have no round."""
    whole = np.floor(x[:, 0] * 40 + v)
    for i in range(len(whole)):
        if whole[i] == 3:
            continue
        for j in range(i):
            if whole[i] == whole[j]:
                return i, j, whole[j]
    return "none"


def summed(x: Any, v: float) -> Any:
    s, rows = 0.0, 0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            s += x[i, j]
            if s > v * 100:
                return i, j, s, rows
        s *= 0.99
        rows += 1
    return s, rows


def triple(x: Any, v: float) -> Any:
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for k in range(j):
                if x[i, j] + x[i, k] > 2 * v:
                    return i, j, k
    return -1


def while_within(x: Any, v: float) -> Any:
    n = 0
    for i in range(x.shape[0]):
        k = 0
        while k < 20:
            if x[i, k] > v + 0.01:
                return "found", i, k
            k += 1
        n += k
    return n


def left_in_several_ways(x: Any, v: float) -> Any:
    n, y = 0, x * 1
    for i in range(y.shape[0]):
        k = 0
        while k < 20:
            if y[i, k] > v + 0.02:
                return "found", i, y
            if y[i, k] > v:
                y[i, k] = 0
                break
            k += 1
        n += k
        if n > 300:
            break
    return n, y


def written(x: Any, v: float) -> Any:
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[i, j] *= 2
            if x[i, j] > 2 * v:
                return i
    return None


def rows(x: Any, v: float) -> Any:
    for i, row in enumerate(x):
        for a in row:
            if a > v:
                return i, a, row.sum()
    return 0


def on_either_level(x: Any, v: float) -> Any:
    for i in range(x.shape[0]):
        if x[i].sum() > 14:
            return "row", i
        for j in range(x.shape[1]):
            if x[i, j] > v:
                return "cell", i, j
    else:
        return "none"


def left_by_a_flag(x: Any, v: float) -> Any:
    seen = False
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if x[i, j] > v:
                seen = True
                break
        if seen:
            break
    return i, j, seen


def nearest_divisor(x: Any, v: float) -> Any:
    """How often the loop within runs depends on the round, and it is left by a `break`."""
    steps = np.zeros(40, int)
    for n in range(1, 40):
        for p in range(1, n):
            if x[n % 20, p % 20] > v - 0.3:
                steps[n] = p
                break
    return steps


def three_with_the_test_first(x: Any, v: float) -> Any:
    """The innermost loop has as many rounds as the one around it says."""
    s = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if x[i, j] > v:
                return j, i
            for k in range(j, x.shape[1]):
                s += x[i, k]
    return s


CAPTURED: list[Function] = [
    found, pair, repeated, summed, while_within, rows, written, nearest_divisor,
]  # fmt: skip
OTHERS: list[Function] = [
    triple, three_with_the_test_first, left_in_several_ways, on_either_level, left_by_a_flag
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
@pytest.mark.parametrize("f", [*CAPTURED, *OTHERS])
def test_as_in_numpy(f: Function) -> None:
    jitted = minicc.jit(f, threads=1)
    for seed in range(5):
        x = np.random.default_rng(seed).random((20, 20))
        for v in (0.8, 0.995, 2.0):
            mine, theirs = x.copy(), x.copy()
            wanted, got = f(theirs, v), jitted(mine, v)
            same(wanted, got, 1e-13, 0)
            np.testing.assert_array_equal(mine, theirs)
    if f in CAPTURED:
        told = minicc.jit(f, threads=1).explain(x, 2.0).loops
        assert told
        assert all("a loop of the graph" in text for text in told), told
