"""Tensors' data in files beside the model, opened with care.

A model may come from anywhere, so it can't name any file of the machine: a location is relative,
never leaves the folder (neither by `..` nor by a link), and is a plain file.

Errors: `UserError` MC0132 a location that is not allowed, MC0133 a file that can't be read, MC0134
bytes that are not in it. `UnsupportedError` MC0224 a model without a folder.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np

from minicc.errors import UnsupportedError, UserError
from minicc.ir.core import Array
from minicc.ir.mapped import map_data

# smaller ones are read at once
_MAPPED = 1 << 20
_DEFAULT = 0  # TensorProto.DataLocation: within the tensor


class Files:
    """The files beside a model at a path; none beside one that was given as bytes."""

    def __init__(self, model: str | os.PathLike[str] | None = None) -> None:
        self._folders: tuple[Path, ...] = ()
        # those that were read, by location, each with what `stat` said of it then
        self.read: dict[str, os.stat_result] = {}
        if model is not None:
            # a model may itself be a link into a store, where its data lie beside it
            path = Path(os.path.abspath(model))
            self._folders = (path.parent.resolve(), path.resolve().parent)
            self._named = path.parent

    def data(self, tensor: Any, count: int | None, what: str, where: str) -> Array:
        """The bytes of a tensor, `count` where that is known; those of a large one are mapped."""
        entries = {e.key: e.value for e in tensor.external_data}
        location = entries.get("location", "")
        if not self._folders:
            message = f"{what} keeps its data in the file {location!r}, beside a model of bytes"
            hint = "give the model's path in place of its bytes"
            raise UnsupportedError("MC0224", message, hint=hint, where=where)
        path = self._path(location, what, where)
        start, length = (_number(entries.get(k), what, where) for k in ("offset", "length"))
        if count is not None and length not in (None, count):
            message = f"{what} has {length} bytes of data in {location!r}, and needs {count}"
            raise UserError("MC0134", message, hint="export the model again", where=where)
        count = length if count is None else count
        data, found = _read(path, location, (start or 0, count), (what, where))
        self.read.setdefault(location, found)
        return data

    def inlined(self, tensor: Any, where: str) -> Any:
        """A tensor that holds its own data, for one that may keep them in a file."""
        if tensor.data_location == _DEFAULT:
            return tensor
        what = f"tensor {tensor.name}" if tensor.name else "the constant"
        made = type(tensor)(name=tensor.name, dims=tensor.dims, data_type=tensor.data_type)
        made.raw_data = self.data(tensor, None, what, where).tobytes()
        return made

    def _path(self, location: str, what: str, where: str) -> Path:
        """The file of a location; MC0132 where that leads out of the folder."""
        parts = {*PurePosixPath(location).parts, *PureWindowsPath(location).parts}
        rooted = PurePosixPath(location).is_absolute() or PureWindowsPath(location).anchor
        if location and not rooted and ".." not in parts and "\0" not in location:
            try:
                path = (self._named / location).resolve()
            except (OSError, RuntimeError):  # links in a circle
                path = self._named
            if any(path != folder and path.is_relative_to(folder) for folder in self._folders):
                return path
        message = f"{what} keeps its data in {location!r}, which is not in the model's folder"
        hint = "only files there are opened: no absolute path, no `..`, no link that leads out"
        raise UserError("MC0132", message, hint=hint, where=where)


def _number(text: str | None, what: str, where: str) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        message = f"{what} has data at {text!r}, which is no number of bytes"
        raise UserError("MC0134", message, hint="export the model again", where=where)
    return int(text)


def _read(
    path: Path, location: str, span: tuple[int, int | None], of: tuple[str, str]
) -> tuple[Array, os.stat_result]:
    """So many bytes from a start on, or all of them; and the state of the file."""
    what, where = of
    start, count = span
    try:
        with open(path, "rb", opener=_plain) as file:
            found = os.fstat(file.fileno())
            size = found.st_size
            count = max(0, size - start) if count is None else count
            if start + count > size:
                message = (
                    f"{what} wants {count} bytes from {start} on of {location!r}, which has {size}"
                )
                hint = "copy or download that file again"
                raise UserError("MC0134", message, hint=hint, where=where)
            if count >= _MAPPED:
                return map_data(file, start, count), found
            file.seek(start)
            return np.frombuffer(file.read(count), np.uint8), found
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        message = f"{what} keeps its data in {location!r}, which can't be read: {reason}"
        hint = "copy or download that file too, beside the model"
        raise UserError("MC0133", message, hint=hint, where=where) from None


def _plain(path: str, flags: int) -> int:
    """Open a plain file: no link, and nothing that waits as a pipe does."""
    careful = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
    number = os.open(path, flags | careful)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError("it is no plain file")
    return number
