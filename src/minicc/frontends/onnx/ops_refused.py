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
_PICTURE = "a file format of pictures"
_DECODE = "decode pictures outside and make the pixels an input of the model"
_GRADIENT = "gradients"
_EXPORT = "export the gradients as a graph of their own"
# the operator: the reason, what would work, its attributes
REFUSED = {
    "Bernoulli": (_RANDOM, _DRAW, "dtype seed"),
    "Multinomial": (_RANDOM, _DRAW, "dtype sample_size seed"),
    "RandomNormal": (_RANDOM, _DRAW, "dtype mean scale seed shape"),
    "RandomNormalLike": (_RANDOM, _DRAW, "dtype mean scale seed"),
    "RandomUniform": (_RANDOM, _DRAW, "dtype high low seed shape"),
    "RandomUniformLike": (_RANDOM, _DRAW, "dtype high low seed"),
    "ImageDecoder": (_PICTURE, _DECODE, "pixel_format"),
    "ai.onnx.preview.training.Gradient": (_GRADIENT, _EXPORT, "xs y zs"),
}


_WITHOUT_INPUTS = ("RandomNormal", "RandomUniform")


def _refuse(reason: str, hint: str, inputs: bool) -> Importer:
    def run(ctx: Context, node: Node, *xs: Value) -> Value:
        raise ctx.unsupported(reason, hint)

    def alone(ctx: Context, node: Node) -> Value:
        raise ctx.unsupported(reason, hint)

    return run if inputs else alone


for _name, (_reason, _hint, _attributes) in REFUSED.items():
    register(_name, _refuse(_reason, _hint, _name not in _WITHOUT_INPUTS), _attributes)
