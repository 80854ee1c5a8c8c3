"""Lists to which some rounds of a captured loop append, as the number of the round says."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.models.test_captured_loops import same
from tests.sweeps import part

import minicc

Function = Callable[..., Any]
WHEN: dict[str, Callable[[int], Any]] = {
    "every tenth": lambda k: k % 10 == 0,
    "odd ones": lambda k: k % 2,
    "not every seventh": lambda k: not k % 7,
    "late ones": lambda k: k > 25 and (k + 1) % 4 == 2,
    "either": lambda k: k < 3 or k % 6 == 5,
    "some": lambda k: k in (3, 8, 39),
    "the last": lambda k: k == 39,
    "none": lambda k: k * k == 7,
}


def means(x: Any, when: Any) -> Any:
    history = []
    for k in range(40):
        x = 0.9 * x + 0.1 * np.roll(x, 1)
        if when(k):
            history.append(x.mean())
    return x, np.array(history), len(history)


def states(x: Any, when: Any) -> Any:
    states, times = [x.copy()], []
    for k in range(40):
        x = x * 0.9 + k
        if when(k):
            states.append(x.copy())
            times.append(k * 0.1)
    return np.array(states), times, states


def pairs(x: Any, when: Any) -> Any:
    found = []
    for k in range(40):
        x = x * 0.9 + k
        if when(k):
            found.append((k, float(x[0]), x * 2))
            found.append((-k, 1.5, x + 1))
    return found


def either(x: Any, when: Any) -> Any:
    found = []
    for k in range(40):
        x = x * 0.9 + k
        if when(k):
            found.append(x.max())
        else:
            found.append(x.min())
            found.append(x[1])
    return np.array(found), found[-1]


def beside_data(x: Any, when: Any) -> Any:
    """What data decide is another thing than how many elements there are."""
    found, all_of_them = [], []
    for k in range(40):
        v = x[k]
        if v > 0:
            v = v * 2
        all_of_them.append(v)
        if when(k):
            found.append(v - 1)
    return found, np.array(all_of_them)


def within(x: Any, when: Any) -> Any:
    rows = []
    for i in range(12):
        for k in range(20):
            x = x * 0.9 + i
            if when(k):
                rows.append(x[0])
    return rows, x


def of_the_loop_around(x: Any, when: Any) -> Any:
    rows = []
    for i in range(12):
        for _ in range(20):
            x = x * 0.9 + i
            if when(i):
                rows.append(x[0])
    return rows, x


def as_data_say(x: Any, when: Any) -> Any:
    found = []
    for k in range(40):
        if when(k) or x[k] > 1:
            found.append(x[k])
    return found


def one_array(x: Any, when: Any) -> Any:
    found = []
    for k in range(40):
        if when(k):
            found.append(x)
        x = x * 0.5
    return found, x


CAPTURED: list[Function] = [means, states, either, beside_data]
OTHERS: list[Function] = [pairs, within, of_the_loop_around, as_data_say, one_array]


@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
@pytest.mark.parametrize(("f", "when"), part(product([*CAPTURED, *OTHERS], WHEN), 4))
def test_elements_of_some_rounds(f: Function, when: str) -> None:
    jitted = minicc.jit(f, threads=1)
    for seed in range(2):
        x = np.random.default_rng(seed).standard_normal(40)
        mine, theirs = x.copy(), x.copy()
        wanted, got = f(theirs, WHEN[when]), jitted(mine, WHEN[when])
        same(wanted, got, 1e-12, 1e-12)
        same(theirs, mine)
    if f in CAPTURED:
        told = jitted.explain().loops
        assert told
        assert all("a loop of the graph" in text for text in told), told
