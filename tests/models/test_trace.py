"""Whole functions traced: the graph agrees with NumPy, the user's objects stay as they were."""

import functools
import math
import types
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy import exp as exponential

import minicc
from minicc.frontends.trace import Parameters, Traced, trace, trace_call
from minicc.ir.core import Module
from minicc.ir.interpret import Interpreter
from minicc.ir.types import F32, TensorType

Function = Callable[..., Any]
WEIGHTS = np.arange(12, dtype=np.float32).reshape(4, 3)
TABLE: dict[str, Any] = {"scale": np.float32(2), "bias": [np.ones(3, np.float32)]}
EPSILON = 1e-5
Pair = namedtuple("Pair", "first second")


def evaluate(module: Module, leaves: list[Any]) -> list[Any]:
    return [np.asarray(a) for a in Interpreter(module).region(module.main.body, leaves, {})]


def run(f: Function, *args: Any, **kwargs: Any) -> Any:
    parameters = Parameters(f)
    traced = trace_call(f, args, kwargs)
    _, leaves, _ = parameters.key(parameters.bind(args, kwargs))
    return traced.rebuild(evaluate(traced.module, leaves), leaves)


def names(traced: Traced) -> list[str]:
    return [op.opname.removeprefix("graph.") for op in traced.module.main.body.ops]


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def norm_mlp(x: Any, g: Any, b: Any, w1: Any, b1: Any, w2: Any) -> Any:
    m = np.mean(x, axis=-1, keepdims=True)
    v = np.mean((x - m) ** 2, axis=-1, keepdims=True)
    h = ((x - m) / np.sqrt(v + 1e-5) * g + b) @ w1 + b1
    h = 0.5 * h * (1 + np.tanh(0.7978845608 * (h + 0.044715 * h * h * h)))
    return h @ w2


def black_scholes(s: Any, k: Any, t: Any) -> Any:
    n: Function = lambda z: 1 / (1 + np.exp(-1.5976 * z - 0.07056 * z * z * z))  # noqa: E731
    d1 = (np.log(s / k) + (0.02 + 0.045) * t) / (0.3 * np.sqrt(t))
    return s * n(d1) - k * np.exp(-0.02 * t) * n(d1 - 0.3 * np.sqrt(t))


def jacobi(u: Any) -> Any:
    for _ in range(10):
        inner = u[1:-1, 1:-1] + u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        u = np.pad(0.2 * inner, 1)
    return u


def pairwise(x: Any, y: Any) -> Any:
    d = x[:, None, :] - y[None, :, :]
    return np.sqrt(np.sum(d * d, axis=-1))


def attention(q: Any, k: Any, v: Any) -> Any:
    return softmax(q @ np.swapaxes(k, 1, 2) * 0.125) @ v


BENCHMARKS: list[tuple[Function, list[tuple[int, ...]]]] = [
    (softmax, [(6, 8)]),
    (norm_mlp, [(4, 8), (8,), (8,), (8, 16), (16,), (16, 8)]),
    (black_scholes, [(9,), (9,), (9,)]),
    (jacobi, [(12, 9)]),
    (pairwise, [(7, 3), (5, 3)]),
    (attention, [(2, 6, 4), (2, 6, 4), (2, 6, 4)]),
]


@pytest.mark.parametrize(("f", "shapes"), BENCHMARKS, ids=[f.__name__ for f, _ in BENCHMARKS])
def test_benchmarks(f: Function, shapes: list[tuple[int, ...]]) -> None:
    args = [np.abs(floats(*s)) + 0.5 for s in shapes]
    got, want = run(f, *args), f(*args)
    assert got.dtype == want.dtype == np.float32
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-5)


def test_module_names_and_locations() -> None:
    module = trace(softmax, [TensorType(F32, (2, 3))])
    line = softmax.__code__.co_firstlineno
    assert module.level == "graph"
    assert [v.hint for v in module.main.args] == ["x"]
    assert module.main.result_names == ("result",)
    lines = [op.loc for op in module.main.body.ops]
    assert lines == [(f"test_trace.py:{line + k}",) for k in (1, 1, 1, 2, 2)]
    renamed = trace(softmax, [TensorType(F32, (2, 3))], ["logits"])
    assert [v.hint for v in renamed.main.args] == ["logits"]


def test_a_helper_has_its_own_lines() -> None:
    x = floats(2, 3, 3)
    traced = trace_call(attention, (x, x, x), {})
    assert (f"test_trace.py:{softmax.__code__.co_firstlineno + 1}",) in [
        op.loc for op in traced.module.main.body.ops
    ]


def helper(x: Any) -> Any:
    return exponential(x) + np.zeros(3, np.float32)


def test_numpy_under_any_name() -> None:
    log = np.log
    numpy = np

    def f(x: Any) -> Any:
        import numpy as inner
        from numpy import sqrt

        created = numpy.ones((2, 3), dtype=numpy.float32)
        created[0] = log(inner.abs(x[0]) + 1)
        return sqrt(created) + (lambda y: helper(y))(x) + math.pi

    x = floats(2, 3)
    np.testing.assert_allclose(run(f, x), f(x), rtol=1e-6)
    assert helper.__globals__["np"] is np
    assert log is np.log


def test_libraries_come_back_by_the_protocols() -> None:
    library = types.FunctionType(softmax.__code__, {"np": np}, "softmax")
    holder = types.SimpleNamespace(softmax=library)

    def f(x: Any) -> Any:
        return holder.softmax(x)

    x = floats(2, 3)
    np.testing.assert_array_equal(run(f, x), softmax(x))


def test_captured_arrays_become_constants() -> None:
    bias = np.ones(3, np.float32)

    def f(x: Any) -> Any:
        return x @ WEIGHTS + bias * TABLE["scale"] + TABLE["bias"][0] + EPSILON

    x = floats(2, 4)
    traced = trace_call(f, (x,), {})
    np.testing.assert_allclose(run(f, x), f(x), rtol=1e-6)
    assert set(traced.captured) == {"WEIGHTS", "bias", "TABLE['bias'][0]"}
    assert traced.environment.holds()
    bias[1] = 5
    assert not traced.environment.holds()
    assert "closure bias" in traced.environment.explain()


def test_the_environment_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        return helper(x) + EPSILON

    traced = trace_call(f, (floats(3),), {})
    assert traced.environment.holds()
    monkeypatch.setitem(globals(), "EPSILON", 1e-3)
    assert traced.environment.explain() == "global EPSILON: 1e-05 before, 0.001 now"
    monkeypatch.setitem(globals(), "EPSILON", 1e-5)
    assert traced.environment.holds()
    monkeypatch.setitem(globals(), "helper", softmax)
    assert not traced.environment.holds()


def test_arguments_and_results_are_trees() -> None:
    def f(p: Any, mode: str, *rest: Any, scale: float = 2.0) -> Any:
        total = p["a"] * scale + p["b"][0]
        return {"sum": total, "parts": (rest[0] - 1, mode, None), "pair": Pair(total[0], 3)}

    p = {"a": floats(3), "b": [floats(3)]}
    got, want = run(f, p, "m", floats(2)), f(p, "m", floats(2))
    np.testing.assert_array_equal(got["sum"], want["sum"])
    np.testing.assert_array_equal(got["parts"][0], want["parts"][0])
    assert got["parts"][1:] == ("m", None)
    assert got["pair"] == want["pair"]
    assert isinstance(got["pair"].first, np.float32)
    traced = trace_call(f, (p, "m", floats(2)), {})
    assert [v.hint for v in traced.module.main.args] == ["p['a']", "p['b'][0]", "rest[0]"]
    assert traced.module.main.result_names == (
        "result['sum']", "result['parts'][0]", "result['pair'].first",
    )  # fmt: skip


def test_keys_tell_calls_apart_and_say_why() -> None:
    def f(x: Any, mode: Any = 1) -> Any:
        return x

    parameters = Parameters(f)

    def key(*args: Any) -> Any:
        return parameters.key(parameters.bind(args, {}))[0]

    small, large = floats(8, 4), floats(9, 4)
    assert key(small) == key(floats(8, 4))
    assert hash(key(small)) == hash(key(floats(8, 4)))
    assert key(small, 1) != key(small, True)
    assert key(small, 1) != key(small, 1.0)
    explain = parameters.explain
    assert explain(key(small), key(large)) == "argument x: float32[8,4] before, float32[9,4] now"
    assert explain(key(small, "a"), key(small, 2.5)) == (
        "argument mode: 'a' before, a Python float now"
    )
    assert explain(key([small]), key([large])) == (
        "argument x[0]: float32[8,4] before, float32[9,4] now"
    )
    assert explain(key(small), key([small])) == ("argument x: float32[8,4] before, a list of 1 now")


def test_writing_is_functional_and_views_write_through() -> None:
    def f(x: Any) -> Any:
        u = np.zeros((4, 5), np.float32)
        u[1:-1, ::2] = x[:2, :3]
        row = u[2]
        row += 1
        row[1:3] *= 2
        u[u > 2] = 2
        u[0, 0] -= 0.5
        np.multiply(u, 3, out=u)
        later = row.copy()
        u.fill(7) if x.shape[0] > 9 else None
        return u, row, later

    x = floats(3, 3)
    for got, want in zip(run(f, x), f(x), strict=True):
        np.testing.assert_array_equal(got, want)


def test_python_follows_shapes_and_plain_arguments() -> None:
    def f(x: Any, steps: int, double: bool) -> Any:
        total = 0
        for row in x:
            total = total + row
        a, b, c = x
        for k in range(steps):
            total = total * k + a - len(x)
        for n in np.arange(3):
            total = total + int(n) * c
        return total * 2 if double else sum([total, b])

    x = floats(3, 4)
    for double in (False, True):
        np.testing.assert_allclose(run(f, x, 2, double), f(x, 2, double), rtol=1e-6)


def test_constants_are_computed_while_tracing() -> None:
    def f(x: Any) -> Any:
        grid = np.linspace(0, 1, 5) ** 2
        window = np.hanning(5)[::-1] * np.sin(grid)
        if grid.sum() > 1:
            window = window + 1
        return x * window

    traced = trace_call(f, (np.ones(5),), {})
    assert names(traced) == ["constant", "mul"]
    np.testing.assert_array_equal(run(f, np.ones(5)), f(np.ones(5)))


def test_repeated_constants_stay_small() -> None:
    traced = trace_call(lambda x: x + np.zeros((1000, 1000)), (np.ones(1000),), {})
    assert names(traced) == ["constant", "broadcast", "add"]


def test_other_callables() -> None:
    class Layer:
        def __init__(self) -> None:
            self.w = floats(3)

        def forward(self, x: Any) -> Any:
            return np.exp(x) * self.w

    def scaled(x: Any, factor: Any) -> Any:
        return x * factor

    def twice(f: Function) -> Function:
        @functools.wraps(f)
        def inner(x: Any) -> Any:
            return f(f(x))

        return inner

    def recursive(x: Any, n: int) -> Any:
        return x if n == 0 else recursive(np.tanh(x), n - 1)

    x = floats(3)
    layer = Layer()
    np.testing.assert_array_equal(run(layer.forward, x), layer.forward(x))
    np.testing.assert_array_equal(run(functools.partial(scaled, factor=layer.w), x), x * layer.w)
    np.testing.assert_array_equal(run(twice(helper), x), helper(helper(x)))
    np.testing.assert_array_equal(run(recursive, x, 3), recursive(x, 3))
    np.testing.assert_array_equal(run(lambda x, f: f(x), x, helper), helper(x))


def test_results_may_be_inputs_and_constants() -> None:
    def f(x: Any) -> Any:
        return x, WEIGHTS, np.arange(3), x.shape[0]

    x = floats(3)
    got = run(f, x)
    np.testing.assert_array_equal(got[1], WEIGHTS)
    assert got[2].tolist() == [0, 1, 2]
    assert got[3] == 3
    assert np.array_equal(got[0], x)


@pytest.mark.parametrize("g", [np.mean, np.cumsum, np.sort, np.exp, np.linalg.norm, np.add.reduce])
def test_functions_of_numpy_as_arguments(g: Any) -> None:
    def used(x: Any, g: Any, after: Any = np.transpose) -> Any:
        return after(g(x) * 2)

    x = np.random.default_rng(0).random((4, 5))
    run = minicc.jit(used)
    np.testing.assert_allclose(run(x, g), used(x, g), rtol=1e-13)
    assert "1 kernel" in str(run.explain(x, g)) or "kernels" in str(run.explain(x, g))


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2"])
def test_signs_of_zeros_and_of_what_is_no_number(dtype: str) -> None:
    x = np.array([0.0, -0.0, 1, -1, np.nan, -np.nan, np.inf, -np.inf] * 9, dtype)
    for f in (np.signbit, lambda x: np.copysign(x[::-1], x), lambda x: np.copysign(3, x)):
        got, want = minicc.jit(f)(x), f(x)
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
