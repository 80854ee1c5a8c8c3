"""The code of a traced function's segments: that of little work is interpreted at first.

Between two values that Python reads there is often next to nothing to compute, and a trace of such
a function comes by hundreds of segments that may never run again. As in virtual machines with
tiers (HotSpot's interpreter, V8's Ignition), a segment is compiled once it has run a few times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from minicc.ir.arrays import NOWHERE, Array
from minicc.ir.core import Module
from minicc.runtime.host_ops import run_by_definition
from minicc.runtime.saved import Compilation

INTERPRETED = 2  # runs of a segment before it is compiled, which takes as long as hundreds of them

Run = Callable[[list[Array]], list[Array]]


class Segment:
    """A segment's code, and what is known of its compilation (see `minicc.ir.arrays.Code`)."""

    def __init__(self, module: Module, compiled: Callable[[], Compilation], light: bool) -> None:
        """Without `light` it is compiled at once."""
        self._module = module
        self._compiled = compiled
        self._made: Compilation | None = None if light else compiled()
        self._runs = 0

    @property
    def compilation(self) -> Compilation:
        """The compiled segment."""
        if self._made is None:
            self._made = self._compiled()
        return self._made

    @property
    def donated(self) -> Sequence[tuple[int, int]]:
        """Inputs, each with the output that is what is left of it."""
        return () if self._made is None else self._made.executable.donated

    @property
    def sure(self) -> bool:
        """Whether no run can fail."""
        return self._made is not None and self._made.executable.sure

    def run(self, inputs: Sequence[Array], *, into: Mapping[int, Array] = NOWHERE) -> list[Array]:
        """The outputs."""
        if self._waits():
            return self._interpreted(inputs)
        return self.compilation.executable.run(inputs, into=into)

    def ready(self, shapes: Sequence[tuple[int, ...]]) -> Run:
        """What runs inputs of these shapes."""
        if self._made is not None:
            return self._made.executable.ready(shapes)
        found: list[Run] = []

        def run(inputs: list[Array]) -> list[Array]:
            if not found:
                if self._waits():
                    return self._interpreted(inputs)
                found.append(self.compilation.executable.ready(shapes))
            return found[0](inputs)

        return run

    def _waits(self) -> bool:
        self._runs += 1
        return self._made is None and self._runs <= INTERPRETED

    def _interpreted(self, inputs: Sequence[Array]) -> list[Array]:
        """What its ops' definitions give, in arrays that share no memory with others."""
        outputs = run_by_definition(self._module.main, inputs, {})
        return [np.array(a, order="C") for a in outputs]
