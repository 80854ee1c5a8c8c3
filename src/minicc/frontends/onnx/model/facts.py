"""What a model's file says, whether or not minicc can import it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from minicc.frontends.onnx.model.reader import message_of
from minicc.frontends.onnx.model.sources import model_bytes
from minicc.frontends.onnx.model.tensors import ELEMENTS

_TEXT = 8  # TensorProto.DataType
_MOST = 1 << 31
_GRAPH, _GRAPHS = 5, 10  # AttributeProto.AttributeType


def raw_model(source: Any) -> Any:
    """The message of a model without the bytes of large initialisers; errors as of `reader`."""
    data, place = model_bytes(source)
    return message_of(data, place)[0]


def facts_of(proto: Any) -> dict[str, Any]:
    """Versions, who made it, inputs and outputs, initialisers and counts of operators."""
    graph = proto.graph
    held = {t.name for t in graph.initializer}
    return {
        "ir_version": proto.ir_version,
        "opsets": {o.domain or "ai.onnx": o.version for o in proto.opset_import},
        "producer": f"{proto.producer_name} {proto.producer_version}".strip(),
        "inputs": {i.name: spelled_type(i.type) for i in graph.input if i.name not in held},
        "outputs": {o.name: spelled_type(o.type) for o in graph.output},
        "initialisers": len(graph.initializer) + len(graph.sparse_initializer),
        "numbers": sum(prod(t.dims) for t in graph.initializer),
        "functions": [f"{f.domain}.{f.name}".lstrip(".") for f in proto.functions],
        "operators": dict(Counter(operator_of(n) for _, n in all_nodes(graph)).most_common()),
    }


def opsets_of(proto: Any) -> dict[str, int]:
    """The opsets that a model uses by their domain, as far as their numbers may be ones."""
    known = [o for o in proto.opset_import if isinstance(o.domain, str) and 0 < o.version < _MOST]
    return {"" if o.domain == "ai.onnx" else o.domain: o.version for o in known}


def operator_of(node: Any) -> str:
    """The name of a node's operator, with its domain in front where that is not ONNX's own."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    return f"{domain}.{node.op_type}" if domain else str(node.op_type)


def all_nodes(graph: Any, within: str = "") -> Iterator[tuple[str, Any]]:
    """The nodes of a graph and of the graphs in their attributes, each with what to call it."""
    for index, node in enumerate(graph.node):
        name = within + (node.name or f"{operator_of(node)}#{index}")
        yield name, node
        for inner in graphs_of(node):
            yield from all_nodes(inner, f"{name}/")


def graphs_of(node: Any) -> Sequence[Any]:
    """The graphs that a node holds in its attributes."""
    single = [a.g for a in node.attribute if a.type == _GRAPH]
    return single + [g for a in node.attribute if a.type == _GRAPHS for g in a.graphs]


def spelled_type(proto: Any) -> str:
    """A type as text: `f32[n,4]`, `?` for what is not said, `sequence(...)`, `optional(...)`."""
    kind = proto.WhichOneof("value")
    if kind in ("sequence_type", "optional_type"):
        inner = spelled_type(getattr(proto, kind).elem_type)
        return f"{kind.partition('_')[0]}({inner})"
    if kind == "map_type":
        return f"map({spelled_type(proto.map_type.value_type)})"
    if kind not in ("tensor_type", "sparse_tensor_type"):
        return "?"
    tensor = getattr(proto, kind)
    element = ELEMENTS.get(tensor.elem_type, "text" if tensor.elem_type == _TEXT else "?")
    if not tensor.HasField("shape"):
        return f"{element}[...]"
    dims = (
        str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?"
        for d in tensor.shape.dim
    )
    return f"{element}[{','.join(dims)}]"
