"""What happens between stages: printing, dumping, verifying, timing.

An `Observer` is called after each stage with the module before and after. A dump is a folder of
numbered files, one a stage, each headed by what the stage does and what it mirrors, with the
constants beside them in one archive, named by their digests; any of the files can be parsed,
verified, run, edited and resumed from.
"""

from __future__ import annotations

import re
import secrets
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Protocol

import numpy as np

from minicc.errors import CompilerBug, UserError
from minicc.ir import dialects
from minicc.ir.core import Array, Module, same_module
from minicc.ir.text.parser import parse_module
from minicc.ir.text.printer import print_module, resources
from minicc.ir.verify import verify
from minicc.records import record_of

CONSTANTS = "constants.npz"
HEAD = "// stage "
assert dialects.DIALECTS  # parsing below needs their ops

_LOCATION = re.compile(r' loc\("(?:\\.|[^"\\])*"(?:, "(?:\\.|[^"\\])*")*\)$', re.MULTILINE)


class StageLike(Protocol):
    """What is asked of a stage here."""

    @property
    def name(self) -> str: ...
    @property
    def sentence(self) -> str: ...
    @property
    def level(self) -> str: ...
    @property
    def home(self) -> str: ...


class Observer:
    """Prints, dumps, verifies and times stages as asked.

    `after`: a stage's name, "all", "changed" or None; `folder`: where to dump; `write`: where text
    goes; `ran`: how many stages the module has been through already, so that files of a resumed run
    are numbered like those of a whole one; `notes`: what else the heads of files say, line by line.
    """

    def __init__(
        self,
        write: Callable[[str], object],
        after: str | None = None,
        folder: Path | None = None,
        check: bool = False,
        ran: int = 0,
        notes: Iterable[str] = (),
    ) -> None:
        self._write = write
        self._after = after
        self._folder = folder
        self._check = check
        self._notes = tuple(notes)
        self._number = ran
        # files of the stages before may lie in the same folder and need what its archive holds
        self._constants = read_arrays(folder / CONSTANTS) if folder is not None and ran else {}
        self.seconds: list[tuple[str, float]] = []

    def __call__(self, stage: StageLike, before: Module, after: Module, seconds: float) -> None:
        """Look at one stage."""
        self.seconds.append((stage.name, seconds))
        self._number += 1
        if self._after in ("all", "changed", stage.name):
            self._print(stage, before, after)
        if self._folder is not None:
            self._dump(self._folder, stage, after)
        # last, so that a module that is wrong can be looked at
        if self._check:
            try:
                verify(after)
            except CompilerBug as bug:
                bug.stage = bug.stage or stage.name
                raise

    def _print(self, stage: StageLike, before: Module, after: Module) -> None:
        title = f"// after {stage.name}: {stage.sentence}"
        head = record_of(stage.home).head()
        changed = before is not after and not same_module(before, after)
        if changed:
            self._write(f"{title}\n{head}{print_module(after)}")
        elif self._after == stage.name:
            self._write(f"{title} (unchanged)\n{head}{print_module(after)}")
        elif self._after == "all":
            self._write(f"{title} (unchanged)\n")

    def _dump(self, folder: Path, stage: StageLike, module: Module) -> None:
        make_folder(folder)
        known = len(self._constants)
        self._constants.update(resources(module))
        if len(self._constants) != known:
            write_arrays(folder / CONSTANTS, self._constants)
        text = headed(stage, module, self._notes)
        write_beside(folder / f"{self._number:02d}-{stage.name}.mcc", text.encode())


def headed(stage: StageLike, module: Module, notes: Iterable[str] = ()) -> str:
    """The text of a file that `load_dump` reads: a module, and the last stage it has been through.

    Its head also says what the stage mirrors; `notes` are further lines.
    """
    head = f"{HEAD}{stage.name}: {stage.sentence}\n{record_of(stage.home).head()}"
    return "".join([head, *(f"// {note}\n" for note in notes), "\n", print_module(module)])


def make_folder(path: Path) -> None:
    """Make a folder with those above it; UserError where that can't be done."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError("MC0144", f"can't make the folder {path}: {error.strerror}") from error


def write_beside(path: Path, content: bytes | Callable[[IO[bytes]], object]) -> None:
    """Write a file under another name beside its target, then rename it.

    It is there whole or not at all; a link stays, and so does what is no file, as a device or a
    pipe, which is written to. `content` may be a function that writes to an open file.
    """

    def fill(there: Path, mode: str) -> None:
        with open(there, mode) as file:
            if isinstance(content, bytes):
                file.write(content)
            else:
                content(file)

    try:
        target = path.resolve()
        if target.exists() and not target.is_file() and not target.is_dir():
            fill(target, "wb")
            return
        # not by tempfile, whose files nobody else may read
        beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        try:
            fill(beside, "xb")
            beside.replace(target)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UserError("MC0144", f"can't write {path}: {error.strerror}") from error


def write_text(path: Path, text: str, module: Module) -> None:
    """Write a module's text, with the arrays that it elides in FILE.npz beside it.

    A device or a pipe has no arrays beside it.
    """
    if (path.is_file() or not path.exists()) and (arrays := resources(module)):
        write_arrays(path.with_name(f"{path.name}.npz"), arrays)
    write_beside(path, text.encode())


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """An .npz of arrays by name, the same bytes for the same arrays."""

    # np.savez takes names as keywords, so that none could be called "file"
    def write(file: IO[bytes]) -> None:
        with zipfile.ZipFile(file, "w") as archive:
            for name, array in arrays.items():
                member = zipfile.ZipInfo(f"{name}.npy")
                with archive.open(member, "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)

    write_beside(path, write)


def read_arrays(path: Path) -> dict[str, Array]:
    """The arrays of an .npz by name, none where there is no file; UserError where it is broken."""
    if not path.exists():
        return {}
    try:
        with zipfile.ZipFile(path) as archive:
            return {name.removesuffix(".npy"): _array(archive, name) for name in archive.namelist()}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UserError("MC0145", f"can't read the arrays in {path}: {error}") from error


def _array(archive: zipfile.ZipFile, name: str) -> Array:
    with archive.open(name) as entry:
        return np.asarray(np.lib.format.read_array(entry, allow_pickle=False))


def load_dump(path: Path) -> tuple[str | None, Module]:
    """The stage that the first line of a file names, if it does, and the module, verified.

    Its arrays are in FILE.npz, or in the archive of its folder. UserError where the file can't be
    read, with line and column where its text is wrong.
    """
    text = _read(path)
    first = text.partition("\n")[0]
    stage = first.removeprefix(HEAD).partition(":")[0] if first.startswith(HEAD) else None
    return stage, _parsed(path, text)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError("MC0145", f"can't read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError("MC0145", f"can't read {path}: {error}") from error


def _parsed(path: Path, text: str) -> Module:
    own = path.with_name(f"{path.name}.npz")
    arrays = read_arrays(own if own.exists() else path.with_name(CONSTANTS))
    module = parse_module(text, arrays, source=str(path))
    if all(f.name != "main" for f in module.functions):
        raise UserError("MC0147", "no function is called @main", where=str(path))
    try:
        verify(module)
    except CompilerBug as bug:
        # who wrote the text is to act
        place = _place(path, text, arrays)
        raise UserError("MC0147", bug.message, where=place) from None
    return module


def _place(path: Path, text: str, arrays: Mapping[str, Array]) -> str:
    """Line and column of the op that the verifier refuses; the file alone where there is none."""
    # without its locations, an op's location is its line
    bare = _LOCATION.sub("", text)
    try:
        verify(parse_module(bare, arrays, source=""))
    except CompilerBug as bug:
        if bug.where:
            line = int(bug.where[0].removeprefix(":"))
            code = bare.split("\n")[line - 1]
            return f"{path}:{line}:{len(code) - len(code.lstrip()) + 1}"
    return str(path)
