"""Memory for arrays that machine code reads: aligned, so that no vector lies across two lines."""

from __future__ import annotations

import ctypes
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
    start = -address(raw) % ALIGNMENT
    return raw[start : start + size]


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An uninitialised array; a large one is aligned."""
    size = prod(shape) * dtype.itemsize
    return np.empty(shape, dtype) if size < _LARGE else aligned(size).view(dtype).reshape(shape)


def address(array: Array) -> int:
    """Where an array's elements begin."""
    # NumPy's own way makes an object of ctypes, which takes ten times as long
    if _QUICK:
        return _POINTER(id(array) + object.__basicsize__).value or 0
    return int(array.ctypes.data)


_POINTER = ctypes.c_void_p.from_address
_SAMPLE = np.empty(1)
# NumPy's first field after what each of Python's objects has, and as long as it is
_QUICK = _POINTER(id(_SAMPLE) + object.__basicsize__).value == _SAMPLE.ctypes.data


def inserted(whole: Any, new: Array, starts: Sequence[int], steps: Sequence[int]) -> Array:
    """A copy of an array with `new` inside, from `starts` on, its elements `steps` apart."""
    found = np.array(whole)
    axes = zip(starts, new.shape, steps, strict=True)
    found[tuple([slice(at, at + n * step, step) for at, n, step in axes])] = new
    return found


def is_aligned(array: Array) -> bool:
    """Whether an array starts at an aligned address and lies there without gaps."""
    return array.flags.c_contiguous and not address(array) % ALIGNMENT
