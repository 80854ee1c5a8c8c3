"""Rows of what a captured loop has stacked: the elements of the lists that its rounds append to."""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.frontends.trace.numbers import Number
from minicc.frontends.trace.registry import Dispatch
from minicc.frontends.trace.tracer import Tracer
from minicc.ir.core import Array


class Row(Tracer):
    """A row of what a loop has stacked, not taken yet while it is `pending`."""

    __slots__ = ("array", "number", "pending")

    def __init__(self, array: Tracer, number: int, scalar: bool) -> None:
        super().__init__(array.recorder, array._content, scalar=scalar)
        self.array = array
        self.number = number
        self.pending = True
        del self._content  # so that it is missed where somebody asks

    def __getattr__(self, name: str) -> Any:
        if name != "_content":
            return super().__getattr__(name)
        row = self.array[self.number]
        self.pending = False
        if row.scalar and not self.scalar:
            row = Dispatch.call(self.recorder, "reshape", (row, ()), {})
        shown = row.looks_at()
        self._content = row.content
        if shown is not None and not self.scalar:
            self._base, self._lens = shown
            self._seen = shown[0].version
        return self._content

    def shadow(self) -> Array:
        """An array without memory that lies as the row does."""
        self.content  # noqa: B018
        return super().shadow()

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
