"""Operators on trial before opset 10: what ONNX Runtime makes of them, written out in NumPy."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from minicc.api.session import InferenceSession
from minicc.errors import UserError

X = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4) / 8
CASES: dict[str, tuple[dict[str, Any], Any]] = {
    "Affine": ({"alpha": 2.0, "beta": 0.5}, 2 * X + 0.5),
    "Scale": ({"scale": 3.0}, 3 * X),
    "ScaledTanh": ({"alpha": 2.0, "beta": 0.5}, 2 * np.tanh(X / 2)),
    "ParametricSoftplus": ({"alpha": 2.0, "beta": 0.5}, 2 * np.log1p(np.exp(X / 2))),
    "ImageScaler": ({"scale": 2.0, "bias": [1.0, -1.0]}, 2 * X + np.array([[[1]], [[-1]]])),
    "Crop": ({"border": [1, 0, 1, 1]}, X[:, :, :2, 1:3]),
    "Crop to": ({"border": [1, 0, 0, 0], "scale": [2, 2]}, X[:, :, :2, 1:3]),
}


def model_of(name: str, **changed: Any) -> bytes:
    node = helper.make_node(name.split()[0], ["x"], ["y"], "it", **{**CASES[name][0], **changed})
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2, 3, 4]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
    ]
    body = helper.make_graph([node], "case", ends[:1], ends[1:])
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", 7)], ir_version=8)
    return bytes(model.SerializeToString())


@pytest.mark.parametrize("name", CASES)
def test_as_onnx_runtime_has_it(name: str) -> None:
    results = [InferenceSession(model_of(name), threads=1).run(None, {"x": X})[0]]
    try:
        import onnxruntime as ort  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        pass
    else:
        results += ort.InferenceSession(model_of(name)).run(None, {"x": X})
    for result in results:
        assert (result.shape, result.dtype) == (CASES[name][1].shape, np.float32)
        np.testing.assert_allclose(result, CASES[name][1], rtol=1e-5)


def test_a_border_that_leaves_nothing() -> None:
    with pytest.raises(UserError, match=r"MC0127.*leaves nothing of 3 x 4"):
        InferenceSession(model_of("Crop", border=[3, 0, 3, 0]), threads=1)
