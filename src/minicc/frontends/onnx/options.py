"""Attributes of nodes as those of ops, which are plain values, and back."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from minicc.errors import UserError
from minicc.frontends.onnx.model.tensors import array_of
from minicc.ir.core import Literal

_STRING = 8  # TensorProto.DataType
_TEXT, _MESSAGE = "texts", "message"
Options = tuple[tuple[str, Any], ...]


def options_of(attributes: Mapping[str, Any], texts: Mapping[int, Any], where: str) -> Options:
    """The attributes of a node, and its inputs that are constant texts by their place."""
    found = [(name, _plain(value, where)) for name, value in attributes.items()]
    return (*found, *[(f"input {k}", _plain(tensor, where)) for k, tensor in texts.items()])


def attributes_of(options: Options) -> tuple[dict[str, Any], dict[int, Any]]:
    """What `options_of` was given; the texts as arrays of objects."""
    from onnx.numpy_helper import to_array

    attributes = {name: _message(value) for name, value in options}
    places = [name for name in attributes if name.startswith("input ")]
    texts = {int(name.split()[1]): to_array(attributes.pop(name)) for name in places}
    return attributes, texts


def _plain(value: Any, where: str) -> Any:
    """An attribute as the IR holds it; numbers of a tensor are a literal."""
    if not hasattr(value, "SerializeToString"):
        return value
    if getattr(value, "data_type", None) == _STRING:
        texts = tuple(t.decode("utf-8", "replace") for t in value.string_data)
        if min(value.dims, default=0) < 0 or prod(value.dims) != len(texts):
            message = f"a tensor of shape {list(value.dims)} holds {len(texts)} texts"
            raise UserError("MC0131", message, hint="export the model again", where=where)
        return (_TEXT, tuple(value.dims), texts)
    if hasattr(value, "data_type"):
        return Literal(array_of(value, where))
    return (_MESSAGE, type(value).__name__, value.SerializeToString().hex())


def _message(value: Any) -> Any:
    """The attribute of a node that `_plain` made plain."""
    import onnx
    from onnx import helper, numpy_helper

    if isinstance(value, Literal):
        return numpy_helper.from_array(value.array)
    if isinstance(value, tuple) and value[:1] == (_TEXT,):
        return helper.make_tensor("", _STRING, value[1], [t.encode() for t in value[2]])
    if isinstance(value, tuple) and value[:1] == (_MESSAGE,):
        return getattr(onnx, value[1]).FromString(bytes.fromhex(value[2]))
    return value
