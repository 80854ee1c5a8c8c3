"""Lists to which loops append that data end: as long as in NumPy, of the same elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.models.test_captured_loops import same
from tests.models.test_grown_lists import compare

import minicc

Function = Callable[..., Any]
CAPTURED: list[Function] = []
OTHERS: list[Function] = []


@CAPTURED.append
def scalars(x: Any) -> Any:
    s, out = x[0], []
    while abs(s) > 1e-3:
        s = s * 0.7
        out.append(s)
    return s, np.array(out), out, len(out)


@CAPTURED.append
def after_first_ones(x: Any) -> Any:
    s = x[0]
    out = [s, s + 1]
    while abs(s) > 1e-3:
        s = s * 0.7
        out.append(s)
    return np.array(out), out[1], out[-1], out[2], len(out)


@CAPTURED.append
def python_numbers(x: Any) -> Any:
    s, n = float(x[0]), 0
    out, steps = [1.0], []
    while abs(s) > 1e-3:
        s = s * 0.7
        n += 2
        out.append(s)
        steps.append(n)
    return out, steps, sum(out), max(steps), n


@CAPTURED.append
def left_at_the_end(x: Any) -> Any:
    errors, s = [], x[0]
    for _ in range(50):
        new = np.cos(s)
        errors.append(abs(new - s))
        s = new
        if abs(s - np.cos(s)) < 1e-6:
            break
    return s, np.array(errors)


@CAPTURED.append
def left_in_the_middle(x: Any) -> Any:
    norms, v = [np.sqrt(x @ x)], x * 1.0
    for _ in range(len(x)):
        v = v * 0.6
        norms.append(np.sqrt(v @ v))
        if np.sqrt(v @ v) < 0.01:
            break
        v = v + 0.001
    return v, np.array(norms), len(norms)


@CAPTURED.append
def not_in_all_rounds(x: Any) -> Any:
    s, h, times = x[0] * 0, x[1] * 0 + 0.5, []
    while s < 20:
        if h > 0.3:
            h = h * 0.8
        else:
            s = s + h
            times.append(s)
            h = h * 1.3
    return np.array(times), times[-1]


@CAPTURED.append
def several_in_a_round(x: Any) -> Any:
    s, out = x[0], []
    while abs(s) > 1e-3:
        s = s * 0.7
        out.append(s)
        if s > 0.01:
            out.append(-s)
    return out, np.sum(out)


@CAPTURED.append
def tuples(x: Any) -> Any:
    s, n, out = x[0], 0, []
    while abs(s) > 1e-3:
        s = s * 0.7
        n += 1
        out.append((n, s))
    return out, out[-1]


@CAPTURED.append
def copies(x: Any) -> Any:
    v = x[:3] * 1.0
    out = [v.copy()]
    while v @ v > 1e-3:
        v = v * 0.7
        out.append(v.copy())
    return out, np.array(out), v


@CAPTURED.append
def arrays(x: Any) -> Any:
    v, out, more = x[:3] * 1.0, [], []
    while v @ v > 1e-3:
        v = v * 0.7
        out.append(v * 2)
        more.append((v[0], v[1]))
    return np.array(out), np.array(more), v


@CAPTURED.append
def on_one_way_out(x: Any) -> Any:
    s, out = x[0], []
    for v in x:
        if v > 1.5:
            out.append(v)
            break
        s = s * 0.7 + v
        out.append(s)
    return out, len(out)


@CAPTURED.append
def once_more_after_it(x: Any) -> Any:
    s, out = x[0], []
    while abs(s) > 1e-3:
        s = s * 0.7
        out.append(s)
    out.append(s * 2)
    return np.array(out), len(out), out[-1]


@CAPTURED.append
def read_in_a_round(x: Any) -> Any:
    out = [x[0]]
    while abs(out[-1]) > 1e-3:
        out.append(out[-1] * 0.7)
    return out


@OTHERS.append
def under_two_names(x: Any) -> Any:
    s = x[0]
    out: list[Any] = []
    other = out
    while abs(s) > 1e-3:
        s = s * 0.7
        out.append(s)
    return out, other


@CAPTURED.append
def of_an_array_with_a_name(x: Any) -> Any:
    v = x * 1.0
    out = [v]
    w = v * 2
    while w @ w > 1e-3:
        w = w * 0.7
        out.append(w.copy())
    v[0] = 5
    return out, v


@OTHERS.append
def of_arrays_with_a_name(x: Any) -> Any:
    v, out = x * 1.0, []
    while v @ v > 1e-3:
        v = v * 0.7
        out.append(v)
    v[0] = 5
    return out, v


@CAPTURED.append
def of_several_kinds(x: Any) -> Any:
    s = x[0]
    out: list[Any] = [0]
    while abs(s) > 1e-3:
        s = s * 0.7
        out.append(s)
    return out


@OTHERS.append
def written_to_after_a_test(x: Any) -> Any:
    s, out = x[0], []
    for k in range(40):
        s = s * 0.7
        v = x[:2] * s
        out.append((v, k))
        if s < 0.01:
            break
        v[0] = 5
    return out


def data(seed: int, n: int = 30) -> Any:
    return np.random.default_rng(seed).uniform(0.5, 2, n)


@pytest.mark.parametrize("f", CAPTURED, ids=lambda f: f.__name__)
@pytest.mark.usefixtures("however_little")
def test_loops_are_captured(f: Function) -> None:
    told = compare(f, *map(data, range(3))).explain()
    assert told.loops
    assert all("until its condition ends it" in text for text in told.loops), told.loops


NONE = [f for f in CAPTURED if f.__name__ in ("scalars", "several_in_a_round", "copies", "arrays")]


@pytest.mark.parametrize("f", NONE, ids=lambda f: f.__name__)
def test_no_element(f: Function) -> None:
    compare(f, data(0), data(1) * 1e-6, data(2))


@pytest.mark.parametrize("f", OTHERS, ids=lambda f: f.__name__)
@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
def test_what_is_not_known_of_such_lists_is_as_in_numpy(f: Function) -> None:
    told = compare(f, *map(data, range(3))).explain()
    assert not any("until its condition" in text for text in told.loops), told.loops


SIZED = [f for f in CAPTURED if f.__name__ in ("scalars", "left_at_the_end", "copies")]


@pytest.mark.parametrize("f", SIZED, ids=lambda f: f.__name__)
@pytest.mark.usefixtures("however_little")
def test_arrays_of_many_lengths(f: Function) -> None:
    """One program is for all lengths."""
    jitted = compare(f, *[data(n, n) for n in (30, 25, 31, 26, 40, 29)])
    assert any("is a size of at least" in text for text in str(jitted.explain()).splitlines())


def test_numpy_runs_a_call_of_more_rounds_than_there_is_room_for() -> None:
    def f(x: Any) -> Any:
        s, out = x[0], []
        while s < x[1]:
            s = s + 1
            out.append(s)
        return np.array(out), len(out)

    jitted = minicc.jit(f, threads=1)
    for most in 20, 4096, 4097, 10_000, 30:
        x = np.array([0.0, most])
        same(f(x), jitted(x))


def test_there_is_no_room_for_what_a_round_may_not_come_to() -> None:
    def f(x: Any) -> Any:
        v, out = x * 1.0, []
        for _ in range(1_000_000):
            v = v * 0.7
            out.append(v.copy())
            if v @ v < 1e-3:
                break
        return np.array(out)

    jitted = minicc.jit(f, threads=1)
    for seed in range(3):
        x = data(seed, 1000)
        same(f(x), jitted(x), 1e-12, 1e-12)


@pytest.mark.parametrize("last", [-1, 3, 40, -41])
def test_an_element_that_there_is_not(last: int) -> None:
    def f(x: Any) -> Any:
        s, out = x[0], []
        while s > 1e-3:
            s = s * 0.7
            out.append(s)
        return out[last]

    jitted = minicc.jit(f, threads=1)
    for x in data(1), data(2), data(3) * 1e-6:
        try:
            want = f(x)
        except IndexError:
            with pytest.raises(IndexError, match="list index out of range"):
                jitted(x)
        else:
            same(want, jitted(x), 1e-12, 1e-12)


def test_a_list_in_each_round_of_a_loop() -> None:
    def f(x: Any) -> Any:
        total = 0.0
        for k in range(len(x)):
            s, out = x[k], []
            while s > 1e-2:
                s = s * 0.7
                out.append(s)
            total += len(out)
        return total

    jitted = compare(f, *map(data, range(3)))
    assert any("until its condition" in text for text in jitted.explain().loops)


@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
def test_a_loop_that_is_captured_in_the_first_trace_alone() -> None:
    """The second trace begins again twice: as paths differ, and as it writes the loop out."""

    def f(x: Any) -> Any:
        s, n = float(x[0]), 0
        v = x[:3] * 1.0
        before = v
        out = [[s, s + 1]]
        while s * s > 0.05 and n < 30:
            n += 1
            if abs(s) < 0.05:
                out.append([s, s + 1])
                break
            s = s * 0.7
            before = before + v
            out.append([s, s + 1])
            v[n % 3] = s
        return before, out[-1] if out else 0, n, s, v

    draw = np.random.default_rng(20137)
    jitted = minicc.jit(f, threads=1)
    for _ in range(3):
        x = draw.standard_normal(40) + 0.5
        same(f(x), jitted(x), 1e-12, 1e-12)
        draw.random(4)
