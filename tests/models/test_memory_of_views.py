"""Writes through views of any kind reach what they show, for any element type, as NumPy's do."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minicc
from minicc.errors import PerformanceWarning

Z = np.arange(4) + 1j * np.arange(4)
R = np.arange(4.0) + 1
S = np.zeros(3, [("a", "f8"), ("b", "i4")])
D = np.array(["2024-01-01", "2024-01-05"], "M8[D]")
as_strided = np.lib.stride_tricks.as_strided
windows = np.lib.stride_tricks.sliding_window_view


def conjugated(z: Any) -> Any:
    return z * z.conj(), z.conjugate()


def part(z: Any) -> Any:
    w = z[1:]
    w[0] = 9
    return z


def turned(z: Any) -> Any:
    z.T[0] = 5
    z.reshape(-1)[1] = 7
    return z


def fields(s: Any) -> Any:
    s["a"][:] = 5
    s[1:]["b"] = 3
    v = s["a"]
    v += 1
    s["a"][s["b"] == 0] = 8
    return s


def dates(d: Any) -> Any:
    v = d[1:]
    v[0] = np.datetime64("2020-01-01")
    return d


def texts(d: Any) -> Any:
    v = d[1:]
    v[0] = "x"
    return d


def parts_of_complex(z: Any) -> Any:
    z.real[:] = 0
    z.imag[1:] += 2
    z.imag = z.imag * 2
    return z


def overlapping(z: Any) -> Any:
    a, b = z[::2], z[1:]
    a[0] = 5
    b[0] = a[0]
    z[0] = 7
    return a, b, z


def halves(z: Any) -> Any:
    z[0] = z[1]
    a, b = np.split(z, 2)
    a[:] = b
    return z


def rows(z: Any) -> Any:
    for r in z.reshape(2, 2):
        r[0] = r[1]
    return z


def made_within(z: Any) -> Any:
    out = np.zeros(4, complex)
    v = out[1:3]
    v[:] = z[:2]
    out.T[3] = 1
    w = out.reshape(2, 2)
    w[0] *= 2
    return out, w


def bits(x: Any) -> Any:
    x.view(np.int64)[0] = 0
    b = x.view(np.uint8)
    b[15] = 0
    return x, b[:16]


def diagonal(x: Any) -> Any:
    np.einsum("ii->i", x)[:] = 0
    return x


def diagonal_of_known(x: Any) -> Any:
    known = np.identity(2)
    np.einsum("ii->i", known)[:] = x
    a = np.broadcast_arrays(known, x)[0]
    known[0] = 7
    return known, a


def not_copied(x: Any) -> Any:
    y = np.array(x, copy=False)
    y[0] = 9
    np.require(x, requirements=["C"])[1] = 8
    np.asfortranarray(x)[2] = 7
    return x


def strided(x: Any) -> Any:
    y = as_strided(x, (2,), (16,))
    y[1] = 3
    return x


def seen_later(x: Any) -> Any:
    y = windows(x, 2)
    x[0] = 9
    return y


def shifted(k: Any) -> Any:
    k <<= 1
    k[0] = 9
    k >>= 1
    return k


CASES: list[tuple[Callable[..., Any], Any]] = [
    (conjugated, Z), (part, Z), (turned, Z), (fields, S), (dates, D), (texts, np.array(["a", "b"])),
    (parts_of_complex, Z), (overlapping, Z), (halves, Z), (rows, Z), (made_within, Z), (bits, R),
    (diagonal, np.ones((2, 2))), (diagonal_of_known, R[:2]), (not_copied, R),
    (strided, R), (seen_later, R), (shifted, np.arange(4)),
]  # fmt: skip


def _same(got: Any, wanted: Any) -> bool:
    if isinstance(wanted, tuple):
        return len(got) == len(wanted) and all(map(_same, got, wanted))
    return bool(got.dtype == wanted.dtype and got.shape == wanted.shape and (got == wanted).all())


@pytest.mark.parametrize(("f", "argument"), CASES, ids=lambda c: getattr(c, "__name__", ""))
def test_writes_reach_the_base(f: Callable[..., Any], argument: Any) -> None:
    plain = argument.copy()
    wanted = f(plain)
    jitted = minicc.jit(f, threads=1)
    for _ in range(2):
        given = argument.copy()
        assert _same(jitted(given), wanted)
        assert _same(given, plain)


def test_elements_that_share_memory_are_written_to_by_numpy() -> None:
    def f(x: Any) -> Any:
        y = windows(x, 2, writeable=True)
        y[0] = 9
        return x

    with pytest.warns(minicc.PerformanceWarning, match="share memory"):
        assert np.array_equal(minicc.jit(f)(np.ones(3)), f(np.ones(3)))


def test_what_the_host_shows_is_left_to_numpy() -> None:
    def f(x: Any) -> Any:
        y = np.trim_zeros(x)
        y[0] = 9
        return y, x + 1

    x = np.arange(4.0)
    with pytest.warns(minicc.PerformanceWarning, match="gives a view"):
        got = minicc.jit(f)(x)
    assert np.shares_memory(got[0], x)
    assert x.tolist() == [0, 9, 2, 3]
    assert got[1].tolist() == [1, 10, 3, 4]


def test_memory_of_bytes_is_only_read() -> None:
    def written(x: Any) -> Any:
        y = np.frombuffer(b"abcdefgh", np.uint8)
        y[0] = 1
        return x + y

    def shown(x: Any) -> Any:
        y = np.frombuffer(b"abcdefgh", np.uint8)
        return y, x + y, y[1:].copy()

    x = np.ones(8)
    with pytest.raises(ValueError, match="read-only"):
        minicc.jit(written)(x)
    got, want = minicc.jit(shown)(x), shown(x)
    assert all(map(np.array_equal, got, want))
    assert [a.flags.writeable for a in got] == [False, True, True]


@pytest.mark.parametrize("given", [R, np.array([5, 6, 3], np.uint32)])
def test_bytes_that_are_written_to_as_truth_values_are_numpys(given: Any) -> None:
    """Other bytes than those that are written keep what they are."""

    def truths(x: Any) -> Any:
        x.view(bool)[:1] = 1
        return x.sum()

    mine, theirs = given.copy(), given.copy()
    with pytest.warns(PerformanceWarning, match="as truth values"):
        assert minicc.jit(truths)(mine) == truths(theirs)
    np.testing.assert_array_equal(mine, theirs)


def of_a_grid() -> Any:
    t = np.mgrid[:2, :3][1]
    return t, windows(t, (2, 1)), t[0], t.T, np.transpose(t), np.flip(t, 0), t


def turned_grids() -> Any:
    t = np.mgrid[:2, :3]
    return {
        "all": t,
        "same": t,
        "one": t[1].T,
        "back": t[::-1],
        "read": np.broadcast_to(t, (2, 2, 2, 3)),
    }


def apart() -> Any:
    t = np.r_[1.0:5]
    return t[::2], t, np.reshape(t, (2, 2)), t + 1, np.mgrid[:4, :3][1].T


@pytest.mark.parametrize("f", [of_a_grid, turned_grids, apart])
def test_views_of_what_numpy_makes_while_it_is_traced(f: Any) -> None:
    """They show one array, which is another in each call."""
    g = minicc.jit(f)
    g()
    want, got, more = (
        list(r.values()) if isinstance(r, dict) else list(r) for r in (f(), g(), g())
    )
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)
        assert (a.dtype, a.flags.writeable) == (b.dtype, b.flags.writeable)
        assert np.squeeze(a).strides == np.squeeze(b).strides
    for k, (a, b) in enumerate(zip(got, want, strict=True)):
        assert [np.shares_memory(a, x) for x in got] == [np.shares_memory(b, x) for x in want], k
        assert [a is x for x in got] == [b is x for x in want], k
        assert not any(np.shares_memory(a, x) for x in more)


def crossed(s: Any) -> Any:
    t = s["a"].T
    s["a"][1:], t[:-1] = s["b"][:-1, None], s["b"][1:]
    return t * 1


def exchanged(s: Any) -> Any:
    a, b = s["a"], s["b"]
    t, w = a.T, b[::-1] * 1
    a[1:], t[0], b[:], t[1, :2] = b[:-1, None] + a[:-1], w, w[::-1], w[:2]
    return a.sum(), t * 1


@pytest.mark.parametrize(("f", "rows"), [(crossed, 2), (exchanged, 3), (exchanged, 5)])
def test_fields_are_written_with_what_was_computed_before_others_were(f: Any, rows: int) -> None:
    mine = np.zeros(rows, [("a", "f4", (2,)), ("b", "u1")])
    mine["a"], mine["b"] = np.arange(2 * rows).reshape(rows, 2), np.arange(rows) + 2
    theirs = mine.copy()
    got, want = minicc.jit(f)(mine), f(theirs)
    np.testing.assert_array_equal(mine, theirs)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


BEYOND: dict[str, Callable[..., Any]] = {
    "the diagonal of what has 0 rows": lambda x: np.einsum("ii->i", x[:0, :4]),
    "from a row to the next": lambda x: as_strided(x[2], (2, 6), (x.itemsize,) * 2),
    "from a row backwards": lambda x: as_strided(x[1], (6,), (-x.itemsize,)),
}


@pytest.mark.parametrize("name", BEYOND)
@pytest.mark.parametrize("element", [np.float64, np.complex64])
def test_a_view_beyond_its_array_is_numpys(name: str, element: Any) -> None:
    """It shows memory that the array has not, but maybe the one that the array is part of."""
    x, f = np.arange(20).reshape(4, 5).astype(element), BEYOND[name]
    g = minicc.jit(f, threads=1)
    with pytest.warns(PerformanceWarning, match="shows memory beyond the array"):
        g(x)
    for got in (g(x), g(x)):
        np.testing.assert_array_equal(got, f(x))
        assert np.shares_memory(got, x)
