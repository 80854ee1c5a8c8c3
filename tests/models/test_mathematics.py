"""Python's `math`, `int()` and remainders of traced elements are computed by the graph.

Where Python raises, or its integers are larger than 64 bits, the call is Python's own.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minicc

X = np.array([0.25, 1.5, 3.0, 0.75, 2.0, 1e-3, 0.5] * 4)


def roots(x: Any) -> Any:
    y, total = np.zeros_like(x), 0.0
    for k in range(len(x)):
        y[k] = math.sqrt(x[k]) + math.log(x[k])
        total = total * 0.5 + math.exp(-x[k])
    return y, total


def distances(x: Any) -> Any:
    best = math.inf
    for k in range(1, len(x)):
        best = min(best, math.hypot(x[k] - x[k - 1], 0.5))
    return best, math.atan2(x[0], 2), math.fabs(float(x[1])), math.tanh(x[2]), math.log(x[3], 3)


def counted(x: Any) -> Any:
    found = np.zeros(5, np.int64)
    for k in range(len(x)):
        place = int(x[k] * 3) % 5
        found[place] += 1
    return found, int(x[0]), int(x[1] * -2) // 2


def picked(x: Any) -> Any:
    table = np.arange(12.0).reshape(4, 3)
    row = table[int(x[1])]
    row[0] = 9
    return row, table


@pytest.mark.parametrize("f", [roots, distances, counted, picked], ids=lambda f: f.__name__)
def test_as_python(f: Callable[..., Any]) -> None:
    compiled = minicc.jit(f, threads=1)
    values = [X, X + 0.5, -X, np.where(X > 2, np.nan, X), X * 1e30, np.where(X > 2, np.inf, X)]
    for x in values:
        outcomes = []
        for g in (f, compiled):
            try:
                outcomes.append(g(x))
            except (ValueError, OverflowError, IndexError) as error:
                outcomes.append((type(error).__name__, str(error)))
        assert [type(v) for v in outcomes[0]] == [type(v) for v in outcomes[1]]
        for a, b in zip(*outcomes, strict=True):
            if isinstance(a, (np.ndarray, float)):
                np.testing.assert_array_max_ulp(a, b, 4)
            else:
                assert a == b
    text = str(compiled.explain())
    assert "run by NumPy" not in text
    assert f is picked or "a loop of the graph" in text
