"""Gathering, scattering and choosing at the graph level, against loops over all elements."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.sweeps import examples

from minicc.ir import graph
from minicc.ir.core import Op, Value
from minicc.ir.orders import stable_order
from minicc.ir.types import BF16, DTYPES, F16, F32, I64, U8, DType, tensor_of

Array = np.ndarray[Any, Any]
ELEMENTS = st.sampled_from((F16, BF16, F32, I64, U8))
SHAPES = hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4)
COMBINE: dict[str, Any] = {
    "none": lambda a, b: b,
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "max": max,
    "min": min,
}
LOC = ("here",)


def evaluated(op: Op, *args: Array) -> list[Array]:
    results = op.evaluate(lambda region, values: (), *args)
    for got, wanted in zip(results, op.results, strict=True):
        assert tensor_of(got) == wanted.type
    return [np.asarray(r) for r in results]


def values(*arrays: Array) -> list[Value]:
    return [Value(tensor_of(a)) for a in arrays]


def small(element: DType, shape: tuple[int, ...], seed: int) -> Array:
    """Small whole numbers: sums and products of a few are exact in every type."""
    return np.random.default_rng(seed).integers(0, 4, shape).astype(element.numpy)


def same(got: Array, wanted: Array) -> None:
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    assert got.tobytes() == wanted.tobytes()


@settings(max_examples=examples(60), deadline=None)
@given(element=ELEMENTS, shape=SHAPES, data=st.data(), seed=st.integers(0, 99))
def test_elements(element: DType, shape: tuple[int, ...], data: st.DataObject, seed: int) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    combine = data.draw(st.sampled_from(sorted(COMBINE)))
    other = tuple(data.draw(st.integers(0, n)) for n in shape)
    n = shape[axis]
    indices = np.random.default_rng(seed).integers(-n, n, other)
    x, updates = small(element, shape, seed), small(element, other, seed + 1)
    gathered = np.empty(other, element.numpy)
    scattered = x.copy()
    for place in np.ndindex(*other):
        there = list(place)
        there[axis] = int(indices[place])
        gathered[place] = x[tuple(there)]
        old = scattered[tuple(there)]
        scattered[tuple(there)] = COMBINE[combine](old, updates[place])
    op: Op = graph.GatherElements(*values(x, indices), axis=axis, loc=LOC)
    same(evaluated(op, x, indices)[0], gathered)
    options: dict[str, Any] = {"axis": axis, "combine": combine, "loc": LOC}
    op = graph.ScatterElements(*values(x, indices, updates), **options)
    same(evaluated(op, x, indices, updates)[0], scattered)


@settings(max_examples=examples(60), deadline=None)
@given(element=ELEMENTS, shape=SHAPES, data=st.data(), seed=st.integers(0, 99))
def test_vectors(element: DType, shape: tuple[int, ...], data: st.DataObject, seed: int) -> None:
    batch = data.draw(st.integers(0, len(shape) - 1))
    depth = data.draw(st.integers(0, len(shape) - batch))
    many = data.draw(st.integers(0, 3))
    random = np.random.default_rng(seed)
    columns = [random.integers(-n, n, (*shape[:batch], many)) for n in shape[batch : batch + depth]]
    empty = np.zeros((*shape[:batch], many, 0), np.int64)
    indices = np.stack(columns, -1) if columns else empty
    x = small(element, shape, seed)
    gathered = np.empty((*shape[:batch], many, *shape[batch + depth :]), element.numpy)
    for place in np.ndindex(*indices.shape[:-1]):
        gathered[place] = x[(*place[:batch], *map(int, indices[place]))]
    op: Op = graph.GatherND(*values(x, indices), batch=batch, loc=LOC)
    same(evaluated(op, x, indices)[0], gathered)
    if batch:
        return
    combine = data.draw(st.sampled_from(sorted(COMBINE)))
    updates = small(element, gathered.shape, seed + 1)
    scattered = x.copy()
    for place in np.ndindex(*indices.shape[:-1]):
        where = tuple(map(int, indices[place]))
        for inner in np.ndindex(*shape[depth:]):
            old = scattered[(*where, *inner)]
            scattered[(*where, *inner)] = COMBINE[combine](old, updates[(*place, *inner)])
    op = graph.ScatterND(*values(x, indices, updates), combine=combine, loc=LOC)
    same(evaluated(op, x, indices, updates)[0], scattered)


@settings(max_examples=examples(60), deadline=None)
@given(element=ELEMENTS, shape=SHAPES, data=st.data(), seed=st.integers(0, 99))
def test_top_k(element: DType, shape: tuple[int, ...], data: st.DataObject, seed: int) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    k = data.draw(st.integers(0, shape[axis]))
    largest = data.draw(st.booleans())
    x = small(element, shape, seed)
    op = graph.TopK(Value(tensor_of(x)), axis=axis, k=k, largest=largest, loc=LOC)
    got, indices = evaluated(op, x)
    sign = -1 if largest else 1
    for place in np.ndindex(*(1 if a == axis else n for a, n in enumerate(shape))):
        line = tuple(slice(None) if a == axis else i for a, i in enumerate(place))
        numbers = [float(v) for v in x[line]]
        order = sorted(range(len(numbers)), key=lambda i: (sign * numbers[i], i))[:k]
        assert indices[line].tolist() == order
        same(got[line], x[line][order])


def test_nan_is_the_greatest() -> None:
    x = np.array([1, np.nan, np.inf, -np.inf], np.float32)
    for largest, wanted in ((True, [1, 2]), (False, [3, 0])):
        op = graph.TopK(Value(tensor_of(x)), axis=0, k=2, largest=largest, loc=LOC)
        assert evaluated(op, x)[1].tolist() == wanted


@settings(max_examples=examples(80), deadline=None)
@given(
    dtype=st.sampled_from([np.float32, np.float64, np.float16, np.int64, np.uint8]),
    rows=st.integers(0, 3),
    k=st.sampled_from([0, 1, 9, 300, 2600]),
    largest=st.booleans(),
    nans=st.integers(0, 12),
    seed=st.integers(0, 99),
)
def test_few_of_long_rows(
    dtype: type[Any], rows: int, k: int, largest: bool, nans: int, seed: int
) -> None:
    """Not all of them is sorted; of equal elements, and of NaN, the first are taken as ever."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 200, (rows, 2600)).astype(dtype)
    if x.dtype.kind == "f" and nans > 6:
        x[:, rng.integers(0, 2600, 340 * (nans - 6))] = np.nan
    op = graph.TopK(Value(tensor_of(x)), axis=1, k=k, largest=largest, loc=LOC)
    got, indices = evaluated(op, x)
    for row, found in zip(x, indices, strict=True):
        key = row.astype(np.float64)
        key = np.where(np.isnan(key), np.inf, key) * (-1 if largest else 1)
        assert found.tolist() == np.argsort(key, kind="stable")[:k].tolist()
    same(got, np.take_along_axis(x, indices, 1))


@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
@pytest.mark.parametrize("span", [3, 100, 30000, 1 << 62])
def test_the_order_of_long_rows(dtype: str, span: int) -> None:
    """It is that of a stable sort, of NaN and zeros with signs, too."""
    rng = np.random.default_rng(span % 97)
    low, high = (-span, span) if dtype[0] == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    x = rng.integers(max(low, -span), min(high, span), (2, 3000)).astype(dtype)
    if dtype[0] == "f":
        for special in (np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0):
            x[:, rng.integers(0, 3000, 50)] = special
    assert np.array_equal(stable_order(x), np.argsort(x, axis=1, kind="stable"))
    mirrored = np.argsort(x[:, ::-1], axis=1, kind="stable")[:, ::-1]
    assert np.array_equal(stable_order(x, descending=True), 2999 - mirrored)
    assert stable_order(x[:0]).shape == (0, 3000)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "u8"])
def test_order_of_elements_that_differ_in_their_last_bits(dtype: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.permuted(np.arange(400).reshape(4, 100), axis=1).astype(dtype)
    if dtype[0] == "f":
        x = 1 + x * np.finfo(dtype).eps
    x[1] += 1 if dtype[0] == "f" else 1 << 40
    x[2, ::7], x[3, 5] = x[2, 0], (np.inf if dtype[0] == "f" else np.iinfo(dtype).max)
    want = np.argsort(x, axis=-1, kind="stable")
    assert np.array_equal(stable_order(x), want)
    assert np.array_equal(stable_order(x.reshape(2, 2, 100)), want.reshape(2, 2, 100))
    mirrored = np.argsort(x[:, ::-1], axis=1, kind="stable")[:, ::-1]
    assert np.array_equal(stable_order(x, descending=True), 99 - mirrored)


def test_an_index_out_of_range_names_the_node() -> None:
    x = np.zeros((3, 2), np.float32)
    for index in (3, -4):
        i = np.full((1, 2), index)
        op: Op = graph.GatherElements(*values(x, i), axis=0, loc=LOC)
        with pytest.raises(IndexError, match=f"index {index} leaves an extent of 3 at here"):
            op.evaluate(lambda r, a: (), x, i)
        op = graph.ScatterElements(*values(x, i, x[:1]), axis=0, loc=LOC)
        with pytest.raises(IndexError, match="at here"):
            op.evaluate(lambda r, a: (), x, i, x[:1])
        v = np.array([[0, index]])
        op = graph.GatherND(*values(x, v), loc=LOC)
        with pytest.raises(IndexError, match="at here"):
            op.evaluate(lambda r, a: (), x, v)


def test_type_rules_refuse() -> None:
    x, i = np.zeros((3, 2), np.float32), np.zeros((3, 2), np.int64)
    with pytest.raises(TypeError, match="wants i32 or i64"):
        graph.GatherElements(*values(x, x), axis=0, loc=LOC)
    with pytest.raises(TypeError, match="ranks differ"):
        graph.GatherElements(*values(x, i[0]), axis=0, loc=LOC)
    with pytest.raises(ValueError, match="no axis 2"):
        graph.GatherElements(*values(x, i), axis=2, loc=LOC)
    with pytest.raises(ValueError, match="does not combine by sum"):
        graph.ScatterElements(*values(x, i, x), axis=0, combine="sum", loc=LOC)
    with pytest.raises(TypeError, match="shapes differ"):
        graph.ScatterND(*values(x, i, x), loc=LOC)
    with pytest.raises(ValueError, match="of 4 elements"):
        graph.TopK(*values(x), axis=0, k=4, loc=LOC)


@pytest.mark.parametrize("source", ["f32", "i16", "bool", "f64"])
def test_bitcast(source: str) -> None:
    x = small(DTYPES[source], (3, 2), 5)
    to = {"f32": "u32", "i16": "bf16", "bool": "i8", "f64": "i64"}[source]
    op = graph.BitCast(Value(tensor_of(x)), dtype=DTYPES[to], loc=LOC)
    (got,) = evaluated(op, x)
    assert got.tobytes() == x.tobytes()
    with pytest.raises(TypeError, match="another width"):
        graph.BitCast(
            Value(tensor_of(x)), dtype=DTYPES["u8" if source != "bool" else "u16"], loc=LOC
        )


CIRCULAR = "Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh"


@pytest.mark.parametrize("name", CIRCULAR.split())
@pytest.mark.parametrize("element", [F16, BF16, F32], ids=str)
def test_circular_functions(name: str, element: DType) -> None:
    x = np.linspace(-4, 4, 101).astype(element.numpy)
    op = getattr(graph, name)(Value(tensor_of(x)), loc=LOC)
    (got,) = evaluated(op, x)
    numpy_name = name.lower().replace("asin", "arcsin").replace("acos", "arccos")
    numpy_name = numpy_name.replace("atan", "arctan")
    with np.errstate(all="ignore"):
        wanted = getattr(np, numpy_name)(x.astype(np.float64)).astype(element.numpy)
    error = {F16: 2e-3, BF16: 2e-2, F32: 1e-5}[element]
    np.testing.assert_allclose(got.astype("f8"), wanted.astype("f8"), rtol=error, atol=error)
