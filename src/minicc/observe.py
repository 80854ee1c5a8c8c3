"""What happens between stages: printing, dumping, verifying, timing.

An `Observer` is called behind each stage with the module before and after. A dump is a folder of
numbered files, one a stage, each headed by what the stage does and what it mirrors, with the
constants beside them in one archive; any of the files can be parsed, verified, run, edited and
resumed from.

Mirrors: MLIR's print-ir-after and IREE's dump-compilation-phases-to, Halide's lowering logger with
its "(unchanged)", TVM's DumpIR and PassTimingInstrument.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from minicc.errors import UserError
from minicc.ir import dialects
from minicc.ir.core import Array, Module, same_module
from minicc.ir.parser import parse_module
from minicc.ir.printer import print_module, resources
from minicc.ir.verify import verify

CONSTANTS = "constants.npz"
assert dialects.DIALECTS  # parsing below needs their ops


class StageLike(Protocol):
    """What is asked of a stage here."""

    @property
    def name(self) -> str: ...
    @property
    def sentence(self) -> str: ...
    @property
    def level(self) -> str: ...


class Observer:
    """Prints, dumps, verifies and times stages as asked.

    `after`: a stage's name, "all", "changed" or None; `folder`: where to dump; `write`: where text
    goes; `mirrors`: what a stage mirrors, for the heads of files.
    """

    def __init__(
        self,
        write: Callable[[str], object],
        after: str | None = None,
        folder: Path | None = None,
        check: bool = False,
        mirrors: Callable[[Any], str] = lambda stage: "",
    ) -> None:
        self._write = write
        self._after = after
        self._folder = folder
        self._check = check
        self._mirrors = mirrors
        self._number = 0
        self._constants: dict[str, Array] = {}
        self.seconds: list[tuple[str, float]] = []

    def __call__(self, stage: StageLike, before: Module, after: Module, seconds: float) -> None:
        """Look at one stage."""
        self.seconds.append((stage.name, seconds))
        self._number += 1
        if self._check:
            verify(after)
        changed = before is not after and not same_module(before, after)
        if self._after in ("all", "changed", stage.name):
            if changed or self._after == stage.name:
                self._write(f"// behind {stage.name}: {stage.sentence}\n{print_module(after)}")
            elif self._after == "all":
                self._write(f"// behind {stage.name}: {stage.sentence} (unchanged)\n")
        if self._folder is not None:
            self._dump(self._folder, stage, after)

    def _dump(self, folder: Path, stage: StageLike, module: Module) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        known = len(self._constants)
        self._constants.update(resources(module))
        if len(self._constants) != known:
            write_constants(folder / CONSTANTS, self._constants)
        head = [f"// stage {stage.name}: {stage.sentence}", f"// mirrors {self._mirrors(stage)}"]
        text = "\n".join([*head, "", print_module(module)])
        write_beside(folder / f"{self._number:02d}-{stage.name}.mcc", text.encode())


def write_beside(path: Path, content: bytes) -> None:
    """Write a file under another name beside its target, then rename it.

    It is there whole or not at all.
    """
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UserError("MC0144", f"can't write {path}: {error.strerror}") from error


def write_constants(path: Path, arrays: dict[str, Array]) -> None:
    """An archive of arrays by digest, written beside its target and renamed."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def load_dump(path: Path) -> tuple[str, Module]:
    """The stage that a dumped file stands behind, and its module, verified.

    UserError where the file or its head can't be read, with line and column where its text is
    wrong.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError("MC0145", f"can't read {path}: {error}") from error
    first = text.partition("\n")[0]
    if not first.startswith("// stage "):
        raise UserError(
            "MC0146",
            f"{path} does not begin with `// stage NAME:`",
            hint="resume from a file that --dump wrote",
        )
    arrays: dict[str, Array] = {}
    beside = path.parent / CONSTANTS
    if beside.exists():
        with np.load(beside) as stored:
            arrays = {name: stored[name] for name in stored.files}
    module = parse_module(text, arrays, source=str(path))
    verify(module)
    return first.removeprefix("// stage ").partition(":")[0], module
