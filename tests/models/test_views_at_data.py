"""Views at places that data give are views: writes reach the array, results share its memory."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.generate.functions.oracle import differences

import minicc

TABLE = np.arange(12.0).reshape(3, 4)


def written(m: Any, x: Any) -> Any:
    row = m[x.argmax()]
    row[0] = 5
    y = m * 2
    part = y[int(x.argmin()), 1:]
    part *= -1
    return row, y


def seen(m: Any, x: Any) -> Any:
    y = m * 2
    row, column = y[x.argmax()], y[:, x.argmin()]
    y += 1
    copy = y[np.asarray(x.argmax())]
    copy[1] = 77
    return row, column, y, copy


def shared(m: Any, x: Any) -> Any:
    k = x.argmax()
    return m[k], m.T[1:, -k - 1], m[k][1:], TABLE[k], (m + 1)[:, k]


def in_place(m: Any, x: Any) -> Any:
    k = x.argmax()
    m[k] /= m[k, k] + 1
    m[x.argmin(), ::-1] += m[k]
    m[k], m[0] = m[0].copy(), m[k].copy()
    return m


def pivots(m: Any, x: Any) -> Any:
    for k in range(3):
        p = np.abs(m[k:, k]).argmax() + k
        row = m[p]
        row[k] += 1
        m[k] -= row * 0.5
    return row


def breaks(m: Any, x: Any) -> Any:
    row = m[x.argmax()]
    if x.sum() > 1:
        row += 1
    order = np.unique(x)
    row[:2] = order[:2]
    return row, m


def outside(m: Any, x: Any) -> Any:
    m[x.argmax() + 3][:] = 1
    return m


@pytest.mark.parametrize(
    "f", [written, seen, shared, in_place, pivots, breaks, outside], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("m", [TABLE + 1, np.asfortranarray(TABLE - 3)], ids=["rows", "columns"])
def test_as_numpy(f: Callable[..., Any], m: Any) -> None:
    jitted = minicc.jit(f, threads=1)
    for x in ([1.0, 3.0, 2.0], [4.0, -1.0, 2.0], [0.0, 1.0, 5.0]):
        outcomes = []
        for g in (jitted, f):
            given = {"m": m.copy("K"), "x": np.array(x)}
            try:
                got: Any = {"f": g(**given)}
            except IndexError as error:
                got = error
            outcomes.append((got, given))
        assert differences(outcomes[0], outcomes[1], lambda name: 1e-12) == []
