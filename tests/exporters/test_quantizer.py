"""Models that ONNX Runtime's quantiser wrote, static and dynamic, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper, save

from tests.exporters.exported import check, part

pytest.importorskip("onnxruntime.quantization")
pytestmark = pytest.mark.filterwarnings("ignore")
RANDOM = np.random.default_rng(5)


def network(shape: list[Any], nodes: list[Any], weights: dict[str, tuple[int, ...]]) -> ModelProto:
    """A model of `x` that gives `y`, with random weights."""
    held = [
        numpy_helper.from_array((RANDOM.normal(size=s) / 3).astype(np.float32), name)
        for name, s in weights.items()
    ]
    body = helper.make_graph(
        [helper.make_node(op, a.split(), [b], b, **c) for op, a, b, c in nodes],
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        held,
    )
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def perceptron() -> ModelProto:
    nodes: list[Any] = [("MatMul", "x w", "a", {}), ("Add", "a b", "c", {}), ("Relu", "c", "d", {}),
             ("Gemm", "d v e", "y", {})]  # fmt: skip
    return network(["n", 16], nodes, {"w": (16, 32), "b": (32,), "v": (32, 4), "e": (4,)})


def convolutions() -> ModelProto:
    pads: dict[str, Any] = {"pads": [1, 1, 1, 1]}
    nodes: list[Any] = [
             ("Conv", "x w b", "c", pads), ("Relu", "c", "d", {}), ("Conv", "d v", "f", pads),
             ("Add", "d f", "g", {}), ("GlobalAveragePool", "g", "y", {})]  # fmt: skip
    weights: dict[str, tuple[int, ...]] = {"w": (8, 3, 3, 3), "b": (8,), "v": (8, 8, 3, 3)}
    return network(["n", 3, 8, 8], nodes, weights)


def attention() -> ModelProto:
    nodes: list[Any] = [("MatMul", "x q", "a", {}), ("MatMul", "x k", "b", {}),
             ("Transpose", "b", "t", {"perm": [0, 2, 1]}), ("MatMul", "a t", "s", {}),
             ("Softmax", "s", "p", {}), ("MatMul", "p x", "m", {}), ("MatMul", "m w", "y", {}),
             ]  # fmt: skip
    return network(["n", 6, 16], nodes, {"q": (16, 16), "k": (16, 16), "w": (16, 8)})


MODELS = [perceptron, convolutions, attention]


def inputs_of(model: ModelProto) -> list[dict[str, Any]]:
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim[1:]]
    return [{"x": RANDOM.normal(size=(n, *shape)).astype(np.float32)} for n in (4, 1, 3)]


@pytest.mark.parametrize("make", MODELS)
def test_dynamic(make: Any, tmp_path: Path) -> None:
    model = make()
    save(model, tmp_path / "model.onnx")
    # 7 bits: ONNX Runtime's products of u8 and s8 saturate in 16 bits on processors without VNNI
    part("onnxruntime.quantization.quantize_dynamic")(
        tmp_path / "model.onnx", tmp_path / "small.onnx", reduce_range=True
    )
    check((tmp_path / "small.onnx").read_bytes(), inputs_of(model), error=5e-3)


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize("make", MODELS)
def test_static(make: Any, form: str, tmp_path: Path) -> None:
    model = make()
    feeds = inputs_of(model)

    class Reader(part("onnxruntime.quantization.CalibrationDataReader")):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = iter(feeds)

        def get_next(self) -> Any:
            return next(self.left, None)

    save(model, tmp_path / "model.onnx")
    part("onnxruntime.quantization.quantize_static")(
        tmp_path / "model.onnx",
        tmp_path / "small.onnx",
        Reader(),
        quant_format=getattr(part("onnxruntime.quantization.QuantFormat"), form),
        extra_options={"ActivationSymmetric": True},
    )
    # results are rounded to steps of a quantised type, and a sum may fall on the other side of one
    check((tmp_path / "small.onnx").read_bytes(), feeds, error=2e-2)
