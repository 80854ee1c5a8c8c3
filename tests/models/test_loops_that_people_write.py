"""Whole small programs of several loops: what is asked late, mixed or of a round's size."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.models.test_captured_loops import same

import minicc

Function = Callable[..., Any]
PROGRAMS: list[Function] = []
X = np.random.default_rng(0).normal(size=(120, 4))


@PROGRAMS.append
def factors(x: Any) -> Any:
    """What ends the loop is asked for from the third round on."""
    v, w, h = np.abs(x[:40]), np.abs(x[40:80, :3]), np.abs(x[90:93])
    errors = []
    for i in range(100):
        h = h * ((w.T @ v) / (w.T @ w @ h + 1e-9))
        w = w * ((v @ h.T) / (w @ h @ h.T + 1e-9))
        errors.append(np.linalg.norm(v - w @ h))
        if i > 1 and abs(errors[-2] - errors[-1]) < 1e-5:
            break
    return w, h, errors[-1]


@PROGRAMS.append
def pairs_of_least_cost(x: Any) -> Any:
    """Data decide what a list gets, and its length ends the loop."""
    cost = x[:80].reshape(20, 16)
    rows, columns = np.zeros(20, bool), np.zeros(16, bool)
    pairs = []
    for k in np.argsort(cost, axis=None, kind="stable"):
        i, j = divmod(k, 16)
        if not rows[i] and not columns[j]:
            rows[i] = columns[j] = True
            pairs.append((i, j))
            if len(pairs) == 16:
                break
    return np.array(pairs)


@PROGRAMS.append
def best_of_each(x: Any) -> Any:
    """What is best begins as Python's infinity, and is a number of NumPy's in the list."""
    found = []
    for m in range(10):
        best: tuple[Any, ...] = (np.inf, 0, 0.0)
        for j in range(4):
            for threshold in np.quantile(x[:, j], [0.1, 0.5, 0.9]):
                error = x[x[:, j] < threshold, 0].sum() * (m + 1)
                if error < best[0]:
                    best = (error, j, threshold)
        error, j, threshold = best
        found.append((j, threshold, error))
    return found


@PROGRAMS.append
def spins(x: Any) -> Any:
    """An energy that is Python's until a round adds NumPy's to it is kept now and then."""
    s = np.where(x[:100].reshape(20, 20) > 0, 1, -1)
    u, energy, kept = np.abs(x).ravel(), 0, []
    for k in range(300):
        i, j = (k * 7) % 20, (k * 3) % 20
        change = 2 * s[i, j] * (s[(i + 1) % 20, j] + s[i - 1, j] + s[i, (j + 1) % 20] + s[i, j - 1])
        if change <= 0 or u[k] < math.exp(-change * 0.4):
            s[i, j] *= -1
            energy += change
        if k % 100 == 0:
            kept.append(energy)
    return s, kept


@PROGRAMS.append
def reflections(x: Any) -> Any:
    """Arrays of as many zeros as a round's rest has elements."""
    a = x.reshape(24, 20).copy()
    for k in range(a.shape[1]):
        v = a[k:, k].copy()
        e = np.zeros_like(v)
        e[0] = 1
        s = 1.0 if v[0] >= 0 else -1.0
        v = v + s * np.linalg.norm(v) * e
        v = v / np.linalg.norm(v)
        a[k:] -= 2 * np.outer(v, v @ a[k:])
    return a


@PROGRAMS.append
def downwards(x: Any) -> Any:
    total = x
    for i in range(9):
        total = total + (2.0 ** np.arange(i, -1, -1)).sum() + np.arange(10, i, -3).sum()
    return total


@PROGRAMS.append
def knapsack(x: Any) -> Any:
    """A place is written, what is above it is read, and the place may be written again."""
    weights, values = (np.abs(x[:30, k] * 20).astype(int) + 1 for k in (0, 1))
    most = np.zeros((31, 101), dtype=int)
    for i in range(1, 31):
        for c in range(101):
            most[i, c] = most[i - 1, c]
            w = weights[i - 1]
            if w <= c and most[i - 1, c - w] + values[i - 1] > most[i, c]:
                most[i, c] = most[i - 1, c - w] + values[i - 1]
    picks, c = [], 100
    for i in range(30, 0, -1):
        if most[i, c] != most[i - 1, c]:
            picks.append(i - 1)
            c -= weights[i - 1]
    return most, picks[::-1]


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_programs(f: Function) -> None:
    jitted = minicc.jit(f, threads=1)
    for x in (X, X[::-1].copy(), X + 0.01):
        want, got = f(x.copy()), jitted(x.copy())
        same(want, got, 1e-9, 1e-9)
        assert _types(got) == _types(want)
    told = jitted.explain()
    assert told.loops
    assert all("of the graph" in text for text in told.loops), told.loops


def _types(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return type(x), [_types(v) for v in x]
    return (x.dtype, x.shape) if isinstance(x, np.ndarray) else type(x)


def _each_left_out(x: Any) -> Any:
    distances = x[:30] @ x[:30].T
    made = np.zeros((30, 29))
    for i in range(30):
        made[i] = np.exp(-(np.delete(distances[i], i) ** 2))
    return made


def _one_after_another(x: Any) -> Any:
    table = x[:40]
    for _ in range(3):
        table = np.delete(table, table[:, 0].argmax(), axis=0)
    return table, np.delete(x, -1, axis=1), np.delete(x, 3), np.delete(x, np.int64(2), 0)


@pytest.mark.parametrize("f", [_each_left_out, _one_after_another], ids=lambda f: f.__name__)
def test_one_place_is_left_out(f: Function) -> None:
    jitted = minicc.jit(f, threads=1)
    for x in (X, X[::-1].copy()):
        same(f(x), jitted(x), 1e-12, 1e-12)
    assert "break" not in str(jitted.explain())


@pytest.mark.parametrize("place", [4, -5, np.int64(4)])
def test_a_place_that_is_not_there(place: Any) -> None:
    for f in (lambda x: np.delete(x, place, axis=1), lambda x, k: np.delete(x, k, axis=1)):
        args = (X, place)[: f.__code__.co_argcount]
        with pytest.raises(IndexError, match=f"index {place} is out of bounds for axis 1"):
            minicc.jit(f)(*args)


@pytest.mark.parametrize("ord_", [1, -1, np.inf, -np.inf, "fro", 3, 0.5])
@pytest.mark.parametrize("axis", [None, 0, (1, 0), (-2, 2)])
def test_norms(ord_: Any, axis: Any) -> None:
    x = X[:60].reshape(5, 6, 8)[0] if axis is None else X[:60].reshape(5, 6, 8)
    matrix = axis is None or isinstance(axis, tuple)
    if matrix == (ord_ in (3, 0.5)) or (ord_ == "fro" and not matrix):
        pytest.skip("NumPy has no such norm")
    for keep in (False, True):

        def f(x: Any, keep: bool = keep) -> Any:
            return np.linalg.norm(x, ord_, axis, keep) * 2

        with warnings.catch_warnings():
            warnings.simplefilter("error", minicc.PerformanceWarning)
            got = minicc.jit(f)(x)
        assert np.shape(got) == np.shape(f(x))
        np.testing.assert_allclose(got, f(x), rtol=1e-11)
