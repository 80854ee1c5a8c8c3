"""Images in memory: put one there, give it its table of addresses, and own its lifetime.

Loading is a copy and two calls of the system. The bytes are copied, and not mapped from their file,
so that what was checked is what runs, whatever becomes of the file. The memory is writable while
it is filled, and executable only when nobody can write to it any more; its table is read-only then.
"""

from __future__ import annotations

import ctypes
import mmap
from functools import cache

from minicc.backends.base import OUTSIDE, TABLE_BYTES, Image
from minicc.errors import CompilerBug, UserError

_READ, _EXECUTE = 1, 4  # of mprotect, as POSIX and Linux have them
_MOST = TABLE_BYTES // 8


class Library:
    """Code in memory; `library["main"]` is an address.

    The library must outlive every address taken from it. Safe to read from several threads.
    """

    __slots__ = ("_addresses", "_memory")

    def __init__(self, memory: mmap.mmap, addresses: dict[str, int]) -> None:
        self._memory: mmap.mmap | None = memory
        self._addresses = addresses

    def __getitem__(self, symbol: str) -> int:
        """The address of a symbol of the image, else `KeyError`."""
        return self._addresses[symbol]

    def __contains__(self, symbol: str) -> bool:
        return symbol in self._addresses

    def close(self) -> None:
        """Unmap the code. No thread may be inside it; closing again does nothing."""
        self._addresses = {}
        self._memory = None  # unmapped as the last reference goes


def load(image: Image) -> Library:
    """Put an image in memory; `CompilerBug` where it wants a function that images may not call."""
    size = TABLE_BYTES + len(image.code)
    try:
        memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise _refused(error.strerror) from error
    memory[TABLE_BYTES:] = image.code
    if len(image.outside) > _MOST:
        raise CompilerBug("MC0302", f"an image wants {len(image.outside)} functions", stage="load")
    table = (ctypes.c_void_p * _MOST).from_buffer(memory)
    for slot, name in enumerate(image.outside):
        table[slot] = _outside(name)
    start = ctypes.addressof(table)
    del table
    protect = _library(None).mprotect
    for begin, bytes_, allowed in (
        (start, TABLE_BYTES, _READ),
        (start + TABLE_BYTES, len(image.code), _READ | _EXECUTE),
    ):
        if bytes_ and protect(ctypes.c_void_p(begin), ctypes.c_size_t(bytes_), allowed):
            raise _refused("it may not be executed")
    code = start + TABLE_BYTES
    return Library(memory, {name: code + offset for name, offset in image.symbols.items()})


def _refused(why: str | None) -> UserError:
    return UserError("MC0136", f"the system gives no memory for machine code: {why}")


@cache
def _outside(name: str) -> int:
    """The address of a function of the C library that images may call."""
    if name not in OUTSIDE:
        raise CompilerBug("MC0302", f"an image wants the function {name!r}", stage="load")
    for library in (None, "libm.so.6"):
        function = getattr(_library(library), name, None)
        if function is not None:
            return ctypes.cast(function, ctypes.c_void_p).value or 0
    raise CompilerBug("MC0302", f"this machine's C library has no {name!r}", stage="load")


@cache
def _library(name: str | None) -> ctypes.CDLL:
    return ctypes.CDLL(name)
