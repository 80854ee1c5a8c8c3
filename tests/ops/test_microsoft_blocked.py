"""Operators of `com.microsoft.nchwc`: images and weights whose channels lie in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper
from tests.ops.microsoft import F4, Array, Case, check, in_forms, random
from tests.ops.test_microsoft_fused import convolved

from minicc.api.session import InferenceSession
from minicc.errors import UnsupportedError
from minicc.frontends.onnx import import_model
from minicc.frontends.onnx.microsoft.blocked import block_size

BLOCK = block_size()
FREE = {2: "batch", 7: "side"}
SHAPE: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}


def blocked(w: Array) -> Array:
    """Weights in blocks of output channels, and of input channels where they fill them."""
    outer, inner, *rest = w.shape
    if inner % BLOCK:
        laid = w.reshape(outer // BLOCK, BLOCK, inner, *rest).transpose(0, 2, 3, 4, 1)
    else:
        apart = w.reshape(outer // BLOCK, BLOCK, inner // BLOCK, BLOCK, *rest)
        laid = apart.transpose(0, 2, 4, 5, 3, 1)
    return np.ascontiguousarray(laid).reshape(w.shape)


def family() -> Iterator[tuple[str, Case]]:
    domain = "com.microsoft.nchwc"
    op = f"{domain}.Conv"
    b = random(2 * BLOCK, seed=5)
    for inner in (3, BLOCK):
        x, w = random(2, inner, 7, 7), random(2 * BLOCK, inner, 3, 3, seed=4)
        line = convolved(x, w)
        z = random(*line.shape, seed=6)
        wants = [np.maximum(line + b[:, None, None] + z, 0)]
        options = {**SHAPE, "activation": "Relu"}
        case = Case(op, [x, blocked(w), b, z], wants, options, (1, 2), FREE, 1e-3)
        yield f"Conv {inner}", case
    w = random(BLOCK, 1, 3, 3, seed=4)
    out = np.concatenate([convolved(x[:, k : k + 1], w[k : k + 1]) for k in range(BLOCK)], 1)
    options = {**SHAPE, "group": BLOCK}
    yield "Conv of each", Case(op, [x, blocked(w)], [out], options, (1,), FREE, 1e-4)
    y = random(2, 5, 7, 7)
    wide = np.pad(y, ((0, 0), (0, BLOCK - 5), (0, 0), (0, 0)))
    last = (0, 2, 3, 1)
    op = f"{domain}.ReorderInput"
    yield "ReorderInput", Case(op, [y], [wide], {}, (), FREE)
    image = np.ascontiguousarray(y.transpose(last))
    yield "ReorderInput last", Case(op, [image], [wide], {"channels_last": 1}, (), FREE)
    op = f"{domain}.ReorderOutput"
    yield "ReorderOutput", Case(op, [wide], [y], {"channels": 5}, (), FREE)
    options = {"channels": 5, "channels_last": 1}
    yield "ReorderOutput last", Case(op, [wide], [image], options, (), FREE)
    views = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), axis=(2, 3))
    options = {"kernel_shape": [3, 3]}
    yield "MaxPool", Case(f"{domain}.MaxPool", [wide], [views.max((4, 5))], options, (), FREE)
    wants = [views.mean((4, 5))]
    yield "AveragePool", Case(f"{domain}.AveragePool", [wide], wants, options, (), FREE)
    for name, out in (("Max", wide.max((2, 3))), ("Average", wide.mean((2, 3)))):
        wants = [out[..., None, None]]
        yield f"Global{name}", Case(f"{domain}.Global{name}Pool", [wide], wants, {}, (), FREE)
    op, options = f"{domain}.Upsample", {"scales": [1, 1, 2, 3]}
    yield "Upsample", Case(op, [wide], [wide.repeat(2, 2).repeat(3, 3)], options, (), FREE)


CASES = dict(family())


@in_forms(CASES)
def test_against_numpy(case: Case, free: bool) -> None:
    check(case, free)


def test_blocks_of_another_machine_are_refused() -> None:
    w = random(BLOCK + 4, 3, 3, 3)
    case = Case("com.microsoft.nchwc.Conv", [random(1, 3, 7, 7), w], [w], SHAPE, (1,))
    with pytest.raises(UnsupportedError, match="blocks of another machine"):
        import_model(case.model(False))


def network() -> bytes:
    """Convolutions of several kinds, poolings, sums and joints, as a model for images has them."""

    def node(op: str, inputs: str, output: str, **attributes: Any) -> Any:
        names = [name if name != "-" else "" for name in inputs.split()]
        return helper.make_node(op, names, [output], **attributes)

    same: dict[str, Any] = {"pads": [1, 1, 1, 1]}
    nodes = [
        node("Conv", "x w1 b1", "c1", **same),
        node("Relu", "c1", "r1"),
        node("Conv", "r1 w2 b2", "c2", group=24, **same),
        node("Conv", "c2 w3", "c3"),
        node("Add", "c3 r1", "s"),
        node("Conv", "s w4", "c4", strides=[2, 2], **same),
        node("MaxPool", "c4", "m", kernel_shape=[3, 3], **same),
        node("AveragePool", "m", "av", kernel_shape=[3, 3], **same),
        node(
            "Resize",
            "av - sc",
            "up",
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        ),
        node("Concat", "up c3", "cc", axis=1),
        node("Conv", "cc w5", "c5"),
        node("Sigmoid", "c5", "act"),
        node("GlobalAveragePool", "act", "g"),
    ]
    shapes = {
        "w1": (24, 3, 3, 3),
        "b1": (24,),
        "w2": (24, 1, 3, 3),
        "b2": (24,),
        "w3": (24, 24, 1, 1),
        "w4": (32, 24, 3, 3),
        "w5": (20, 56, 1, 1),
    }
    weights = [
        numpy_helper.from_array(random(*shape, seed=k, low=-0.3, high=0.3), name)
        for k, (name, shape) in enumerate(shapes.items())
    ]
    weights.append(numpy_helper.from_array(np.array([1, 1, 2, 2], F4), "sc"))
    given = [helper.make_tensor_value_info("x", 1, ["batch", 3, 8, 8])]
    results = [helper.make_tensor_value_info(name, 1, None) for name in ("c5", "g")]
    graph = helper.make_graph(nodes, "images", given, results, weights)
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return bytes(model.SerializeToString())


def test_models_that_onnx_runtime_lays_out(tmp_path: Path) -> None:
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.optimized_model_filepath = str(tmp_path / "laid.onnx")
    ort.set_default_logger_severity(4)
    session = ort.InferenceSession(network(), options, providers=["CPUExecutionProvider"])
    x = random(2, 3, 8, 8)
    got = InferenceSession(tmp_path / "laid.onnx", threads=1).run(None, {"x": x})
    for one, other in zip(got, session.run(None, {"x": x}), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
