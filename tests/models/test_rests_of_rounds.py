"""Loops over items that a test may leave in the middle of a round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.models.test_captured_loops import same
from tests.models.test_grown_lists import compare

import minicc

Function = Callable[..., Any]
WHOLE: list[Function] = []
READ: list[Function] = []


@WHOLE.append
def last_values(x: Any) -> Any:
    v = x * 1.0
    for _ in range(8):
        new = np.cos(v)
        if np.abs(new - v).max() < x[0]:
            break
        v = new
    return v


@WHOLE.append
def counted(x: Any) -> Any:
    v, n, last = x * 1.0, 0, x[0] * 0
    for _ in range(8):
        size = np.sqrt(v @ v)
        if abs(size - last) < x[0]:
            break
        v = v * 0.7
        last = size
        n += 3
    return v, n, last


@WHOLE.append
def numbers(x: Any) -> Any:
    s, k = float(x[1]), 0
    for k in range(8):  # noqa: B007  # it is read after the loop
        new = s * 0.5 + 0.01
        if abs(new - s) < x[0]:
            break
        s = new
    return s, k


@WHOLE.append
def in_place(x: Any) -> Any:
    y, s = np.zeros(4), x[1]
    for _ in range(8):
        s = s * 0.6
        y[0] += s
        if s < x[0]:
            break
        y[1] += s
        y[2:] = y[0]
    return y, s


@WHOLE.append
def nothing_of_use(x: Any) -> Any:
    s, t = x[1], x[1]
    for _ in range(8):
        s = s * 0.6 + t * 0.01
        if s < x[0]:
            break
        t = t * 0.5
    return s


@WHOLE.append
def the_one_before(x: Any) -> Any:
    v = x * 1.0
    before = v * 0
    for _ in range(8):
        if np.abs(v - before).max() < x[0]:
            break
        before = v
        v = np.cos(v)
    return v, before


@WHOLE.append
def in_each_round(x: Any) -> Any:
    out = np.zeros(len(x))
    for i in range(len(x)):
        s = x[i]
        for _ in range(8):
            new = np.sin(s)
            if abs(new - s) < x[0]:
                break
            s = new
        out[i] = s
    return out


def loops_in_it(x: Any) -> Any:
    table = np.outer(x, x)
    for _ in range(8):
        if table.sum() < x[0] * 10:
            break
        for p in range(9):
            for q in range(p + 1, 9):
                if table[p, q] < 0.01:
                    continue
                table[p, q] *= 0.3
        table *= 0.5
    return table


def _means(points: Any, k: int, scale: float) -> Any:
    centers = points[:k].copy()
    labels = np.zeros(len(points), dtype=int)
    for n in range(9):
        nearest = ((points[:, None] - centers[None]) ** 2).sum(axis=2).argmin(axis=1)
        if n > 0 and np.all(nearest == labels):
            break
        labels = nearest
        for j in range(k):
            if np.any(labels == j):
                centers[j] = points[labels == j].mean(axis=0) * scale
    return centers, labels, n


def _more_means(points: Any, k: int, scale: float) -> Any:
    centers = points[:k].copy()
    for _ in range(9):
        labels = np.argmin(np.linalg.norm(points[:, None] - centers[None], axis=-1), axis=1)
        old = centers.copy()
        for j in range(k):
            mine = points[labels == j]
            if len(mine) > 0 and mine.size > 1 and mine.shape[0] != 0:
                centers[j] = np.mean(mine, axis=0) * scale
        if np.linalg.norm(centers - old) < 1e-6:
            break
    return centers, labels


@READ.append
def by_the_number_of_the_round(x: Any) -> Any:
    s, t = x[1], x[1]
    for k in range(8):
        s = s * 0.6
        if s < x[0]:
            break
        t = t + x[k]
    return s, t


@READ.append
def on_a_side(x: Any) -> Any:
    s, t = x[1], x[1]
    for _ in range(8):
        s = s * 0.6
        if s < x[0]:
            break
        if s > 0.2:
            t = t + 1
    return s, t


@READ.append
def of_one_array_with_two_names(x: Any) -> Any:
    v = x * 1.0
    w = v
    for _ in range(8):
        new = np.cos(v)
        if np.abs(new - v).max() < x[0]:
            break
        v = new
        w = new
    w[0] = 9
    return v, w


@READ.append
def of_a_list(x: Any) -> Any:
    s, out = x[1], []
    for _ in range(8):
        s = s * 0.6
        if s < x[0]:
            break
        out.append(s)
    return np.array(out), s


@READ.append
def else_after_it(x: Any) -> Any:
    s, found = x[1], 1.0
    for _ in range(8):
        s = s * 0.6
        if s < x[0]:
            break
        s = s + 0.001
    else:
        found = 0.0
    return s, found


def arrays(n: int = 12) -> list[Any]:
    """Arrays of which the test ends the loop at once, after some rounds, or not at all."""
    draw = np.random.default_rng(n)
    found = []
    for limit in 100.0, 0.3, 0.1, 1e-12, 0.2:
        x = draw.uniform(0.5, 1.5, n)
        x[0] = limit
        found.append(x)
    return found


@pytest.mark.parametrize("f", [*WHOLE, loops_in_it], ids=lambda f: f.__name__)
def test_python_reads_nothing(f: Function) -> None:
    told = compare(f, *arrays()).explain()
    assert any("until its condition" in text for text in told.loops)
    assert not told.breaks


@pytest.mark.parametrize("f", WHOLE, ids=lambda f: f.__name__)
def test_one_program_is_for_all_lengths(f: Function) -> None:
    jitted = compare(f, *[x for n in (12, 9, 10, 14) for x in arrays(n)])
    assert any("is a size of at least" in text for text in str(jitted.explain()).splitlines())


@pytest.mark.parametrize("f", READ, ids=lambda f: f.__name__)
@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
def test_python_goes_through_the_rest(f: Function) -> None:
    compare(f, *arrays(), *arrays())


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
def test_memory_that_names_share_after_it(share: bool) -> None:
    def f(x: Any) -> Any:
        v = x * 1.0
        first = v if share else v * 1
        for _ in range(8):
            new = np.cos(v)
            if np.abs(new - v).max() < x[0]:
                break
            v = new
        first[1] = 7
        v[2] = 8
        return v, first

    jitted = minicc.jit(f, threads=1)
    for x in arrays():
        same(f(x), jitted(x), 1e-12, 1e-12)


@pytest.mark.parametrize("f", [_means, _more_means])
@pytest.mark.parametrize("k", [3, 5])
def test_clusters(f: Function, k: int) -> None:
    draw = np.random.default_rng(k)
    jitted = minicc.jit(f, threads=1)
    for n in 60, 60, 75, 90:
        points = draw.normal(size=(n, 2)) + draw.integers(0, 2, (n, 1)) * 4
        same(f(points, k, 1.0), jitted(points.copy(), k, 1.0), 1e-12, 1e-12)
    assert all("a loop of the graph" in text for text in jitted.explain().loops)
