"""Python numbers are inputs of compiled functions from their second value on, as NumPy sees them.

Each case gives NumPy's outcome for each number, and says how many traces that may take.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minicc
from minicc.api.specialised import PROGRAMS

Array = np.ndarray[Any, Any]
Case = tuple[Callable[..., Any], Array, list[Any], int]

FLOATS = [0.5, 1.25, -2.0, 0.0, 1e300, math.nan, math.inf, -0.0, 3.0, 2.0, 0.5]
INTS = [1, 2, -3, 0, 127, 128, 300, -200, 2**40, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**30]
FLAGS = [True, False, True, False]
SMALL = [1, 2, -3, 0, 100, 5, 7]
Y = np.random.default_rng(0).standard_normal(17)
Y32 = Y.astype(np.float32)
I8, U8, I64 = (np.arange(5, dtype=t) for t in ("i1", "u1", "i8"))


def same(a: Any, b: Any) -> bool:
    """Whether two results are alike: kinds, types, and values up to rounding."""
    if isinstance(a, Exception):
        return isinstance(b, type(a)) and str(a) == str(b)
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, (np.ndarray, np.generic)):
        if type(a) is not type(b) or a.dtype != b.dtype or a.shape != b.shape:
            return False
        rtol = 1e-14 if a.dtype.kind not in "fc" or np.finfo(a.dtype).bits == 64 else 2e-6
        return bool(np.allclose(a, b, rtol, 1e-300, equal_nan=True))
    return type(a) is type(b) and repr(a) == repr(b)


def outcome(f: Callable[..., Any], *args: Any) -> Any:
    try:
        with np.errstate(all="ignore"):
            return f(*args)
    except Exception as error:
        return error


def recurrence(x: Array, t: float) -> Any:
    s = x
    for _ in range(20):
        s = s + x * t
        t = t + 0.25
    return s, t


def counted(x: Array, n: int) -> Any:
    x = x.copy()
    for k in range(12):
        x[k] += n
        n += 1
    return x, n


def rounds(x: Array, n: int) -> Any:
    s = x * 0
    for _ in range(n):
        s = s + x
    return s


def shifted(x: Array, n: int) -> Any:
    x = x.copy()
    for k in range(10):
        x[k] = x[k + n] * 2
    return x


def after_a_break(x: Array, t: float) -> Any:
    if x.sum() > 0:
        return x * t
    u = t * 0.5
    return x - u, u


def until(x: Array, t: float) -> Any:
    while x.sum() < 100:
        x = x + t
        t = t * 2
    return x, t


def stored(x: Array, t: Any) -> Any:
    x = x.copy()
    x[2] = t
    x[3:] = t
    return x


def by_type(x: Array, t: Any) -> Any:
    return x * t if type(t) in (float, str) else x


def by_identity(x: Array, flag: bool) -> Any:
    return x if flag is True else -x


OF_FLAGS: tuple[Callable[..., Any], ...] = (
    lambda x, flag: x * flag, lambda x, flag: (flag * 2.5 + 1) * x, lambda x, flag: ~flag * x,
    lambda x, flag: x if flag else -x, lambda x, flag: np.where(flag, x, -x), lambda x, flag: flag,
    lambda x, flag: np.where(x > 0, flag, x), lambda x, flag: (x * (not flag), x == flag),
    lambda x, flag: np.array([flag, 1.5]) * x[0], lambda x, flag: float(flag) * x.sum(),
    lambda x, flag: x.sum(keepdims=flag), lambda x, flag: {True: x, False: -x}[flag],
    lambda x, flag: isinstance(flag, bool) * x, lambda x, flag: np.any(x > 0) & flag,
)  # fmt: skip
CASES: list[Case] = [
    (lambda x, t: x * t, Y, FLOATS, 2), (lambda x, t: x * t, Y32, FLOATS, 2),
    (lambda x, t: x + t, I8, FLOATS, 2), (lambda x, t: x + t, I8 > 2, FLOATS, 2),
    (lambda x, t: x * t, Y + 1j, FLOATS, 2), (lambda x, n: x * n, Y32, SMALL, 2),
    (lambda x, n: x * n, Y32, INTS, 20), (lambda x, n: x + n, I8, SMALL, 2),
    (lambda x, n: x + n, I8, INTS, 20), (lambda x, n: x + n, U8, INTS, 20),
    (lambda x, n: x + n, I64, INTS, 20), (lambda x, n: x < n, I8, INTS, 20),
    (lambda x, n: n >= x, U8, INTS, 20), (lambda x, n: x == n, I64, INTS, 20),
    (lambda x, n: x[:n], Y, SMALL, 7), (lambda x, n: np.arange(abs(n)) + x[0], Y, SMALL, 7),
    (lambda x, n: x[n], Y, INTS, 20), (lambda x, n: np.full(3, n) * x[0], Y, SMALL, 2),
    (lambda x, t: np.where(x > 0, t, x), Y32, FLOATS, 2),
    (lambda x, t: np.clip(x, -t, t), Y32, FLOATS, 2), (lambda x, t: x**t, Y, FLOATS, 4),
    (lambda x, n: x**n, I64, [0, 1, 2, 3, -1, 5], 6), (lambda x, n: x**n, Y, SMALL, 4),
    (lambda x, t: x if t > 0 else x - t, Y, FLOATS, 3), (lambda x, t: x / (1 / t), Y, FLOATS, 4),
    (lambda x, t: x * math.sin(t), Y, FLOATS, 4), (lambda x, t: x * math.sqrt(t), Y, FLOATS, 4),
    (lambda x, t: (x, f"{t:.3f}", t), Y, FLOATS, 11), (lambda x, t: x * int(t), Y, FLOATS, 6),
    (lambda x, t: (x + 1, t * 2, -t, abs(t), t // 3, isinstance(t, float)), Y, FLOATS, 2),
    (lambda x, n: (x + 1, n * 2, n**3, n // 7, n % 7, n << 2, divmod(n, 7), ~n), Y, INTS, 20),
    (lambda x, n: x * (n / 3), Y, INTS, 2), (lambda x, n: x * float(n), Y, INTS, 2),
    (recurrence, Y, FLOATS, 3), (counted, Y, SMALL, 7), (rounds, Y, [1, 12, 20, 3], 4),
    (shifted, Y, [1, 2, 3, 4, 5], 5), (after_a_break, Y, FLOATS, 3),
    (after_a_break, -abs(Y), FLOATS, 3), (until, abs(Y), [1.0, 2.0, 3.0, 0.5], 4),
    (lambda x, t: np.float32(t) * x, Y32, FLOATS, 2), (lambda x, n: np.int8(n) + x, I8, INTS, 20),
    (lambda x, t: np.array([t, 1.0, 2]) * x[0], Y, FLOATS, 2), (stored, Y, FLOATS, 2),
    (stored, Y32, FLOATS, 2), (stored, I8, FLOATS[:4], 4), (stored, I8, INTS, 20),
    (stored, Y + 1j, FLOATS, 2), (lambda x, z: (x * z, z * z, abs(z)), Y, [1j, 2j, 2 - 1j], 2),
    (lambda x, t: np.linspace(0, t, 5) + x[0], Y, FLOATS[:4], 2),
    (lambda x, t: np.sqrt(t) * x, Y, FLOATS, 2), (lambda x, t: np.interp(t, x, x), Y, FLOATS, 2),
    *((f, Y, FLAGS, 2) for f in OF_FLAGS), (by_identity, Y, FLAGS, 2),
    (lambda x, flag: x + flag, I8, FLAGS, 2), (lambda x, flag: (x - flag, x > 2), U8, FLAGS, 2),
    (lambda x, flag: (x > 2) ^ flag, Y, FLAGS, 2), (lambda x, flag: x * flag, Y32, FLAGS, 2),
    (lambda x, t: x + np.pi * t, Y, FLOATS, 2), (lambda x, t: np.float64(2) * t + x, Y, FLOATS, 2),
    (lambda x, t: {t: x}[t], Y, FLOATS[:4], 4), (lambda x, t: max(t, 0.5) * x, Y, FLOATS, 4),
    (lambda x, t: sum([t, t]) * x, Y, FLOATS, 2), (by_type, Y, FLOATS[:4], 4),
    (lambda x, t: x * round(t, 1), Y, FLOATS, 3), (lambda x, n: x.reshape(n, -1), Y, [1, 17, 1], 2),
    (lambda x, n: np.where(x > 1, n, x), I8, [*SMALL, 300, -200, 2**40], 20),
    (lambda x, n: np.clip(x, 0, n), I8, INTS, 20), (lambda x, n: np.clip(x, -n, n), I8, SMALL, 3),
    (lambda x, n: (np.unique(x), n), I8, SMALL, 2),
    (lambda x, n: x // n, I64, SMALL, 3), (lambda x, n: x & n, U8, INTS, 20),
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(CASES)))
def test_numbers_as_numpy_sees_them(k: int) -> None:
    f, x, numbers, traces = CASES[k]
    compiled = minicc.jit(f, threads=1)
    for n in numbers:
        want, got = outcome(f, x.copy(), n), outcome(compiled, x.copy(), n)
        assert same(want, got), (n, want, got)
    assert compiled.explain().traced <= traces


class Model:
    rate = 0.0


MODEL = Model()
STEP = 1.0


def test_numbers_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    power = 2.0

    def f(x: Array) -> Any:
        return x * STEP + MODEL.rate, power * 2

    compiled = minicc.jit(f, threads=1)
    for k in range(12):
        monkeypatch.setitem(globals(), "STEP", 0.5 * (k // 3))
        MODEL.rate = 1.5 * k
        power = k - 0.25
        assert same(f(Y), compiled(Y))
    shown = compiled.explain()
    assert shown.traced <= 4
    assert "global STEP is a float" in str(shown)


def test_numbers_within_containers() -> None:
    def f(x: Array, d: Any) -> Any:
        return x * d["a"] + d["b"][0], d

    compiled = minicc.jit(f, threads=1)
    for k in range(9):
        given = {"a": k / 2, "b": (k, "text")}
        want, got = f(Y, given), compiled(Y, given)
        assert same(want[0], got[0])
        assert got[1] == given
    assert compiled.explain().traced == 2


def test_many_values_are_one_program() -> None:
    compiled = minicc.jit(lambda t, y: y * t + np.sqrt(abs(y)) * (t + 1), threads=1)
    for k in range(300):
        compiled(k * 0.01, Y)
    shown = compiled.explain()
    assert shown.recompilations == ("first call", "argument t: 0.0 before, 0.01 now")
    assert len(shown.specialisations) == 2
    assert "argument t is a float" in shown.guards


def test_seeds_of_unsigned_types() -> None:
    def f(seed: int, n: int) -> Any:
        state = np.uint64(seed)
        made = np.empty(n, np.uint64)
        for k in range(n):
            state ^= state << np.uint64(13)
            state ^= state >> np.uint64(7)
            made[k] = state
        return made, np.uint8(seed % 256), state

    compiled = minicc.jit(f, threads=1)
    for seed in (1, 88172645463325252, 7, 255, 2**62, 2**63 + 5, 2**64 - 1, 12):
        for want, got in zip(f(seed, 20), compiled(seed, 20), strict=True):
            assert type(got) is type(want)
            np.testing.assert_array_equal(got, want)
    few = compiled.explain().traced
    for seed in range(1000, 1040):
        np.testing.assert_array_equal(compiled(seed, 20)[0], f(seed, 20)[0])
    assert compiled.explain().traced == few
    for wrong in (-1, 2**64):
        with pytest.raises(OverflowError):
            compiled(wrong, 20)


def test_numbers_that_are_made_of_others_twice() -> None:
    def f(x: Any, numbers: list[float]) -> Any:
        total = rest = 0.0
        for number in numbers:
            y = number - rest
            t = total + y
            rest = (t - total) - y
            total = t
        return x * total, x + rest, total, rest

    g, x = minicc.jit(f, threads=1), np.arange(3.0)
    for k in range(4):
        numbers = [0.1 * k + j for j in range(40)]
        for mine, theirs in zip(g(x, numbers), f(x, numbers), strict=True):
            np.testing.assert_array_equal(mine, theirs)
    assert len(g.explain().recompilations) == 2


def test_programs_have_a_bound_and_many_traces_are_told(caplog: pytest.LogCaptureFixture) -> None:
    def f(x: Array, n: int) -> Any:
        return x[:n]

    compiled = minicc.jit(f, threads=1)
    x = np.arange(PROGRAMS + 20.0)
    with caplog.at_level(logging.WARNING, "minicc"):
        for k in range(1, PROGRAMS + 10):
            for _ in range(65):  # or programs would not be worth their while
                assert len(compiled(x, k)) == k
    assert len(compiled.explain().specialisations) == PROGRAMS
    assert len(compiled(x, 1)) == 1  # long gone, and compiled again
    [told] = caplog.messages
    assert told.startswith("f was traced 32 times, the last time since argument n: 31 before")


def steps(u: Array, a: float, b: float, c: float, d: float) -> Array:
    for _ in range(6):
        old = u.copy()
        u[1:-1] = (
            old[1:-1] * (a / b) + old[2:] * a**2 - old[:-2] / (2 * b * c) + c / (a**2 + b**2)
            - old[2:] * (d * c) + (b - d) * (old[1:-1] + 2 * c) * (d - 1) + old[:-2] / (b * 4)
        )  # fmt: skip
        u[0] = a * d
    return u


@pytest.mark.parametrize("lengths", [(9, 9, 9), (9, 12, 17)], ids=["one size", "sizes"])
def test_many_numbers_within_a_loop_are_inputs(lengths: tuple[int, ...]) -> None:
    compiled = minicc.jit(steps, threads=1)
    for k, n in enumerate(lengths):
        numbers = [0.5 + 0.125 * (j + 1) / (k + 1) for j in range(4)]
        u = np.linspace(0, 0.25, n)
        assert same(steps(u.copy(), *numbers), compiled(u.copy(), *numbers))
    guards = compiled.explain().guards
    assert all(f"argument {name} is a float" in guards for name in "abcd")


def test_a_number_that_a_loop_is_the_first_to_need() -> None:
    """It is an input that is made while the loop is captured, in a way that is given up."""

    def f(a: Any, b: Any, x: Any, h: Any) -> Any:
        for i in range(30):
            a, b = b, a
            x[1] = a[0] + i
            h = h + 0.5
        return h, a

    jitted = minicc.jit(f, threads=1)
    for h in (1.0, 2.0, 4.0, 8.0):
        args = np.ones(3), np.zeros(3), np.zeros(4)
        assert jitted(*args, h)[0] == h + 15
