"""Whether a call that no program fits is worth a trace, or NumPy had better run it.

A program is worth what it takes to make where other calls run it, too. Where a function reads what
is new in each call (a text of a result, a number of data that bounds a range), or is given another
text each time, none is ever run again, and each call would take a trace. So after some traces in a
row that served no other call, a program is made for what comes a second time, as tiers of compilers
do it that count calls; and now and then for what does not, in case calls have become others.
"""

from __future__ import annotations

from collections.abc import Hashable

_FREE = 8  # traces that may have served no other call yet
_FIRST = 8  # calls that NumPy runs until the next trace
_MOST = 4 * _FIRST  # and then there have been two such traces in vain
_REMEMBERED = 1024  # needs of calls that NumPy ran


class Patience:
    """What a function's traces were good for; `refused` are the calls that had none."""

    def __init__(self) -> None:
        self.refused = 0
        self._unused = 0
        self._wait = _FIRST
        self._waited = 0
        self._seen: dict[int, None] = {}

    @property
    def is_gone(self) -> bool:
        """Whether traces have been in vain for so long that the paths of a call may be let go."""
        return self._wait >= _MOST

    def renew(self) -> None:
        """Have the next calls traced again."""
        self._unused = 0

    def allows(self, need: Hashable, served: int) -> bool:
        """Whether a call may be traced, after so many that programs served since the last question.

        `need` is what a program would be for; None where that can't be told.
        """
        if served:
            self._unused = max(0, self._unused - served)
            self._wait, self._waited = _FIRST, 0
        if self._unused < _FREE:
            self._unused += 1
            return True
        key = hash(need)
        if need is not None and key in self._seen:
            del self._seen[key]
            return True
        self._waited += 1
        if self._waited == self._wait:
            self._wait, self._waited = 2 * self._wait, 0
            return True
        self.refused += 1
        if need is not None:
            self._seen[key] = None
            if len(self._seen) > _REMEMBERED:
                del self._seen[next(iter(self._seen))]
        return False
