"""The three kinds of error and a collector that reports many at once.

Who is to act tells the kinds apart, as in rustc (error, unstable feature, internal compiler
error): the user (`UserError`), the user by another way (`UnsupportedError`), us (`CompilerBug`).
A code (`MC0xxx`) is stable, so that it may be searched for and tested against; a text may change.
Codes: MC01xx a user's, MC02xx not supported, MC03xx bugs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from os.path import basename


@lru_cache(maxsize=1024)
def file_line(file: str, line: int) -> str:
    """A line of a user's file as errors name it: `file.py:line`."""
    return f"{basename(file)}:{line}"


class MiniccError(Exception):
    """Anything that minicc raises on purpose; its `str()` is meant to be read as it stands.

    `hint` says what would work; `where` names ONNX nodes or `file:line` places. `parts` are the
    single problems, where several were gathered (see `Problems`), else the error itself.
    """

    kind = "error"

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str = "",
        where: str | Iterable[str] = (),
    ) -> None:
        if not (len(code) == 6 and code.startswith("MC") and code[2:].isdigit()):
            raise ValueError(f"an error's code reads MC and four digits, not {code!r}")
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.hint = hint
        self.where = (where,) if isinstance(where, str) else tuple(where)
        self._parts: tuple[MiniccError, ...] = ()

    @property
    def parts(self) -> tuple[MiniccError, ...]:
        """The single problems in the order found; the error itself where it is a single one."""
        return self._parts or (self,)

    def __str__(self) -> str:
        if self._parts:
            texts = [str(part).replace("\n", "\n   ") for part in self._parts]
            numbered = (f"{i}. {text}" for i, text in enumerate(texts, 1))
            return "\n".join([f"{len(texts)} problems", *numbered])
        lines = [f"{self.code} {self.kind}: {self.message}"]
        if self.where:
            lines.append(f"  at: {_places(self.where)}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class UserError(MiniccError):
    """The program, the model, an input or an option is wrong; the user can put it right."""


class UnsupportedError(MiniccError):
    """A valid program that minicc does not compile; the hint says what to do instead."""

    kind = "not supported"


class CompilerBug(MiniccError):
    """minicc broke a rule of its own: nothing that the user does should be able to raise it.

    `stage` names the step of the compiler and `ir` is its text with the guilty op marked.
    """

    kind = "bug in minicc"

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str = "please report it with the text below and the model",
        where: str | Iterable[str] = (),
        stage: str = "",
        ir: str = "",
    ) -> None:
        super().__init__(code, message, hint=hint, where=where)
        self.stage = stage
        self.ir = ir

    def __str__(self) -> str:
        if self._parts:
            return super().__str__()
        text = super().__str__()
        if self.stage:
            text += f"\n  stage: {self.stage}"
        return f"{text}\n{self.ir}" if self.ir else text


class PerformanceWarning(UserWarning):
    """What is right, but slower than it might be."""


class Problems:
    """Gathers errors, so that all the problems of a model are reported in one.

    A problem met at many nodes (same kind, code, message and hint) is kept once, with all places.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[type, str, str, str], MiniccError] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[MiniccError]:
        return iter(self._found.values())

    def add(self, error: MiniccError) -> None:
        """Keep `error` for later."""
        for part in error.parts:
            key = (type(part), part.code, part.message, part.hint)
            known = self._found.setdefault(key, part)
            if known is not part:
                known.where = tuple(dict.fromkeys(known.where + part.where))

    @contextmanager
    def catch(self) -> Iterator[None]:
        """A block whose errors are kept; a `CompilerBug` passes, for what follows can't be true."""
        try:
            yield
        except (UserError, UnsupportedError) as error:
            self.add(error)

    def check(self) -> None:
        """Raise what was gathered, if anything was.

        One problem is raised as it is. Several become one error with the kind and the code of the
        gravest: a bug before a user's error before what is not supported, then the first found.
        """
        found = tuple(self._found.values())
        if not found:
            return
        if len(found) == 1:
            raise found[0]
        gravest = next(
            error
            for kind in (CompilerBug, UserError, UnsupportedError, MiniccError)
            for error in found
            if isinstance(error, kind)
        )
        where = dict.fromkeys(place for error in found for place in error.where)
        together = type(gravest)(gravest.code, gravest.message, hint=gravest.hint, where=where)
        together._parts = found
        raise together


def did_you_mean(word: str, known: Iterable[str], most: int = 1, cutoff: float = 0.6) -> str:
    """The question whether what is nearest to a word is meant; "" where nothing is near."""
    import difflib  # only errors need it

    near = difflib.get_close_matches(word, list(known), most, cutoff)
    return f"did you mean {' or '.join(near)}?" if near else ""


def _places(where: tuple[str, ...], most: int = 8) -> str:
    """The places in one line; the end of a long list is counted, not named."""
    shown = ", ".join(where[:most])
    return shown if len(where) <= most else f"{shown} and {len(where) - most} more"
