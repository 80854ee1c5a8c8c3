"""Why a trace ends before its function does: it begins anew otherwise, or is left to NumPy."""

from __future__ import annotations

from typing import Any

from minicc.errors import UnsupportedError
from minicc.frontends.trace.loops.learned import End


class WrittenOut(BaseException):
    """A loop that was recorded as one can't be: the trace begins anew, and writes it out.

    Just its first or last round where it has an `end`. No Exception, so that the function does not
    catch it.
    """

    def __init__(self, loop: Any, reason: str, end: End | None = None) -> None:
        super().__init__(reason)
        self.key = loop.key
        self.reason = reason
        self.end = end


class Again(BaseException):
    """The trace begins again, knowing more about the numbers that it was given.

    No Exception, so that the function does not catch it.
    """


class Counted(BaseException):
    """Data say how many elements an array has, of which a program may know by a symbol.

    No Exception, so that the function does not catch it.
    """


class TooLong(BaseException):
    """A trace grows too long with loops of few rounds written out, or captured: it begins anew."""


class GivenUp(BaseException):
    """A trace grows too long: NumPy itself is to run the function. `error` says why.

    No Exception, so that the function does not catch it.
    """

    def __init__(self, error: UnsupportedError) -> None:
        super().__init__(str(error))
        self.error = error
