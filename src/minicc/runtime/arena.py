"""The memory that the values in between take while a program runs.

Where the next run may want more, addresses beyond the end are reserved, and what was written stays
where it is. The pages of such memory are small ones first, and become large ones as runs go on.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from functools import cache
from time import perf_counter

import numpy as np

from minicc.ir.arrays import Array, aligned

_ROOM = 1 << 28  # bytes of addresses that an arena has for larger sizes at most
_AT_ONCE = 1 << 24  # bytes of pages that are taken before a run
_LARGE = 1 << 21  # bytes of a large page
_SHARE = 0.1  # of the time of runs, which making large pages takes at most
_GUESS = 1e-3  # seconds that the first of them takes
_SETTING = "/sys/kernel/mm/transparent_hugepage/enabled"
# of madvise, which Python does not name
_POPULATE_WRITE = 23
_COLLAPSE = 25


class Arena:
    """Bytes for the values of a run: `fit` before it, and `settle` after it where `settles`."""

    __slots__ = (
        "_cost",
        "_first",
        "_fresh",
        "_large",
        "_room",
        "_spare",
        "_taken",
        "bytes",
        "settles",
    )

    def __init__(self) -> None:
        self.bytes: Array = aligned(0)
        self.settles = False  # whether there are small pages that may become large ones
        self._room: mmap.mmap | None = None  # where the bytes lie, if sizes may be others
        self._first = 0  # where they begin there
        self._taken = 0  # how many of them have pages
        self._fresh = False  # whether some came for this run
        self._large = 0  # how many have large ones
        self._cost = _GUESS
        self._spare = 0.0  # seconds that may be spent on large pages

    def fit(self, size: int, grows: bool) -> None:
        """Have so many bytes; `grows` says that another run may want more."""
        if self.bytes.nbytes < size:
            room = self._room = _roomy(size) if grows else None
            self._taken = self._large = 0
            if room is None:
                self.bytes = aligned(size)
            else:
                self._first = -np.frombuffer(room, np.uint8).ctypes.data % _LARGE
                self.bytes = np.frombuffer(room, np.uint8, offset=self._first)
        if self._room is not None and self._taken < size:
            _take(self._room, self._first + self._taken, self._first + size)
            self._taken = size
            self._fresh = True
            self.settles = _makes_large_pages() and self._large + _LARGE <= size

    def settle(self, seconds: float) -> None:
        """Make pages large ones after a run that took so long, for a small part of that time.

        The processor knows where few pages are: with large ones, runs on 20 to 40 MB take a tenth
        less. The system takes from 0.2 to 7 ms to make one, the more where it is a virtual
        machine's whose host has to find it.
        """
        if self._fresh:  # a run that took its time to begin is not made longer
            self._fresh = False
            return
        self._spare += _SHARE * seconds
        while self.settles and self._spare >= self._cost:
            began = perf_counter()
            made = self._room is not None and _collapse(self._room, self._first + self._large)
            self._large += _LARGE
            self._cost = perf_counter() - began
            self._spare -= self._cost
            self.settles = made and self._large + _LARGE <= self._taken


def _roomy(size: int) -> mmap.mmap | None:
    """Memory of at least a size, with addresses beyond it for larger sizes; None without so many.

    Those take no memory until they are written, and what was written is not taken anew for a size
    that needs more: the system's first access to a page costs more than a kernel's many. So NumPy's
    memory, for which it wants pages of 2 MB, is not taken: in a virtual machine each of these may
    first have to be found by its host, which took 4.4 ms where so many small ones took 0.8.
    """
    room = _LARGE + size + min(3 * size, _ROOM)
    try:
        return mmap.mmap(-1, room, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError):
        return None


def _take(room: mmap.mmap, start: int, stop: int) -> None:
    """Have the first pages of a part of an arena, at once where the system can do that.

    That takes three quarters of the time of as many first accesses. Python's lock is held meanwhile
    and threads do not share the work, so what is more than a few milliseconds' comes as it is used.
    """
    start -= start % mmap.PAGESIZE
    with suppress(OSError):  # a Linux before 5.14
        room.madvise(_POPULATE_WRITE, start, min(stop - start, _AT_ONCE))


def _collapse(room: mmap.mmap, start: int) -> bool:
    """Make one large page of small ones; whether the system could do that."""
    try:
        room.madvise(_COLLAPSE, start, _LARGE)
    except OSError:  # a Linux before 6.1, or one without such memory
        return False
    return True


@cache
def _makes_large_pages() -> bool:
    """Whether the system has large pages, and its owner lets programs ask for them."""
    try:
        with open(_SETTING, encoding="ascii") as file:
            return "[never]" not in file.read()
    except OSError:
        return False
