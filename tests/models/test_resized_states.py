"""Arrays that each round of a loop makes longer or shorter by the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.models.test_captured_loops import same

import minicc

Function = Callable[..., Any]
CAPTURED: list[Function] = []
X = np.random.default_rng(0).normal(size=61)


@CAPTURED.append
def means(x: Any) -> Any:
    for _ in range(60):
        x = x[1:] * 0.5 + x[:-1] * 0.5
    return x


@CAPTURED.append
def binomial_tree(x: Any) -> Any:
    """The value of an American option, whose prices are made for each level anew."""
    up, down = np.exp(0.02), np.exp(-0.02)
    value = np.maximum(100 - x, 0)
    for i in range(59, -1, -1):
        prices = 100 * down ** np.arange(i, -1, -1) * up ** np.arange(0, i + 1)
        value = np.maximum(0.99 * (0.5 * value[1:] + 0.5 * value[:-1]), 101 - prices)
    return value[0]


@CAPTURED.append
def with_ends_of_the_round(x: Any) -> Any:
    value = x
    for i in range(58, -1, -1):
        value = np.maximum(value[1 : i + 2] * 0.5 + value[: i + 1] * 0.5, x[: i + 1])
    return value, value.sum()


@CAPTURED.append
def interpolated(x: Any) -> Any:
    """Neville's scheme."""
    at = np.linspace(0, 1, len(x))
    p = x.copy()
    for k in range(1, len(x)):
        p = ((0.3 - at[k:]) * p[:-1] - (0.3 - at[:-k]) * p[1:]) / (at[:-k] - at[k:])
    return p[0]


@CAPTURED.append
def appended(x: Any) -> Any:
    out = x[:1] * 2
    for k in range(1, 50):
        out = np.append(out, x[k] * 0.5 + out[-1])
    return out, out.mean()


@CAPTURED.append
def rows_below(x: Any) -> Any:
    table = x[:6].reshape(2, 3)
    for k in range(20):
        table = np.vstack([table, table[-1] * 0.9 + k])
    return table


@CAPTURED.append
def columns_beside(x: Any) -> Any:
    table = x[:6].reshape(3, 2)
    for k in range(20):
        table = np.concatenate([table, table[:, -2:] * 0.5 + k], axis=1)
    return table, table.T @ table


@CAPTURED.append
def two_of_them(x: Any) -> Any:
    a, b, total = x, x[:2], 0.0
    for _ in range(40):
        a, b = a[1:] - a[:-1], np.concatenate([b, a[:1]])
        total = total + a.sum() * b[-1]
    return a, b, total


@CAPTURED.append
def within_another_loop(x: Any) -> Any:
    total = 0.0
    for scale in (0.5, 1.0, 2.0):
        v = x * scale
        for _ in range(30):
            v = np.tanh(v[2:] + v[:-2])
        total += v[0]
    return total


@pytest.mark.parametrize("f", CAPTURED, ids=lambda f: f.__name__)
def test_they_are_captured(f: Function) -> None:
    jitted = minicc.jit(f, threads=1)
    for x in (X, X[::-1].copy(), X + 0.5):
        same(f(x.copy()), jitted(x.copy()), 1e-9, 1e-9)
    told = jitted.explain()
    assert told.loops
    long = [text for text in told.loops if "few rounds" not in text and ": 3 rounds" not in text]
    assert all("of the graph" in text for text in long), told.loops


def _halved(x: Any) -> Any:
    for _ in range(5):
        x = x[::2] + 1
    return x


def _doubled(x: Any) -> Any:
    x = x[:2]
    for _ in range(10):
        x = np.concatenate([x, x * 0.5])
    return x


def _by_data(x: Any) -> Any:
    out = x[:1]
    for k in range(1, 40):
        if x[k] > 0:
            out = np.append(out, x[k])
    return out


def _of_other_sizes(x: Any) -> Any:
    v = x
    for k in range(1, 8):
        v = v[k:] * 0.5
    return v


def _until_nothing_is_left(x: Any) -> Any:
    total = 0.0
    for _ in range(64):
        total += x.sum()
        x = x[1:]
    return total, x


@pytest.mark.parametrize(
    "f", [_halved, _doubled, _by_data, _of_other_sizes, _until_nothing_is_left]
)
@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
def test_others_are_right_all_the_same(f: Function) -> None:
    jitted = minicc.jit(f, threads=1)
    for x in (X, X[::-1].copy(), X + 0.5):
        same(f(x.copy()), jitted(x.copy()), 1e-9, 1e-9)
