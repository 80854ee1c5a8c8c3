"""Types of what runs on the host that ONNX's inference does not tell, or not as far as it could."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minicc.frontends.onnx.model.reader import Node

_CASTS = {"TO_FLOAT": "FLOAT", "TO_STRING": "STRING", "TO_INT64": "INT64"}


def _tensor(element: int | str, shape: list[Any] | None) -> Any:
    """A tensor's type; None stands for an extent that data decide, or for an unknown rank."""
    from onnx import TensorProto, helper

    number = TensorProto.DataType.Value(element) if isinstance(element, str) else element
    return helper.make_tensor_type_proto(number, shape)


def _shape(proto: Any) -> list[Any] | None:
    """The extents of a tensor's type as numbers, names or None; None where there is no rank."""
    if not proto.HasField("tensor_type") or not proto.tensor_type.HasField("shape"):
        return None
    dims = proto.tensor_type.shape.dim
    return [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in dims]


def _tokens(node: Node, x: Any) -> Any:
    shape = _shape(x)
    return _tensor("STRING", None if shape is None else [*shape, None])


def _counts(node: Node, x: Any) -> Any:
    """A vector of counts for each row; there is a row where there is no axis for them."""
    shape, columns = _shape(x), node.integers("ngram_indexes") or ()
    width = max(columns, default=-1) + 1
    return _tensor("FLOAT", None if shape is None else [*shape[:-1], width])


def _hashes(node: Node, x: Any) -> Any:
    return _tensor("UINT32" if node.integer("positive", 1) else "INT32", _shape(x))


def _of_dictionary(node: Node, x: Any) -> Any:
    words = node.texts("string_vocabulary") or node.integers("int64_vocabulary")
    if not x.HasField("map_type"):
        return _tensor("FLOAT", None)
    return _tensor(x.map_type.value_type.tensor_type.elem_type, [1, len(words or ())])


def _cast_map(node: Node, x: Any) -> Any:
    sparse = node.text("map_form", "DENSE") == "SPARSE"
    element = _CASTS.get(node.text("cast_to", "TO_FLOAT"), "FLOAT")
    return _tensor(element, [1, node.integer("max_map", 1) if sparse else None])


# What an operator gives first, by the node and the protobuf type of its first input.
FIRST_OUTPUTS: dict[str, Callable[[Node, Any], Any]] = {
    "ai.onnx.ml.CastMap": _cast_map,
    "ai.onnx.ml.DictVectorizer": _of_dictionary,
    "TfIdfVectorizer": _counts,
    "com.microsoft.Inverse": lambda node, x: x,
    "com.microsoft.MurmurHash3": _hashes,
    "com.microsoft.Tokenizer": _tokens,
}
