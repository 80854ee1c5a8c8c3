"""A loop in a frame of the user's, and the names that are bound there."""

from __future__ import annotations

import ctypes
import sys
from types import FrameType
from typing import Any, NamedTuple

from minicc.errors import file_line
from minicc.frontends.trace.loops.code import LoopCode
from minicc.frontends.trace.loops.flow import flow_of


def names_of(frame: FrameType) -> dict[str, Any]:
    """The names that are bound in a frame; nothing else holds on to their values."""
    seen = frame.f_locals
    names = dict(seen)
    if sys.version_info < (3, 13):
        seen.clear()
    return names


class Site(NamedTuple):
    """A loop in a frame."""

    frame: FrameType
    code: LoopCode

    @property
    def key(self) -> Any:
        """Equal for the same statement."""
        return self.frame.f_code, self.code.head

    @property
    def loop(self) -> int | None:
        """The head of the loop in which its rounds begin."""
        flow = flow_of(self.frame.f_code)
        return flow.innermost(flow.place[self.code.head])

    def __str__(self) -> str:
        return file_line(self.frame.f_code.co_filename, self.code.line)

    def names(self) -> dict[str, Any]:
        """The names that are bound in the frame."""
        return names_of(self.frame)

    def bind(self, names: dict[str, Any]) -> None:
        """Bind local names of the frame; those that are none of Python's are passed over."""
        names = {n: v for n, v in names.items() if n.isidentifier()}
        if not names:
            return
        seen = self.frame.f_locals
        seen.update(names)
        if sys.version_info < (3, 13):
            # before Python 3.13 what the frame showed was a copy
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(self.frame), ctypes.c_int(0))
            seen.clear()
