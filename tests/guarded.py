"""Memory between pages that nobody may touch: what writes or reads beside it ends the process."""

from __future__ import annotations

import ctypes
import mmap
import weakref
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

from minicc.ir.arrays import ALIGNMENT
from minicc.runtime import arena
from minicc.runtime.execute import NativeExecutable

Array = np.ndarray[Any, Any]

_PAGE = mmap.PAGESIZE
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_LIBC.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_READ_WRITE, _PRIVATE_ANONYMOUS, _FAILED = 3, 0x22, ctypes.c_void_p(-1).value


def guarded(size: int, at_end: bool) -> Array:
    """So many bytes that end within a line of a page nobody may touch, or begin after one.

    They hold no zeros, which would hide what is read before it is written.
    """
    inside = -(-size // _PAGE) * _PAGE
    base = _LIBC.mmap(None, inside + 2 * _PAGE, _READ_WRITE, _PRIVATE_ANONYMOUS, -1, 0)
    assert base != _FAILED, "no memory"
    for page in (base, base + _PAGE + inside):
        assert _LIBC.mprotect(page, _PAGE, 0) == 0
    ctypes.memset(base + _PAGE, 0xA5, inside)
    start = base + _PAGE + ((inside - size) // ALIGNMENT * ALIGNMENT if at_end else 0)
    held = (ctypes.c_uint8 * size).from_address(start)
    weakref.finalize(held, _LIBC.munmap, base, inside + 2 * _PAGE)
    return np.ctypeslib.as_array(held)


def placed(array: Array, at_end: bool) -> Array:
    """A copy in such memory."""
    copied = guarded(array.nbytes, at_end).view(array.dtype).reshape(array.shape)
    copied[...] = array
    return copied


def guarded_runs(
    executable: NativeExecutable, inputs: Sequence[Array], outputs: Sequence[Array]
) -> Iterator[list[Array]]:
    """What runs give whose inputs, outputs like the given ones, and arenas lie in such memory."""
    for at_end in (True, False):
        executable.close()  # a run that begins with new memory
        with (
            mock.patch.object(arena, "aligned", partial(guarded, at_end=at_end)),
            mock.patch.object(arena, "_roomy", return_value=None),
        ):
            into = {k: placed(a, at_end) for k, a in enumerate(outputs)}
            yield executable.run([placed(x, at_end) for x in inputs], into=into)
    executable.close()
