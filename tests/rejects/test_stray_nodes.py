"""Nodes whose operands and attributes nobody thought about: too few, large, of other types."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.rejects.test_hostile_models import refusal

import minicc

MICROSOFT = "com.microsoft"


def alone(
    node: Any, *inputs: tuple[str, int, list[Any]], opset: int = 18, constants: Any = ()
) -> Any:
    """A model of one node."""
    given = [helper.make_tensor_value_info(*i) for i in inputs]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output]
    graph = helper.make_graph([node], "alone", given, outputs, constants)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def test_axes_of_a_slice_of_a_scalar() -> None:
    names = ["x", "starts", "ends", "axes"]
    axes = numpy_helper.from_array(np.array([-1]), "axes")
    ends = [(name, TensorProto.INT64, [1]) for name in names[1:3]]
    node = helper.make_node("Slice", names, ["y"], "it")
    model = alone(node, ("x", TensorProto.FLOAT, []), *ends, constants=[axes])
    feed = {"x": np.float32(1), "starts": np.array([0]), "ends": np.array([1])}
    assert "Slice" in refusal(model, feed)


@pytest.mark.parametrize("opset", [9, 18])
@pytest.mark.parametrize("count", [0, 1])
def test_suppression_of_fewer_operands_than_it_has(count: int, opset: int) -> None:
    node = helper.make_node("NonMaxSuppression", ["x"][:count], ["y"], "it")
    said = refusal(alone(node, ("x", TensorProto.FLOAT, [1, 4, 4]), opset=opset))
    assert said.startswith("MC0127 error: NonMaxSuppression")
    assert "missing" in said


@pytest.mark.parametrize("size", [3, 65536, (1 << 31) - 1])
@pytest.mark.parametrize("steps", [0, 1, 2, 6])
def test_grams_longer_than_the_sentence_are_never_repeated(size: int, steps: int) -> None:
    node = helper.make_node("NGramRepeatBlock", ["ids", "x"], ["y"], domain=MICROSOFT)
    node.attribute.append(helper.make_attribute("ngram_size", size))
    model = alone(node, ("ids", TensorProto.INT64, ["n", "s"]), ("x", TensorProto.FLOAT, ["n", 4]))
    x = np.arange(4, dtype=np.float32)[None]
    session = minicc.InferenceSession(model.SerializeToString(), threads=1)
    (y,) = session.run(None, {"ids": np.ones((1, steps), np.int64), "x": x})
    repeats = steps >= size
    np.testing.assert_array_equal(y, np.where(repeats & (x == 1), -np.inf, x))


def test_an_operand_that_may_be_left_out_is_the_last_of_those_given() -> None:
    u8, f = TensorProto.UINT8, TensorProto.FLOAT
    names = ["a", "a_scale", "a_zero", "b", "b_scale"]
    node = helper.make_node("QGemm", names, ["y"], domain=MICROSOFT)
    inputs = zip(names, [u8, f, u8, u8, f], [[2, 3], [], [], [3, 4], []], strict=True)
    session = minicc.InferenceSession(alone(node, *inputs).SerializeToString(), threads=1)
    a, b = np.arange(6, dtype=np.uint8).reshape(2, 3), np.arange(12, dtype=np.uint8).reshape(3, 4)
    scale, zero = np.float32(0.5), np.uint8(1)
    given = [a, scale, zero, b, scale]
    (y,) = session.run(None, dict(zip(names, given, strict=True)))
    np.testing.assert_allclose(y, (a.astype(np.float32) - 1) @ b.astype(np.float32) * 0.25)


def test_an_attribute_of_another_type_in_a_model_older_than_its_operator() -> None:
    node = helper.make_node("ConstantOfShape", ["x"], ["y"], "it", value="text")
    said = refusal(alone(node, ("x", TensorProto.INT64, [1]), opset=7), {"x": np.array([1])})
    assert said.startswith("MC0127 error: attribute value of ConstantOfShape is ")


def test_a_number_of_mel_bins_that_is_no_integer() -> None:
    names = [f"c{k}" for k in range(5)]
    constants = [numpy_helper.from_array(np.array(8, np.float32), name) for name in names]
    node = helper.make_node("MelWeightMatrix", names, ["y"], "it")
    assert "are integers" in refusal(alone(node, constants=constants), {})


def test_a_number_too_large_for_its_element_type_warns_of_nothing() -> None:
    node = helper.make_node("ThresholdedRelu", ["x"], ["y"], alpha=1e30)
    model = alone(node, ("x", TensorProto.FLOAT16, [2]))
    x = np.array([1, np.inf], np.float16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session = minicc.InferenceSession(model.SerializeToString(), threads=1)
        (y,) = session.run(None, {"x": x})
    np.testing.assert_array_equal(y, np.zeros(2, np.float16))
