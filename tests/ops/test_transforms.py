"""Fourier transforms of traced functions against NumPy: values, types, how they lie, signs of zero.

Lengths with large prime factors are NumPy's, which `explain` tells.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.sweeps import part

import minicc

Array = np.ndarray[Any, Any]
ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
SEVERAL = ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn")
TYPES = ("f8", "f4", "c16", "c8", "i4", "f2", "?")
SHAPES = (
    ((32,), -1),
    ((3, 48), 1),
    ((7,), 0),
    ((48, 3), 0),
    ((2, 6, 5), 1),
    ((1,), 0),
    ((2, 0), 0),
)
LENGTHS = (40, 33, 1, 2, 5, 16, 100, 243, 0, -3)


def numbers(dtype: str, shape: tuple[int, ...]) -> Array:
    rng = np.random.default_rng(len(shape))
    x = rng.normal(size=shape) * 3
    return (x + 1j * rng.normal(size=shape) if dtype[0] == "c" else x).astype(dtype)


def outcome(f: Any, x: Array) -> Any:
    try:
        return f(x)
    except (ValueError, TypeError, IndexError) as error:
        return error


def check(f: Any, x: Array) -> None:
    wanted, got = outcome(f, x), outcome(minicc.jit(f), x)
    if isinstance(wanted, Exception):
        assert isinstance(got, type(wanted))
        return
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    assert not got.size or got.strides == wanted.strides
    error = {2: 2e-2, 4: 2e-5, 8: 1e-13}[wanted.real.dtype.itemsize]
    atol = error * float(np.abs(wanted).max(initial=0))
    np.testing.assert_allclose(got, wanted, rtol=0, atol=atol)


@pytest.mark.parametrize("kind", ONE)
@pytest.mark.parametrize("dtype", TYPES)
def test_along_an_axis(kind: str, dtype: str) -> None:
    f = getattr(np.fft, kind)
    for shape, axis in part(SHAPES, 6):
        check(lambda x, axis=axis: f(x, axis=axis), numbers(dtype, shape))


@pytest.mark.parametrize("kind", ONE)
def test_lengths_and_norms(kind: str) -> None:
    f, x = getattr(np.fft, kind), numbers("f8", (2, 40))
    norms = (None, "ortho", "forward", "backward", "none")
    for n, norm in part(product(LENGTHS, norms), 15):
        check(lambda x, n=n, norm=norm: f(x, n, norm=norm), x)
    check(lambda x: f(x.T, axis=0), x)
    check(lambda x: f(x, axis=2), x)


@pytest.mark.parametrize("kind", part(SEVERAL, 3))
@pytest.mark.parametrize("dtype", part(["f8", "c16", "f4"], 1))
def test_along_several_axes(kind: str, dtype: str) -> None:
    f, x = getattr(np.fft, kind), numbers(dtype, (3, 16, 20))
    given: list[dict[str, Any]] = [
        {},
        {"s": (8, 10), "axes": (0, 1)},
        {"s": (8, -1), "axes": (0, 1)},
        {"axes": (1,), "norm": "ortho"},
        {"axes": (1, 1)},
    ]
    for options in given:
        check(lambda x, options=options: f(x, **options), x)


@pytest.mark.parametrize("shift", [np.fft.fftshift, np.fft.ifftshift])
def test_shifts(shift: Any) -> None:
    for axes in (None, 0, (0,), (0, 1), -1):
        check(lambda x, axes=axes: shift(x, axes), numbers("c16", (3, 5)))


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "c8", "i4"])
def test_angles(dtype: str) -> None:
    for deg in (False, True):
        check(lambda x, deg=deg: np.angle(x, deg=deg), numbers(dtype, (5, 6)))


@pytest.mark.parametrize("n", part([1, 2, 20, 33, 64, 3, 4, 15, 16, 32, 45], 7))
def test_real_results_of_real_numbers(n: int) -> None:
    """Their angle is half a turn or none, and not a turn more where a zero has another sign."""
    signals = [
        np.full(n, 2.0),
        np.eye(n)[0],
        (-1.0) ** np.arange(n),
        np.arange(n) - 3.0,
        np.zeros(n),
    ]
    for x, sign, f in product(signals, (1, -1), (np.fft.fft, np.fft.rfft)):
        got = minicc.jit(lambda x, f=f: f(x))(sign * x)
        first, middle = got[0], got[n // 2] if n % 2 == 0 and n > 1 else got[0]
        assert [str(first.imag), str(middle.imag)] == ["0.0", "0.0"]


@pytest.mark.parametrize("n", part([3, 9, 15, 2, 4, 8, 27, 30, 33, 49, 64, 105, 128], 4))
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_upper_half_of_real_signals_is_the_conjugate_of_the_lower(n: int, dtype: str) -> None:
    """To the last bit, as which of two is the greater may depend on it."""
    x = numbers(dtype, (3, n))
    for f in (np.fft.fft, np.fft.ifft):
        y = minicc.jit(f)(x)
        np.testing.assert_array_equal(y[:, 1:], np.conj(y[:, :0:-1]))
        np.testing.assert_allclose(y, f(x), rtol=1e-4, atol=1e-4)


def test_exact_results() -> None:
    for x in ([1.0, 0, 0, 0], [1.0, -1, 1, -1], [0, 1, 0, -1], [2, 0, 0, 0, 0, 0, 0, 0]):
        np.testing.assert_array_equal(minicc.jit(np.fft.fft)(np.array(x)), np.fft.fft(x))


def test_frames_of_a_signal_in_a_loop() -> None:
    """One program for all lengths of the signal; the frames are shared among threads."""

    def frames(x: Any) -> Any:
        out = np.empty(((len(x) - 128) // 64, 65), complex)
        for t in range(len(out)):
            out[t] = np.fft.rfft(np.hanning(128) * x[t * 64 : t * 64 + 128])
        return np.abs(out)

    jitted = minicc.jit(frames)
    for n in (1000, 2000, 3000):
        x = numbers("f8", (n,))
        np.testing.assert_allclose(jitted(x), frames(x), atol=1e-12)
    assert "host" not in str(jitted.explain())


def test_a_large_factor_is_told() -> None:
    jitted = minicc.jit(np.fft.fft)
    x = numbers("f8", (202,))
    np.testing.assert_allclose(jitted(x), np.fft.fft(x))
    told = "np.fft.fft of 202 elements is not traced, as 101 is a factor"
    assert told in str(jitted.explain())
