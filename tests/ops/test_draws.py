"""Numbers that are drawn by functions written with NumPy: NumPy's own in each bit, not traced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from minicc.frontends.trace.draws import bits, distributions, mt19937, tables
from minicc.frontends.trace.draws.memory import Mt19937, Pcg64, pcg64_of, state_in

Draw = Callable[[np.random.Generator, int], Any]
NORMAL, EXPONENTIAL = tables.normal(), tables.exponential()
FLOATS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "random": (distributions.uniform, ()),
    "standard_normal": (distributions.normal, NORMAL),
    "standard_exponential": (distributions.exponential, EXPONENTIAL),
}
BOUNDS = [2, 3, 5, 1000, (1 << 31) + 5, (1 << 32) - 1]
FAR = [(1 << 32) + 3, (3 << 61) + 12345, (1 << 63) - 1]


@pytest.fixture(autouse=True)
def numbers_may_wrap() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def pair(seed: int) -> tuple[np.random.Generator, Pcg64]:
    """A generator, and the state of another one of the same seed."""
    state = state_in(np.random.default_rng(seed))
    assert type(state) is Pcg64
    return np.random.default_rng(seed), state


def require_same(generator: np.random.Generator, state: Pcg64) -> None:
    """Both have drawn alike."""
    for got, want in zip(state, pcg64_of(generator.bit_generator.state), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("method", FLOATS)
def test_floats(method: str) -> None:
    one, rest = FLOATS[method]
    for seed in range(3):
        generator, state = pair(seed)
        out = np.empty(2000)
        distributions.fill(out, one, state.words, *rest)
        np.testing.assert_array_max_ulp(out, getattr(generator, method)(2000), 1)
        require_same(generator, state)


@pytest.mark.parametrize("bound", BOUNDS + FAR)
def test_integers(bound: int) -> None:
    generator, state = pair(bound % 100)
    out = np.empty(300, np.int64)
    if bound < 1 << 32:
        distributions.fill(out, distributions.below, state.words, state.spare, np.uint64(bound))
    else:
        distributions.fill(out, distributions.far_below, state.words, np.uint64(bound))
    np.testing.assert_array_equal(out, generator.integers(0, bound, 300))
    require_same(generator, state)


def test_below_1_nothing_is_drawn() -> None:
    generator, state = pair(0)
    for bound in (1, 2, 1, 7):
        got = distributions.maybe_below(state.words, state.spare, np.uint64(bound))
        assert got == generator.integers(0, bound)
    require_same(generator, state)


@pytest.mark.parametrize("shape", [(1,), (2,), (100,), (20, 3)])
def test_shuffles(shape: tuple[int, ...]) -> None:
    generator, state = pair(4)
    x, y = np.arange(np.prod(shape)).reshape(shape), np.arange(np.prod(shape)).reshape(shape)
    distributions.shuffle(x, bits.next32, *state)
    generator.shuffle(y)
    np.testing.assert_array_equal(x, y)
    require_same(generator, state)


def test_products_of_128_bits() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 1 << 64, (2, 500), np.uint64, endpoint=False)
    a[:2] = b[1:3] = np.uint64((1 << 64) - 1)
    high, low = bits.times(a, b)
    for x, y, upper, lower in zip(a, b, high, low, strict=True):
        assert (int(upper) << 64) + int(lower) == int(x) * int(y)


def gaussian(x: Any) -> Any:
    return np.exp(-0.5 * x * x)


def falling(x: Any) -> Any:
    return np.exp(-x)


@pytest.mark.parametrize(
    ("ziggurat", "places", "curve"), [(NORMAL, 2.0**52, gaussian), (EXPONENTIAL, 2.0**53, falling)]
)
def test_the_levels_of_a_table_have_one_area(ziggurat: Any, places: float, curve: Any) -> None:
    """NumPy's have it up to rounding."""
    ends = ziggurat.width * places
    steps = curve(np.append(0.0, ends[1:-1])) - curve(ends[1:])
    np.testing.assert_allclose(ends[1:] * steps, ends[0] * curve(ends[255]), rtol=1e-11)
    assert np.all(np.diff(ends[1:]) > 0)
    assert ends[255] == ziggurat.end


def test_only_the_memory_of_pcg64_is_known() -> None:
    for other in (np.random.MT19937, np.random.Philox, np.random.SFC64, np.random.PCG64DXSM):
        assert state_in(np.random.Generator(other(0))) is None


def old_pair(seed: int) -> tuple[np.random.RandomState, np.random.RandomState, Mt19937]:
    """Two old generators of one seed, and the memory of the second."""
    first, second = np.random.RandomState(seed), np.random.RandomState(seed)
    state = state_in(second)
    assert type(state) is Mt19937
    return first, second, state


def require_same_old(*generators: np.random.RandomState) -> None:
    """Both have drawn alike."""
    first, second = (g.get_state(legacy=False) for g in generators)
    np.testing.assert_equal(first, second)


@pytest.mark.parametrize("count", [1, 2, 3, 1001])
def test_floats_of_old_generators(count: int) -> None:
    first, second, state = old_pair(3)
    out = np.empty(count)
    for _ in range(2):
        distributions.fill(out, mt19937.uniform, *state[:2])
        np.testing.assert_array_equal(out, first.random_sample(count))
        distributions.fill(out, mt19937.normal, *state)
        np.testing.assert_array_max_ulp(out, first.standard_normal(count), 2)
        require_same_old(first, second)
        distributions.fill(out, mt19937.exponential, *state[:2])
        np.testing.assert_array_max_ulp(out, first.standard_exponential(count), 2)
        require_same_old(first, second)


@pytest.mark.parametrize("bound", [1, 2, 3, 1000, (1 << 32) - 1])
def test_integers_of_old_generators(bound: int) -> None:
    first, second, state = old_pair(bound % 50)
    out = np.empty(300, np.int64)
    last = np.uint64(bound - 1)
    distributions.fill(out, distributions.up_to, last, mt19937.next32, *state[:2])
    np.testing.assert_array_equal(out, first.randint(0, bound, 300))
    x, y = np.arange(50), np.arange(50)
    distributions.shuffle(x, mt19937.next32, *state[:2])
    first.shuffle(y)
    np.testing.assert_array_equal(x, y)
    require_same_old(first, second)


@pytest.mark.parametrize("seed", [0, 77, (1 << 32) - 1])
def test_seeds_of_old_generators(seed: int) -> None:
    first, second, state = old_pair(1)
    for generator in (first, second):
        generator.standard_normal()
    mt19937.seed(*state[:3], np.uint32(seed))
    state.other[0] = 0.0
    first.seed(seed)
    require_same_old(first, second)
