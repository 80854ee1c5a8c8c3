"""Lists whose elements or length the loops that fill them look at."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.generate.functions.oracle import differences
from tests.generate.functions.program import loaded
from tests.sweeps import part

import minicc

Function = Callable[..., Any]
CAPTURED: list[Function] = []
OTHERS: list[Function] = []


@CAPTURED.append
def of_arrays(x: Any) -> Any:
    states = [x]
    for _ in range(20):
        states.append(states[-1] + 0.1 * np.sin(states[-1]))
    return np.array(states)


@CAPTURED.append
def two_before(x: Any) -> Any:
    out = [x[0], x[1]]
    for _ in range(20):
        out.append(out[-1] + 0.5 * out[-2])
    return out


@CAPTURED.append
def equal_at_first(x: Any) -> Any:
    out, counts, n = [1.0, 1.0], [1, 1, 1], 0
    for i in range(20):
        out.append(out[-2] * 0.5 + x[i])
        if n % 3 == 0:
            counts.append(n)
        else:
            counts.append(counts[n] * 2 % 7)
        n += 1  # noqa: SIM113  # as people count rounds
    return out, counts


@CAPTURED.append
def by_number(x: Any) -> Any:
    out = [x[0]]
    for i in range(1, len(x)):
        out.append(out[i - 1] * 0.5 + x[i] - out[len(out) - 1])
    return out


@CAPTURED.append
def far_apart(x: Any) -> Any:
    peaks: list[Any] = []
    for i in range(1, len(x) - 1):
        if x[i] > x[i - 1] and x[i] > x[i + 1] and (not peaks or i - peaks[-1] >= 4):
            peaks.append(i)
    return np.array(peaks), len(peaks)


@CAPTURED.append
def of_errors(x: Any) -> Any:
    errors: list[Any] = [np.inf]
    v = x * 1.0
    while errors[-1] > 1e-3 and len(errors) < 100:
        v = v * 0.7
        errors.append(np.linalg.norm(v))
    return v, np.array(errors), errors[-1], errors[0], errors


@CAPTURED.append
def of_times(x: Any) -> Any:
    states, t, times = [x], 0.0, [0.0]
    while t < x[0]:
        states.append(states[-1] * 0.9)
        t += 0.05
        times.append(t)
    return np.array(times), np.array(states)


@CAPTURED.append
def of_lengths(x: Any) -> Any:
    out = [0]
    for v in x:
        if v > 1 or len(out) < 3:
            out.append(out[-1] + len(out))
    return out


@CAPTURED.append
def left_with_what_it_began(x: Any) -> Any:
    states = [x]
    while np.abs(states[-1]).max() > 0.1:
        states.append(states[-1] * 0.8)
    return states, states[0]


@CAPTURED.append
def never_begun(x: Any) -> Any:
    out = [0]
    while abs(out[-1]) > x[0] + 5:
        out.append(x[0] * 1.0)
    return out, len(out), out[0]


@CAPTURED.append
def too_short_at_first(x: Any) -> Any:
    out = [x[0]]
    for i in range(20):
        out.append(x[i] + (out[-1] if i < 1 else out[-2]))
    return np.array(out)


@OTHERS.append
def another_name_of_an_element(x: Any) -> Any:
    states, v = [x], x
    for _ in range(20):
        v = states[-1]
        states.append(v * 0.9)
    v[0] = 7
    return states, v


@OTHERS.append
def an_element_twice(x: Any) -> Any:
    states = [x * 1.0]
    for _ in range(12):
        states.append(states[-1])
    states[3][0] = 7
    return states


@OTHERS.append
def an_element_written_to(x: Any) -> Any:
    states = [x * 1.0]
    for _ in range(12):
        states[-1][0] = 7
        states.append(states[-1] * 2)
    return states


@OTHERS.append
def empty_where_it_is_read(x: Any) -> Any:
    out: list[Any] = []
    for v in x:
        if v > 1.2:
            out.append(v + out[-1])
        if v > 1.1:
            out.append(v)
    return out


def outcome(f: Function, x: Any) -> Any:
    try:
        with np.errstate(all="ignore"):
            return {"": f(x)}
    except Exception as error:
        return error


def compare(f: Function, *arrays: Any) -> Any:
    compiled = minicc.jit(f, threads=1)
    for x in arrays:
        mine, theirs = x.copy(), x.copy()
        got, want = outcome(compiled, mine), outcome(f, theirs)
        found = differences((got, {"x": mine}), (want, {"x": theirs}), lambda name: 1e-9)
        assert found == []
    return compiled


def data(seed: int, n: int = 30) -> Any:
    return np.random.default_rng(seed).uniform(0.5, 2, n)


@pytest.mark.parametrize("f", CAPTURED, ids=lambda f: f.__name__)
def test_loops_are_captured(f: Function) -> None:
    told = compare(f, *map(data, range(3)), data(4, 33), data(5, 35)).explain()
    assert told.loops
    assert all("a loop of the graph" in text for text in told.loops), told.loops


@pytest.mark.parametrize("f", OTHERS, ids=lambda f: f.__name__)
@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
def test_other_lists_are_as_in_numpy(f: Function) -> None:
    compare(f, *map(data, range(3)), data(4, 33), data(5, 35))


FIRST = {
    "numpys": ("x[0]", "x[1] * 2", "np.float64(0.5)"), "pythons": ("0.0", "0.5", "float(x[0])"),
    "integers": ("0", "1", "3"), "either": ("0", "0.0", "np.inf", "x[0]", "1"),
    "arrays": ("x", "x * 1", "x[::-1]", "M[0]", "np.zeros(24)"),
}  # fmt: skip
ELEMENTS = {
    "numpys": ("{r} * 0.5 + x[1]", "np.sin({r})", "{r} + s", "max({r}, s)", "abs({r} - {q})"),
    "pythons": ("{r} * 0.5", "float({r} + 0.1)", "float(s)", "min({r}, 0.3)", "0.25"),
    "integers": ("{r} + 1", "n", "{r} * 2 % 7", "i", "len(xs)"),
    "either": ("{r} * 0.5", "s * 1", "np.sin({r})", "n * 1.0"),
    "arrays": ("{r} * 0.5 + M[1]", "np.sin({r})", "{r} + {q}", "{r} - s", "{r}[::-1]", "M @ {r}"),
}  # fmt: skip
READS = ("xs[-1]", "xs[-1]", "xs[-1]", "xs[-2]", "xs[n]", "xs[n - 1]", "xs[0]", "xs[len(xs) - 1]")
HEADS = ("for i in range(30):", "for i in range(30):", "for i, v in enumerate(x):",
         "while s > 0.05 and n < 40:", "while xs and np.sum(xs[-1]) < 9 and n < 40:",
         "while n < 40 and (len(xs) < 3 or abs(np.sum(xs[-1] - xs[-2])) > 0.01):")  # fmt: skip
ASKED = ("{p} > 0.5", "{p} < s", "len(xs) > 5", "not xs", "not xs or {p} < 0.7", "n % 3 == 0")
LEFT = ("xs", "np.array(xs)", "xs[-1]", "len(xs)", "n", "s", "xs[0]", "xs[:2]", "sum(xs)")


class _Growth:
    """The lines of a function, as a seed draws them."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.kind = self.draw.choice([*FIRST])
        first = [self.draw.choice(FIRST[self.kind]) for _ in range(self.draw.choice((0, 1, 1, 2)))]
        lines = ["def f(x):", "    s, n, i, M = x[0] * 1, 0, 0, np.outer(x, x) * 0.1"]
        lines += [f"    xs = [{', '.join(first)}]", f"    {self.draw.choice(HEADS)}"]
        parts = [self.part() for _ in range(self.draw.choice((1, 1, 2)))]
        if self.draw.random() < 0.3:
            parts.append([f"        if {self.asked()}:", "            break"])
        parts.append(["        s = s * 0.93"])
        self.draw.shuffle(parts)
        lines += [line for part in parts for line in part] + ["        n += 1"]
        left = ", ".join(self.draw.choice(LEFT) for _ in range(2))
        self.text = "\n".join([*lines, f"    return {left}", ""])

    def element(self) -> str:
        r, q = self.draw.choice(READS), self.draw.choice(READS)
        return self.draw.choice(ELEMENTS[self.kind]).format(r=r, q=q)

    def asked(self) -> str:
        p = self.draw.choice(READS)
        return self.draw.choice(ASKED).format(p=f"np.sum({p})" if self.kind == "arrays" else p)

    def part(self) -> list[str]:
        if self.draw.random() < 0.6:
            return [f"        xs.append({self.element()})"]
        return [f"        if {self.asked()}:", f"            xs.append({self.element()})"]


@pytest.mark.parametrize("seed", part(range(30), 6))
@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
def test_random_functions(seed: int) -> None:
    text = _Growth(seed).text
    name = f"<random lists {seed}>"
    scope = loaded(f"import numpy as np\n{text}", name)
    draw = np.random.default_rng(seed)
    compare(scope["f"], *[draw.uniform(0.2, 1.2, 24) * scale for scale in (1.0, 0.1, 1.0)])
