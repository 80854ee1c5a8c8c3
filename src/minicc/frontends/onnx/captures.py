"""The values that a node uses and that are not its inputs."""

from __future__ import annotations

from typing import Any

GRADIENT = "ai.onnx.preview.training.Gradient"
_GRAPH = 5  # AttributeProto.AttributeType


def captured(proto: Any) -> list[str]:
    """The names that a graph uses and does not make, in order of use."""
    made = {i.name for i in proto.input} | {t.name for t in proto.initializer}
    free: dict[str, None] = {}
    for node in proto.node:
        inner = [n for a in node.attribute if a.type == _GRAPH for n in captured(a.g)]
        used = (*node.input, *inner, *named_by(node))
        free.update(dict.fromkeys(n for n in used if n and n not in made))
        made.update(node.output)
    free.update(dict.fromkeys(o.name for o in proto.output if o.name not in made))
    return list(free)


def named_by(proto: Any) -> list[str]:
    """What a Gradient names: xs, zs and y."""
    if f"{proto.domain}.{proto.op_type}" != GRADIENT:
        return []
    texts = {a.name: [*a.strings, *filter(None, [a.s])] for a in proto.attribute}
    return [t.decode("utf-8", "replace") for key in ("xs", "zs", "y") for t in texts.get(key, ())]
