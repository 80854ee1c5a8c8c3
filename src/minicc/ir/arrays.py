"""Memory for arrays that machine code reads: aligned, so that no vector lies across two lines."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
ALIGNMENT = 128  # bytes: two cache lines, which are fetched together
_LARGE = 1 << 14


def aligned(size: int) -> Array:
    """Uninitialised bytes at an aligned address."""
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An uninitialised array; a large one is aligned."""
    size = prod(shape) * dtype.itemsize
    return np.empty(shape, dtype) if size < _LARGE else aligned(size).view(dtype).reshape(shape)


def inserted(whole: Any, new: Array, starts: Sequence[int], steps: Sequence[int]) -> Array:
    """A copy of an array with `new` inside, from `starts` on, its elements `steps` apart."""
    found = np.array(whole)
    axes = zip(starts, new.shape, steps, strict=True)
    found[tuple([slice(at, at + n * step, step) for at, n, step in axes])] = new
    return found


def is_aligned(array: Array) -> bool:
    """Whether an array starts at an aligned address and lies there without gaps."""
    return array.flags.c_contiguous and not array.ctypes.data % ALIGNMENT
