"""Memory for arrays that machine code reads: aligned, so that no vector lies across two lines.

And what runs such code on arrays, whoever made it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from sys import getrefcount
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from minicc.locks import lock
from minicc.target import usable_memory

Array = np.ndarray[Any, Any]
NOWHERE: Mapping[int, Array] = MappingProxyType({})  # arrays for outputs, of which none is given
DENSE = 0x101  # of `flags.num` of an array that is C-contiguous and aligned
ALIGNMENT = 128  # bytes: two cache lines, which are fetched together
# Where large results begin: where a page does, and large arrays of NumPy's 16 bytes later. A read
# waits for writes to another page that are alike in 12 bits, if these are a little before it.
PAGE = 1 << 12
_LARGE = 1 << 14
_VAST = 1 << 20  # bytes that the system gives and takes back page by page
_ALIKE = 8  # results of one size whose memory is kept
KEPT = 1 << 28  # bytes of vast ones whose memory is kept at most


def dense(a: Array) -> Array:
    """C-contiguous, aligned and native; NumPy copies where an array is not."""
    if a.flags.num & DENSE == DENSE and a.dtype.isnative:
        return a
    return np.require(a, a.dtype.newbyteorder("="), ["C", "A"])


class Code(Protocol):
    """Compiled code."""

    @property
    def donated(self) -> Sequence[tuple[int, int]]:
        """Inputs, each with the output that is what is left of it."""
        ...

    @property
    def sure(self) -> bool:
        """Whether no run can fail."""
        ...

    def run(self, inputs: Sequence[Array], *, into: Mapping[int, Array] = NOWHERE) -> list[Array]:
        """The outputs for C-contiguous inputs of the expected types, in order.

        Some go `into` arrays of the caller's; one that an input is donated for may be that input.
        """
        ...

    def ready(self, shapes: Sequence[tuple[int, ...]]) -> Callable[[list[Array]], list[Array]]:
        """What `run` does for inputs of these shapes alone, with as little as can be around it."""
        ...


class Kept:
    """Memory of results that nobody holds any more, for those of later runs.

    What the system gives, it clears first, a page at a time, and what was used last is in a cache.
    No more than `most` bytes are kept, the last that were made.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        # by their sizes, whether somebody holds them or not; each with where it is aligned
        self._known: dict[int, list[tuple[Array, int]]] = {}
        self._made: deque[int] = deque()  # their sizes, the oldest first
        self._lock = lock()

    def take(self, size: int) -> tuple[Array, int]:
        """Uninitialised bytes, and where so many of them begin at an aligned address."""
        if size <= self._most:
            size = _rounded(size)
            for raw, start in self._known.get(size, ()):
                # The pair, the name and the argument are what refers to one that nobody holds. Of
                # two threads that look at one, each sees that the other has a name for it.
                if getrefcount(raw) == 3:
                    return raw, start
        raw = np.empty(size + PAGE, np.uint8)
        start = _start(raw, PAGE)
        if size <= self._most:
            with self._lock:
                self._keep(size, raw, start)
        return raw, start

    def _keep(self, size: int, raw: Array, start: int) -> None:
        self._known[size] = [*self._known.get(size, ()), (raw, start)]
        self._made.append(size)
        if len(self._known[size]) > _ALIKE:
            self._made.remove(size)
            self._drop_oldest(size)
        while sum(self._made) > self._most:
            self._drop_oldest(self._made.popleft())

    def _drop_oldest(self, size: int) -> None:
        self._known[size] = self._known[size][1:]


def _rounded(size: int) -> int:
    """Somewhat more, so that sizes that are close are one."""
    step = 1 << max(0, size.bit_length() - 4)
    return -(-size // step) * step


_results = Kept(1 << 22)
_vast_results = Kept(min(KEPT, usable_memory() // 16))


def aligned(size: int) -> Array:
    """Uninitialised bytes at an aligned address."""
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = _start(raw)
    return raw[start : start + size]


def _start(raw: Array, alignment: int = ALIGNMENT) -> int:
    return -int(raw.ctypes.data) % alignment


def memory_for(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Callable[[], Array]:
    """What makes an uninitialised array of that size: a large one is aligned."""
    size = prod(shape) * dtype.itemsize
    if size < _LARGE:
        return partial(np.empty, shape, dtype)
    return partial(_aligned_array, size, shape, dtype)


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An uninitialised array; a large one is aligned."""
    return memory_for(shape, dtype)()


def _aligned_array(size: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    kept = _results if size < _VAST else _vast_results
    return np.ndarray(shape, dtype, *kept.take(size))


def inserted(whole: Any, new: Array, starts: Sequence[int], steps: Sequence[int]) -> Array:
    """A copy of an array with `new` inside, from `starts` on, its elements `steps` apart."""
    found = np.array(whole)
    axes = zip(starts, new.shape, steps, strict=True)
    found[tuple([slice(at, at + n * step, step) for at, n, step in axes])] = new
    return found


def is_finite(array: Array) -> bool:
    """Whether an array has no infinities and no NaN, for which none as large is made."""
    if array.dtype.kind not in "fcV" or not array.size:
        return True
    with np.errstate(invalid="ignore"):
        ends = np.array([array.min(), array.max()])
    return bool(np.isfinite(ends.astype(np.float32) if ends.dtype.kind == "V" else ends).all())


def is_aligned(array: Array) -> bool:
    """Whether an array starts at an aligned address and lies there without gaps."""
    return array.flags.c_contiguous and not array.ctypes.data % ALIGNMENT
