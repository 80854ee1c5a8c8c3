"""Whole programs in the cache: found by all that decides them, kept when they were made.

A program's key is made of the model's bytes, of minicc itself, of the target, of the options that
decide code, and of the sizes that were bound. A model's bytes are hashed; that 500 MB need not be
hashed at each start, the digest of a file is kept under its path, size, times and number on its
disk (`stat`), unless it was written so lately that a second write could bear the same times. A file
of a size that no file had yet has no program: it is hashed while it is compiled.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from importlib.util import find_spec
from os import PathLike
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from minicc.errors import UserError
from minicc.later import Later
from minicc.options import Options
from minicc.runtime.cache import cache_at, key
from minicc.runtime.container import MAGIC, read
from minicc.runtime.saved import Built, Facts, Saved, Segment, save
from minicc.version import VERSION

if TYPE_CHECKING:
    from minicc.runtime import host_ops
else:
    host_ops = Later("minicc.runtime.host_ops")

SUFFIX, TEXT = ".mcp", ".mcc"
State = tuple[int, ...]  # of a file: what `stat` says, as far as it tells one content from another
# files beside a model that were read: their places from its folder on, and their states
Files = Mapping[str, State]

_NONE: Files = {}
# Bytes that are read and hashed as one. With fewer, threads would often ask for Python's lock.
_LEAF = 1 << 24
_SETTLED_NS = 2_000_000_000  # after which a write has other times than one before it
_ASIDE = 1 << 22  # bytes of a program that another thread writes, while the model runs already


class Programs:
    """The programs of one model, or of some values within it, in the cache.

    Nothing is found or kept where the model can't be read.
    """

    def __init__(
        self,
        source: object,
        outputs: Sequence[str] | None,
        options: Options,
        apart: bool = False,
    ) -> None:
        self._cache = cache_at(options.cache_dir, options.cache_bytes)
        self._options = options
        given = _given(source)
        self._path = given if isinstance(given, str) else None
        self._state: State = () if self._path is None else state_of(self._path)
        self._digest: str | None = None
        self._hashing: _Hashing | None = None
        if options.cache_dir is None or self._cache.path("") is None:
            return
        if isinstance(given, bytes):
            self._digest = _digest(given)
        elif given is not None:
            self._begin(given)
        target = options.machine
        machine = (target.name, target.cpu, target.features)
        fusion = (options.fuse, options.no_fuse)
        decisive = (
            options.flushed,
            options.sizes,
            options.limits,
            options.schedules,
            options.skip,
            *fusion,
        )
        asked = repr((outputs, apart, *decisive))
        self._parts = (made_by(), *machine, options.math, asked)

    def _begin(self, path: str) -> None:
        """Find out the digest of the model's file, or let a thread do so if it surely is new."""
        size = self._state[0] if self._state else 0
        if size > _LEAF and self._cache.get(_seen(size)) is None:
            self._hashing = _Hashing(partial(self._digest_of, path, 1))
        else:
            self._digest = self._digest_of(path)

    def find(self, sizes: Mapping[str, int] | None = None) -> Saved | None:
        """The program that was kept for these sizes, whole, and within the limit of memory.

        With None that for all sizes, or what is known of the model where that is no program.
        """
        if self._hashing is not None:
            return None  # what was kept of a new file meanwhile is known to who has it
        name = self._name(sizes)
        path = self._cache.path(name) if name else None
        if path is None:
            return None
        try:
            saved = Saved(read(path))
            if saved.says("key") != name or not self._same_files(saved.says("files")):
                return None
            if saved.built is not None and saved.built.bytes() > self._options.memory_limit:
                return None  # who compiles it says what is too large
        except (OSError, ValueError, UserError):
            return None
        self._cache.used(path)
        return saved

    def keep(
        self,
        sizes: Mapping[str, int] | None,
        built: Built | None,
        facts: Facts,
        files: Files,
    ) -> None:
        """Keep a program; nothing is kept where a file changed since it was read."""
        name = self._name(sizes)
        if name is None or self.changed(files):
            return
        digests = {name: self._digest_of(self._beside(name)) for name in files}
        more = {"key": name, "files": digests}

        def write(file: IO[bytes]) -> bool:
            save(file, built, facts, self._options.machine.name, more)
            return not self.changed(files)

        size = _size(built)
        work = partial(self._write, name, size, write)
        if size < _ASIDE:
            work()
        else:
            threading.Thread(target=work, name="minicc-keep").start()

    def _write(self, name: str, size: int, write: Any) -> None:
        try:
            self._cache.write(name, size, write)
        except host_ops.NotPlainError:
            return  # compiled anew at each start; its kernels are found in the cache

    def _name(self, sizes: Mapping[str, int] | None) -> str | None:
        if self._hashing is not None:
            self._digest, self._hashing = self._hashing.result(), None
        if self._digest is None:
            return None
        bound = repr(sizes and sorted(sizes.items()))
        return key("program", *self._parts, self._digest, bound) + SUFFIX

    def _beside(self, location: str) -> str:
        """A file in the model's folder; "" where a link leads out of it."""
        if self._path is None:
            return ""
        folder = os.path.dirname(self._path)
        folders = os.path.realpath(folder), os.path.dirname(os.path.realpath(self._path))
        place = os.path.realpath(os.path.join(folder, location))
        return place if any(place.startswith(f.rstrip("/") + "/") for f in folders) else ""

    def changed(self, files: Files = _NONE) -> bool:
        """Whether the model or a file beside it is another than the one that was read."""
        if self._path is None:
            return False
        others = (state != state_of(self._beside(name)) for name, state in files.items())
        return self._state != state_of(self._path) or any(others)

    def _same_files(self, digests: Any) -> bool:
        found = (self._digest_of(self._beside(name)) == d for name, d in digests.items())
        return not digests or all(found)

    def _digest_of(self, path: str, threads: int = 0) -> str | None:
        """The digest of a file's bytes, from the cache or made; None where it can't be read.

        By so many threads, or one for each core.
        """
        state = state_of(path)
        if not state:
            return None
        memo = key("digest", os.path.abspath(path), repr(state))
        known = self._cache.get(memo)
        if known is not None:
            return known.decode()
        try:
            digest = _digest_of_file(path, threads or len(os.sched_getaffinity(0)))
        except OSError:
            return None
        self._cache.put(_seen(state[0]), b"")
        settled = time.time_ns() - max(state[1:3]) > _SETTLED_NS
        if settled and state_of(path) == state:
            self._cache.put(memo, digest.encode())
        return digest


def state_of(path: str) -> State:
    """What tells a file's content from another's, without reading it; () where it is no file."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return ()
    return state_from(found) if stat.S_ISREG(found.st_mode) else ()


def state_from(found: os.stat_result) -> State:
    """The state of a file that is open."""
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev


def _given(source: object) -> str | bytes | None:
    """What a model is given as; None for what is neither bytes nor a path."""
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source)
    return os.path.abspath(os.fsdecode(source)) if isinstance(source, str | PathLike) else None


def is_text(source: object) -> bool:
    """Whether a file is the text of a module, by its name."""
    return isinstance(source, str | PathLike) and os.fspath(source).endswith(TEXT)


def is_program(source: object) -> bool:
    """Whether a file or bytes are a compiled program, by their first bytes or the file's name."""
    given = _given(source)
    if given is None:
        return False
    if isinstance(given, bytes):
        return given.startswith(MAGIC)
    if given.endswith(SUFFIX):
        return True
    if not state_of(given):
        return False  # what a pipe gives can be read once alone
    try:
        handle = os.open(given, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return False
    try:
        return os.pread(handle, len(MAGIC), 0) == MAGIC
    except OSError:
        return False
    finally:
        os.close(handle)


def open_program(source: str | PathLike[str] | bytes) -> Saved:
    """The program in a file or in bytes; UserError where it is none, or can't be read.

    MC0162 a file that can't be read, and the errors of `container.read`.
    """
    try:
        return Saved(read(_given(source) or ""))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        text = f"the compiled program can't be read: {reason.lower()}"
        raise UserError("MC0162", text, hint="check the path", where=str(source)) from error


@cache
def made_by() -> str:
    """What stands for minicc itself in a key: its version, and the state of its own files.

    Who changes a pass finds no program that was made before. Libraries that decide code count too.
    """
    root = os.path.dirname(os.path.dirname(__file__))
    digest = hashlib.sha256(f"{VERSION} {np.__version__}".encode())
    folders, files = [root], []
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if not entry.is_dir():
                    found = entry.stat()
                    files.append((entry.path[len(root) :], found.st_size, found.st_mtime_ns))
                elif entry.name != "__pycache__":
                    folders.append(entry.path)
    digest.update(repr(sorted(files)).encode())
    spec = find_spec("llvmlite")
    if spec is not None and spec.origin:
        digest.update(repr(state_of(spec.origin)[:2]).encode())
    return digest.hexdigest()


def _size(built: Built | None) -> int:
    """About how many bytes a program takes in a file."""
    segments = [] if built is None else [s for s in built.steps if isinstance(s, Segment)]
    constants = sum(a.nbytes for s in segments for a in s.layout.constants)
    return constants + sum(len(s.image.code) for s in segments) + (1 << 14)


def _seen(size: int) -> str:
    """The key of the note that a file of so many bytes was hashed."""
    return key("size", str(size))


class _Hashing:
    """A digest that a thread makes."""

    def __init__(self, make: Callable[[], str | None]) -> None:
        self._make = make
        self._found: str | None = None
        self._thread = threading.Thread(target=self._run, name="minicc-digest", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._found = self._make()

    def result(self) -> str | None:
        """The digest, when it is there; None where there is none."""
        self._thread.join()
        if self._found is None:
            self._run()  # the child of a fork has no such thread
        return self._found


def _digest_of_file(path: str, threads: int) -> str:
    with open(path, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        starts = range(0, size, _LEAF)
        leaf = partial(_leaf, file.fileno())
        if len(starts) < 2:
            return _joined(map(leaf, starts))
        # hashing leaves the interpreter's lock
        from concurrent.futures import ThreadPoolExecutor

        pool = ThreadPoolExecutor(threads, "minicc-digest")
        try:
            return _joined(pool.map(leaf, starts))
        finally:
            pool.shutdown(cancel_futures=True)  # an interrupt must not wait for all of them


def _leaf(handle: int, start: int) -> bytes:
    buffer = np.empty(_LEAF, np.uint8).data
    found = 0
    # a file that is not on this machine may give less than is asked for
    while count := os.preadv(handle, [buffer[found:]], start + found):
        found += count
    return hashlib.sha256(buffer[:found]).digest()


def _digest(data: bytes) -> str:
    view = memoryview(data)
    starts = range(0, len(data), _LEAF)
    return _joined(hashlib.sha256(view[s : s + _LEAF]).digest() for s in starts)


def _joined(leaves: Iterable[bytes]) -> str:
    return hashlib.sha256(b"".join(leaves)).hexdigest()
