"""Memory for arrays that machine code reads: aligned, so that no vector lies across two lines."""

from __future__ import annotations

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


def is_aligned(array: Array) -> bool:
    """Whether an array starts at an aligned address and lies there without gaps."""
    return array.flags.c_contiguous and not array.ctypes.data % ALIGNMENT
