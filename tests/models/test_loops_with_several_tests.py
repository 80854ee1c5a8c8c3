"""`while` loops that are left by several tests: `while error > tolerance and n < most`, `break`."""

from __future__ import annotations

import contextlib
import copy
import linecache
import random
import sys
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.sweeps import part

import minicc

Function = Callable[..., Any]


def tolerance_first(a: Any, b: Any, least: float, most: int) -> Any:
    x, error, n = np.zeros_like(b), 1.0, 0
    while error > least and n < most:
        new = (b - a @ x) * 0.1 + x
        error = np.abs(new - x).max()
        x = new
        n += 1
    return x, n


def count_first(a: Any, b: Any, least: float, most: int) -> Any:
    x, error, n = np.zeros_like(b), 1.0, 0
    while n < most and error > least:
        new = (b - a @ x) * 0.1 + x
        error = np.abs(new - x).max()
        x = new
        n += 1
    return x, n


def left_in_the_middle(a: Any, b: Any, least: float, most: int) -> Any:
    x, n = np.zeros_like(b), 0
    while n < most:
        new = (b - a @ x) * 0.1 + x
        n += 1
        if np.abs(new - x).max() < least:
            break
        x = new
    return x, n


def left_at_the_end(a: Any, b: Any, least: float, most: int) -> Any:
    x, error, n = np.zeros_like(b), np.inf, 0
    while error > least:
        new = (b - a @ x) * 0.1 + x
        error = np.abs(new - x).max()
        x = new
        n += 1
        if n >= most:
            break
    return x, n


def traced_before(a: Any, b: Any, least: float, most: int) -> Any:
    x, n = b * 0, 0
    rest = b - a @ x
    while np.linalg.norm(rest) > least and n < most:
        x = x + 0.1 * rest
        rest = b - a @ x
        n += 1
    return x, n


def until_done(a: Any, b: Any, least: float, most: int) -> Any:
    x, n, done = np.zeros_like(b), 0, False
    while not done and n < most:
        new = (b - a @ x) * 0.1 + x
        done = np.abs(new - x).max() < least
        x = new
        n += 1
    return x, n


def counted_in_rounds(a: Any, b: Any, least: float, most: int) -> Any:
    x, rounds = np.zeros_like(b), 0  # a name that the capture has a use for, too
    while rounds < most:
        new = (b - a @ x) * 0.1 + x
        if np.abs(new - x).max() < least:
            break
        x = new
        rounds += 1
    return x, rounds


def written_after_the_test(a: Any, b: Any, least: float, most: int) -> Any:
    x, n = b.copy(), 0
    while x[0] < 9 and n < most:
        n += 1
        x = x + 1
        if x[n % 3] > 5:
            break
        x[n % 3] += 2
    return x, n


def returned_in_the_middle(a: Any, b: Any, least: float, most: int) -> Any:
    x, n = np.zeros_like(b), 0
    while n < most:
        new = (b - a @ x) * 0.1 + x
        if np.abs(new - x).max() < least:
            return new, n
        x = new
        n += 1
    return x, -1


def returned_by_each_test(a: Any, b: Any, least: float, most: int) -> Any:
    x, n = np.zeros_like(b), 0
    while True:
        new = (b - a @ x) * 0.1 + x
        if np.abs(new - x).max() < least:
            return new, n
        if n > most:
            return x, -n
        x[n % 3] = new[n % 3]
        x[3:] = new[3:]
        n += 1


def noted_before_it_is_left(a: Any, b: Any, least: float, most: int) -> Any:
    x, n, word = np.zeros_like(b), 0, "long"
    while n < most:
        new = (b - a @ x) * 0.1 + x
        if np.abs(new - x).max() < least:
            word = "short"
            x = new * 2
            break
        x = new
        n += 1
    return x, n, word


ALL: list[Function] = [
    tolerance_first, count_first, left_in_the_middle, left_at_the_end, traced_before, until_done,
    written_after_the_test, returned_in_the_middle, returned_by_each_test,
    noted_before_it_is_left, counted_in_rounds,
]  # fmt: skip


@pytest.mark.parametrize("f", ALL, ids=lambda f: f.__name__)
def test_captured(f: Function) -> None:
    compiled = minicc.jit(f, threads=1)
    rng = np.random.default_rng(0)
    a, b = rng.random((20, 20)) * 0.02 + np.eye(20), rng.random(20)
    for least, most in ((1e-9, 1000), (1e-9, 15), (5.0, 15), (1e-9, 1)):
        want, got = f(a, b, least, most), compiled(a, b, least, most)
        assert type(got[1]) is int
        assert got[1] == want[1]
        np.testing.assert_allclose(got[0], want[0], rtol=1e-9)
        assert got[2:] == want[2:]
    loops = compiled.explain(a, b, 1e-9, 1000).loops
    assert any("a loop of the graph, until its condition ends it" in text for text in loops)


_TESTS = """x.sum() < 40; s < 30; i < n; k < m; x[0] > -3; np.abs(y).max() < 50; t > -20
x[i % 4] < 9; i + k < 15; not (s > 25); flag; x.min() < y.max() + 9"""
_LINES = """x = x + 1; x = x * 0.9 + y; y = np.sin(x) + s; s += x[1]; s = s * 0.5 + 1.5; t -= 0.7
x[i % 4] += 2; x[1:] -= 0.25 * y[:-1]; y = y + k; k += 2; s = float(i); t = x.max(); z = x * 2
y = z + t; x, y = y, x; w = x; z += 1; k = i; flag = s < 28
x = np.where(x > 5, x * 0.5, x + 0.5)"""
_ENDS = """return x, y, s, i, k, t; return x + z, s, i; x += 1; y[0] = 7"""


class Drawn:
    """A function with a loop that tests leave in several places."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.counts_first = self.random.random() < 0.6  # rounds, so that one may end anywhere
        self.is_for = self.random.random() < 0.25

    def pick(self, texts: str) -> str:
        return self.random.choice([t.strip() for t in texts.replace("\n", ";").split(";")])

    def condition(self, depth: int = 0) -> str:
        text = self.pick(_TESTS)
        if depth < 2 and self.random.random() < 0.5:
            join = self.random.choice(["and", "and", "or"])
            text = f"{text} {join} {self.condition(depth + 1)}"
        return f"({text})" if depth and self.random.random() < 0.3 else text

    def lines(self, indent: str, depth: int, count: int) -> list[str]:
        out: list[str] = []
        for _ in range(count):
            chance = self.random.random()
            inner = indent + "    "
            if chance < 0.14:
                out += [f"{indent}if {self.condition(1)}:", *self.lines(inner, depth + 1, 1)]
                if self.random.random() < 0.4:
                    out += [f"{indent}else:", *self.lines(inner, depth + 1, 1)]
            elif chance < 0.26 and depth < 2:
                out += [f"{indent}if {self.condition(1)}:", *self.end(inner)]
            elif chance < 0.31 and not depth:
                out += [f"{indent}for j in range(6):", *self.lines(inner, depth + 1, 1)]
            elif chance < 0.37 and depth < 2:
                j = f"j{depth}"
                head = self.random.choice([f"{j} < 4", f"{j} < 4 and {self.condition(1)}"])
                out += [f"{indent}{j} = 0", f"{indent}while {head}:", f"{inner}{j} += 1"]
                out += self.lines(inner, depth + 1, 2)
            else:
                out.append(indent + self.pick(_LINES))
        return out

    def end(self, indent: str) -> list[str]:
        """How a round ends the loop: where its test leads, too, or elsewhere."""
        ends = ["break", "break", "return x, i, s", "return t", "k = -k; break", "y[1] = 9; break"]
        if self.counts_first or self.is_for:
            ends += ["continue", "continue", "x[2] += 1; continue"]
        return [indent + line for line in self.random.choice(ends).split("; ")]

    def function(self) -> tuple[Function, str]:
        body = self.lines(" " * 8, 0, self.random.randint(2, 4))
        most = self.random.choice(["12", "n + 20", "n * 4"])
        heads = [
            "i < 25 and {}",
            "{} and i < 9 * n",
            "i < n",
            "True",
            "{}",
            "i < n * 5 and {} or i < 3",
        ]
        head = "while " + self.random.choice(heads).format(self.condition())
        if self.is_for:
            head = "for i in range(60)"
        else:
            body.insert(0 if self.counts_first else len(body), "        i += 1")
        start = "    i = 0; k = 1; s = 0.5; t = 1.0; flag = True; z = x * 0; w = x"
        more = self.random.choice([[], ["    s = x.sum()"], ["    t = y[0]"]])
        stop = [f"if i >= {most}: break", f"if i >= {most} and k < 90: break"]
        end = [
            f"        {self.random.choice(stop)}",
            f"    {self.pick(_ENDS)}",
            "    return x, y, w, t, flag",
        ]
        return made([start, *more, f"    {head}:", *body, *end])


def made(lines: list[str]) -> tuple[Function, str]:
    """A function of arrays x and y and numbers n and m with these lines, and its text."""
    text = "\n".join(["def f(x, y, n, m):", *lines])
    name = f"drawn_{zlib.crc32(text.encode())}.py"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    names: dict[str, Any] = {"np": np}
    exec(compile(text, name, "exec"), names)
    return names["f"], text


def same(got: Any, want: Any) -> bool:
    if isinstance(want, (list, tuple)):
        return type(got) is type(want) and all(map(same, got, want))
    if isinstance(want, (str, int)):
        return type(got) is type(want) and bool(got == want)
    a, b = np.asarray(got), np.asarray(want)
    alike = type(got) is type(want) and (a.dtype, a.shape) == (b.dtype, b.shape)
    equal = alike and a.tobytes() == b.tobytes()  # which is sooner known
    return equal or (alike and np.allclose(a, b, rtol=1e-7, atol=1e-9, equal_nan=True))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", part(range(40), 6))
def test_random_loops(seed: int) -> None:
    agree(*Drawn(seed).function(), seed)


def agree(f: Function, text: str, seed: int) -> None:
    """Assert that a function of random arrays does in three calls what NumPy does."""
    compiled, rng = minicc.jit(f, threads=1), np.random.default_rng(seed)
    for call in range(3):
        args: list[Any] = [rng.normal(size=5) * (1 + call), rng.normal(size=5)]
        args += [np.int64(9 - 3 * call), 7]
        theirs, mine = copy.deepcopy(args), copy.deepcopy(args)
        want, got = f(*theirs), compiled(*mine)
        assert same(got, want), text
        assert same(mine, theirs), text


def found(x: Any, v: float) -> Any:
    i = 0
    while x[i] != v:
        i += 1
    return i


def below(x: Any, v: float) -> Any:
    i = 0
    while i < len(x) and x[i] < v:
        i += 1
    return i


def where(x: Any, v: float) -> Any:
    i = 0
    while i < len(x):
        if x[i] == v:
            return i
        i += 1
    return -1


def negated(x: Any, v: float) -> Any:
    i = 0
    while i < len(x):
        if x[i] == v:
            break
        x[i] = -x[i]
        i += 1
    return x, i


def negated_and_returned(x: Any, v: float) -> Any:
    i = 0
    while i < len(x):
        x[i] = -x[i]
        if x[i] == -v:
            return x, i
        i += 1
    return x


def from_the_end(x: Any, v: float) -> Any:
    i = len(x) - 1
    while i >= 0 and x[i] > v:
        i -= 1
    return i


def noted(x: Any, v: float) -> Any:
    seen, n, total = np.zeros(20), 0, 0.0
    while total < 10 * v:
        total += x[n % len(x)]
        seen[n] = total
        n += 1
    return seen, n


def inserted(x: Any, v: float) -> Any:
    for i in range(1, len(x)):
        key, j = x[i], i - 1
        while j >= 0 and x[j] > key:
            x[j + 1] = x[j]
            j -= 1
        x[j + 1] = key
    return x


ALL_COUNTS: list[Function] = [
    found, below, where, negated, negated_and_returned, from_the_end, noted, inserted
]  # fmt: skip


@pytest.mark.parametrize("f", ALL_COUNTS)
def test_counts_as_indices(f: Function) -> None:
    """An index that data lead beyond the array ends the loop, with NumPy's error."""
    compiled, x = minicc.jit(f, threads=1), np.random.default_rng(1).random(40)
    for v in (x[17], 0.0, 2.0, -1.0):
        outcomes = []
        for run in (f, compiled):
            try:
                outcomes.append(run(x.copy(), v))
            except IndexError as error:
                outcomes.append(str(error))
        assert same(outcomes[1], outcomes[0])
    loops = compiled.explain(x.copy(), x[17]).loops
    assert any("a loop of the graph, until its condition ends it" in text for text in loops)


@pytest.mark.parametrize("f", [below, where, negated, negated_and_returned])
def test_no_element_beyond_the_last_is_read(f: Function) -> None:
    """NumPy, which runs the call where an index is out of bounds, is not asked here."""
    compiled, x = minicc.jit(f, threads=1), np.random.default_rng(1).random(40)
    for v in (x[17], 2.0):
        compiled(x.copy(), v)
    calls: list[str] = []
    sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_name))
    try:
        compiled(x.copy(), 2.0)
    finally:
        sys.setprofile(None)
    assert f.__name__ not in calls


def test_a_place_that_a_branch_may_write_to_is_written_in_place() -> None:
    """The array has one copy, before the loop, and none in a round."""
    text = minicc.jit(negated, threads=1).lower(np.zeros(50), 2.0).as_text("program")
    rounds = text[text.index("program.loop") :].partition("} : index")[0]
    assert "scatter" in rounds
    assert "f64[2,50]" not in text


def escaping(x: Any, y: Any) -> Any:
    out = np.zeros(len(x), int)
    for k in range(len(x)):
        a, b, n = 0.0, 0.0, 0
        while n < 30:
            a, b = a * a - b * b + x[k], 2 * a * b + y[k]
            if a * a + b * b > 4:
                out[k] = n
                break
            n += 1
    return out


def sought(x: Any, y: Any) -> Any:
    places = np.zeros(len(y), int)
    for k in range(len(y)):
        places[k] = where(x, y[k])
    return places


def left_in_two_ways(x: Any, y: Any) -> Any:
    t = 0
    while x.max() > 0.1:
        i = 0
        while i < 5:
            x = x * 0.9
            if x[0] < y[i]:
                t += 1
                break
            if x.sum() < 3:
                x = x * 0.5
                break
            i += 1
    return x, t


@pytest.mark.parametrize("f", [escaping, sought, left_in_two_ways])
def test_loops_within_loops_are_left_in_the_middle(f: Function) -> None:
    compiled, rng = minicc.jit(f, threads=1), np.random.default_rng(2)
    for _ in range(3):
        x, y = rng.permutation(20) * 0.1, rng.permutation(20) * 0.1
        assert same(compiled(x, y), f(x, y))
    loops = compiled.explain(x, y).loops
    assert len(loops) == 2
    assert all("a loop of the graph" in text for text in loops)


def grown_on_one_side(x: Any, y: Any) -> Any:
    out = np.zeros(len(x))
    for k in range(len(x)):
        if x[k] > y[0]:
            v, n = x[k], 0
            while v < 100:
                v = v * 1.5
                n += 1
            out[k] = n
        else:
            out[k] = -1
    return out


def endless_on_the_other_side(x: Any, y: Any) -> Any:
    for k in range(len(x)):
        if x[k] > 0:
            while x[k] < 1000:
                x[k] *= 2
    return x


def after_a_branch(x: Any, y: Any) -> Any:
    t = 0
    for k in range(len(x)):
        if x[k] > y[k]:
            t += 1
        v = np.abs(x[k]) + 0.1
        while v < 10:
            v = v * 3
            if v > 7 and k % 2 == 0:
                break
        x[k] = v
    return t, x


def passed_in_turns(x: Any, y: Any) -> Any:
    i, s = 0, 0.0
    while i < len(x):
        if x[i] < y[i]:
            while i < len(x) and x[i] < y[i]:
                i += 1
        else:
            s += x[i]
            i += 1
    return s, i


def damped(x: Any, y: Any) -> Any:
    z = x + 1
    for n in range(50):
        f = z**3 - 2
        if np.max(np.abs(f)) < 1e-10 and n > 2:
            return z, n
        step = f / (3 * z**2)
        while np.max(np.abs(step)) > 0.25:
            step *= 0.5
        z = z - step
    return z, -1


@pytest.mark.parametrize(
    "f",
    [grown_on_one_side, endless_on_the_other_side, after_a_branch, passed_in_turns, damped],
)
def test_loops_in_branches(f: Function) -> None:
    """A loop has no round on a side that is not taken, where it might not end."""
    compiled, rng = minicc.jit(f, threads=1), np.random.default_rng(3)
    for _ in range(3):
        x, y = rng.permutation(30) * 0.1, rng.permutation(30) * 0.1
        mine, theirs = x.copy(), x.copy()
        assert same(compiled(mine, y), f(theirs, y))
        assert same(mine, theirs)
    loops = compiled.explain(x, y).loops
    assert len(loops) in (1, 2)
    assert all("a loop of the graph" in text for text in loops)


def either_of_two(x: Any) -> Any:
    i = 0
    while (i < 25 and x[0] > -3) or x.sum() < 40:
        i += 1
        if i < 3:
            x = np.where(x > 5, x * 0.5, x + 0.5)
        if x[0] > -3:
            break
        if i >= 12:
            break
    return x, i


def test_a_part_of_a_condition_that_leads_to_the_next_one_ends_no_loop() -> None:
    for start in (-3.02, 0.0, 90.0):
        x = np.array([start, 4.0, 6.0])
        assert same(minicc.jit(either_of_two, threads=1)(x.copy()), either_of_two(x.copy()))


def one_or_two(x: Any, n: int) -> Any:
    i, s = 0, x[0] * 0
    while (i < n and s < 50) or s < 3:
        s = s + x[i % 7] ** 2
        i += 1
    return s, i


def one_and_either(x: Any, n: int) -> Any:
    i, s = 0, x[0] * 0
    while s < 3 or (i < n and s < 50):
        s = s + x[i % 7] ** 2
        x[i % 7] += 0.125
        i += 1
    return s, i


def asked_at_times(x: Any, n: int) -> Any:
    s, k = x[0] * 0, 0
    while True:
        s = s + np.abs(x[k % 5])
        k += 1
        if x[k % 7] > 0 and s > n:
            break
    return s, k


def asked_for_at_times(x: Any, n: int) -> Any:
    s, y = x[0] * 0, np.zeros(7)
    for k in range(100):
        s = s + x[k % 5]
        if x[k % 5] > 0:
            y[k % 7] += k
            if s > n:
                break
        else:
            y[3] = s
    else:
        y = -y
    return s, y, k


def passed_over(x: Any, n: int) -> Any:
    i, s = 0, x[0] * 0
    while True:
        i += 1
        if x[i % 7] < 0:
            continue
        s = s + x[i % 7]
        if s > n:
            break
    return s, i


def returned_by_two(x: Any, n: int) -> Any:
    for k in range(200):
        if x[k % 7] < 0:
            x[k % 7] += 1
            if x.sum() > n:
                return x, k, "early"
        elif x[k % 7] > 3 and x[0] > 2:
            return x, -k, "late"
        x[(k + 1) % 7] += 0.25
    return x, 0, "never"


def of_rows(x: Any, n: int) -> Any:
    out = np.zeros(12)
    for row in range(12):
        v, k = x * (row - 4), 0
        while (k < n and v.max() > 1) or k < 3:
            v = v * 0.5
            k += 1
        out[row] = k
    return out


def left_for_two_places(x: Any, n: int) -> Any:
    s = x[0] * 0
    for k in range(100):
        if x[k % 7] > 2:
            return -1.0, k
        s = s + np.abs(x[k % 7])
        if s > n:
            break
    return s, k


def broken_at_two_places(x: Any, n: int) -> Any:
    s = x[0] * 0
    for k in range(100):
        s = s + np.abs(x[k % 7])
        if s > n:
            break
        if x[k % 7] > 1.25:
            x[0] = 9
            break
    else:
        s = -s
    return s, k, x


def of_columns(x: Any, n: int) -> Any:
    out = np.zeros(9)
    for j in range(9):
        for k in range(40):
            if x[k % 7] * j > 3:
                out[j] = -k
                break
            x[k % 7] += 0.01
            if x[(k + j) % 7] > 1.25 and k > n:
                break
        else:
            out[j] = 5
    return out


AT_TIMES: list[Function] = [
    one_or_two, one_and_either, asked_at_times, asked_for_at_times, passed_over, returned_by_two,
    of_rows, left_for_two_places, broken_at_two_places, of_columns,
]  # fmt: skip


@pytest.mark.parametrize("f", AT_TIMES)
def test_tests_that_not_all_rounds_ask(f: Function) -> None:
    """A round may come by no test that leaves the loop."""
    compiled, rng = minicc.jit(f, threads=1), np.random.default_rng(0)
    for n in (20, 6, 40, 0):
        x = rng.standard_normal(7) + 0.25
        theirs, mine = x.copy(), x.copy()
        assert same(compiled(mine, np.int64(n)), f(theirs, np.int64(n)))
        assert same(mine, theirs)
    loops = compiled.explain(x, np.int64(20)).loops
    assert any("a loop of the graph, until its condition ends it" in text for text in loops)
    assert all("a loop of the graph" in text for text in loops)


def listed_before_it_is_left(x: Any, y: Any) -> Any:
    zeros = y * 0
    with contextlib.suppress(KeyError):
        for k in range(7):
            if zeros.any():
                break
            k = [x - i for i in range(10)][-10]
    return k


def test_nothing_that_recordings_made_is_read() -> None:
    x, y = np.ones((2, 2)), np.arange(4).reshape(2, 2)
    got = minicc.jit(listed_before_it_is_left, threads=1)(x, y)
    np.testing.assert_array_equal(got, x)


def raising(a: Any, b: Any, least: float, most: int) -> Any:
    n = 0
    while b[0] > least:
        b *= 0.9
        n += 1
        if n == most:
            raise RuntimeError(f"not after {n}")
        if not b[1] < 1e3:
            raise OverflowError
    return n


@pytest.mark.parametrize("most", [1000, 10])
def test_an_error_is_raised_where_numpy_raises_it(most: int) -> None:
    compiled, outcomes = minicc.jit(raising, threads=1), []
    for run in (raising, compiled):
        a, b = np.eye(3), np.array([1.0, 2.0, 3.0])
        try:
            outcomes.append([run(a, b, 1e-3, most), b])
        except RuntimeError as error:
            outcomes.append([str(error), b])
    assert same(outcomes[1], outcomes[0])
    loops = compiled.explain(np.eye(3), np.ones(3), 1e-3, 1000).loops
    assert any("a loop of the graph, until its condition ends it" in text for text in loops)


def test_a_loop_that_python_knows_to_have_one_round_at_most() -> None:
    """Its first test is known in each round of the loop around it, before and after."""

    def sorted_halves(x: Any) -> Any:
        gap = len(x) // 2
        for i in range(gap, len(x)):
            t, j = x[i], i
            while j >= gap and x[j - gap] > t:
                x[j] = x[j - gap]
                j -= gap
            x[j] = t
        return x, j

    jitted = minicc.jit(sorted_halves, threads=1)
    for seed in range(3):
        x = np.random.default_rng(seed).random(40)
        (got, j), (want, k) = jitted(x.copy()), sorted_halves(x.copy())
        np.testing.assert_array_equal(got, want)
        assert j == k
    (told,) = (text for text in jitted.explain().loops if "20 rounds" in text)
    assert "a loop of the graph" in told
