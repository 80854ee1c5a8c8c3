"""Nodes without an input or an attribute that they must have are refused, whoever computes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, defs, helper
from tests.rejects.test_onnx_rejects import refused

from minicc.errors import UserError
from minicc.frontends.onnx.families import enter_all
from minicc.frontends.onnx.registry import OPERATORS

OLDEST = 7


def _needing() -> list[tuple[str, int, str]]:
    """Operators, opsets and attributes: the oldest and the newest of each that needs one."""
    enter_all()
    found: dict[tuple[str, str], list[int]] = {}
    for schema in defs.get_all_schemas_with_history():
        opset = max(schema.since_version, OLDEST)
        if schema.domain or schema.name not in OPERATORS or not defs.has(schema.name, opset, ""):
            continue
        if defs.get_schema(schema.name, opset, "").since_version == schema.since_version:
            for name, attribute in schema.attributes.items():
                if attribute.required:
                    found.setdefault((schema.name, name), []).append(opset)
    pairs = sorted(found.items())
    return [(op, n, name) for (op, name), opsets in pairs for n in {min(opsets), max(opsets)}]


def _model(op: str, opset: int) -> Any:
    """A model of one node with all inputs that it must have, and no attributes."""
    schema = defs.get_schema(op, opset, "")
    names = [f"x{k}" for k in range(max(schema.min_input, 1 if schema.inputs else 0))]
    types = [schema.inputs[min(k, len(schema.inputs) - 1)].types for k in range(len(names))]
    pairs = zip(names, types, strict=True)
    inputs = [
        helper.make_tensor_value_info(
            name, TensorProto.FLOAT if "tensor(float)" in held else TensorProto.INT64, [1, 4, 4, 4]
        )
        for name, held in pairs
    ]
    outputs = [helper.make_empty_tensor_value_info("y")]
    graph = helper.make_graph([helper.make_node(op, names, ["y"], "it")], "g", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.mark.parametrize(("op", "opset", "attribute"), _needing())
def test_an_attribute_is_missing(op: str, opset: int, attribute: str) -> None:
    error = refused(_model(op, opset))
    assert isinstance(error, UserError), error
    assert "it" in str(error), error
    assert attribute in str(error) or "missing" in str(error), error


def test_a_concatenation_had_an_axis_before_it_needed_one() -> None:
    from minicc import InferenceSession

    info = helper.make_tensor_value_info
    inputs = [info(name, TensorProto.FLOAT, [2, 3]) for name in "ab"]
    node = helper.make_node("Concat", ["a", "b"], ["y"])
    graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 3)], ir_version=3)
    feed = {name: np.ones((2, 3), np.float32) for name in "ab"}
    (y,) = InferenceSession(model.SerializeToString()).run(None, feed)
    assert y.shape == (2, 6)
