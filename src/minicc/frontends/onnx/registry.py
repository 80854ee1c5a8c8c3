"""The table of operators: a name of ONNX, with the function that turns its nodes into graph ops.

Mirrors: onnx-mlir's and Relax's tables of converters. One function serves all opsets and asks the
context where a meaning has changed. Its signature says how many inputs the operator takes: those
without a default must be there, unless they may be None; `*xs` takes any number.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from minicc.ir.core import Value

Importer = Callable[..., Value | tuple[Value, ...]]
F = TypeVar("F", bound=Importer)


@dataclass(frozen=True, slots=True)
class Operator:
    """How to import one operator.

    The function, its inputs' names, how many of them must be there, whether there may be any
    number, and the attributes that it reads or that mean nothing in inference; others are refused.
    Those of the former that are `optional` may be left empty.
    """

    run: Importer
    inputs: tuple[str, ...]
    required: int
    variadic: bool
    attributes: frozenset[str]
    optional: frozenset[str]


OPERATORS: dict[str, Operator] = {}


def register(name: str, run: Importer, attributes: str = "") -> None:
    """Enter a function for an operator, with the names of its attributes."""
    if name in OPERATORS:
        raise ValueError(f"two functions import {name}")
    parameters = list(inspect.signature(run).parameters.values())[2:]
    OPERATORS[name] = Operator(
        run,
        tuple(p.name for p in parameters),
        sum(p.default is p.empty and p.kind is not p.VAR_POSITIONAL for p in parameters),
        any(p.kind is p.VAR_POSITIONAL for p in parameters),
        frozenset(attributes.split()),
        frozenset(p.name for p in parameters if p.annotation == "Value | None"),
    )


def operator(name: str, attributes: str = "") -> Callable[[F], F]:
    """Decorate the function that imports an operator, naming its attributes."""

    def enter(run: F) -> F:
        register(name, run, attributes)
        return run

    return enter
