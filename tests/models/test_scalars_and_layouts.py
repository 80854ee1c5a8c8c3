"""Arrays without axes are written in place, scalars are not; layouts say what is a view."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minicc
from minicc.target import TARGETS


def summed(acc: Any, x: Any) -> Any:
    acc += x.sum()


def local(acc: Any, x: Any) -> Any:
    t = np.zeros(())
    u = t
    t += x.sum()
    v = np.asarray(u)
    v *= 2
    s = x.sum()
    r = s
    s += 1
    return u, r, s, np.asarray(x.flat[0]), x.reshape(-1)[0, ...], np.where(r > 0, r, s)


def kinds(acc: Any, x: Any) -> Any:
    one = x.reshape(-1)[0]
    told = [
        isinstance(x.sum(), np.floating), isinstance(one, float), isinstance(one, np.ndarray),
        isinstance(x, np.ndarray), isinstance(acc, np.ndarray), isinstance(acc, float),
        isinstance(x.argmax(), np.integer), isinstance(x.any(), np.bool_),
    ]  # fmt: skip
    return told, x.sum()


def same(acc: Any, x: Any) -> Any:
    return (acc * 10 if acc is x else acc), x


def ravelled(acc: Any, x: Any) -> Any:
    y = x * 2
    y.ravel()[0] = 100
    z = x.copy()
    z.reshape(-1)[0] = 50
    w = np.add(x, x.T).T
    w.reshape(-1)[1] = 7
    return y, z, w


C = np.array([[3, 1.0], [2, 5]])


@pytest.mark.parametrize("f", [summed, local, kinds, same, ravelled], ids=lambda f: f.__name__)
@pytest.mark.parametrize("x", [C, np.asfortranarray(C), np.ones((4, 4))[::2, ::2]])
def test_as_numpy_does(f: Callable[..., Any], x: Any) -> None:
    plain = np.array(0.5)
    wanted = f(plain, x.copy("K"))
    jitted = minicc.jit(f, threads=1)
    for _ in range(2):
        given = np.array(0.5)
        got = jitted(given, x.copy("K"))
        assert given == plain
        assert str(got) == str(wanted)
        assert [type(v) for v in got or ()] == [type(v) for v in wanted or ()]


def test_one_array_given_twice_is_one() -> None:
    def f(a: Any, b: Any) -> Any:
        a += 1
        return b * 2 if a is b else b

    jitted = minicc.jit(f)
    x, y = np.ones(3), np.ones(3)
    assert jitted(x, y).tolist() == [1, 1, 1]
    assert jitted(x, x).tolist() == [6, 6, 6]
    assert x.tolist() == [3, 3, 3]


def test_a_scalar_is_another_argument_than_an_array_without_axes() -> None:
    def f(a: Any) -> Any:
        b = a
        b += 1
        return a, b

    jitted = minicc.jit(f)
    for given in (np.array(1.0), np.float64(1.0)):
        wanted = [float(v) for v in f(given.copy())]
        assert [float(v) for v in jitted(given)] == wanted


def test_numpy_lays_out_by_gaps_too() -> None:
    def f(x: Any) -> Any:
        return [np.pad(x.diagonal(), 1), np.zeros_like(x.diagonal()), x.diagonal() + 1]

    x = np.ones((2, 6, 5))
    assert [a.strides for a in minicc.jit(f)(x)] == [a.strides for a in f(x)]


@pytest.mark.parametrize("target", [name for name, t in TARGETS.items() if t.runs_here()])
def test_bytes_seen_as_booleans_are_true_where_they_are_not_zero(target: str) -> None:
    def f(b: Any) -> Any:
        return (
            b[::-1].copy(), np.concatenate([b, b]), b.reshape(3, 8).T.copy(), b & True, ~b,
            np.where(b, 1, 2), b.astype(int), b.sum(), b[3:].any(), b[1:3].copy(),
        )  # fmt: skip

    b = np.array([0x80, 2, 255, 254, 0, 1, 3, 128] * 3, np.uint8).view(bool)
    for got, want in zip(minicc.jit(f, target=target)(b), f(b), strict=True):
        np.testing.assert_array_equal(np.not_equal(got, 0), np.not_equal(want, 0))
