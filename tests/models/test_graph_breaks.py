"""Functions whose Python looks at values: paths, loops, the host's part, and what is remembered."""

import itertools
import math
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import minicc
from minicc.api.graph_programs import GraphProgram
from minicc.api.segments import INTERPRETED
from minicc.frontends.trace import Tree

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def agree(got: Any, want: Any, rtol: float = 1e-5) -> None:
    if isinstance(want, (list, tuple)):
        assert type(got) is type(want)
        for g, w in zip(got, want, strict=True):
            agree(g, w, rtol)
        return
    assert type(got) is type(want)
    if isinstance(want, (np.ndarray, np.generic)):
        want = np.asarray(want)
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-6)
    elif isinstance(want, float):
        assert got == pytest.approx(want, rel=rtol)
    else:
        assert got == want


def compare(f: Function, *calls: tuple[Any, ...]) -> Any:
    """Each call twice against NumPy; the compiled function."""
    g = minicc.jit(f, threads=1)
    for args in calls:
        for _ in range(2):
            agree(g(*args), f(*[a.copy() if isinstance(a, np.ndarray) else a for a in args]))
    return g


def compilations(g: Any) -> int:
    return len(g.explain().recompilations)


def test_a_branch_is_remembered_each_way() -> None:
    def f(x: Array) -> Array:
        y = x * 2
        if y.sum() > 0:
            return y + 1
        return y - x

    x = np.abs(normal(4, 5))
    g = compare(f, (x,), (-x,), (x,))
    assert compilations(g) == 2


def test_while_with_any_number_of_iterations_is_one_loop() -> None:
    def solve(a: Array, b: Array, tol: float) -> Array:
        x = np.zeros_like(b)
        d = np.diag(a)
        error = np.inf
        while error > tol:
            new = (b - (a @ x - d * x)) / d
            error = np.max(np.abs(new - x))
            x = new
        return x

    a = np.eye(8, dtype=np.float32) * 9 + np.abs(normal(8, 8)) * 0.5
    b = normal(8)
    g = minicc.jit(solve, threads=1)
    agree(g(a, b, 1e-4), solve(a, b, 1e-4))
    before = compilations(g)
    for seed in range(5):
        harder = a + np.float32(seed) / 5
        agree(g(harder, b * 100, 1e-4), solve(harder, b * 100, 1e-4), 1e-3)
    assert compilations(g) == before


def test_a_loop_with_a_counter() -> None:
    def f(x: Array) -> tuple[Array, int]:
        n = 0
        while x.max() > 1:
            x = x / 2
            n += 1
        return x, n

    compare(f, (normal(5) * 30,), (normal(5) * 3,), (normal(5) * 300,))


def test_a_float_that_flows_on_is_never_looked_at() -> None:
    def f(x: Array) -> Array:
        top = float(x.max())
        return x / (2 * top + 1.0) - top

    g = compare(f, *[(normal(6, seed=s),) for s in range(5)])
    assert compilations(g) == 1
    assert "f64" in g.lower(normal(6)).as_text("graph")


def test_numbers_that_are_returned_are_pythons() -> None:
    def f(x: Array) -> tuple[float, int, bool, float]:
        return float(x.sum()), int(np.argmax(x)), bool(x[0] > 0), x[1].item() * 2

    compare(f, (normal(4),), (normal(4, seed=1),))


def test_integers() -> None:
    def f(x: Array, mask: Array) -> Any:
        n = int(mask.sum())
        mean = x.sum() / n
        return mean, [row + 1 for row in x[:n]], np.zeros(n, x.dtype)

    x = normal(6)
    compare(f, (x, x > 0), (x, x > -9), (x, x < 0))


def test_conditions_of_all_kinds() -> None:
    def f(x: Array) -> Any:
        found = (x > 2).any() or (x < -2).any()
        both = x.min() > -3 and x.max() < 3
        y = x if x[0] > 0 else -x
        z = max(float(y.sum()), 0.5)
        return found, both, y * z, abs(float(x[1])), not x.any()

    compare(f, *[(normal(5, seed=s),) for s in range(4)])


def test_numbers_in_pythons_own_hands() -> None:
    def f(x: Array) -> Any:
        n = float(x.sum())
        text = f"{n:.2f}"
        table = {n: 1}
        return text, len(table), math.floor(n), round(n), isinstance(n, float), x * math.exp(-n * n)

    compare(f, (normal(3),), (normal(3, seed=1),))


def test_division_by_a_number_that_is_zero_raises_as_in_python() -> None:
    def f(x: Array) -> Array:
        return x * (1.0 / float(x.sum()))

    g = compare(f, (normal(3),))
    with pytest.raises(ZeroDivisionError):
        g(np.zeros(3, np.float32))


def test_shapes_that_depend_on_data() -> None:
    def f(x: Array) -> Any:
        chosen = x[x > 0]
        rows, columns = np.nonzero(x > 1)
        values, counts = np.unique(np.round(x), return_counts=True)
        return chosen * 2, len(rows), columns + 1, values.sum(), counts, chosen.mean()

    compare(f, (normal(4, 5),), (normal(4, 5, seed=1),), (normal(4, 5),))


def test_linear_algebra_on_the_host() -> None:
    def f(a: Array, b: Array) -> Any:
        x = np.linalg.solve(a, b)
        w, _ = np.linalg.eigh(a @ a.T)
        return x * 2, np.linalg.det(a) + 1, w, np.linalg.norm(a @ x - b) < 1e-3

    compare(f, (normal(4, 4).astype("f8"), normal(4).astype("f8")))


def test_what_the_host_raises_can_be_caught() -> None:
    def f(a: Array) -> Array:
        try:
            return np.linalg.inv(a + 0)
        except np.linalg.LinAlgError:
            return np.zeros_like(a)

    compare(f, (np.eye(3),), (np.zeros((3, 3)),), (2 * np.eye(3),))

    def g(a: Array) -> Array:
        return np.linalg.inv(a)

    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        minicc.jit(g, threads=1)(np.zeros((2, 2)))


def test_complex_numbers_run_on_the_host() -> None:
    def f(x: Array) -> Any:
        spectrum = np.fft.rfft(x)
        return np.abs(spectrum) ** 2, (spectrum * 1j).real

    compare(f, (normal(8),))


def test_paths_that_meet_share_what_follows() -> None:
    def f(x: Array) -> Array:
        for k in range(6):
            x = x + 1 if x[k] > 0 else x * 2
        return x

    g = minicc.jit(f, threads=1)
    for seed in range(12):
        x = normal(6, seed=seed)
        agree(g(x), f(x))

    def two(x: Array) -> Array:
        x = x + 1 if x[0] > 0 else x - 1
        x = x * 2 if x[1] > 0 else x * 3
        if x[2] > 0:
            return x
        return -x

    g = minicc.jit(two, threads=1)
    for k in range(8):
        x = np.array([1 - 2 * (k & 1), 1 - (k & 2), 1 - (k & 4) / 2], np.float32) * 5
        agree(g(x), two(x))
    # each way of each branch once, not each combination
    assert compilations(g) <= 4


def test_what_c_code_asks_is_not_taken_for_a_loop() -> None:
    def f(x: Array) -> Any:
        rows = [x[0], x[1], x[2], x[3]]
        return max(rows), sorted(rows), min(rows) * 2, x[1] in rows[2:]

    g = minicc.jit(f, threads=1)
    for order in itertools.permutations(range(4)):
        x = np.array(order, np.float32)
        agree(g(x), f(x))


def test_scipy_runs_on_the_host() -> None:
    linalg = pytest.importorskip("scipy.linalg")
    special = pytest.importorskip("scipy.special")

    def f(a: Array) -> Any:
        return linalg.expm(a) @ a, special.gamma(a * a) + 1, special.erf(a)

    compare(f, (normal(3, 3).astype("f8"),))


@pytest.mark.parametrize(
    ("name", "want"), [("erf", math.erf), ("expit", lambda x: 1 / (1 + math.exp(-x)))]
)
def test_functions_of_scipy_are_compiled(name: str, want: Callable[[float], float]) -> None:
    """They arrive as ufuncs that NumPy has none of, also where SciPy is not there to ask."""
    ufunc = SimpleNamespace(__name__=name)
    g = minicc.jit(lambda x: x.__array_ufunc__(ufunc, "__call__", x))
    x = normal(3, 5).astype("f8")
    agree(g(x), np.vectorize(want)(x), 1e-12)


def test_prints_at_every_call(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Array) -> Array:
        y = x * 2
        print("sum", float(y.sum()))
        if y[0] > 0:
            print("positive", y[0])
        return y

    g = minicc.jit(f, threads=1)
    one = np.ones(3, np.float32)
    for _ in range(2):
        g(one)
    g(-one)
    g(-one)
    out = capsys.readouterr().out.splitlines()
    assert out == ["sum 6.0", "positive 2.0"] * 2 + ["sum -6.0"] * 2


def share(x: Array) -> Any:
    n = 0
    for v in x:
        if v > 0:
            n += 1
    return n / len(x), int((x > 0).sum()) / x.size * 100


def means(x: Array) -> Any:
    return float(x.sum()) / 3, 3 / float(x.max()), float(x[0]) / int(x[1]), (float(x[2]) > 1) / 4


def fractions(x: Array) -> Any:
    s = 0.0
    for k in range(1, 30):
        s = s / 2 + float(x[k % 4]) / k
    return s


def of_large(x: Array) -> Any:
    return int(x[0] * 2.0**54) / 3, 1 / int(x[1])


@pytest.mark.parametrize("f", [share, means, fractions, of_large])
def test_quotients_of_numbers_that_data_give_are_compiled(f: Function) -> None:
    x = np.array([0.75, 2.0, 5.0, -3.0])
    g = minicc.jit(f)
    for k in range(5):
        agree(g(x + k), f(x + k), 1e-15)
    shown = g.explain()
    assert shown.traced == 1
    assert not shown.breaks
    assert not any("written out" in text for text in shown.loops)


def test_a_quotient_that_python_refuses() -> None:
    def f(x: Array, t: float) -> Any:
        return float(x[0]) / t, t / float(x[1]), 1 / int(x[2])

    g = minicc.jit(f)
    for x in ([1.0, 2, 3], [1.0, 0, 3], [1.0, 2, 0.5]):
        for t in (0.5, 2.0, 0.0):
            args = np.array(x), t
            if not t or 0 in x or x[2] < 1:
                for call in (f, g):
                    with pytest.raises(ZeroDivisionError):
                        call(*args)
            else:
                agree(g(*args), f(*args), 1e-15)


def pulses(x: Array) -> Any:
    out = np.zeros(30)
    for t in range(30):
        out[t] = np.exp(-0.5 * ((t - 20) / 6) ** 2) + (float(x[t % 4]) - 1) ** 2
    return out


def test_squares_of_numbers_that_data_give() -> None:
    x = np.array([0.75, 2.0, 5.0, -3.0])
    g = compare(pulses, (x,), (x + 1,))
    assert "30 rounds, a loop of the graph" in str(g.explain())
    with pytest.raises(OverflowError):
        g(x * 1e200)
    agree(minicc.jit(lambda x: float(x[0]) ** 2)(x * np.inf), math.inf)


def counts(m: Array) -> Any:
    right = 0
    for k in range(len(m)):
        right += int(m[k, k])
    return right / int(m.sum()), right - int(m[0, 1]), 3 - int(m[1, 0])


def test_sums_of_ints_that_data_give_are_compiled() -> None:
    m = np.array([[5, 2], [3, 7]])
    g = compare(counts, *[(m * k,) for k in range(1, 6)])
    assert g.explain().traced == 1
    assert not g.explain().breaks
    pairs: list[Function] = [lambda m: int(m[0, 0]) + int(m[1, 1]), lambda m: 3 - int(m[1, 1])]
    for most, f in itertools.product((2**62, -(2**62), 2**63 - 1, -(2**63)), pairs):
        large = np.array([[most, 0], [2, most]])
        assert minicc.jit(f)(large) == f(large)


def negated(x: Array) -> Any:
    most, least = int(x.max()), abs(int(x.min()))
    return -most, least, x * 0.5 * -most + least, x[-abs(most) % 3]


def negated_in_rounds(x: Array) -> Any:
    total, y = 0, x * 0.5
    for k in range(40):
        n = int(x[k % 3])
        total += abs(n) - n
        y = y - n
    return total, y


@pytest.mark.parametrize("f", [negated, negated_in_rounds])
def test_negated_ints_that_data_give_are_compiled(f: Function) -> None:
    g = minicc.jit(f, threads=1)
    large = [[2**63 - 1, 5, 1], [-(2**63), 2**62, 5], [2**62, -(2**62), 7]]
    for numbers in ([1, 2, 3], [-5, 2, -9], [5, 6, 7], *large, [3, 2, 1]):
        x = np.array(numbers)
        want, got = f(x), g(x)
        agree(got, want, 1e-15)
        assert list(map(type, got)) == list(map(type, want))
    assert g.explain().traced == 1
    assert not g.explain().breaks


def test_the_least_int_in_a_loop() -> None:
    def f(x: Array) -> Any:
        y = np.zeros(len(x))
        for k in range(len(x)):
            y[k] = int(x[k]) - 1
        return y

    x = np.array([-(2**63), *[0] * 20])
    np.testing.assert_array_equal(minicc.jit(f)(x), f(x))


def test_lists_of_elements_that_are_read() -> None:
    def f(x: Any) -> Any:
        rows = x[::-1].tolist()
        return rows, {"first": rows[0], "all": [rows, (x.shape[0], None)]}, x * len(rows)

    compiled = minicc.jit(f, threads=1)
    for x in (np.arange(6.0).reshape(2, 3), np.full((2, 3), -0.0), np.zeros((2, 3)), np.eye(2, 3)):
        for _ in range(2):
            want, got = f(x), compiled(x)
            assert repr(got) == repr(want)
            assert got[0] is got[1]["all"][0]
            got[0].append(0)  # a list of its own at each call
    assert compiled.explain().traced == 4


def _found(x: Array) -> int:
    low, high = 0, len(x) - 1
    while low <= high:
        middle = (low + high) // 2
        with np.errstate(invalid="ignore"):
            low, high = (middle + 1, high) if x[middle] < x[13] else (low, middle - 1)
    return low


def _halved(x: Array) -> Any:
    norms: list[Any] = []
    while x.max() > 1e-3:
        x = x / 2
        norms.append(np.sqrt(x * x).sum())
    return x


def test_where_machine_code_brings_nothing_the_function_runs_as_it_is() -> None:
    few, many = np.random.default_rng(0).random((40, 50)), np.random.default_rng(0).random(1 << 18)

    def runs_as_it_is(f: Any, x: Any) -> bool:
        g = minicc.jit(f, threads=1)
        np.testing.assert_array_equal(g(x), f(x))
        np.testing.assert_array_equal(g(x), f(x))
        g.__wrapped__ = lambda x: "as it is"
        return isinstance(g(x), str)

    assert runs_as_it_is(lambda x: x[x > 0.5], few)
    assert runs_as_it_is(lambda x: np.unique(np.unique(x[3:9].T)[:5] + 1), few)
    assert not runs_as_it_is(lambda x: x[x > 0.5], many)
    assert not runs_as_it_is(lambda x: np.unique(x * x), many)
    assert runs_as_it_is(lambda x: x[x * x > 0.5], few)
    # short rounds of which Python reads how they end
    assert runs_as_it_is(_found, np.sort(few.ravel()))
    assert runs_as_it_is(lambda x: "".join("+" if v else "-" for v in x > 0.5), few[0])
    assert not runs_as_it_is(_halved, many)
    assert not runs_as_it_is(lambda x: x * 2 if x[0, 0] > 0 else x, few)
    assert not runs_as_it_is(lambda x: x[x > 0.5] if x[0, 0] > 0 else x, few)


def test_what_runs_as_it_is_gives_no_warning_either() -> None:
    g = minicc.jit(lambda x: np.unique(np.log(x)), threads=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            g(np.zeros(3))


def test_what_is_little_work_between_two_breaks_is_compiled_once_it_runs_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled: list[str] = []
    original = GraphProgram.compiled

    def counting(program: GraphProgram) -> Any:
        compiled.append("one")
        return original(program)

    def f(x: Array, k: int) -> tuple[Array, Array, int]:
        y = x[::-1]
        while x[k] < 9 and y[0] > 0:
            if x[k] == 4:
                y = x.reshape(2, 4)[:, 1:]
                x[k] = 5
            k = int(x[k])
        return x, y, k

    monkeypatch.setattr(GraphProgram, "compiled", counting)
    monkeypatch.setattr(GraphProgram, "opened", lambda program: None)
    monkeypatch.setattr(Tree, "is_hosted", lambda tree: False)
    g = minicc.jit(f, threads=1)
    for call in range(8 * INTERPRETED):
        x, z = (np.array([3.0, 7, 1, 2, 6, 9, 5, 4]) for _ in range(2))
        (a, b, m), (_, d, n) = g(x, 0), f(z, 0)
        assert a is x
        assert m == n
        for array in (x, z):
            array[...] = 3
        for array in (b, d):
            array[...] += np.arange(3)
        np.testing.assert_array_equal(x, z)
        np.testing.assert_array_equal(b, d)
        if not call:
            first = len(compiled)
    assert first < len(compiled)


def test_an_index_out_of_bounds_where_little_is_interpreted_is_numpys_error() -> None:
    def f(x: Array, i: Array) -> Any:
        if x[0] > 0:
            return x[i] + 1
        return x

    g = minicc.jit(f, threads=1)
    x = np.array([1.0, 2.0, 3.0])
    agree(g(x, np.array([0, 2])), f(x, np.array([0, 2])))
    for at in ([0, 3], [-4, 0]):
        with pytest.raises(IndexError) as wanted:
            f(x, np.array(at))
        with pytest.raises(IndexError) as got:
            g(x, np.array(at))
        assert str(got.value) == str(wanted.value)


def test_keys_of_dicts_that_are_traced() -> None:
    """What tells a state told a key by asking it for its bytes, which told the state again."""

    def f(x: Array, names: Array) -> Any:
        means = {name: x[names == name].mean() for name in np.unique(names)}
        pairs = {(name, 1): 2.0 for name in means}
        if names[0] == b"d":
            return x, 0, ""
        turned = names[::-1][np.arange(len(x))]
        text = "".join([k.decode() for k in means]) + turned[0].decode()
        return x * sum(means.values()), len(pairs), text

    g = minicc.jit(f, threads=1)
    x, names = np.arange(6.0), np.array([b"a", b"bc", b"a", b"d", b"bc", b"a"])
    for _ in range(3):
        for got, want in zip(g(x, names), f(x, names), strict=True):
            assert type(got) is type(want)
            assert np.all(got == want)
    assert "fails" not in str(g.explain())
