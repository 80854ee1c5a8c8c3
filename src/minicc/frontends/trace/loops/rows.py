"""Rows of what a captured loop has stacked: the elements of the lists that its rounds append to."""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.frontends.trace.numbers import Number
from minicc.frontends.trace.pending import Pending
from minicc.frontends.trace.registry import Dispatch
from minicc.frontends.trace.tracer import Tracer


class Row(Pending):
    """A row of what a loop has stacked, not taken yet while it is `pending`."""

    __slots__ = ("array", "number")

    def __init__(self, array: Tracer, number: int, scalar: bool) -> None:
        super().__init__(array, scalar)
        self.array = array
        self.number = number

    def _taken(self) -> Tracer:
        row: Tracer = self.array[self.number]
        if row.scalar and not self.scalar:
            row = Dispatch.call(self.recorder, "reshape", (row, ()), {})
        return Tracer(self.recorder, row.content) if self.scalar else row

    @property
    def is_still(self) -> bool:
        """Whether it is a row of what the loop has stacked, as the loop has left that."""
        return not (self.array.written or self._version)

    @property
    def symbolic(self) -> bool:
        """Whether the graph computes the elements."""
        return self.array.symbolic if self.pending else super().symbolic

    @property
    def root(self) -> Tracer:
        """The array whose memory this one shows."""
        return self.array if self.pending else super().root

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's element type."""
        return self.array.dtype

    def _extents(self) -> tuple[int, ...]:
        return self.array._extents()[1:]


def row_of(x: Any) -> Row | None:
    """The row that a value is, or a Python number stands for, if nobody has looked at it yet."""
    counted = not isinstance(x, Tracer) and type(x) is Number and x.term is None
    found = x.box if counted else x
    known = isinstance(found, Row) and found.pending and found.is_still
    shown = known and found.array.looks_at() is None
    return found if shown and found.scalar == (found.array.ndim == 1) else None
