"""Operators that minicc knows and refuses, with the reason and what to do instead."""

from __future__ import annotations

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.reader import Node
from minicc.frontends.onnx.registry import Importer, register
from minicc.ir.core import Value

_GRADIENT = "gradients"
_EXPORT = "export the gradients as a graph of their own"
# the operator: the reason, what would work, its attributes
REFUSED = {
    "ai.onnx.preview.training.Gradient": (_GRADIENT, _EXPORT, "xs y zs"),
}


def _refuse(reason: str, hint: str) -> Importer:
    def run(ctx: Context, node: Node, *xs: Value) -> Value:
        raise ctx.unsupported(reason, hint)

    return run


for _name, (_reason, _hint, _attributes) in REFUSED.items():
    register(_name, _refuse(_reason, _hint), _attributes)
