"""Lists that rounds append to, comprehensions, and loops that read objects: captured, as NumPy."""

from __future__ import annotations

import copy
import dataclasses
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.models.test_captured_loops import same
from tests.sweeps import part

import minicc

Function = Callable[..., Any]
CAPTURED: list[Function] = []
OTHERS: list[Function] = []
LISTED: list[Function] = []  # comprehensions, which are functions of their own up to Python 3.11


def compare(f: Function) -> Any:
    """The jitted function, after calls on some data agreed with NumPy's."""
    jitted = minicc.jit(f, threads=1)
    for seed in range(2):
        x = np.random.default_rng(seed).standard_normal(60)
        mine, theirs = x.copy(), x.copy()
        same(f(theirs), jitted(mine), 1e-12, 1e-12)
        same(theirs, mine)
    return jitted.explain()


def require_captured(f: Function) -> None:
    """The function agrees with NumPy, and all its loops are loops of the graph."""
    told = compare(f)
    assert "break at" not in str(told), told
    assert told.loops
    assert all("a loop of the graph" in text for text in told.loops), told.loops


@CAPTURED.append
def scalars(x: Any) -> Any:
    out = []
    for i in range(len(x) - 4):
        out.append(x[i : i + 4].sum())
    return np.array(out), out[3], len(out)


@CAPTURED.append
def rows(x: Any) -> Any:
    out = []
    for i in range(30):
        out.append(x[i : i + 5] * 2)
    return np.array(out), np.stack(out, axis=1), np.vstack(out), np.concatenate(out), out


@CAPTURED.append
def path(x: Any) -> Any:
    places, times, t = [], [], 0.0
    for _ in range(20):
        places.append(x)
        times.append(t)
        x = x + 0.1 * np.sin(x)
        t += 0.25
    return np.array(places), places[7], times, x


@CAPTURED.append
def after_a_first(x: Any) -> Any:
    places = [x]
    for _ in range(20):
        x = x * 0.9 + 1
        places.append(x)
    return np.stack(places), places[-1], x


@CAPTURED.append
def pairs_after_a_first(x: Any) -> Any:
    mean, square, pairs = x[0], 0.0, []
    for v in x[1:]:
        mean += 0.1 * (v - mean)
        square = 0.9 * square + 0.1 * v * v
        pairs.append((mean, math.sqrt(square)))
    return pairs


@CAPTURED.append
def nested(x: Any) -> Any:
    out = []
    for i in range(20):
        row = []
        for j in range(15):
            row.append(x[i] * x[j] + i)
        out.append(row)
    return np.array(out), out[3][4]


@CAPTURED.append
def pairs(x: Any) -> Any:
    out = []
    for i in range(40):
        out.append((x[i] * 2, x[i] + 1))
    return np.array(out), out[7]


@CAPTURED.append
def floats(x: Any) -> Any:
    losses = []
    for _ in range(30):
        x = x - 0.2 * x
        losses.append(float((x**2).sum()))
    return losses, losses[-1] / losses[0]


@CAPTURED.append
def twice(x: Any) -> Any:
    out = []
    for i in range(30):
        out.append(x[i])
        out.append(-x[i])
    return np.array(out)


@CAPTURED.append
def flat(x: Any) -> Any:
    out, floats = [], [0.5]
    for i in range(20):
        out.append(x[i])
        for j in range(15):
            out.append(x[i] * x[j])
            floats.append(float(x[i]) - j)
    return np.array(out), floats, np.array(floats)


@CAPTURED.append
def changed_after(x: Any) -> Any:
    out = []
    for i in range(30):
        out.append(x[i : i + 3] + 1)
    out[2][0] = 9
    out[3] += 1
    return np.array(out), out[2], out[3]


@CAPTURED.append
def other_name(x: Any) -> Any:
    """What the last round has appended is what the name is bound to."""
    out = []
    y = x[:3]
    for i in range(30):
        y = y + x[i]
        out.append(y)
    y += 1
    out.append(y * 2)
    return np.array(out), y


@CAPTURED.append
def same_in_all_rounds(x: Any) -> Any:
    """An array that is made anew in each round, though it holds the same."""
    out = []
    for i in range(12):
        y = np.roll(x[None], 1, axis=0)
        out.extend([i, y])
    y[0] = 9
    return out[-1] is y, np.array(out[1::2]), y, out[-3]


@CAPTURED.append
def filled_again(x: Any) -> Any:
    out = []
    for i in range(20):
        out.append(x[i] + 1)
    for i in range(20):
        out.append(x[i] * 2)
    return np.array(out)


@OTHERS.append
def views(x: Any) -> Any:
    out = []
    for i in range(20):
        out.append(x[i : i + 3])
    x[:] = 0
    return np.array(out)


@OTHERS.append
def one_array(x: Any) -> Any:
    out = []
    for _ in range(20):
        x += 1
        out.append(x)
    return np.array(out)


@CAPTURED.append
def read(x: Any) -> Any:
    out = [x[0]]
    for i in range(20):
        out.append(out[-1] * 0.5 + x[i])
    return np.array(out)


@OTHERS.append
def reached_otherwise(x: Any) -> Any:
    out: list[Any] = []
    all_of_it = [out]
    for i in range(20):
        out.append(x[i] * len(all_of_it[0]))
    return np.array(out)


LISTED += [
    lambda x: np.array([x[i : i + 4].sum() for i in range(len(x) - 4)]),
    lambda x: np.array([np.sin(v) for v in x]),
    lambda x: np.array([[p * q for q in x[:20]] for p in x[:15]]),
    lambda x: np.stack([x[i : i + 5] * i for i in range(30)], axis=1),
    lambda x: [(i, v * 2) for i, v in enumerate(x)],
    lambda x: np.array([a * b for a, b in zip(x, x[::-1], strict=True)]),
    lambda x: np.array([a * 2 for a in reversed(x)]),
    lambda x: np.array([float(v) ** 2 for v in x]),
    lambda x: np.mean([v**2 for v in x]),
    lambda x: np.array([np.abs(np.fft.rfft(x[i : i + 16])) for i in range(0, 40, 2)]),
]


def of_rows(x: Any) -> Any:
    rows = [x[i : i + 5] * 2 for i in range(40)]
    later = iter(rows)
    next(later)
    return np.array([r.sum() for r in rows]), sum(r[0] for r in rows), [r[1] for r in later]


@CAPTURED.append
def unpacked(x: Any) -> Any:
    pairs = []
    for v in x:
        pairs.append((float(v), v * 2))
    return sum(float(v) for v in x), pairs, [(b, a, type(a) is float) for a, b in pairs]


LISTS: list[Function] = [
    lambda x: [[float(a * b) for b in x[:12]] for a in x],
    lambda x: [[v.item() * k for k in range(9)] for v in x],
    lambda x: [[(a, float(a + b)) for b in x[:9]] for a in x],
    lambda x: [
        [*d.values()] for row in [[{"of": a, "and": b} for b in x[:9]] for a in x] for d in row
    ],
    lambda x: [[[float(b)] for b in x[:9]] for _ in x],
    lambda x: [v for v in [float(v) for v in x] if type(v) is float],
    lambda x: [round(v, 2) for v in [float(v) for v in x]],
    lambda x: [b for a, b in [[v, [v + 1, float(v)]] for v in x]],
    lambda x: np.array([{"a": float(v)} for v in x]).dtype.kind == "O",
    lambda x: [row.__iadd__([0.5]) for row in [[float(a * b) for b in x[:9]] for a in x]],
    lambda x: sum([(float(v), v) for v in x], ()),
]
SUMMED: list[Function] = [
    lambda x: sum(np.sqrt(np.abs(v)) for v in x),
    lambda x: sum((a - b) ** 2 for a, b in zip(x, x[::-1], strict=True)) / len(x),
    lambda x: sum(float(v) for v in x) + 1,
    lambda x: sum([x[i : i + 3] * i for i in range(20)], np.ones(3)),
    lambda x: sum(x[i] * sum(x[j] for j in range(20)) for i in range(30)),
    lambda x: sum(sum(r * 2) for r in x.reshape(20, -1)),
]
DRAWN: list[Function] = [
    lambda x: (sum(v for v in x if v > 0), sum(1 for v in x if v > 0), sum(v > 0 for v in x)),
    lambda x: (any(v > 9 for v in x), max(v * 2 for v in x[:5]), list(v + 1 for v in x)[3]),  # noqa: C400
    lambda x: (next(g := (v * 2 for v in x)), sum(g)),
    lambda x: (tuple(v * 2 for v in x)[5], dict((i, v) for i, v in enumerate(x))[7]),  # noqa: C402
    lambda x: (sum(x[:9]), sum(range(9)), sum([1, 2], 3), sum(i * i for i in range(20)) * x[0]),
    lambda x: sum((x[i : i + 3] for i in range(20)), np.zeros(3)),
    of_rows,
]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="comprehensions stand in the function")
@pytest.mark.parametrize("k", range(len(SUMMED)))
def test_sums_of_generators(k: int) -> None:
    require_captured(SUMMED[k])


@pytest.mark.parametrize("k", range(len(DRAWN)))
def test_generators_that_python_draws_from(k: int) -> None:
    compare(DRAWN[k])


@pytest.mark.parametrize("f", CAPTURED, ids=[f.__name__ for f in CAPTURED])
def test_lists_of_captured_loops(f: Function) -> None:
    require_captured(f)


@pytest.mark.parametrize("f", OTHERS, ids=[f.__name__ for f in OTHERS])
def test_lists_that_no_loop_stacks(f: Function) -> None:
    assert not any("a loop of the graph" in text for text in compare(f).loops)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="comprehensions stand in the function")
@pytest.mark.parametrize("k", range(len(LISTED)))
def test_comprehensions(k: int) -> None:
    require_captured(LISTED[k])


def test_comprehensions_that_no_loop_stacks() -> None:
    for f in (
        lambda x: [v for v in x if v > 0][:3],
        lambda x: np.array([y := i * x[i] for i in range(20)]).sum() + y,
        lambda x: [x[i] for i in range(3)],
        lambda x: [v for _, v in zip("ab", [x[0] * 2, x[1]], strict=True)],
        lambda x: [[i * j for j in range(4)] for i in range(20)],
        lambda x: np.array([x[i] if i % 2 else -x[i] for i in range(20)]),
    ):
        compare(f)


@pytest.mark.parametrize("k", part(range(len(LISTS)), 3))
def test_what_the_elements_of_lists_are(k: int) -> None:
    compare(LISTS[k])


@pytest.mark.parametrize("rounds", [3, 8, 9, 10, 20])
def test_arrays_of_any_size(rounds: int) -> None:
    def f(x: Any) -> Any:
        out = []
        for i in range(rounds):
            out.append(x * i)
        return np.array(out), out[-1], len(out)

    jitted = minicc.jit(f)
    for n in (16, 7, 5, 1):
        x = np.arange(1.0, n + 1).reshape(n, 1)
        same(f(x), jitted(x))


def test_a_loop_of_many_rounds_is_few_ops() -> None:
    def f(x: Any) -> Any:
        out = []
        for i in range(4000):
            out.append(x[i] * 2)
        return np.array(out), out

    jitted, x = minicc.jit(f), np.arange(4000.0)
    same(f(x), jitted(x))
    assert "2 kernels in 2 launches" in str(jitted.explain())


class Model:
    def __init__(self) -> None:
        self.weight = 2.0
        self.table = np.arange(40.0)
        self.calls = 0
        self.log: list[Any] = []

    @property
    def twice(self) -> float:
        return self.weight * 2

    def act(self, v: Any) -> Any:
        return np.tanh(v * self.weight)

    def counting(self, v: Any) -> Any:
        self.calls += 1
        return v

    def logging(self, v: Any) -> Any:
        self.log.append(1)
        return v * 2

    def reads(self, x: Any) -> Any:
        y = np.zeros(40)
        for i in range(40):
            y[i] = self.weight * x[i] + self.table[i]
        return y

    def calls_methods(self, x: Any) -> Any:
        for i in range(1, 40):
            x[i] = self.act(x[i - 1]) + x[i] * self.twice
        return x

    def counts(self, x: Any) -> Any:
        for i in range(20):
            x[i] = self.counting(x[i])
        return x

    def logs(self, x: Any) -> Any:
        for i in range(20):
            x[i] = self.logging(x[i])
        return x


@dataclasses.dataclass
class Spring:
    stiffness: float = 3.0

    def swung(self, x: Any) -> Any:
        v = 0.0 * x
        for _ in range(50):
            v = v - self.stiffness * x * 0.01
            x = x + v * 0.01
        return x, v


@pytest.mark.parametrize("name", ["reads", "calls_methods", "counts", "logs"])
def test_loops_in_methods(name: str) -> None:
    mine, theirs = Model(), Model()
    jitted = minicc.jit(getattr(mine, name))
    for k in range(3):
        x = np.random.default_rng(k).standard_normal(60)
        y = x.copy()
        same(getattr(theirs, name)(y), jitted(x))
        same(y, x)
        assert (mine.calls, mine.log) == (theirs.calls, theirs.log)
        mine.weight = theirs.weight = 2.0 + k
    specialisation = jitted.explain().specialisations[0]
    assert any("a loop of the graph" in text for text in specialisation.loops)


def test_a_loop_reads_a_dataclass() -> None:
    spring = Spring()
    jitted = minicc.jit(spring.swung)
    for k in range(3):
        x = np.random.default_rng(k).standard_normal(9)
        same(copy.copy(spring).swung(x), jitted(x))
        spring.stiffness += k
    assert "a loop of the graph" in str(jitted.explain())
