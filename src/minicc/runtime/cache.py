"""A content-addressed store of bytes on disk: compiled code and packed weights of earlier runs.

A key is the hash of all that the bytes depend on, so an entry is never stale and needs no
invalidation (as in ccache, Inductor's FX cache and numba's index). Entries are written beside
their place and renamed: processes may share a folder without locks. Each entry starts with its
length and hash; one that does not fit its head counts as missing and is written anew. Nothing is
unpickled. Since entries are executed, a folder that others may write to is not used.

Mirrors: ccache, Inductor's FX graph cache and JAX's persistent compilation cache. Unlike
Inductor's, it holds object code by the text of a kernel and not graphs.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
import warnings
from pathlib import Path

from minicc.target import Target

_MAGIC = b"minicc 1"
_HEAD = len(_MAGIC) + 8 + 32
_STALE_SECONDS = 3600.0


def key(version: str, kind: str, target: Target, text: str | bytes) -> str:
    """The key of what minicc's `version` makes of `text` for `target`, as 64 hex digits.

    `kind` tells products of one text apart ("object", "assembly", ...). LLVM's part is llvmlite's
    version: it fixes LLVM's.
    """
    import llvmlite

    machine = (target.name, target.cpu, target.features)
    data = text.encode() if isinstance(text, str) else text
    digest = hashlib.sha256()
    for part in (version, kind, *machine, str(llvmlite.__version__)):
        # Each part with its length: ("ab", "c") and ("a", "bc") are two keys.
        digest.update(b"%d:" % len(part.encode()) + part.encode())
    digest.update(data)
    return digest.hexdigest()


class Cache:
    """The store in `folder`, at most `limit` bytes of it; `folder=None` keeps nothing.

    No method raises for the disk's sake: a folder that can't be used is warned of once
    (`RuntimeWarning`), and then the cache is empty. Safe under several threads and processes.
    """

    def __init__(self, folder: Path | None, limit: int = 1 << 30) -> None:
        self._folder = folder
        self._limit = limit
        self._size: int | None = None
        self._checked = False

    def get(self, key: str) -> bytes | None:
        """The bytes put under `key`, or None: never put, evicted or damaged."""
        folder = self._usable()
        if folder is None:
            return None
        path = folder / key
        try:
            entry = path.read_bytes()
            # The time of last use, by which `put` evicts.
            os.utime(path)
        except OSError:
            return None
        data = entry[_HEAD:]
        return data if entry[:_HEAD] == _head(data) else None

    def put(self, key: str, data: bytes) -> None:
        """Keep `data` under `key`; evicts the least recently used entries beyond the limit."""
        folder = self._usable()
        if folder is None or len(data) + _HEAD > self._limit:
            return
        beside = folder / f".{key}.{os.getpid()}.{threading.get_ident()}"
        try:
            with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(_head(data))
                file.write(data)
            os.replace(beside, folder / key)
        except OSError as error:
            beside.unlink(missing_ok=True)
            self._disable(f"can't write to {folder} ({error.strerror})")
            return
        # Unlocked: a lost update delays an eviction, and a lock would not survive a fork.
        if self._size is not None:
            self._size += len(data) + _HEAD
        if self._size is None or self._size > self._limit:
            self._size = _evict(folder, self._limit)

    def _usable(self) -> Path | None:
        """The folder, made and checked at the first use; None when there is none to use."""
        if self._checked or self._folder is None:
            return self._folder
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            state = self._folder.stat()
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


def _head(data: bytes) -> bytes:
    """What stands before an entry's bytes: magic, length, SHA-256."""
    return _MAGIC + len(data).to_bytes(8, "little") + hashlib.sha256(data).digest()


def _evict(folder: Path, limit: int) -> int:
    """Delete the oldest entries until nine tenths of `limit` are left; bytes then in use.

    Other processes may delete at the same time, so that a file may be gone at any step.
    """
    found = []
    for entry in os.scandir(folder):
        try:
            state = entry.stat()
        except OSError:
            continue
        if not entry.name.startswith("."):
            found.append((state.st_mtime, state.st_size, entry.path))
        elif time.time() - state.st_mtime > _STALE_SECONDS:
            # A writer that died left its half of a file.
            Path(entry.path).unlink(missing_ok=True)
    size = sum(bytes_ for _, bytes_, _ in found)
    if size <= limit:
        return size
    for _, bytes_, path in sorted(found):
        if size <= limit * 9 // 10:
            break
        Path(path).unlink(missing_ok=True)
        size -= bytes_
    return size
