"""Where NumPy surprises: casts out of range, remainders, powers of booleans, exceptions."""

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import minicc
from minicc.errors import PerformanceWarning

FLOATS = np.array([-3.7, -1.0, 255.9, 300.0, 70000.0, np.nan, 3e9, -3e9])
SMALL = np.array([-128, 127, 7, 0, -1], np.int8)

CASES: list[tuple[str, Callable[..., Any], Any]] = [
    *[(f"to {t}", lambda x, t=t: x.astype(t), np.tile(FLOATS, n).astype(s))
      for t in ("u1", "i1", "u2", "i2", "i4") for n in (1, 6) for s in ("f4", "f8")],
    ("dot", lambda x: np.dot(x, 2), np.array([200], np.uint8)),
    ("fmod", lambda x: [np.fmod(x, k) for k in (3, -3)], SMALL),
    ("fmod of two", lambda x: np.fmod(x, x[::-1]), SMALL),
    ("square of truth", lambda x: x**2, np.array([True, False])),
    ("sums of 16 bits", lambda x: [np.nanmean(x), np.mean(x), np.var(x), np.nanstd(x)],
     np.full((40, 40), 100, "f2")),
    ("reciprocal", lambda x: [np.reciprocal(x.astype(t)) for t in ("i8", "i4")], np.arange(-3, 4)),
]  # fmt: skip


@pytest.mark.parametrize(("f", "x"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_as_numpy_computes(f: Callable[..., Any], x: Any) -> None:
    with np.errstate(all="ignore"):
        wanted, got = f(x), minicc.jit(f, threads=1)(x)
    many = wanted if isinstance(wanted, list) else [wanted]
    for g, w in zip(got if isinstance(got, list) else [got], many, strict=True):
        assert g.dtype == w.dtype
        assert np.array_equal(g, w)


def put(x: Any) -> Any:
    x[0] = 300


def put_list(x: Any) -> Any:
    x[:] = [1, -1, 2, 3]


RAISES: list[Callable[..., Any]] = [
    put, put_list, lambda x: x.reshape(3, 5), lambda x: x[9], lambda x: x.sum(axis=3),
    lambda x: np.concatenate([x, x.reshape(2, 2)]), lambda x: x + np.ones(3),
    lambda x: np.moveaxis(x, 3, 0), lambda x: x @ np.ones(3), lambda x: np.split(x, 3),
]  # fmt: skip


@pytest.mark.parametrize("f", RAISES)
def test_what_numpy_raises_is_raised(f: Callable[..., Any]) -> None:
    x = np.arange(4, dtype=np.uint8)
    with pytest.raises((ValueError, IndexError, OverflowError)) as wanted:
        f(x.copy())

    def caught(x: Any) -> Any:
        try:
            f(x)
        except wanted.type as error:
            return str(error)

    with pytest.raises(wanted.type) as got:
        minicc.jit(f)(x.copy())
    assert str(got.value) == str(wanted.value)
    mine, theirs = x.copy(), x.copy()
    caught(theirs)
    with warnings.catch_warnings():
        # of a list, NumPy has written the numbers before the one that does not fit
        warnings.simplefilter("ignore", PerformanceWarning)
        assert minicc.jit(caught)(mine) == str(wanted.value)
    assert mine.tolist() == theirs.tolist()


def test_what_was_written_before_an_exception_stays() -> None:
    def f(x: Any, y: Any) -> Any:
        x[0] = y.sum()
        if y[0] > 2:
            raise RuntimeError("stop")
        x[1] = 7

    jitted = minicc.jit(f)
    for first in (1.0, 3.0, 1.0, 3.0):
        x, wanted, y = np.zeros(3), np.zeros(3), np.full(2, first)
        for call, given in ((f, wanted), (jitted, x)):
            with pytest.raises(RuntimeError, match="stop") if first > 2 else nullcontext():
                call(given, y)
        assert np.array_equal(x, wanted)


@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
def test_error_states_that_stop_do_so() -> None:
    def f(x: Any) -> Any:
        with np.errstate(divide="raise"):
            return 1 / x

    with pytest.raises(FloatingPointError, match="divide by zero"):
        minicc.jit(f)(np.zeros(2))


def test_what_a_number_raises_is_told_of_the_number_itself() -> None:
    def f(y: Any, divisor: float) -> str:
        try:
            y %= divisor
        except TypeError as error:
            return str(error)
        return ""

    fast = minicc.jit(f)
    for divisor in (2.0, 3.0, 4.0):  # from the second on it would be an input
        assert fast(np.arange(7), divisor) == f(np.arange(7), divisor)


def test_results_lie_as_numpys_where_a_number_is_an_input() -> None:
    def f(y: Any, low: float) -> Any:
        return np.clip(y, low, 9.0)

    y, fast = np.asfortranarray(np.ones((2, 3, 4))), minicc.jit(f)
    for low in (0.5, 1.5, 2.5):
        assert fast(y, low).strides == f(y, low).strides


def test_the_diagonal_of_a_known_matrix_is_not_written_to() -> None:
    def f(y: Any) -> Any:
        return np.diag(np.ones_like(y, bool))

    assert f(np.ones((2, 2))).flags.writeable is False
    assert minicc.jit(f)(np.ones((2, 2))).flags.writeable is False


def put_sum(x: Any, v: Any) -> Any:
    x[0] = v.sum()
    x[1:3] = v.max() // 2
    return x


def put_in_rounds(x: Any, v: Any) -> Any:
    for i in range(len(x)):
        x[i] = x[i - 1] + v[i % 3]
    return x


def put_mean(x: Any, v: Any) -> Any:
    x.reshape(-1)[0] = v.mean()
    return x[:1]


@pytest.mark.parametrize("f", [put_sum, put_in_rounds, put_mean], ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32])
def test_scalars_that_integers_do_not_hold(f: Any, kind: Any) -> None:
    jitted = minicc.jit(f, threads=1)
    for values in ([1, 2, 3], [100, 200, 300], [-1, 1, 5], [2**40, 0, 1], [1, 2, 3]):
        seen = []
        for g in (jitted, f):
            x = np.zeros(12, kind)
            try:
                with np.errstate(all="ignore"):
                    seen.append([g(x, np.array(values)).tolist()])
            except OverflowError as error:
                seen.append([str(error), x.tolist()])
        assert seen[0] == seen[1]


def at_a_sum(x: Any, y: Any) -> Any:
    x[y.sum()] = y


def at_a_maximum(x: Any, y: Any) -> Any:
    return x[y.max()] @ np.ones(y.min())


@pytest.mark.parametrize("f", [at_a_sum, at_a_maximum], ids=lambda f: f.__name__)
def test_which_exception_comes_first(f: Any) -> None:
    jitted = minicc.jit(f, threads=1)
    for y in ([[6, 7]], [[1, 0]], [[0, 0]]):
        told = []
        for g in (jitted, f):
            with pytest.raises((IndexError, ValueError)) as caught:
                g(np.zeros((3, 3)), np.array(y))
            told.append(str(caught.value))
        assert told[0] == told[1]


def unused_read(x: Any, i: Any) -> Any:
    x[i]
    return x + 1


def unused_before_another_fault(x: Any, i: Any) -> Any:
    try:
        x[i].reshape(7, 7)
    except (IndexError, ValueError) as error:
        return str(error), x + 1


def unused_before_a_cast(x: Any, i: Any) -> Any:
    try:
        x.astype(np.uint8)[i] += np.array(2.5)
    except (IndexError, TypeError) as error:
        return str(error)


def unused_write(x: Any, i: Any) -> Any:
    y = x.copy()
    y[i] = 7
    return x * 2


def unused_write_of_pairs(x: Any, i: Any) -> Any:
    y = np.outer(x, x)
    y[i, i] = 7
    return x * 2


def unused_elements(x: Any, i: Any) -> Any:
    for k in range(20):
        x[i[k % 2]]
    return x * 2


UNUSED = [
    unused_read,
    unused_before_another_fault,
    unused_before_a_cast,
    unused_write,
    unused_write_of_pairs,
    unused_elements,
]


@pytest.mark.parametrize("f", UNUSED, ids=lambda f: f.__name__)
def test_an_index_out_of_bounds_is_told_where_nothing_uses_the_elements(f: Any) -> None:
    jitted = minicc.jit(f, threads=1)
    for i in ([1, 2], [9, 1], [0, 3], [-5, 0]):
        seen = []
        for g in (jitted, f):
            try:
                seen.append(repr(g(np.arange(4.0), np.array(i))))
            except IndexError as error:
                seen.append(str(error))
        assert seen[0] == seen[1]


def small(x: Any) -> Any:
    """What depends on denormal elements alone, and no result that is one."""
    least = x.argmax(), x.nonzero()[0], np.sort(x).argmin()
    return x > 0, x != 0, np.where(x == 0, -1, np.sign(x)), np.isclose(x, 0), *least


@pytest.mark.parametrize("element", [np.float32, np.float64])
def test_denormal_elements_are_no_zeros(element: Any) -> None:
    x = np.array([0, 1, -1, 3, 0], element) * np.finfo(element).smallest_subnormal
    for a, b in zip(minicc.jit(small)(x), small(x), strict=True):
        np.testing.assert_array_equal(a, b, strict=True)
    lost = minicc.jit(lambda x: x > 0, options=minicc.Options(keep_denormals=False))(x)
    assert not lost.any()


def masked(shape: Any) -> Any:
    def f(u: Any, m: Any) -> None:
        np.putmask(u, m.reshape(shape), np.arange(5))

    return f


@pytest.mark.parametrize("shape", [(2, 3), (3, 2), (6,), (1, 6)])
def test_masks_of_any_shape_and_of_one_size(shape: Any) -> None:
    mask = np.array([1, 0, 2, 0, 0, 3])
    a, b = np.zeros((2, 3)), np.zeros((2, 3))
    minicc.jit(masked(shape))(a, mask)
    masked(shape)(b, mask)
    np.testing.assert_array_equal(a, b)
    for run in (masked(shape), minicc.jit(masked(shape))):
        with pytest.raises(ValueError, match="putmask: mask and data must be the same size"):
            run(np.zeros(5), mask)
        with pytest.raises(
            TypeError, match=r"int64.* to dtype.'int8'. according to the rule 'safe'"
        ):
            run(np.zeros((2, 3), np.int8), mask)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("element", ["u8", "i8", "u4", "f4"])
def test_numbers_are_arrays_where_they_are_added_at_places(element: str) -> None:
    """Of u64 and i64 NumPy makes floats."""

    def f(y: Any) -> None:
        np.add.at(y, ([0, 0], [0, -1]), 1)

    a, b = (np.array([[2**63 + 5 if element == "u8" else 7, 0], [0, 8]], element) for _ in "ab")
    f(a)
    minicc.jit(f)(b)
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("n", [0, 3])
def test_what_is_made_of_constants_can_be_written_to(n: int) -> None:
    for f in (lambda: np.tile(np.ones(n), 2), lambda: np.ones(n).reshape(1, n), lambda: np.ones(n)):
        assert minicc.jit(f)().flags.writeable


def test_denormal_results_are_zeros_in_fast_mathematics() -> None:
    x = np.array([1e-20, 1], np.float32)
    halves = [minicc.jit(lambda x: x * x * x[1], math=m)(x) for m in ("fast", "strict")]
    assert halves[0].tolist() == [0, 1]
    np.testing.assert_array_equal(halves[1], x * x * x[1])
