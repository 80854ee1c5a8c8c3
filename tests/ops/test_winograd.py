"""Winograd's convolution: its matrices, its ops against the direct form, and every stage."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.stages.programs import (
    Array,
    changed,
    constant,
    every_stage,
    machine_code,
    module,
    same_bits,
)
from tests.sweeps import part

from minicc.ir import graph
from minicc.ir.affine import Dim, floordiv, symbol
from minicc.ir.arith import identity_of
from minicc.ir.build import Builder
from minicc.ir.core import Module, Value
from minicc.ir.graph.minimal_filters import POINTS, TAPS, derive, share
from minicc.ir.interpret import run
from minicc.ir.types import F32, F64, TensorType
from minicc.options import Options
from minicc.passes.graph import choose_algorithm
from minicc.target import TARGETS, Target

_SHAPES = [(1, 8, 8, 5), (2, 7, 9, 17), (1, 4, 6, 33)]
_RUNNABLE = [name for name, target in TARGETS.items() if target.runs_here()]


@pytest.mark.parametrize("m", POINTS)
def test_the_matrices_convolve_exactly(m: int) -> None:
    rng = np.random.default_rng(m)
    f = derive(m)
    data = [Fraction(int(n)) for n in rng.integers(-9, 9, m + TAPS - 1)]
    taps = [Fraction(int(n)) for n in rng.integers(-9, 9, TAPS)]

    def times(matrix: Sequence[Sequence[Fraction]], v: Sequence[Fraction]) -> list[Fraction]:
        return [sum((a * b for a, b in zip(row, v, strict=True)), Fraction(0)) for row in matrix]

    products = [a * b for a, b in zip(times(f.input, data), times(f.taps, taps), strict=True)]
    wanted = [sum(data[k + j] * taps[j] for j in range(TAPS)) for k in range(m)]
    assert times(f.output, products) == wanted


@pytest.mark.parametrize("m", POINTS)
def test_shared_forms_are_the_matrix(m: int) -> None:
    for matrix in derive(m):
        plan = share(matrix)
        unit = np.eye(len(matrix[0]), dtype=int).tolist()
        known = [[Fraction(v) for v in row] for row in unit]
        for form in plan.shared:
            known.append([sum(c * known[k][j] for k, c in form.items()) for j in range(len(unit))])  # type: ignore[misc]
        made = [
            [sum(c * known[k][j] for k, c in form.items()) for j in range(len(unit))]
            for form in plan.rows
        ]
        assert made == [list(row) for row in matrix]


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    m=st.sampled_from(sorted(POINTS)),
    shape=st.tuples(st.integers(1, 2), st.integers(4, 11), st.integers(4, 11), st.integers(1, 5)),
    outputs=st.integers(1, 4),
)
def test_the_ops_are_a_convolution(m: int, shape: tuple[int, ...], outputs: int) -> None:
    batch, height, width, channels = shape
    rng = np.random.default_rng(height)
    x = rng.standard_normal((batch, height + 2, width + 2, channels))
    w = rng.standard_normal((outputs, channels, 3, 3))

    def body(b: Builder, x: Value, w: Value) -> Sequence[Value]:
        v = b.emit(graph.WinogradInput, x, outputs=m)
        u = b.emit(graph.WinogradWeights, w, outputs=m)
        products = b.emit(graph.Contract, v, u, equation="xnijc,xco->xnijo")
        direct = b.emit(graph.Conv, x, w, strides=(1, 1), dilations=(1, 1), layout="channels_last")
        out = b.emit(graph.WinogradOutput, products, height=height, width=width, outputs=m)
        return [out, direct]

    got, want = run(module(body, TensorType(F64, x.shape), TensorType(F64, w.shape)), [x, w])
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def layer(shape: tuple[int, ...], outputs: int) -> tuple[Module, list[Array], Array]:
    """A padded convolution with bias, residual and ReLU; inputs; what it gives directly."""
    batch, height, width, channels = shape
    rng = np.random.default_rng(height)
    w = (rng.standard_normal((outputs, channels, 3, 3)) / 8).astype(np.float32)
    bias = rng.standard_normal(outputs).astype(np.float32)

    def body(b: Builder, x: Value, residual: Value) -> Sequence[Value]:
        edge = (0, 1, 1, 0)
        x = b.emit(graph.Pad, x, low=edge, high=edge, value=identity_of("add", F32))
        y = b.emit(
            graph.Conv,
            x,
            constant(b, w),
            strides=(1, 1),
            dilations=(1, 1),
            layout="channels_last",
        )
        y = b.emit(graph.Add, b.emit(graph.Add, y, constant(b, bias)), residual)
        return [b.emit(graph.Max, y, constant(b, np.float32(0)))]

    types = [TensorType(F32, shape), TensorType(F32, (batch, height, width, outputs))]
    made = module(body, *types)
    inputs = [rng.standard_normal(t.extents).astype(np.float32) for t in types]
    return made, inputs, run(made, inputs)[0]


@pytest.mark.parametrize(("shape", "m", "target"), part(product(_SHAPES, POINTS, _RUNNABLE), 10))
def test_every_stage(
    shape: tuple[int, ...], m: int, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choose_algorithm, "cost", lambda op, form, target: float(form != m))
    start, inputs, want = layer(shape, 20)
    *stages, (_, program) = every_stage(start, inputs, Options(target=target))
    for name, (got,) in stages:
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4, err_msg=name)
    (one,) = machine_code(program, target, inputs, 1)
    np.testing.assert_allclose(one, want, rtol=1e-4, atol=1e-4)
    (two,) = machine_code(program, target, inputs, 2)
    assert same_bits(one, two)
    kernels = [f for f in program.functions if f is not program.main]
    # the border and the inside of the padded input, then the three steps: the epilogue is no other
    assert len(kernels) == 5


def test_strict_mathematics_stays_direct() -> None:
    start, _, _ = layer((1, 32, 32, 32), 32)
    fast, strict = (
        [name for name, _ in changed(start, Options(math=math))] for math in ("fast", "strict")
    )
    assert "choose-algorithm" in fast
    assert "choose-algorithm" not in strict


def test_an_image_below_a_tile_has_no_form() -> None:
    start, _, _ = layer((1, 3, 9, 8), 8)
    (conv,) = [op for op in start.main.body.ops if isinstance(op, graph.Conv)]
    target = Target.named("avx2")
    assert choose_algorithm.cost(conv, 4, target) == inf
    assert choose_algorithm.cost(conv, 2, target) < inf


def planned(
    image: tuple[Dim, Dim, Dim], channels: int, out: int | None = None, target: str = "avx2"
) -> list[int]:
    """The tiles of a convolution whose result is of such images; none where it is direct."""
    batch, height, width = image

    def body(b: Builder, x: Value) -> Sequence[Value]:
        w = np.ones((out or channels, channels, 3, 3), np.float32)
        pairs = {"strides": (1, 1), "dilations": (1, 1)}
        return [b.emit(graph.Conv, x, constant(b, w), **pairs, layout="channels_last")]

    main = module(body, TensorType(F32, (batch, height + 2, width + 2, channels))).main
    return [*choose_algorithm.plan_algorithms(main, Target.named(target)).values()]


@pytest.mark.parametrize(("side", "channels"), [(7, 512), (14, 512), (56, 64)])
def test_a_free_batch_is_taken_for_one_image(side: int, channels: int) -> None:
    assert planned((symbol("$b"), side, side), channels) == planned((1, side, side), channels)


def test_images_of_free_sizes_have_the_form_that_is_never_far_from_the_best() -> None:
    """Few channels have the largest tiles; weights of many are not read four times over."""
    near, far = (
        tuple(floordiv(symbol(name), stride) for name in ("$h", "$w")) for stride in (4, 32)
    )
    assert planned((1, near[0], near[1]), 64) == [4]
    assert planned((1, far[0], far[1]), 512) in ([], [2])


@pytest.mark.parametrize(
    ("channels", "out", "side", "tiles"),
    [
        (16, 8, 64, [4]),  # half a vector of results: the direct form has no more in a vector
        (12, 12, 64, [4]),
        (16, 16, 28, [4]),
        (3, 16, 64, []),  # the transform of few channels has as many vectors as that of 16
        (384, 1, 96, []),  # the direct form has vectors along what it sums
        (16, 96, 10, []),  # two more launches take as long as is gained
    ],
)
def test_channels_that_fill_no_vector_count_as_whole_ones(
    channels: int, out: int, side: int, tiles: list[int]
) -> None:
    assert planned((1, side, side), channels, out, "zen5") == tiles
