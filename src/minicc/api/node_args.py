"""Inputs and outputs as ONNX Runtime tells of them, and as a model's file declares them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from minicc.ir.affine import Dim, symbol
from minicc.ir.types import DType, TensorType
from minicc.later import Later

if TYPE_CHECKING:
    from minicc.frontends.onnx.model import messages, tensors
else:
    messages = Later("minicc.frontends.onnx.model.messages")
    tensors = Later("minicc.frontends.onnx.model.tensors")

_ONNX_NAMES = {
    "f16": "tensor(float16)",
    "bf16": "tensor(bfloat16)",
    "f32": "tensor(float)",
    "f64": "tensor(double)",
    "bool": "tensor(bool)",
}


class NodeArg(NamedTuple):
    """An input or output of a session.

    Name, shape (numbers, and names of free dimensions), type as ONNX spells it.
    """

    name: str
    shape: list[int | str]
    type: str


def _declared_shape(proto: Any) -> list[int | str | None]:
    """Numbers, names, and None for a dimension that has neither; of no tensor nothing.

    An optional tensor has that of the tensor.
    """
    kind = proto.WhichOneof("value")
    if kind == "optional_type":
        return _declared_shape(proto.optional_type.elem_type)
    if kind != "tensor_type":
        return []
    dims = proto.tensor_type.shape.dim
    return [
        d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else d.dim_param or None
        for d in dims
    ]


def elements_of(declared: Mapping[str, Any]) -> dict[str, DType]:
    """The element types of protobuf types by name, also of what minicc has no type for."""
    return {n: d for n, t in declared.items() if (d := _element(t))}


def declared_of(protos: Mapping[str, Any]) -> dict[str, tuple[list[int | str | None], str, str]]:
    """What a model declares, for `Facts`: shape, type as ONNX spells it, name of element type."""
    found: dict[str, tuple[list[int | str | None], str, str]] = {}
    for name, proto in protos.items():
        element = _element(proto)
        found[name] = (_declared_shape(proto), _spelled(proto), element.name if element else "")
    return found


def _element(proto: Any) -> DType | None:
    """The element type of a tensor, of a sequence of tensors or a map's values; None of others."""
    kind = proto.WhichOneof("value")
    if kind == "map_type":
        return _element(proto.map_type.value_type)
    if kind in ("sequence_type", "optional_type"):
        return _element(getattr(proto, kind).elem_type)
    return tensors.ELEMENTS.get(proto.tensor_type.elem_type) if kind == "tensor_type" else None


def _spelled(proto: Any) -> str:
    """A protobuf type as ONNX Runtime spells it."""
    kind = proto.WhichOneof("value")
    if kind == "sequence_type":
        return f"seq({_spelled(proto.sequence_type.elem_type)})"
    if kind == "optional_type":
        return f"optional({_spelled(proto.optional_type.elem_type)})"
    if kind == "map_type":
        key = _spelled_element(proto.map_type.key_type)
        return f"map({key},{_spelled(proto.map_type.value_type)})"
    if kind != "tensor_type":
        return str(kind)
    return f"tensor({_spelled_element(proto.tensor_type.elem_type)})"


def _spelled_element(number: int) -> str:
    return str(messages.messages().TensorProto.DataType.Name(number)).lower()


def node_arg(name: str, type: TensorType) -> NodeArg:
    """An input or output of a known type."""
    shape = list(map(_dimension, type.shape))
    return NodeArg(name, shape, _ONNX_NAMES.get(type.dtype.name) or f"tensor({_integer(type)})")


def _dimension(value: Dim) -> int | str:
    """A number, a free dimension's name as the model has it, or the text of an expression."""
    if isinstance(value, int):
        return value
    name = next(iter(value.symbols()), "")
    return name if value == symbol(name) else str(value)


def _integer(type: TensorType) -> str:
    name = type.dtype.name
    return f"uint{name[1:]}" if name.startswith("u") else f"int{name[1:]}"
