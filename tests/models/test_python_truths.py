"""Truth values of Python's own that arrays give: `np.allclose`, `np.array_equal`, `bool`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.models.test_grown_lists import compare

import minicc

Function = Callable[..., Any]
X = np.random.default_rng(0).normal(size=(60, 4))


def until_close(x: Any) -> Any:
    for _ in range(60):
        new = x * 0.5
        if np.allclose(new, x, atol=1e-6):
            break
        x = new
    return x


def while_not_close(x: Any) -> Any:
    rounds = 0
    while not np.allclose(x, 0, atol=1e-6):
        x = x * 0.5
        rounds += 1
    return x, rounds


def until_equal(x: Any) -> Any:
    x = np.floor(x * 100)
    for _ in range(60):
        new = x // 2
        if np.array_equal(new, x):
            break
        x = new
    return x


def clusters(x: Any) -> Any:
    centres = x[:3].copy()
    for _ in range(40):
        nearest = ((x[:, None] - centres) ** 2).sum(-1).argmin(1)
        new = np.array([x[nearest == j].mean(0) for j in range(3)])
        if np.allclose(new, centres):
            break
        centres = new
    return centres, nearest


def of_numbers(x: Any) -> Any:
    total = 0.0
    for row in x:
        large = bool(row[0] > 0.5)
        if large or bool(row[1]):
            total += row[2]
    return total


@pytest.mark.parametrize(
    "f", [until_close, while_not_close, until_equal, clusters, of_numbers], ids=lambda f: f.__name__
)
def test_loops_that_ask_are_captured(f: Function) -> None:
    told = compare(f, X, X[::-1].copy()).explain()
    assert told.loops
    assert all("of the graph" in text for text in told.loops), told.loops
    assert not any("break" in line for line in str(told).splitlines())


def answers(x: Any, y: Any) -> Any:
    """Bools as Python's are used."""
    close, same, some = np.allclose(x, y), np.array_equal(x, y), bool(x[0, 0] > 0)
    kinds = type(close), type(same), type(some), isinstance(close, bool), bool(x[0, 1])
    return close, same, some, kinds, close + 1, [3, 4][same], not some, bool([]), bool("a")


def looked_at(x: Any, y: Any) -> Any:
    return (
        np.allclose(x, y) is True,
        np.array_equal(x, y) is False,
        {True: 1, False: 2}[bool(x[0, 0])],
    )


def of_shapes(x: Any, y: Any) -> Any:
    return np.array_equal(x, y[:-1]), np.zeros(2, dtype=bool), x.astype(bool).sum(), x.dtype == bool


@pytest.mark.parametrize("f", [answers, looked_at, of_shapes], ids=lambda f: f.__name__)
def test_as_bools_of_python(f: Function) -> None:
    jitted = minicc.jit(f, threads=1)
    for y in (X, X + 1e-12, X + 1, X):
        got, want = jitted(X, y), f(X, y)
        assert repr(got) == repr(want)


def test_a_bool_of_an_array_is_an_error() -> None:
    with pytest.raises(ValueError, match="ambiguous"):
        minicc.jit(lambda x: bool(x))(X)
    assert minicc.jit(lambda x: bool(x[:1, 0] > 9))(X) is False
