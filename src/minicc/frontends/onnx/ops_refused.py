"""Operators that minicc knows and refuses, with the reason and what to do instead.

Mirrors: the lists of unsupported operators that exporters keep.
"""

from __future__ import annotations

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.reader import Node
from minicc.frontends.onnx.registry import Importer, register
from minicc.ir.core import Value

_RANDOM = "random numbers, which would be others in each run and in each engine"
_DRAW = "draw them outside and make them an input of the model"
_GRADIENT = "gradients"
_EXPORT = "export the gradients as a graph of their own"
# the operator: the reason, what would work, its attributes
REFUSED = {
    "Bernoulli": (_RANDOM, _DRAW, "dtype seed"),
    "Multinomial": (_RANDOM, _DRAW, "dtype sample_size seed"),
    "ai.onnx.preview.training.Gradient": (_GRADIENT, _EXPORT, "xs y zs"),
}


def _refuse(reason: str, hint: str) -> Importer:
    def run(ctx: Context, node: Node, *xs: Value) -> Value:
        raise ctx.unsupported(reason, hint)

    return run


for _name, (_reason, _hint, _attributes) in REFUSED.items():
    register(_name, _refuse(_reason, _hint), _attributes)
