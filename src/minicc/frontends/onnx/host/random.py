"""Random numbers without a seed, which are others in each run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from minicc.frontends.onnx.host.registry import draws_anew, generator, host_operator
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.model.tensors import element_number
from minicc.frontends.onnx.ops.random import draw
from minicc.ir.core import Array
from minicc.ir.types import TensorType, from_numpy

_SINGLE = 1  # ONNX's number of float32


def _anew(node: Node, types: Sequence[TensorType]) -> bool:
    return draws_anew(node)


def _of_shape(normal: bool) -> Callable[..., Array]:
    def run(node: Node) -> Array:
        return draw(node, generator(), node.integers("shape") or (), _SINGLE, normal)

    return run


def _like(normal: bool) -> Callable[..., Array]:
    def run(node: Node, x: Array) -> Array:
        element = from_numpy(np.asarray(x).dtype)
        number = _SINGLE if element is None else element_number(element)
        return draw(node, generator(), x.shape, number, normal)

    return run


for _name, _normal in (("RandomNormal", True), ("RandomUniform", False)):
    host_operator(_name, _anew)(_of_shape(_normal))
    host_operator(f"{_name}Like", _anew)(_like(_normal))
