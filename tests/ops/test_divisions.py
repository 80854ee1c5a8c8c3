"""Quotients and remainders of vectors are those of NumPy to the bit, whatever their sizes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.sweeps import part

import minicc
from minicc.target import TARGETS

RUNNABLE = [name for name, target in TARGETS.items() if target.runs_here()]
FUNCTIONS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a // b,
    lambda a, b: a % b,
    lambda a, b: np.fmod(a, b),
    lambda a, b: a // b[3],
]
SPECIAL = [0, -0.0, 1, -1, 0.1, 3, -7.5, 1e16, 2**23, 2**24 + 1, 1e30, np.inf, -np.inf, np.nan]


def pairs(dtype: str) -> tuple[Any, Any]:
    """Numbers of every size by numbers of every size, and extremes by extremes."""
    rng = np.random.default_rng(0)
    if dtype.startswith("f"):
        few = np.array(SPECIAL, dtype)
        a = np.ldexp(rng.uniform(-1, 1, 3000), rng.integers(-20, 60, 3000)).astype(dtype)
        b = np.ldexp(rng.uniform(-1, 1, 3000), rng.integers(-20, 5, 3000)).astype(dtype)
    else:
        ends = np.iinfo(dtype)
        middle = [1 << 51, (1 << 51) - 1, 1 << 53, (1 << 53) + 1] if ends.bits == 64 else []
        few = np.array([ends.min, ends.max, ends.max - 1, 0, 1, 2, 3, 7, *middle], dtype)
        few = np.concatenate([few, -few])
        a = rng.integers(ends.min, ends.max, 3000, dtype, endpoint=True) >> rng.integers(
            0, ends.bits, 3000, dtype
        )
        b = rng.integers(ends.min, ends.max, 3000, dtype, endpoint=True) >> rng.integers(
            0, ends.bits, 3000, dtype
        )
    left, right = (x.ravel() for x in np.meshgrid(few, few))
    return np.concatenate([left, a]), np.concatenate([right, b])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("k", "dtype", "target"),
    part(
        product(
            range(4), ["f4", "f8", "f2", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"], RUNNABLE
        ),
        4,
    ),
)
def test_as_numpy_has_it(k: int, dtype: str, target: str) -> None:
    a, b = pairs(dtype)
    f = FUNCTIONS[k]
    got, want = minicc.jit(f, target=target, math="strict")(a, b), f(a, b)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(np.where(want == want, want, got)))
