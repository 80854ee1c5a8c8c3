"""Loops of traced functions: captured or written out, they do what NumPy does."""

import contextlib
import linecache
import random
import textwrap
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.sweeps import part

import minicc
from minicc.compile.compiler import lower
from minicc.ir import graph, program
from minicc.ir.core import walk
from minicc.ir.program import launches

Function = Callable[..., Any]
CAPTURED: list[tuple[Function, tuple[tuple[int, ...], ...]]] = []
WRITTEN_OUT: list[tuple[Function, tuple[tuple[int, ...], ...], str]] = []


def captured(*shapes: tuple[int, ...]) -> Callable[[Function], Function]:
    def add(f: Function) -> Function:
        CAPTURED.append((f, shapes))
        return f

    return add


def written_out(why: str, *shapes: tuple[int, ...]) -> Callable[[Function], Function]:
    def add(f: Function) -> Function:
        WRITTEN_OUT.append((f, shapes, why))
        return f

    return add


def same(want: Any, have: Any, rtol: float = 1e-4, atol: float = 1e-5) -> None:
    """The same structure, types, element types, shapes and nearly the same numbers."""
    assert type(want) is type(have), (want, have)
    if isinstance(want, (tuple, list)):
        types = [*map(type, want)]
        assert types == [*map(type, have)]
        if all(issubclass(t, (int, float, complex, np.generic)) for t in types):
            np.testing.assert_allclose(have, want, rtol=rtol, atol=atol)  # at once, as it is slow
            return
        for w, h in zip(want, have, strict=True):
            same(w, h, rtol, atol)
    elif isinstance(want, str):
        assert want == have
    elif want is not None:
        assert np.asarray(want).dtype == np.asarray(have).dtype
        np.testing.assert_allclose(have, want, rtol=rtol, atol=atol)


def compare(f: Function, shapes: tuple[tuple[int, ...], ...]) -> Any:
    """The jitted function, after two calls on other data agreed with NumPy's."""
    g = minicc.jit(f, threads=1)
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        args = [rng.standard_normal(s).astype(np.float32) for s in shapes]
        mine, theirs = [a.copy() for a in args], [a.copy() for a in args]
        same(f(*theirs), g(*mine))
        same(theirs, mine)
    return g


@captured((60, 40))
def reflected(a: Any) -> Any:
    """Householder's reflections: a branch whose sides have the round's extents."""
    q, r = np.eye(len(a)), a.copy()
    for k in range(40):
        v = r[k:, k].copy()
        v[0] += np.copysign(np.linalg.norm(v), v[0])
        length = np.linalg.norm(v)
        if length < 1e-14:
            continue
        v /= length
        r[k:, k:] -= 2 * np.outer(v, v @ r[k:, k:])
        q[:, k:] -= 2 * np.outer(q[:, k:] @ v, v)
    return q, r


def forces_of_pairs(x: Any) -> Any:
    force, energy = np.zeros_like(x), 0.0
    for k in range(len(x) - 1):
        apart = x[k + 1 :] - x[k]
        squares = (apart**2).sum(1)
        near = squares < 2
        pull = np.where(near, 1 / np.where(near, squares, 1.0), 0.0)[:, None] * apart
        force[k] -= pull.sum(0)
        force[k + 1 :] += pull
        energy += np.where(near, squares, 0).sum()
    return force, energy


@captured((30, 3), (30, 3))
def moved_by_pairs(x: Any, v: Any) -> Any:
    """A loop within of which a recording is of no use: what it made has the round's extents."""
    force, energy = forces_of_pairs(x)
    for _ in range(20):
        v = v + 0.01 * force
        x = (x + 0.01 * v) % 3
        force, energy = forces_of_pairs(x)
    return x, energy


@captured((4, 40))
def numpy_ints_beside_the_round(a: Any) -> Any:
    b, row = a.copy(), np.int64(1)
    for k in range(30):
        b[row, k] = a[row, k] + a[np.int32(-1), k]
        b[np.uint8(2), 1 : k + 2] += 1
    return b


@captured((9,))
def sums_of_generators(x: Any) -> Any:
    for _ in range(20):
        x = sum(np.roll(x, i + j) for i in (-1, 0, 1) for j in (0, 2) if i or j) * 0.1
    return x


@captured((100,), (100,))
def halves(x: Any, y: Any) -> Any:
    for _ in range(1000):
        x = 0.5 * (x + y)
    return x


@captured((30,), (30,))
def stencil(a: Any, b: Any) -> None:
    for _ in range(1, 50):
        b[1:-1] = 0.33333 * (a[:-2] + a[1:-1] + a[2:])
        a[1:-1] = 0.33333 * (b[:-2] + b[1:-1] + b[2:])


@captured((12, 13))
def sweep(x: Any) -> Any:
    for i in range(1, 11):
        x[i, 1:-1] += x[i - 1, :-2] + x[i + 1, 2:]
        for j in range(1, 12):
            x[i, j] = 0.25 * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1])
    return x, i, j


@captured((50,), (50,))
def recurrence(x: Any, y: Any) -> Any:
    for i in range(1, len(x)):
        y[i] = 0.9 * y[i - 1] + x[i]
    return y


@captured((50,))
def backwards(x: Any) -> Any:
    for i in range(40, 1, -2):
        x[i] = 0.5 * x[i + 2] + x[i + 1] - x[i - 2]
    for i in reversed(range(30)):
        x[i] = 0.5 * x[i + 1] + x[i + 2]
    return x, i


@captured((20, 12))
def products_of_part_of_a_captured_array(x: Any) -> Any:
    x -= x.mean(axis=0)
    made = np.zeros((12, 12), x.dtype)
    for i in range(12):
        made[i:, i] = made[i, i:] = x[:, i] @ x[:, i:] / 3.0
    return made


@captured((30,))
def pair(x: Any) -> Any:
    a, b, s = np.float32(0), np.float32(1), 0.0
    for k in range(20):
        a, b = b, a + b
        s = s + x[k] * a
    return a, b, s, k


@captured((30,))
def python_numbers(x: Any) -> Any:
    t, c, p = 0.0, 3, -1
    for k in range(20):
        x = x + t * np.float32(2) + c + p
        t += 0.1
        c += 2
        p = k
    return x, t, c, p


@captured((30,))
def left_behind(x: Any) -> Any:
    for k in range(20):
        row = x[k : k + 3]
        z = row.sum() + k / 4
        last = x * z
    row[0] = 5
    last[1] = 2
    return x, z, row, last, k


@captured((30,))
def aliases(x: Any) -> Any:
    y, v = x, x[5:]
    for k in range(20):
        x += 1
        x[k] = y[k] * 0.5
        v[k] += 1
        y[2:4] *= 1.01
    return y, v


@captured((30,))
def two_names(x: Any) -> Any:
    for _ in range(20):
        x = x * 0.5
        y = x
    y[0] = 5
    return x, y


@captured((20, 5), (5, 5))
def rows(x: Any, w: Any) -> Any:
    h, out = np.zeros(5, np.float32), np.zeros((20, 5), np.float32)
    for i, row in enumerate(x):
        h = np.tanh(row + w @ h)
        out[i] = h
    for row, other in zip(x, out, strict=False):
        h = h * 0.5 + row * other
    for row in x:
        h = h - row
    return h, out


@captured((30,))
def chosen(x: Any) -> Any:
    for k in range(20):
        x = np.where((x > k * 0.1) & (k < 9), x * 0.5, x + k)
    return x


@captured((30, 4, 4))
def windows(x: Any) -> Any:
    total = np.zeros((4, 4), np.float32)
    for k in range(28):
        total = total * 0.5 + x[k : k + 2].sum(axis=0) + x[k, :, 1:2] * x[k + 1, 2]
        x[k, 1:3, ::2] = total[1:3, ::2]
        x[-k - 1, 0] = total[0]
    return total, x


@captured((16, 16))
def shortest(path: Any) -> None:
    for k in range(path.shape[0]):
        path[:] = np.minimum(path[:], np.add.outer(path[:, k], path[k, :]))


@captured((30,))
def helpers(x: Any) -> Any:
    weights = [0.5, 0.25]

    def step(a: Any, b: Any) -> Any:
        return a * b + weights[1]

    for _ in range(20):
        x = step(x, weights[0])
    return x


@captured((64, 64))
def names_that_a_round_binds_after_a_loop_of_no_round(x: Any) -> Any:
    y = x * 0.5
    for i in range(16):
        j = i * 4
        for k in range(i):
            y[j:, j : j + 4] -= y[j:, 4 * k : 4 * k + 4] @ y[j : j + 4, 4 * k : 4 * k + 4].T * 0.01
        first = y[j : j + 4, j : j + 4].copy()
        second = first + np.eye(4, dtype=x.dtype)
        y[j:, j : j + 4] = y[j:, j : j + 4] @ second * 0.1
    return y


@written_out("ways through a round", (30,))
def branches(x: Any) -> Any:
    for k in range(6):
        for j in (0, 1, 2, 3, 5, 7, 11):
            if x[j] > k:
                x = x * 0.5
    return x


@written_out("left by `break`", (30,))
def left(x: Any) -> Any:
    for k in range(20):
        x = x + 1
        if k == 12:
            break
    return x, k


@captured((30,))
def appended(x: Any) -> Any:
    out = []
    for k in range(20):
        x = x * 0.9
        out.append(x[k])
    return np.array(out)


@captured((30,))
def growing(x: Any) -> Any:
    for k in range(1, 20):
        x[k] = x[:k].sum()
    return x


@captured((20,), (20,))
def exchanged(a: Any, b: Any) -> Any:
    for _ in range(15):
        b[1:-1] = a[:-2] + a[2:] * 0.1
        a, b = b, a
    return a, b


@written_out("known while tracing", (20,), (20,))
def swapped(a: Any, b: Any) -> Any:
    c = a
    for _ in range(11):
        a, b = b, a
    a += 1
    return a, b, c


@written_out("known while tracing", (30,))
def table(x: Any) -> Any:
    t = np.zeros(30, np.float32)
    for k in range(30):
        t[k] = k * 2
    return x + t


@captured((10, 10))
def triangle(x: Any) -> Any:
    for i in range(10):
        for j in range(i):
            x[i, j] += x[j, i]
    return x


@written_out("left while", (30,))
def raising(x: Any) -> Any:
    try:
        for k in range(20):
            x = x + 1
            if k >= 0:
                raise ValueError
    except ValueError:
        return x * 2


@pytest.mark.parametrize(("f", "shapes"), CAPTURED, ids=[f.__name__ for f, _ in CAPTURED])
def test_captured(f: Function, shapes: tuple[tuple[int, ...], ...]) -> None:
    shown = compare(f, shapes).explain()
    assert shown.loops
    assert all("a loop of the graph" in text for text in shown.loops), shown.loops
    assert not shown.breaks


@pytest.mark.parametrize(
    ("f", "shapes", "why"), WRITTEN_OUT, ids=[f.__name__ for f, _, _ in WRITTEN_OUT]
)
def test_written_out(f: Function, shapes: tuple[tuple[int, ...], ...], why: str) -> None:
    shown = compare(f, shapes).explain()
    reasons = [text for text in shown.loops if "written out: " in text]
    assert any(word in text for text in reasons for word in why.split("|")), shown.loops
    assert all("test_captured_loops.py:" in text for text in reasons)
    assert reasons[0] in str(shown)


def test_ops_do_not_grow_with_the_rounds() -> None:
    def f(x: Any, y: Any, n: int) -> Any:
        for k in range(n):
            x = 0.5 * (x + y) + k
        return x

    x = np.ones(8, np.float32)
    modules = [minicc.jit(f).lower(x, x, n).module for n in (20, 2000)]
    counts = [len(list(walk(m.main.body))) for m in modules]
    assert counts[0] == counts[1]
    scans = [op for op in modules[1].main.body.ops if isinstance(op, graph.Scan)]
    assert [s.count for s in scans] == [2000]
    inner = {place for op in scans[0].body.ops for place in op.loc}
    assert len(inner) == 1
    assert next(iter(inner)).startswith("test_captured_loops.py:")


def test_written_places_are_changed_in_place() -> None:
    def f(x: Any, y: Any) -> Any:
        for i in range(1, 40):
            y[i] = 0.9 * y[i - 1] + x[i]
        return y

    x = np.ones(40, np.float32)
    main = lower(minicc.jit(f).lower(x, x.copy()).module, minicc.Options()).main
    (loop,) = [op for op in main.body.ops if isinstance(op, program.Loop)]
    elements = [op.work for op in launches(loop.body)]
    assert set(elements) == {1}, "no copy of the array in a round"


def test_few_rounds_and_none() -> None:
    def f(x: Any, n: int) -> Any:
        k = 7
        for k in range(n):
            x = x + k
        return x, k

    g = minicc.jit(f)
    x = np.ones(3, np.float32)
    for n in (0, 1, 3, 8, 9, 30):
        same(f(x, n), g(x, n))
    assert f(x, 0)[1] == g(x, 0)[1] == 7


def test_a_name_that_no_round_binds_stays_unbound() -> None:
    def f(x: Any, n: int) -> Any:
        for k in range(n):
            y = x + k
        return y

    g = minicc.jit(f)
    x = np.ones(3, np.float32)
    same(f(x, 12), g(x, 12))
    with pytest.raises(UnboundLocalError):
        g(x, 0)


def test_the_round_that_fails_is_told_of() -> None:
    def f(x: Any) -> Any:
        for k in range(25):
            x[k] = 1
        return x

    with pytest.raises(IndexError, match="index 20 is out of bounds"):
        minicc.jit(f)(np.ones(20, np.float32))

    def narrow(x: Any) -> Any:
        for k in range(20):
            x = x + k * 10
        return x

    with pytest.raises(OverflowError, match="130 out of bounds for int8"):
        minicc.jit(narrow)(np.ones(4, np.int8))


# These functions bind names that nothing reads: ruff is right (F841), and it is what is tested.


def reads_only(x: Any, i: Any) -> Any:
    for _ in range(50):
        y = x[i]  # noqa: F841
    return x + 1


def reads_in_one_round(x: Any, i: Any) -> Any:
    for k in range(500):
        y = x[i - k] * 2
        z = y + 1  # noqa: F841
    return x + 1


def reads_and_sums(x: Any, i: Any) -> Any:
    s = np.zeros(500)
    for k in range(500):
        x[i]
        y = x[i]  # noqa: F841
        s[k] = x[k % 3]
    return s


def reads_on_a_side(x: Any, i: Any) -> Any:
    s = 0.0
    for k in range(500):
        if x[k % 3] > 2:
            y = x[i]  # noqa: F841
        s += x[k % 3]
    return s


def writes_to_what_nobody_reads(x: Any, i: Any) -> Any:
    s = x.copy()
    for _ in range(50):
        s[i] = 3
    return x + 1


def reads_in_loops_within(x: Any, i: Any) -> Any:
    n = x[0] * 0
    while n < 5:
        for _ in range(300):
            y = x[i]  # noqa: F841
        n = n + 1
    return n


def reads_while(x: Any, i: Any) -> Any:
    for _ in range(300):
        n = x[0] * 0
        while n < 5:
            y = x[i]  # noqa: F841
            n = n + 1
    return n


@pytest.mark.parametrize(
    "f",
    [
        reads_only,
        reads_in_one_round,
        reads_and_sums,
        pytest.param(
            reads_on_a_side,
            marks=pytest.mark.filterwarnings("ignore::minicc.errors.PerformanceWarning"),
        ),
        writes_to_what_nobody_reads,
        reads_in_loops_within,
        reads_while,
    ],
)
def test_an_index_out_of_bounds_is_told_of_though_nothing_uses_the_elements(f: Any) -> None:
    x = np.arange(1.0, 5)
    g = minicc.jit(f)
    if f is not reads_in_one_round:
        same(f(x, np.int64(1)), g(x, np.int64(1)))
    for bad in (np.int64(500), np.array([1, 500])):
        with pytest.raises(IndexError, match="index 500 is out of bounds for axis 0 with size 4"):
            g(x, bad)


def test_an_index_that_an_array_does_not_hold_is_not_stored_as_another() -> None:
    def f(x: Any) -> Any:
        for k in range(120, 140):
            x[k - 120] = k
        return x

    shown = minicc.jit(f)
    with contextlib.suppress(OverflowError, minicc.UserError):
        shown(np.zeros(20, np.int8))
    assert "a loop of the graph" not in str(shown.explain())


def test_integers_stay_what_they_are() -> None:
    def f(x: Any) -> Any:
        for k in range(20):
            x = x + k
            x[k] = k * 3
        return x, x * k

    for dtype in (np.int16, np.int32, np.uint8, np.float16):
        x = np.arange(30).astype(dtype)
        same(f(x), minicc.jit(f)(x))


def test_bits_of_an_int_that_rounds_change() -> None:
    def crc(data: Any, poly: int = 0x8408) -> int:
        crc = 0xFFFF
        for byte in data:
            bits = 0xFF & byte
            for _ in range(8):
                if (crc & 1) ^ (bits & 1):
                    crc = (crc >> 1) ^ poly
                else:
                    crc >>= 1
                bits >>= 1
        crc = ~crc & 0xFFFF
        crc = (crc << 8) | ((crc >> 8) & 0xFF)
        return crc & 0xFFFF

    def mixed(x: Any) -> int:
        a, b = 12345, -7
        for k in range(len(x)):
            a = ((a & 0xFFFF) * 31 | (k & 3)) % 65521
            b = ~(b ^ -3) | (a & -2) >> 1
            x[k] = (a & 0x7F) ^ (b & 0x1F)
        return a - b

    compiled = minicc.jit(crc, threads=1)
    for seed in range(3):
        data = np.random.default_rng(seed).integers(0, 256, 99).astype(np.uint8)
        got = compiled(data)
        assert got == crc(data)
        assert type(got) is int
    told = str(compiled.explain())
    assert "was traced 1 time" in told
    assert "break" not in told
    mine, theirs = np.zeros(40, np.int16), np.zeros(40, np.int16)
    assert minicc.jit(mixed)(mine) == mixed(theirs)
    same(mine, theirs)


def test_a_long_recurrence() -> None:
    def f(x: Any, y: Any) -> Any:
        for i in range(1, len(x)):
            y[i] = 0.5 * y[i - 1] + x[i]
        return y

    x = np.random.default_rng(0).random(20_000)
    same(f(x, x.copy()), minicc.jit(f, threads=1)(x, x.copy()))


def test_print_in_a_loop_is_written_out(capsys: pytest.CaptureFixture[str]) -> None:
    @minicc.jit
    def f(x: Any) -> Any:
        for k in range(10):
            x = x * 0.5
            print(k)
        return x

    f(np.ones(3))
    assert capsys.readouterr().out.split() == list("0123456789")
    f(np.ones(3))
    assert capsys.readouterr().out.split() == list("0123456789")


def test_objects_and_dicts_that_a_round_changes() -> None:
    def f(x: Any) -> Any:
        seen: dict[str, Any] = {"n": 0, "x": x}
        for k in range(12):
            seen["n"] += 1
            seen["x"] = seen["x"] * 0.5 + k
        return seen

    x = np.ones(4, np.float32)
    want, have = f(x), minicc.jit(f)(x)
    assert want["n"] == have["n"] == 12
    same(want["x"], have["x"])


SIMPLE = [
    "x = x * 0.5 + k", "x[k] = y[k] + 1", "x[k + 1] = x[k] * 0.5", "v[1] += 1", "v = x[1:5]",
    "y = x[k:k + 3].sum() * 0.25 + y", "x, y = y, x", "y = x", "x += 0.5", "t = x[k]", "x[0] = t",
    "s = s * 0.5 + 1", "s = s * 0.5 + x[k]", "n += 2", "m = k", "y = y + m", "A[k] = x[:6]",
    "A[k, 1:3] *= 0.5", "row = A[k]; row[2] = t", "x = np.where(y > k, x, y)", "w = x; w[k] = 1.0",
    "z = A[k, ::2]", "y[:3] = z", "y[-k - 1] = t", "x[1:-1] = 0.25 * (x[:-2] + x[2:])", "v *= 0.5",
    "w = w * 0.5 + x", "A[:, 2] = x * 0.5", "x = x[::-1]", "y = x[:]", "v = A[k]", "h = x",
    "r = A[:, 1]", "r[k] = t", "if n > 9: x = x + 1", "q = k * 2 - 1", "x = x + q * 0.5",
    "p, t = t, p", "i16[k] += k", "h[2] = 0.5", "y[k:k + 3] = x[k + 1:k + 4]", "row *= 0.5",
    "y[k:k + 6:2] = x[k:k + 3] + 0.5", "parts = [x, y]", "parts[0] += 0.25", "row = x[k:k + 4]",
    "y[k + 1] = y[k] * 0.5 + x[k + 2]", "A[k, 3] = A[k - 1, 3] * 0.5 + t", "A[k] = A[k - 1] * 0.5",
    "y[k] += y[k + 1] * 0.25", "for j in range(1, 13): x[j] = x[j - 1] * 0.25 + A[k, j % 6]",
    "for j in range(10): A[k + 1, 1] = A[k, 1] * 0.5 + x[j]; y[j] = A[j, 2]",
    "if x[k] > 0: y[k] = t", "if x[k] > y[k]: t = x[k]; m = k", "if k % 3 == 1: x[k] *= 0.5",
    "t = x[k] if x[k] > 0 else y[k]", "y = x * 0.5 if x[k] > 0 else y", "if x[k] > 1.5: break",
    "if x[k] < -1.5: continue", "n += 1 if x[k] > 0 else 2", "x[k] = max(x[k], y[k])",
    "t = min(t, x[k])", "while t > 0.5: t = t * 0.5; n += 1", "if y[k] > 0: x = x + 1; w = x",
    "if s > 3: s = 0.5", "if x[0] > 0: A[k] = y[:6]", "if t > y[k]: row = A[k]; row[0] = 2.5",
    "x[k % 5] += y[(k + 3) % 16]", "y[k // 2] = x[k - 3] * 0.5", "m = (k * k) % 7", "i16[m] += k",
    "row = A[k % 4]; t = row[2]", "x[(k + 1) % 16] = x[k] * 0.5", "z = A[(k + 1) % 9]",
    "while True: t = t * 0.5; x[1] += 1; break\n    if t < 0.25: break",
]  # fmt: skip
NAMES = "x, y, v, w, z, r, row, h, A, s, n, m, t, p, q, k, i16"


def drawn(seed: int) -> tuple[Function, str]:
    """A program of one or two loops."""
    rng = random.Random(seed)
    lines: list[str] = []
    for _ in range(rng.randint(1, 2)):
        ranges = ["range(10)", "range(2, 13)", "range(12, 0, -1)", "range(0)", "range(1)",
                  "reversed(range(11))", "range(1, 14)"]  # fmt: skip
        body = [rng.choice(SIMPLE) for _ in range(rng.randint(1, 4))]
        lines += [f"for k in {rng.choice(ranges)}:", *[f"    {line}" for line in body]]
    start = [
        "s, n, m, t, p, q, k = 1.0, 0, -1, 0.5, 0.25, -1, 3",
        "v, z, row = x[2:6], x[:3], y[3:7]",
        "w = h = y",
        "r = A[:, 0]",
        "i16, parts = np.arange(16, dtype=np.int16), [x]",
    ]
    body = [*start, *lines, f"return {NAMES}"]
    text = "def f(x, y, A):\n" + textwrap.indent("\n".join(body), "    ")
    name = f"drawn{seed}.py"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"np": np}
    exec(compile(text, name, "exec"), space)
    return space["f"], text


@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
@pytest.mark.parametrize("seed", part(range(64), 4))
def test_random_loops(seed: int) -> None:
    f, text = drawn(seed)
    rng = np.random.default_rng(seed)
    args = [np.round(rng.standard_normal(s) * 4) / 2 for s in ((16,), (16,), (16, 6))]
    mine, theirs = [a.copy() for a in args], [a.copy() for a in args]
    g = minicc.jit(f, threads=1, math="strict")
    try:
        with np.errstate(all="ignore"):
            want = f(*theirs)
    except (IndexError, ValueError) as error:
        with pytest.raises((type(error), minicc.UserError)):
            g(*mine)
        return
    have = g(*mine)
    for name, w, h in zip(
        (*NAMES.split(", "), *"xyA"), (*want, *theirs), (*have, *mine), strict=True
    ):
        assert type(w) is type(h), (name, text)
        assert np.asarray(w).dtype == np.asarray(h).dtype, (name, text)
        np.testing.assert_allclose(h, w, rtol=1e-9, atol=1e-12, err_msg=f"{name}\n{text}")


def test_what_only_rounds_know_is_not_taken_for_known() -> None:
    def shown(x: Any, n: int) -> Any:
        last = x[:1]
        for i in range(n):
            for k in range(i):
                x[k] += x[i] * 0.5
                last = x[:k]
            k += 1 if i else 0
        return x, last

    def counted(x: Any, n: int) -> Any:
        k = 5
        for i in range(1, n):
            for k in range(i - 1):
                x[k] += x[i] * 0.5
            x[k] *= 0.5
        return x, k

    for f in (shown, counted):
        g = minicc.jit(f)
        x = np.linspace(0, 1, 20, dtype=np.float32)
        with contextlib.suppress(UnboundLocalError), warnings.catch_warnings():
            warnings.simplefilter("ignore", minicc.PerformanceWarning)
            same(f(x.copy(), 12), g(x.copy(), 12))


def test_the_number_of_a_round_beside_what_the_host_runs() -> None:
    def f(x: Any, s: Any) -> Any:
        a = np.sin(s)  # of float64, on the host
        for k in range(12):
            x = x + k * s
            x[k % 5] += x[:k].sum()
        return x * a

    x, s = np.ones(20), np.float64(0.1)
    same(f(x.copy(), s), minicc.jit(f)(x.copy(), s))


def _energies(places: Any, h: Any, g: Any, d: Any, out: Any) -> None:
    for k in range(2):
        for e in range(4):
            for w in range(2):
                for i in range(3):
                    for j in range(2):
                        for a in range(5):
                            for b in range(3):
                                if e - w >= 0:
                                    left = g[k, e - w, places[a, b]] @ h[a, b, i]
                                    out[k, e, a] += left @ (h[a, b, j] * d[w, a, b])


def test_short_loops_in_each_other_are_captured_where_they_would_be_long_written_out() -> None:
    r = np.random.default_rng(0)
    places = r.integers(0, 5, (5, 3))
    h, g, d = (r.normal(size=s) for s in ((5, 3, 3, 2, 2), (2, 4, 5, 2, 2), (2, 5, 3)))
    mine, theirs = np.zeros((2, 4, 5, 2, 2)), np.zeros((2, 4, 5, 2, 2))
    fast = minicc.jit(_energies)
    fast(places, h, g, d, mine)
    _energies(places, h, g, d, theirs)
    np.testing.assert_allclose(mine, theirs)
    explained = str(fast.explain())
    assert explained.count("a loop of the graph") == 7, explained


def test_an_index_of_rounds_and_of_data() -> None:
    def f(x: Any, places: Any) -> Any:
        y = np.zeros((6, 4))
        for k in range(6):
            y[k, places[k]] = x[k, places[5 - k]] + x[places[k], k % 4]
            y[k, 2:] += x[places[:2], k % 4]
        return y

    r = np.random.default_rng(1)
    x, places = r.normal(size=(6, 4)), r.integers(0, 4, 6)
    fast = minicc.jit(f)
    np.testing.assert_allclose(fast(x, places), f(x, places))
    assert "6 rounds, a loop of the graph" in str(fast.explain())


def test_an_element_at_what_a_loop_leaves_is_a_scalar() -> None:
    def f(x: Any) -> Any:
        for k in range(5):
            if x[0] > x[-1]:
                raise ValueError(k)
        return x[k], x[(k + 1) % 3], x[k - 1]

    x = np.array([-1.0, -1.5, 6.0, 5.0, 4.0])
    for got, want in zip(minicc.jit(f)(x), f(x), strict=True):
        assert type(got) is type(want)
        assert got == want


def test_an_error_that_names_a_number_of_the_round() -> None:
    def f(x: Any) -> Any:
        for k in range(7):
            if x[0, 0] <= 2:
                raise KeyError(k)
        return x * 2

    fast = minicc.jit(f)
    for x in (np.full((2, 2), 3.0), np.ones((2, 2))):
        try:
            want = f(x)
        except KeyError as error:
            with pytest.raises(KeyError, match=str(error)):
                fast(x)
        else:
            np.testing.assert_array_equal(fast(x), want)


def _sum(x: Any) -> Any:
    n = 0
    for v in x:
        n += int(v)
    return n


def _difference(x: Any) -> Any:
    n = 100
    for v in x:
        n -= int(v)
        if n < 90:
            n += 50
    return n


def _polynomial(x: Any) -> Any:
    n = 0
    for v in x:
        n += int(v)
    for v in x:
        n = n * 2 + int(v)
    return n


def _pairs(x: Any) -> Any:
    n, c = 0, 0
    for u, v in zip(x, x, strict=True):
        k = int(np.floor(v))
        if k % 2 == 0:
            n += k + int(u)
        else:
            c += 1
    return n, c


def _given(x: Any) -> Any:
    n = int(x[0])
    for _ in range(9):
        n += 3
    return n, int(x[0])


@pytest.mark.parametrize("f", [_sum, _difference, _polynomial, _pairs, _given])
@pytest.mark.parametrize("dtype", ["f8", "u1", "i4"])
def test_ints_that_elements_give_are_summed(f: Any, dtype: str) -> None:
    """A round that is recorded and given up leaves what was before the loop as it was."""
    x = np.array([1, 10, 100, 50, 4, 3, 5, 2]).astype(dtype)
    compiled = minicc.jit(f)
    for given in (x, x, x[::-1].copy(), x[:3]):
        assert compiled(given) == f(given)


@pytest.mark.parametrize("width", [3, 5, 6, 7])
def test_few_truth_values_in_a_round_are_added_up(width: int) -> None:
    """LLVM's passes join the sums of vectors of five elements, and its selection ended there."""

    def f(x: Any, y: Any) -> Any:
        total = np.int64(0)
        for i in range(30):
            total = np.maximum(np.correlate(x[i], x[i])[0], x[i].any()) + total // 2
            y[i, 2] = total
        return y

    x = np.random.default_rng(width).random((30, width)) > 0.5
    want = f(x, np.zeros((30, width), np.int8))
    got = minicc.jit(f, threads=1, math="fast")(x, np.zeros((30, width), np.int8))
    np.testing.assert_array_equal(got, want)


def test_two_names_of_one_array_are_one_after_the_loop() -> None:
    def named(x: Any) -> Any:
        for row in x:
            same, part = row, row[1:]
            both = (part, same)
        return row, same, part, both[0], both[1], both

    g = minicc.jit(named, threads=1)
    x = np.arange(24.0).reshape(8, 3)
    for got in (g(x), g(x)):
        want = named(x)
        assert [[a is b for b in got] for a in got] == [[a is b for b in want] for a in want]
        assert all(map(np.array_equal, got[:5], want[:5]))
