"""`minicc.jit` as a user meets it: results, recompilation with its reason, levels as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minicc
from minicc.ir.text.parser import parse_module

Array = np.ndarray[Any, Any]


def softmax(x: Array) -> Array:
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    out: Array = e / np.sum(e, axis=-1, keepdims=True)
    return out


def normed_mlp(x: Array, g: Array, b: Array, w1: Array, b1: Array, w2: Array) -> Array:
    m = np.mean(x, axis=-1, keepdims=True)
    v = np.mean((x - m) ** 2, axis=-1, keepdims=True)
    h = ((x - m) / np.sqrt(v + 1e-5) * g + b) @ w1 + b1
    h = 0.5 * h * (1 + np.tanh(0.7978845608 * (h + 0.044715 * h * h * h)))
    out: Array = h @ w2
    return out


def normal(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("rows", [1, 3, 17])
@pytest.mark.parametrize("columns", [1, 7, 64, 100, 1000])
def test_softmax(rows: int, columns: int) -> None:
    x = normal(rows, columns)
    got = minicc.jit(softmax, threads=1)(x)
    want = softmax(x.astype(np.float64))
    assert got.dtype == np.float32
    assert np.max(np.abs(got - want)) < 4e-7


@pytest.mark.parametrize("threads", [1, 2])
def test_normed_mlp(threads: int) -> None:
    args = (
        normal(9, 48),
        normal(48),
        normal(48),
        normal(48, 80) / 7,
        normal(80),
        normal(80, 33) / 9,
    )
    got = minicc.jit(normed_mlp, threads=threads)(*args)
    want = normed_mlp(*[a.astype(np.float64) for a in args])
    assert np.max(np.abs(got - want)) / np.max(np.abs(want)) < 2e-6


def test_a_second_call_that_fits_does_not_compile_again() -> None:
    f = minicc.jit(softmax, threads=1)
    f(normal(4, 8))
    f(normal(4, 8))
    f(normal(5, 8))
    assert f.explain().recompilations == (
        "first call", "argument x: float32[4,8] before, float32[5,8] now",
    )  # fmt: skip


SCALE = 2.0


def scaled(x: Array) -> Array:
    out: Array = x * SCALE
    return out


def test_a_changed_global_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    f = minicc.jit(scaled, threads=1)
    x = normal(10)
    assert np.array_equal(f(x), x * np.float32(2))
    monkeypatch.setitem(scaled.__globals__, "SCALE", 3.0)
    assert np.array_equal(f(x), x * np.float32(3))
    assert f.explain().recompilations[1] == "global SCALE: 2.0 before, 3.0 now"


@pytest.mark.parametrize("level", ["graph", "structured", "kernel", "program"])
def test_every_level_is_text_that_parses(level: str) -> None:
    text = minicc.jit(softmax, threads=1).lower(normal(8, 64)).as_text(level)
    assert text.startswith(f'module level = "{level}"')
    assert parse_module(text).level == level


def test_an_unknown_level() -> None:
    with pytest.raises(minicc.UserError, match="no level is called 'hlo'"):
        minicc.jit(softmax).lower(normal(8, 64)).as_text("hlo")


def test_odd_arrays_simply_work() -> None:
    f = minicc.jit(softmax, threads=1)
    x = normal(6, 16)
    want = f(x)
    for odd in (np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2], x.astype(">f4")):
        np.testing.assert_allclose(f(odd), want, 1e-6)


def test_decorator_with_options() -> None:
    @minicc.jit(threads=1, math="strict")  # type: ignore[untyped-decorator]
    def f(x: Array, y: Array) -> tuple[Array, Array]:
        return x + y, x * y

    a, b = f(normal(5), normal(5))
    assert np.array_equal(a, normal(5) + normal(5))
    assert np.array_equal(b, normal(5) * normal(5))
