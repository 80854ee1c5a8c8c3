"""Memory for arrays that machine code reads: aligned, so that no vector lies across two lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def memory_for(
    shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Callable[[tuple[int, ...], np.dtype[Any]], Array]:
    """What makes an uninitialised array of that size: a large one is aligned."""
    return np.empty if prod(shape) * dtype.itemsize < _LARGE else _aligned_array


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An uninitialised array; a large one is aligned."""
    return memory_for(shape, dtype)(shape, dtype)


def _aligned_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    return aligned(prod(shape) * dtype.itemsize).view(dtype).reshape(shape)


def inserted(whole: Any, new: Array, starts: Sequence[int], steps: Sequence[int]) -> Array:
    """A copy of an array with `new` inside, from `starts` on, its elements `steps` apart."""
    found = np.array(whole)
    axes = zip(starts, new.shape, steps, strict=True)
    found[tuple([slice(at, at + n * step, step) for at, n, step in axes])] = new
    return found


def is_aligned(array: Array) -> bool:
    """Whether an array starts at an aligned address and lies there without gaps."""
    return array.flags.c_contiguous and not array.ctypes.data % ALIGNMENT
