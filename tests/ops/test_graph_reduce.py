"""Reductions and windows of the graph dialect against loops over single elements."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from minicc.ir import graph
from minicc.ir.core import Op, Value
from minicc.ir.types import BF16, BOOL, F16, F32, F64, I8, I32, U8, DType, tensor_of

Array = np.ndarray[Any, Any]
COMBINERS = {"add": "fiu", "mul": "fiu", "max": "fiub", "min": "fiub", "and": "iub", "or": "iub"}
ELEMENTS = (F16, BF16, F32, F64, I8, I32, U8, BOOL)
CASES = [(c, e) for c, kinds in COMBINERS.items() for e in ELEMENTS if e.kind in kinds]


def evaluated(op: Op, *args: Array) -> Array:
    (out,) = op.evaluate(lambda region, values: (), *args)
    assert tensor_of(out) == op.results[0].type
    return np.asarray(out)


def sample(element: DType, shape: tuple[int, ...], seed: int) -> Array:
    """Small whole numbers: sums are exact in every type and in any order."""
    rng = np.random.default_rng(seed)
    low = -3 if element.kind in "fi" else 0
    return rng.integers(low, 4, shape).astype(element.numpy)


def combined(combine: str, numbers: list[Any], element: DType) -> Any:
    """The outcome by Python's own arithmetic; the neutral element for nothing."""
    integer = not element.is_float
    bits = element.bits if element is not BOOL else 1
    if combine == "add":
        total = sum(int(n) for n in numbers) if integer else sum(float(n) for n in numbers)
    elif combine == "mul":
        total = 1
        for n in numbers:
            total = total * (int(n) if integer else float(n))
    elif combine in ("and", "or"):
        total = (1 << bits) - 1 if combine == "and" else 0
        for n in numbers:
            bit = int(n) % (1 << bits)
            total = total & bit if combine == "and" else total | bit
    elif numbers:
        return (max if combine == "max" else min)(numbers)
    elif element.is_float:
        return -np.inf if combine == "max" else np.inf
    elif element is BOOL:
        return combine == "min"
    else:
        ends = np.iinfo(element.numpy)
        return ends.min if combine == "max" else ends.max
    if not integer:
        with np.errstate(over="ignore"):
            return np.asarray(total).astype(element.numpy)
    low = int(total) % (1 << bits)
    return low - (1 << bits) if element.kind == "i" and low >> (bits - 1) else low


@pytest.mark.parametrize(("combine", "element"), CASES, ids=str)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_reduce(combine: str, element: DType, data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    axes = tuple(data.draw(st.permutations(range(len(shape)))))
    axes = axes[: data.draw(st.integers(0, len(axes)))]
    keepdims = data.draw(st.booleans())
    x = sample(element, shape, data.draw(st.integers(0, 999)))
    op = graph.Reduce(
        Value(tensor_of(x)), axes=axes, combine=combine, keepdims=keepdims, loc=("t",)
    )
    kept = [1 if k in axes else n for k, n in enumerate(shape)]
    wanted = np.empty(kept, element.numpy)
    for place in np.ndindex(*kept):
        seen = tuple(slice(None) if k in axes else slice(p, p + 1) for k, p in enumerate(place))
        wanted[place] = combined(combine, list(x[seen].ravel()), element)
    if not keepdims:
        wanted = wanted.reshape([n for k, n in enumerate(shape) if k not in axes])
    np.testing.assert_array_equal(evaluated(op, x), wanted)


@pytest.mark.parametrize(("combine", "element"), CASES, ids=str)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_window(combine: str, element: DType, data: st.DataObject) -> None:
    rank = data.draw(st.integers(0, 3))
    some = st.integers(1, 3)
    size, strides, dilations = (
        tuple(data.draw(st.lists(some, min_size=rank, max_size=rank))) for _ in range(3)
    )
    reach = [(s - 1) * d + 1 for s, d in zip(size, dilations, strict=True)]
    shape = tuple(r + data.draw(st.integers(0, 3)) for r in reach)
    x = sample(element, shape, data.draw(st.integers(0, 999)))
    op = graph.Window(
        Value(tensor_of(x)),
        combine=combine,
        size=size,
        strides=strides,
        dilations=dilations,
        loc=("t",),
    )
    starts = [range(0, n - r + 1, s) for n, r, s in zip(shape, reach, strides, strict=True)]
    wanted = np.empty([len(r) for r in starts], element.numpy)
    for place in np.ndindex(*wanted.shape):
        corner = [r[p] for r, p in zip(starts, place, strict=True)]
        taps = itertools.product(
            *[
                [c + k * d for k in range(s)]
                for c, s, d in zip(corner, size, dilations, strict=True)
            ]
        )
        wanted[place] = combined(combine, [x[tap] for tap in taps], element)
    np.testing.assert_array_equal(evaluated(op, x), wanted)


@pytest.mark.parametrize("combine", ["add", "mul", "max", "min"])
@pytest.mark.parametrize("element", [F16, BF16, F32, F64], ids=str)
def test_nan_is_handed_on(combine: str, element: DType) -> None:
    x = np.array([1, np.nan, 2, np.inf]).astype(element.numpy)
    value = Value(tensor_of(x))
    whole = graph.Reduce(value, axes=(0,), combine=combine, loc=("t",))
    assert np.isnan(evaluated(whole, x))
    pairs = graph.Window(
        value, combine=combine, size=(2,), strides=(1,), dilations=(1,), loc=("t",)
    )
    np.testing.assert_array_equal(np.isnan(evaluated(pairs, x)), [True, True, False])


def test_opposite_infinities_have_no_sum() -> None:
    x = np.array([np.inf, -np.inf], np.float32)
    op = graph.Reduce(Value(tensor_of(x)), axes=(0,), combine="add", loc=("t",))
    assert np.isnan(evaluated(op, x))


@pytest.mark.parametrize("element", [F16, BF16], ids=str)
def test_sixteen_bits_are_summed_in_more(element: DType) -> None:
    x = np.ones(4096, element.numpy)
    op = graph.Reduce(Value(tensor_of(x)), axes=(0,), combine="add", loc=("t",))
    assert evaluated(op, x) == 4096
    windows = graph.Window(
        Value(tensor_of(x)), combine="add", size=(4096,), strides=(1,), dilations=(1,), loc=("t",)
    )
    assert evaluated(windows, x) == 4096


def test_an_empty_batch_is_pooled() -> None:
    x = np.empty((0, 4), np.float32)
    op = graph.Window(
        Value(tensor_of(x)),
        combine="max",
        size=(1, 2),
        strides=(2, 2),
        dilations=(1, 1),
        loc=("t",),
    )
    assert evaluated(op, x).shape == (0, 2)
