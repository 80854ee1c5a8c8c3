"""Slices and ranges of captured loops whose ends data give, and floats that may be NumPy's."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.sweeps import part

import minicc

ROUNDS = 23


def products(at: Any, columns: Any, values: Any, x: Any) -> Any:
    y = np.empty(at.size - 1)
    for i in range(at.size - 1):
        part = values[at[i] : at[i + 1]]
        y[i] = part @ x[columns[at[i] : at[i + 1]]]
    return y


def sums(at: Any, columns: Any, values: Any, x: Any) -> Any:
    y = np.zeros(at.size - 1)
    for i in range(at.size - 1):
        s = 0.0
        for j in range(at[i], at[i + 1]):
            s += values[j] * x[columns[j]]
        y[i] = s
    return y


def in_place(at: Any, columns: Any, values: Any, x: Any) -> Any:
    y = np.zeros(at.size - 1)
    for i in range(at.size - 1):
        for j in range(at[i], at[i + 1]):
            y[i] += values[j] * x[columns[j]]
        x[i] = y[i] / 2
    return y


def backwards(at: Any, columns: Any, values: Any, x: Any) -> Any:
    y = np.zeros_like(values)
    for i in range(at.size - 1):
        for j in range(int(at[i + 1]) - 1, int(at[i]) - 1, -2):
            y[j] = y[j - 1] + values[j] * (j - int(at[i]))
    return y


def parts_written(at: Any, columns: Any, values: Any, x: Any) -> Any:
    y = np.ones_like(values)
    for i in range(at.size - 1):
        y[at[i] : at[i + 1]] = x[i] * 2 + values[at[i] : at[i + 1]]
        values[at[i] : at[i + 1]] -= 1
        y[: at[i]] *= 0.5
    return y


def ends(at: Any, columns: Any, values: Any, x: Any) -> Any:
    y = np.zeros((4, at.size - 1))
    for i in range(at.size - 1):
        first = at[i].astype(np.int64) - 5
        y[0, i] = values[first:].sum()
        y[1, i] = values[:first].sum()
        y[2, i] = values[3:first].sum() + values[i:first].sum()
        y[3, i] = values[-first : int(at[i]) + 3].sum()
    return y


def rows(at: Any, columns: Any, values: Any, x: Any) -> Any:
    m = np.outer(x, x)
    y = np.zeros_like(x)
    for i in range(at.size - 1):
        n = columns[i]
        y[:n] += m[i, :n] * 0.5
        y[i] = (m[:n, i] * y[:n]).sum() + len(y[:n])
    return y


def choosing(at: Any, columns: Any, values: Any, x: Any) -> Any:
    y = np.zeros(at.size - 1)
    best = 0.0
    for i in range(at.size - 1):
        total = 0.0
        for j in range(at[i], at[i + 1]):
            if values[j] > 0.5:
                total += values[j]
        best = max(best, total * 2)
        y[i] = total - 1.0
    return y


def whiles(at: Any, columns: Any, values: Any, x: Any) -> Any:
    y = np.zeros(at.size - 1)
    for i in range(at.size - 1):
        s, j = 0.0, at[i]
        while j < at[i + 1]:
            s += values[j]
            j += 1
        y[i] = s
    return y


def triangle(at: Any, columns: Any, values: Any, x: Any) -> Any:
    y = np.zeros_like(x)
    for i in range(x.size):
        s = 0.0
        for j in range(i):
            s += x[j] * x[i]
        y[i] = s
    return y


def carried_ends(at: Any, columns: Any, values: Any, x: Any) -> Any:
    y = np.zeros(at.size - 1)
    low = at[0]
    for i in range(1, at.size):
        high = at[i]
        y[i - 1] = values[low:high].sum()
        low = high
    return y


CAPTURED = (products, sums, in_place, backwards, parts_written, ends, rows, choosing, whiles,
            triangle, carried_ends)  # fmt: skip


def pointers(seed: int, dtype: Any, broken: bool) -> tuple[Any, ...]:
    """Rows of a sparse matrix, some of them empty; with broken ones no places of an array."""
    r = np.random.default_rng(seed)
    counts = r.integers(0, 4, ROUNDS)
    at = np.concatenate([[0], np.cumsum(counts)])
    total = int(at[-1])
    if broken:
        at = r.integers(-4 if np.dtype(dtype).kind == "i" else 0, total + 9, at.size)
    columns = r.integers(0, ROUNDS, total).astype(dtype)
    return at.astype(dtype), columns, r.random(total), r.random(ROUNDS)


def compare(f: Callable[..., Any], g: Any, given: tuple[Any, ...]) -> None:
    """The same results, arguments and errors as NumPy's."""
    found: list[Any] = []
    for call in (f, g):
        args = [a.copy() for a in given]
        try:
            made: Any = call(*args)
        except IndexError as error:
            made = str(error)
        found.append((made, args))
    (want, theirs), (got, ours) = found
    if isinstance(want, str) or isinstance(got, str):
        assert want == got
    else:
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


TYPES = (np.int64, np.uint32, np.int16, np.uint64)


@pytest.mark.parametrize(("f", "dtype"), part(product(CAPTURED, TYPES), 7))
def test_as_numpy(f: Callable[..., Any], dtype: Any) -> None:
    g = minicc.jit(f)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", minicc.PerformanceWarning)
        for seed in range(2):
            compare(f, g, pointers(seed, dtype, False))


@pytest.mark.parametrize(("f", "dtype"), part(product(CAPTURED, (np.int64, np.uint8)), 3))
def test_any_ends(f: Callable[..., Any], dtype: Any) -> None:
    """Ends that are negative, beyond the array, or out of order mean what they mean to NumPy."""
    g = minicc.jit(f)
    for seed in range(2):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compare(f, g, pointers(seed, dtype, True))


def test_what_runs_is_one_loop() -> None:
    g = minicc.jit(products)
    text = str(g.explain(*pointers(0, np.int64, False)))
    assert f"{ROUNDS} rounds, a loop of the graph" in text
    assert "written out" not in text


def iterated(at: Any, columns: Any, values: Any, x: Any) -> Any:
    for _ in range(5):
        y = np.zeros_like(x)
        for i in range(at.size - 1):
            for j in range(at[i], at[i + 1]):
                y[i] += values[j] * x[columns[j]]
        x = y / 2
    return x


def first_rows(at: Any, columns: Any, values: Any, x: Any) -> Any:
    for _ in range(5):
        y = np.zeros_like(x)
        for j in range(at[0], at[9]):
            y[columns[j]] += values[j]
        x = y
    return x


@pytest.mark.parametrize("f", [iterated, first_rows])
def test_an_array_that_each_round_of_a_loop_around_makes(f: Callable[..., Any]) -> None:
    g = minicc.jit(f)
    for seed in range(2):
        compare(f, g, pointers(seed, np.int64, False))
    assert "5 rounds, a loop of the graph" in str(g.explain())


def returned(at: Any, columns: Any, values: Any, x: Any) -> Any:
    s = 0.0
    for i in range(at.size - 1):
        s = 0.0
        for j in range(at[i], at[i + 1]):
            s += values[j]
    return s


def told_apart(at: Any, columns: Any, values: Any, x: Any) -> Any:
    y = np.zeros(at.size - 1)
    for i in range(at.size - 1):
        s = 0.0
        for j in range(i):
            s += values[j]
        y[i] = s / (1 if isinstance(s, np.float64) else 2) + i
    return y


def narrow(at: Any, columns: Any, values: Any, x: Any) -> Any:
    y = np.zeros((at.size - 1, 3))
    third = np.full(3, 1 / 3, np.float32)
    for i in range(at.size - 1):
        s = 0.1
        for j in range(i):
            s += values[j]
        y[i] = third * s
    return y


def divided(at: Any, columns: Any, values: Any, x: Any) -> Any:
    y = np.zeros(at.size - 1)
    for i in range(1, at.size - 1):
        s = 2.0
        for j in range(at[i], at[i + 1]):
            s += values[j]
        y[i] = 1 / s + s**2 + abs(-s) + float(s)
    return y


@pytest.mark.parametrize("f", [returned, narrow, divided, told_apart], ids=lambda f: f.__name__)
def test_floats_of_either_kind(f: Callable[..., Any]) -> None:
    """Floats that are Python's or NumPy's, as data say, are what they are in NumPy."""
    g = minicc.jit(f)
    for seed in range(4):
        given = pointers(seed, np.int64, False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want, got = f(*given), g(*given)
        assert type(want) is type(got)
        np.testing.assert_allclose(got, want, rtol=1e-12)


def beyond(at: Any, columns: Any, values: Any, x: Any) -> Any:
    s = np.zeros(at.size)
    for i in range(at.size):
        part = values[: at[i]]
        s[i] = part.sum()
    return s, part


def counted(at: Any, columns: Any, values: Any, x: Any) -> Any:
    s = np.zeros(at.size)
    for i in range(at.size):
        s[i] = np.arange(len(values[: at[i]])).sum() + values[at[i] : at[i] + 2].sum()
    return s


@pytest.mark.parametrize("f", [beyond, counted], ids=lambda f: f.__name__)
def test_what_a_round_alone_knows(f: Callable[..., Any]) -> None:
    """An array that only the last round knows, and an extent that is taken for a number."""
    g = minicc.jit(f)
    for seed in range(3):
        given = pointers(seed, np.int64, False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want, got = f(*given), g(*given)
        for a, b in zip(want, got, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-12)
