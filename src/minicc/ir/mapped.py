"""Arrays that lie in a file: their pages come when they are read, and go when they are let go.

A model's weights are mostly read once, into the order in which kernels want them. An array that is
a view of the mapped file costs memory for what of it was read since `let_go`. A model's file is
often written again in place, so what lasts longer than compiling is a copy (`own`).
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np

from minicc.ir.arrays import Array, empty

# bytes of a file that are read before their pages are let go
AT_ONCE = 1 << 24


class DataFile(mmap.mmap):
    """A mapping that nobody writes to, so that no page of it is lost."""


class ModelFile(DataFile):
    """The mapping of a model's own file, which may change once the model is compiled."""


def map_model(file: BinaryIO) -> Array:
    """The bytes of an open file, read-only; OSError or ValueError where it can't be mapped."""
    return np.frombuffer(ModelFile(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)


def map_data(file: BinaryIO, start: int, count: int) -> Array:
    """So many bytes of an open file from a start on, read-only; errors as `map_model`."""
    before = start % mmap.ALLOCATIONGRANULARITY
    place = start - before
    mapping = DataFile(file.fileno(), before + count, access=mmap.ACCESS_READ, offset=place)
    return np.frombuffer(mapping, np.uint8)[before:]


def changes(array: Array) -> bool:
    """Whether an array lies in a model's file, so that writing to the file changes it."""
    return isinstance(_mapping(array)[0], ModelFile)


def own(array: Array) -> Array:
    """The array, or a copy of one that lies in a model's file."""
    if not changes(array):
        return array
    out = empty(array.shape, array.dtype)
    copy([(out, array)], array)
    return out


def copy(pairs: Sequence[tuple[Array, Array]], whole: Array) -> None:
    """Write each second array, which are views of `whole`, to the first one beside it.

    Where `whole` lies in a file, this goes from its front to its end with few pages in memory.
    """
    in_file = _mapping(whole)[0] is not None
    walks = [_walk(source) for _, source in pairs] if in_file else []
    if not in_file or any(stride <= 0 for _, _, stride in walks):
        for out, source in pairs:
            out[...] = source
        let_go(whole)
        return
    low, high = np.lib.array_utils.byte_bounds(whole)
    for start in range(low, high, AT_ONCE):
        for (out, source), (address, axis, stride) in zip(pairs, walks, strict=True):
            # those that begin between the start and the next one
            first, last = (max(0, -((address - s) // stride)) for s in (start, start + AT_ONCE))
            part: tuple[Any, ...] = (*[slice(None)] * axis, slice(first, last), ...)
            out[part] = source[part]
        let_go(whole)


def _walk(source: Array) -> tuple[int, int, int]:
    """The address, and the axis and stride of steps forward along which an array is longest."""
    spans = [s * (n - 1) for s, n in zip(source.strides, source.shape, strict=True)]
    if not spans:
        return 0, 0, 0
    axis = spans.index(max(spans))
    return source.ctypes.data, axis, source.strides[axis]


def let_go(array: Array) -> None:
    """Give the pages of an array in a file back to the system, which reads them again if need be.

    Nothing is done to an array elsewhere, or where the system has no such call.
    """
    mapping, whole = _mapping(array)
    if mapping is None or not array.size or not hasattr(mapping, "madvise"):
        return
    low, high = np.lib.array_utils.byte_bounds(array)
    first = whole.ctypes.data // mmap.PAGESIZE * mmap.PAGESIZE
    start = (low - first) // mmap.PAGESIZE * mmap.PAGESIZE
    mapping.madvise(mmap.MADV_DONTNEED, start, high - first - start)


def _mapping(array: Array) -> tuple[DataFile | None, Array]:
    """The mapping that an array is a view of, and the array that was made of it first."""
    base: Any = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    holder = base.base.obj if isinstance(base.base, memoryview) else None
    return (holder if isinstance(holder, DataFile) else None), base
