"""Contractions and convolutions of the graph dialect against loops over single products."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minicc.ir import graph
from minicc.ir.core import Op, Value
from minicc.ir.types import BF16, F16, F32, F64, I8, I32, U8, DType, tensor_of

Array = np.ndarray[Any, Any]
ELEMENTS = (F16, BF16, F32, F64, I8, I32, U8)
LOC = ("product",)


def evaluated(op: Op, *args: Array) -> Array:
    (out,) = op.evaluate(lambda region, values: (), *args)
    assert tensor_of(out) == op.results[0].type
    return np.asarray(out)


def sample(element: DType, shape: tuple[int, ...], seed: int) -> Array:
    """Small whole numbers: sums are exact in every type and in any order."""
    low = -2 if element.kind in "fi" else 0
    return np.random.default_rng(seed).integers(low, 3, shape).astype(element.numpy)


EQUATIONS = [
    "mk,kn->mn",
    "bmk,bkn->bmn",
    "bmk,kn->bmn",
    "km,nk->nm",
    "abmk,abnk->abmn",
    "k,k->",
    "m,n->mn",
    ",n->n",
    ",->",
    "mk,m->m",
    "ab,ab->ba",
    "mk,jn->mn",
]


@pytest.mark.parametrize("element", ELEMENTS, ids=str)
@pytest.mark.parametrize("equation", EQUATIONS)
@settings(max_examples=4, deadline=None)
@given(extents=st.lists(st.integers(0, 4), min_size=26, max_size=26), seed=st.integers(0, 999))
def test_contract(equation: str, element: DType, extents: list[int], seed: int) -> None:
    left, right, out = graph.parse_equation(equation)
    size = {c: extents[ord(c) - ord("a")] for c in left + right}
    a = sample(element, tuple(size[c] for c in left), seed)
    b = sample(element, tuple(size[c] for c in right), seed + 1)
    op = graph.Contract(Value(tensor_of(a)), Value(tensor_of(b)), equation=equation, loc=LOC)
    wanted = np.zeros([size[c] for c in out], np.int64)
    for numbers in itertools.product(*[range(n) for n in size.values()]):
        at = dict(zip(size, numbers, strict=True))
        product = a[tuple(at[c] for c in left)].astype("i8") * b[
            tuple(at[c] for c in right)
        ].astype("i8")
        wanted[tuple(at[c] for c in out)] += product
    np.testing.assert_array_equal(evaluated(op, a, b), wanted.astype(element.numpy))


def looped(x: Array, w: Array, strides: Any, dilations: Any, groups: int) -> Array:
    """Channels first, in int64, one output element at a time."""
    kernel = w.shape[2:]
    axes = list(zip(x.shape[2:], kernel, strides, dilations, strict=True))
    starts = [range(0, n - (k - 1) * d, s) for n, k, s, d in axes]
    out = np.zeros((x.shape[0], w.shape[0], *map(len, starts)), np.int64)
    inner, outer = x.shape[1] // groups, w.shape[0] // groups
    for n, o, *place in np.ndindex(*out.shape):
        first = o // outer * inner
        corner = [r[p] for r, p in zip(starts, place, strict=True)]
        window = [
            slice(c, c + (k - 1) * d + 1, d)
            for c, k, d in zip(corner, kernel, dilations, strict=True)
        ]
        seen = x[(n, slice(first, first + inner), *window)].astype("i8")
        out[(n, o, *place)] = (seen * w[o].astype("i8")).sum()
    return out


@pytest.mark.parametrize("layout", graph.LAYOUTS)
@pytest.mark.parametrize("element", ELEMENTS, ids=str)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_conv(element: DType, layout: str, data: st.DataObject) -> None:
    spatial, some = data.draw(st.integers(0, 3)), st.integers(1, 3)
    kernel, strides, dilations = (
        tuple(data.draw(st.lists(some, min_size=spatial, max_size=spatial))) for _ in range(3)
    )
    groups, batch = data.draw(some), data.draw(st.integers(0, 2))
    inner, outer = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 2))
    extents = [
        (k - 1) * d + 1 + data.draw(st.integers(0, 3))
        for k, d in zip(kernel, dilations, strict=True)
    ]
    seed = data.draw(st.integers(0, 999))
    x = sample(element, (batch, groups * inner, *extents), seed)
    w = sample(element, (groups * outer, inner, *kernel), seed + 1)
    wanted = looped(x, w, strides, dilations, groups).astype(element.numpy)
    if layout == "channels_last":
        x, wanted = np.moveaxis(x, 1, -1), np.moveaxis(wanted, 1, -1)
    op = graph.Conv(
        Value(tensor_of(x)),
        Value(tensor_of(w)),
        strides=strides,
        dilations=dilations,
        groups=groups,
        layout=layout,
        loc=LOC,
    )
    np.testing.assert_array_equal(evaluated(op, x, w), wanted)


@pytest.mark.parametrize("element", [F16, BF16], ids=str)
def test_sixteen_bits_are_summed_in_more(element: DType) -> None:
    a, b = np.ones((1, 4096), element.numpy), np.ones((4096, 1), element.numpy)
    op: Op = graph.Contract(Value(tensor_of(a)), Value(tensor_of(b)), equation="mk,kn->mn", loc=LOC)
    assert evaluated(op, a, b) == 4096
    x, w = a.reshape(1, 1, 4096), a.reshape(1, 1, 4096)
    op = graph.Conv(Value(tensor_of(x)), Value(tensor_of(w)), strides=(1,), dilations=(1,), loc=LOC)
    assert evaluated(op, x, w) == 4096


def test_nan_and_infinity_times_zero_are_not_skipped() -> None:
    x = np.array([[[np.inf, 1, np.nan, 2, 3]]], np.float32)
    w = np.array([[[0, 1]]], np.float32)
    op = graph.Conv(Value(tensor_of(x)), Value(tensor_of(w)), strides=(1,), dilations=(1,), loc=LOC)
    np.testing.assert_array_equal(evaluated(op, x, w), [[[np.nan, np.nan, np.nan, 3]]])
