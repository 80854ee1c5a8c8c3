"""Arrays that are recorded when somebody asks for what is in them, and perhaps never."""

from __future__ import annotations

from typing import Any

from minicc.frontends.trace.tracer import Tracer
from minicc.ir.core import Array, Value


class Pending(Tracer):
    """An array that has no content of its own while it is `pending`."""

    __slots__ = ("pending",)

    def __init__(self, array: Tracer, scalar: bool = False) -> None:
        """An array made of `array`."""
        super().__init__(array.recorder, array._content, scalar=scalar)
        self.pending = True
        del self._content  # so that it is missed where somebody asks

    def __getattr__(self, name: str) -> Any:
        if name != "_content":
            return super().__getattr__(name)
        taken = self._taken()
        self.pending = False
        self._content = taken.content
        shown = taken.looks_at()
        if shown is not None:
            self._base, self._lens = shown
            self._seen = shown[0].version
        return self._content

    def put_back(self) -> None:
        """Be pending again: what was recorded of it belongs to a body that is left."""
        if not self.pending:
            self.pending, self._base, self._lens = True, None, None
            self.forget()
            del self._content

    def _taken(self) -> Tracer:
        """Record it."""
        raise NotImplementedError

    def held(self) -> Value | None:
        """What must be kept for it at a break; None while it is pending, which others hold."""
        return None if self.pending else super().held()

    def rebind(self, moved: dict[Value, Value]) -> None:
        """Take the value of the segment that begins."""
        if not self.pending:
            super().rebind(moved)

    def lies_in_order(self) -> bool:
        """Whether the array lies row by row, which is told when it is recorded."""
        self.content  # noqa: B018  # it is recorded when it is asked for
        return super().lies_in_order()

    def shadow(self) -> Array:
        """An array without memory that lies as this one does, which is recorded for it."""
        self.content  # noqa: B018  # it is recorded when it is asked for
        return super().shadow()
