"""The parts of a program one after the other: machine code, and ops that run on the host.

Mirrors: ONNX Runtime's sequential executor over the partitions of its providers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from minicc.ir.arrays import Array


class Step(NamedTuple):
    """A part that runs: values by number that it takes and gives; `run` wants dense arrays.

    What `fresh` parts give are arrays of their own; others may give views of what they take.
    """

    run: Callable[[Sequence[Array]], Sequence[Array]]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    fresh: bool


class Pipeline:
    """Steps in the order in which they run; implements `backends.base.Executable`.

    Values have numbers: `args` those of the inputs, `results` those of the outputs.
    """

    def __init__(
        self,
        args: Sequence[int],
        results: Sequence[int],
        steps: Sequence[Step],
        constants: Mapping[int, Array],
        close: Callable[[], None],
    ) -> None:
        self._args, self._results, self._steps = tuple(args), tuple(results), tuple(steps)
        self._dead = _last_uses(self._results, self._steps)
        self._fresh = {value for step in steps if step.fresh for value in step.outputs}
        self.close = close
        self._constants = dict(constants)

    def guards(self) -> list[str]:
        """Nothing: all sizes are bound."""
        return []

    def fits(self, shapes: Sequence[tuple[int, ...]]) -> bool:
        """Whether the program is for inputs of these shapes; they are all bound."""
        return True

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs for C-contiguous inputs of the expected types; they are the caller's own."""
        known: dict[int, Array] = {**self._constants}
        known.update(zip(self._args, inputs, strict=True))
        others = {id(a) for a in known.values()}
        for step, dead in zip(self._steps, self._dead, strict=True):
            given = [known[v] for v in step.inputs]
            if step.fresh:
                given = [np.require(a, requirements="C") for a in given]
            known.update(zip(step.outputs, step.run(given), strict=True))
            for value in dead:
                del known[value]
        outputs: list[Array] = []
        for value in self._results:
            array = known[value]
            if value not in self._fresh:  # what an op gives may be a view
                array = np.require(array, requirements=["C", "O"])
            outputs.append(array.copy() if id(array) in others else array)
            others.add(id(array))
        return outputs


def _last_uses(results: Sequence[int], steps: Sequence[Step]) -> list[list[int]]:
    """For each step the values that nothing after it uses."""
    wanted = {*results}
    out: list[list[Any]] = []
    for step in reversed(steps):
        used = (*step.inputs, *step.outputs)
        out.append([v for v in dict.fromkeys(used) if v not in wanted])
        wanted.update(step.inputs)
    return out[::-1]
