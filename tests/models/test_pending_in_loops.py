"""Arrays that are recorded when somebody asks for them, where that is a round of a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.models.test_state import same

import minicc


def reads_rows(x: Any) -> Any:
    h = []
    for i in range(30):
        h.append(x[i % 8] * i)
    s = 0.0
    for i in range(40):
        for _ in range(30):
            s = s + h[3] * i
    return s, h[3] * 2, h[4]


def appends_within(x: Any) -> Any:
    h = [0.5]
    for _ in range(30):
        for j in range(30):
            h.append(x[j % 8])
        x = np.sin(x)
    return x, len(h), h[5:9]


def appends_again(x: Any) -> Any:
    h = [0.5]
    for i in range(30):
        h.append(x[i % 8] * i)
    for i in range(30):
        h.append(x[i % 8] - i)
    for i in range(10):
        for j in range(30):
            h.append(h[0] + x[j % 8] - i)
    return np.array(h), h[3]


def writes_rows(x: Any) -> Any:
    h = []
    for i in range(30):
        h.append(x * i)
    for i in range(40):
        for j in range(30):
            h[3][j % 8] += i
            h[4][:] = h[3] - j
    return h


def asks_rows(x: Any) -> Any:
    h = []
    for i in range(30):
        h.append(x[i % 8] * i)
    k = 0
    while k < 100:
        j = 0
        while h[3] * k > j and j < 30:
            j += 1
        k += j + 1
    return k, h


def scales_masked(x: Any) -> Any:
    y = x[x > 0]
    for _ in range(20):
        for _ in range(20):
            y *= 1.01
    return y.sum(), y


def adds_to_masked(x: Any) -> Any:
    y = x[x > 0]
    for _ in range(20):
        y += x.max()
    return y.mean()


def moves_places(x: Any) -> Any:
    y = np.nonzero(x > 0)[0]
    for _ in range(20):
        y += 1
    return y.sum()


def updates_two(x: Any) -> Any:
    m = x > 0
    y, w = x[m], x[m]
    for _ in range(20):
        y += w
        w *= 1.1
    x[m] = y
    return x


def while_masked(x: Any) -> Any:
    y, k = x[x > 0], 0
    while k < 20:
        if x[k % 8] > 0:
            y *= 1.1
        k += 1
    return y.sum()


def carries_masked(x: Any) -> Any:
    m = x > 0
    y, s = x[m], 0
    for _ in range(20):
        y = y * 1.1
        s += y.sum()
    x[m] = y
    return x, s


FUNCTIONS = [
    reads_rows, appends_within, appends_again, writes_rows, asks_rows, scales_masked,
    adds_to_masked, moves_places, updates_two, while_masked, carries_masked,
]  # fmt: skip


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_like_numpy(f: Callable[..., Any], recwarn: pytest.WarningsRecorder) -> None:
    jitted = minicc.jit(f)
    for begin in (-4, -2):
        x, y = np.arange(begin, begin + 12.0), np.arange(begin, begin + 12.0)
        found, wanted = jitted(x), f(y)
        assert not recwarn.list
        np.testing.assert_allclose(x, y, 1e-12)
        same(found, wanted, f.__name__, {})
