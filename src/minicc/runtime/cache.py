"""A content-addressed store of bytes on disk: compiled code and whole programs of earlier runs.

A key is the hash of all that the bytes depend on, so an entry is never stale and needs no
invalidation (as in ccache, Inductor's FX cache and numba's index). Entries are written beside
their place and renamed: processes may share a folder without locks. Each entry of bytes starts with
its length and a hash of its key and content; one that does not fit its head, or stands under
another's name, counts as missing and is written anew. Programs are files of their own form, which
check themselves (`container`). Nothing is unpickled. Since entries are executed, a folder that
others may write to is not used.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import IO

_MAGIC = b"minicc 2"
_HEAD = len(_MAGIC) + 8 + 32
_STALE_SECONDS = 3600.0
# beside the entries: when they were last counted and their bytes then, and the bytes of each since
_TALLY = "tally"


def key(*parts: str | bytes) -> str:
    """The key of what depends on these parts, as 64 hex digits; the first says what it is."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        # each part with its length: ("ab", "c") and ("a", "bc") are two keys
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.hexdigest()


class Cache:
    """The store in `folder`, at most `limit` bytes of it; `folder=None` keeps nothing.

    No method raises for the disk's sake: a folder that can't be used is warned of once
    (`RuntimeWarning`), and then the cache is empty. Safe under several threads and processes.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, limit: int = 4 << 30) -> None:
        self._folder = None if folder is None else os.fspath(folder)
        self._limit = limit
        self._size: int | None = None
        self._checked = False

    def get(self, key: str) -> bytes | None:
        """The bytes put under `key`, or None: never put, evicted or damaged."""
        path = self.path(key)
        if path is None:
            return None
        try:
            # a pipe must not be waited for
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(handle, "rb") as file:
                regular = stat.S_ISREG(os.fstat(handle).st_mode)
                entry = file.read() if regular else b""
        except OSError:
            return None
        self.used(path)
        data = entry[_HEAD:]
        return data if entry[:_HEAD] == _head(key, data) else None

    def put(self, key: str, data: bytes) -> None:
        """Keep `data` under `key`; evicts the least recently used entries beyond the limit."""

        def write(file: IO[bytes]) -> bool:
            file.write(_head(key, data))
            file.write(data)
            return True

        self.write(key, len(data) + _HEAD, write)

    def path(self, name: str) -> str | None:
        """Where an entry is or would be; None where there is no folder to use."""
        folder = self._usable()
        return None if folder is None else os.path.join(folder, name)

    @staticmethod
    def used(path: str) -> None:
        """Note that an entry was used now, by which `write` evicts; as far as the disk lets us."""
        with suppress(OSError):
            os.utime(path)

    def write(self, name: str, size: int, write: Callable[[IO[bytes]], bool]) -> None:
        """Keep what `write` writes, about `size` bytes, as the file of that name, if it says so."""
        path = self.path(name)
        if path is None or size > self._limit:
            return
        folder = os.path.dirname(path)
        beside = os.path.join(folder, f".{name}.{os.getpid()}.{threading.get_ident()}")
        try:
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
                with open(os.open(beside, flags, 0o600), "wb") as file:
                    good = write(file)
                if not good:
                    os.unlink(beside)
                    return
                os.replace(beside, path)
            except BaseException:
                with suppress(OSError):
                    os.unlink(beside)
                raise
        except OSError as error:
            self._disable(f"can't write to {folder} ({error.strerror})")
            return
        # Unlocked: a lost update delays an eviction, and a lock would not survive a fork.
        if self._size is None:
            self._size = _tallied(folder)
        if self._size is not None:
            self._size += size
            _tally(folder, f"{size}\n", os.O_APPEND)
        if self._size is None or self._size > self._limit:
            self._size = _evict(folder, self._limit)
            _tally(folder, f"{int(time.time())} {self._size}\n", os.O_CREAT | os.O_TRUNC)

    def _usable(self) -> str | None:
        """The folder, made and checked at the first use; None when there is none to use."""
        if self._checked or self._folder is None:
            return self._folder
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            state = os.stat(self._folder)
        except OSError as error:
            self._disable(f"can't use {self._folder} ({error.strerror})")
            return None
        if state.st_uid != os.getuid() or state.st_mode & 0o022:
            self._disable(f"{self._folder} can be written to by other users")
            return None
        self._checked = True
        return self._folder

    def _disable(self, reason: str) -> None:
        """Go on without a cache, and say so once."""
        first, self._folder = self._folder is not None, None
        if first:
            warnings.warn(
                f"minicc keeps no compiled code: {reason}; name a folder in MINICC_CACHE_DIR",
                RuntimeWarning,
                stacklevel=3,
            )


@cache
def cache_at(folder: str | None, limit: int) -> Cache:
    """The process's store in a folder, which warns once of what is wrong with it."""
    return Cache(folder, limit)


def _head(key: str, data: bytes) -> bytes:
    """What stands before an entry's bytes: magic, length, SHA-256 of its key and its bytes."""
    digest = hashlib.sha256(key.encode())
    digest.update(data)
    return _MAGIC + len(data).to_bytes(8, "little") + digest.digest()


def _tally(folder: str, text: str, how: int) -> None:
    """Write to the tally, as far as the disk lets us; without one the entries are counted."""
    with suppress(OSError):
        # a pipe must not be waited for
        flags = os.O_WRONLY | os.O_NONBLOCK | how
        handle = os.open(os.path.join(folder, _TALLY), flags, 0o600)
        try:
            os.write(handle, text.encode())
        finally:
            os.close(handle)


def _tallied(folder: str) -> int | None:
    """The bytes in use by the tally; None where there is none, or an old or damaged one.

    To count a folder of tens of thousands of entries takes a second.
    """
    try:
        handle = os.open(os.path.join(folder, _TALLY), os.O_RDONLY | os.O_NONBLOCK)
        with open(handle, encoding="ascii") as file:
            counted, *sizes = map(int, file.read().split())
    except (OSError, ValueError):
        return None
    return sum(sizes) if 0 <= time.time() - counted < _STALE_SECONDS else None


def _evict(folder: str, limit: int) -> int:
    """Delete the oldest entries until nine tenths of `limit` are left; bytes then in use.

    Other processes may delete at the same time, so that a file may be gone at any step. What is
    mapped stays where it is mapped.
    """
    found = []
    for entry in os.scandir(folder):
        try:
            state = entry.stat()
        except OSError:
            continue
        if entry.name == _TALLY:
            continue
        if not entry.name.startswith("."):
            found.append((state.st_mtime, state.st_size, entry.path))
        elif time.time() - state.st_mtime > _STALE_SECONDS:
            # A writer that died left its half of a file.
            with suppress(OSError):
                os.unlink(entry.path)
    size = sum(bytes_ for _, bytes_, _ in found)
    if size <= limit:
        return size
    for _, bytes_, path in sorted(found):
        if size <= limit * 9 // 10:
            break
        with suppress(OSError):
            os.unlink(path)
            size -= bytes_
    return size
