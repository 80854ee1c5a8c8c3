"""The container of a compiled program: one file whose parts are found, checked and mapped.

    header      magic, versions, target, where the parts are, SHA-256 of what decides execution
    manifest    compact JSON: signature, layout, where each constant lies
    code        images, one after the other
    text        the program level's text, compressed; read when it is asked for
    constants   packed weights, each at an aligned place; mapped, never read or copied on opening

Header, manifest and code are read and compared with the digest before anything of them is used. The
constants' digest is compared when that is asked for (`Container.check`): to hash 500 MB at each
start would take longer than the start, and no constant decides what is executed. Lengths are
compared always. A file that is open is never written to, only replaced.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import stat
import struct
import zlib
from collections.abc import Sequence
from math import prod
from typing import IO, Any, BinaryIO, NamedTuple

import numpy as np

from minicc.errors import UserError
from minicc.ir.arrays import ALIGNMENT, Array, aligned
from minicc.ir.mapped import map_data
from minicc.ir.types import dtype
from minicc.version import VERSION

MAGIC = b"\x7fminicc\n"
FORMAT = 9  # one more whenever `layout`, `entry`, or what a file says otherwise, changes
_HEADER = struct.Struct("<8sI4x32s16s9Q")  # what the digest covers is this, manifest and code
_HEAD = _HEADER.size + 32
_PAGE = 4096
_MOST_NAMED = 1 << 28  # bytes of a manifest, of code: no program of ours has more


class Header(NamedTuple):
    """What stands first in the file; places and sizes are in bytes from its start."""

    magic: bytes
    format: int
    version: bytes
    target: bytes
    manifest: int
    manifest_size: int
    code: int
    code_size: int
    text: int
    text_size: int
    constants: int
    constants_size: int
    total: int

    def fits(self, size: int) -> bool:
        """Whether the parts lie one after the other in a file of that size, as they are written."""
        ends = (
            _HEAD,
            *(self.manifest, self.manifest + self.manifest_size),
            *(self.code, self.code + self.code_size, self.text, self.text + self.text_size),
            *(self.constants, self.constants + self.constants_size),
        )
        ordered = all(a <= b for a, b in itertools.pairwise(ends))
        small = max(self.manifest_size, self.code_size) <= _MOST_NAMED
        return ordered and small and self.total == size == ends[-1]


class Place(NamedTuple):
    """Where a constant lies among the constants, and its type."""

    offset: int
    dtype: str
    shape: tuple[int, ...]


def damaged(name: str, why: str) -> UserError:
    """MC0160: a file is no whole program."""
    hint = "write it again: minicc compile MODEL -o FILE.mcp"
    return UserError("MC0160", f"{name} is no whole compiled program: {why}", hint=hint)


def places_of(arrays: Sequence[Array], names: Sequence[str]) -> list[Place]:
    """Where arrays of element types by name will lie."""
    places: list[Place] = []
    at = 0
    for array, name in zip(arrays, names, strict=True):
        at += -at % ALIGNMENT
        places.append(Place(at, name, array.shape))
        at += array.nbytes
    return places


def write(
    file: IO[bytes],
    target: str,
    manifest: dict[str, Any],
    code: bytes,
    arrays: Sequence[Array],
    text: str = "",
) -> None:
    """Write a container; OSError as writing raises it. The arrays lie as `places_of` says."""
    digest = _digest_of_arrays(arrays)
    told = json.dumps({**manifest, "constants_digest": digest}, separators=(",", ":")).encode()
    packed = zlib.compress(text.encode(), 6) if text else b""
    code_at = _HEAD + len(told)
    text_at = code_at + len(code)
    constants = text_at + len(packed)
    constants += -constants % _PAGE
    size = _length(arrays)
    sizes = (_HEAD, len(told), code_at, len(code), text_at, len(packed), constants, size)
    names = (VERSION.encode(), target.encode())
    head = _HEADER.pack(MAGIC, FORMAT, *names, *sizes, constants + size)
    file.write(head)
    file.write(hashlib.sha256(b"".join((head, told, code))).digest())
    for part in (told, code, packed, bytes(constants - text_at - len(packed))):
        file.write(part)
    for part in _padded(arrays):
        file.write(part)


def _length(arrays: Sequence[Array]) -> int:
    at = 0
    for array in arrays:
        at += -at % ALIGNMENT + array.nbytes
    return at


def _padded(arrays: Sequence[Array]) -> Any:
    """The bytes of arrays as they lie in the file."""
    at = 0
    for array in arrays:
        gap = -at % ALIGNMENT
        if gap:
            yield bytes(gap)
        yield np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        at += gap + array.nbytes


def _digest_of_arrays(arrays: Sequence[Array]) -> str:
    digest = hashlib.sha256()
    for part in _padded(arrays):
        digest.update(part)
    return digest.hexdigest()


class Container:
    """An open container whose header, manifest and code are as they were written."""

    def __init__(self, header: Header, manifest: Any, code: bytes, source: _Source) -> None:
        self.target = header.target.rstrip(b"\0").decode()
        self.manifest: dict[str, Any] = manifest
        self.code = code
        self.name = source.name
        self.bytes = header.total
        self._text = source.mapped(header.text, header.text_size)
        self._constants = source.mapped(header.constants, header.constants_size)

    def array(self, place: Place) -> Array:
        """The constant at a place, read-only; `damaged` where none can be there."""
        element = dtype(place.dtype).numpy
        size = element.itemsize * prod(place.shape)
        wrong = place.offset % ALIGNMENT or min(place.shape, default=0) < 0
        if wrong or not 0 <= place.offset <= self._constants.size - size:
            raise damaged(self.name, "a constant lies outside of it")
        raw = self._constants[place.offset : place.offset + size]
        return raw.view(element).reshape(place.shape)

    def text(self) -> str:
        """The text of the program level; "" where the file has none."""
        try:
            return zlib.decompress(self._text.data).decode() if self._text.size else ""
        except (zlib.error, UnicodeDecodeError):
            raise damaged(self.name, "its text can't be read") from None

    def check(self) -> None:
        """Compare all constants with their digest; `damaged` where they differ."""
        found = hashlib.sha256(self._constants.data).hexdigest()
        if found != self.manifest["constants_digest"]:
            raise damaged(self.name, "its constants are not those that were written")


class _Source:
    """A file or bytes that are read from places."""

    def __init__(self, given: str | bytes) -> None:
        self.name = "the program" if isinstance(given, bytes) else str(given)
        self._bytes = given if isinstance(given, bytes) else None
        self._file: BinaryIO | None = None
        if not isinstance(given, bytes):
            # a pipe must not be waited for
            handle = os.open(given, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            self._file = open(handle, "rb", buffering=0)  # noqa: SIM115
        self.size = self._size()

    def _size(self) -> int:
        if self._file is None:
            return len(self._bytes or b"")
        state = os.fstat(self._file.fileno())
        return state.st_size if stat.S_ISREG(state.st_mode) else 0

    def read(self, start: int, count: int) -> bytes:
        if self._file is None:
            return (self._bytes or b"")[start : start + count]
        return os.pread(self._file.fileno(), count, start)

    def mapped(self, start: int, count: int) -> Array:
        """So many bytes at an aligned address: mapped, or a copy of bytes in memory."""
        if not count:
            return np.empty(0, np.uint8)
        if self._file is not None:
            return map_data(self._file, start, count)
        copied = aligned(count)
        copied[:] = np.frombuffer(self._bytes or b"", np.uint8, count, start)
        copied.flags.writeable = False
        return copied

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def read(given: str | bytes) -> Container:
    """Open a container, checked as this module says; OSError where the file can't be read.

    UserError MC0160 where it is damaged, MC0161 where another version of minicc wrote it.
    """
    source = _Source(given)
    try:
        return _read(source)
    finally:
        source.close()


def _read(source: _Source) -> Container:
    start = source.read(0, _HEAD)
    if not start.startswith(MAGIC):
        raise damaged(source.name, "it does not begin like one")
    if len(start) < _HEAD:
        raise damaged(source.name, "it is cut")
    header = Header(*_HEADER.unpack_from(start))
    version = header.version.rstrip(b"\0").decode("ascii", "replace")
    if header.format != FORMAT or version != VERSION:
        raise UserError(
            "MC0161",
            f"{source.name} was compiled by minicc {version} (format {header.format}), and this "
            f"is {VERSION} (format {FORMAT})",
            hint="compile the model again",
        )
    if not header.fits(source.size):
        raise damaged(source.name, f"its parts don't lie in its {source.size} bytes")
    manifest = source.read(header.manifest, header.manifest_size)
    code = source.read(header.code, header.code_size)
    digest = hashlib.sha256(b"".join((start[: _HEADER.size], manifest, code))).digest()
    if digest != start[_HEADER.size :]:
        raise damaged(source.name, "its digest differs")
    return Container(header, json.loads(manifest), code, source)
