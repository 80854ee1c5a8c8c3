"""Names that may show one array after a loop: what is written to one is seen by the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minicc

Function = Callable[..., Any]
FUNCTIONS: list[Function] = []


@FUNCTIONS.append
def where_no_round_is(x: Any) -> Any:
    y = x * 2
    v = y
    while v[0] > 2:
        v = v * 0.5
    y[0] = 9
    return v, y


@FUNCTIONS.append
def where_no_round_is_of_an_argument(x: Any) -> Any:
    v, n = x, 0
    while v[0] > 1:
        v = v * 0.5
        n += 1
    return v, n


@FUNCTIONS.append
def the_argument_is_written_to(x: Any) -> Any:
    v = x
    while v[0] > 1:
        v = v * 0.5
    x[1] = 9
    return v


@FUNCTIONS.append
def as_a_condition_decides(x: Any) -> Any:
    y = x * 2
    v = y
    for i in range(len(x)):
        if x[i] > 2:
            v = v * 0.5
    y[0] = 9
    return v, y


@FUNCTIONS.append
def an_argument_as_a_condition_decides(x: Any) -> Any:
    v = x
    for i in range(len(x)):
        if x[i] > 2:
            v = v * 0.5
    return v


@FUNCTIONS.append
def written_to_in_a_later_loop(x: Any) -> Any:
    y = x * 1
    best, m = y, 0.0
    for i in range(6):
        d = x * i
        if d[0] > m + 3:
            m, best = d[0], d
    for i in range(5):
        y[i] = 50
    return best


@FUNCTIONS.append
def after_two_rounds(x: Any) -> Any:
    w = x * 2
    v, z, s = w, w * 1, x[0]
    while s > 1.6:
        z = v
        v = v * 2
        s = s * 0.5
    w[0] = 9
    return v, w, z


@FUNCTIONS.append
def left_in_the_middle(x: Any) -> Any:
    v = x
    for _ in range(10):
        new = v * 0.5
        if new[0] < 0.3:
            break
        v = new
    return v


@FUNCTIONS.append
def left_by_one_of_two_tests(x: Any) -> Any:
    y = x * 2
    v, s = y, x[0]
    while s > 0.01:
        if s < 1:
            break
        v = v * 0.5
        s = s * 0.3
    y[0] = 9
    return v, s


@FUNCTIONS.append
def two_that_share_at_the_end_of_a_round(x: Any) -> Any:
    a, b = x * 2, x + 1
    for _ in range(30):
        if a[0] < 0.3:
            break
        b = a * 0.5
        a = b
    a *= 2
    return b, a


@FUNCTIONS.append
def two_that_share_without_a_round(x: Any) -> Any:
    a = x * 1.0
    d, s = a, x[0]
    while s > 2:
        d = a * 0.5
        a = d + a
        s = s * 0.7
    return d, a


@FUNCTIONS.append
def a_view(x: Any) -> Any:
    y = x * 2
    v = y[1:]
    while v[0] > 2:
        v = v * 0.5
    y[1] = 9
    return v, y


@FUNCTIONS.append
def a_view_that_is_written_to(x: Any) -> Any:
    s, y, c = x[0] * 0 + 0.25, x * 2, x[None][0]
    while s > 0.3:
        c = y - 0.1
    for _ in range(12):
        if s < 0.2:
            break
        b = c
    np.add(b, 1, out=b)
    return y


@FUNCTIONS.append
def a_loop_within(x: Any) -> Any:
    y = x * 2
    v = y
    for i in range(3):
        s = x[i]
        while s > 2:
            v = v * 0.5
            s = s - 1
    y[0] = 9
    return v, y


def told(f: Function, x: Any) -> Any:
    result = f(x)
    arrays = [v for v in (result if isinstance(result, tuple) else (result,)) if np.ndim(v)] + [x]
    shared = (
        [[a is b for a in arrays] for b in arrays],
        [[np.shares_memory(a, b) for a in arrays] for b in arrays],
    )
    return arrays, shared


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
def test_writes_reach_all_names(f: Function) -> None:
    jitted = minicc.jit(f, threads=1)
    for start in 5.0, 0.1, 3.0, 0.1, 1.7:
        x = np.arange(5.0) / 10 + start
        want, have = told(f, x.copy()), told(jitted, x.copy())
        assert have[1] == want[1]
        for a, b in zip(want[0], have[0], strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-12)


SURE = {
    "where_no_round_is", "where_no_round_is_of_an_argument", "the_argument_is_written_to",
    "as_a_condition_decides", "an_argument_as_a_condition_decides", "left_in_the_middle",
    "left_by_one_of_two_tests", "a_loop_within",
}  # fmt: skip


@pytest.mark.parametrize(
    "f", [f for f in FUNCTIONS if f.__name__ in SURE], ids=lambda f: f.__name__
)
def test_a_program_that_is_sure_of_its_names(f: Function) -> None:
    """It tells whether a round has bound them, and its loops are captured."""
    jitted = minicc.jit(f, threads=1)
    for start in 5.0, 3.0:
        x = np.arange(5.0) + start
        for a, b in zip(told(f, x.copy())[0], told(jitted, x.copy())[0], strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-12)
    loops = jitted.explain().loops
    assert loops
    assert all("a loop of the graph" in text for text in loops), loops
