"""Models that dequantise what each op takes: products of integers."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import minicc
from minicc.compile.compiler import lower
from minicc.frontends.onnx import import_model
from minicc.ir import graph
from minicc.ir.types import I32
from minicc.options import Options

Array = npt.NDArray[Any]
F = TensorProto.FLOAT
ELEMENTS: dict[str, Any] = {"u8": np.uint8, "i8": np.int8, "i16": np.int16}


def quantised(
    op: str, x: tuple[int, ...], w: Array, element: str, axis: int | None, **attrs: Any
) -> ModelProto:
    """A model: x is quantised and dequantised, w dequantised, both multiplied, and a bias added."""
    dtype = ELEMENTS[element]
    limits = np.iinfo(dtype)
    zero = dtype(0 if element == "i16" else (int(limits.min) + int(limits.max)) // 2 + 3)
    count = 1 if axis is None else w.shape[axis]
    scales = np.linspace(0.01, 0.03, count, dtype=np.float32)
    tensors = {
        "s": np.float32(0.02),
        "z": zero,
        "w": w,
        "t": scales if axis is not None else scales[0],
        "wz": np.zeros(count if axis is not None else (), w.dtype),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "t", "wz"], ["e"], axis=axis or 0),
        helper.make_node(op, ["d", "e"], ["y"], **attrs),
        helper.make_node("Relu", ["y"], ["out"]),
    ]
    g = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", F, x)],
        [helper.make_tensor_value_info("out", F, None)],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in tensors.items()],
    )
    return helper.make_model(g, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def weights(dtype: Any, *shape: int) -> Array:
    limits = np.iinfo(dtype)
    return np.random.default_rng(0).integers(limits.min, limits.max + 1, shape, dtype)


def integers_summed(
    model: ModelProto, target: str, math: Literal["fast", "strict"] = "fast"
) -> bool:
    module = lower(
        import_model(model.SerializeToString()),
        Options(target=target, math=math),
        stop="sum-integers",
    )
    products = (op for op in module.main.body.ops if isinstance(op, graph.Conv | graph.Contract))
    return any(op.result.type.dtype is I32 for op in products)


CASES: dict[str, tuple[bool, ModelProto]] = {
    "a convolution": (
        True,
        quantised("Conv", (1, 16, 12, 12), weights(np.int8, 32, 16, 3, 3), "u8", 0, pads=[1] * 4),
    ),
    "one scale for all": (
        True,
        quantised("Conv", (2, 16, 12, 12), weights(np.int8, 32, 16, 3, 3), "i8", None),
    ),
    "a row of pixels": (True, quantised("Conv", (1, 24, 70), weights(np.int8, 40, 24, 5), "u8", 0)),
    "few weights": (True, quantised("Conv", (1, 4, 20, 20), weights(np.int8, 8, 4, 3, 3), "u8", 0)),
    "groups": (
        False,
        quantised("Conv", (1, 16, 12, 12), weights(np.int8, 16, 1, 3, 3), "u8", 0, group=16),
    ),
    "a product": (True, quantised("MatMul", (40, 256), weights(np.int8, 256, 48), "u8", 1)),
    "of unsigned weights": (
        True,
        quantised("MatMul", (40, 256), weights(np.uint8, 256, 48), "i8", 1),
    ),
    "a batch": (True, quantised("MatMul", (3, 40, 128), weights(np.int8, 128, 48), "i8", 1)),
    "turned": (
        True,
        quantised("Gemm", (40, 256), weights(np.int8, 48, 256), "u8", 0, transB=1, alpha=0.5),
    ),
    "a scale for each term": (
        False,
        quantised("MatMul", (40, 256), weights(np.int8, 256, 48), "u8", 0),
    ),
    "sums that would wrap": (
        False,
        quantised("MatMul", (40, 256), weights(np.int16, 256, 48), "i16", 1),
    ),
}


@pytest.mark.parametrize(("whole", "model"), CASES.values(), ids=CASES)
def test_products_of_integers(whole: bool, model: ModelProto) -> None:
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(1).normal(0, 2, shape).astype(np.float32)
    reference: Any = ReferenceEvaluator(model)
    want = reference.run(None, {"x": x})[0]
    assert integers_summed(model, "avx512") is whole
    assert not integers_summed(model, "avx512", "strict")
    data = model.SerializeToString()
    modes: tuple[Literal["fast", "strict"], ...] = ("fast", "strict")
    for math in modes:
        options = [Options(math=math, threads=n) for n in (1, 2)]
        results = [
            np.asarray(minicc.InferenceSession(data, options=o).run(None, {"x": x})[0])
            for o in options
        ]
        np.testing.assert_array_equal(results[0], results[1])
        np.testing.assert_allclose(results[0], want, rtol=1e-5, atol=1e-5 * np.abs(want).max())


def test_many_moves_before_a_product() -> None:
    x = helper.make_tensor_value_info("x", F, (4, 8))
    nodes = [
        helper.make_node("Reshape", [f"r{k}" if k else "x", f"s{k % 2}"], [f"r{k + 1}"])
        for k in range(1500)
    ]
    nodes.append(helper.make_node("MatMul", ["r1500", "w"], ["y"]))
    shapes = {"s0": np.array([8, 4]), "s1": np.array([4, 8]), "w": np.ones((8, 6), np.float32)}
    known = [numpy_helper.from_array(v, k) for k, v in shapes.items()]
    out = [helper.make_tensor_value_info("y", F, None)]
    g = helper.make_graph(nodes, "g", [x], out, known)
    model = helper.make_model(g, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = minicc.InferenceSession(model.SerializeToString())
    (y,) = session.run(None, {"x": np.ones((4, 8), np.float32)})
    np.testing.assert_array_equal(y, np.full((4, 6), 8, np.float32))


def test_a_scale_that_does_not_fit_its_weights_is_refused() -> None:
    model = quantised("MatMul", (4, 8), weights(np.int8, 8, 6), "u8", 1)
    model.graph.initializer[3].CopyFrom(numpy_helper.from_array(np.ones(5, np.float32), "t"))
    model.graph.node[2].input.pop()  # without zero points the scale alone has a shape
    with pytest.raises(minicc.UserError, match=r"do not broadcast"):
        minicc.InferenceSession(model.SerializeToString())
