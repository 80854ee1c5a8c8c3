"""Numbers that are Python's or NumPy's, as data say: sums of some elements, the greatest so far."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.sweeps import part

import minicc
from minicc.ir.verify import verify


def sum_of_some(x: Any) -> Any:
    total = 0.0
    for k in range(len(x)):
        if x[k] > 1:
            total += x[k]
    return total


def greatest(x: Any) -> Any:
    best, at = -np.inf, -1
    for k in range(len(x)):
        if x[k] > best and x[k] > 1:
            best, at = x[k], k
    return best, at


def drop(x: Any) -> Any:
    peak, most = x[0], 0.0
    for v in x:
        if v > peak:
            peak = v
        if peak - v > most and peak > 1:
            most = peak - v
    return {"most": most, "peak": peak}


def mean_of_some(x: Any) -> Any:
    total, n = 0.0, 0
    for v in x:
        if v > 1:
            total += v
            n += 1
    return total / n if n else total


def several(x: Any) -> Any:
    low, high, other = 0.0, 0.0, 0.0
    for v in x:
        if v > 1:
            high = v
        elif v < -1:
            low = v
        if low + high > 0.5:
            other = 2.0
    return low, high, low * high - 1, abs(other), -low, math.sqrt(abs(high)), float(low)


def of_loops(x: Any) -> Any:
    best = 0.0
    for k in range(len(x)):
        part = 0.0
        for j in range(k):
            if x[j] > 1:
                part += x[j]
        if part > best:
            best = part
    return best, part


def by_a_while(x: Any) -> Any:
    total, k = 0.0, 0
    while x[k % len(x)] < 2 and k < 90:
        if x[k % len(x)] > 1:
            total += x[k % len(x)]
        k += 1
    return total, k


def left_early(x: Any) -> Any:
    total = 0.0
    for v in x:
        if v > 1.5:
            total = v
            if total > 1.75:
                break
        total = total * 0.5
    return total


def back_again(x: Any) -> Any:
    last = 1.5
    for v in x:
        last = v if v > 1 else 2.5
    return last


def in_arrays(x: Any) -> Any:
    total = 0.0
    for v in x:
        if v > 1:
            total += v
    return np.array([total, 1.0]), np.full(3, total), x * total, np.sqrt(total)


def printed(x: Any) -> Any:
    total = 0.0
    for v in x:
        if v > 1:
            total = v
    return f"{total!r} {type(total).__name__} {isinstance(total, np.float64)}", total


def asked(x: Any) -> Any:
    total = 0.0
    for v in x:
        if v > 1:
            total += v
    return total.dtype.name if isinstance(total, np.float64) else round(total, 2)


def listed(x: Any) -> Any:
    total, totals = 0.0, []
    for v in x:
        if v > 1:
            total = v
        totals.append(total)
    return totals


def compared(x: Any) -> Any:
    low, high = 0.0, x[0] * 0
    above = False
    for v in x:
        if v > 1:
            low = v
            above = v > 1.5
    return low == high, low > 0.5, above, not above


def ints(x: Any) -> Any:
    whole = np.floor(x).astype(np.int64)
    best, last = 0, 7
    for k in range(len(x)):
        if whole[k] > best:
            best = whole[k]
        if x[k] > 1:
            last = whole[k]
    return best, last, x[last % 3 - 1] + x[best % len(x)]


def wide(x: Any) -> Any:
    best = 0
    for v in np.floor(x).astype(np.int64) * 4_000_000_000:
        if v > best:
            best = v
    with np.errstate(all="ignore"):
        return best * best, best / 3


def after_branches_that_write(x: Any) -> Any:
    """What follows the branches is recorded once for all of them, whose it is included."""
    total, step, other = 0.0, 1.5, 2.0
    for i in range(1, 9):
        if x[i] > 1:
            other += step
            if i > 5:
                step = 1.0
                x[i] = total
            else:
                x[i] += other
        else:
            x[i] = step
        last = 0.0
        for j in range(i):
            if x[j] > 3:
                last = x[j]
        total += last
    return total, step, other


def by_extremes(x: Any) -> Any:
    low, high = 0.0, 1.5
    for v in x:
        high = min(low, high) if low > high else max(high, v)
        if v > 1:
            low = v
    return low, high


def clamped(x: Any) -> Any:
    """Each of `max` and `min` would double the ways through a round, were it a branch."""
    step, total, least, count = 0.5, 0.0, x[0], 3
    for v in x:
        error = abs(v * step)
        step = min(2.0, max(0.125, 0.9 * (0.5 / max(error, 1e-3)) ** 0.25)) * max(step, 0.25)
        step = min(step, 3.0, 1.0 if v > 1 else 2.5)
        total += max(v, 0.5, -v) - min(0.25, v)
        least = min(least, max(v, -1.0), step)
        count = max(min(count + int(v), 9), -5)
    return step, total, least, count


def stepped(x: Any) -> Any:
    """A solver whose step follows its error."""
    y, t, step, taken = x[:2] / 4, 0.0, 0.125, 0
    while t < 1:
        if t + step > 1:
            step = 1 - t
        rise = y[::-1] * np.array([1.0, -1.0])
        error = np.max(np.abs(rise - (y + step * rise)[::-1] * np.array([1.0, -1.0]))) * step
        if error <= 2e-3:
            y = y + step * rise
            t += step
            taken += 1
        step *= min(2.0, max(0.25, 0.875 * (2e-3 / max(error, 1e-9)) ** 0.5))
    return y, t, taken


def tuples(x: Any) -> Any:
    """Of numbers that some rounds bind anew, one within the other."""
    best, pair, last = np.inf, (0, 0), (0.0, (1, x[0]), True)
    for i in range(len(x)):
        for j in range(i + 1, len(x)):
            d = abs(x[i] - x[j]) + 0.5
            if d < best:
                best, pair = d, (i, j)
        if x[i] > 1:
            last = (x[i], (last[1][0] * 2 % 7, x[i] / 2), not last[2])
    return best, pair, last, (pair, pair[0])


def tuples_of_a_while(x: Any) -> Any:
    at, seen = 0, (0.0, -1)
    while at < 40 and x[at] < 3:
        if x[at] > seen[0]:
            seen = (x[at], at)
        at += 1
    return seen, at


def roots(x: Any) -> Any:
    """An int of Python's that a while makes NumPy's, as an index and as what is stored."""
    parents = np.arange(len(x)) // 2 * (x > 0)
    for k in range(len(parents)):
        root = k
        while parents[root] != root:
            root = parents[root]
        parents[k] = root
    return parents, root


def from_an_int(x: Any) -> Any:
    """Python's int where no element was added, and NumPy's float where one was."""
    total, best, at, below = 0, 0, -1, 0
    for k in range(len(x)):
        if x[k] > 1:
            total += x[k]
        elif x[k] < -1:
            below -= 1
        if x[k] > best:
            best, at = x[k], k
        if k % 7 == 0 and best < 2:
            total = total - 3
    return total, best, at, below, total / 2, best * 0.5, best > 1.5, abs(total), float(best)


def of_ints(x: Any) -> Any:
    whole = np.floor(x).astype(np.int64)
    total, low, odd = 0, 0, 0
    for v in whole:
        if v > 0:
            total += v
        elif v < 0:
            low = min(low, v)
        else:
            total -= 1
        odd = (total % 2 + odd // 2) & 7
    return total, low, odd, ~total, total / 4


def of_narrow_types(x: Any) -> Any:
    single, small = x.astype(np.float32), np.floor(x).astype(np.int32)
    total, best, most, whole = 0.0, 0, 0.1, 0
    for k in range(len(x)):
        if single[k] > 1:
            total += single[k]
        if single[k] > best:
            best = single[k]
        if most > 2.5 and single[k] > most:
            most = single[k]
        if small[k] > whole:
            whole = small[k]
    return total, best, most, whole, x * best


def within(x: Any) -> Any:
    """A loop within may have no round."""
    count = 0
    for k in range(len(x)):
        last = 0
        for j in range(k):
            last += x[j]
        if last > 1:
            count += 1
    return count, last


def stored(x: Any) -> Any:
    total, y = 0, np.zeros((2, len(x)))
    for k in range(len(x)):
        if x[k] > 1:
            total += x[k]
        y[0, k] = total
        y[1, k] += total - 1
    return y, total


def signless(x: Any) -> Any:
    """Python's 0 has no sign, and NumPy's has."""
    best = 0
    for v in x:
        if v > 1:
            best = v
        best = -best
    return best, np.copysign(1.0, best)


def grown(x: Any) -> Any:
    """Python's int has no end."""
    total = 1
    for v in x:
        if v > 3:
            total = v
        total *= 3
    return total


def large(x: Any) -> Any:
    """Python's int that no float holds."""
    total, least = (1 << 62) - 4, (1 << 53) + 1
    for v in x:
        if v > 7:
            total += v
        least = min(least, v) if v > 9 else least
    return total, least


def of_three_types(x: Any) -> Any:
    """Python's int, Python's float or NumPy's: no truth value tells which of three."""
    last, other = 0.0, -2.5
    for k in range(len(x)):
        last = 0
        if x[k] > 0.5:
            last = float(last)
        if k == 5:
            last += x[k]
        if x[k] > 2:
            other = int(other)
        if x[k] < 2.5:
            other = min(x[k], other * 2)
    return last, other, np.array([other, 0])


def indexed(x: Any) -> Any:
    """Python's int is an index, and NumPy's float is none."""
    place = 0
    for v in x:
        if v > 4:
            place = v
    try:
        return x[place]
    except IndexError as error:
        return str(error)


CAPTURED: list[Callable[[Any], Any]] = [
    sum_of_some,
    greatest,
    drop,
    mean_of_some,
    several,
    of_loops,
    by_a_while,
    back_again,
    in_arrays,
    compared,
    after_branches_that_write,
    by_extremes,
    clamped,
    tuples,
    tuples_of_a_while,
    stepped,
    roots,
    ints,
    from_an_int,
    of_ints,
    of_narrow_types,
    within,
    stored,
]
OTHERS: list[Callable[[Any], Any]] = [
    left_early,
    printed,
    asked,
    listed,
    wide,
    signless,
    grown,
    indexed,
]


def same(have: Any, want: Any) -> bool:
    if isinstance(want, dict):
        have, want = [*have.items()], [*want.items()]
    if isinstance(want, (tuple, list)):
        return type(have) is type(want) and all(map(same, have, want)) and len(have) == len(want)
    alike = type(have) is type(want) and np.shape(have) == np.shape(want)
    return alike and (have == want if type(want) is str else np.allclose(have, want, rtol=1e-12))


@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
@pytest.mark.parametrize(("f", "threads"), part(product([*CAPTURED, *OTHERS], [1, 2]), 3))
def test_values_and_types(f: Callable[[Any], Any], threads: int) -> None:
    g = minicc.jit(f, threads=threads)
    rng = np.random.default_rng(0)
    for data in (rng.normal(size=40) * 2, np.zeros(40), -np.ones(40), np.arange(40.0) / 20):
        assert same(g(data.copy()), f(data.copy())), data
    if f in CAPTURED:
        assert "run by NumPy" not in str(g.explain(data))
        assert any("a loop of the graph" in text for text in g.explain(data).loops)
        for segment in g.lower(data).segments:
            verify(segment.module)
