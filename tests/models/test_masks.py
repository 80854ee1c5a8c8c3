"""Elements that a mask takes: computed on, reduced and put back in the graph, else by NumPy."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minicc

Array = Any
R = np.random.default_rng(5)
X, Y = R.normal(size=(40, 3)), R.normal(size=40)


def _put_back(x: Array, y: Array) -> None:
    x[x > 0] = x[x > 0] ** -1.5


def _added(x: Array, y: Array) -> None:
    y[y > 0] += 3
    x[y < 0, 1] *= 2
    x[0, x[0] > 0] = 7


def _by_places(x: Array, y: Array) -> Any:
    where = np.where(y > 0.5)
    rows, columns = np.nonzero(x > 1)
    y[where] = 0.5
    x[rows, columns] -= 1
    return y[where].sum() + np.flatnonzero(x < 0).sum(), rows.max()


def _rows(x: Array, y: Array) -> Any:
    few = x[y > 0]
    return few.sum(), few.mean(axis=0), (few * 2 - few[0:0].sum()).sum(axis=0)


def _changed_after(x: Array, y: Array) -> Any:
    taken = y[y > 0]
    y[:] = 1
    taken += 1
    return taken.sum(), y.sum()


def _of_two(x: Array, y: Array) -> Any:
    taken = y[y > 0]
    return taken[taken < 1].sum(), (x[:, 0][y > 0] * taken).sum(), np.count_nonzero(taken > 1)


def _in_rounds(x: Array, y: Array) -> Any:
    out = np.zeros(30)
    for i in range(30):
        inside = np.logical_and(i / 30 - 1 <= y, y < 1)
        out[i] = y[inside].mean() + x[inside, 0].max()
        x[inside] = x[inside] * 0.5 + i
    return out


def _at_places(x: Array, y: Array) -> Any:
    """Elements at places that a mask takes: those that it does not take may be outside."""
    at, to = (np.round(9 * y) % 61).astype(int), (np.round(5 * y) % 3).astype(int)
    inside, shown = at < 40, np.zeros(40)
    shown[inside] = y[at[inside]] * 2
    found = x[at[inside], to[inside]].max(), x[at[inside] - 40, 1:].sum(axis=0)
    rows = [x[0, to[to > k]].sum() for k in range(3)]
    return shown, *found, *rows, y[np.flatnonzero(y[:-1] > 0) + 1].mean()


def _turned(x: Array, y: Array) -> Any:
    """Pixels of a turned image, in rounds."""
    down, along = np.mgrid[:6, :6] - 2.5
    image, out = y[:36].reshape(6, 6), np.zeros((5, 6))
    for k in range(5):
        rows = np.round(np.cos(k) * down - np.sin(k) * along + 2.5).astype(int)
        columns = np.round(np.sin(k) * down + np.cos(k) * along + 2.5).astype(int)
        inside = (rows >= 0) & (rows < 6) & (columns >= 0) & (columns < 6)
        turned = np.zeros((6, 6))
        turned[inside] = image[rows[inside], columns[inside]]
        out[k] = turned.sum(axis=0)
    return out


IN_THE_GRAPH: list[Callable[..., Any]] = [
    _put_back, _added, _by_places, _changed_after, _of_two, _at_places, _turned,
    lambda x, y: (x[x > 0].mean(), x[x > 0].std(), x[x < 0].min(), x[x > 0].astype("f4").var()),
    lambda x, y: ((x[x > 0] > 1).any(), (y[y > 0] > 0).all(), x[x > 9].sum(), x[x > 9].prod()),
    lambda x, y: np.round(np.clip(y[y > 0], 0.1, 0.9), 2).sum(),
    lambda x, y: np.where(y[y > 0] > 1, 1.0, y[y > 0]).sum(),
]  # fmt: skip
COUNTED: list[Callable[..., Any]] = [
    lambda x, y: [float(v) for v in y[y > 0]],
    _rows,
    lambda x, y: y[y > 0],
    lambda x, y: (y[y > 0] ** 2, len(y[y > 0]), y[y > 0].shape),
    lambda x, y: y[y > 0].cumsum(),
    lambda x, y: y[y > 0] * y[y > 0][0],
    lambda x, y: np.where(x > 0),
    lambda x, y: y[np.where(y > 0)[0] // 2],
    lambda x, y: np.stack(np.nonzero(x > 0)) + y.size,
    lambda x, y: np.argwhere(x > 0) * 2,
    lambda x, y: ((x + 1j)[x > 0] * 2j, (x[:, 0] - 1j * y)[np.flatnonzero(y > 0)]),
    lambda x, y: (np.extract(x > 0, x), np.extract(y.astype(int), y), np.compress(y > 0, y)),
    lambda x, y: np.diff(np.flatnonzero(y > 0)),
    lambda x, y: np.concatenate([x[x > 0][1:], y]),
    lambda x, y: x[y > 0][:, ::-1] if len(y[y > 0]) > 3 else y,
    lambda x, y: np.outer(y[y > 0], y[y > 0.5]).sum(axis=0),
    lambda x, y: np.flatnonzero(y > 0) if len(np.flatnonzero(y > 0)) > 3 else x,
]  # fmt: skip
BY_NUMPY: list[Callable[..., Any]] = [
    lambda x, y: sum(y[y > 0]),
    lambda x, y: x[y > 0, 1:] @ np.ones(2),
    lambda x, y: np.sort(x[:, y[:3] > 0]),
]


def check(f: Callable[..., Any]) -> int:
    """How many breaks there were; the results and arguments are NumPy's."""
    want_args, got_args = copy.deepcopy((X, Y)), copy.deepcopy((X, Y))
    with np.errstate(all="ignore"):
        want = f(*want_args)
    fast = minicc.jit(f)
    for _ in range(2):
        got_args = copy.deepcopy((X, Y))
        got = fast(*got_args)
        pairs = zip(want, got, strict=True) if isinstance(want, tuple) else [(want, got)]
        for w, g in pairs:
            assert type(w) is type(g)
            if w is not None:
                np.testing.assert_allclose(g, w, rtol=1e-6)
        for w, g in zip(want_args, got_args, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-12)
    return len(fast.explain().breaks)


@pytest.mark.parametrize("k", range(len(IN_THE_GRAPH)))
def test_what_needs_no_count_is_compiled(k: int) -> None:
    assert check(IN_THE_GRAPH[k]) == 0


@pytest.mark.parametrize("k", range(len(BY_NUMPY)))
def test_what_needs_the_elements_is_numpys(k: int) -> None:
    assert check(BY_NUMPY[k]) > 0


@pytest.mark.parametrize("k", range(len(COUNTED)))
@pytest.mark.usefixtures("however_little")
def test_a_symbol_says_how_many_elements_there_are(k: int) -> None:
    f, draw = COUNTED[k], np.random.default_rng(k)
    assert check(f) == 0
    fast = minicc.jit(f, threads=1)
    # many, one and none, all, in several sizes
    for size, low, high in (40, -1, 1), (40, -2, 0.3), (40, -2, -1), (40, 1, 2), (47, -1, 1):
        x, y = draw.uniform(low, high, (size, 3)), draw.uniform(low, high, size)
        if low == -2:
            y[9] = 0.5
        with np.errstate(all="ignore"):
            _same(fast, f, x, y)
    known = fast.explain()
    assert not known.breaks
    assert "graph.nonzero" in str(known)
    assert known.traced <= 2


def _same(fast: Callable[..., Any], f: Callable[..., Any], *args: Any) -> None:
    try:
        want = f(*args)
    except (ValueError, IndexError) as error:
        with pytest.raises(type(error), match=re.escape(str(error))):
            fast(*args)
        return
    got = fast(*args)
    pairs = zip(want, got, strict=True) if isinstance(want, tuple) else [(want, got)]
    for w, g in pairs:
        assert type(w) is type(g)
        np.testing.assert_allclose(g, w, rtol=1e-6)
        if isinstance(w, np.ndarray):
            assert (w.dtype, w.strides) == (g.dtype, g.strides)


@pytest.mark.usefixtures("however_little")
def test_a_program_that_many_masks_are_too_small_for_is_let_go() -> None:
    fast = minicc.jit(lambda y: np.flatnonzero(y > 0), threads=1)
    y = np.linspace(-1, 1, 40)
    for _ in range(3):
        np.testing.assert_array_equal(fast(y), range(20, 40))
    assert fast.explain().traced == 1
    for _ in range(8):
        assert fast(y - 2).size == 0
    np.testing.assert_array_equal(fast(y), range(20, 40))
    assert fast.explain().breaks


def test_numpy_runs_what_is_little_beside_masks() -> None:
    fast = minicc.jit(lambda y: np.flatnonzero(y > 0))
    fast(Y)
    fast.__wrapped__ = lambda y: "as it is"
    assert fast(Y) == "as it is"
    assert "little is computed" in str(fast.explain())


def test_a_loop_whose_rounds_take_by_masks_is_captured() -> None:
    assert check(_in_rounds) == 0


def test_the_greatest_of_nothing_raises_what_numpy_raises() -> None:
    fast = minicc.jit(lambda y: y[y > 1].max())
    assert fast(np.array([1.0, 3, 2])) == 3
    with pytest.raises(ValueError, match="zero-size array to reduction operation maximum"):
        fast(np.zeros(3))


def test_a_mask_of_another_shape_raises_what_numpy_raises() -> None:
    with pytest.raises(IndexError, match="boolean index did not match"):
        minicc.jit(lambda x, y: x[y[1:] > 0].sum())(X, Y)


def test_positions_that_are_changed_in_place_are_none_any_more() -> None:
    def f(x: Any) -> Any:
        places = x.nonzero()[0]
        places += 1
        rows, columns = np.nonzero(np.outer(x, x))
        columns <<= 1
        (found,) = np.where(x > 2)
        found -= 1
        return places, rows, columns, x[found], x[places - 1], found.sum()

    x = np.array([3, 0, 5, 6, 0, 1])
    for got, want in zip(minicc.jit(f)(x), f(x), strict=True):
        np.testing.assert_array_equal(got, want)


def _after_rises(x: Any) -> Any:
    k = np.where(np.diff(x) > 0)[0]
    return x[k + 1] - x[k], x[k].mean(), np.diff(k)


def _written_before_falls(x: Any) -> Any:
    y, k = x.copy(), np.flatnonzero(x[1:] < 0)
    y[k] = 0
    y[k] += 1
    return y


def _in_a_corner(x: Any) -> Any:
    table = x.reshape(20, 20)
    rows, columns = np.where(table[:-1, 2:] > 0.5)
    return table[rows, columns].sum(), table[rows].max(), table[rows, 1].sum()


def _crossings(x: Any) -> Any:
    k = np.where(np.diff(np.sign(x)) != 0)[0]
    times = k - x[k] / (x[k + 1] - x[k])
    return times, len(times), np.diff(times).mean()


@pytest.mark.parametrize(
    "f", [_after_rises, _written_before_falls, _in_a_corner, _crossings], ids=lambda f: f.__name__
)
def test_positions_in_a_smaller_array(f: Callable[..., Any]) -> None:
    """They were taken for those of a mask of the whole, which has another shape."""
    jitted = minicc.jit(f, threads=1)
    for seed in range(3):
        x = np.random.default_rng(seed).normal(size=400)
        for got, want in zip(_several(jitted(x.copy())), _several(f(x.copy())), strict=True):
            np.testing.assert_allclose(got, want)
    assert "boolean index" not in str(jitted.explain())


def _several(x: Any) -> Any:
    return x if isinstance(x, tuple) else (x,)


def test_positions_in_a_larger_array() -> None:
    def f(x: Any, y: Any) -> Any:
        return y[np.where(x > 0)[0]].sum()

    x, y = np.array([1.0, 1.0, -1.0, -1.0]), np.array([5.0, 6.0])
    jitted = minicc.jit(f, threads=1)
    assert jitted(x, y) == 11
    with pytest.raises(IndexError, match="out of bounds"):
        jitted(-x, y)


def test_a_place_that_a_mask_takes_is_outside() -> None:
    def f(x: Any, at: Any, mask: Any) -> Any:
        return x[at[mask]].sum()

    x, at, mask = np.arange(5.0), np.array([1, -9, 4, 7]), np.array([True, False, True, False])
    jitted = minicc.jit(f, threads=1)
    assert jitted(x, at, mask) == 5
    for taken in (~mask, mask | True):
        with pytest.raises(IndexError) as want:
            f(x, at, taken)
        with pytest.raises(IndexError) as got:
            jitted(x, at, taken)
        assert str(got.value) == str(want.value)
    assert jitted(x[:0], at, mask & False) == 0
