"""Products with matrices that are no constants, of which each instance copies its columns."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from tests.models.test_streamed_products import arrays_of, check, f32, f64, generics, product

import minicc
from minicc.backends.llvm.compile import emit
from minicc.compile.compiler import lower
from minicc.frontends.onnx.importer import import_model
from minicc.ir.structured import Group
from minicc.options import Options
from minicc.target import TARGETS


def turned(x: Any, w: Any) -> Any:
    return x @ w.T


def with_more(x: Any, w: Any) -> Any:
    return np.maximum(x @ w + w[0], 0) * 2


def each(x: Any, w: Any) -> Any:
    return np.einsum("bmk,bkn->bmn", x, w)


CASES: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...], type]] = {
    "a matrix": (product, (100, 300), (300, 2000), f32),
    "columns that leave a rest": (product, (67, 130), (130, 2051), f32),
    "blocks of sums": (product, (50, 1000), (1000, 1100), f32),
    "blocks, and what is done with it": (with_more, (64, 768), (768, 1601), f64),
    "turned": (turned, (64, 150), (1999, 150), f32),
    "what is done with it": (with_more, (101, 200), (200, 1100), f64),
    "a batch": (each, (2, 64, 100), (2, 100, 1600), f32),
    "a matrix that is near": (product, (130, 300), (300, 300), f32),
    "short sums": (product, (400, 40), (40, 600), f32),
    "integers": (product, (90, 100), (100, 1100), np.int64),
}


@pytest.mark.parametrize(("function", "x", "w", "element"), CASES.values(), ids=CASES)
def test_promoted(
    function: Callable[..., Any], x: tuple[int, ...], w: tuple[int, ...], element: type
) -> None:
    left, right = arrays_of(x, w, element)
    module = minicc.jit(function).lower(left, right).module
    for target in TARGETS:
        packed = lower(module, Options(target=target), stop="pack")
        copy, op, *_ = generics(packed)
        assert copy.result in op.operands
    for target in [t for t in TARGETS if TARGETS[t].runs_here()]:
        check(function, left, right, target=target)


@pytest.mark.parametrize(
    ("x", "w"),
    [((8, 300), (300, 2000)), ((100, 300), (300, 6))],
    ids=["few rows", "few columns"],
)
def test_others_are_packed_apart_or_not_at_all(x: tuple[int, ...], w: tuple[int, ...]) -> None:
    left, right = arrays_of(x, w, f32)
    module = minicc.jit(product).lower(left, right).module
    scheduled = lower(module, Options(target="avx2"), stop="schedule")
    plans = [op.schedule for op in scheduled.main.body.ops if isinstance(op, Group)]
    assert plans
    assert not any(plan.promotes for plan in plans if plan is not None)


@pytest.mark.parametrize(("target", "copies"), [("zen3", False), ("zen4", True)])
def test_totals_of_many_rows_need_a_large_cache(target: str, copies: bool) -> None:
    left, right = np.zeros((2048, 2048)), np.zeros((2048, 2048))
    module = minicc.jit(product).lower(left, right).module
    scheduled = lower(module, Options(target=target), stop="schedule")
    (plan,) = [op.schedule for op in scheduled.main.body.ops if isinstance(op, Group)]
    assert plan is not None
    assert plan.around
    assert bool(plan.promotes) == copies


def image_model(
    size: int, channels: int, others: int, stride: int, border: int
) -> tuple[Any, dict[str, tuple[int, ...]]]:
    """A convolution of single pixels whose weights are an input, and one of 3x3 after it."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["h"], strides=[stride, stride]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Conv", ["r", "v"], ["y"], pads=[border] * 4, group=others),
    ]
    shapes: dict[str, tuple[int, ...]] = {
        "x": (1, channels, size, size),
        "w": (others, channels, 1, 1),
        "v": (others, 1, 3, 3),
    }
    taken = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", taken, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), shapes


@pytest.mark.parametrize(
    "sizes", [(14, 640, 1280, 2, 0), (7, 640, 1280, 1, 1), (13, 528, 768, 1, 1)], ids=str
)
def test_rows_of_an_image_may_lie_apart(sizes: tuple[int, ...]) -> None:
    """Points of 7 x 7 that are counted as 49: a step of two pixels, a border around them."""
    model, shapes = image_model(*sizes)
    rng = np.random.default_rng(0)
    inputs = {n: (rng.standard_normal(s) / 16).astype(np.float32) for n, s in shapes.items()}
    found: list[Any] = []
    for target in ("avx2", "avx512", "x86-64", "zen3"):
        options = Options(target=target, math="strict")
        made = lower(import_model(model.SerializeToString()), options)
        assert emit(made, options.machine, "nothing")
        if options.machine.runs_here():
            session = minicc.InferenceSession(model.SerializeToString(), options=options)
            (y,) = session.run(None, inputs)
            found.append(y)
    for y in found[1:]:
        np.testing.assert_allclose(y, found[0], rtol=1e-4, atol=1e-5)
