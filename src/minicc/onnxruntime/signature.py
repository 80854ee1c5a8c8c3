"""The inputs, outputs and metadata of a session as ONNX Runtime tells them.

A dimension is a number, the name that the model gives it, or None where it has neither; a size that
minicc computed from others has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from minicc.api import node_args
from minicc.ir.types import TensorType
from minicc.runtime.saved import Facts

_OVERRIDABLE_IR = 4  # from which version on an initialiser that is an input too is its default
_NO_VERSION = (1 << 63) - 1  # of a model that has none, as ONNX Runtime tells it

Shape = list[int | str | None]


class NodeArg(NamedTuple):
    """An input or output: its name, its type as ONNX Runtime spells it, and its shape."""

    name: str
    type: str
    shape: Shape


class ModelMetadata(NamedTuple):
    """What a model's file says about itself."""

    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = _NO_VERSION
    custom_metadata_map: Mapping[str, str] = {}


def metadata_of(facts: Facts) -> ModelMetadata:
    """What the model says about itself."""
    known = {n: v for n, v in facts.about.items() if n in ModelMetadata._fields}
    return ModelMetadata(
        **known | {"custom_metadata_map": dict(known.get("custom_metadata_map", {}))}
    )


def inputs_of(facts: Facts) -> list[NodeArg]:
    """The inputs in order."""
    return [_arg(facts, name, type, None) for name, type in facts.inputs]


def outputs_of(facts: Facts) -> list[NodeArg]:
    """The outputs in order."""
    given = [facts.declared.get(name, ([], "", ""))[0] for name, _ in facts.inputs]
    names = {n for shape in given for n in shape if isinstance(n, str)}
    return [_arg(facts, name, type, names) for name, type in facts.outputs]


def overridable_of(facts: Facts) -> list[NodeArg]:
    """The initialisers that are inputs too, for which a run may have other values."""
    if facts.about.get("ir_version", 0) < _OVERRIDABLE_IR:
        return []
    others = {name for name, _ in (*facts.inputs, *facts.outputs)}
    return [_arg(facts, name, None, None) for name in facts.declared if name not in others]


def _arg(facts: Facts, name: str, type: TensorType | None, names: set[str] | None) -> NodeArg:
    shape, spelled, _ = facts.declared.get(name, ([], "", ""))
    if type is None:
        return NodeArg(name, spelled, list(shape))
    if not spelled or "undefined" in spelled:
        spelled = node_args.node_arg(name, type).type
    return NodeArg(name, spelled, _shape(type, shape, names))


def _shape(type: TensorType, declared: Sequence[Any], names: set[str] | None) -> Shape:
    """The numbers of a type, else what was declared, else a name of the inputs' dimensions."""
    if len(declared) != type.rank:
        declared = ()
    return [
        n if isinstance(n, int) else said or _named(str(n), names)
        for n, said in zip_longest(type.shape, declared)
    ]


def _named(symbol: str, names: set[str] | None) -> str | None:
    return symbol if names and symbol in names else None
