"""Products of small integers in words: the same bits, on every target, wherever a form fits."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import TensorProto, helper, numpy_helper

import minicc
from minicc.backends.llvm.emit import emit_kernel
from minicc.compile.compiler import lower
from minicc.ir import graph
from minicc.ir.build import Builder
from minicc.ir.core import Function, Literal, Module, Region, Value, walk
from minicc.ir.interpret import run
from minicc.ir.kernel import Dot
from minicc.ir.types import I8, I32, U8, TensorType
from minicc.options import Options
from minicc.passes.graph.choose_algorithm import choose_algorithm
from minicc.target import MACHINES, Target
from tests.sweeps import part

Array = npt.NDArray[Any]


def numbers(dtype: Any, *shape: int) -> Array:
    """Numbers of a type, the least and the largest among them, in every part of a row."""
    limits = np.iinfo(dtype)
    drawn = np.random.default_rng(len(shape)).integers(limits.min, limits.max + 1, shape)
    flat = drawn.reshape(-1)
    flat[::3], flat[1::5] = limits.max, limits.min
    return drawn.astype(dtype)


def product(a: Any, b: Any) -> Any:
    return a.astype(np.int32) @ b.astype(np.int32)


def lowered(f: Callable[..., Any], args: tuple[Array, ...], target: str, stop: str) -> Module:
    return lower(minicc.jit(f).lower(*args).module, Options(target=target), stop=stop)


def forms(module: Module) -> set[str]:
    return {o.form for o in module.main.body.ops if isinstance(o, graph.Contract | graph.Conv)}


CASES = [
    (np.uint8, np.int8, "i16", "u8.i8"),
    (np.int8, np.uint8, "i16", "u8.i8"),
    (np.int8, np.int8, "i16", "i16"),
    (np.int16, np.int16, "i16", "i16"),
    (np.uint16, np.int8, "", ""),
    (np.int32, np.int8, "", ""),
]


TARGETS = ["x86-64", "avx2", "avx512", "alder-lake", "sapphire-rapids"]


@pytest.mark.parametrize(("case", "target"), part(itertools.product(CASES, TARGETS), 3))
def test_the_form_that_fits_is_taken(case: tuple[Any, Any, str, str], target: str) -> None:
    left, right, pairs, best = case
    args = numbers(left, 33, 64), numbers(right, 64, 40)
    wanted = best if "u8.i8" in MACHINES[target].dots else pairs
    assert forms(lowered(product, args, target, "choose-algorithm")) == {wanted}
    expected = product(*args)
    for stop in ("choose-algorithm", "tile", "hoist"):
        module = lowered(product, args, target, stop)
        (got,) = run(module, args)
        np.testing.assert_array_equal(got, expected, stop)
    dots = [o for f in module.functions for o in walk(f.body) if isinstance(o, Dot)]
    assert {dot.form for dot in dots} == {wanted}
    if MACHINES[target].runs_here():
        np.testing.assert_array_equal(minicc.jit(product, target=target)(*args), expected)


@pytest.mark.parametrize("target", ["avx2", "zen4"])
@pytest.mark.parametrize("depth", [62, 63, 5, 3, 2, 1])
def test_zeros_end_what_does_not_divide(depth: int, target: str) -> None:
    args = numbers(np.uint8, 40, depth), numbers(np.int8, depth, 40)
    module = lowered(product, args, target, "choose-algorithm")
    taken = {(1, "avx2"): "", (1, "zen4"): "", (2, "zen4"): "i16", (5, "zen4"): "i16"}
    best = {"avx2": "i16", "zen4": "u8.i8"}[target]
    assert forms(module) == {taken.get((depth, target), best)}
    np.testing.assert_array_equal(run(module, args)[0], product(*args))
    np.testing.assert_array_equal(minicc.jit(product)(*args), product(*args))


def test_few_products_are_not_worth_words() -> None:
    args = numbers(np.uint8, 40, 64), numbers(np.int8, 64, 2)
    assert forms(lowered(product, args, "avx2", "choose-algorithm")) == {""}


def test_zero_points_are_part_of_the_numbers() -> None:
    def less(a: Any, b: Any) -> Any:
        return (a.astype(np.int32) - 3) @ (b.astype(np.int32) - np.arange(40, dtype=np.int32))

    args = numbers(np.uint8, 33, 64), numbers(np.uint8, 64, 40)
    assert forms(lowered(less, args, "zen4", "choose-algorithm")) == {"i16"}
    np.testing.assert_array_equal(minicc.jit(less)(*args), less(*args))


@pytest.mark.parametrize("target", ["avx2", "zen5"])
def test_a_zero_point_is_taken_off_the_sums(target: str) -> None:
    args = numbers(np.uint8, 5, 33, 64), np.array([171], np.uint8)
    weights = numbers(np.int8, 64, 8, 7)
    b = Builder(("here",))
    x, zero = (Value(TensorType(U8, a.shape)) for a in args)
    wide = [b.emit(graph.Cast, v, dtype=I32) for v in (x, zero)]
    w = b.emit(graph.Constant, value=Literal(weights.astype(np.int32)))
    less = b.emit(graph.Sub, *wide)
    out = b.emit(graph.Contract, less, w, equation="bmk,kij->jbim")
    before = Module("graph", [Function("main", Region((x, zero), b.ops, (out,)))])
    module = lower(before, Options(target=target), stop="choose-algorithm")
    assert forms(module) == {MACHINES[target].dots[0]}
    want = np.einsum("bmk,kij->jbim", args[0].astype(np.int32) - 171, weights.astype(np.int32))
    for made in (before, module, lower(before, Options(target=target), stop="hoist")):
        np.testing.assert_array_equal(run(made, args)[0], want)


@pytest.mark.parametrize("target", ["avx2", "zen5"])
@pytest.mark.parametrize("zero", [0, 3, 255])
@pytest.mark.parametrize(("rotated", "channels"), [(False, 16), (True, 16), (False, 3)])
def test_padding_is_the_zero_point(zero: int, rotated: bool, channels: int, target: str) -> None:
    """With the quantised tensor's own layout, and with another one before it."""
    w = numbers(np.int8, 24, channels, 3, 3)
    shape = [1, 9, 8, channels] if rotated else [1, channels, 9, 8]
    nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2])] * rotated
    nodes += [
        helper.make_node(
            "ConvInteger", ["t" if rotated else "x", "w", "z"], ["y"], pads=[1, 2, 0, 1]
        )
    ]
    made = helper.make_graph(
        nodes,
        "padded",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, shape)],
        [helper.make_tensor_value_info("y", TensorProto.INT32, [1, 24, 8, 9])],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(np.array(zero, np.uint8), "z")],
    )
    opsets = [helper.make_opsetid("", 17)]
    data = helper.make_model(made, opset_imports=opsets, ir_version=8).SerializeToString()
    graph_ = minicc.InferenceSession(data, target="avx2").module
    x = numbers(np.uint8, *shape)
    (want,) = run(graph_, [x])
    module = lower(graph_, Options(target=target), stop="choose-algorithm")
    assert forms(module) == {MACHINES[target].dots[0]}
    for stage in ("choose-algorithm", "tile", "hoist"):
        later = lower(graph_, Options(target=target), stop=stage)
        np.testing.assert_array_equal(run(later, [x])[0], want, stage)
    if MACHINES[target].runs_here():
        session = minicc.InferenceSession(data, target=target)
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], want)


def test_a_range_that_conversions_hide_is_not_believed() -> None:
    def doubled(a: Any, b: Any) -> Any:
        wide = a.astype(np.int32) + a.astype(np.int32)
        return wide.astype(np.int8).astype(np.int32) @ (b.astype(np.int32) + 2**15)

    args = numbers(np.uint8, 33, 64), numbers(np.int8, 64, 40)
    assert forms(lowered(doubled, args, "zen4", "choose-algorithm")) == {""}
    np.testing.assert_array_equal(minicc.jit(doubled)(*args), doubled(*args))


def test_wider_numbers_after_a_product_leave_its_vectors_whole() -> None:
    def scaled(a: Any, b: Any) -> Any:
        return np.rint(product(a, b) * 0.01).astype(np.int8)

    args = numbers(np.uint8, 40, 64), numbers(np.int8, 64, 40)
    module = lowered(scaled, args, "avx2", "parallelize")
    (fused,) = [f for f in module.functions if any(isinstance(o, Dot) for o in walk(f.body))]
    text = emit_kernel(fused, Target.named("avx2"))
    assert "<8 x double>" in text
    assert "@llvm.x86.avx2.pmadd.wd" in text
    assert "@llvm.x86.sse2.pmadd.wd" not in text
    np.testing.assert_array_equal(minicc.jit(scaled)(*args), scaled(*args))


def test_products_without_sums_and_long_chains_are_left_alone() -> None:
    def outer(a: Any, b: Any) -> Any:
        return np.einsum("i,j->ij", a.astype(np.int32), b.astype(np.int32))

    args = numbers(np.int8, 30), numbers(np.int8, 40)
    np.testing.assert_array_equal(minicc.jit(outer)(*args), outer(*args))
    args = numbers(np.int8, 40, 32), numbers(np.int8, 32, 40)
    b = Builder(("here",))
    x, w = (Value(TensorType(I8, a.shape)) for a in args)
    long, wide = (b.emit(graph.Cast, v, dtype=I32) for v in (x, w))
    one = b.emit(graph.Constant, value=Literal(np.ones((), np.int32)))
    for k in range(3000):
        long = b.emit(graph.Sub if k % 3 else graph.Add, long, one)
    out = b.emit(graph.Contract, long, wide, equation="mk,kn->mn")
    before = Module("graph", [Function("main", Region((x, w), b.ops, (out,)))])
    module = choose_algorithm(before, True, Target.named("avx2"))
    assert forms(module) == {"i16"}
    np.testing.assert_array_equal(run(module, args)[0], run(before, args)[0])


def test_several_sums_and_batches() -> None:
    def contracted(a: Any, b: Any) -> Any:
        return np.einsum("bhik,bkhj->bij", a.astype(np.int32), b.astype(np.int32))

    args = numbers(np.int8, 2, 3, 20, 32), numbers(np.int8, 2, 32, 3, 40)
    found = forms(lowered(contracted, args, "avx2", "choose-algorithm"))
    assert found <= {"", "i16"}
    np.testing.assert_array_equal(minicc.jit(contracted)(*args), contracted(*args))
