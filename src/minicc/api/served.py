"""What serves inputs of shapes that were checked before; those of the last call at a glance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from minicc.ir.arrays import DENSE, Array

_MOST = 4096  # shapes of inputs that are remembered

Run = Callable[[list[Array]], list[Array]]
Shapes = tuple[tuple[int, ...], ...]


class Served:
    """Runs by the shapes of inputs, which have names and element types.

    `last` is what an inline cache has (Deutsch and Schiffman, "Efficient Implementation of the
    Smalltalk-80 System", 1984): name, element type and shape of each input of the last call, and
    what ran it.
    """

    __slots__ = ("_inputs", "_runs", "last")

    def __init__(self, inputs: Sequence[tuple[str, Any]]) -> None:
        self._inputs = inputs
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self._runs: dict[Shapes, Run] = {}
        self.last: tuple[Sequence[tuple[str, Any, Any]], Run] = [("", None, None)], list

    def keep(self, shapes: Shapes, run: Run) -> None:
        """Remember what runs inputs of these shapes."""
        if len(self._runs) >= _MOST:
            self.clear()
        self._runs[shapes] = run

    def find(self, feed: Mapping[str, Any]) -> tuple[list[Array], Run] | None:
        """The inputs in order, and what runs them; None where they must be checked."""
        arrays: list[Array] = []
        for name, dtype in self._inputs:
            array: Any = feed.get(name)
            plain = array.__class__ is np.ndarray and array.flags.num & DENSE == DENSE
            if not plain or array.dtype != dtype:
                return None
            arrays.append(array)
        shapes = tuple([a.shape for a in arrays])
        run = self._runs.get(shapes)
        if run is None or len(arrays) != len(feed):
            return None
        named = zip(self._inputs, shapes, strict=True)
        self.last = [(name, dtype, shape) for (name, dtype), shape in named], run
        return arrays, run
