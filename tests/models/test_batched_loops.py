"""Loops whose rounds need nothing of one another become operations on whole arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minicc
from minicc.compile.compiler import lower
from minicc.ir import graph
from minicc.ir.core import walk
from minicc.options import Options


def scaled(x: Any, m: Any, k: Any) -> Any:
    for i in range(x.size):
        x[i] = x[i] * 2 + i
    return x


def stencil(x: Any, m: Any, k: Any) -> Any:
    y = m * 0
    for i in range(1, m.shape[0] - 1):
        for j in range(1, m.shape[1] - 1):
            y[i, j] = m[i - 1, j] + m[i + 1, j] + m[i, j - 1] * m[i, j + 1] - 4 * m[i, j]
    return y


def product(x: Any, m: Any, k: Any) -> Any:
    y = np.zeros((m.shape[0], m.shape[0]))
    for i in range(m.shape[0]):
        for j in range(m.shape[0]):
            s = 0.0
            for t in range(m.shape[1]):
                s += m[i, t] * m[j, t]
            y[i, j] = s
    return y


def sides(x: Any, m: Any, k: Any) -> Any:
    count = 0
    for i in range(x.size):
        if x[i] > 0.5:
            x[i] = np.sqrt(x[i])
            count += k[i]
        else:
            x[i] = 0.0
    m[0, 0] = count
    return x


def backwards(x: Any, m: Any, k: Any) -> Any:
    y = np.zeros(2 * x.size + 3)
    for i in range(x.size - 1, -1, -1):
        y[2 * i + 1] = x[x.size - 1 - i] - x[i]
    return y


def diagonal(x: Any, m: Any, k: Any) -> Any:
    y = np.zeros(m.shape[0])
    for i in range(m.shape[0]):
        y[i] = m[i, i] * m[i, i + 2]
        m[i, 1] = m[k[i], 1] if i % 3 else m[i, 1]
    return y


def gathered(x: Any, m: Any, k: Any) -> Any:
    y = np.zeros((x.size, 3))
    for i in range(x.size):
        y[i, :2] = m[k[i], 1:3]
        y[i, 2] = x[k[i]] + m[k[i], k[i]]
    return y


def distances(x: Any, m: Any, k: Any) -> Any:
    n = m.shape[0]
    y = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            y[i, j] = np.sqrt(((m[i] - m[j]) ** 2).sum())
    return y


def rows(x: Any, m: Any, k: Any) -> Any:
    total = np.zeros(m.shape[1])
    for row in m:
        total += row / row.sum()
    return total


def triangle(x: Any, m: Any, k: Any) -> Any:
    for i in range(m.shape[0]):
        for j in range(m.shape[1]):
            m[i, j] += np.dot(m[i + 1 :, i], m[i + 1 :, j])
    return m


def columns(x: Any, m: Any, k: Any) -> Any:
    for j in range(m.shape[1]):
        m[:, j] /= m[:, j].max()
        m[:, j] -= j
    return m


BATCHED = (scaled, stencil, product, backwards, gathered, distances, rows)
PARTLY = (sides, diagonal, triangle, columns)


def running(x: Any, m: Any, k: Any) -> Any:
    for i in range(1, x.size):
        x[i] += x[i - 1]
    return x


def states_read(x: Any, m: Any, k: Any) -> Any:
    s = 0.0
    for i in range(x.size):
        s += x[i]
        x[i] = s
    return x


def shifted(x: Any, m: Any, k: Any) -> Any:
    for i in range(x.size - 1):
        x[i] = x[i + 1] * 0.5
    return x


def same_place(x: Any, m: Any, k: Any) -> Any:
    for i in range(x.size):
        m[0, 1] = x[i]
        m[1, i // 4] = x[i]
    return m


def swapped(x: Any, m: Any, k: Any) -> Any:
    for i in range(m.shape[0] - 1):
        m[i, :], m[i + 1, :] = m[i + 1, :].copy(), m[i, :].copy()
    return m


def parts(x: Any, m: Any, k: Any) -> Any:
    for i in range(1, m.shape[0]):
        x[i] = m[i, :i].sum() + m[:i, 0].sum() + x[i] * m[i, i]
    return x


LOOPS = (parts, running, states_read, shifted, same_place, swapped)


def arguments(seed: int) -> list[Any]:
    r = np.random.default_rng(seed)
    return [r.random(21), r.random((19, 23)), r.integers(0, 19, 21)]


def scans(f: Callable[..., Any], math: str = "fast") -> int:
    """The loops that are left of a function."""
    module = minicc.jit(f).lower(*arguments(0)).module
    made = lower(module, Options(math=math), stop="simplify-loops")
    return sum(isinstance(op, graph.Scan) for op in walk(made.main.body))


@pytest.mark.parametrize("math", ["fast", "strict"])
@pytest.mark.parametrize("f", BATCHED + PARTLY + LOOPS, ids=lambda f: f.__name__)
def test_as_numpy(f: Callable[..., Any], math: str) -> None:
    g = minicc.jit(f, math=math)
    for seed in range(2):
        mine, theirs = arguments(seed), arguments(seed)
        got, want = g(*mine), f(*theirs)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("f", BATCHED, ids=lambda f: f.__name__)
def test_no_loop_is_left(f: Callable[..., Any]) -> None:
    assert scans(f) == 0


@pytest.mark.parametrize("f", LOOPS, ids=lambda f: f.__name__)
def test_a_loop_stays_one(f: Callable[..., Any]) -> None:
    assert scans(f) > 0


def test_sums_of_floats_keep_their_order_in_strict_mathematics() -> None:
    assert scans(product, "strict") > 0
    assert scans(rows, "strict") > 0
    assert scans(stencil, "strict") == 0


def test_large_rounds_stay_a_loop() -> None:
    def f(m: Any, x: Any) -> Any:
        for i in range(x.size):
            x[i] = np.tanh(m * x[i]).sum()
        return x

    module = minicc.jit(f).lower(np.ones((200, 200)), np.ones(50)).module
    made = lower(module, Options(), stop="simplify-loops")
    assert any(isinstance(op, graph.Scan) for op in walk(made.main.body))


def counted(m: Any, e: Any) -> Any:
    y = np.zeros((e.size - 1, 2))
    for i in range(e.size - 1):
        within = (m >= e[i]) & (m < e[i + 1])
        y[i, 0] = m[within].sum()
        y[i, 1] = within.sum()
    return y


def farthest(m: Any, e: Any) -> Any:
    y = np.zeros(e.size)
    for i in range(e.size):
        y[i] = np.abs(m - e[i]).max()
    return y


def centred(m: Any, e: Any) -> Any:
    y = np.zeros(e.size)
    for i in range(e.size):
        moved = m * e[i]
        y[i] = (moved - moved.mean()).max()
    return y


def spread(m: Any, e: Any) -> Any:
    y = np.zeros(e.size)
    for i in range(e.size):
        apart = m * e[i] - (m * e[i]).mean()
        y[i] = np.abs(apart).max() / (apart * apart).sum()
    return y


@pytest.mark.parametrize("math", ["fast", "strict"])
@pytest.mark.parametrize("f", [counted, farthest, centred, spread], ids=lambda f: f.__name__)
def test_rounds_that_keep_reductions_of_a_large_tensor(f: Callable[..., Any], math: str) -> None:
    m = np.random.default_rng(0).random(300_000)
    e = np.linspace(0.1, 0.9, 12)
    module = minicc.jit(f).lower(m, e).module
    options = Options(math=math)
    left = walk(lower(module, options, stop="simplify-loops").main.body)
    assert any(isinstance(op, graph.Scan) for op in left) == (f is spread)
    merged = walk(lower(module, options, stop="merge").main.body)
    held = [r.type for op in merged for r in op.results]
    assert all(np.prod(t.shape) <= m.size for t in held if hasattr(t, "shape"))
    np.testing.assert_allclose(minicc.jit(f, math=math)(m, e), f(m, e), rtol=1e-9)
