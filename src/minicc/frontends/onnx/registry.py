"""The table of operators: a name of ONNX, with the function that turns its nodes into graph ops.

One function serves all opsets and asks the context where a meaning has changed. Its signature says
how many inputs the operator takes: those without a default must be there, unless they may be None;
`*xs` takes any number.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from minicc.ir.core import Value

Importer = Callable[..., Value | tuple[Value, ...]]
F = TypeVar("F", bound=Importer)


@dataclass(frozen=True)
class Operator:
    """How to import one operator.

    The function, and the attributes that it reads or that mean nothing in inference; others are
    refused. Some are `needed` from an opset on. What it says of its inputs is looked at when a
    model has the operator.
    """

    run: Importer
    attributes: frozenset[str]
    needed: tuple[tuple[str, int], ...] = ()

    @cached_property
    def _parameters(self) -> list[inspect.Parameter]:
        return list(inspect.signature(self.run).parameters.values())[2:]

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """The inputs' names."""
        return tuple(p.name for p in self._parameters)

    @cached_property
    def required(self) -> int:
        """How many inputs must be there."""
        needed = (p.default is p.empty and p.kind is not p.VAR_POSITIONAL for p in self._parameters)
        return sum(needed)

    @cached_property
    def variadic(self) -> bool:
        """Whether there may be any number of inputs."""
        return any(p.kind is p.VAR_POSITIONAL for p in self._parameters)

    @cached_property
    def optional(self) -> frozenset[str]:
        """Those of the required inputs that may be left empty."""
        return frozenset(p.name for p in self._parameters if p.annotation == "Value | None")


OPERATORS: dict[str, Operator] = {}


def register(name: str, run: Importer, attributes: str = "") -> None:
    """Enter a function for an operator, with the names of its attributes.

    One that a node must have ends with `!`, or with that and the opset since when it must.
    """
    if name in OPERATORS:
        raise ValueError(f"two functions import {name}")
    words = [word.partition("!") for word in attributes.split()]
    needed = tuple([(word, int(since or 1)) for word, mark, since in words if mark])
    OPERATORS[name] = Operator(run, frozenset(word for word, _, _ in words), needed)


def operator(name: str, attributes: str = "") -> Callable[[F], F]:
    """Decorate the function that imports an operator, naming its attributes as `register` does."""

    def enter(run: F) -> F:
        register(name, run, attributes)
        return run

    return enter


Search = Callable[..., tuple[Value, ...] | None]
# Operators that are imported with the import under way, as they hold graphs that they run, or that
# are known to the graph in some cases (None: in others).
SEARCHES: dict[str, Search] = {}


def search(name: str) -> Callable[[Search], Search]:
    """Decorate the function that imports such an operator."""

    def enter(run: Search) -> Search:
        SEARCHES[name] = run
        return run

    return enter
