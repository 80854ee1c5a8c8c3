"""`range(n)` of a number that each call gives anew: one program serves any number of rounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minicc

Function = Callable[..., Any]
X = np.linspace(-1, 1, 11)


def stepped(x: Any, n: int) -> Any:
    for _ in range(n):
        x = x * 0.9 + 0.1 * np.sin(x)
    return x


def in_place(x: Any, n: int) -> Any:
    for k in range(n):
        x[k % 11] += x[(k + 3) % 11] * 0.5
    return x


def carried(x: Any, n: int) -> Any:
    a, b, count, total = 0.5, 1.0, 0, 0
    for k in range(1, n):
        a, b = b * 0.5, a + k
        if x[k % 11] > 0:
            total += x[k % 11]
            count += 2
    return a, b, count, total


def backwards(x: Any, n: int) -> Any:
    total = x[0] * 0
    for k in range(n, 3, -2):
        total = total * 0.5 + k
    return total


def down_from_a_number(x: Any, n: int) -> Any:
    total = x[0] * 0
    for k in range(60, n, -3):
        total = total * 0.5 + k
    return total


def with_loops_within(x: Any, n: int) -> Any:
    y = np.zeros((3, 4))
    for _ in range(n // 2):
        for i in range(1, 3):
            for j in range(4):
                y[i, j] = y[i - 1, j] * 0.5 + x[i] * y[i, 3 - j] + 1
        while y[0, 0] < y[2, 1] - 3:
            y[0, 0] += 1
    return y


def recurring(x: Any, n: int) -> Any:
    y = np.zeros(100)
    for k in range(2, n + 2):
        y[k] = y[k - 1] * 0.5 - y[k - 2] * 0.25 + x[k % 11]
    return y


ONE_PROGRAM: list[Function] = [
    stepped, in_place, carried, down_from_a_number, with_loops_within, recurring,
]  # fmt: skip


@pytest.mark.parametrize("f", ONE_PROGRAM)
def test_one_program_serves_any_number_of_rounds(f: Function) -> None:
    g = minicc.jit(f, threads=1)
    for n in (20, 31, 45, 12, 64, 3, 1, 0, -2, 97):
        compare(g, f, n)
    told = g.explain(X.copy(), 50)
    assert "was traced 2 times" in str(told)
    assert any("as many rounds as a call says" in text for text in told.loops)


def left_after(x: Any, n: int) -> Any:
    for k in range(n):
        last = x[k % 11] * 2
    return last, k


def broken_off(x: Any, n: int) -> Any:
    total = 0.0
    for k in range(n):
        total += x[k % 11] + 1
        if total > 9:
            break
    return total


def appended(x: Any, n: int) -> Any:
    rows = []
    for k in range(n):
        rows.append(x * k)
    return np.array(rows)


def beyond(x: Any, n: int) -> Any:
    total = 0.0
    for k in range(n):
        total += x[k]
    return total


def grown(x: Any, n: int) -> Any:
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a, b


@pytest.mark.parametrize("f", [left_after, broken_off, appended, beyond, grown, backwards])
@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
def test_others_are_numpys(f: Function) -> None:
    """What is bound in rounds alone, exits, lists, errors of an index, and ints without an end."""
    g = minicc.jit(f, threads=1)
    for n in (9, 10, 11, 12, 20, 150, 0, 97):
        compare(g, f, n)


def compare(g: Function, f: Function, n: int) -> None:
    mine, theirs = X.copy(), X.copy()
    got, want = outcome(g, mine, n), outcome(f, theirs, n)
    np.testing.assert_allclose(mine, theirs, rtol=1e-12)
    assert type(got) is type(want)
    if isinstance(want, str):
        assert got == want
        return
    got, want = (list(v) if isinstance(v, tuple) else [v] for v in (got, want))
    for a, b in zip(got, want, strict=True):
        assert (type(a), np.shape(a)) == (type(b), np.shape(b)), n
        if type(b) is int:
            assert a == b
        else:
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def outcome(f: Function, x: Any, n: int) -> Any:
    try:
        return f(x, n)
    except (IndexError, UnboundLocalError) as error:
        return repr(error)
