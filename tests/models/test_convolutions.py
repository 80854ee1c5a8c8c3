"""Convolutions of vectors and windows that slide along them, as NumPy has them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from tests.sweeps import part

import minicc
from minicc.ir import structured
from minicc.ir.core import walk

LENGTHS = [(7, 3), (5, 5), (1, 1), (4, 1), (100, 37), (3, 8), (300, 200)]
TYPES = ["f8", "f4", "f2", "i8", "i2", "u1", "?", "c16"]
MODES = ["full", "same", "valid"]


@pytest.mark.parametrize(("dtype", "mode"), part(itertools.product(TYPES, MODES), 3))
def test_filters_of_any_length(dtype: str, mode: Any) -> None:
    g = minicc.jit(lambda a, v: np.convolve(a, v, mode))
    for n, m in LENGTHS:
        rng = np.random.default_rng(n)
        x, w = (rng.integers(0, 4, k).astype(dtype) for k in (n, m))
        got, want = g(x, w), np.convolve(x, w, mode)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("mode", MODES)
def test_what_meets_nothing_has_no_part(mode: Any) -> None:
    """An infinity times the zeros around would be no number."""
    x, w = np.arange(1.0, 10.0), np.array([1.0, np.inf, 2.0])
    for a, v in ((x, w), (np.where(x == 1, np.inf, x), w[[0, 2]])):
        got = minicc.jit(lambda a, v: np.convolve(a, v, mode))(a, v)
        np.testing.assert_array_equal(got, np.convolve(a, v, mode))


FRAMED = [
    lambda f: f.sum(-1),
    lambda f: f.std(-1),
    lambda f: (f * np.arange(20.0)).max(-1),
    lambda f: f @ np.arange(20.0),
]


@pytest.mark.parametrize(("use", "axis"), [*itertools.product(FRAMED, (0, 1))])
def test_windows_are_not_written_apart(use: Any, axis: int) -> None:
    """What is made of them reads them where they lie, and nothing is as large as all of them."""
    x = np.random.default_rng(0).random((60, 90))

    def f(x: Any) -> Any:
        return use(np.lib.stride_tricks.sliding_window_view(x, 20, axis=axis))

    g = minicc.jit(f)
    np.testing.assert_allclose(g(x), f(x), rtol=1e-12)
    fused = g.lower(x).at("structured")
    groups = (op for op in walk(fused.main.body) if isinstance(op, structured.Group))
    assert max(np.prod(v.type.extents) for op in groups for v in op.results) <= x.size
