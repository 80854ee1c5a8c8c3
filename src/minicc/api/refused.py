"""What a session remembers of sizes whose data its program refuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a warm start needs no compiler
    from minicc.ir.core import Module

_TRIES = 2  # programs for given sizes that refuse their data, too, until no more is compiled


class Refused:
    """Whether programs for given sizes are of use, and the last graph that ran by definition."""

    def __init__(self) -> None:
        self._futile: set[tuple[Any, ...]] = set()
        self._helped = False
        self._last: tuple[tuple[Any, ...], Module] | None = None

    def is_futile(self, binding: Mapping[str, int]) -> bool:
        """Whether a program for these sizes would refuse the data as that for all sizes does."""
        tried = len(self._futile) >= _TRIES and not self._helped
        return tried or tuple(binding.items()) in self._futile

    def compiled(self, binding: Mapping[str, int]) -> None:
        """Note that a program for these sizes has run; `graph` is asked first where it refused."""
        self._helped |= tuple(binding.items()) not in self._futile

    def graph(self, binding: Mapping[str, int], make: Callable[[], Module]) -> Module:
        """The graph that runs by definition for sizes whose own program is not for the data."""
        name = tuple(binding.items())
        if not self.is_futile(binding):
            self._futile.add(name)
        last = self._last
        if last is None or last[0] != name:
            last = self._last = name, make()
        return last[1]
