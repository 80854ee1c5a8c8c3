"""Elementwise graph ops against NumPy's own functions, called on the same element types."""

import math
import operator
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.sweeps import examples

from minicc.ir import graph
from minicc.ir.core import Value
from minicc.ir.types import BF16, BOOL, F16, F32, F64, I8, I32, I64, U8, U64, DType, tensor_of

Array = np.ndarray[Any, Any]
FLOATS = (F16, BF16, F32, F64)
INTEGERS = (I8, I32, I64, U8, U64)
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 3.0, math.inf, -math.inf, math.nan, 1e-7, 6e4]

SHAPES = hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, min_side=0, max_side=3)


def sample(element: DType, shape: tuple[int, ...], seed: int) -> Array:
    """Half ordinary values, half those at which something may go wrong."""
    rng = np.random.default_rng(seed)
    if element is BOOL:
        return rng.random(shape) < 0.5
    if element.is_float:
        ordinary = rng.normal(scale=3, size=shape)
        return np.where(rng.random(shape) < 0.5, ordinary, rng.choice(SPECIAL, shape)).astype(
            element.numpy
        )
    ends = np.iinfo(element.numpy)
    special = rng.choice(np.array([ends.min, ends.max, 0, 1, ends.max - 1], element.numpy), shape)
    low = -9 if element.kind == "i" else 0
    ordinary = rng.integers(low, 9, shape).astype(element.numpy)
    return np.where(rng.random(shape) < 0.5, ordinary, special)


def apply(cls: type[graph.Elementwise], *args: Array, **attrs: Any) -> Array:
    """The op's outcome, which is of the inferred type."""
    op = cls(*[Value(tensor_of(a)) for a in args], loc=("test",), **attrs)
    (out,) = op.evaluate(lambda region, values: (), *args)
    assert tensor_of(out) == op.result.type
    return np.asarray(out)


def same(got: Array, wanted: Any, *, zeros: bool = True) -> None:
    """Equal numbers, NaN where NaN is, and the same signs of zeros."""
    want = np.asarray(wanted)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if got.dtype.kind == "V":  # of bf16, NumPy does not know that NaN is NaN
        got, want = got.astype("f4"), want.astype("f4")
    np.testing.assert_array_equal(got, want)
    if zeros and got.dtype.kind == "f":
        number = ~np.isnan(got)
        np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(want)[number])


def quietly(f: Callable[..., Any], *args: Any) -> Any:
    with np.errstate(all="ignore"):
        return f(*args)


BINARY_FLOAT: dict[type[graph.Elementwise], Callable[..., Any]] = {
    graph.Add: operator.add,
    graph.Sub: operator.sub,
    graph.Mul: operator.mul,
    graph.Div: operator.truediv,
    graph.Pow: np.float_power,
    graph.Max: np.maximum,
    graph.Min: np.minimum,
    graph.Lt: operator.lt,
    graph.Le: operator.le,
    graph.Eq: operator.eq,
    graph.Ne: operator.ne,
}


@pytest.mark.parametrize("element", FLOATS, ids=str)
@pytest.mark.parametrize("cls", BINARY_FLOAT, ids=lambda cls: cls.opname)
@settings(max_examples=12, deadline=None)
@given(shapes=SHAPES, seed=st.integers(0, 2**32 - 1))
def test_binary_on_floats(
    cls: type[graph.Elementwise], element: DType, shapes: Any, seed: int
) -> None:
    a = sample(element, shapes.input_shapes[0], seed)
    b = sample(element, shapes.input_shapes[1], seed + 1)
    got = apply(cls, a, b)
    if cls is graph.Pow:
        # NumPy takes a lone exponent of 0.5 for sqrt, which differs from pow at -inf
        a = np.where(np.isneginf(a.astype("f8")), -1, a).astype(element.numpy)
        got = apply(cls, a, b)
        exact = quietly(np.float_power, a.astype("f8"), b.astype("f8"))
        wanted = quietly(lambda: exact.astype(element.numpy))
        tolerance = {2: 1e-2, 4: 1e-5, 8: 1e-14}[element.bytes]
        np.testing.assert_allclose(
            got.astype("f8"), wanted.astype("f8"), rtol=tolerance, atol=1e-38
        )
    else:
        same(got, quietly(BINARY_FLOAT[cls], a, b), zeros=cls not in (graph.Max, graph.Min))


@pytest.mark.parametrize("element", FLOATS, ids=str)
@settings(max_examples=25, deadline=None)
@given(shapes=SHAPES, seed=st.integers(0, 2**32 - 1))
def test_floor_division_of_floats_fits_its_remainder(
    element: DType, shapes: Any, seed: int
) -> None:
    a = sample(element, shapes.input_shapes[0], seed)
    b = sample(element, shapes.input_shapes[1], seed + 1)
    wide = np.float32 if element.bits == 16 else element.numpy
    quotient, rest = quietly(np.divmod, a.astype(wide), b.astype(wide))
    same(apply(graph.FloorDiv, a, b), quietly(quotient.astype, element.numpy))
    same(apply(graph.Mod, a, b), quietly(rest.astype, element.numpy))


def wrap(number: int, element: DType) -> int:
    """An exact integer as the type stores it."""
    low = number % (1 << element.bits)
    return low - (1 << element.bits) if element.kind == "i" and low >> (element.bits - 1) else low


def truncated(a: int, b: int) -> int:
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


BINARY_INTEGER: dict[type[graph.Elementwise], Callable[[int, int], int]] = {
    graph.Add: operator.add,
    graph.Sub: operator.sub,
    graph.Mul: operator.mul,
    graph.Div: truncated,
    graph.FloorDiv: lambda a, b: a // b if b else 0,
    graph.Mod: lambda a, b: a % b if b else 0,
    graph.Max: max,
    graph.Min: min,
    graph.And: operator.and_,
    graph.Or: operator.or_,
    graph.Xor: operator.xor,
    graph.Lt: operator.lt,
    graph.Le: operator.le,
    graph.Eq: operator.eq,
    graph.Ne: operator.ne,
}


@pytest.mark.parametrize("element", INTEGERS, ids=str)
@pytest.mark.parametrize("cls", BINARY_INTEGER, ids=lambda cls: cls.opname)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_binary_on_integers_is_exact_and_wraps(
    cls: type[graph.Elementwise], element: DType, seed: int
) -> None:
    a, b = sample(element, (4, 6), seed), sample(element, (4, 1), seed + 1)
    got = apply(cls, a, b)
    comparison = got.dtype == np.bool_
    for (i, j), value in np.ndenumerate(got):
        exact = BINARY_INTEGER[cls](int(a[i, j]), int(b[i, 0]))
        assert value == (exact if comparison else wrap(exact, element)), (a[i, j], b[i, 0])


@pytest.mark.parametrize("element", [e for e in INTEGERS if e.kind == "u"], ids=str)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_upper_half_of_products(element: DType, seed: int) -> None:
    a, b = sample(element, (4, 60), seed), sample(element, (4, 60), seed + 1)
    a[:, 0] = b[:, 0] = ~a[:1, :1] | a[:1, :1]  # all bits
    for at, got in np.ndenumerate(apply(graph.MulHigh, a, b)):
        assert got == int(a[at]) * int(b[at]) >> element.bits, (a[at], b[at])


@pytest.mark.parametrize("element", INTEGERS, ids=str)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_shifts_by_any_number(element: DType, seed: int) -> None:
    a, b = sample(element, (4, 60), seed), sample(element, (4, 60), seed + 1)
    b[:, 1:] = np.arange(59) % (element.bits + 3)
    up, down = apply(graph.Shl, a, b), apply(graph.Shr, a, b)
    for at, by in np.ndenumerate(b):
        number, places = int(a[at]), int(by) if 0 <= by < element.bits else element.bits
        assert up[at] == wrap(number << places, element), (number, by)
        assert down[at] == number >> places, (number, by)


@pytest.mark.parametrize("a", [False, True])
@pytest.mark.parametrize("b", [False, True])
def test_on_booleans(a: bool, b: bool) -> None:
    wanted = {
        graph.And: a and b,
        graph.Or: a or b,
        graph.Xor: a != b,
        graph.Eq: a == b,
        graph.Lt: a < b,
        graph.Max: a or b,
        graph.Min: a and b,
    }
    for cls, outcome in wanted.items():
        same(apply(cls, np.array(a), np.array([b])), np.array([outcome]))
    same(apply(graph.Not, np.array(a)), np.array(not a))


UNARY_FLOAT: dict[type[graph.Elementwise], tuple[Any, bool]] = {
    graph.Neg: (operator.neg, True),
    graph.Abs: (operator.abs, True),
    graph.Sqrt: (np.sqrt, True),
    graph.Floor: (np.floor, True),
    graph.Ceil: (np.ceil, True),
    graph.Round: (np.rint, True),
    graph.Exp: (np.exp, False),
    graph.Exp2: (np.exp2, False),
    graph.Expm1: (np.expm1, False),
    graph.Log: (np.log, False),
    graph.Log2: (np.log2, False),
    graph.Log10: (np.log10, False),
    graph.Cbrt: (np.cbrt, False),
    graph.Tanh: (np.tanh, False),
    graph.Erf: (np.vectorize(math.erf, otypes=["f8"]), False),
}


@pytest.mark.parametrize("element", FLOATS, ids=str)
@pytest.mark.parametrize("cls", UNARY_FLOAT, ids=lambda cls: cls.opname)
@settings(max_examples=12, deadline=None)
@given(
    shape=hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    seed=st.integers(0, 2**32 - 1),
)
def test_unary_on_floats(
    cls: type[graph.Elementwise], element: DType, shape: tuple[int, ...], seed: int
) -> None:
    x = sample(element, shape, seed)
    function, exact = UNARY_FLOAT[cls]
    got = apply(cls, x)
    if exact:
        same(got, quietly(function, x))
        return
    # what NumPy calls for each type differs in the last bits: compare with binary64
    wanted = quietly(lambda: np.asarray(function(x.astype("f8"))).astype(element.numpy))
    ulp = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-22, "f64": 2.0**-50}[element.name]
    np.testing.assert_allclose(got.astype("f8"), wanted.astype("f8"), rtol=ulp, atol=1e-45)


@pytest.mark.parametrize("element", INTEGERS, ids=str)
def test_unary_on_integers(element: DType) -> None:
    x = sample(element, (64,), 5)
    functions: dict[type[graph.Elementwise], Callable[[int], int]]
    functions = {graph.Neg: operator.neg, graph.Abs: abs, graph.Not: operator.inv}
    for cls, function in functions.items():
        wanted = [wrap(function(int(n)), element) for n in x]
        same(apply(cls, x), np.array(wanted, element.numpy))


@settings(max_examples=examples(40), deadline=None)
@given(
    shapes=SHAPES,
    seed=st.integers(0, 2**32 - 1),
    element=st.sampled_from((*FLOATS, *INTEGERS, BOOL)),
)
def test_select(shapes: Any, seed: int, element: DType) -> None:
    first, second, third = shapes.input_shapes
    condition = sample(BOOL, first, seed)
    a, b = sample(element, second, seed + 1), sample(element, third, seed + 2)
    out = np.empty(shapes.result_shape, element.numpy)
    out[...] = b
    np.copyto(out, a, where=condition)
    same(apply(graph.Select, condition, a, b), out)


@settings(max_examples=examples(60), deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    source=st.sampled_from((*FLOATS, *INTEGERS, BOOL)),
    target=st.sampled_from((*FLOATS, *INTEGERS, BOOL)),
)
def test_cast(seed: int, source: DType, target: DType) -> None:
    x = sample(source, (3, 5), seed)
    if source.is_float and target.is_integer:
        x = np.clip(np.nan_to_num(x.astype("f8")), 0, 100).astype(source.numpy)
        same(apply(graph.Cast, x, dtype=target), np.trunc(x.astype("f8")).astype(target.numpy))
    elif target is BOOL:
        same(apply(graph.Cast, x, dtype=target), x != x.dtype.type(0))
    elif source.is_integer and target.is_integer:
        wanted = [wrap(int(n), target) for n in x.ravel()]
        same(apply(graph.Cast, x, dtype=target), np.array(wanted, target.numpy).reshape(3, 5))
    else:
        same(apply(graph.Cast, x, dtype=target), quietly(x.astype, target.numpy))


def test_sixteen_bits_round_once_an_op() -> None:
    one, tiny = np.float16(1), np.float16(2**-11)
    same(apply(graph.Add, np.array(one), np.array(tiny)), np.array(1, np.float16))
    third = apply(graph.Div, np.array(1, ml_dtypes.bfloat16), np.array(3, ml_dtypes.bfloat16))
    same(third, np.array(np.float32(1) / np.float32(3)).astype(ml_dtypes.bfloat16))
