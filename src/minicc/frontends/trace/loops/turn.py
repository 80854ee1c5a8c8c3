"""How far a `for` is that is not captured from its head."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Turn:
    """How far a `for` is that gives its items one by one; `here` is what a recording gets.

    `asked` is called where a recording asks for an item.
    """

    def __init__(self, where: str, length: Any, at: int) -> None:
        self.where = where
        self.length = length
        self.at = at
        self.here: Any = None
        self.asked: Callable[[], None] | None = None

    @property
    def left(self) -> Any:
        """How many items are to come."""
        return self.length - self.at

    def next(self) -> Any:
        """The number of the next item, which may be an index."""
        if self.here is not None:
            if self.asked is not None:
                self.asked()
            return self.here
        self.at += 1
        return self.at - 1

    def end(self, told: dict[str, str]) -> None:
        """Have no more items to come; nor has the loop become what was `told` of it."""
        self.here, self.at = None, self.length
        told.pop(self.where, None)
