"""The bytes of a model's file, which may be a pipe but nothing that never ends."""

from __future__ import annotations

import os
import select
import stat
from contextlib import suppress

import numpy as np

from minicc.errors import UserError
from minicc.ir.core import Array
from minicc.ir.mapped import map_model

MAPPED = 1 << 20  # bytes of a file that is mapped
_LONGEST = 1 << 31  # no message of protobuf is longer
_AT_ONCE = 1 << 20
_PATIENCE_MS = 5000


def model_bytes(source: str | os.PathLike[str] | bytes) -> tuple[Array, str]:
    """The bytes of a model, and what to call them in errors."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        data, place = np.frombuffer(bytes(source), np.uint8), "the given bytes"
    elif not isinstance(source, (str, os.PathLike)):
        message = f"a model is a path or bytes, not a {type(source).__name__}"
        known = hasattr(source, "SerializeToString")
        hint = "give `model.SerializeToString()`" if known else "check what is given"
        raise UserError("MC0120", message, hint=hint)
    else:
        place = os.fsdecode(source)
        try:
            data = file_bytes(place)
        except ValueError as error:
            message = f"the model can't be read: {error}"
            hint = "check the path"
            raise UserError("MC0120", message, hint=hint, where=repr(place)) from None
        except OSError as error:
            reason = error.strerror or str(error)
            message = f"the model can't be read: {reason.lower()}"
            raise UserError("MC0120", message, hint="check the path", where=place) from None
    if not data.size:
        raise UserError("MC0121", "the model is empty", hint="export it again", where=place)
    return data, place


def file_bytes(place: str) -> Array:
    """The bytes of a file, those of a large one mapped; OSError where it can't be read.

    A pipe is read to its end. Nobody waits for one that no one writes to.
    """
    # opening a pipe waits for who writes to it
    handle = os.open(place, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | os.O_CLOEXEC)
    try:
        # a directory is refused here
        with os.fdopen(handle, "rb", closefd=False, buffering=0) as file:
            state = os.fstat(handle)
            if stat.S_ISFIFO(state.st_mode):
                return _piped(handle)
            if not stat.S_ISREG(state.st_mode):
                raise OSError("it is neither a file nor a pipe")
            if state.st_size >= MAPPED:
                # not every file system can
                with suppress(OSError, ValueError):
                    return map_model(file)
            return np.frombuffer(file.readall(), np.uint8)
    finally:
        os.close(handle)


def _piped(handle: int) -> Array:
    """All that is written to a pipe."""
    parts: list[bytes] = []
    total = 0
    while True:
        waiting = select.poll()
        waiting.register(handle, select.POLLIN)
        told = waiting.poll(_PATIENCE_MS)
        try:
            part = os.read(handle, _AT_ONCE)
        except BlockingIOError:
            continue  # who writes to it takes a while
        if not told and not part:
            raise OSError("nobody writes to the pipe")
        if not part:
            return np.frombuffer(b"".join(parts), np.uint8)
        total += len(part)
        if total > _LONGEST:
            raise OSError("the pipe gives more than 2 GiB")
        parts.append(part)
