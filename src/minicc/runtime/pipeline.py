"""The parts of a program one after the other: machine code, and ops that run on the host.

What data decide is known between parts: the sizes that ops on the host bind pass from one part to
those after it, as values do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from sys import getrefcount
from typing import Any, NamedTuple

import numpy as np

from minicc.ir.arrays import NOWHERE, Array
from minicc.ir.text.extents import binding_of, number_of, sizes_at
from minicc.ir.types import TensorType, is_free

Sizes = dict[str, int]
Fits = Callable[[Mapping[str, int]], bool]


class Step(NamedTuple):
    """A part that runs: values by number that it takes and gives; `run` enters sizes it binds.

    What `native` parts give are arrays of their own, and they want dense ones; others may give
    views of what they take.
    """

    run: Callable[[Sequence[Any], Sizes], Sequence[Any]]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    native: bool


class Pipeline:
    """Steps in the order in which they run; implements `backends.base.Executable`.

    Values have numbers: `args` those of the inputs, whose types are `types`, `results` those of the
    outputs. `fits` say of the parts whether they are for sizes, as far as these are given, and
    `shared` whether any has a launch that threads may share.
    """

    donated: Sequence[tuple[int, int]] = ()
    sure = False

    def __init__(
        self,
        args: Sequence[int],
        types: Sequence[TensorType],
        results: Sequence[int],
        steps: Sequence[Step],
        constants: Mapping[int, Array],
        fits: Iterable[Fits],
        shared: bool,
        close: Callable[[], None],
    ) -> None:
        self._args, self._results, self._steps = tuple(args), tuple(results), tuple(steps)
        self._shapes = [t.shape for t in types]
        self._sized = any(map(is_free, self._shapes))
        self._dead = _last_uses(self._results, self._steps)
        self._made = {value for step in steps if step.native for value in step.outputs}
        self._fits = tuple(fits)
        self._shared, self.close = shared, close
        self._constants = dict(constants)
        self._fixed = set(map(id, self._constants.values()))

    def guards(self) -> list[str]:
        """Nothing: what data decide is looked at when it is known."""
        return []

    def is_shared(self) -> bool:
        """Whether threads may share any launch of its native steps, at some sizes."""
        return self._shared

    def fits(self, shapes: Sequence[tuple[int, ...]]) -> bool:
        """Whether the program is for inputs of these shapes, as far as these say."""
        sizes = binding_of(self._shapes, shapes)
        pairs = zip(self._shapes, shapes, strict=True)
        same = (number_of(a, sizes) == b for s, t in pairs for a, b in zip(s, t, strict=True))
        return all(same) and all(fits(sizes) for fits in self._fits)

    def ready(self, shapes: Sequence[tuple[int, ...]]) -> Callable[[list[Any]], list[Any]]:
        """What runs inputs of these shapes: as all others are."""
        return self.run

    def run(self, inputs: Sequence[Any], *, into: Mapping[int, Array] = NOWHERE) -> list[Any]:
        """The outputs for C-contiguous inputs of the expected types; they are the caller's own."""
        others = {*map(id, inputs), *self._fixed}
        outputs: list[Any] = []
        found = self.values(inputs, {})[::-1]
        for value in self._results:
            array, holders = _taken(found)
            fresh = holders == _ALONE and _is_whole(array) if value not in self._made else True
            if not fresh or id(array) in others:
                array = owned(array)
            outputs.append(array)
            others.add(id(array))
        return outputs

    def values(self, inputs: Sequence[Any], around: Mapping[str, int]) -> list[Any]:
        """The outputs, which may be inputs, constants or views; `around` are sizes bound before."""
        sizes = {**around, **sizes_at(self._shapes, inputs)} if self._sized else {**around}
        known: dict[int, Any] = {**self._constants}
        known.update(zip(self._args, inputs, strict=True))
        for step, dead in zip(self._steps, self._dead, strict=True):
            given = [known[v] for v in step.inputs]
            if step.native:
                given = [a if _is_dense(a) else np.array(a, order="C") for a in given]
            known.update(zip(step.outputs, step.run(given, sizes), strict=True))
            for value in dead:
                del known[value]
        return [known[value] for value in self._results]


def _taken(values: list[Any]) -> tuple[Any, int]:
    """The last of some values, taken from them, and how many references there are to it."""
    value = values.pop()
    return value, getrefcount(value)


_ALONE = _taken([np.empty(1)])[1]  # references to what nobody else holds


def _is_dense(value: Any) -> bool:
    """Whether a value is an array that machine code can read where it lies."""
    if not isinstance(value, np.ndarray):
        return False
    return bool(value.flags.c_contiguous and value.flags.aligned)


def _is_whole(value: Any) -> bool:
    """Whether a value is an array of memory of its own, without gaps: no view, and no sequence."""
    if not isinstance(value, np.ndarray):
        return False
    return bool(value.flags.owndata and value.flags.c_contiguous and value.flags.writeable)


def owned(value: Any) -> Any:
    """An array of the caller's own; of a sequence each item."""
    if isinstance(value, list):
        return [owned(v) for v in value]
    return np.array(value, order="C") if isinstance(value, np.ndarray) else value


def _last_uses(results: Sequence[int], steps: Sequence[Step]) -> list[list[int]]:
    """For each step the values that nothing after it uses."""
    wanted = {*results}
    out: list[list[Any]] = []
    for step in reversed(steps):
        used = (*step.inputs, *step.outputs)
        out.append([v for v in dict.fromkeys(used) if v not in wanted])
        wanted.update(step.inputs)
    return out[::-1]
