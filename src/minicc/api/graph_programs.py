"""Programs of graphs that Python code gave: opened from the cache, or compiled."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from minicc.ir.core import Module
from minicc.ir.text.printer import print_module
from minicc.later import Later
from minicc.options import Options
from minicc.runtime.programs import Programs
from minicc.runtime.saved import Compilation, Facts

if TYPE_CHECKING:
    from minicc.compile import compiled
    from minicc.compile.compiled import Made
else:
    compiled = Later("minicc.compile.compiled")


class GraphProgram:
    """What runs a graph on this machine; the cache keeps it under the graph's printed text."""

    def __init__(self, module: Module, options: Options, text: str | None = None) -> None:
        """`text` is the printed module, where somebody has it."""
        self._module = module
        self._options = options
        self._text = text

    @cached_property
    def _programs(self) -> Programs:
        text = print_module(self._module) if self._text is None else self._text
        return Programs(text.encode(), None, self._options)

    def opened(self) -> Compilation | None:
        """The program that was kept, by this process or another one; needs no compiler."""
        saved = self._programs.find()
        if saved is None or saved.built is None:
            return None
        return saved.compilation(self._options)

    def compiled(self) -> Compilation:
        """The program, which is kept."""
        options = self._options
        facts = Facts((), (), (), options.math, len(self._module.main.body.ops))

        def keep(made: Made) -> None:
            self._programs.keep(None, made.built, made.facts(facts, {}), {})

        return compiled.compile_module(self._module, options, {}, keep)

    def made(self) -> Compilation:
        """The program that was kept, or else compiled now."""
        return self.opened() or self.compiled()
