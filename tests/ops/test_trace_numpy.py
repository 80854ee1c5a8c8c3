"""Functions of NumPy, traced: the graph's outcome is NumPy's, shapes and element types included."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.sweeps import examples, part

import minicc
from minicc.errors import UserError
from minicc.frontends.trace import trace_call
from minicc.target import TARGETS

DTYPES = [np.dtype(d) for d in ("f4", "f8", "f2", "i4", "i8", "u1", "?")]
Function = Callable[..., Any]


def traced(f: Function, *args: Any) -> Any:
    """The outcome of the traced function, by way of each op's `evaluate`."""
    result = trace_call(f, args, {})
    main = result.module.main
    leaves = [a for a in args if isinstance(a, (np.ndarray, np.generic))]
    env = dict(zip(main.args, leaves, strict=True))
    for op in main.body.ops:
        assert op.loc
        out = op.evaluate(lambda region, a: (), *[env[v] for v in op.operands])
        for value, array in zip(op.results, out, strict=True):
            assert (array.dtype, array.shape) == (value.type.dtype.numpy, value.type.extents)
            env[value] = array
    return result.rebuild([np.asarray(env[v]) for v in main.body.yields])


def check(f: Function, *args: Any, rtol: float = 0) -> None:
    with np.errstate(all="ignore"):
        expected = f(*[a.copy() if isinstance(a, np.ndarray) else a for a in args])
    got = traced(f, *args)
    if not isinstance(expected, (list, tuple)):
        expected, got = [expected], [got]
    for want, have in zip(expected, got, strict=True):
        assert np.asarray(want).dtype == have.dtype
        assert np.shape(want) == have.shape
        if rtol:
            scale = {2: 1e4, 4: 1.0, 8: 1e-6}.get(have.dtype.itemsize, 1.0)
            np.testing.assert_allclose(have, want, rtol=rtol * scale, atol=rtol * scale)
        else:
            np.testing.assert_array_equal(have, want)


def sample(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.random(shape) < 0.5
    if kind in "iu":
        return rng.integers(0 if kind == "u" else -9, 9, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=4)
BINARY: list[Function] = [
    lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a / b, lambda a, b: a // b,
    lambda a, b: a % b, lambda a, b: a < b, lambda a, b: a >= b, lambda a, b: a == b,
    np.maximum, np.minimum, np.logical_and, np.logical_xor, np.fmax,
    lambda a, b: np.where(a > 0, a, b), lambda a, b: np.not_equal(a, b),
]  # fmt: skip


@settings(max_examples=examples(120), deadline=None)
@given(
    st.sampled_from(BINARY), st.sampled_from(DTYPES), st.sampled_from(DTYPES),
    hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=4),
)  # fmt: skip
def test_binary(f: Function, left: Any, right: Any, pair: Any) -> None:
    a, b = pair.input_shapes
    check(lambda x, y: f(x, y), sample(a, left), sample(b, right, 1))


@settings(max_examples=examples(120), deadline=None)
@given(
    st.sampled_from(BINARY), st.sampled_from(DTYPES), shapes,
    st.sampled_from([True, 2, 3, 0.5, -1.5, np.float32(2), np.int64(3), np.float64(0.1)]),
    st.booleans(),
)  # fmt: skip
def test_scalars_are_weak(f: Function, dtype: Any, shape: Any, scalar: Any, swap: bool) -> None:
    x = sample(shape, dtype)

    def g(x: Any) -> Any:
        return f(scalar, x) if swap else f(x, scalar)

    try:
        with np.errstate(all="ignore"):
            g(x)
    except OverflowError:
        with pytest.raises(UserError):
            trace_call(g, (x,), {})
        return
    check(g, x)


UNARY = (
    "negative", "absolute", "sqrt", "exp", "log", "tanh", "floor", "ceil", "rint", "square", "sign",
    "trunc", "isnan", "isinf", "isfinite", "logical_not", "log1p", "expm1", "sinh", "cosh", "exp2",
    "log2", "log10", "reciprocal", "positive", "deg2rad",
)  # fmt: skip


@pytest.mark.parametrize(("name", "dtype"), part(product(UNARY, DTYPES), 3), ids=str)
def test_unary(name: str, dtype: Any) -> None:
    ufunc = getattr(np, name)
    x = (
        np.abs(sample((3, 5), dtype)) + 1
        if name.startswith(("log", "reci"))
        else sample((3, 5), dtype)
    )
    try:
        with np.errstate(all="ignore"):
            ufunc(x)
    except TypeError:
        with pytest.raises(UserError):
            trace_call(lambda x: ufunc(x), (x,), {})
        return
    check(lambda x: ufunc(x), x, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_composed_functions_at_their_edges(dtype: str) -> None:
    edges = [
        0.0,
        -0.0,
        1e-30,
        -1e-9,
        1e-4,
        0.3,
        -0.7,
        5,
        19.9,
        20.1,
        88,
        -89,
        np.inf,
        -np.inf,
        np.nan,
    ]
    x = np.array(edges, dtype)
    for f in (np.expm1, np.log1p, np.sinh, np.cosh, np.sign, np.trunc, np.square):
        check(lambda x, f=f: f(x), x, rtol=3e-6)
    for g in (np.hypot, np.logaddexp, np.fmin, np.fmax):
        check(lambda x, g=g: g(x, x[::-1]), x, rtol=3e-6)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 5, 0.5, -1, 2.5, np.float32(2)])
def test_powers(exponent: Any) -> None:
    check(lambda x: x**exponent, np.abs(sample((4, 3), "f4")) + 1, rtol=1e-6)
    if isinstance(exponent, int) and exponent >= 0:
        check(lambda x: x**exponent, sample((4, 3), "i4"))
        check(lambda x: np.power(x, exponent), sample((4, 3), "u1"))


def test_comparison_with_a_number_outside_of_the_type() -> None:
    x = sample((4,), "u1")
    check(lambda x: (x < 300, x == -1, x <= 1000), x)


REDUCTIONS = (
    "sum", "prod", "max", "min", "mean", "var", "std", "any", "all", "argmax", "argmin", "ptp",
    "count_nonzero",
)  # fmt: skip


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_reductions(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(REDUCTIONS))
    dtype = data.draw(st.sampled_from(DTYPES))
    shape = data.draw(shapes)
    rank = len(shape)
    axis: Any = data.draw(st.one_of(st.none(), st.integers(-rank, rank - 1)) if rank else st.none())
    if rank > 1 and not name.startswith("arg") and data.draw(st.booleans()):
        axis = data.draw(st.lists(st.sampled_from(range(rank)), unique=True, min_size=1).map(tuple))
    keepdims = data.draw(st.booleans())
    if name == "ptp" and dtype.kind == "b":
        return
    x = sample(shape, dtype, 3)
    loose = name in ("sum", "prod", "mean", "var", "std") and dtype.kind == "f"
    rtol = 2e-6 if loose or name in ("mean", "var", "std") else 0
    if dtype.itemsize == 2 and name == "prod":
        return  # NumPy rounds each product to f16; one rounding at the end is nearer to the truth
    check(lambda x: getattr(np, name)(x, axis=axis, keepdims=keepdims), x, rtol=rtol)


def test_reductions_as_methods_and_with_options() -> None:
    x = sample((3, 4), "f4")
    check(lambda x: (x.sum(), x.sum(0), x.max(axis=1), x.mean(-1, keepdims=True)), x, rtol=1e-6)
    check(lambda x: np.sum(x, axis=0, where=x > 0), x, rtol=1e-6)
    check(lambda x: np.sum(x, dtype=np.float64), x, rtol=1e-12)
    check(lambda x: (np.add.reduce(x), np.maximum.reduce(x, axis=1)), x, rtol=1e-6)
    check(lambda x: x.var(0, ddof=1), x, rtol=1e-5)


MOVES: list[Function] = [
    lambda x: x.reshape(6, 4), lambda x: x.reshape((-1, 2)), lambda x: np.reshape(x, -1),
    lambda x: x.T, lambda x: np.transpose(x, (2, 0, 1)), lambda x: x.transpose(1, 0, 2),
    lambda x: np.swapaxes(x, 0, -1), lambda x: np.moveaxis(x, 0, -1), lambda x: x.mT,
    lambda x: np.expand_dims(x, (0, 2)), lambda x: np.squeeze(x[:, :1]), lambda x: x.ravel(),
    lambda x: np.broadcast_to(x, (5, 2, 3, 4)), lambda x: np.concatenate([x, x * 2], 1),
    lambda x: np.concatenate([x, x], None), lambda x: np.stack([x, x + 1], -1),
    lambda x: np.vstack([x[0], x[1]]), lambda x: np.hstack([x, x]), lambda x: np.split(x, 2, -1),
    lambda x: np.array_split(x, 3, 2), lambda x: np.split(x, [1, 3], 2), lambda x: np.flip(x, 1),
    lambda x: np.flip(x), lambda x: np.roll(x, 3), lambda x: np.roll(x, (1, -2), (0, 2)),
    lambda x: np.tile(x, (2, 1, 3)), lambda x: np.tile(x, 2), lambda x: np.repeat(x, 2, 1),
    lambda x: np.repeat(x, 3), lambda x: np.pad(x, 1),
    lambda x: np.pad(x, ((0, 1), (2, 0), (1, 1))), lambda x: np.take(x, [2, 0], 2),
    lambda x: np.pad(x, 1, constant_values=((1, 0), (0, 1), (1, 1))),
    lambda x: np.take(x, [5, 1]), lambda x: np.atleast_2d(x[0, 0]), lambda x: x.flatten(),
    lambda x: np.diagonal(x, 1, 1, 2), lambda x: np.trace(x[0]), lambda x: np.tril(x),
    lambda x: np.triu(x, 1), lambda x: x.astype(np.int64), lambda x: x.astype("f4"),
    lambda x: np.asarray(x, np.float64), lambda x: np.array([x[0, 0], x[1, 1]]),
    lambda x: np.zeros_like(x) + x, lambda x: np.full_like(x, 1) * x, lambda x: np.ones(4) + x,
    lambda x: x + np.arange(4), lambda x: np.eye(3)[:, 1:2] + x,
    lambda x: np.column_stack([x[0, 0], x[1, 0]]),
    lambda x: np.broadcast_arrays(x, np.ones((4,)))[1] + x, lambda x: np.outer(x[0], x[1, 0]),
    lambda x: np.add.outer(x[0, 0], x[1]), lambda x: np.clip(x, 0, 1), lambda x: np.round(x, 1),
    lambda x: np.empty_like(x, shape=(2,)) * 0 + x[0, 0, :2],
]  # fmt: skip


@pytest.mark.parametrize(
    ("number", "dtype"), part(product(range(len(MOVES)), ["f4", "i4", "?"]), 3)
)
def test_movement(number: int, dtype: str) -> None:
    if dtype == "?" and "round" in MOVES[number].__code__.co_names:
        pytest.skip("NumPy rounds no booleans")
    check(MOVES[number], sample((2, 3, 4), dtype))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_a_float_below_0_becomes_what_wraps(dtype: str, bits: int) -> None:
    """On any target; and so does one of the upper half of what an unsigned integer holds."""
    numbers = [2.5, -2.0, -0.5, 0.0, float(1 << (bits - 1)), -1.0, 3.75] * 3
    wanted = np.array([int(n) % (1 << bits) for n in numbers], f"u{bits // 8}")
    for target in (name for name, found in TARGETS.items() if found.runs_here()):
        compiled = minicc.jit(lambda x: (x * x.dtype.type(1)).astype(wanted.dtype), target=target)
        np.testing.assert_array_equal(compiled(np.array(numbers, dtype)), wanted)


def index_of(shape: tuple[int, ...]) -> st.SearchStrategy[Any]:
    return hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True)


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_basic_indices_read_and_write(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=5))
    index = data.draw(index_of(shape))
    x = sample(shape, "f4")
    check(lambda x: x[index] * 1, x)
    update = sample(np.shape(x[index]), "f8", 4)

    def write(x: Any, v: Any) -> Any:
        u = x.copy()
        u[index] = v
        w = np.zeros(x.shape, np.float32)
        w[index] += v
        return u, w

    check(write, x, update)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, i: x[i], lambda x, i: x[:, i], lambda x, i: x[1, :, i], lambda x, i: x[:, i, 0],
        lambda x, i: x[i, [0, 1, 2]], lambda x, i: x[np.arange(3), i, 1:], lambda x, i: x[..., i],
        lambda x, i: x[:, [[0], [2]], i], lambda x, i: x[i, :, [1, 0, 1]], lambda x, i: x[[0, -1]],
        lambda x, i: x[:, np.array([True, False, True])], lambda x, i: np.take(x, i, axis=1),
        lambda x, i: np.take_along_axis(x[:, 0], i.reshape(3, 1), axis=1),
    ],
)  # fmt: skip
def test_index_arrays(f: Function) -> None:
    check(f, sample((3, 3, 4), "f4"), np.array([2, 0, -1]))


def test_an_index_outside_is_no_other_element() -> None:
    with pytest.raises(IndexError):
        traced(lambda x, i: x[i, i], sample((3, 4), "f4"), np.array([3, 0]))


PRODUCTS: list[tuple[Function, tuple[int, ...], tuple[int, ...]]] = [
    (lambda a, b: a @ b, (3, 4), (4, 5)), (lambda a, b: a @ b, (4,), (4, 5)),
    (lambda a, b: a @ b, (3, 4), (4,)), (lambda a, b: a @ b, (4,), (4,)),
    (lambda a, b: a @ b, (2, 3, 4), (4, 5)), (lambda a, b: a @ b, (2, 1, 3, 4), (5, 4, 2)),
    (lambda a, b: a @ b, (1, 1), (1, 3)), (np.dot, (2, 3, 4), (5, 4, 2)), (np.dot, (), (3,)),
    (np.inner, (2, 3), (4, 3)), (np.outer, (3,), (2, 2)), (np.vdot, (2, 3), (2, 3)),
    (lambda a, b: np.tensordot(a, b, 1), (2, 3), (3, 4)),
    (lambda a, b: np.tensordot(a, b, ((0, 2), (1, 0))), (2, 3, 4), (4, 2)),
    (lambda a, b: np.einsum("ij,jk->ki", a, b), (2, 3), (3, 4)),
    (lambda a, b: np.einsum("bhqd,bhkd->bhqk", a, b), (2, 2, 3, 4), (2, 2, 5, 4)),
    (lambda a, b: np.einsum("...ij,...j", a, b), (2, 3, 4), (2, 4)),
    (lambda a, b: np.einsum("ij,k->", a, b), (2, 3), (4,)),
    (lambda a, b: np.einsum("ij,jk,kl->il", a, b, a.T), (2, 3), (3, 3)),
    (lambda a, b: np.einsum("ij->ji", a) + b, (2, 3), (3, 2)),
    (lambda a, b: np.linalg.norm(a, axis=-1) + np.linalg.norm(b), (2, 3), (3, 2)),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(PRODUCTS)))
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "?"])
def test_products(number: int, dtype: str) -> None:
    f, a, b = PRODUCTS[number]
    check(lambda x, y: f(x, y), sample(a, dtype), sample(b, dtype, 1), rtol=2e-5)
