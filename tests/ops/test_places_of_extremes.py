"""The place of an extreme along rows that are cut into blocks, and along others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import minicc

SHAPES = [(480,), (3, 8192), (2, 5, 9000), (16411,), (1, 10000), (64, 400), (120, 130)]


def _cases(shape: tuple[int, ...], dtype: str) -> Any:
    """Rows with equal extremes in several places, and with one or several NaN."""
    rng = np.random.default_rng(len(shape) + shape[-1])
    n = shape[-1]
    yield rng.integers(-9, 9, shape).astype(dtype)
    yield np.zeros(shape, dtype)
    for places in ([n - 1], [0, n - 1], [n // 2, n // 2 + 1], [n // 4, n // 4 * 3]):
        x = rng.integers(-9, 9, shape).astype(dtype)
        x[..., places] = 20
        yield x
        yield -x
        if np.dtype(dtype).kind == "f":
            x = x.copy()
            x[..., places] = np.nan
            yield x
            x[..., : n // 3] = -np.inf
            yield x


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_first_places(shape: tuple[int, ...], dtype: str) -> None:
    def places(x: Any) -> Any:
        return np.argmax(x), np.argmin(x, -1), np.argmax(x, 0), np.argmin(x, -1, keepdims=True)

    jitted = minicc.jit(places)
    for x in _cases(shape, dtype):
        for got, wanted in zip(jitted(x), places(x), strict=True):
            np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_last_places(shape: tuple[int, ...]) -> None:
    node = helper.make_node("ArgMax", ["x"], ["y"], axis=-1, keepdims=0, select_last_index=1)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.INT64, shape[:-1])
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=opsets)
    session = minicc.InferenceSession(model.SerializeToString())
    for given in _cases(shape, "float32"):
        (got,) = session.run(None, {"x": given})
        wanted = shape[-1] - 1 - np.argmax(given[..., ::-1], -1)
        np.testing.assert_array_equal(got, wanted)
