"""Python's trace function, which tells of the lines that frames of a traced function come to.

It is set where somebody listens for a function's code, and no longer than the trace lasts. A
debugger's or a coverage tool's own trace function is called as before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

Listener = Callable[[FrameType], None]


class Watch:
    """Who listens for which code; a context, in which Python's trace function may be ours."""

    def __init__(self) -> None:
        self._listeners: dict[CodeType, list[Listener]] = {}
        self._theirs: Any = None

    def __enter__(self) -> Watch:
        self._theirs = sys.gettrace()
        if self._listeners:
            sys.settrace(self._called)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(self._theirs)

    def listen(self, code: CodeType, listener: Listener) -> None:
        """Call a listener at each line that a later frame of a code comes to."""
        self._listeners.setdefault(code, []).append(listener)

    def follow(self, frame: FrameType, listener: Listener) -> None:
        """Listen for the code of a frame that runs already."""
        if not self._listeners:
            sys.settrace(self._called)
        if frame.f_code not in self._listeners:
            frame.f_trace = self._following(frame.f_trace)
        self.listen(frame.f_code, listener)

    def stop(self, code: CodeType, listener: Listener) -> None:
        """Don't call a listener any more."""
        listeners = self._listeners[code]
        listeners.remove(listener)
        if not listeners:
            del self._listeners[code]
        if not self._listeners:
            sys.settrace(self._theirs)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        theirs = self._theirs and self._theirs(frame, event, argument)
        return self._following(theirs) if frame.f_code in self._listeners else theirs

    def _following(self, theirs: Any) -> Callable[..., Any]:
        def line(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal theirs
            theirs = theirs and theirs(frame, event, argument)
            if event == "line":
                for listener in tuple(self._listeners.get(frame.f_code, ())):
                    listener(frame)
            return line

        return line
