"""Products over the same whole rows, as in attention, run together: every stage, every target."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minicc.compile.compiled import compile_module
from minicc.compile.compiler import lower
from minicc.ir import graph
from minicc.ir.affine import symbol
from minicc.ir.build import Builder
from minicc.ir.core import Module, Value
from minicc.ir.interpret import run
from minicc.ir.structured import Group
from minicc.ir.types import F32, TensorType
from minicc.options import Options
from minicc.passes.structured.contraction import contractions_in
from minicc.target import TARGETS
from tests.stages.programs import Array, constant, every_stage, machine_code, module, same_bits
from tests.stages.test_random_programs import close
from tests.sweeps import examples

BATCH = symbol("batch")
_RUNNABLE = [name for name, target in TARGETS.items() if target.runs_here()]
_Sizes = tuple[int, int, int, int, int]  # heads, queries, keys, depth, depth of the values


def attention(sizes: _Sizes, masked: bool, residual: bool) -> Module:
    """softmax(q k^T / 4 + mask) v, perhaps with something added to it."""
    heads, rows, keys, depth, width = sizes

    def body(b: Builder, *args: Value) -> list[Value]:
        q, k, v, mask, more = args
        s = b.emit(graph.Contract, q, k, equation="hqd,hkd->hqk")
        s = b.emit(graph.Mul, s, constant(b, np.float32(0.25)))
        if masked:
            s = b.emit(graph.Add, s, mask)
        best = b.emit(graph.Reduce, s, combine="max", axes=(2,), keepdims=True)
        e = b.emit(graph.Exp, b.emit(graph.Sub, s, best))
        total = b.emit(graph.Reduce, e, combine="add", axes=(2,), keepdims=True)
        y = b.emit(graph.Contract, b.emit(graph.Div, e, total), v, equation="hqk,hkd->hqd")
        return [b.emit(graph.Add, y, more) if residual else y]

    shapes = (
        (heads, rows, depth),
        (heads, keys, depth),
        (heads, keys, width),
        (1, 1, keys),
        (heads, rows, width),
    )
    return module(body, *[TensorType(F32, shape) for shape in shapes])


def inputs_of(made: Module) -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(a.type.extents).astype(np.float32) for a in made.main.args]


def products_by_group(made: Module, math: Literal["fast", "strict"] = "fast") -> list[int]:
    """How many contractions each group has that has any."""
    fused = lower(made, Options(math=math), stop="fuse")
    groups = (op for op in fused.main.body.ops if isinstance(op, Group))
    counts = [len(contractions_in(g.body.ops)) for g in groups]
    return [n for n in counts if n]


def agree_in_one_group(made: Module, target: str) -> None:
    """Two products form one group; each stage gives the same, and threads the same bits."""
    assert products_by_group(made) == [2]
    inputs = inputs_of(made)
    want = run(made, inputs)
    *stages, (_, program) = every_stage(made, inputs, Options(target=target))
    for name, got in stages:
        close(got, want, f"after {name}")
    one = machine_code(program, target, inputs, 1)
    close(one, want, f"machine code for {target}")
    assert all(map(same_bits, one, machine_code(program, target, inputs, 2)))


@pytest.mark.parametrize("target", _RUNNABLE)
@settings(max_examples=examples(8), deadline=None, derandomize=True)
@given(
    sizes=st.tuples(
        st.integers(1, 2),
        st.integers(32, 45),
        st.integers(2, 40),
        st.integers(2, 20),
        st.integers(2, 40),
    ),
    masked=st.booleans(),
    residual=st.booleans(),
)
def test_a_head_at_every_stage(target: str, sizes: _Sizes, masked: bool, residual: bool) -> None:
    agree_in_one_group(attention(sizes, masked, residual), target)


@pytest.mark.parametrize("target", _RUNNABLE)
@pytest.mark.parametrize(("rows", "inner"), [(32, 24), (37, 90)])
def test_a_sum_along_whole_rows_counts_each_element_once(
    target: str, rows: int, inner: int
) -> None:
    """A product, something added, a normalised row and a product: the sum's dimension is a tile's.

    Tiles of a product overlap where its width is no multiple of them; sums along it must not.
    """

    def body(b: Builder, x: Value, more: Value) -> list[Value]:
        rng = np.random.default_rng(1)
        first, second = (
            constant(b, rng.standard_normal(shape).astype(np.float32))
            for shape in ((16, inner), (inner, 40))
        )
        y = b.emit(graph.Add, b.emit(graph.Contract, x, first, equation="ij,jk->ik"), more)
        total = b.emit(graph.Reduce, y, combine="add", axes=(1,), keepdims=True)
        mean = b.emit(graph.Mul, total, constant(b, np.float32(1 / inner)))
        centred = b.emit(graph.Sub, y, mean)
        return [y, b.emit(graph.Contract, centred, second, equation="ij,jk->ik")]

    made = module(body, TensorType(F32, (rows, 16)), TensorType(F32, (rows, inner)))
    agree_in_one_group(made, target)


@pytest.mark.parametrize(
    "sizes",
    [(2, 8, 16, 16, 16), (1, 64, 16, 4096, 16), (1, 64, 4096, 8, 8)],
    ids=["few rows", "much that each row reads", "long rows"],
)
def test_products_stay_apart_where_together_they_would_not_fit(sizes: _Sizes) -> None:
    made = attention(sizes, masked=False, residual=False)
    assert products_by_group(made, "strict") == [1, 1]


def test_attention_over_many_keys_before_and_after_fusion() -> None:
    """Two blocks of keys in a loop and a shorter one after it."""
    made = attention((1, 32, 300, 256, 8), masked=True, residual=True)
    inputs = inputs_of(made)
    want = run(made, inputs)
    for stage in ("choose-algorithm", "fuse", "tile"):
        close(run(lower(made, Options(), stop=stage), inputs), want, f"after {stage}")


def test_two_layers_are_not_taken_for_a_head() -> None:
    def body(b: Builder, x: Value) -> list[Value]:
        w = constant(b, np.ones((16, 16), np.float32))
        y = b.emit(graph.Contract, x, w, equation="ij,jk->ik")
        return [b.emit(graph.Contract, b.emit(graph.Tanh, y), w, equation="ij,jk->ik")]

    assert products_by_group(module(body, TensorType(F32, (64, 16)))) == [1, 1]


@pytest.mark.parametrize("target", _RUNNABLE)
@pytest.mark.parametrize(("rows", "width"), [(32, 2), (37, 24)])
def test_one_sum_of_each_row_after_a_product(target: str, rows: int, width: int) -> None:
    """It multiplies by a vector, and so is a product, but one that has no columns to be tiled."""

    def body(b: Builder, x: Value, least: Value) -> list[Value]:
        rng = np.random.default_rng(1)
        first, second = (
            constant(b, rng.standard_normal(shape).astype(np.float32))
            for shape in ((16, 20), (1, width))
        )
        y = b.emit(graph.Contract, x, first, equation="ij,jk->ik")
        best = b.emit(graph.Reduce, y, combine="max", axes=(1,), keepdims=True)
        over = b.emit(graph.Mul, b.emit(graph.Max, best, least), second)
        return [b.emit(graph.Reduce, over, combine="add", axes=(1,), keepdims=True)]

    made = module(body, TensorType(F32, (rows, 16)), TensorType(F32, (1, width)))
    agree_in_one_group(made, target)


@pytest.mark.parametrize("first", [0.0, 0.5])
@pytest.mark.parametrize("target", _RUNNABLE)
def test_a_product_of_a_state_that_one_number_fills(target: str, first: float) -> None:
    """As the first round of a recurrent layer has it that was written out, over a free batch."""

    def body(b: Builder, x: Value) -> list[Value]:
        rng = np.random.default_rng(2)
        w = constant(b, rng.standard_normal((6, 24)).astype(np.float32))
        none = b.emit(graph.Broadcast, constant(b, np.float32(first)), shape=(BATCH, 6))
        y = b.emit(graph.Add, x, b.emit(graph.Contract, none, w, equation="ij,jk->ik"))
        h = b.emit(graph.Slice, y, starts=(0, 0), stops=(BATCH, 6), steps=(1, 1))
        return [b.emit(graph.Add, x, b.emit(graph.Contract, h, w, equation="ij,jk->ik"))]

    made = module(body, TensorType(F32, (BATCH, 24)))
    compiled = compile_module(made, Options(target=target, threads=1), {})
    for batch in (3, 1, 40):
        x = np.random.default_rng(batch).standard_normal((batch, 24)).astype(np.float32)
        close(compiled.executable.run([x]), run(made, [x]), f"of {batch}")
