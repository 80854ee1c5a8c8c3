"""`while` loops of traced functions: captured or run round by round, they do what NumPy does."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.models.test_captured_loops import same as nearly_same

import minicc
from minicc.ir import graph
from minicc.ir.core import walk

Function = Callable[..., Any]


def same(want: Any, have: Any) -> None:
    """The same but for the last digits of float64."""
    nearly_same(want, have, rtol=1e-9, atol=1e-12)


def compare(f: Function, *args: Any) -> Any:
    """The jitted function, after calls on some data agreed with NumPy's."""
    g = minicc.jit(f, threads=1, math="strict")
    for scale in (1.0, 0.5, 0.0, 3.0):
        mine, theirs = [a * scale for a in args], [a * scale for a in args]
        with np.errstate(all="ignore"):
            same(f(*theirs), g(*mine))
        same(theirs, mine)
    return g


def whiles(g: Any, *args: Any) -> int:
    """How many loops that a condition ends are in the only graph of a function."""
    module = g.lower(*args).module
    return sum(isinstance(op, graph.While) for f in module.functions for op in walk(f.body))


CAPTURED: list[Function] = []


def captured(f: Function) -> Function:
    CAPTURED.append(f)
    return f


@captured
def halves(x: Any) -> Any:
    n = 3
    while np.abs(x).max() > 1:
        x = x / 2
        n += 2
    return x, n


@captured
def in_place(x: Any) -> Any:
    rounds = 0
    while x.sum() > 1:
        x *= 0.5
        x[1] += 0.25
        rounds += 1
    return rounds


@captured
def left_by_break(x: Any) -> Any:
    while True:
        x = x * 0.5
        if not x.max() > 0.01:
            break
    return x


@captured
def conjugate_gradients(b: Any) -> Any:
    A = 3 * np.eye(len(b)) + 1
    x = np.zeros_like(b)
    r = b - A @ x
    p = r.copy()
    rr = r @ r
    k = 0
    while np.sqrt(rr) > 1e-8:
        Ap = A @ p
        alpha = rr / (p @ Ap)
        x += alpha * p
        r -= alpha * Ap
        new = r @ r
        p = r + new / rr * p
        rr = new
        k += 1
    return x, k


@captured
def rounds_that_settle(x: Any) -> Any:
    change = 1.0
    while change > 1e-6:
        y = np.sqrt(x + 1)
        change = np.abs(y - x).max()
        x = y
    return x, change


@captured
def within_rounds_of_a_for(x: Any) -> Any:
    out = np.zeros(len(x))
    for k in range(len(x)):
        t = x[k]
        while t > 0.5:
            t = t * 0.7
        out[k] = t
    return out


@captured
def with_a_for_inside(x: Any) -> Any:
    while x[0] > 1:
        for k in range(1, len(x)):
            x[k] = 0.5 * x[k - 1] + x[k]
        x *= 0.125
    return x.copy()


@captured
def within_a_while(x: Any) -> Any:
    n = 0
    s = x[1]
    while x[0] > 0.1:
        while s > x[0]:
            s = s * 0.5
            n += 1
        x = x * 0.5
    return x, s, n


@captured
def flags(x: Any) -> Any:
    done = False
    while not done:
        x = x * 0.5
        done = x.max() < 0.1
    return x, done


@captured
def a_for_that_breaks(x: Any) -> Any:
    for k in range(100):  # noqa: B007
        y = np.sqrt(x + 1)
        change = np.abs(y - x).max()
        x = y
        if change < 1e-6:
            break
    return x, k, change


@captured
def a_for_that_breaks_in_a_for(x: Any) -> Any:
    out = np.zeros((6, len(x)))
    for i in range(6):
        y = x + i
        for _ in range(20):
            y = y * 0.5
            if y.max() < 0.3:
                break
        out[i] = y
    return out


@captured
def points_that_escape(x: Any) -> Any:
    out = np.zeros((6, 5), np.int64)
    for i in range(6):
        for j in range(5):
            a = b = x[0] * 0
            n = 0
            for _ in range(30):
                a, b = a * a - b * b + (j - 3) * 0.5, 2 * a * b + (i - 3) * 0.4
                if a * a + b * b > 4:
                    break
                n += 1
            out[i, j] = n
    return out


def norms_that_settle(x: Any) -> Any:
    a = np.outer(x, x) + np.eye(len(x))
    norm: Any = 0.0
    v = np.ones(len(x))
    for k in range(500):  # noqa: B007
        w = a @ v
        new = np.linalg.norm(w)
        w /= new
        if abs(new - norm) < 1e-12:
            break
        norm = new
        v = w
    return v, norm, k


def test_types_that_settle_after_a_round() -> None:
    g = compare(norms_that_settle, np.array([2.0, 7.0, 1.0, 5.0]))
    assert "a loop of the graph" in str(g.explain())


@captured
def rows_until_one_is_negative(x: Any) -> Any:
    s = 0.0
    for k, v in enumerate(np.linspace(3, -3, 12) * x[0] + x[1]):  # noqa: B007
        s = s + v * v
        if s > 30:
            break
    return s, k, x[1] * 2


@pytest.mark.parametrize("f", CAPTURED)
def test_captured(f: Function) -> None:
    x = np.array([2.0, 7.0, 1.0, 5.0])
    g = compare(f, x)
    if f is not flags:
        assert not g.explain().breaks
        assert whiles(g, x) == 1 + (f is within_a_while)


def test_no_round_leaves_what_was_before() -> None:
    def f(x: Any) -> Any:
        y = last = x
        while x.sum() > 1:
            y = x * 3
            x = x * 0.5
            last = y
        return x, y, last

    compare(f, np.array([1.0, 2.0]))


def left_in_the_middle(x: Any) -> Any:
    n = 0
    for k in range(50):  # noqa: B007
        x = x * 0.5
        n += 2
        if x.sum() < 1e-3:
            x = x - 1
            break
        x = x + 1e-5
    else:
        return x, -1, n
    return x, k, n


def returned(x: Any) -> Any:
    for k in range(4):
        if x[k] > 2:
            return k
    return None


def raises(x: Any) -> Any:
    for k in range(4):
        x[k] += 1
        if x[k] > 2.5:
            raise ValueError("too much")
    return x


@pytest.mark.parametrize("f", [left_in_the_middle, returned, raises])
@pytest.mark.parametrize("scale", [1.0, 0.5, 0.0, 1e20])
def test_how_a_for_is_left(f: Function, scale: float) -> None:
    g = minicc.jit(f, threads=1, math="strict")
    for _ in range(2):
        mine, theirs = np.array([1.0, 2.0, 3.0, 4.0]) * scale, np.array([1.0, 2, 3, 4]) * scale
        try:
            want = f(theirs)
        except ValueError:
            with pytest.raises(ValueError, match="too much"):
                g(mine)
        else:
            same(want, g(mine))
        same(theirs, mine)
    assert f is raises or "a loop of the graph" in str(g.explain())


def test_a_name_that_only_rounds_bind() -> None:
    def f(x: Any) -> Any:
        while x.sum() > 1:
            y = x * 3
            x = x * 0.5
        return x, y

    g = minicc.jit(f)
    same(f(np.ones(3)), g(np.ones(3)))
    with pytest.raises(UnboundLocalError):
        g(np.zeros(3))


def test_views_and_other_names_of_what_rounds_write_to() -> None:
    def f(x: Any) -> Any:
        y, v = x, x[1:]
        while x[0] < 5:
            x += 1
            v *= 1.5
            y[2:] -= 0.25
        return y, v

    compare(f, np.array([1.0, 2.0, 3.0]))


@pytest.mark.parametrize("why", ["appends", "prints", "swaps", "returns", "chooses"])
def test_run_round_by_round(why: str, capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        seen = []
        a, b = x, x + 1
        n = 0
        while a.sum() + b.sum() > 1:
            a, b = a * 0.5, b * 0.5
            n += 1
            if why == "appends":
                seen.append(n)
            if why == "prints":
                print(n)
            if why == "swaps":
                a, b = b, a
                b[0] += 0.001
            if why == "returns" and n == 3:
                return "early"
            if why == "chooses" and a[0] > 0.25:
                a[1] = 0
        return a, b, n, seen

    g = minicc.jit(f)
    for _ in range(2):
        want = f(np.ones(3))
        out = capsys.readouterr().out
        have = g(np.ones(3))
        assert capsys.readouterr().out == out
        assert type(want) is type(have)
        if isinstance(want, tuple):
            same(want, have)


def test_numbers_that_end_a_loop() -> None:
    def f(x: Any) -> Any:
        t = float(x[0])
        n = 0
        while t > 1:
            t = t * 0.5
            n += 1
        return t, n, x * n

    compare(f, np.array([9.0, 1.0]))


def test_what_explain_says() -> None:
    g = minicc.jit(halves)
    g(np.full(3, 9.0))
    assert "a loop of the graph, until its condition ends it" in str(g.explain())
