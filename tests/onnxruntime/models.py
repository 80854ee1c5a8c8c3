"""Small models that the tests of minicc.onnxruntime run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
node, tensor = helper.make_node, helper.make_tensor_value_info

X = np.array([[1, -2, 3]], np.float32)


def model(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    initialisers: Sequence[Any] = (),
    ir_version: int = 8,
    opset: int = 17,
    domain: str = "",
    **more: Any,
) -> bytes:
    """The bytes of a model; `more` are fields of its head."""
    graph = helper.make_graph(nodes, "net", inputs, outputs, initialisers)
    opsets = [helper.make_opsetid("", opset)]
    opsets += [helper.make_opsetid(domain, 1)] if domain else []
    made = helper.make_model(graph, opset_imports=opsets, ir_version=ir_version, **more)
    return bytes(made.SerializeToString())


def pair(batch: int | str | None = "batch", element: int = FLOAT) -> bytes:
    """y = relu(x) and z = -x for x of [batch, 3]."""
    shape = [batch, 3]
    nodes = [node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["z"])]
    outputs = [tensor(name, element, shape) for name in "yz"]
    return model(nodes, [tensor("x", element, shape)], outputs)


def same(shape: Any, element: int = FLOAT) -> bytes:
    """y = x."""
    nodes = [node("Identity", ["x"], ["y"])]
    return model(nodes, [tensor("x", element, shape)], [tensor("y", element, shape)])


def one(op: str, inputs: Sequence[Any], **attributes: Any) -> bytes:
    """y = op(inputs), of a shape that is not declared."""
    nodes = [node(op, [i.name for i in inputs], ["y"], **attributes)]
    return model(nodes, inputs, [tensor("y", FLOAT, None)])


def biased(ir_version: int = 8, given: bool = True) -> bytes:
    """y = x + w, where the initialiser w is an input too unless it is not given."""
    inputs = [tensor("x", FLOAT, ["n", 3])] + [tensor("w", FLOAT, [3])] * given
    weights = [numpy_helper.from_array(np.ones(3, np.float32), "w")]
    nodes = [node("Add", ["x", "w"], ["y"])]
    return model(nodes, inputs, [tensor("y", FLOAT, None)], weights, ir_version)


def told() -> bytes:
    """A model that says all that it can about itself."""
    from onnx import load_model_from_string

    read = load_model_from_string(pair())
    read.producer_name, read.domain, read.doc_string = "maker", "org.example", "a model"
    read.model_version, read.graph.doc_string = 7, "a graph"
    entry = read.metadata_props.add()
    entry.key, entry.value = "labels", "a,b"
    return bytes(read.SerializeToString())


def apart() -> bytes:
    """A model whose constant lies in a file beside it."""
    from onnx import load_model_from_string

    read = load_model_from_string(biased(given=False))
    held = read.graph.initializer[0]
    held.ClearField("raw_data")
    held.data_location = TensorProto.EXTERNAL
    entry = held.external_data.add()
    entry.key, entry.value = "location", "weights.bin"
    return bytes(read.SerializeToString())


def sequence() -> bytes:
    """y = q[i] for a sequence q."""
    inputs = [helper.make_tensor_sequence_value_info("q", FLOAT, None), tensor("i", INT64, [])]
    return model([node("SequenceAt", ["q", "i"], ["y"])], inputs, [tensor("y", FLOAT, None)])


def split() -> bytes:
    """q = the columns of x, a sequence."""
    output = helper.make_tensor_sequence_value_info("q", FLOAT, None)
    nodes = [node("SplitToSequence", ["x"], ["q"], axis=1)]
    return model(nodes, [tensor("x", FLOAT, ["n", 3])], [output])


def optional() -> bytes:
    """y = whether the optional o is there."""
    of = helper.make_tensor_type_proto(FLOAT, [3])
    inputs = [helper.make_value_info("o", helper.make_optional_type_proto(of))]
    outputs = [tensor("y", TensorProto.BOOL, [])]
    return model([node("OptionalHasElement", ["o"], ["y"])], inputs, outputs)
