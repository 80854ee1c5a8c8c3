"""`while` loops whose first test Python knows: `lo, hi = 0, len(a); while lo < hi: ...`."""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.models.test_loops_with_several_tests import Function, agree, made, same
from tests.sweeps import part

import minicc

Case = tuple[Function, Callable[[np.random.Generator], list[Any]]]
CAPTURED: list[Case] = []
RIGHT: list[Case] = []


def case(
    cases: list[Case], draw: Callable[[np.random.Generator], list[Any]]
) -> Callable[[Function], Function]:
    def add(f: Function) -> Function:
        cases.append((f, draw))
        return f

    return add


def one(rng: np.random.Generator) -> list[Any]:
    return [rng.normal(size=6) * 3]


def two(rng: np.random.Generator) -> list[Any]:
    return [rng.normal(size=5) * 3, rng.normal(size=6)]


@case(CAPTURED, lambda rng: [np.sort(rng.random(50)), rng.random()])
def bisected(a: Any, v: float) -> Any:
    lo, hi = 0, len(a)
    while lo < hi:
        mid = (lo + hi) // 2
        if a[mid] < v:
            lo = mid + 1
        else:
            hi = mid
    return lo


@case(CAPTURED, lambda rng: [np.sort(rng.random(33)), rng.random(9)])
def bisected_for_many(a: Any, values: Any) -> Any:
    found = np.empty(len(values), int)
    for k in range(len(values)):
        lo, hi = 0, len(a) - 1
        while hi - lo > 1:
            mid = (lo + hi) // 2
            if values[k] < a[mid]:
                hi = mid
            else:
                lo = mid
        found[k] = lo
    return found


@case(CAPTURED, lambda rng: [np.sort(rng.random(12)), np.sort(rng.random(17))])
def merged(a: Any, b: Any) -> Any:
    out = np.empty(len(a) + len(b))
    i = j = k = 0
    while i < len(a) and j < len(b):
        if a[i] <= b[j]:
            out[k] = a[i]
            i += 1
        else:
            out[k] = b[j]
            j += 1
        k += 1
    while i < len(a):
        out[k] = a[i]
        i += 1
        k += 1
    while j < len(b):
        out[k] = b[j]
        j += 1
        k += 1
    return out


@case(CAPTURED, lambda rng: [np.sort(rng.integers(0, 40, 30)), 40])
def pairs(a: Any, wanted: int) -> Any:
    lo, hi, n = 0, len(a) - 1, 0
    while lo < hi:
        total = a[lo] + a[hi]
        if total > wanted:
            hi -= 1
        elif total < wanted:
            lo += 1
        else:
            n += 1
            lo += 1
            hi -= 1
    return n


@case(CAPTURED, lambda rng: [rng.random(40)])
def sifted(h: Any) -> Any:
    h, i, n = h.copy(), 0, len(h)
    while 2 * i + 1 < n:
        c = 2 * i + 1
        if c + 1 < n and h[c + 1] < h[c]:
            c += 1
        if h[i] <= h[c]:
            break
        h[i], h[c] = h[c], h[i]
        i = c
    return h, i


@case(CAPTURED, lambda rng: [rng.random(300)])
def by_a_counter(x: Any) -> Any:
    y, i = np.zeros(len(x)), 0
    while i < len(x):
        y[i] = x[i] * 2 + y[i - 1] * 0.5
        i += 1
    return y, i


@case(CAPTURED, lambda rng: [rng.random(25)])
def ordered(x: Any) -> Any:
    i = 1
    while i < len(x):
        j = i
        while j > 0 and x[j - 1] > x[j]:
            x[j - 1], x[j] = x[j], x[j - 1]
            j -= 1
        i += 1
    return x


@case(CAPTURED, lambda rng: [rng.random(4) * 10])
def halved_interval(x: Any) -> Any:
    lo, hi = 0.0, 4.0
    while hi - lo > 1e-9:
        mid = 0.5 * (lo + hi)
        if mid * mid * mid - x.sum() > 0:
            hi = mid
        else:
            lo = mid
    return lo, hi


@case(CAPTURED, lambda rng: [rng.normal(size=30) * 3])
def until_found(x: Any) -> Any:
    done, k = False, 0
    while not done:
        done = bool(x[k % 30] > 2 or k > 40)
        k += 1
    return k


@case(CAPTURED, lambda rng: [rng.normal(size=30) * 3])
def until_noted(x: Any) -> Any:
    done, k = False, 0
    while not done:
        x = x * 0.5
        k += 1
        if np.abs(x).max() < 1e-3:
            done = True
    return x, k


@case(CAPTURED, lambda rng: [rng.random((30, 30)) < 0.08])
def breadth_first(joined: Any) -> Any:
    n = len(joined)
    far, queue = np.full(n, -1), np.zeros(n, int)
    far[0], first, last = 0, 0, 1
    while first < last:
        u = queue[first]
        first += 1
        for v in range(n):
            if joined[u, v] and far[v] < 0:
                far[v] = far[u] + 1
                queue[last] = v
                last += 1
    return far, last


@case(RIGHT, one)
def left_before_it_is_asked_again(x: Any) -> Any:
    w, k = x * 0, 1
    for _ in range(6):
        lo, hi = 0, 5
        while hi - lo > 1:
            k = k * 2
            if x[lo % 5] < 0.5:
                break
            hi = 1
        w = w + k
    return w


@case(RIGHT, one)
def left_in_each_round(x: Any) -> Any:
    n = 0
    for _ in range(6):
        hi = 5
        while hi > 1:
            if x[0] < 0.5:
                break
            hi = 1
            x[n] += 1
        n += 1
    return n, x


@case(RIGHT, one)
def left_within_a_while(x: Any) -> Any:
    n = 0
    while n < 5:
        hi = 5
        while hi > 1:
            if x[0] < 0.5:
                break
            hi = 1
        n += 1
        x[n] = n
    return x


@case(RIGHT, two)
def left_at_its_first_test(x: Any, y: Any) -> Any:
    for q in range(6):
        if q > 40:
            break
        while q > 0 and x[q % 5] < y[(q - 1) % 5]:
            x[q % 5] += 1.5
            q -= 1
    return x


@case(RIGHT, one)
def left_by_what_it_binds(x: Any) -> Any:
    for h in range(6):
        n = x[h]
        while n > 0:
            x[h] += 1
            n = 0
    return x


@case(RIGHT, one)
def left_in_each_call(x: Any) -> Any:
    def small() -> int:
        hi = 5
        while hi > 1:
            if x[0] < 0.5:
                return 7
            hi = 1
        return hi

    return small() + small() * 10 + small() * 100, x + small()


@case(RIGHT, one)
def asked_in_calls_within(x: Any) -> Any:
    def depth(k: int) -> Any:
        n = 0
        while x[k] > n:
            n += 1
            if k < 2:
                depth(k + 1)
            x[k] -= 1
        return n

    return depth(0), x


@case(RIGHT, one)
def bound_in_no_round(x: Any) -> Any:
    z, w, v = 0.5, x * 0, x
    for h in range(6):
        while x[h] > 0:
            z = float(h) + 1.5
            w = x * h + 1
            if x[h] > 1:
                v = x * h
            x[h] -= 1
    return z, w, v


@case(RIGHT, two)
def bound_alike_at_the_last_test(x: Any, y: Any) -> Any:
    lo = g = 0
    while g < 7:
        g += 1
        if g > 5:
            break
        lo = 2
        if y[g % 5] < -4:
            break
        lo += 1
    return lo, g


@case(RIGHT, one)
def between(x: Any) -> Any:
    n = 0
    while True:
        n += 1
        if n > 5 or (0 < x[0] < 1):
            break
    while -1 < x[n % 6] < 2 and n < 40:
        n += 1
    return n


@case(RIGHT, two)
def floats_of_either_kind(x: Any, y: Any) -> Any:
    i, s, t, error = 0, 0.5, 0.0, 1.0
    while i != 6:
        t += 0.125
        if t > 0.5:
            error = abs(s) / 50
        elif s > 2:
            i += 1
        else:
            s = s * 0.5 + y[0]
        if t > 3 or x[0] > 3:
            break
    return error


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("f", "draw", "captured"),
    [(*c, True) for c in CAPTURED] + [(*c, False) for c in RIGHT],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_as_numpy(f: Function, draw: Any, captured: bool) -> None:
    for seed in (0, 1, 5):  # with the data of others last, NumPy runs one that is only right
        compiled, rng = minicc.jit(f, threads=1), np.random.default_rng(seed)
        for _ in range(3):
            args = draw(rng)
            theirs, mine = copy.deepcopy(args), copy.deepcopy(args)
            want, got = f(*theirs), compiled(*mine)
            assert same(got, want)
            assert same(mine, theirs)
    text = str(compiled.explain(*args))
    assert "run by NumPy" not in text
    if captured:
        assert "a loop of the graph, until its condition ends it" in text
        assert "round by round" not in text


def test_a_debugger_still_sees_lines() -> None:
    """Python's trace function is as it was after a trace, and called within."""
    seen: set[str] = set()

    def tracer(frame: Any, event: str, argument: object) -> Any:
        seen.add(frame.f_code.co_name)
        return tracer

    a = np.sort(np.random.default_rng(0).random(30))
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        found = minicc.jit(bisected_for_many, threads=1)(a, a[3:5])
        after = sys.gettrace()
    finally:
        sys.settrace(before)
    assert found.tolist() == [3, 4]
    assert after is tracer
    assert "bisected_for_many" in seen


_TESTS = """lo < hi; i < n; i < len(x); hi - lo > 1; j > 0; k <= 9; not done; 2 * i + 1 < n; i != 6
k * k < 40; t < 1.0; i < len(x) and j > 0; lo <= hi; j; s < 40; x[i % 5] < 9; lo + 1 < hi"""
_ASKED = """x[i % 5] > y[lo % 5]; x[lo % 5] < s; s > 2; y[hi % 5] < 0.3; i % 2 == 0; k > 3; done
x.sum() > y.sum(); t > 0.5; lo > 2; y[k % 5] > 0 and x[0] < 3"""
_LINES = """i += 1; lo += 1; hi -= 1; lo = mid + 1; hi = mid; lo = mid; mid = (lo + hi) // 2; k += 2
k = k * 2; k = 2 * k + 1; j -= 1; j = i; s += x[i % 5]; s = s * 0.5 + y[lo % 5]; s += 1.5; t += 0.1
x[i % 5] += 1; y[lo % 5] = s; x[lo % 5], x[hi % 5] = x[hi % 5], x[lo % 5]; x = x * 0.9 + y
t = abs(s) / 50; done = s > 20; done = x[0] > 3; w = w + x; c += 1; c = lo; z = float(i)
s = float(k); out[i % 5] = c; b = x[:3]; x, y = y, x"""
_ENDS = """return x, y, s, i, k, lo, hi, out, w; return x + w, s, lo, c, done, out
return x, y, j, t, mid; y[0] = 7; return x, y, i, z, out, b"""


class _Known:
    """A function with loops whose first tests Python knows, one within another or alone."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def pick(self, texts: str) -> str:
        return self.random.choice([t.strip() for t in texts.replace("\n", ";").split(";")])

    def lines(self, indent: str, depth: int, count: int) -> list[str]:
        out: list[str] = []
        inner = indent + "    "
        for _ in range(count):
            chance = self.random.random()
            asked = f"{indent}if {self.pick(_ASKED)}:"
            if chance < 0.3:
                out += [asked, *self.lines(inner, depth + 1, self.random.randint(1, 2))]
                if self.random.random() < 0.6:
                    out += [f"{indent}else:", *self.lines(inner, depth + 1, 1)]
            elif chance < 0.4 and depth < 2:
                out += [asked, inner + self.random.choice(["break", "break", "continue"])]
            elif chance < 0.44 and not depth:
                out += [f"{indent}for m in range(4):", inner + self.pick(_LINES)]
            elif chance < 0.5 and not depth:
                head = f"{indent}while q > 0 and x[q % 5] < y[(q - 1) % 5]:"
                out += [f"{indent}q = i", head, f"{inner}x[q % 5] += 1.5", f"{inner}q -= 1"]
            else:
                out.append(indent + self.pick(_LINES))
        return out

    def loop(self, indent: str) -> list[str]:
        inner = indent + "    "
        most = f"{inner}if g > {self.random.choice([12, 20, 40])}: break"
        body = self.lines(inner, 0, self.random.randint(2, 4))
        step = self.random.choice(["i += 1", "lo += 1", "hi -= 1", "j -= 1", "k += 1", "t += 0.1"])
        body.insert(self.random.choice([0, len(body)]), inner + step)
        return [f"{indent}while {self.pick(_TESTS)}:", f"{inner}g += 1", most, *body]

    def function(self) -> tuple[Function, str]:
        start = """    i = 0; lo, hi = 0, len(x); mid = 1; k = 1; j = 5; s = 0.5; t = 0.0; c = 0
    g = 0; done = False; w = x * 0; z = 0.0; out = np.zeros(5, int); b = x"""
        if self.random.random() < 0.4:
            begin = ["    for h in range(6):", "        lo, hi, i = 0, 5, h; g = 0"]
            loops = [*begin, *self.loop(" " * 8), "        out[h % 5] = lo; w = w + s"]
        else:
            again = ["    g = 0", *self.loop("    ")] if self.random.random() < 0.4 else []
            loops = [*self.loop("    "), *again]
        return made([*start.splitlines(), *loops, f"    {self.pick(_ENDS)}", "    return x, y, w"])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", part(range(40), 6))
def test_random_loops(seed: int) -> None:
    agree(*_Known(seed).function(), seed)
