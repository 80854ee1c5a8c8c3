"""A traced function before machine code: every level to be read, and the graph to be run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from minicc.compile.compiler import STAGES, lower
from minicc.errors import UserError
from minicc.ir.arrays import NOWHERE, Array
from minicc.ir.core import Function, Module, Region
from minicc.ir.interpret import Interpreter
from minicc.ir.text.printer import print_module
from minicc.options import Options


class Lowered:
    """A traced function before machine code; every level can be read.

    A function with breaks has several `segments`; `module` is the first.
    """

    def __init__(self, modules: Sequence[Module], options: Options) -> None:
        self.modules = tuple(modules) or (Module("graph", [Function("main", Region((), (), ()))]),)
        self.module = self.modules[0]
        self._options = options

    @property
    def segments(self) -> tuple[Lowered, ...]:
        """Each segment on its own, in the order in which they ran."""
        return tuple(Lowered([m], self._options) for m in self.modules)

    def at(self, level: str) -> Module:
        """The module after the last stage of a level; UserError names the levels."""
        stages = [s.name for s in STAGES if s.level == level]
        if not stages:
            levels = ", ".join(dict.fromkeys(s.level for s in STAGES))
            raise UserError("MC0184", f"no level is called {level!r}", hint=f"levels: {levels}")
        return lower(self.module, self._options, stop=stages[-1])

    def as_text(self, level: str = "graph") -> str:
        """The printed module after the last stage of a level."""
        return print_module(self.at(level))


class Interpreted:
    """A segment that the interpreter runs."""

    donated: Sequence[tuple[int, int]] = ()
    sure = False

    def __init__(self, module: Module) -> None:
        self._module = module

    def run(self, inputs: Sequence[Any], *, into: Mapping[int, Array] = NOWHERE) -> list[Any]:
        """The outputs."""
        interpreter = Interpreter(self._module)
        body = self._module.main.body
        return [np.asarray(a) for a in interpreter.region(body, inputs, {})]

    def ready(self, shapes: Sequence[tuple[int, ...]]) -> Callable[[list[Array]], list[Array]]:
        """What runs inputs of these shapes: as all others are."""
        return self.run
