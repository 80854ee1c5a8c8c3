"""Calls that machine code looks at: like the last ones, and never taken for others."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minicc
from minicc.api.jitted import Jitted
from minicc.runtime import direct
from minicc.runtime.direct_code import VALUE

A = np.arange(6.0)
SCALE = 2.0
OBJECT = object()


def expected(f: Callable[..., Any], *args: Any) -> Jitted:
    """A function that machine code calls with arguments like these."""
    jitted: Jitted = minicc.jit(f, threads=1)
    for _ in range(4):
        jitted(*args)
    assert any(cache.direct is not None for cache in jitted._inline.known)
    return jitted


def served(jitted: Jitted, *args: Any) -> bool:
    """Whether machine code takes a call."""
    found = [cache.direct for cache in jitted._inline.known if cache.direct is not None]
    assert found
    return any(direct.outputs(*args) is not None for direct in found)


def test_arrays_of_another_kind_are_left_alone() -> None:
    f = expected(lambda x, y: x * 2 + y, A, A + 1)
    assert served(f, A, A + 3)
    others = (
        *(A.astype(np.float32), A.astype(">f8"), A[:5], A[::-1], np.arange(12.0)[::2], A[None]),
        *(
            A.reshape(2, 3),
            A.view(np.matrix),
            A.tolist(),
            1.0,
            None,
            np.float64(1),
            A.view(np.int64),
        ),
        np.frombuffer(b"\0" + A.tobytes(), np.float64, offset=1),
    )
    for other in others:
        assert not served(f, A, other)
        assert not served(f, other, A)
    assert not served(f, A, A)  # one array twice
    assert not served(f, A)
    assert not served(f, A, A + 1, A + 2)
    np.testing.assert_array_equal(f(A, A), A * 3)
    np.testing.assert_array_equal(f(y=A, x=A + 1), A * 3 + 2)


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (2, 1, 3)])
@pytest.mark.parametrize("element", [np.float32, np.int8, np.bool_, np.complex128])
def test_shapes_and_elements(shape: tuple[int, ...], element: type) -> None:
    x: Any = np.ones(shape, element)
    f = expected(lambda x: (x + x, [x * x, 3], x.sum()), x)
    assert served(f, x.copy())
    got, want = f(x), (x + x, [x * x, 3], x.sum())
    assert [type(v) for v in got] == [type(v) for v in want]
    np.testing.assert_array_equal(got[0], want[0])
    np.testing.assert_array_equal(got[1][0], want[1][0])
    assert got[2] == want[2]


@pytest.mark.parametrize(
    "constant", [0.0, -0.0, float("nan"), 3, -5, (1 << 63) - 1, True, "s", None]
)
def test_constants_are_the_same_bit_by_bit(constant: Any) -> None:
    """The kind of a number decides what is done, so it is a constant."""
    f = expected(lambda x, c: (x * 2, repr(c)), A, constant)
    others = [0.0, -0.0, float("nan"), 1, 3, -5, 1 << 63, 1 << 70, True, False, "s", "t", None, 3.0]
    for other in others:
        assert served(f, A, other) == (repr(other) == repr(constant))
        assert f(A, other)[1] == repr(other)


@pytest.mark.parametrize("kind", [float, int])
def test_numbers_that_move(kind: type) -> None:
    jitted = minicc.jit(lambda x, t: x * t + t, threads=1)
    for k in range(6):
        np.testing.assert_array_equal(jitted(A, kind(k)), A * k + k)
    assert served(jitted, A, kind(100))
    others = (1 << 70, True, np.float64(2), 2 if kind is float else 2.0, "s")
    assert not any(served(jitted, A, other) for other in others)
    for value in (kind(-7), kind(1 << 40), 3, 2.5, True):
        np.testing.assert_array_equal(jitted(A, value), A * value + value)


SCALARS = [
    *(np.bool_, np.int8, np.uint16, np.int32, np.uint64, np.int64),
    *(np.float16, np.float32, np.float64, np.complex64, np.complex128),
]


@pytest.mark.parametrize("kind", SCALARS)
def test_scalars_of_numpys(kind: type) -> None:
    def f(x: Any, t: Any) -> Any:
        return x * t, t + t, t

    jitted = expected(f, A, kind(1))
    for value in np.array([0, 1, 3, 7, 50]).astype(kind):
        assert served(jitted, A, value)
        for got, want in zip(jitted(A, value), f(A, value), strict=True):
            assert type(got) is type(want)
            np.testing.assert_array_equal(got, want, strict=True)
    others: list[Any] = [k(1) for k in (*SCALARS, np.longdouble, int, float, bool) if k is not kind]
    for other in (*others, np.ones((), kind), np.ones(1, kind), "s", None):
        assert not served(jitted, A, other)


def test_a_value_that_lies_elsewhere_than_it_should(monkeypatch: pytest.MonkeyPatch) -> None:
    assert direct.scalar(np.float64(1.5), 0) is not None
    monkeypatch.setattr(direct, "VALUE", VALUE + 4)
    assert direct.scalar(np.float64(1.5), 0) is None


def test_arguments_that_are_given_by_name() -> None:
    jitted = minicc.jit(lambda x, by=2.0, *, more=1: x * by + more, threads=1)
    for _ in range(4):
        jitted(A, more=3, by=4.0)
    before = jitted._inline.direct
    np.testing.assert_array_equal(jitted(A, more=3, by=4.0), A * 4 + 3)
    np.testing.assert_array_equal(jitted(A, 4.0, more=3), A * 4 + 3)
    np.testing.assert_array_equal(jitted(more=3, by=4.0, x=A), A * 4 + 3)
    assert jitted._inline.direct == before + 3
    np.testing.assert_array_equal(jitted(A), A * 2 + 1)
    np.testing.assert_array_equal(jitted(A, by=4.0, more=2), A * 4 + 2)
    with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
        jitted(A, other=3)


def test_calls_of_several_kinds_in_turns() -> None:
    jitted = minicc.jit(lambda x, n: x[:n] * 2, threads=1)
    kinds = [(A, 3), (A[:5].copy(), 3), (A.astype(np.float32), 3), (A, 4)]
    for _ in range(6):
        for x, n in kinds:
            jitted(x, n)
    before = jitted._inline.direct
    for x, n in kinds:
        np.testing.assert_array_equal(jitted(x, n), x[:n] * 2, strict=True)
    assert jitted._inline.direct == before + len(kinds)


def test_calls_of_ever_other_kinds_are_looked_up() -> None:
    jitted = minicc.jit(lambda x: x * 2, threads=1)
    made = []
    for _ in range(10):
        for n in range(3, 20):
            np.testing.assert_array_equal(jitted(np.ones(n)), np.full(n, 2.0))
        made.append(jitted._inline._made)
    assert made[-1] == made[-2]  # which takes longer than to look up a call


def test_what_the_function_reads_may_be_bound_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    def scaled(x: Any, by: Any = 3.0) -> Any:
        return x * SCALE * abs(OFFSET) * by

    OFFSET = -2.0
    f = expected(scaled, A)
    assert served(f, A)
    monkeypatch.setitem(globals(), "abs", lambda x: 10.0)
    assert not served(f, A)
    np.testing.assert_array_equal(f(A), A * 60)
    monkeypatch.undo()
    np.testing.assert_array_equal(f(A), A * 12)
    OFFSET = 5.0
    np.testing.assert_array_equal(f(A), A * 30)
    monkeypatch.setitem(globals(), "SCALE", 1.0)
    np.testing.assert_array_equal(f(A), A * 15)


def test_overflows_that_are_to_raise() -> None:
    f = expected(lambda x: x / (x - 1), A + 2)
    with np.errstate(all="raise"):
        assert not served(f, A)
        with pytest.raises(FloatingPointError):
            f(A)
    assert served(f, A + 2)


def test_a_call_keeps_nothing() -> None:
    f = minicc.jit(lambda x, t: (x * t, x + t), threads=1)
    for k in range(6):
        f(A, k * 0.5)
    x, t = np.arange(6.0), 3.5
    gone, dtype = weakref.ref(x), x.dtype
    first, second = f(x, t)
    kept = [sys.getrefcount(v) for v in (x, dtype, t)]
    for _ in range(1000):
        assert served(f, x, t)
        assert not served(f, x, 1 << 70)
    assert [sys.getrefcount(v) for v in (x, dtype, t)] == kept
    held = weakref.ref(first)
    del x, first, second
    gc.collect()
    assert gone() is None
    assert held() is None


def test_the_arrays_of_the_first_calls_are_let_go() -> None:
    x = np.arange(6.0)
    f, gone = expected(lambda x: x * 2, x), weakref.ref(x)
    f(A)
    f(A)
    del x
    gc.collect()
    assert gone() is None


def test_it_is_entered_again_while_it_makes_its_results() -> None:
    f = expected(lambda x, t: x * t, A, 2.0)
    inner: list[Any] = []

    class Again:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            inner.append(f(A + 1, 3.0))

    threshold = gc.get_threshold()
    try:
        for k in range(200):
            Again()
            gc.set_threshold(1)  # what is made next collects
            np.testing.assert_array_equal(f(A, 0.5 + k), A * (0.5 + k))
            gc.set_threshold(*threshold)
    finally:
        gc.set_threshold(*threshold)
    assert inner
    for got in inner:
        np.testing.assert_array_equal(got, (A + 1) * 3)


@pytest.mark.parametrize("size", [6, 20_000])
def test_threads_call_at_once(size: int) -> None:
    """The larger one runs without the GIL, so that the plan is in use when others come."""
    x = np.arange(float(size))
    f = expected(lambda x, t: np.sin(x) * t, x, 2.0)
    wrong: list[float] = []

    def run(t: float) -> None:
        for _ in range(100):
            if not np.allclose(f(x + t, t), f.__wrapped__(x + t, t), rtol=1e-12):
                wrong.append(t)

    threads = [threading.Thread(target=run, args=(float(k),)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def add_and_sum(x: Any, y: Any, z: Any) -> Any:
    x[1:-1] += y[2:] * z[0]
    y *= 2
    return x.sum(), x * 2


def test_arguments_that_are_written_to() -> None:
    data = [np.arange(6.0) + k for k in range(3)]
    f = expected(add_and_sum, *[a.copy() for a in data])
    mine, theirs = ([a.copy() for a in data] for _ in range(2))
    for _ in range(5):
        got, want = f(*mine), add_and_sum(*theirs)
        assert got[0] == want[0]
        for a, b in zip((got[1], *mine), (want[1], *theirs), strict=True):
            np.testing.assert_array_equal(a, b)
    assert served(f, *mine)
    locked = mine[0].copy()
    locked.flags.writeable = False
    assert not served(f, locked, *mine[1:])
    assert served(f, *mine[:2], locked)
    with pytest.raises(ValueError, match="read-only"):
        f(locked, *mine[1:])


@pytest.mark.filterwarnings("ignore::minicc.errors.PerformanceWarning")
def test_arguments_that_are_written_to_lie_apart() -> None:
    f = expected(add_and_sum, *[np.arange(6.0) + k for k in range(3)])
    cases = ((0, 3, 9), (0, 9, 3), (9, 0, 3), (9, 3, 0), (0, 5, 11), (11, 5, 0), (5, 0, 11))
    for places in cases:
        line = np.arange(20.0)
        assert not served(f, *[line[k : k + 6] for k in places])
        np.testing.assert_array_equal(line, np.arange(20.0))
    assert served(f, line[6:12], line[:6], line[12:18])
    for places in cases:
        mine, theirs = np.arange(20.0), np.arange(20.0)
        parts = [mine[k : k + 6] for k in places]
        got, want = f(*parts), add_and_sum(*[theirs[k : k + 6] for k in places])
        np.testing.assert_array_equal(got[1], want[1])
        np.testing.assert_array_equal(mine, theirs)
    g = expected(lambda x, y: x * y, line[1:7], line[:6])  # which writes nothing
    assert served(g, line[3:9], line[4:10])


def test_functions_that_do_more_are_called_by_python() -> None:
    box = {"k": 0.0}

    def counts(x: Any) -> Any:
        box["k"] += 1
        return x * 2

    def gives(x: Any, y: Any) -> Any:
        x[1:] = y[1:] * 2
        return x

    def views(x: Any) -> Any:
        return x[::2]

    for f, args in ((counts, (A,)), (gives, (A.copy(), A)), (views, (A,)), (sum, ([A, A],))):
        jitted = minicc.jit(f, threads=1)
        for _ in range(4):
            jitted(*args)
        assert all(cache.direct is None for cache in jitted._inline.known)
    assert box["k"] == 4
