"""Systems of linear equations in loops, which elimination solves there in place of LAPACK."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minicc

Function = Callable[..., Any]


def solves(a: Any, b: Any, steps: Any) -> Any:
    total = np.zeros_like(b)
    for s in steps:
        total = total + np.linalg.solve(a * s, b)
    return total


def inverts(a: Any, b: Any, steps: Any) -> Any:
    total = np.zeros_like(a)
    for s in steps:
        total += np.linalg.inv(a * s) @ a
    return total


def measures(a: Any, b: Any, steps: Any) -> Any:
    found = np.zeros(len(steps), a.dtype)
    for k in range(len(steps)):
        found[k] = np.linalg.det(a / (1 + steps[k]))
    return found


def factors(a: Any, b: Any, steps: Any) -> Any:
    total = np.zeros_like(a)
    for s in steps:
        total = total + np.linalg.cholesky(a @ a.T + s * np.eye(len(a), dtype=a.dtype))
    return total


ALL = [solves, inverts, measures, factors]


def data(n: int, columns: int | None, dtype: type) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(n)
    a: Any = (rng.standard_normal((n, n)) + 2 * np.eye(n)).astype(dtype)
    b: Any = rng.standard_normal((n,) if columns is None else (n, columns)).astype(dtype)
    return a, b, rng.uniform(0.5, 2.0, 30).astype(dtype)


def close(mine: Any, theirs: Any) -> None:
    assert mine.dtype == theirs.dtype
    scale = 1e4 * np.finfo(theirs.dtype).eps * np.abs(theirs).max()
    np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=scale)


@pytest.mark.parametrize("f", ALL, ids=lambda f: f.__name__)
@pytest.mark.parametrize(("n", "columns"), [(1, 1), (2, None), (3, 4), (6, None), (11, 2), (24, 1)])
def test_results_are_lapacks(f: Function, n: int, columns: int | None) -> None:
    args = data(n, columns, np.float64)
    jitted = minicc.jit(f, threads=1)
    for _ in range(2):
        close(jitted(*args), f(*args))
    assert "a loop of the graph" in "".join(jitted.explain().specialisations[0].loops)


@pytest.mark.parametrize("f", ALL, ids=lambda f: f.__name__)
def test_of_float32(f: Function) -> None:
    args = data(5, 2, np.float32)
    close(minicc.jit(f, threads=1)(*args), f(*args))


@pytest.mark.parametrize("f", [solves, inverts, factors], ids=lambda f: f.__name__)
@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning", "ignore::RuntimeWarning")
def test_singular_matrices_raise_numpys_error(f: Function) -> None:
    """A compiled call does, too, in whichever round it is."""
    jitted, (a, b, steps) = minicc.jit(f, threads=1), data(4, 2, np.float64)
    close(jitted(a, b, steps), f(a, b, steps))
    none = steps.copy()
    none[17] = -1e9 if f is factors else 0
    with pytest.raises(np.linalg.LinAlgError):
        jitted(a, b, none)
    close(jitted(a, b, steps), f(a, b, steps))


def test_the_determinant_of_a_singular_matrix_is_nothing() -> None:
    a, b, steps = data(5, None, np.float64)
    a[3] = a[1] * 0
    jitted = minicc.jit(measures, threads=1)
    assert not jitted(a, b, steps).any()


def test_rows_are_swapped() -> None:
    a: Any = np.array([[0.0, 2.0, 1.0], [1e-20, 1.0, 3.0], [4.0, 0.0, 0.0]])
    b: Any = np.array([1.0, 2.0, 3.0])
    steps = np.ones(20)
    for f in (solves, inverts, measures):
        close(minicc.jit(f, threads=1)(a, b, steps), f(a, b, steps))


@pytest.mark.parametrize("f", ALL, ids=lambda f: f.__name__)
def test_many_unknowns_are_lapacks(f: Function) -> None:
    args = data(40, 2, np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", minicc.PerformanceWarning)
        close(minicc.jit(f, threads=1)(*args), f(*args))


def test_a_kalman_filter() -> None:
    def filtered(zs: Any, step: Any, seen: Any) -> Any:
        n = step.shape[0]
        x, p, path = np.zeros(n), np.eye(n), []
        for z in zs:
            x, p = step @ x, step @ p @ step.T + 0.01 * np.eye(n)
            gain = p @ seen.T @ np.linalg.inv(seen @ p @ seen.T + 0.1 * np.eye(2))
            x = x + gain @ (z - seen @ x)
            p = (np.eye(n) - gain @ seen) @ p
            path.append(x)
        return path, p

    zs = np.random.default_rng(0).standard_normal((100, 2))
    args = zs, np.eye(4) + 0.1 * np.eye(4, k=2), np.eye(2, 4)
    jitted = minicc.jit(filtered, threads=1)
    for mine, theirs in zip(jitted(*args), filtered(*args), strict=True):
        close(np.array(mine), np.array(theirs))
    assert "100 rounds, a loop of the graph" in str(jitted.explain())


def positive(n: int, dtype: type) -> Any:
    """A matrix of which the lower triangle alone is that of a positive definite one."""
    a, _, _ = data(n, None, np.float64)
    a = a @ a.T + n * np.eye(n)
    a[np.triu_indices(n, 1)] = 7
    return a.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [256, 263])
def test_large_factors_are_products(n: int, dtype: type) -> None:
    jitted = minicc.jit(np.linalg.cholesky, threads=2)
    a = positive(n, dtype)
    close(jitted(a), np.linalg.cholesky(a))
    assert "break" not in str(jitted.explain(a))
    assert "NumPy" not in str(jitted.explain(a))
    a[n - 1, n - 1] = -1
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        jitted(a)


def test_factors_in_loops_have_any_number_of_rows() -> None:
    def weighed(a: Any, steps: Any) -> Any:
        total = 0.0
        for s in steps:
            lower = np.linalg.cholesky(a + s * np.eye(len(a)))
            total = total + np.log(np.diag(lower)).sum()
        return total

    a, steps = positive(40, np.float64), np.linspace(1, 2, 30)
    jitted = minicc.jit(weighed)
    close(jitted(a, steps), weighed(a, steps))
    assert "30 rounds, a loop of the graph" in str(jitted.explain(a, steps))


def test_large_factors_of_all_sizes_are_one_program() -> None:
    def measured(a: Any) -> Any:
        return np.log(np.diag(np.linalg.cholesky(a))).sum()

    jitted = minicc.jit(measured)
    for n in (256, 270, 281, 300):
        a = positive(n, np.float64)
        close(jitted(a), measured(a))
    told = str(jitted.explain())
    assert told.count("specialisation") == 2
    assert "break" not in told
