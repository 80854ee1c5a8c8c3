"""Branches in the bodies of captured loops, which traced conditions decide."""

import re
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import minicc
from minicc.ir import graph
from minicc.ir.core import walk

Function = Callable[..., Any]
CAPTURED: list[Function] = []


def captured(f: Function) -> Function:
    CAPTURED.append(f)
    return f


def same(want: Any, have: Any) -> None:
    """The same structure, types, element types, shapes and numbers."""
    assert type(want) is type(have), (want, have)
    if isinstance(want, tuple):
        for w, h in zip(want, have, strict=True):
            same(w, h)
    else:
        assert np.asarray(want).dtype == np.asarray(have).dtype
        np.testing.assert_allclose(have, want, rtol=1e-12, atol=1e-12)


def compare(f: Function) -> Any:
    """The jitted function, after calls on some data agreed with NumPy's."""
    g = minicc.jit(f, threads=1, math="strict")
    for seed in range(3):
        x = np.round(np.random.default_rng(seed).standard_normal(20) * 4) / 2
        mine, theirs = x.copy(), x.copy()
        same(f(theirs), g(mine))
        same(theirs, mine)
    return g


@captured
def greatest(x: Any) -> Any:
    most, at, negative = x[0], 0, 0
    for k in range(len(x)):
        if x[k] > most:
            most, at = x[k], k
        elif x[k] < 0:
            negative += 1
    return most, at, negative


@captured
def elements(x: Any) -> Any:
    y = np.zeros(20)
    for k in range(20):
        if k % 3 == 0:
            y[k] = x[k]
        else:
            y[k] = x[k] * 2 if x[k] > 0 else 0.5
        if k // 4 > 2 and x[k] > 1:
            y[k] += 1
    return y


@captured
def arrays(x: Any) -> Any:
    for _ in range(20):
        x = x * 0.5 if x.sum() > 1 else x + 0.25
    return x


@captured
def functions_of_python(x: Any) -> Any:
    low = x[0]
    for k in range(1, 20):
        x[k] = max(x[k], x[k - 1]) + min(x[k], 0.5)
        low = min(low, x[k])
    return low


def _step(a: Any, b: Any) -> Any:
    if a > b:
        return a - b
    return 0.5 * b


@captured
def in_a_function(x: Any) -> Any:
    for k in range(1, 20):
        x[k] = _step(x[k], x[k - 1])
    return x.sum()


@captured
def some_rows(x: Any) -> Any:
    table = np.zeros((20, 4))
    for k in range(20):
        if x[k] > 0:
            table[k] = x[:4]
        if x[k] > 1:
            table[k, 1:3] *= 0.5
    return table


@captured
def numbers(x: Any) -> Any:
    t, n = 1.0, 0
    for k in range(20):
        if x[k] > 0:
            t = t * 0.5
            n += k
        else:
            n -= 2
        x[k] = t
    return t, n


@captured
def skipped(x: Any) -> Any:
    s = x[0]
    for k in range(20):
        if x[k] < 0:
            continue
        s = s + x[k]
        x[k] = s
    return s


@captured
def of_two_loops(x: Any) -> Any:
    for i in range(1, 20):
        for j in range(20):
            if x[j] < x[i]:
                x[j] += 0.25
        if i > 10:
            x[i] *= 0.5
    return x[3] + 0


@captured
def flags(x: Any) -> Any:
    found, all_small = False, True
    for k in range(20):
        if x[k] > 2:
            found = True
        if x[k] > 3:
            all_small = False
        if found and k > 3:
            x[k] += found
    return found, all_small


@captured
def sorted_by_swaps(x: Any) -> Any:
    for _ in range(20):
        swapped = False
        for j in range(19):
            if x[j] > x[j + 1]:
                t = x[j]
                x[j] = x[j + 1]
                x[j + 1] = t
                swapped = True
        if not swapped:
            break
    return x + 0


@captured
def in_a_while(x: Any) -> Any:
    s = np.abs(x).sum() + 1
    n = 0
    while s < 100:
        if s > 10:
            s = s * 2
        else:
            s = s + 1
            n += 1
    return s, n


@captured
def periodic(x: Any) -> Any:
    spins = x[:16].reshape(4, 4).copy()
    for _ in range(5):
        for i in range(4):
            for j in range(4):
                near = spins[(i + 1) % 4, j] + spins[i - 1, j] + spins[i, (j + 1) % 4]
                if (near + spins[i, j - 1]) * spins[i, j] < 0.3:
                    spins[i, j] = -spins[i, j]
    return spins


@captured
def places_that_are_computed(x: Any) -> Any:
    table = np.zeros((4, 5))
    for k in range(20):
        table[k // 5, k % 5] = x[(k * k) % 7]
        last = k // 3 + k
        x[k % 6] += last
    return table, last


@captured
def kept_where_no_inner_round_binds(x: Any) -> Any:
    last, flag = float(x[0]), 0
    for i in range(20):
        for k in range(5):
            if i < 7:
                last = 2.5
                x[3] = x[3] * 0.5 + 1
            elif x[k] > 1:
                flag = i
    return last, flag


@captured
def sides_of_one_rest(x: Any) -> Any:
    y, total, n = np.zeros((20, 6)), 0.0, 0
    for i in range(1, 20):
        if x[i] > 0:
            y[i, 2] = max(y[i, 1], x[i])
        elif x[i - 1] < x[i]:
            y[i] += 1
            total += 0.5
        if n % 3 == 1:
            x[i] = y[i - 1, 2] + 1
        else:
            n += 1
        for k in range(1, 6):
            y[i, k] = max(y[i, k], y[i, k - 1] * 0.5 + x[i])
        total += float(y[i].sum())
        n += 2
    return y, total, n


@captured
def five_branches(x: Any) -> Any:
    a = b = c = d = e = 0.0
    for k in range(20):
        if x[k] > 0:
            a += float(x[k])
        if x[k] > 1:
            b = a + 1
        if x[k] < b:
            c += b
        if c > 2:
            d = c - a
        if d < a:
            e += d
        x[k] = a + b + c + d + e
    return a, b, c, d, e


@captured
def much_work(x: Any) -> Any:
    a = np.outer(x, x)
    for k in range(20):
        if k % 10 == 0:
            for _ in range(5):
                a = a @ a * 0.01
        x[k] = a[k, 3]
    return a


@pytest.mark.parametrize("f", CAPTURED)
def test_captured(f: Function) -> None:
    g = compare(f)
    told = g.explain()
    assert all("a loop of the graph" in text for text in told.loops), told.loops
    assert not told.breaks


def _other_types(x: Any) -> Any:
    t: Any = 1
    for k in range(20):
        if x[k] > 0:
            t = x[k]
        elif x[k] < -1:
            t = 0.5
    return t


def _another_name(x: Any) -> Any:
    y = z = x * 1.0
    for k in range(20):
        y = z if x[k] > 0 else x * k
    return y, z


def _nothing(x: Any) -> Any:
    found = None
    for k in range(20):
        if x[k] > 1:
            found = k
    return found is None, x


NOT_CAPTURED = [_other_types, _another_name, _nothing]


@pytest.mark.parametrize("f", NOT_CAPTURED)
@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
def test_what_depends_on_the_side_is_not_captured(f: Function) -> None:
    g = compare(f)
    assert not any(text.endswith("20 rounds, a loop of the graph") for text in g.explain().loops)


def test_an_array_that_may_be_an_argument_is_not_written_to() -> None:
    def f(x: Any) -> Any:
        y = x
        for k in range(20):
            if x[k] > 2.5:
                y = y * 0.5
        y[0] = 7
        return y

    g = minicc.jit(f)
    for most in (1.0, 3.0):
        mine, theirs = np.full(20, most), np.full(20, most)
        if most == 1:
            with pytest.warns(minicc.PerformanceWarning, match="may have bound or not"):
                have = g(mine)
        else:
            have = g(mine)
        same(f(theirs), have)
        same(theirs, mine)


def test_while_loops_that_may_have_no_round() -> None:
    def f(x: Any) -> Any:
        y = x
        while y.sum() > 3:
            y = y * 0.5
        y[0] = 7
        return y

    g = minicc.jit(f)
    with pytest.warns(minicc.PerformanceWarning, match="may have bound or not"):
        g(np.ones(4))
    for size in (1.0, 3.0):
        mine, theirs = np.full(2, size), np.full(2, size)
        with pytest.warns(minicc.PerformanceWarning) if size == 1 else nullcontext():
            have = g(mine)
        same(f(theirs), have)
        same(theirs, mine)


def neighbours(x: Any) -> Any:
    y = np.zeros_like(x)
    for k in range(len(x)):
        y[k] = x[k]
        if k > 0:
            y[k] += x[k - 1]
        if k < len(x) - 1:
            y[k] += x[k + 1] * 2
        last = y[k]
    return y, last, k


def triangle(x: Any) -> Any:
    n = len(x)
    t = np.zeros((n, n))
    for i in range(n - 1, -1, -1):
        for j in range(i, n):
            if i + 1 < n:
                t[i, j] = t[i + 1, j] + x[j]
            if j > 0:
                t[i, j] += t[i, j - 1]
            t[i, j] = max(t[i, j], x[i])
    return t


def largest(x: Any) -> Any:
    total, best, few = x[0] * 0, x[0], 0.5
    for k in range(len(x)):
        total = max(total + x[k], x[k])
        best = max(best, total)
        few = min(few, float(x[k]))
    return best, min(total, best), few


def beyond(x: Any) -> Any:
    for k in range(len(x)):
        x[k] = x[k + 1]
    return x


@pytest.mark.parametrize("f", [neighbours, triangle, largest, beyond], ids=lambda f: f.__name__)
def test_first_and_last_rounds_that_conditions_leave_out(f: Any) -> None:
    compiled = minicc.jit(f, threads=1)
    for n in (20, 20, 31, 40):
        x = np.random.default_rng(n).standard_normal(n)
        outcomes = []
        for g in (f, compiled):
            given = x.copy()
            try:
                outcome = g(given)
            except IndexError as error:
                outcome = str(error)
            outcomes.append(([(type(v), v) for v in outcome], given.tolist()))
        np.testing.assert_equal(outcomes[0], outcomes[1])
    assert f is beyond or "a loop of the graph" in str(compiled.explain())


def test_what_follows_a_branch_is_done_once() -> None:
    module = minicc.jit(sides_of_one_rest).lower(np.ones(20)).module
    loops = [op for op in walk(module.main.body) if isinstance(op, graph.Scan)]
    assert len(loops) == 2, "one around and one within, where three ways lead to it"


def bound_by_rounds_that_may_be_none(x: Any) -> Any:
    for i in range(4, -1, -1):
        for j in range(i):
            last = np.abs(x) + j
    return last, j


def test_a_name_that_a_last_loop_without_rounds_does_not_bind() -> None:
    compare(bound_by_rounds_that_may_be_none)


def found_or_not(x: Any, at: Any) -> Any:
    """Places that lie outside of the array on the side that does not read there."""
    for k in range(len(at)):
        x[k] = x[at[k]] if at[k] < len(x) and x[at[k]] > 0 else -1
    return x


def searched(x: Any, at: Any) -> Any:
    places = np.empty(len(at), int)
    for k, v in enumerate(at):
        low, high = 0, len(x)
        while low < high:
            middle = (low + high) // 2
            if x[middle] < v:
                low = middle + 1
            else:
                high = middle
        places[k] = low if low < len(x) and x[low] == v else -1
    return places


def flipped(x: Any, at: Any) -> Any:
    total = 0.0
    for k in at:
        if k < len(x):
            x[k] = 1 if x[k] * x.sum() >= 0 else -1
        total += x @ x
    return x, total


@pytest.mark.parametrize("f", [found_or_not, searched, flipped], ids=lambda f: f.__name__)
def test_what_fails_on_a_side_alone(f: Callable[..., Any]) -> None:
    """An index is looked at on the side of a branch that is taken, and nowhere else."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.normal(size=30))
    inside, beyond = rng.integers(0, 30, 30), rng.integers(0, 40, 30)
    g = minicc.jit(f, threads=1)
    for at in (inside, beyond, inside):
        theirs, mine = x.copy(), x.copy()
        want, have = f(theirs, at), g(mine, at)
        assert type(have) is type(want)
        for w, h in zip(want, have, strict=True):
            np.testing.assert_allclose(h, w, rtol=1e-12)
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)
    assert "run by NumPy" not in str(g.explain(x.copy(), beyond))


def without_a_guard(x: Any, at: Any) -> Any:
    for k in range(len(at)):
        x[k] = x[at[k]] if x[k] > 0 else -1
    return x


def test_what_fails_on_the_side_that_is_taken() -> None:
    at = np.arange(30)
    g = minicc.jit(without_a_guard, threads=1)
    np.testing.assert_array_equal(g(np.ones(30), at), np.ones(30))
    at[7] = 30
    x = np.ones(30)
    x[7] = -2
    assert g(x.copy(), at)[7] == -1
    with pytest.raises(IndexError, match="index 30 is out of bounds"):
        g(np.ones(30), at)


def test_what_sides_choose_between_lies_as_both_do() -> None:
    def f(x: Any, y: Any) -> Any:
        for v in y:
            turned = (x * 2).T.copy(order="F") if v > 0 else (x * 3).T.copy(order="F")
        return turned

    x, y = np.arange(6.0).reshape(2, 3), np.array([1.0, -1, 2] * 9)
    want, have = f(x, y), minicc.jit(f, threads=1)(x, y)
    np.testing.assert_array_equal(have, want)
    assert have.strides == want.strides


def dithered(image: Any) -> Any:
    """Floyd's and Steinberg's errors: each side of a branch writes and reads other elements."""
    out = image.copy()
    rows, columns = out.shape
    for i in range(rows):
        for j in range(columns):
            old = out[i, j]
            new = 1.0 if old > 0.5 else 0.0
            out[i, j] = new
            error = old - new
            if j + 1 < columns:
                out[i, j + 1] += error * 7 / 16
            if i + 1 < rows:
                if j > 0:
                    out[i + 1, j - 1] += error * 3 / 16
                out[i + 1, j] += error * 5 / 16
                if j + 1 < columns:
                    out[i + 1, j + 1] += error / 16
    return out


def swapped(x: Any) -> Any:
    """What one side reads, the other one has written."""
    y = x.copy()
    for k in range(1, len(x) - 1):
        if y[k] > y[k - 1]:
            y[k] = y[k + 1] * 0.5
            y[k - 1] = y[k] + y[k + 1]
        else:
            y[k + 1] = y[k] - y[k - 1]
            y[k] = y[k + 1] + y[k - 1]
        y[k] += y[k - 1]
    return y


@pytest.mark.parametrize(("f", "shape"), [(dithered, (20, 30)), (swapped, (40,))])
def test_elements_on_both_sides_of_a_branch(f: Function, shape: tuple[int, ...]) -> None:
    """No round of the innermost loop copies an array."""
    jitted = minicc.jit(f, threads=1, math="strict")
    for seed in range(3):
        x = np.random.default_rng(seed).random(shape)
        same(f(x), jitted(x))
    text = jitted.lower(x).as_text("program")
    innermost = text.split("program.loop")[len(shape)].split("yield")[0]
    assert max(map(int, re.findall(r"work = (\d+)", innermost))) < x.size
