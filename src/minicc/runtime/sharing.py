"""How much work a share of a launch must have to be worth telling another thread of: it is tried.

Between two cores a line of a cache takes 50 ns on one machine and 400 on another, and in a virtual
machine, whose processors wander, first the one and then the other. What a message costs is not all:
what one thread wrote must also come to the next. So no table says what a shared launch costs, and
the time of whole runs decides, which is all that a caller feels. Runs come in windows. From time to
time one window has another least share; where its runs are quicker than those of the windows before
and after it, this one stays. Who computes what changes no bit, so only a clock can tell.
"""

from __future__ import annotations

# Least shares: bits of points of work. The first pays where cores share a cache; after the last but
# one come runs that share nothing.
LEAST = (13, 16, 19, 22, 63)

_RUNS = 8  # of a window, whose median counts
_BETTER = 0.98  # of the time, from which another least share is taken
_CHANGED = 1.25  # times the time, or its inverse: the machine is not what it was, so it is tried
_WORSE, _FIRST = 1.1, 2  # times the time, by which the first runs of a trial end it
_REST, _DOUBLED = 4, 4  # windows between two trials, and how often these double where none pays


class Sharing:
    """The least share for runs of one program with the same sizes.

    `least` is that of the next run; `ran` is told how long it took. Runs may overlap: that mixes
    their times, and breaks nothing. A new one begins where the one given stands.
    """

    __slots__ = (
        "_before",
        "_known",
        "_level",
        "_lost",
        "_other",
        "_quiet",
        "_tried",
        "_window",
        "least",
    )

    def __init__(self, like: Sharing | None = None) -> None:
        self._level: int = 0 if like is None else like._level
        self.least = LEAST[self._level]
        self._other = self._level  # what is tried, or was last
        self._window: list[float] = []
        self._lost, self._quiet = 0, 0  # trials since one paid, and windows since the last
        self._known = 0.0  # the median after the last trial
        self._before = self._tried = 0.0  # the medians of a trial, so far

    def ran(self, seconds: float) -> None:
        """Note how long a run with `least` took."""
        window = self._window
        window.append(seconds)
        tries = self._before and not self._tried
        lost = tries and len(window) == _FIRST and min(window) > _WORSE * self._before
        if lost or len(window) >= _RUNS:
            self._window = []
            self._learn(sorted(window)[len(window) // 2])

    def _learn(self, median: float) -> None:
        if not self._before:
            self._wait(median)
        elif not self._tried:
            self._tried = median
            self.least = LEAST[self._level]
        else:
            self._decide(median)

    def _wait(self, median: float) -> None:
        """Begin a trial after a window, if it is time; all others are tried in turns."""
        known = self._known = self._known or median
        self._quiet += 1
        if max(median, known) > _CHANGED * min(median, known):
            self._lost = 0
        rounds = self._lost // (len(LEAST) - 1)  # in which each was tried
        if self._quiet >= _REST << min(rounds, _DOUBLED):
            self._before = median
            other = (self._other + 1) % len(LEAST)
            self._other = (other + 1) % len(LEAST) if other == self._level else other
            self.least = LEAST[self._other]

    def _decide(self, median: float) -> None:
        """End a trial with the window after it."""
        if self._tried < _BETTER * min(self._before, median):
            self._level, self._known, self._lost = self._other, self._tried, 0
        else:
            self._known, self._lost = median, self._lost + 1
        self.least = LEAST[self._level]
        self._quiet, self._before, self._tried = 0, 0.0, 0.0
