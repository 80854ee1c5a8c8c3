"""Random programs of views, writes in place, element types and scalars, against NumPy.

Each gives NumPy's values, element types, shapes and kinds, shares memory with the arguments as
NumPy's results do, leaves the arguments as NumPy leaves them, and raises what NumPy raises.
"""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.sweeps import part

import minicc
from minicc.errors import UnsupportedError

Step = tuple[Callable[..., Any], int, int]


def _strided(a: Any, b: Any) -> Any:
    return np.lib.stride_tricks.as_strided(a, a.shape[:1], a.strides[:1]) if a.ndim else a


VIEWS: list[Callable[..., Any]] = [
    lambda a, b: a[1:], lambda a, b: a[::-1], lambda a, b: a[::2], lambda a, b: a.T,
    lambda a, b: a.reshape(-1), lambda a, b: a.ravel(), lambda a, b: a[None],
    lambda a, b: a[..., 0], lambda a, b: a[0], lambda a, b: a[..., -1:],
    lambda a, b: np.einsum("ii->i", a), lambda a, b: np.swapaxes(a, 0, -1),
    lambda a, b: np.asarray(a), lambda a, b: np.array(a, copy=None), lambda a, b: a.real,
    lambda a, b: a.imag, lambda a, b: a.conj(), lambda a, b: np.split(a, 2)[1],
    lambda a, b: a.view(a.dtype), lambda a, b: a.reshape(2, -1), lambda a, b: np.flip(a, -1),
    lambda a, b: np.squeeze(a), lambda a, b: np.diagonal(a), lambda a, b: np.atleast_2d(a),
    lambda a, b: a[0, ...], lambda a, b: np.asfortranarray(a), lambda a, b: np.ravel(a.T), _strided,
    lambda a, b: a.view(np.int64), lambda a, b: np.expand_dims(a, -1), lambda a, b: a[:, 1],
]  # fmt: skip
COMPUTES: list[Callable[..., Any]] = [
    lambda a, b: a + b, lambda a, b: a * 2, lambda a, b: a.copy(), lambda a, b: a.sum(),
    lambda a, b: a.sum(axis=0), lambda a, b: np.where(a == a, a, b), lambda a, b: a.astype("f4"),
    lambda a, b: a - a.mean(), lambda a, b: np.array(a), lambda a, b: np.zeros_like(a),
    lambda a, b: a.flatten(), lambda a, b: np.abs(a), lambda a, b: a[[0, 1]], lambda a, b: a @ a,
    lambda a, b: np.concatenate([a, a]), lambda a, b: np.maximum(a, 1), lambda a, b: a == b,
    lambda a, b: a**2, lambda a, b: np.zeros(3, complex), lambda a, b: np.array(2.0),
    lambda a, b: a.max(), lambda a, b: a.reshape(-1)[0], lambda a, b: np.cumsum(a),
]  # fmt: skip


def _put(key: Any, new: Any) -> Callable[..., Any]:
    def put(a: Any, b: Any) -> Any:
        a[key] = new if new is not None else b

    return put


def _mask(a: Any, b: Any) -> Any:
    a[a == a] = 3


def _add(a: Any, b: Any) -> Any:
    a += 1


def _multiply(a: Any, b: Any) -> Any:
    a *= b


def _out(a: Any, b: Any) -> Any:
    np.add(a, 1, out=a)


def _imaginary(a: Any, b: Any) -> Any:
    a.imag = 2


WRITES: list[Callable[..., Any]] = [
    _put(0, 5), _put(slice(1, None), 6), _put(Ellipsis, 7), _put(slice(None), None),
    _put(-1, None), _put([0, 1], 8), _put((Ellipsis, 0), 9), _mask, _add, _multiply, _out,
    _imaginary, lambda a, b: a.sort(), lambda a, b: a.fill(4), lambda a, b: np.copyto(a, b),
]  # fmt: skip


def program(seed: int) -> tuple[Callable[..., Any], list[Any]]:
    """A function of two arrays, and the arrays."""
    chance = random.Random(seed)
    steps: list[tuple[bool, Step]] = []
    for _ in range(chance.randrange(2, 9)):
        kind = chance.choice([VIEWS, VIEWS, COMPUTES, WRITES, WRITES])
        step = chance.choice(kind), chance.randrange(99), chance.randrange(99)
        steps.append((kind is not WRITES, step))
    rng = np.random.default_rng(seed)
    dtype = chance.choice(["f8", "f8", "f4", "i8", "u1", "c16", "i4", "?"])
    shape = chance.choice([(4,), (4, 4), (2, 4), (4, 2, 2), (), (1, 4)])
    arrays = [np.asarray(rng.integers(0, 5, shape)).astype(dtype) for _ in range(2)]
    if chance.random() < 0.3:
        arrays[0] = np.asfortranarray(arrays[0])
    if len(shape) == 2 and chance.random() < 0.2:
        arrays[0] = np.repeat(arrays[0], 2, axis=1)[:, ::2]

    def f(x: Any, y: Any) -> Any:
        held = [x, y]
        for gives, (step, i, k) in steps:
            made = step(held[-1 - i % min(3, len(held))], held[k % len(held)])
            if gives:
                held.append(made)
        return held

    return f, arrays


def outcome(f: Callable[..., Any], arrays: list[Any]) -> Any:
    """The results, or what was raised."""
    try:
        with np.errstate(all="ignore"):
            return f(*arrays)
    except UnsupportedError:
        raise
    except Exception as error:  # whatever NumPy raises
        return error


def differences(got: Any, wanted: Any, mine: list[Any], theirs: list[Any]) -> list[str]:
    """What of two outcomes is not the same."""
    if isinstance(wanted, Exception):
        same = isinstance(got, type(wanted)) or isinstance(wanted, type(got))
        found = [] if same else [f"{got!r} for {wanted!r}"]
    elif isinstance(got, Exception):
        return [f"{got!r} for a result"]
    else:
        found = [f"result {k}: {d}" for k, (g, w) in enumerate(zip(got, wanted, strict=True))
                 for d in _differs(g, w)]  # fmt: skip
        for k, (g, w) in enumerate(zip(got, wanted, strict=True)):
            for j in range(2):
                shares = [isinstance(r, np.ndarray) and np.may_share_memory(r, a[j])
                          for r, a in ((g, mine), (w, theirs))]  # fmt: skip
                if shares[0] != shares[1]:
                    found.append(f"result {k} shares memory with argument {j}: {shares}")
            if isinstance(w, np.ndarray) and w.size and _steps(g) != _steps(w):
                found.append(f"result {k}: strides {g.strides} for {w.strides}")
    return found + [f"argument: {d}" for m, t in zip(mine, theirs, strict=True)
                    for d in _differs(m, t)]  # fmt: skip


def _steps(a: Any) -> list[int]:
    return [s for n, s in zip(a.shape, a.strides, strict=True) if n > 1]


def _differs(g: Any, w: Any) -> list[str]:
    if type(g) is not type(w):
        return [f"{type(g)} for {type(w)}"]
    if np.shape(g) != np.shape(w) or g.dtype != w.dtype:
        return [f"{g.dtype}{np.shape(g)} for {w.dtype}{np.shape(w)}"]
    near = np.allclose(g, w, rtol=1e-5 if w.dtype == "f4" else 1e-12, atol=1e-12, equal_nan=True)
    return [] if near else [f"{g} for {w}"]


def tried(seed: int) -> list[str]:
    """The differences that one program shows, called twice."""
    f, arrays = program(seed)
    theirs = [a.copy("K") for a in arrays]
    wanted = outcome(f, theirs)
    jitted = minicc.jit(f, threads=1)
    for _ in range(2):
        mine = [a.copy("K") for a in arrays]
        try:
            got = outcome(jitted, mine)
        except UnsupportedError:
            return []
        found = differences(got, wanted, mine, theirs)
        if found:
            return found
    return []


@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
@pytest.mark.parametrize("seed", part(range(40), 6))
def test_random_views(seed: int) -> None:
    assert tried(seed) == []


SEEDS = (5108, 5535, 5801, 5806, 1443, 10083, 10587, 11844, 12612, 13725, 15016, 20621, 30099,
         30123, 30623, 30749, 40239, 42001, 50154, 50178, 51353, 60580, 61280,
         61623, 71472, 72074, 72136, 80015, 81560)  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_programs_that_once_differed(seed: int) -> None:
    assert tried(seed) == []


def test_arrays_made_to_lie_otherwise_are_copies() -> None:
    def f(x: Any) -> Any:
        v, w, u = np.ascontiguousarray(x.T), np.asarray(x, order="F"), np.asarray(x, order="C")
        v[0], w[0], u[1] = 5, 9, 3
        return v, w, u, x

    arrays = [np.arange(6.0).reshape(2, 3) for _ in range(2)]
    for got, want in zip(minicc.jit(f, threads=1)(arrays[0]), f(arrays[1]), strict=True):
        assert np.array_equal(got, want)
        assert got.strides == want.strides


def test_a_shape_is_set_in_place() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        z = y * 1j
        y.shape = z.shape = (-1,)
        y[0] = 7
        return y, z

    for got, want in zip(
        minicc.jit(f, threads=1)(np.ones((2, 3))), f(np.ones((2, 3))), strict=True
    ):
        assert np.array_equal(got, want)


def test_scalars_are_keys() -> None:
    def f(x: Any) -> Any:
        counts: dict[Any, int] = {}
        for v in x:
            counts[v] = counts.get(v, 0) + 1
        return list(counts.values())

    compiled = minicc.jit(f, threads=1)
    for x in (np.array([1.0, 2, 1]), np.array([3.0, 2, 1])):
        assert compiled(x) == f(x)
