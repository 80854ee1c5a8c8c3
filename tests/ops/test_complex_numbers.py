"""Complex numbers: in ops of the graph, taken apart, in traced functions as NumPy has them."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minicc
from minicc.compile.compiled import compile_module
from minicc.ir import graph
from minicc.ir.core import Function, Literal, Module, Op, Region, Value
from minicc.ir.interpret import Interpreter
from minicc.ir.text.parser import parse_module
from minicc.ir.text.printer import print_module
from minicc.ir.types import BOOL, C64, C128, F32, F64, TensorType
from minicc.options import Options

Array = Any
LOC = ("complex.py:1",)
R = np.random.default_rng(3)


def normal(*shape: int, seed: int = 0) -> Array:
    r = np.random.default_rng(seed)
    return r.normal(size=shape) + 1j * r.normal(size=shape)


def _scan(x: Value) -> Op:
    state, whole = Value(x.type), Value(x.type)
    product = graph.Mul(state, whole, loc=LOC)
    row = graph.Neg(product.result, loc=LOC)
    body = Region([state, whole], [product, row], [product.result, row.result])
    about = {"count": 4, "states": 1, "backwards": (), "turned": (True,)}
    return graph.Scan([x, x], **about, body=body, loc=LOC)


X = TensorType(C128, (3, 4))
CASES: dict[str, Callable[[Value, Value], Op]] = {
    "add": lambda x, y: graph.Add(x, y, loc=LOC),
    "sub": lambda x, y: graph.Sub(x, y, loc=LOC),
    "mul": lambda x, y: graph.Mul(x, y, loc=LOC),
    "neg": lambda x, y: graph.Neg(x, loc=LOC),
    "eq": lambda x, y: graph.Eq(x, y, loc=LOC),
    "ne": lambda x, y: graph.Ne(x, x, loc=LOC),
    "real": lambda x, y: graph.Real(x, loc=LOC),
    "imag": lambda x, y: graph.Imag(x, loc=LOC),
    "transpose": lambda x, y: graph.Transpose(x, (1, 0), loc=LOC),
    "slice": lambda x, y: graph.Slice(x, (0, 3), (3, 0), (2, -1), loc=LOC),
    "concat": lambda x, y: graph.Concat([x, y], 1, loc=LOC),
    "pad": lambda x, y: graph.Pad(x, (1, 0), (0, 2), Literal(np.array(1.5 - 2j)), loc=LOC),
    "contract": lambda x, y: graph.Contract(x, y, "ij,kj->ik", loc=LOC),
    "reduce": lambda x, y: graph.Reduce(x, (1,), "add", loc=LOC),
    "narrow": lambda x, y: graph.Cast(x, dtype=C64, loc=LOC),
    "is not zero": lambda x, y: graph.Cast(x, dtype=BOOL, loc=LOC),
    "scan": lambda x, y: _scan(x),
    "constant": lambda x, y: graph.Constant(Literal(np.array([1 + 2j, -0.0])), loc=LOC),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_taken_apart_is_what_the_op_means(name: str) -> None:
    x, y = Value(X), Value(X)
    op = CASES[name](x, y)
    module = Module("graph", [Function("main", Region([x, y], [op], op.results))])
    assert print_module(parse_module(print_module(module))) == print_module(module)
    given = [normal(3, 4), normal(3, 4, seed=1)]
    want = Interpreter(module).region(module.main.body, given, {})
    got = compile_module(module, Options(threads=1), {}).executable.run(given)
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype
        np.testing.assert_allclose(g, w, rtol=1e-6)


@pytest.mark.parametrize("element", [F32, F64])
def test_complex_numbers_of_parts(element: Any) -> None:
    x, y = (Value(TensorType(element, (5,))) for _ in range(2))
    op = graph.Complex(x, y, loc=LOC)
    module = Module("graph", [Function("main", Region([x, y], [op], op.results))])
    given = [np.arange(5).astype(element.numpy), np.ones(5, element.numpy)]
    (got,) = compile_module(module, Options(threads=1), {}).executable.run(given)
    assert got.dtype == op.result.type.dtype.numpy
    assert (got == given[0] + 1j * given[1]).all()


def test_what_has_no_meaning_is_refused() -> None:
    z, x = Value(X), Value(TensorType(F64, (3, 4)))
    for make in (
        lambda: graph.Real(x, loc=LOC),
        lambda: graph.Complex(x, Value(TensorType(F32, (3, 4))), loc=LOC),
        lambda: graph.Lt(z, z, loc=LOC),
        lambda: graph.Add(z, x, loc=LOC),
        lambda: graph.Reduce(z, (0,), "max", loc=LOC),
    ):
        with pytest.raises(TypeError):
            make()


def _views(z: Array, x: Array) -> Any:
    z[0] = 5
    z.T[0] = 2j
    z.real[1] = 7
    z.imag[:, 1] = x[:, 1]
    return z[1:, ::2]


def _in_place(z: Array, x: Array) -> Any:
    z *= 2
    z += 1j
    z[x > 0] = z[x > 0] ** 2
    return z.sum(), z[x < 0].mean()


def _loop(z: Array, x: Array) -> Any:
    y = z * 0
    for k in range(10):
        y = y * y * 0.25 + z
        y[k % 4, k % 3] = 0.5j * k
    return y


def _mandelbrot(z: Array, x: Array) -> Any:
    n = np.zeros(z.shape, int)
    c = z.copy()
    for k in range(20):
        near = abs(z) < 2
        n[near] = k
        z[near] = z[near] ** 2 + c[near]
    return n


COMPILED: list[Callable[[Array, Array], Any]] = [
    _views, _in_place, _loop, _mandelbrot,
    lambda z, x: (z * z + 1j * x, z - 1, -z, +z, x * (1 + 2j), x + 0j),
    lambda z, x: (z / (z + 2), 1 / z, z / 2, x / z, z.real / z.imag),
    lambda z, x: (abs(z), np.exp(z), z.conj(), np.conj(z).T @ z, (z @ z.T).trace()),
    lambda z, x: (z.mean(0), z.sum(), z.mean(), z.real + z.imag, x.real, x.imag),
    lambda z, x: (np.where(x > 0, z, 0), z.astype("c8") * 2, z.astype("c8") * 2j),
    lambda z, x: (np.concatenate([z, x]), np.stack([z, z])[:, 1], np.roll(z, 1), z == z, z != z),
    lambda z, x: (np.cumsum(z, 0), np.cumsum(x, dtype="c8"), np.pad(z, 1, constant_values=2j)),
    lambda z, x: (np.isnan(z), np.isfinite(z), np.iscomplexobj(z), np.isreal(z)),
    lambda z, x: (z**2, z**1, np.square(z), np.einsum("ij,kj->ik", z, x), np.outer(z, x)),
    lambda z, x: (z.astype(bool), np.tril(z), z.ravel()[3], z[x > 1].sum(), np.zeros_like(z)),
]  # fmt: skip
BY_NUMPY: list[Callable[[Array, Array], Any]] = [
    lambda z, x: np.sort(z), lambda z, x: z.var(), lambda z, x: z**3,
    lambda z, x: np.fft.fft(z, 67),
    lambda z, x: z.prod(), lambda z, x: z.max(), lambda z, x: z.cumprod(), lambda z, x: np.sqrt(z),
    lambda z, x: z.view(float), lambda z, x: complex(z[0, 0]) * z,
    lambda z, x: np.linalg.inv(z[:, :4]),
]  # fmt: skip


def breaks(f: Callable[..., Any], *args: Array) -> int:
    """How many breaks there were; the results and arguments are NumPy's."""
    mine, theirs = copy.deepcopy(args), copy.deepcopy(args)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        want, fast = f(*theirs), minicc.jit(f, threads=1, math="strict")
        warnings.simplefilter("error", minicc.PerformanceWarning)
        got = fast(*mine)
    pairs = zip(want, got, strict=True) if isinstance(want, tuple) else [(want, got)]
    for w, g in (*pairs, *zip(theirs, mine, strict=True)):
        assert type(w) is type(g)
        assert getattr(w, "dtype", None) == getattr(g, "dtype", None)
        close = 1e-12 if np.asarray(w).itemsize > 8 else 1e-6
        for part in (np.real, np.imag):
            np.testing.assert_allclose(part(g), part(w), rtol=close, atol=close)
    return len(fast.explain().breaks)


@pytest.mark.parametrize("k", range(len(COMPILED)))
def test_functions_of_complex_numbers_are_compiled(k: int) -> None:
    assert breaks(COMPILED[k], normal(4, 5) / 2, R.normal(size=(4, 5))) == 0


@pytest.mark.parametrize("k", range(len(BY_NUMPY)))
def test_what_the_graph_does_not_compute_numpy_does(k: int) -> None:
    assert breaks(BY_NUMPY[k], normal(4, 5), R.normal(size=(4, 5))) > 0


SPECIAL = [0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, 709.9, 1e-300]


ENDS: list[Callable[..., Any]] = [
    lambda z: np.exp(z), lambda z: abs(z), lambda z: 1 / z, lambda z: z / (z + 1),
    lambda z: np.exp(z.astype("c8")),
]  # fmt: skip


@pytest.mark.parametrize("f", ENDS)
def test_the_ends_of_the_range(f: Callable[..., Any]) -> None:
    z = np.zeros((9, 9), complex)
    z.real, z.imag = np.meshgrid(SPECIAL, SPECIAL)
    assert breaks(f, z) == 0


def test_a_complex_number_has_no_place_among_real_ones() -> None:
    def put(x: Array) -> None:
        x[0] = 1j

    def add(x: Array) -> None:
        x += np.array(1j)

    for f in (put, add):
        with pytest.raises(TypeError):
            minicc.jit(f)(np.ones(3))


def test_parts_of_what_is_known_while_traced_are_written_to() -> None:
    def written() -> Any:
        z = np.linspace(0, 1, 3) * (1 + 2j)
        turned = z.conj()
        turned.real = 2
        part = z.imag
        part[1:] = 7
        z.T.real[0] = 5
        return z, turned, part

    for got, wanted in zip(minicc.jit(written)(), written(), strict=True):
        np.testing.assert_array_equal(got, wanted)
