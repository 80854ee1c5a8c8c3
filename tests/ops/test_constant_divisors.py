"""Quotients by constants, which are made of products, are those of NumPy to the bit."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from tests.sweeps import examples

import minicc
from minicc.ir.quotients import parts_of_inverse
from minicc.target import TARGETS

RUNNABLE = [name for name, target in TARGETS.items() if target.runs_here()]
CONSTANTS = (3.0, -0.1, 7.0, 1 / 60, 2 * 0.1**2, 1e-300, 1e300, 1 + 2**-52, 2 - 2**-52, 2.0, 5e-324,
             math.inf, math.nan, 0.0)  # fmt: skip


def drawn(rng: random.Random, size: int) -> float:
    return math.ldexp(rng.uniform(-1, 1), rng.randint(-size, size))


def test_a_sum_of_two_products_is_the_quotient() -> None:
    rng, taken = random.Random(0), 0
    for _ in range(examples(8000)):
        c = drawn(rng, 60) if rng.random() < 0.7 else float(rng.randint(1, 1000))
        parts = parts_of_inverse(c, 53)
        if parts is None:
            continue
        taken += 1
        high, low = parts
        assert high * low > 0  # so that an infinity stays one
        for x in (*[drawn(rng, 300) for _ in range(8)], c, 2 * c, math.nextafter(c, 0)):
            assert float(Fraction(x) * Fraction(high) + Fraction(x * low)) == x / c, (x, c)
    assert taken > examples(8000) * 0.8


def test_powers_of_2_and_numbers_out_of_reach_are_divided_by() -> None:
    for bits in (24, 53):
        numbers = (1.0, -2.0, 0.125, 0.0, 5e-324, 1e300, math.inf, math.nan)
        assert [parts_of_inverse(c, bits) for c in numbers] == [None] * len(numbers)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("target", RUNNABLE)
def test_as_numpy_has_it(target: str) -> None:
    rng = np.random.default_rng(0)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.7976931348623157e308, -1e308, 1e-270, 1.0]
    x = np.concatenate([special, np.ldexp(rng.uniform(-1, 1, 5000), rng.integers(-800, 900, 5000))])
    for c in CONSTANTS:
        got, want = minicc.jit(lambda x, c=c: x / c, target=target, threads=1)(x), x / c
        normal = (np.abs(want) > 2.0**-960) | (x == 0) | ~np.isfinite(want)
        np.testing.assert_array_equal(got[normal], want[normal], f"{c}")
        assert (np.signbit(got) == np.signbit(want))[normal & ~np.isnan(want)].all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("target", RUNNABLE)
def test_floats_as_numpy_has_them(target: str) -> None:
    rng = np.random.default_rng(0)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, -1e38, 1e-20, 1.0]
    drawn = np.ldexp(rng.uniform(-1, 1, 5000), rng.integers(-100, 128, 5000))
    x = np.concatenate([special, drawn]).astype(np.float32)
    for c in map(np.float32, (3.0, -0.1, 6.0, 255.0, 1e-30, 1e30, 1 + 2**-23, 2.0, np.inf, 0.0)):
        got, want = minicc.jit(lambda x, c=c: x / c, target=target, threads=1)(x), x / c
        normal = (np.abs(want) > 2.0**-75) | (x == 0) | ~np.isfinite(want)
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got[normal], want[normal], f"{c}")
        assert (np.signbit(got) == np.signbit(want))[normal & ~np.isnan(want)].all()


@pytest.mark.parametrize("c", [3.0, 6.0, 7.0, -255.0, 0.1, 1.1, 0.70710678, 8388607.0])
def test_each_significand_of_floats(c: float) -> None:
    x = np.arange(1 << 23, 1 << 24, dtype=np.int32).astype(np.float32)
    assert parts_of_inverse(float(np.float32(c)), 24)
    divided = minicc.jit(lambda x: x / np.float32(c), threads=1)
    assert "arith.div_by" in divided.lower(x).as_text("structured")
    np.testing.assert_array_equal(divided(x), x / np.float32(c))


def test_strict_mathematics_divide() -> None:
    x = np.ones(3)
    assert "arith.div_by" in minicc.jit(lambda x: x / 3).lower(x).as_text("structured")
    strict = minicc.jit(lambda x: x / 3, math="strict").lower(x).as_text("structured")
    assert "arith.div_by" not in strict
    assert "arith.div " in strict
