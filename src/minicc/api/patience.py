"""Whether a call that no program fits is worth a trace, or NumPy had better run it.

A program is worth what it takes to make where other calls run it, too. Where a function reads what
is new in each call (a text of a result, a number of data that bounds a range), or is given another
text each time, none is ever run again, and each call would take a trace. So after some traces in a
row that served no other call, a program is made for what comes a second time, as tiers of compilers
do it that count calls; and now and then for what does not, in case calls have become others.

A trace takes as long as hundreds of small calls. Where the programs that were made for what came
again serve few calls, too, as methods of objects that live briefly, or of more objects than there
are programs kept, what comes must come more often each time before it has one.
"""

from __future__ import annotations

from collections.abc import Hashable

_FREE = 8  # traces that may have served no other call yet
_WORTH = 64  # calls that programs serve that make up for a trace
_RAREST = 256  # refusals of equal calls, at most, until one is traced
_FIRST = 8  # calls that NumPy runs until the next trace
_MOST = 4 * _FIRST  # calls in a row that no program was for, among them traces in vain
_REMEMBERED = 1024  # needs of calls that NumPy ran


class Patience:
    """What a function's traces were good for; `refused` are the calls that had none."""

    def __init__(self) -> None:
        self.refused = 0
        self._unused = 0
        self._wait = _FIRST
        self._waited = 0
        self._idle = 0  # calls in a row that no program was for
        self._paid = 0  # calls served that made up for no trace yet
        self._again = 1  # refusals of equal calls until one is traced
        self._since = _WORTH  # calls served since one was
        self._seen: dict[int, int] = {}  # refusals of equal calls

    @property
    def is_gone(self) -> bool:
        """Whether traces have been in vain for so long that the paths of a call may be let go."""
        return self._idle >= _MOST

    def renew(self) -> None:
        """Have the next calls traced again."""
        self._unused = 0

    def allows(self, need: Hashable, served: int) -> bool:
        """Whether a call may be traced, after so many that programs served since the last question.

        `need` is what a program would be for; None where that can't be told.
        """
        self._since += served
        self._idle = 0 if served else self._idle + 1
        made_up, self._paid = divmod(self._paid + served, _WORTH)
        if made_up:
            self._unused = max(0, self._unused - made_up)
            self._wait, self._waited = _FIRST, 0
        if self._unused < _FREE:
            self._unused += 1
            return True
        key = hash(need)
        times = self._seen.pop(key, 0)
        if times >= self._again:
            rare = self._since < _WORTH
            self._again = min(2 * self._again, _RAREST) if rare else max(self._again // 2, 1)
            self._since = 0
            return True
        self._waited += 1
        if self._waited == self._wait:
            self._wait, self._waited = 2 * self._wait, 0
            return True
        self.refused += 1
        if need is not None:
            self._seen[key] = times + 1
            if len(self._seen) > _REMEMBERED:
                del self._seen[next(iter(self._seen))]
        return False
