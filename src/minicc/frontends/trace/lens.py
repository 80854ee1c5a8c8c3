"""How a view sees its base while a function is traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from minicc.ir.core import Array, Value

Content = Value | Array


class Lens(NamedTuple):
    """How a view sees its base.

    `move` makes the view of a NumPy array, `emit` of a value of the graph; `put` gives the base's
    value after the view's was replaced, and is None where the view can't be written to. Equal
    `key`s see the same. A lens that is `hosted` reads and writes at breaks, so what it showed is
    kept across them; its `put` takes arrays too. `show` makes the view where `move` copies. What a
    lens that `moves` sees depends on the round of a loop: it emits of any content, and `move` only
    tells how the view lies in memory.
    """

    key: Any
    move: Callable[[Array], Array]
    emit: Callable[[Any], Any]
    put: Callable[[Any, Any], Any] | None
    hosted: bool = False
    show: Callable[[Array], Array] | None = None
    moves: bool = False

    def read(self, content: Content) -> Content:
        """What the view holds for a base's content."""
        emits = self.moves or isinstance(content, Value)
        return self.emit(content) if emits else self.move(content)  # type: ignore[arg-type]
