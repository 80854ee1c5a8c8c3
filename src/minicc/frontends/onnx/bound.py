"""What is known of a model's inputs before it is imported: sizes, ranks, contents."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from minicc.errors import UserError
from minicc.frontends.onnx.model.reader import Model
from minicc.frontends.onnx.needs import NeedsValueError
from minicc.ir.affine import substitute
from minicc.ir.core import Array
from minicc.ir.text.extents import MOST_CONTENTS, numbers_of
from minicc.ir.types import TensorType, is_free


def bind_inputs(model: Model, sizes: dict[str, int]) -> None:
    """Write sizes in for free dimensions of a model's inputs; MC0168 where one is not there."""
    extents = [n for _, type in model.inputs if type is not None for n in type.shape]
    free = {name for n in extents if not isinstance(n, int) for name in n.symbols()}
    if unknown := sorted(set(sizes) - free):
        there = f"free dimensions: {', '.join(sorted(free))}" if free else "there is none"
        text = f"the model has no free dimension {', '.join(map(repr, unknown))}"
        raise UserError("MC0168", text, hint=there)
    model.inputs = list(bound_types(model, sizes).items())


def bound_types(model: Model, binding: Mapping[str, int]) -> dict[str, TensorType | None]:
    """The types of a model's inputs with these sizes of free dimensions; None of what has none.

    An input of no known rank has the shape whose extents are given as `extents_of` does.
    """
    types: dict[str, TensorType | None] = {}
    for name, type in model.inputs:
        element = model.element(name) if type is None and binding else None
        if element is not None and f"{name}#" in binding:
            axes = range(binding[f"{name}#"])
            type = TensorType(element, tuple(binding[f"{name}#{k}"] for k in axes))
        elif type is not None and binding:
            type = TensorType(type.dtype, tuple(substitute(n, binding) for n in type.shape))
        types[name] = type
    return types


def known_inputs(
    types: Mapping[str, TensorType | None], binding: Mapping[str, int | str]
) -> dict[str, Array]:
    """The inputs whose contents a binding gives."""
    known: dict[str, Array] = {}
    for name, type in types.items():
        if type is None or type.rank > 1 or is_free(type.shape):
            continue
        numbers = numbers_of(name, prod(type.extents), binding)
        if numbers is not None:
            known[name] = np.array(numbers, type.dtype.numpy).reshape(type.extents)
    return known


def is_few_numbers(type: TensorType, kinds: str) -> bool:
    """Whether an input may be axes, a shape or a scale; `kinds` are those of `DType`."""
    if type.rank > 1 or type.dtype.kind not in kinds:
        return False
    return is_free(type.shape) or prod(type.extents) <= MOST_CONTENTS


def is_parameter(type: TensorType) -> bool:
    """Whether an input of a node is few integers or one number, as data seldom are."""
    return is_few_numbers(type, "iu" if type.rank else "iufb")


def of_no_rank(name: str) -> NeedsValueError:
    """An input whose type says an element type, and no rank."""
    text = f"the input {name} has no known rank"
    return NeedsValueError("MC0225", text, hint=f"give it a shape: --shape {name}=1x3", where=name)
