"""What a model's file says about itself beside its graph: who made it, and its owner's notes."""

from __future__ import annotations

from typing import Any


def about_of(proto: Any) -> dict[str, Any]:
    """What a model says about itself, under ONNX Runtime's names; denotations by input and axis."""
    version = {"version": proto.model_version} if proto.HasField("model_version") else {}
    return version | {
        "producer_name": proto.producer_name,
        "graph_name": proto.graph.name,
        "domain": proto.domain,
        "description": proto.doc_string,
        "graph_description": proto.graph.doc_string,
        "custom_metadata_map": {p.key: p.value for p in proto.metadata_props},
        "ir_version": proto.ir_version,
        "denotations": {
            given.name: named for given in proto.graph.input if (named := _denotations(given))
        },
    }


def _denotations(given: Any) -> dict[str, str]:
    """The denotations of an input's dimensions by axis."""
    dims = given.type.tensor_type.shape.dim
    return {str(axis): d.denotation for axis, d in enumerate(dims) if d.denotation}
