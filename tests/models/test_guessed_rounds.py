"""What a loop's code says that each round does, with which its recording begins."""

from __future__ import annotations

import copy
import dis
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.models.test_captured_loops import same

import minicc
from minicc.frontends.trace.loops.capture import Capture
from minicc.frontends.trace.loops.code import loop_at
from minicc.frontends.trace.loops.surely import Surely

Function = Callable[..., Any]


def first_loop(f: Function) -> Surely:
    starts = (s.offset for s in dis.get_instructions(f) if s.opname == "GET_ITER")
    loop = loop_at(f.__code__, next(starts), called=False)
    assert loop is not None
    return loop.surely


def test_what_each_round_does() -> None:
    def f(a: Any, b: Any, c: Any, d: Any, e: Any, s: Any, flag: bool) -> Any:
        k = n = m = u = 0
        for i in range(9):
            a[i] = b[i]
            b[i] += 2
            c += a
            s = s + 1
            k += 2
            m = m - 3
            if flag:
                n += 1
                d[0] = 1
                u = 1
            else:
                d[1] = 2
                u = 2
            for _ in range(i):
                e[1:2] = 0
                w = e[2:]
                w[0] = 1
                n += 1
        return k, n, m, u

    does = first_loop(f)
    assert does.bound == {"i", "s", "m", "u", "w", "_"}
    assert does.written == {"a", "b", "d", "e"}
    assert does.updated == {"c", "k", "n"}
    assert set(does.counted) == {("s", 1), ("k", 2), ("m", -3)}


# What is guessed of these is right, so that a round is recorded once.


def filled(a: Any, b: Any) -> Any:
    for i in range(1, len(a)):
        a[i] += b[i] * a[i - 1]
    return a


def bound(a: Any, b: Any) -> Any:
    for _ in range(9):
        a = np.sin(a) + b
    return a


def updated(a: Any, b: Any) -> Any:
    for i in range(9):
        a += b * i
        b *= 1.25
    return a.sum() + b


def counted(a: Any, b: Any) -> Any:
    k = 0
    for i in range(9):
        a[k] = b[i]
        k += 1
    return a, k


def halved(a: Any) -> None:
    a *= 0.5


def until(a: Any, b: Any) -> Any:
    change = 1.0
    n = 0
    while change > 1e-3:
        before = a.copy()
        halved(a)
        change = np.abs(a - before).sum()
        n += 1
    return a + b, n


# Here something is guessed that is wrong.


def itself(a: Any, b: Any) -> Any:
    for i in range(9):
        a = a if i >= 0 else b
        b[i] = a[i]
    return a, b


def nothing_within(a: Any, b: Any) -> Any:
    k = 0
    for i in range(9):
        for _ in range(0):
            a[i] = b[i]
            k = k + 1
        b[i] = a[0] + k
    return a, b, k


def more_within(a: Any, b: Any) -> Any:
    k = 0
    for _ in range(4):
        for j in range(2):
            k += 1
            a[k] = b[j]
    return a, k


def two_names(a: Any, b: Any) -> Any:
    c = a
    for i in range(8):
        a[i] = b[i] + c[i + 1]
        c = a
    return a, c


def another_array(a: Any, b: Any) -> Any:
    for i in range(9):
        a = b * i
        a[i] = 1
    return a, b


def a_scalar_and_an_array(a: Any, b: Any) -> Any:
    s = a.sum()
    t = np.array(a.sum())
    u = t
    for i in range(9):
        s += b[i]
        t += b[i]
    return s, t, u


def written_before(a: Any, b: Any) -> Any:
    s = a.sum()
    while s < 50:
        a[:] = a + 1
        s = s + a[0]
    n = 0
    while s < 100:
        s = s + a[1]
        b += s
        n += 1
    return a, b, s, n


ONCE = [filled, bound, updated, counted]
WRONG = [itself, nothing_within, more_within, two_names, another_array, a_scalar_and_an_array]


@pytest.mark.parametrize("f", [*ONCE, until, *WRONG, written_before], ids=lambda f: f.__name__)
def test_as_numpy(f: Function) -> None:
    rng = np.random.default_rng(5)
    jitted = minicc.jit(f)
    for _ in range(3):
        given = [rng.random(9), rng.random(9)]
        theirs, ours = copy.deepcopy(given), copy.deepcopy(given)
        theirs.append(f(*theirs))
        ours.append(jitted(*ours))
        same(theirs, ours, rtol=1e-12, atol=0)


@pytest.mark.parametrize("f", ONCE, ids=lambda f: f.__name__)
def test_a_round_is_recorded_once(f: Function, monkeypatch: pytest.MonkeyPatch) -> None:
    begin, begun = Capture.begin, []

    def noted(capture: Capture) -> Any:
        begun.append(capture)
        return begin(capture)

    monkeypatch.setattr(Capture, "begin", noted)
    minicc.jit(f)(np.ones(9), np.ones(9))
    assert len(begun) == 1
