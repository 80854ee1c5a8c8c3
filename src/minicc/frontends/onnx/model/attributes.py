"""Whether the attributes of a node are of the kinds that its operator's schema says.

Those and the inputs that a node must have are looked at where an import fails, or where it runs on
the host: functions that import operators read most attributes with their kind, and a large model
has many.
"""

from __future__ import annotations

from typing import Any

from minicc.frontends.onnx.model.reader import Node

_PLAIN: dict[str, tuple[type, str]] = {
    "FLOAT": (float, "a number"),
    "INT": (int, "an integer"),
    "STRING": (str, "a string"),
}
_LISTS: dict[str, tuple[type, str]] = {
    "FLOATS": (float, "a list of numbers"),
    "INTS": (int, "a list of integers"),
    "STRINGS": (str, "a list of strings"),
}
_MESSAGES: dict[str, tuple[str, str]] = {
    "TENSOR": ("data_type", "a tensor"),
    "GRAPH": ("node", "a graph"),
    "SPARSE_TENSOR": ("indices", "a sparse tensor"),
}


def check_attributes(node: Node, opset: int) -> None:
    """Raise MC0127 for an attribute of another kind than the operator's, where ONNX knows it."""
    if (schema := _schema_of(node, opset)) is None:
        return
    for name, value in node.attributes.items():
        if name in schema.attributes:
            wanted = _lacking(schema.attributes[name].type.name, value)
            if wanted:
                raise node.mistyped(name, wanted)


def missing_part(node: Node, opset: int) -> str:
    """The input or attribute that the operator can't do without and the node lacks, or ""."""
    if (schema := _schema_of(node, opset)) is None:
        return ""
    given = [*node.inputs, *[""] * len(schema.inputs)]
    pairs = zip(schema.inputs, given, strict=False)
    required = ((formal, name) for formal, name in pairs if formal.option.name == "Single")
    parts = [f"input {formal.name}" for formal, name in required if not name]
    needed = (name for name, attribute in schema.attributes.items() if attribute.required)
    parts += [f"attribute {name}" for name in needed if name not in node.attributes]
    return next(iter(parts), "")


def _schema_of(node: Node, opset: int) -> Any:
    """What ONNX says of an operator; the newest where the opset is older than it, or None."""
    from onnx import defs

    domain, _, op = node.op.rpartition(".")
    if not defs.has(op, domain):
        return None
    known = defs.has(op, opset, domain)
    return defs.get_schema(op, opset, domain) if known else defs.get_schema(op, domain)


def _lacking(kind: str, value: Any) -> str:
    """What a value should be and is not, in words; empty where it is that."""
    if kind in _PLAIN:
        type, words = _PLAIN[kind]
        return "" if _is(value, type) else words
    if kind in _LISTS:
        type, words = _LISTS[kind]
        return "" if isinstance(value, tuple) and all(_is(v, type) for v in value) else words
    if kind in _MESSAGES:
        field, words = _MESSAGES[kind]
        return "" if hasattr(value, field) else words
    return ""


def _is(value: Any, type: type) -> bool:
    return isinstance(value, (int, float) if type is float else type)
