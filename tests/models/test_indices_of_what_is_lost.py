"""An index out of bounds raises as in NumPy, though the element is cut off or written over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minicc

Function = Callable[[Any, Any], Any]


def overwritten_in_its_round(x: Any, p: Any) -> Any:
    y = np.zeros(8)
    for i in range(8):
        y[i] = x[p[i]]
        y[i] = x[i]
    return y


def overwritten_by_columns(x: Any, p: Any) -> Any:
    y = np.zeros((8, 2))
    for i in range(8):
        y[i] = x[p[i]]
        y[i, 0] = 1
        y[i, 1] = 2
    return y


def overwritten_by_a_loop(x: Any, p: Any) -> Any:
    y = np.zeros(8)
    for i in range(8):
        y[i] = x[p[i]]
    for i in range(8):
        y[i] = x[i]
    return y


def overwritten_by_loops_in_loops(x: Any, p: Any) -> Any:
    y = np.zeros((8, 8))
    for i in range(8):
        for j in range(8):
            y[i, j] = x[p[j]]
    for i in range(8):
        for j in range(8):
            y[i, j] = x[i]
    return y


def scattered_and_overwritten(x: Any, p: Any) -> Any:
    y = np.zeros(8)
    y[p] = x
    for i in range(8):
        y[i] = i
    return y


def overwritten_until(x: Any, p: Any) -> Any:
    y = x[p]
    i, s = 0, x[0]
    while s < 100:
        y[i % 8] = 3
        s = s + i
        i = i + 1
    return s


def next_by_next(x: Any, p: Any) -> Any:
    t = x[0]
    for i in range(8):
        t = x[p[i]]
        t = x[i] + t * 0
    return t


def written_at_columns_and_overwritten(x: Any, p: Any) -> Any:
    y = np.zeros((8, 8))
    y[2:, p[:3]] = 1
    y[:, p[3]] = 2
    y[3:, p[4:]] = 3
    for i in range(8):
        y[i] = x
    return y


def of_no_element(x: Any, p: Any) -> Any:
    return np.broadcast_to(x[p], (0, 8)).sum() + x[p][:0].sum()


LOST: list[Function] = [
    overwritten_in_its_round,
    overwritten_by_columns,
    overwritten_by_a_loop,
    overwritten_by_loops_in_loops,
    scattered_and_overwritten,
    overwritten_until,
    next_by_next,
    written_at_columns_and_overwritten,
    of_no_element,
    lambda x, p: np.concatenate([x[p], x])[8:],
    lambda x, p: (np.concatenate([x[p], x]) * 2 + 1)[8:],
    lambda x, p: np.stack([x[p], x])[1],
    lambda x, p: np.stack([x[p], x]).T[2:, 1],
    lambda x, p: np.hstack([x, x[p]]).reshape(2, 8)[0],
    lambda x, p: np.where(np.arange(8) < 3, x[p], 0.0)[:3],
    lambda x, p: np.pad(x[p], 2)[-2:],
    lambda x, p: np.roll(x[p], 1)[:1],
    lambda x, p: x[np.concatenate([p, p])][:1],
    lambda x, p: np.split(x[p], 2)[0],
    lambda x, p: np.flip(x[p])[6:],
    lambda x, p: np.tril(np.outer(x, x[p]))[0],
    lambda x, p: np.maximum(x[p], np.inf),
]


@pytest.mark.parametrize("f", LOST)
def test_it_raises_as_in_numpy(f: Function) -> None:
    g = minicc.jit(f)
    x, p = np.arange(8.0), np.arange(8)
    np.testing.assert_array_equal(g(x, p), f(x, p))
    for place in (7, 4):
        for bad in (99, -9):
            p = np.arange(8)
            p[place] = bad
            with pytest.raises(IndexError) as wanted:
                f(x, p)
            with pytest.raises(IndexError) as caught:
                g(x, p)
            assert str(caught.value) == str(wanted.value)


def kept(y: Any, n: Any) -> Any:
    t = -y
    t[...] = n.sum()
    return t


def overwritten(y: Any, n: Any) -> Any:
    t = kept(y, n)
    t[...] = 1
    return t


def let_go(y: Any, n: Any) -> Any:
    t = -y
    t[1] = n.sum()
    t = -y
    return t


def overwritten_in_rounds(y: Any, n: Any) -> Any:
    t = -y
    for i in range(3):
        t[i] = n[0] + i
        t[i] = i
    return t


@pytest.mark.parametrize("f", [kept, overwritten, let_go, overwritten_in_rounds])
def test_a_number_that_its_array_does_not_hold_raises_as_in_numpy(f: Function) -> None:
    g = minicc.jit(f)
    y = np.ones(3, np.int8)
    np.testing.assert_array_equal(g(y, np.array([3, 4])), f(y, np.array([3, 4])))
    with pytest.raises(OverflowError) as wanted:
        f(y, np.array([300, 4]))
    with pytest.raises(OverflowError) as caught:
        g(y, np.array([300, 4]))
    assert str(caught.value) == str(wanted.value)
