"""The state of one trace of a kernel: where ops go, which line is running, what indices mean."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import numpy as np

from minicc.errors import UserError, file_line
from minicc.ir import affine
from minicc.ir.affine import Dim
from minicc.ir.build import Builder
from minicc.ir.core import Op, Value
from minicc.ir.kernel import Alloc, Load
from minicc.ir.types import INDEX_TYPE, BufferType

_OURS = tuple(f"{home}{os.sep}" for home in (Path(__file__).parents[3], Path(np.__file__).parent))
_CURRENT: ContextVar[Recording] = ContextVar("recording")


def caller() -> FrameType | None:
    """The nearest frame that runs neither minicc's code nor NumPy's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return frame


def line() -> str:
    """`file.py:line` of the user's line that is running."""
    frame = caller()
    if frame is None:
        return "kernel"
    return file_line(frame.f_code.co_filename, frame.f_lineno)


def wrong(code: str, message: str, hint: str = "") -> NoReturn:
    """Raise UserError at the user's line."""
    raise UserError(code, message, hint=hint, where=line())


class Scope:
    """The ops of a region that is being recorded; when it is closed nobody can use its values."""

    __slots__ = ("b", "closed")

    def __init__(self) -> None:
        self.b = Builder(("",))
        self.closed = False


class Recording:
    """One trace of a kernel.

    `grid` are its axes. `indices` are the numbers that are known only when an instance runs, by the
    symbols that mean them; `loads` are the loads by what they gave, with how often their buffer had
    been written to till then.
    """

    def __init__(self, grid: Sequence[Dim]) -> None:
        self.grid = tuple(grid)
        self.scopes = [Scope()]
        self.allocs: list[Op] = []
        self.indices: dict[str, Value] = {}
        self.axes = [self.index(f"p{k}") for k in range(len(grid))]
        self.loads: dict[Value, tuple[Load, Scope | None, int]] = {}
        self.writes: dict[Value, int] = {}
        self._count = 0

    @property
    def scope(self) -> Scope:
        """The innermost region."""
        return self.scopes[-1]

    def index(self, name: str) -> Value:
        """A number that an instance knows, under a symbol of that name."""
        value = self.indices[name] = Value(INDEX_TYPE, name)
        return value

    def fresh(self, value: Value | None = None) -> str:
        """A new symbol, which means that value, or one of its own."""
        self._count += 1
        name = f"x{self._count}"
        self.indices[name] = value or Value(INDEX_TYPE, "")
        return name

    def emit(self, cls: type[Op], *args: Any, **attrs: Any) -> Value:
        """Record an op with one result; UserError (MC0191) where its type rule refuses it."""
        return self.add(cls, *args, **attrs).result

    def add(self, cls: type[Op], *args: Any, **attrs: Any) -> Op:
        """Record an op; UserError (MC0191) where its type rule refuses it."""
        here = line()
        try:
            op = cls(*args, loc=(here,), **attrs)
        except (TypeError, ValueError) as error:
            raise UserError("MC0191", str(error), where=here) from None
        self.scope.b.add(op)
        return op

    def scratch(self, type: BufferType) -> Value:
        """Memory of the instance, allocated before all else."""
        op = Alloc(type=type, loc=(line(),))
        self.allocs.append(op)
        return op.result

    def addressed(self, dims: Sequence[Dim]) -> tuple[tuple[Value, ...], list[Dim]]:
        """The indices that expressions use, and the expressions over i0, i1, ... for these."""
        used = dict.fromkeys(n for e in dims for n in sorted(affine.symbols(e)))
        names = [n for n in used if n in self.indices]
        gone = [n for n in used if n not in self.indices and n[0] in "px"]
        if gone:
            wrong("MC0192", "the number of a round is used after its loop")
        places: dict[str, Dim] = {n: affine.symbol(f"i{k}") for k, n in enumerate(names)}
        values = tuple(self.indices[n] for n in names)
        return values, [affine.substitute(e, places) for e in dims]


def current() -> Recording:
    """The kernel that is being traced; UserError (MC0190) where none is."""
    recording = _CURRENT.get(None)
    if recording is None:
        hint = "call it in a function under @minicc.kernel"
        wrong("MC0190", "the language of tiles is used outside of a kernel", hint)
    return recording


@contextmanager
def recorded(recording: Recording) -> Iterator[None]:
    """A block in which that kernel is traced."""
    token = _CURRENT.set(recording)
    try:
        yield
    finally:
        _CURRENT.reset(token)
