"""Ops that choose elements as data say: comparisons give what the ops mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minicc.compile.compiler import lower
from minicc.ir import graph, interpret
from minicc.ir.affine import symbol
from minicc.ir.build import Builder
from minicc.ir.core import Module, Value
from minicc.ir.types import BF16, F16, F32, F64, I8, I32, I64, U8, U16, DType, TensorType
from minicc.options import Options
from minicc.passes.graph.expand import expand, expands
from minicc.target import Target
from tests.stages.programs import machine_code, module

HOST = Target.host().name
ELEMENTS = (F32, F64, I32, I64, U8)


def one(op: type[Any], types: Sequence[TensorType], **attrs: Any) -> Module:
    def body(b: Builder, *args: Value) -> Sequence[Value]:
        return b.add(op(*args, loc=b.loc, **attrs)).results

    return module(body, *types)


def check(made: Module, inputs: Sequence[np.ndarray], *, native: bool = False) -> None:
    """An op and what it is expanded to give the same numbers."""
    (op,) = made.main.body.ops
    assert expands(op)
    wanted = interpret.run(made, inputs)
    expanded = expand(made)
    assert not any(expands(op) for op in expanded.main.body.ops)
    results = [interpret.run(expanded, inputs)]
    if native:
        results.append(machine_code(lower(made, Options(math="strict")), HOST, inputs, 2))
    for got in results:
        # of zeros of both signs either is the maximum, and a sum of zeros begins with one
        for one, other in zip(got, wanted, strict=True):
            assert one.dtype == other.dtype
            # NumPy does not know that NaN of bfloat16 is NaN
            np.testing.assert_array_equal(one.astype(np.float64), other.astype(np.float64))


def numbers(rng: np.random.Generator, element: DType, shape: Sequence[int]) -> np.ndarray:
    """Few different numbers, so that many are equal; NaN, infinities and zeros of both signs."""
    if not element.is_float:
        return rng.integers(0, 5, shape).astype(element.numpy)
    few = np.array([0.0, -0.0, 1.5, -2.0, 3.0, np.inf, -np.inf, np.nan])
    return rng.choice(few, shape).astype(element.numpy)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_top_k(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    axis = data.draw(st.integers(0, len(shape) - 1))
    shape[axis] = data.draw(st.integers(1, 20))
    element = data.draw(st.sampled_from(ELEMENTS))
    k, largest = data.draw(st.integers(0, shape[axis])), data.draw(st.booleans())
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    made = one(graph.TopK, [TensorType(element, tuple(shape))], axis=axis, k=k, largest=largest)
    check(made, [numbers(rng, element, shape)], native=k % 4 == 3)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_the_best_few_of_many(data: st.DataObject) -> None:
    """They are maxima one after the other, also where other axes are free."""
    shape = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    axis = data.draw(st.integers(0, len(shape) - 1))
    k = data.draw(st.integers(1, 4))
    shape[axis] = data.draw(st.integers(8 * k + 1, 700))
    element = data.draw(st.sampled_from([F32, F16, BF16, I32, I8, U8, U16]))
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    x = numbers(rng, element, shape)
    if data.draw(st.booleans()):
        x = (rng.standard_normal(shape) * 100).astype(element.numpy)
    options = {"axis": axis, "k": k, "largest": data.draw(st.booleans())}
    made = one(graph.TopK, [TensorType(element, tuple(shape))], **options)
    check(made, [x], native=k == 2)
    free = tuple(n if a == axis else symbol(f"n{a}") for a, n in enumerate(shape))
    (op,) = one(graph.TopK, [TensorType(element, free)], **options).main.body.ops
    assert expands(op)


@pytest.mark.parametrize(
    "made",
    [
        one(graph.TopK, [TensorType(F32, (513,))], axis=0, k=20),
        one(graph.TopK, [TensorType(F32, (1 << 14, 512))], axis=1, k=64),
        one(graph.TopK, [TensorType(F32, (0,))], axis=0, k=0),
    ],
    ids=["long", "many", "empty"],
)
def test_others_stay(made: Module) -> None:
    assert expand(made).main.body.ops[0].opname == "graph.top_k"
