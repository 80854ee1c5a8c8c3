"""Products of rows that a loop takes one after the other are what NumPy computes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.sweeps import part

import minicc
from minicc.options import Options

Array = np.ndarray[Any, Any]
SIZES = [(20, 16), (20, 17), (9, 33), (40, 3), (12, 2), (11, 1), (8, 0), (3, 12), (64, 50)]


def grows_from_row(x: Array) -> Any:
    y = np.zeros((x.shape[1], x.shape[1]), x.dtype)
    for i in range(x.shape[1]):
        y[i:, i] = y[i, i:] = x[:, i] @ x[:, i:] / 3
    return y


def grows_behind_row(x: Array) -> Any:
    y = np.eye(x.shape[1], dtype=x.dtype)
    for i in range(x.shape[1] - 1):
        y[i + 1 :, i] = y[i, i + 1 :] = x[:, i] @ x[:, i + 1 :]
    return y


def shrinks(x: Array) -> Any:
    y = np.zeros((x.shape[1], x.shape[1]), x.dtype)
    for i in range(x.shape[1]):
        y[i, : i + 1] = x[:, : i + 1].T @ x[:, i]
    return y


def from_the_left(x: Array) -> Any:
    y = np.zeros((x.shape[1], x.shape[1]), x.dtype)
    for i in range(x.shape[1]):
        y[i, i:] += x.T[i:] @ x[:, i]
    return y


def backwards(x: Array) -> Any:
    y = np.zeros((x.shape[1], x.shape[1]), x.dtype)
    for i in range(x.shape[1] - 1, -1, -1):
        y[i, i:] = x[:, i] @ x[:, i:]
    return y


def every_other(x: Array) -> Any:
    y = np.zeros((x.shape[1], x.shape[1]), x.dtype)
    for i in range(0, x.shape[1], 2):
        y[i, i:] = x[:, i] @ x[:, i:]
    return y


def all_with_state(x: Array) -> Any:
    s = np.zeros(x.shape[1], x.dtype)
    for i in range(x.shape[1]):
        s = (s + x[:, i] @ x) * 0.5
    return s


def rows_change(x: Array) -> Any:
    for i in range(x.shape[1] - 1):
        x[0, i + 1 :] = x[:, i] @ x[:, i + 1 :] * 0.01
    return x


def shorter_sums(x: Array) -> Any:
    y = np.zeros((x.shape[1], x.shape[1]), x.dtype)
    for i in range(min(x.shape)):
        y[i] = x[i:, i] @ x[i:, :]
    return y


def nested(x: Array) -> Any:
    y = np.zeros((3, x.shape[1], x.shape[1]), x.dtype)
    for k in range(3):
        for i in range(x.shape[1]):
            y[k, i, i:] = x[:, i] @ (x[:, i:] + k)
    return y


PROGRAMS = [
    *(grows_from_row, grows_behind_row, shrinks, from_the_left, backwards, every_other),
    *(all_with_state, rows_change, shorter_sums, nested),
]


CASES = [*product(PROGRAMS, [np.float64, np.float32, np.complex128], ["fast", "strict"])]


@pytest.mark.parametrize(("program", "dtype", "math"), part(CASES, 9))
def test_at_all_sizes(program: Callable[..., Any], dtype: Any, math: str) -> None:
    jitted = minicc.jit(program, math=math)
    rng = np.random.default_rng(7)
    for shape in SIZES:
        x = rng.standard_normal(shape).astype(dtype)
        mine, theirs = x.copy(), x.copy()
        wanted, got = program(theirs), jitted(mine)
        tolerance = 1e-4 if dtype is np.float32 else 1e-11
        np.testing.assert_allclose(got, wanted, tolerance, tolerance, err_msg=str(shape))
        np.testing.assert_allclose(mine, theirs, tolerance, tolerance)


@pytest.mark.parametrize("program", PROGRAMS[:6])
def test_what_no_round_reads_may_be_anything(program: Callable[..., Any]) -> None:
    """Rows before the first column of a round may have no product that is a number."""
    jitted = minicc.jit(program)
    for shape in SIZES[:3]:
        x = np.ones(shape)
        x[0, 1], x[1, 1], x[2, 0] = np.inf, -np.inf, np.nan
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(jitted(x.copy()), program(x.copy()))


def test_memory_does_not_grow_beyond_what_the_function_has() -> None:
    """All products at once would take 480 MB, of inputs of 1 MB."""

    def total(a: Array, b: Array) -> Any:
        s = 0.0
        for i in range(a.shape[0]):
            s = s * 0.5 + (a[i] @ b).max()
        return s

    jitted = minicc.jit(total, options=Options(memory_limit=64 << 20))
    rng = np.random.default_rng(1)
    for rows, depth, columns in ((40, 9, 30), (41, 9, 31), (43, 8, 35), (3_000, 8, 20_000)):
        a, b = rng.random((rows, depth)), rng.random((depth, columns))
        np.testing.assert_allclose(jitted(a, b), total(a, b), 1e-12)
    assert "NumPy" not in str(jitted.explain(a, b))
