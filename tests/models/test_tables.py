"""Lists and tuples of numbers of which loops take, or set, elements that rounds or data say."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minicc

Function = Callable[..., Any]
CAPTURED: list[Function] = []
OTHERS: list[Function] = []

AT = np.random.default_rng(0).integers(0, 5, 80)
MOVES = [(-1, 0), (1, 0), (0, -1), (0, 1)]
GRID = [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
WEIGHTS = (0.5, 1.5, 2.0, 3.0, 0.25)


@CAPTURED.append
def walk(p: Any) -> Any:
    x = y = 0
    for k in range(60):
        dx, dy = MOVES[p[k] % 4]
        x, y = x + dx, y + dy
    return x, y


@CAPTURED.append
def in_lists_of_lists(p: Any) -> Any:
    total, rows = 0, [[0.5, 1.5], [2.5, 3.5], [4.5, 5.5]]
    real = 0.0
    for k in range(60):
        total += GRID[p[k] % 3][p[k + 1] % 3]
        for i in range(8):
            real += rows[p[k + i] % 3][i % 2]
    return total, real, rows


@CAPTURED.append
def of_several_kinds(p: Any) -> Any:
    flags, scalars, total = [True, False, True, False, True], [np.float32(0.5)] * 5, np.float32(0)
    count, real = 0, 0.0
    for k in range(60):
        real += WEIGHTS[-1 - p[k]]
        total += scalars[p[k]]
        if flags[p[k]]:
            count += k % len(flags)
    return total, count, real


@CAPTURED.append
def chained(p: Any) -> Any:
    follows, s, total, k = [1, 2, 3, 4, 0], 0, 0, 0
    while total < 90:
        s = follows[s]
        total += p[k] + s + 1
        k += 1
    return s, total, k


@CAPTURED.append
def beyond_its_end(p: Any) -> Any:
    total, few = 0, [1, 2, 3]
    for k in range(60):
        total += few[p[k]]
    return total


@CAPTURED.append
def set_beyond_its_end(p: Any) -> Any:
    few = [0] * 4
    for k in range(60):
        few[p[k]] = k
    return few


@CAPTURED.append
def large(p: Any) -> Any:
    """Sums that 64 bits may not hold are Python's."""
    values, total = [3, 1, 2**61], 0
    for k in range(60):
        total += values[p[k] % 3]
    return total


@CAPTURED.append
def counted(p: Any) -> Any:
    counts = [0] * 5
    for k in range(60):
        counts[p[k]] += 1
    total = 0
    for k in range(60):
        counts[p[k]] -= counts[p[k + 1]] % 7
        total += counts[2]
    return counts, total, max(counts), min(counts), sum(counts), type(counts) is list


@CAPTURED.append
def exchanged(p: Any) -> Any:
    w = [1, 2, 3, 4, 5]
    for k in range(60):
        i, j = p[k], p[k + 1]
        w[i], w[j] = w[j], w[i]
    return w


@CAPTURED.append
def on_sides_of_a_branch(p: Any) -> Any:
    reals, ints = [0.0] * 5, [0] * 5
    for k in range(60):
        if p[k] > 2:
            reals[p[k]] += 1.5
        else:
            ints[p[k]] = k
    return reals, ints, sum(reals)


@CAPTURED.append
def recurrence(p: Any) -> Any:
    f = [0.0] * 60
    f[0] = f[1] = 1.0
    for k in range(2, 60):
        f[k] = 0.5 * f[k - 1] + f[k - 2] * float(p[k])
    return np.array(f), f[5], f[-1]


@CAPTURED.append
def increasing(p: Any) -> Any:
    best = [1] * 40
    for i in range(40):
        for j in range(i):
            if p[j] < p[i]:
                best[i] = max(best[i], best[j] + 1)
    return max(best), best


@CAPTURED.append
def sifted(p: Any) -> Any:
    n = 60
    prime, seen = [True] * (n + 1), [0.0] * 5
    prime[0] = prime[1] = False
    for i in range(2, n + 1):
        seen[p[i]] += 1
        if prime[i]:
            for j in range(i * i, n + 1, i):
                prime[j] = False
    return sum(prime), prime, seen


@CAPTURED.append
def left(p: Any) -> Any:
    counts = [0] * 5
    for k in range(60):
        counts[p[k]] += 1
        if counts[p[k]] == 7:
            break
    return counts


@CAPTURED.append
def left_at(p: Any) -> Any:
    """The number of the round that left the loop is looked at after it."""
    counts, ends = [0] * 5, []
    for k in range(60):
        counts[p[k]] += 1
        if counts[p[k]] == 9:
            break
    for i in range(30):
        total = 0
        for j in range(20):
            dx, dy = MOVES[p[i + j] % 4]
            total += dx - 2 * dy
            if total > 4:
                break
        ends.append(j + 1)
    return counts, k, ends


@CAPTURED.append
def joined(p: Any) -> Any:
    parents = [0, 1, 2, 3, 4]
    for k in range(30):
        a, b = int(p[k]), int(p[k + 1])
        while parents[a] != a:
            a = parents[a]
        while parents[b] != b:
            b = parents[b]
        if a != b:
            parents[a] = b
    return parents


@CAPTURED.append
def order_of_floats(p: Any) -> Any:
    """Python's `max` goes by the order of NaN, and of both zeros."""
    nans, zeros = [0.0] * 5, [0.0] * 5
    for k in range(60):
        nans[p[k]] = math.nan if p[k] == 2 else 1.0
        zeros[p[k]] = -0.0 if p[k] < 2 else 0.0
    return str(max(nans)), str(min(nans)), str(max(zeros)), str(min(zeros))


@CAPTURED.append
def with_names(p: Any) -> Any:
    w = [0] * 5
    same = w
    for k in range(60):
        w[p[k]] += 1
    same.append(3)
    return w, same is w


@CAPTURED.append
def of_zipped_lists(p: Any) -> Any:
    total, halves = 0.0, [0.5] * 60
    for (dx, dy), w in zip(MOVES, WEIGHTS, strict=False):
        total += w * dx * p[dy]
    for k, half in enumerate(halves):
        total += half * p[k]
    return total


@OTHERS.append
def changed_by_another_name(p: Any) -> Any:
    w = [1, 2, 3]
    same, total = w, 0
    for k in range(10):
        total += w[p[k] % 3]
        same[0] = int(p[k])
    return total, w


@OTHERS.append
def grown(p: Any) -> Any:
    w, total = [1, 2, 3], 0
    for k in range(30):
        total += w[p[k] % 3]
        w.append(2)
    return total, len(w)


@OTHERS.append
def of_other_kinds(p: Any) -> Any:
    total, words, some, none = 0, ["a", "bb", "c"], [3, 1.5, 2**70], [0] * 5
    for k in range(10):
        total += len(words[p[k] % 3]) + some[p[k] % 3]
        none[p[k]] = p[k] * 0.5
    return total, none


@OTHERS.append
def run_over_and_changed(p: Any) -> Any:
    w, v, total = [1, 2, 3, 4, 5, 6, 7, 8], [1.0, 2.0, 3.0, 4.0, 5.0], 0.0
    for k, x in enumerate(w):
        total += x
        if k < 7:
            w[k + 1] = w[k + 1] * 2 + int(p[k])
    for k, y in enumerate(v):
        total += y + p[k]
        if len(v) < 20:
            v.append(1.0)
    return total, w, v


@OTHERS.append
def run_over_and_changed_within(p: Any) -> Any:
    w, total = [1.0, 2.0, 3.0, 4.0, 5.0], 0.0

    def change(k: int) -> None:
        w[4] = float(p[k])

    for k, x in enumerate(w):
        total += x
        change(k)
    return total, w


@OTHERS.append
def turned_around(p: Any) -> Any:
    """The second recording changed another list than the first one, and did not put it back."""
    w, total = [3, 1, 4, 1, 5, 9], 0
    for i in range(20):
        w[0] += 1
        w = w[::-1]
        total += p[i]
    return w, total


def outcome(f: Function, *args: Any) -> Any:
    try:
        return f(*args)
    except (IndexError, OverflowError) as error:
        return type(error), str(error)


def same(a: Any, b: Any) -> bool:
    """Whether two results are of the same types, and as near as sums in another order are."""
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and bool(np.allclose(a, b, rtol=1e-12))
    return bool(np.isclose(a, b, rtol=1e-6)) if isinstance(a, (float, np.floating)) else a == b


@pytest.mark.parametrize("f", [*CAPTURED, *OTHERS], ids=lambda f: f.__name__)
def test_as_python_has_it(f: Function) -> None:
    g = minicc.jit(f, threads=1)
    for p in (AT, AT[::-1].copy(), np.roll(AT, 7)):
        assert same(outcome(g, p), outcome(f, p))
    if f in CAPTURED:
        assert not g.explain().breaks
        assert "run by NumPy" not in str(g.explain())


def knapsack(weights: list[int], values: list[int], most: int) -> Any:
    best = np.zeros((len(weights) + 1, most + 1), int)
    for i in range(1, len(weights) + 1):
        for c in range(most + 1):
            best[i, c] = best[i - 1, c]
            if weights[i - 1] <= c:
                taken = best[i - 1, c - weights[i - 1]] + values[i - 1]
                best[i, c] = max(best[i - 1, c], taken)
    return best


def ways(coins: list[int], n: int) -> Any:
    found = [0] * (n + 1)
    found[0] = 1
    for c in coins:
        for a in range(c, n + 1):
            found[a] += found[a - c]
    return found[n], found


def pairs(p: Any, table: list[tuple[int, float]]) -> Any:
    a, b = 0, 0.0
    for k in range(60):
        i, x = table[p[k] % 3]
        a, b = a + i, b + x
    return a, b


def counted_in(counts: list[int], p: Any) -> None:
    for k in range(60):
        counts[p[k]] += 1


FIVE, THREE = [0, 0, 0, 0, 0], [(1, 2.0), (3, 4.0), (5, 6.0)]
CALLS: list[tuple[Function, list[tuple[Any, ...]]]] = [
    (knapsack, [([1, 2, 3, 5, 4], [6, 10, 12, k, 2], 50) for k in (7, 8, 9, 2**70)]),
    (ways, [([1, 2, 5], 40), ([1, 3, 4], 40), ([1, 3, 5], 44), ([2, 3, 5], 41)]),
    (pairs, [(AT, [*THREE, (0, x)][k:]) for k, x in enumerate((0.5, 1.5))] + [(AT, THREE)]),
    (counted_in, [(FIVE, AT), (FIVE, AT), ([0, 1, 0, 0, 2], AT), ([2**62] * 5, AT)]),
]


@pytest.mark.parametrize(("f", "calls"), CALLS, ids=lambda x: getattr(x, "__name__", ""))
def test_lists_that_calls_give(f: Function, calls: list[tuple[Any, ...]]) -> None:
    g = minicc.jit(f, threads=1)
    for args in [*calls, *calls]:
        mine, theirs = copy.deepcopy(args), copy.deepcopy(args)
        assert same(outcome(g, *mine), outcome(f, *theirs))
        assert same([*mine], [*theirs])


def test_a_range_that_counts_by_the_number_of_a_round() -> None:
    def f(x: Any, n: int) -> Any:
        for i in range(1, n):
            for j in range(n - i, -i, -1):
                x[j] += i
            for j in range(i, 3 * n, i):
                x[j] += j
        return x

    g = minicc.jit(f, threads=1)
    for n in (9, 9, 12):
        np.testing.assert_array_equal(g(np.zeros(40, int), n), f(np.zeros(40, int), n))
    assert "run by NumPy" not in str(g.explain())
