"""Whether a call that no program fits is worth a trace, or NumPy had better run it.

A program is worth what it takes to make where other calls run it, too. Where a function reads what
is new in each call (a text of a result, a number of data that bounds a range), or is given another
text each time, none is ever run again, and each call would take a trace. So after some traces in a
row that served no other call, a program is made for what comes a second time, as tiers of compilers
do it that count calls; and now and then for what does not, in case calls have become others.

A trace takes as long as hundreds of small calls. Where the programs that were made for what came
again serve few calls, too, as methods of objects that live briefly, or of more objects than there
are programs kept, what comes must come more often each time before it has one.

Values that Python reads of data are new in each call more often than kinds of arguments are. So
less may be spent on them in vain: a few traces, or a long one.

A trace that is given up since it is too long has taken seconds, and those of other sizes are as
long: after two of them a call must come again, and more often each time, before it has another.
"""

from __future__ import annotations

from collections.abc import Hashable

TOO_LONG = "MC0247"
_FREE = 8  # traces that may have served no other call yet
_FREE_OF_DATA = 3  # such that a value of data was for
_GIVEN_UP = 3  # such traces that one counts as besides which was too long
_LONG = 64  # ops of which a trace counts as one more
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
        self._of_data = 0  # the same of traces that a value of data was for, and of long ones
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
        self._unused = self._of_data = 0

    def spend(self, work: int) -> None:
        """Note the ops of a trace."""
        self._of_data += work // _LONG

    def leave(self, code: str) -> None:
        """Note a trace after which NumPy runs such calls, as an error with a code says why."""
        if code == TOO_LONG:
            self._unused += _GIVEN_UP
            self._again = min(2 * self._again, _RAREST)

    def allows(self, need: Hashable, served: int, of_data: bool) -> bool:
        """Whether a call may be traced, after so many that programs served since the last question.

        `need` is what a program would be for; None where that can't be told. `of_data` says whether
        that is a value that Python read.
        """
        self._since += served
        self._idle = 0 if served else self._idle + 1
        made_up, self._paid = divmod(self._paid + served, _WORTH)
        if made_up:
            self._unused = max(0, self._unused - made_up)
            self._of_data = max(0, self._of_data - made_up)
            self._wait, self._waited = _FIRST, 0
        if self._unused < _FREE and not (of_data and self._of_data >= _FREE_OF_DATA):
            self._unused += 1
            self._of_data += of_data
            return True
        key = hash(need)
        times = self._seen.pop(key, 0)
        if times >= self._again:
            rare = self._since < _WORTH
            self._again = min(2 * self._again, _RAREST) if rare else max(self._again // 2, 1)
            self._since = 0
            return True
        self._waited += not of_data  # which another try tells nothing of
        if self._waited == self._wait and not of_data:
            self._wait, self._waited = 2 * self._wait, 0
            return True
        self.refused += 1
        if need is not None:
            self._seen[key] = times + 1
            if len(self._seen) > _REMEMBERED:
                del self._seen[next(iter(self._seen))]
        return False
