"""Arguments that a function writes to are changed where they lie, if nothing forbids it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.stages.programs import every_stage, machine_code, spread

import minicc
from minicc.compile.compiler import lower
from minicc.ir.core import Module
from minicc.options import Options


def recurrence(x: Any, y: Any) -> Any:
    for i in range(1, x.size):
        x[i] = 0.5 * x[i - 1] + y[i]


def both(x: Any, y: Any) -> Any:
    for i in range(1, x.size):
        x[i] += y[i - 1]
    y[2:5] = x[:3]
    return x[:4], y.sum()


def a_part(x: Any, y: Any) -> Any:
    x[1:-1] = x[:-2] + y[2:]
    return x


def old_and_new(x: Any, y: Any) -> Any:
    before = x.copy()
    x[3:7] = y[:4]
    return before, x, x.copy()


def exchanged(x: Any, y: Any) -> Any:
    t = x.copy()
    x[:] = y
    y[:] = t


def read_after(x: Any, y: Any) -> Any:
    x[:3] = 1
    s = x.sum()
    x[3:] = s
    return s + y


def only_in_a_branch(x: Any, y: Any) -> Any:
    for i in range(x.size):
        if y[i] > 3:
            x[i] = -x[i]
    return x


FUNCTIONS = (recurrence, both, a_part, old_and_new, exchanged, read_after, only_in_a_branch)
DONATING = (recurrence, both, a_part, read_after)


def arguments(k: int) -> tuple[Any, Any]:
    return np.arange(20.0) + k, np.linspace(0, 5, 20) * (k + 1)


def compare(f: Callable[..., Any], g: Any, mine: Any, theirs: Any) -> None:
    got, want = g(*mine), f(*theirs)
    for a, b in zip((*mine, got), (*theirs, want), strict=True):
        if isinstance(b, tuple):
            for p, q in zip(a, b, strict=True):
                np.testing.assert_allclose(p, q, rtol=1e-13)
        elif b is not None:
            np.testing.assert_allclose(a, b, rtol=1e-13)


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_as_numpy(f: Callable[..., Any]) -> None:
    g = minicc.jit(f)
    for k in range(3):
        compare(f, g, arguments(k), arguments(k))
    # what does not lie as the program wants it
    wide = [np.repeat(a, 2)[::2] for a in arguments(5)]
    compare(f, g, wide, arguments(5))


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_results_stay_what_they_are(f: Callable[..., Any]) -> None:
    """What a call gave shares memory with its arguments where NumPy's does, and nowhere else."""
    g = minicc.jit(f)
    for _ in range(2):
        mine, theirs = arguments(1), arguments(1)
        got, want = (r if isinstance(r, tuple) else (r,) for r in (g(*mine), f(*theirs)))
        for a, b in zip(got, want, strict=True):
            for x, y in zip(mine, theirs, strict=True):
                if b is not None:
                    assert np.shares_memory(a, x) == np.shares_memory(b, y)


def test_arguments_that_share_memory() -> None:
    g = minicc.jit(recurrence)
    for _ in range(2):
        mine, theirs = np.arange(30.0), np.arange(30.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", minicc.PerformanceWarning)
            g(mine[:20], mine[5:25])
        recurrence(theirs[:20], theirs[5:25])
        np.testing.assert_array_equal(mine, theirs)


def test_an_argument_that_may_not_be_written_to() -> None:
    g = minicc.jit(recurrence)
    x, y = arguments(0)
    g(x.copy(), y)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        g(x, y)
    np.testing.assert_array_equal(x, arguments(0)[0])


def test_what_fails_leaves_arguments_as_numpy_does() -> None:
    def f(x: Any, places: Any) -> Any:
        for i in range(x.size):
            x[i] = x[places[i]] + 1

    g = minicc.jit(f)
    good = np.arange(8)[::-1].copy()
    for places in (good, np.array([0, 1, 2, 99, 4, 5, 6, 7])):
        mine, theirs = np.arange(8.0), np.arange(8.0)
        for call, x in ((g, mine), (f, theirs)):
            if 99 in places:
                with pytest.raises(IndexError, match="out of bounds"):
                    call(x, places)
            else:
                call(x, places)
        np.testing.assert_array_equal(mine, theirs)


def donated(f: Callable[..., Any]) -> Module:
    """The program of a function whose arguments are said to be its outputs."""
    made: Module = minicc.jit(f).lower(*arguments(0)).module
    return made


@pytest.mark.parametrize("f", DONATING, ids=lambda f: f.__name__)
def test_every_stage(f: Callable[..., Any]) -> None:
    """At each level and in machine code, outputs are what is left of inputs that stay."""
    made = donated(f)
    pairs = made.main.attrs["donates"]
    assert lower(made, Options()).main.attrs["donated"] == pairs
    inputs = [a for a, _ in zip(arguments(2), made.main.args, strict=True)]
    kept = [a.copy() for a in inputs]
    *stages, (_, program) = every_stage(made, inputs, Options())
    name = Options().machine.name
    theirs = arguments(2)
    f(*theirs)
    native = [machine_code(spread(program), name, inputs, n) for n in (1, 3)]
    for got in (*[got for _, got in stages], *native):
        for given, out in pairs:
            np.testing.assert_allclose(got[out], theirs[given], rtol=1e-13)
    for a, b in zip(inputs, kept, strict=True):
        np.testing.assert_array_equal(a, b)


def doubled(x: Any, y: Any) -> Any:
    x *= 2
    x += y


def filled(x: Any, y: Any) -> Any:
    x[:] = np.exp(-y) + 1
    y -= x
    return x.sum()


def turned_round(x: Any, y: Any) -> Any:
    x[:] = x[::-1] + y


def summed(x: Any, y: Any) -> Any:
    x -= x.sum()
    y[:] = np.cumsum(y)


@pytest.mark.parametrize("f", [doubled, filled, turned_round, summed], ids=lambda f: f.__name__)
def test_whole_arguments(f: Callable[..., Any]) -> None:
    g = minicc.jit(f)
    for k in range(3):
        compare(f, g, arguments(k), arguments(k))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", minicc.PerformanceWarning)
        mine, theirs = np.arange(30.0), np.arange(30.0)
        g(mine[:20], mine[10:])
        f(theirs[:20], theirs[10:])
    np.testing.assert_allclose(mine, theirs, rtol=1e-13)


def test_elements_that_are_replaced_one_by_one_are_so_in_place() -> None:
    for f, count in ((doubled, 1), (filled, 1), (turned_round, 0), (summed, 0)):
        program = lower(donated(f), Options())
        assert len(program.main.attrs.get("donated", ())) == count, f.__name__


@pytest.mark.parametrize("shape", [(1000, 3), (997, 3), (64, 33), (2, 500, 4), (3000000,)], ids=str)
def test_short_rows_are_replaced_in_place(shape: tuple[int, ...]) -> None:
    """Also as one long row, whose last part then must not overlap its neighbour."""
    x, y = np.random.default_rng(0).random((2, *shape))
    mine, theirs = x.copy(), x.copy()
    g = minicc.jit(doubled)
    g(mine, y)
    doubled(theirs, y)
    np.testing.assert_allclose(mine, theirs, rtol=1e-13)
    if x.size % 8 == 0:
        made = g.lower(mine, y).module
        assert len(lower(made, Options(target="avx512")).main.attrs["donated"]) == 1


def test_one_of_two_may_not_be_written_to() -> None:
    g = minicc.jit(filled)
    x, y = arguments(0)
    g(x.copy(), y.copy())
    y.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        g(x, y)
