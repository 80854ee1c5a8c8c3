"""Scattering by kernels: as the ops are defined, at every level, in loops in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minicc
from minicc.compile.compiler import lower
from minicc.errors import UserError
from minicc.ir import graph, interpret, program
from minicc.ir.core import Module, walk
from minicc.ir.types import BF16, BOOL, F16, F32, F64, I32, I64, U8, TensorType
from minicc.options import Options
from minicc.passes.graph.expand import expands
from minicc.passes.structured.scatter import can_scatter
from tests.passes.test_expand import HOST, numbers, one
from tests.stages.programs import machine_code

ELEMENTS = (F32, F64, I32, I64, U8, F16, BF16)
COMBINED = ("none", "max", "min", "add", "mul")
Array = np.ndarray[Any, Any]


def check(made: Module, inputs: Sequence[Array], native: bool) -> None:
    """The op's own definition, the interpreter of what it becomes, and machine code agree."""
    (op,) = made.main.body.ops
    assert isinstance(op, graph.ScatterElements | graph.ScatterND)
    assert expands(op) or can_scatter(op)
    wanted = interpret.run(made, inputs)
    options = Options(math="strict")
    results = [interpret.run(lower(made, options, stop=stop), inputs) for stop in ("fuse", "pack")]
    if native:
        results.append(interpret.run(lower(made, options), inputs))
        results += [machine_code(lower(made, options), HOST, inputs, n) for n in (1, 2)]
    for got in results:
        for have, want in zip(got, wanted, strict=True):
            assert have.dtype == want.dtype
            # of zeros of both signs either is the greatest; NumPy doesn't know bfloat16's NaN
            np.testing.assert_array_equal(have.astype(np.float64), want.astype(np.float64))


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_along_an_axis(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    axis = data.draw(st.integers(0, len(shape) - 1))
    part = [data.draw(st.integers(1, n)) for n in shape]
    part[axis] = data.draw(st.integers(0, 7))
    element = data.draw(st.sampled_from(ELEMENTS))
    combine = data.draw(st.sampled_from(COMBINED))
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    types = [TensorType(e, tuple(s)) for e, s in ((element, shape), (I64, part), (element, part))]
    indices = rng.integers(-shape[axis], shape[axis], part)
    x, updates = numbers(rng, element, shape), numbers(rng, element, part)
    made = one(graph.ScatterElements, types, axis=axis, combine=combine)
    check(made, [x, indices, updates], native=part[axis] in (3, 5))


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_at_vectors_of_indices(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    depth = data.draw(st.integers(1, len(shape)))
    if depth < len(shape):
        shape[-1] = data.draw(st.sampled_from([1, 7, 31, 32, 33, 64, 70]))
    grid = data.draw(st.lists(st.integers(1, 3), max_size=2))
    element = data.draw(st.sampled_from(ELEMENTS))
    combine = data.draw(st.sampled_from(COMBINED))
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    into = [*grid, *shape[depth:]]
    types = [
        TensorType(element, tuple(shape)),
        TensorType(I32, (*grid, depth)),
        TensorType(element, tuple(into)),
    ]
    columns = [rng.integers(-n, n, grid) for n in shape[:depth]]
    x, updates = numbers(rng, element, shape), numbers(rng, element, into)
    made = one(graph.ScatterND, types, combine=combine)
    check(made, [x, np.stack(columns, -1).astype(np.int32), updates], native=depth == 2)


def test_truth_is_put() -> None:
    types = [TensorType(BOOL, (5,)), TensorType(I64, (2,)), TensorType(BOOL, (2,))]
    inputs = [np.zeros(5, bool), np.array([-1, 1]), np.array([True, True])]
    check(one(graph.ScatterElements, types, axis=0, combine="none"), inputs, native=True)


def test_an_index_outside_ends_the_run() -> None:
    types = [TensorType(F32, (4,)), TensorType(I64, (2,)), TensorType(F32, (2,))]
    inputs = [np.zeros(4, np.float32), np.array([1, 4]), np.ones(2, np.float32)]
    made = lower(one(graph.ScatterElements, types, axis=0), Options())
    with pytest.raises(UserError, match="4"):
        machine_code(made, HOST, inputs, 1)


def counted(x: Any, at: Any, w: Any) -> Any:
    for k in range(len(at)):
        x[at[k]] += w[k]
    return x


def paired(x: Any, at: Any, w: Any) -> Any:
    y = np.zeros((len(x), 3))
    for k in range(len(at)):
        y[at[k], k % 3] = w[k]
        x[k % 5] -= y[at[k], 1]
    return x, y


def at_once(x: Any, at: Any, w: Any) -> Any:
    y = x + 1
    np.add.at(x, at, w)
    y[at] = w
    np.maximum.at(y, (at[::2],), w[1::2])
    return x, y


@pytest.mark.parametrize("f", [counted, paired, at_once])
def test_where_a_function_says(f: Any) -> None:
    rng = np.random.default_rng(0)
    x, at, w = rng.standard_normal(50), rng.integers(-50, 50, 400), rng.standard_normal(400)
    mine, theirs = x.copy(), x.copy()
    compiled = minicc.jit(f)
    got, want = compiled(mine, at, w), f(theirs, at, w)
    for have, wanted in zip((got, mine), (want, theirs), strict=True):
        pairs = zip(have, wanted, strict=True) if type(want) is tuple else [(have, wanted)]
        for a, b in pairs:
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    told = str(compiled.explain())
    assert "host" not in told
    with pytest.raises(IndexError, match="out of bounds"):
        compiled(mine, at * 2, w)


def test_a_round_that_scatters_copies_nothing() -> None:
    given = np.ones(5000), np.zeros(900, np.int64), np.ones(900)
    module = lower(minicc.jit(counted).lower(*given).module, Options())
    (loop,) = [op for op in walk(module.main.body) if isinstance(op, program.Loop)]
    assert {op.work for op in walk(loop.body) if isinstance(op, program.Launch)} <= {1, 2, 3}
