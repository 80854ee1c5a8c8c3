"""Powers of Python's numbers, with the number of a round and in loops: the graph computes them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minicc

Function = Callable[..., Any]


def optimised(x: Any, beta: float = 0.9) -> Any:
    """Adam's correction of a mean."""
    m = np.zeros_like(x)
    for t in range(1, 30):
        m = beta * m + (1 - beta) * x
        x = x - 0.1 * m / (1 - beta**t)
    return x


def series(x: Any) -> Any:
    total = 0.0
    for k in range(30):
        total += (-1) ** k / (2 * k + 1) * x[k] + 2**k * 1e-9 + (k + 1) / (k + 2)
    return total


def of_rounds(x: Any) -> Any:
    total = 0.0
    for k in range(1, 30):
        total += k**0.5 + k**-1 + k**-0.5 + 1.01**k + x[0] ** k
    return total


def of_floats(x: Any) -> Any:
    t, total = float(x.max()), 0.0
    for k in range(30):
        t = t * 0.9
        total += t**3 + t**0.5 + 2**t + t**k + t**2
    return total, t**-1, t**t


def of_either(x: Any) -> Any:
    total = 0.0
    for k in range(30):
        if x[k] > 0.5:
            total += x[k] ** 2
        total = abs(total**2 * 0.1) ** 1.5
    return total


def whole(x: Any) -> Any:
    y = np.floor(x * 10).astype(np.int64)
    for k in range(30):
        y[k] += 2**k - (-1) ** k * k**2
    return y


def counted(x: Any) -> Any:
    """What is computed with an int that data gave after the loop."""
    hits = 0
    for v in x:
        if v < 0.5:
            hits += 1
    return 4 * hits / len(x), hits * -3, hits**2, hits**3 - hits * hits, 1 - 2 * hits


CAPTURED: list[Function] = [optimised, series, of_rounds, of_floats, of_either, whole, counted]


@pytest.mark.parametrize("f", CAPTURED)
def test_powers_are_computed_by_the_graph(f: Function) -> None:
    g, rng = minicc.jit(f, threads=1), np.random.default_rng(0)
    for _ in range(3):
        x = rng.random(40)
        np.testing.assert_allclose(g(x.copy()), f(x.copy()), rtol=1e-11)
    told = g.explain(x)
    assert not told.breaks
    assert all("a loop of the graph" in text for text in told.loops), told.loops


def root(x: Any) -> Any:
    t = float(x.min())
    return t**0.5


def inverse(x: Any) -> Any:
    t = float(x.min())
    return t**-1


def large(x: Any) -> Any:
    t = float(x.min()) * 1e300
    return t**3


def of_a_round(x: Any) -> Any:
    total = 0.0
    for k in range(-3, 20):
        total += x[0] * (k**-1)
    return total


def grows(x: Any) -> Any:
    total = 0.0
    for k in range(600):
        total += float(x[0]) * 10.0**k
    return total


def of_a_large_int(x: Any) -> Any:
    n = int(x.max() * 1e18)
    return n**2, n**3, n * -7, 4 * n * n


def many(x: Any) -> Any:
    return [3**k for k in range(50)][-1] + int(x[0])


@pytest.mark.parametrize("f", [root, inverse, large, of_a_round, grows, of_a_large_int, many])
def test_what_python_raises_or_makes_of_other_types_is_pythons(f: Function) -> None:
    """A root of a negative number is complex; what divides by zero or overflows raises."""
    g = minicc.jit(f, threads=1)
    for x in (np.array([0.5, 2.0]), np.array([-2.0, 1.0]), np.array([0.0, 3.0])):
        want, got = (outcome(call, x) for call in (f, g))
        assert type(want) is type(got)
        exact = isinstance(want, (str, tuple))
        assert want == got if exact else np.isclose(want, got, rtol=1e-12)


def outcome(f: Function, x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return f(x.copy())
        except ArithmeticError as error:
            return repr(error)
