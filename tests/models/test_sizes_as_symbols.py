"""Sizes of arrays are symbols from the second size on: one program serves them all.

Each function is called with several sizes in one session, beside NumPy, and compilations are
counted: one for the first call's own sizes, and one for all others.
"""

import inspect
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minicc.api.jitted
from minicc.api.graph_programs import GraphProgram

SIZES = (10, 20, 33, 64, 5, 7, 8, 9, 15, 16, 17, 31, 32, 129)
SMALL = (2, 0, 1, 3)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was compiled."""
    made: list[Any] = []

    def noted(module: Any, *rest: Any) -> GraphProgram:
        made.append(module)
        return GraphProgram(module, *rest)

    monkeypatch.setattr(minicc.api.jitted, "GraphProgram", noted)
    return made


def outcome(f: Any, args: Any) -> Any:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy, for means of nothing
        try:
            return f(*args)
        except ValueError as error:
            return str(error)


def same(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    if isinstance(a, tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    elif isinstance(a, np.ndarray):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.strides == b.strides or not a.size
        np.testing.assert_allclose(a, b, rtol=1e-10)
    else:
        assert a == b or np.isclose(a, b, equal_nan=True)


def arrays(*shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(sum(map(sum, shapes)))
    return [rng.random(shape) for shape in shapes]


def agree(f: Any, calls: Any) -> Any:
    """A jitted function that was called with arguments beside the function itself."""
    mine = minicc.jit(f)
    for call in calls:
        theirs = [a.copy() if isinstance(a, np.ndarray) else a for a in call]
        ours = [a.copy() if isinstance(a, np.ndarray) else a for a in call]
        wanted = outcome(f, theirs)
        same(outcome(mine, ours), wanted)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b)
    return mine


def elementwise(x: Any, y: Any) -> Any:
    return x * 2 + np.sqrt(y), x > y


def reductions(x: Any, y: Any) -> Any:
    return x.sum(), y.mean(axis=0), x.std(), y.max(), x.argmin(), y.prod()


def product(x: Any, y: Any) -> Any:
    return x @ y, np.outer(x, y), np.dot(x, y)


def stencil(x: Any, y: Any) -> None:
    for _ in range(1, 6):
        y[1:-1] = 0.33333 * (x[:-2] + x[1:-1] + x[2:])
        x[1:-1] = 0.33333 * (y[:-2] + y[1:-1] + y[2:])


def recurrence(x: Any, y: Any) -> Any:
    n = x.shape[0]
    s = np.zeros(n)
    for i in range(1, n):
        s[i] = s[i - 1] * 0.5 + x[i] * y[n - i]
    return s


def in_place(x: Any, y: Any) -> None:
    x[1:] += y[:-1]
    y *= 2
    y[x > 0.5] = 0


def of_sizes(x: Any, y: Any) -> Any:
    return x.nbytes, x.shape[0], x.sum() / x.size, len(y) * 2, x[: len(x) // 2] * y.shape[0] ** 2


def made(x: Any, y: Any) -> Any:
    n = len(x)
    return (np.zeros(n) + np.arange(n) * x, np.eye(n), np.full(y.shape, 3.0), np.ones((n, 2)),
            np.zeros_like(x), np.linspace(0, 1, n) + y)  # fmt: skip


def moved(x: Any, y: Any) -> Any:
    return (np.concatenate([x, y]), np.stack([x, y], 1), np.roll(x, 1), x[::-1] + y, np.pad(y, 1),
            x[:, None] + y[None], y.reshape(-1, 1) * x, np.where(x > y, x, -1),
            np.diff(x))  # fmt: skip


def grids(x: Any, y: Any) -> Any:
    n, levels = len(x), np.arange(3.0)
    down, right = np.mgrid[:n, 1:4]
    rows, columns = np.ogrid[-n : n + 1, 0 : 2 * n : 3]
    right += 1
    around = rows * rows + columns * columns <= n * n
    return (down * x[:, None] + right, around, np.mgrid[2:n].sum(), np.indices((n, 2)).sum(1),
            np.indices((2, n), np.float32, sparse=True)[1] * x, np.broadcast_to(levels, (n, 3)) + 1,
            np.broadcast_arrays(levels[:, None], y)[0] * y)  # fmt: skip


ALL = [
    elementwise,
    reductions,
    product,
    stencil,
    recurrence,
    in_place,
    of_sizes,
    made,
    moved,
    grids,
]


@pytest.mark.parametrize("f", ALL)
def test_two_compilations_serve_all_sizes(f: Any, compiled: list[Any]) -> None:
    agree(f, [arrays((n,), (n,)) for n in SIZES])
    assert len(compiled) == 2


@pytest.mark.parametrize("f", ALL)
def test_sizes_that_guards_exclude_are_numpys_too(f: Any, compiled: list[Any]) -> None:
    agree(f, [arrays((n,), (n,)) for n in (*SIZES[:2], *SMALL, *SIZES[2:])])


def rows_and_columns(a: Any) -> Any:
    e = np.exp(a - a.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True), a.T @ a.sum(1), np.triu(a * 2), a.sum(0)


def turned(a: Any) -> Any:
    return (
        a.T * 2,
        a.T + a.T,
        np.add(a.T, 1),
        a.T.copy(),
        np.transpose(a),
        (a.T @ a[:, 0]).T,
        a[::-1].T,
    )


def of_rows(a: Any) -> Any:
    total = np.zeros(a.shape[1])
    for row in a:
        total += row
    return total


def triangle(a: Any) -> None:
    n = a.shape[0]
    for i in range(n):
        for j in range(min(i, a.shape[1])):
            a[i, j] -= a[i, :j] @ a[:j, j]


@pytest.mark.parametrize("f", [rows_and_columns, of_rows, turned])
def test_rows_and_columns_are_symbols_of_their_own(f: Any, compiled: list[Any]) -> None:
    shapes = [(5, 4), (8, 16), (100, 13), (33, 65), (16, 64), (40, 39)]
    agree(f, [arrays(s) for s in shapes])
    assert len(compiled) <= 3  # a shape may fail a guard of the order of two sizes


def test_loops_within_loops_have_bounds_of_sizes(compiled: list[Any]) -> None:
    agree(triangle, [arrays((n, n)) for n in (10, 16, 33, 7, 20)])
    assert len(compiled) == 2


def test_slices_from_a_round_to_the_end_are_of_sizes(compiled: list[Any]) -> None:
    def f(a: Any, b: Any) -> None:
        for i in range(b.shape[0]):
            for j in range(b.shape[1]):
                b[i, j] += np.dot(a[i + 1 :, i], b[i + 1 :, j])

    agree(f, [arrays((n, n), (n, n + 2)) for n in (10, 14, 17, 9)])
    assert len(compiled) == 2


def test_a_size_that_stays_is_a_number(compiled: list[Any]) -> None:
    f = agree(lambda x, w: np.maximum(x @ w, 0), [arrays((n, 24), (24, 8)) for n in SIZES])
    assert len(compiled) == 2
    assert "argument w is float64[24,8]" in str(f.explain())


def test_a_number_that_is_a_size_is_that_symbol(compiled: list[Any]) -> None:
    def f(n: int, x: Any) -> Any:
        s = np.zeros(n)
        for i in range(n - 1):
            s[i] = x[i] * i + x[i + 1]
        return s

    agree(f, [(n, *arrays((n,))) for n in SIZES])
    assert len(compiled) == 2
    agree(f, [(9, *arrays((9,))), (12, *arrays((12,))), (12, *arrays((20,)))])


def test_what_python_asks_of_a_size_is_a_guard(compiled: list[Any]) -> None:
    def f(x: Any) -> Any:
        return x + 1 if x.shape[0] > 12 else x - 1

    mine = agree(f, [arrays((n,)) for n in (20, 40, 30, 13, 12, 5, 7, 11, 100, 13)])
    assert len(compiled) == 4
    assert "$d0 - 13 is not negative" in str(mine.explain())


def test_a_size_that_python_needs_is_a_number(compiled: list[Any]) -> None:
    def f(x: Any) -> Any:
        return x * len(str(x.shape[0]))

    mine = agree(f, [arrays((n,)) for n in (5, 7, 50, 500)])
    assert len(compiled) == 4
    assert "no program for all sizes" in str(mine.explain())


def test_what_broadcasts_otherwise_is_numpys(compiled: list[Any]) -> None:
    shapes = [((5,), (5,)), ((7,), (7,)), ((9,), (1,)), ((9,), (4,)), ((1,), (8,)), ((8,), (8,))]
    agree(lambda x, y: x + y, [arrays(*s) for s in shapes])


def test_arrays_that_are_equally_long_by_chance_are_told_apart(compiled: list[Any]) -> None:
    shapes = [(4, 4), (6, 6), (6, 9), (5, 12), (3, 7), (8, 8)]
    agree(lambda a: a.sum(axis=0) * a.shape[0], [arrays(s) for s in shapes])
    assert len(compiled) <= 4


def test_sizes_with_breaks_have_programs_of_their_own(compiled: list[Any]) -> None:
    def f(x: Any) -> Any:
        return x * 2 if x.sum() > 3 else np.unique(x)

    mine = agree(f, [arrays((n,)) for n in (3, 12, 20, 5)])
    shown = str(mine.explain())
    assert "\n  - no program for all sizes" in shown
    assert "\n  1. first call" in shown


def test_views_of_arguments_are_views_for_all_sizes() -> None:
    mine = minicc.jit(lambda x: (x[1:-1], x.reshape(-1, 1), x * 2))
    for n in SIZES:
        x = np.arange(float(n))
        part, column, double = mine(x)
        assert np.shares_memory(part, x)
        assert np.shares_memory(column, x)
        assert part.shape == (n - 2,)
        assert column.shape == (n, 1)
        assert not np.shares_memory(double, x)


def test_views_that_end_at_a_size_are_views_too() -> None:
    mine = minicc.jit(lambda x: (x[: x.shape[0] // 2], x[1 : len(x) - 1][::-1]))
    for n in SIZES[:5]:
        x = np.arange(float(n))
        half, turned = mine(x)
        assert np.shares_memory(half, x)
        assert half.tolist() == x[: n // 2].tolist()
        assert turned.tolist() == x[1:-1][::-1].tolist()


def test_a_captured_value_that_changes_is_guarded_for_all_sizes() -> None:
    scale = 2.0
    mine = minicc.jit(lambda x: x * scale)
    for n in SIZES:
        scale = float(n)
        assert mine(np.ones(n)).tolist() == [scale] * n


def test_explain_tells_of_symbols_and_guards() -> None:
    def f(x: Any) -> Any:
        return x[1:] * 2 if x.shape[0] > 4 else x

    text = str(agree(f, [arrays((n,)) for n in (10, 20, 30)]).explain())
    assert "float64[$d0]" in text
    assert "$d0 is a size of at least 2" in text


def test_a_product_of_free_columns_has_programs_of_its_own_sizes() -> None:
    """They are faster; where rows or sums alone are free, one program is as fast."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((24, 24))
    functions: list[tuple[Any, bool]] = [
        (lambda x: x @ w, True),
        (lambda x: (x.T @ x)[0], True),
        (lambda x: w @ x.T, False),
    ]
    for f, shared in functions:
        g = minicc.jit(f, threads=1)
        for n in (5, 9, 14, 33):
            x = rng.standard_normal((n, 24))
            np.testing.assert_allclose(g(x), f(x), rtol=1e-9, atol=1e-9)
        assert (len(g.explain().specialisations) == 2) == shared
        assert ("as many columns as a size says" in str(g.explain())) != shared


def test_the_op_that_a_free_size_sends_to_the_host_is_told() -> None:
    """Not one that runs there for any size."""

    w = np.arange(3000.0)

    def f(x: Any) -> Any:
        order = np.sort(w * x[0])
        y = x * 2
        y[:2] = order[:2]
        return np.sort(y)

    line = inspect.getsourcelines(f)[1] + 4
    compiled = minicc.jit(f, threads=1)
    for n in (300, 400):
        compiled(np.ones(n))
    assert "on the host: graph.sort" in str(compiled.explain())
    told = f"all sizes: test_sizes_as_symbols.py:{line}: graph.sort has no lowering"
    assert told in str(compiled.explain())


def _added(x: Any) -> Any:
    return (x + x.T).sum()


def _turned(x: Any) -> Any:
    x.T[...] = x.copy()
    return x.sum()


ERRORS: list[Any] = [
    _added,
    _turned,
    lambda x: np.concatenate([x, x.T]).sum(),
    lambda x: (x @ x).sum(),
    lambda x: x.reshape(3, 3).sum(),
    lambda x: np.stack([x, x.T]).sum(),
    lambda x: x[2].sum() + x[:, 4].sum(),
    lambda x: np.take_along_axis(np.stack([x, x]), x.astype(np.int64), -2).sum(),
    lambda x: np.take_along_axis(x, np.argsort(x, 1)[:, :4], 2).sum(),
    lambda x: np.take_along_axis(x, x, 1).sum(),
]


@pytest.mark.parametrize("k", range(len(ERRORS)))
def test_errors_of_some_sizes(k: int) -> None:
    """What NumPy raises for most sizes it does not for those that fit."""

    def f(x: Any) -> Any:
        try:
            return ERRORS[k](x)
        except (ValueError, IndexError):
            return x.sum() * 100

    jitted = minicc.jit(f)
    for columns in (5, 2, 7, 3, 1, 6):
        (x,) = arrays((3, columns))
        mine, theirs = x.copy(), x.copy()
        same(jitted(mine), f(theirs))
        same(mine, theirs)


RETURNED: tuple[Callable[[Any], Any], ...] = (
    lambda x: (np.shape(x), x.shape, np.size(x), x.size, len(x)),
    lambda x: (np.size(x) * 2.0, np.size(x) / 3, np.size(x) // 3, np.shape(x)[0] % 7),
    lambda x: (np.prod(x.shape), np.array(np.shape(x)), np.broadcast_shapes(x.shape, (1,))),
    lambda x: (x.max() / np.size(x), x[: np.size(x) // 2], np.full(np.shape(x), np.size(x))),
    lambda x: (np.log(np.size(x)), math.sqrt(np.size(x)), np.float64(np.size(x))),
    lambda x: (f"{np.size(x)}", [*np.shape(x)], {"n": np.size(x)}, np.size(x) in (60, 50)),
    lambda x: (np.unravel_index(5, np.shape(x)), np.arange(np.size(x)), isinstance(len(x), int)),
    lambda x: (np.shape(x[x > 0]), np.size(x[x > 0]) * 2),
)


@pytest.mark.parametrize("k", range(len(RETURNED)))
def test_what_a_function_of_numpys_says_of_a_size_is_of_each_call(k: int) -> None:
    """It was what the call had that the program was traced for."""
    f = RETURNED[k]
    jitted = minicc.jit(f, threads=1)
    for n in (60, 50, 40, 70, 60, 33):
        x = np.random.default_rng(n).standard_normal(n)
        want, have = f(x), jitted(x)
        assert [*map(type, want)] == [*map(type, have)]
        for w, h in zip(want, have, strict=True):
            np.testing.assert_equal(h, w)
            if isinstance(w, (tuple, list)):
                assert [*map(type, w)] == [*map(type, h)]


@pytest.mark.parametrize("rank", [1, 2])
def test_a_power_of_what_is_no_square_matrix_raises_as_in_numpy(rank: int) -> None:
    """A program for all sizes took the product of vectors, and no error was raised."""

    def f(x: Any) -> Any:
        np.linalg.matrix_power(x, 2)
        return x * 2

    jitted = minicc.jit(f, threads=1)
    for n in (4, 5, 8, 9, 9):
        x = np.ones((n, n + 1)[:rank])
        with pytest.raises(np.linalg.LinAlgError) as want:
            f(x)
        with pytest.raises(np.linalg.LinAlgError, match=str(want.value)):
            jitted(x)


@pytest.mark.parametrize("target", ["x86-64", "avx2"])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_the_last_parts_of_complex_rows(target: str, dtype: type) -> None:
    """Real and imaginary parts are written together, also where a target has no masks for that."""
    jitted = minicc.jit(np.tril, target=target, threads=1)
    rng = np.random.default_rng(0)
    for n in (3, 5, 7, 8, 9, 16, 17, 6):
        x: Any = (rng.normal(size=(n, n)) + 1j * rng.normal(size=(n, n))).astype(dtype)
        assert np.array_equal(jitted(x), np.tril(x))
