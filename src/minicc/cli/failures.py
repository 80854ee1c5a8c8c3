"""How a command ends that fails: a text or JSON, and where a bug's full text is kept."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from typing import Any

from minicc.errors import CompilerBug, MiniccError, UserError
from minicc.limits import no_memory
from minicc.version import VERSION

_MOST_MARKED = 8


def as_minicc_error(error: Exception) -> MiniccError:
    """The error itself, a user's for what a system call refused, else a bug."""
    if isinstance(error, MiniccError):
        return error
    if isinstance(error, OSError) and error.strerror:
        place = f" {error.filename}" if error.filename else ""
        return UserError("MC0156", f"can't use the file{place}: {error.strerror}")
    if isinstance(error, MemoryError):
        return no_memory("this command")
    bug = CompilerBug("MC0308", f"{type(error).__name__}: {error}")
    bug.__cause__ = error
    return bug


def told(error: MiniccError) -> str:
    """What a person reads; a bug's long parts are in a file that the text names."""
    if not isinstance(error, CompilerBug):
        return str(error)
    path = _kept(error)
    if path is None:
        return full_text(error)
    short = str(error).removesuffix(f"\n{error.ir}")
    marked = [line for line in error.ir.splitlines() if line.startswith(">>>")]
    shown = marked[:_MOST_MARKED] + ["..."] * (len(marked) > _MOST_MARKED)
    return "\n".join([short, *shown, f"  full text: {path}"])


def as_json_object(error: MiniccError) -> dict[str, Any]:
    """What a program reads: code, kind, message, hint, the places, and the single problems."""
    found: dict[str, Any] = {
        "code": error.code,
        "kind": error.kind,
        "message": error.message,
        "hint": error.hint,
        "where": list(error.where),
    }
    if len(error.parts) > 1:
        found["problems"] = [as_json_object(part) for part in error.parts]
    if isinstance(error, CompilerBug):
        found["full_text"] = _kept(error)
    return found


def _kept(error: CompilerBug) -> str | None:
    """The file in which all of a bug's text is; None where none can be written."""
    try:
        handle, path = tempfile.mkstemp(prefix="minicc-bug-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(full_text(error))
    except OSError:
        return None
    return path


def full_text(error: CompilerBug) -> str:
    """All that a report of a bug should hold: versions, the command, the calls, and the error."""
    head = f"minicc {VERSION}, Python {sys.version.split()[0]}, {sys.platform}"
    command = " ".join(["minicc", *sys.argv[1:]])
    calls = "".join(traceback.format_exception(error))
    return f"{head}\n{command}\n\n{calls}"
