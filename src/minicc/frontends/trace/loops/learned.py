"""What earlier attempts at a trace have found about its loops."""

from __future__ import annotations

import collections
import dataclasses
from types import CodeType
from typing import Literal

Place = tuple[CodeType, int]  # the code of a function, and where a loop's head is in it
End = Literal["first", "last"]


@dataclasses.dataclass(slots=True)
class Learned:
    """What is known of a loop.

    `refused` says why it can't be captured. `alone` are the ends whose round is written out.
    `opens` tells whether it is opened (see `opened`), None where that was not tried. `masks` tells
    whether indices that data give are masked on sides of its branches that are not taken. Of names
    that it `tells` of it is sure that they show arrays of their own, or NumPy runs the call. What
    it `resizes` is told by rounds that were written out: along which axis, and by how much. Ints of
    data that have names `ahead` of it are read there, since rounds need to know them.
    """

    refused: str = ""
    alone: set[End] = dataclasses.field(default_factory=set)
    opens: bool | None = None
    masks: bool = False
    tells: set[str] = dataclasses.field(default_factory=set)
    resizes: dict[str, tuple[int, int]] | None = None
    ahead: set[str] = dataclasses.field(default_factory=set)

    def resize(self, changes: dict[str, tuple[int, int]]) -> bool:
        """Know what rounds resize, if they do: whether the loop is to be tried again with that."""
        again = self.resizes is None and bool(changes)
        if again:
            self.resizes, self.refused = changes, ""
            self.alone.add("first")
        return again


class LearnedOfLoops(collections.defaultdict[Place, Learned]):
    """What is known of each loop, by its place."""

    def __init__(self) -> None:
        super().__init__(Learned)

    def write_out(self, place: Place, why: str, end: End | None = None) -> None:
        """Have a loop written out, or only its round at an end."""
        if end is None:
            self[place].refused = why
        else:
            self[place].alone.add(end)
