"""Loops over Python's numbers alone, of which all is known: long ones are the graph's.

Python runs short ones; it would run long ones at each call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minicc

Function = Callable[..., Any]


def area(n: int) -> Any:
    h, total = 1.0 / n, 0.0
    for i in range(n):
        x = h * (i + 0.5)
        total += 4.0 / (1 + x * x)
    return h * total


def logistic(n: int) -> Any:
    x = 0.3
    for _ in range(n):
        x = 3.7 * x * (1 - x)
    return x


def alternating(n: int) -> Any:
    total, sign = 0.0, 1.0
    for k in range(n):
        total += sign / (2 * k + 1)
        sign = -sign
    return total


def escapes(n: int) -> Any:
    """Mandelbrot's set, by Python's floats."""
    out = np.zeros((n // 100, 40), int)
    for i in range(n // 100):
        for j in range(40):
            cr, ci = -2 + 3 * j / 40, -1 + 200 * i / n
            zr = zi = 0.0
            k = 0
            while zr * zr + zi * zi < 4 and k < 30:
                zr, zi = zr * zr - zi * zi + cr, 2 * zr * zi + ci
                k += 1
            out[i, j] = k
    return out


def escapes_of_complex(n: int) -> Any:
    xs, ys = np.linspace(-2, 1, 40), np.linspace(-1, 1, n // 100)
    out = np.zeros((40, n // 100))
    for i in range(40):
        for j in range(n // 100):
            z = c = xs[i] + 1j * ys[j]
            for k in range(30):
                if abs(z) > 2:
                    out[i, j] = k
                    break
                z = z * z + c
    return out


def escapes_by_a_function(n: int) -> Any:
    def rounds(cr: float, ci: float) -> int:
        zr = zi = 0.0
        for k in range(30):
            zr2, zi2 = zr * zr, zi * zi
            if zr2 + zi2 > 4.0:
                return k
            zr, zi = zr2 - zi2 + cr, 2 * zr * zi + ci
        return 30

    out = np.empty((n // 100, 40), np.int64)
    for i in range(n // 100):
        for j in range(40):
            out[i, j] = rounds(-2 + 3 * j / 40, -1 + 200 * i / n)
    return out


def escapes_in_bytes(n: int) -> Any:
    """Counts that go down, of Python's ints, stored as what is narrower."""
    out = np.zeros((n // 100, 40), np.uint8)
    for i in range(n // 100):
        for j in range(40):
            x, y, k = 3 * j / 40 - 1.5, 200 * i / n - 1, 60
            while x * x + y * y < 4 and k > 1:
                x, y = x * x - y * y - 0.7, 2.0 * x * y + 0.27
                k -= 1
            out[i, j] = k
    return out


ALL: list[Function] = [
    area, logistic, alternating, escapes, escapes_in_bytes, escapes_of_complex,
    escapes_by_a_function,
]  # fmt: skip


@pytest.mark.parametrize("f", ALL)
def test_long_loops_of_what_is_known(f: Function) -> None:
    g = minicc.jit(f, threads=1)
    for n in (5000, 5000):
        got, want = g(n), f(n)
        assert type(got) is type(want)
        np.testing.assert_allclose(got, want, rtol=1e-9)
    told = g.explain(5000)
    assert "run by NumPy" not in str(told)
    assert any("a loop of the graph" in text for text in told.loops)


def test_short_loops_of_what_is_known_are_pythons() -> None:
    g = minicc.jit(area)
    assert g(200) == area(200)
    assert "all of it is known while tracing" in str(g.explain(200))


def stored(x: Any, whole: Any) -> Any:
    for k in range(9):
        x[k % 3] = int(whole[k]) + 1
    return x


@pytest.mark.parametrize("element", [np.int8, np.uint16])
def test_an_int_that_a_narrow_type_does_not_hold(element: Any) -> None:
    g = minicc.jit(stored, threads=1)
    for n in (1, 9, 15, -3, 9000, 2):
        mine, theirs = np.zeros(3, element), np.zeros(3, element)
        whole = np.arange(9) * n
        try:
            want: Any = stored(theirs, whole)
        except OverflowError as error:
            with pytest.raises(OverflowError, match=str(error)):
                g(mine, whole)
        else:
            np.testing.assert_array_equal(g(mine, whole), want)
        np.testing.assert_array_equal(mine, theirs)
    assert any("a loop of the graph" in text for text in g.explain(mine, whole).loops)


@pytest.mark.parametrize("number", [np.float64(np.inf), np.float32(300), np.int64(-200)])
def test_a_known_scalar_that_an_integer_type_does_not_hold(number: Any) -> None:
    def written(x: Any) -> Any:
        y = np.zeros(3, np.int8)
        if x[0] > 1:
            y[0] += number
        return x.sum()

    g = minicc.jit(written, threads=1)
    for x in (np.zeros(3), np.ones(3) + 1):
        try:
            want: Any = written(x)
        except OverflowError as error:
            with pytest.raises(OverflowError, match=str(error)):
                g(x)
        else:
            assert g(x) == want


def divided(n: int) -> Any:
    total = 0.0
    for k in range(n):
        total += 1 / (k - 4999.0)
    return total


def test_a_division_by_zero_is_pythons() -> None:
    g = minicc.jit(divided)
    for n in (5000, 4999):
        if n == 5000:
            with pytest.raises(ZeroDivisionError):
                g(n)
        else:
            assert np.isclose(g(n), divided(n), rtol=1e-12)


def filters(n: int) -> Any:
    """Triangles between places that are known, as those of mel frequencies."""
    ends = np.floor(np.linspace(0.0, 3.0 * n, n + 2)).astype(int)
    bank = np.zeros((n, 3 * n + 1))
    for m in range(1, n + 1):
        for k in range(ends[m - 1], ends[m]):
            bank[m - 1, k] = (k - ends[m - 1]) / (ends[m] - ends[m - 1])
    return bank


def test_ends_of_a_loop_within() -> None:
    g = minicc.jit(filters, threads=1)
    for n in (12, 12, 15):
        np.testing.assert_allclose(g(n), filters(n), rtol=1e-12)


def three_diagonals(shift: int, n: int) -> Any:
    places, values = np.empty(3 * n, dtype=np.int64), np.empty(3 * n)
    for i in range(n):
        places[3 * i : 3 * i + 3] = [(i - 1) % n, i, (i + 1) % n]
        values[3 * i : 3 * i + 3] = [-1.0, 4.0 + shift, -1.0]
    return places, values


def test_an_input_that_is_known_of_within_a_loop() -> None:
    """It looked like a constant there, and NumPy ran the function for so many rounds."""
    g = minicc.jit(three_diagonals, threads=1)
    for shift in (1, 7, 8):
        for got, want in zip(g(shift, 200), three_diagonals(shift, 200), strict=True):
            np.testing.assert_array_equal(got, want)
    assert "run by NumPy" not in str(g.explain())
