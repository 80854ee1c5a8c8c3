"""Memory for arrays that machine code reads: aligned, so that no vector lies across two lines.

And what runs such code on arrays, whoever made it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from sys import getrefcount
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, Any]
NOWHERE: Mapping[int, Array] = MappingProxyType({})  # arrays for outputs, of which none is given
ALIGNMENT = 128  # bytes: two cache lines, which are fetched together
_LARGE = 1 << 14
_VAST = 1 << 20  # bytes that the system gives and takes back page by page


class Code(Protocol):
    """Compiled code.

    `donated` are inputs, each with the output that is what is left of it; `sure` says whether no
    run can fail.
    """

    donated: Sequence[tuple[int, int]]
    sure: bool

    def run(self, inputs: Sequence[Array], *, into: Mapping[int, Array] = NOWHERE) -> list[Array]:
        """The outputs for C-contiguous inputs of the expected types, in order.

        Some go `into` arrays of the caller's; one that an input is donated for may be that input.
        """
        ...


class Kept:
    """Large memory of results that nobody holds any more, for those of later runs.

    What the system gives it clears first, a page at a time, which takes longer than many a
    function. No more than `most` bytes are kept, the last that were used.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: list[Array] = []  # whether somebody holds them or not, the last used first

    def take(self, size: int) -> Array:
        """Uninitialised bytes, that many or somewhat more."""
        for raw in self._known:
            # The list, the name and the argument are what refers to one that nobody holds. Of two
            # threads that look at one, each sees that the other has a name for it.
            if size <= raw.size <= size + size // 8 and getrefcount(raw) == 3:
                found = raw
                break
        else:
            found = np.empty(size, np.uint8)
        known, left = list[Array](), self._most
        for raw in (found, *[r for r in self._known if r is not found]):
            if raw.size <= left:
                known.append(raw)
                left -= raw.size
        self._known = known
        return found


_kept = Kept(1 << 26)


def aligned(size: int) -> Array:
    """Uninitialised bytes at an aligned address."""
    return _from_aligned(np.empty(size + ALIGNMENT, np.uint8), size)


def _from_aligned(raw: Array, size: int) -> Array:
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


def memory_for(
    shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Callable[[tuple[int, ...], np.dtype[Any]], Array]:
    """What makes an uninitialised array of that size: a large one is aligned."""
    return np.empty if prod(shape) * dtype.itemsize < _LARGE else _aligned_array


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An uninitialised array; a large one is aligned."""
    return memory_for(shape, dtype)(shape, dtype)


def _aligned_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    size = prod(shape) * dtype.itemsize
    whole = aligned(size) if size < _VAST else _from_aligned(_kept.take(size + ALIGNMENT), size)
    return whole.view(dtype).reshape(shape)


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
