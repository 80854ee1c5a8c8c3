"""Functions that draw random numbers: NumPy's own, with generators left as NumPy leaves them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.models.test_captured_loops import same
from tests.sweeps import part

import minicc
from minicc.frontends.trace.draws import worth

Function = Callable[..., Any]
RNG = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def programs_draw_few_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worth, "SOON", 0)


CAPTURED: list[Function] = []
OTHERS: list[Function] = []


@CAPTURED.append
def inside(x: Any, rng: Any) -> Any:
    hits = 0
    for _ in range(200):
        a, b = rng.random(), rng.random()
        if a * a + b * b < 1:
            hits += 1
    return 4 * hits / 200


@CAPTURED.append
def metropolis(x: Any, rng: Any) -> Any:
    now, taken, chain = 0.0, 0, np.zeros(len(x))
    for i in range(len(x)):
        new = now + rng.uniform(-1, 1)
        if rng.random() < np.exp(-0.5 * (new**2 - now**2)):
            now = new
            taken += 1
        chain[i] = now
    return chain, taken / len(x)


@CAPTURED.append
def gibbs(x: Any, rng: Any) -> Any:
    a, out = 0.0, np.empty(len(x))
    for i in range(len(x)):
        a = rng.normal(0.5 * a, 1.0)
        out[i] = a
        j = rng.integers(0, i + 1)  # of which the first has nothing to draw
        out[j], out[i] = out[i], out[j]
    return out


@CAPTURED.append
def ising(x: Any, rng: Any) -> Any:
    s = np.where(x[:36].reshape(6, 6) > 0, 1, -1)
    for _ in range(100):
        i, j = rng.integers(6), rng.integers(6)
        d = 2 * s[i, j] * (s[(i + 1) % 6, j] + s[i - 1, j] + s[i, (j + 1) % 6] + s[i, j - 1])
        if d <= 0 or rng.random() < np.exp(-d / 2.0):
            s[i, j] = -s[i, j]
    return s


@CAPTURED.append
def paths(x: Any, rng: Any) -> Any:
    p = np.empty((20, 5))
    p[0] = 100.0
    for t in range(1, 20):
        p[t] = p[t - 1] * np.exp(-0.01 + 0.2 * rng.standard_normal(5))
    return p


@CAPTURED.append
def annealed(x: Any, rng: Any) -> Any:
    best, now, heat = 1e9, 3.0, 1.0
    for _ in range(60):
        new = now + rng.normal() * heat
        energy = new * new + np.sin(5 * new)
        if energy < best or rng.random() < np.exp(-(energy - best) / heat):
            now, best = new, energy
        heat *= 0.95
    return now, best


@CAPTURED.append
def resampled(x: Any, rng: Any) -> Any:
    means = np.empty(30)
    for k in range(30):
        means[k] = x[rng.integers(0, len(x), len(x))].mean()
    return means


@CAPTURED.append
def steps(x: Any, rng: Any) -> Any:
    at, path = np.zeros(2), []
    for _ in range(50):
        at = at + rng.choice([-1, 1], size=2)
        path.append(at.copy())
    return np.array(path)


@CAPTURED.append
def waits(x: Any, rng: Any) -> Any:
    total, longest = 0.0, 0.0
    for _ in range(100):
        wait = rng.exponential(2.0) + rng.standard_exponential()
        total += wait
        longest = max(longest, wait)
    return total, longest


@CAPTURED.append
def exchanged(x: Any, rng: Any) -> Any:
    """A test by permutations: rounds shuffle, and then ask."""
    apart, count = x[:15].mean() - x[15:].mean(), 0
    for _ in range(60):
        p = rng.permutation(x)
        if abs(p[:15].mean() - p[15:].mean()) >= abs(apart):
            count += 1
    return count


@CAPTURED.append
def sampled_topics(x: Any, rng: Any) -> Any:
    """Many numbers are drawn at once, for loops that do more."""
    words, topics = rng.integers(0, 9, 200), rng.integers(0, 4, 200)
    counts = np.zeros((9, 4))
    for i in range(200):
        counts[words[i], topics[i]] += 1
    for i in range(200):
        w, k = words[i], topics[i]
        counts[w, k] -= 1
        sums = np.cumsum(counts[w] + 0.1)
        k = np.searchsorted(sums, rng.random() * sums[-1])
        topics[i] = k
        counts[w, k] += 1
    return topics, counts


@OTHERS.append
def kinds(x: Any, rng: Any) -> Any:
    return (
        *(rng.random(), rng.normal(), rng.uniform(x[0], x[0] + 1), rng.exponential(2)),
        *(rng.standard_normal(), rng.random(()), rng.random((2, 3)), rng.normal(size=5)),
    )


@OTHERS.append
def integers(x: Any, rng: Any) -> Any:
    return (
        *(rng.integers(5), rng.integers(2, 9), rng.integers(0, 1), rng.integers(0, 10, size=7)),
        *(rng.integers(0, 1 << 40), rng.integers(-5, 5, endpoint=True), rng.integers(3, size=0)),
        *(rng.integers(1 << 62, size=3), rng.integers(5, dtype=int), rng.integers(0, 1, (2, 2))),
    )


@OTHERS.append
def of_arrays(x: Any, rng: Any) -> Any:
    few = x[:9]
    return rng.normal(few, np.abs(few)), rng.uniform(few, few + 2), rng.exponential(np.abs(few))


@OTHERS.append
def choices(x: Any, rng: Any) -> Any:
    weights = np.abs(x[:3]) / np.abs(x[:3]).sum()
    return (
        *(rng.choice(x), rng.choice(5), rng.choice([3, 4, 5], size=(2, 3)), rng.choice(x, 4)),
        *(rng.choice(3, p=[0.2, 0.3, 0.5]), rng.choice(x[:3], size=5, p=weights)),
    )


@OTHERS.append
def shuffled(x: Any, rng: Any) -> Any:
    rng.shuffle(x)
    return rng.permutation(10), rng.permutation(x), isinstance(rng, np.random.Generator)


@OTHERS.append
def seeded(x: Any, rng: Any) -> Any:
    a, b = np.random.default_rng(7), np.random.default_rng([1, 2])
    return a.random(12) - np.random.default_rng(7).random(12), b.normal(), a.integers(9)


@OTHERS.append
def passed_on(x: Any, rng: Any) -> Any:
    def noisy(v: Any) -> Any:
        return v + rng.uniform(-1, 1)

    draw = rng.random
    return [noisy(v) for v in x], draw(), draw(3)


OLD: list[Function] = []


@OLD.append
def old_chain(x: Any, r: Any) -> Any:
    now, taken = 0.0, 0
    for _ in range(60):
        new = now + r.normal(0, 0.5)
        if np.log(np.random.rand()) < -0.5 * (new * new - now * now):
            now = new
            taken += 1
    return now, taken


@OLD.append
def old_steps(x: Any, r: Any) -> Any:
    np.random.seed(42)
    w = np.zeros(len(x))
    for i in range(1, len(x)):
        w[i] = w[i - 1] + np.random.randn() + r.randint(-1, 2) + r.random_sample()
    return w


@OLD.append
def old_kinds(x: Any, r: Any) -> Any:
    return (
        *(r.randint(5), r.randint(2, 9, 7), r.randint(0, 1), r.rand(3, 2), r.choice(5), r.randn()),
        *(r.choice(x, 4), r.permutation(6), r.uniform(2, 3), r.exponential(2.0), r.random_sample()),
    )


@OLD.append
def old_shuffles(x: Any, r: Any) -> Any:
    np.random.shuffle(x)
    r.shuffle(x)
    return np.random.choice([1, 2, 3], p=[0.2, 0.3, 0.5]), r.standard_normal(5), np.random.ranf()


@pytest.mark.parametrize("k", part(range(len(OLD)), 2))
def test_old_generators(k: int) -> None:
    """`np.random`'s own functions, too, draw from one."""
    f = OLD[k]
    jitted = minicc.jit(f, threads=1)
    mine, theirs = np.random.RandomState(7), np.random.RandomState(7)
    for seed in range(3):
        x = np.random.default_rng(seed).random(30)
        ours, numpys = x.copy(), x.copy()
        begun = np.random.get_state(legacy=False)
        got, after = jitted(ours, mine), np.random.get_state(legacy=False)
        np.random.set_state(begun)
        same(f(numpys, theirs), got, 1e-12, 1e-12)
        same(numpys, ours)
        np.testing.assert_equal(after, np.random.get_state(legacy=False))
        state, other = (g.get_state(legacy=False) for g in (mine, theirs))
        np.testing.assert_equal(state, other)
    assert "not compiled" not in str(jitted.explain(x, mine))


@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
def test_generators_that_are_made_anew_are_numpys() -> None:
    def drawn(x: Any) -> Any:
        return (
            x + np.random.RandomState(3).rand() + np.random.Generator(np.random.PCG64(1)).random()
        )

    jitted, x = minicc.jit(drawn, threads=1), np.ones(3)
    for _ in range(3):
        np.testing.assert_array_equal(jitted(x), drawn(x))
    assert "np.random.RandomState can't be compiled" in str(jitted.explain(x))


@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
def test_generators_that_are_returned() -> None:
    def drawn(rng: Any) -> Any:
        return rng, sum([rng.random() for _ in range(20)])

    jitted, mine, theirs = minicc.jit(drawn, threads=1), *map(np.random.default_rng, (1, 1))
    for _ in range(3):
        (got, total), (_, wanted) = jitted(mine), drawn(theirs)
        assert got is mine
        assert total == wanted


@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
def test_an_old_generator_may_get_other_bits() -> None:
    def drawn(r: Any, n: Any) -> Any:
        total = 0.0
        for _ in range(n):
            total += r.rand()
        return total

    jitted, mine, theirs = minicc.jit(drawn, threads=1), *map(np.random.RandomState, (1, 1))
    for seed in (2, 3):
        for generator in (mine, theirs):
            generator.set_state(np.random.RandomState(seed).get_state(legacy=False))
        assert jitted(mine, 50) == drawn(theirs, 50)
    other = np.random.RandomState(np.random.PCG64(5)), np.random.RandomState(np.random.PCG64(5))
    assert jitted(other[0], 50) == drawn(other[1], 50)


def test_few_numbers_are_numpys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()

    def drawn(x: Any, rng: Any) -> Any:
        return x + rng.random()

    jitted = minicc.jit(drawn, threads=1)
    with pytest.warns(minicc.PerformanceWarning, match="few random numbers are drawn"):
        jitted(np.ones(3), np.random.default_rng(1))


def test_many_numbers_alone_are_numpys() -> None:
    def drawn(x: Any, rng: Any) -> Any:
        return x.sum() + rng.normal(size=100_000).mean() + rng.random()

    jitted = minicc.jit(drawn, threads=1)
    with pytest.warns(minicc.PerformanceWarning, match="more than 64 numbers at once faster"):
        jitted(np.ones(3), np.random.default_rng(1))


def check(f: Function) -> Any:
    """What is told of a function that agrees with NumPy's, as does the generator afterwards."""
    jitted = minicc.jit(f, threads=1)
    mine, theirs = np.random.default_rng(9), np.random.default_rng(9)
    for seed in range(4):
        x = np.random.default_rng(seed).standard_normal(40)
        got, want = (call(x.copy(), g) for call, g in ((jitted, mine), (f, theirs)))
        same(want, got, 1e-12, 1e-12)
        assert [type(v) for v in np.atleast_1d(np.array(want, object))] == [
            type(v) for v in np.atleast_1d(np.array(got, object))
        ]
        assert mine.bit_generator.state == theirs.bit_generator.state
    return jitted.explain(x, mine)


@pytest.mark.parametrize("k", part(range(len(CAPTURED)), 3))
def test_loops_that_draw(k: int) -> None:
    told = check(CAPTURED[k])
    assert told.loops
    assert all("a loop of the graph" in text for text in told.loops), told.loops
    assert "not compiled" not in str(told)


@pytest.mark.parametrize("k", part(range(len(OTHERS)), 3))
def test_draws_that_are_traced(k: int) -> None:
    assert "not compiled" not in str(check(OTHERS[k]))


class Particle:
    """An object that holds a generator."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.at = 0.0

    def step(self, x: Any) -> Any:
        for v in x:
            self.at += v * self.rng.normal()
        return self.at


def test_generators_from_outside() -> None:
    def drawn(x: Any) -> Any:
        return x * RNG.random(len(x))

    jitted = minicc.jit(drawn, threads=1)
    for k in range(4):
        x = np.arange(20.0) + k
        before = RNG.bit_generator.state
        got, after = jitted(x), RNG.bit_generator.state
        RNG.bit_generator.state = before
        np.testing.assert_array_equal(got, drawn(x))
        assert RNG.bit_generator.state == after


def test_generators_of_objects() -> None:
    step = minicc.jit(Particle.step, threads=1)
    ours, theirs = [Particle(4), Particle(5)], [Particle(4), Particle(5)]
    for k in range(6):
        x = np.random.default_rng(k).random(20)
        mine, other = ours[k % 2], theirs[k % 2]
        assert np.isclose(step(mine, x), other.step(x), rtol=1e-13)
        assert mine.rng.bit_generator.state == other.rng.bit_generator.state


def test_each_seed_gives_its_own_numbers() -> None:
    def drawn(x: Any, seed: Any) -> Any:
        rng = np.random.default_rng(seed)
        return x[0] + rng.random(20)

    jitted = minicc.jit(drawn, threads=1)
    x = np.zeros(3)
    for seed in (3, 4, 5, 3, 1 << 70, 6):
        np.testing.assert_array_equal(jitted(x, seed), drawn(x, seed))


@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
def test_what_is_not_traced_is_numpys() -> None:
    generators: list[Any] = [np.random.default_rng(1), np.random.Generator(np.random.Philox(1))]
    functions: list[Function] = [
        lambda rng: rng.gamma(2.0) + rng.random(),
        lambda rng: rng.normal(0, -1.0),
        lambda rng: rng.integers(5, 5),
        lambda rng: rng.choice(5, size=3, replace=False),
        lambda rng: rng.random(3, dtype=np.float32),
        lambda rng: rng.normal(size=5000),
        lambda rng: rng.choice(3, p=[0.5, 0.1, 0.1]),
        lambda rng: (rng is None, rng.random(), rng.bit_generator.state),
        lambda rng: copy.deepcopy(rng).random() + sum(rng.random() for _ in range(20)),
    ]
    for f in functions:
        for generator in generators:
            mine, theirs = (type(generator)(generator.bit_generator) for _ in range(2))
            jitted = minicc.jit(f, threads=1)
            for _ in range(3):
                before = generator.bit_generator.state
                want, after = outcome(f, theirs), generator.bit_generator.state
                generator.bit_generator.state = before
                got = outcome(jitted, mine)
                assert repr(got) == repr(want)
                np.testing.assert_equal(generator.bit_generator.state, after)


def outcome(f: Function, *args: Any) -> Any:
    try:
        return f(*args)
    except ValueError as error:
        return repr(error)


@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
def test_one_generator_twice() -> None:
    def drawn(a: Any, b: Any) -> Any:
        return a.random(3), b.random(3)

    jitted = minicc.jit(drawn, threads=1)
    for same_one in (False, True, False, True, False):
        mine, theirs = np.random.default_rng(1), np.random.default_rng(1)
        got = jitted(mine, mine if same_one else np.random.default_rng(2))
        want = drawn(theirs, theirs if same_one else np.random.default_rng(2))
        np.testing.assert_array_equal(got, want)
