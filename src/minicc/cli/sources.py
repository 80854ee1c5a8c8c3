"""What a command that looks inside is given: an ONNX model, or a text of any level."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from minicc.api.inputs import Signature, signature_of
from minicc.api.node_args import elements_of
from minicc.api.texts import open_text
from minicc.cli.inputs import bind_shapes
from minicc.compile.units import Units, units_of
from minicc.frontends.onnx.importer import import_graph
from minicc.frontends.onnx.model.reader import read_model
from minicc.ir.types import DType
from minicc.options import Options
from minicc.runtime.programs import is_text


class Source(NamedTuple):
    """The units to compile, the inputs that a run takes, and the elements of those of no type."""

    units: Units
    inputs: Signature
    elements: Mapping[str, DType]


def open_source(path: str, shapes: Mapping[str, tuple[int, ...]], options: Options) -> Source:
    """The units of a model or text, for the sizes that shapes of inputs imply."""
    if is_text(path):
        text = open_text(path)
        inputs = signature_of(text.module.main)
        start, module = text.bound(bind_shapes(inputs, dict(shapes)))
        return Source(units_of(module, options, {}, start), inputs, {})
    read = read_model(path)
    binding = bind_shapes(read.inputs, dict(shapes))
    units = units_of(import_graph(read, binding), options, binding)
    return Source(units, read.inputs, elements_of(read.declared))
