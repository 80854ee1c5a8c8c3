"""The contract of a backend: a module of the program level in, an image out, and what runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from minicc.backends.layout import Layout
from minicc.ir.arrays import Code

if TYPE_CHECKING:
    from minicc.ir.core import Module
    from minicc.options import Flushed
    from minicc.target import Target

# (kind, text that determines the content, how to make it) -> content, kept between processes
Store = Callable[[str, str, Callable[[], bytes]], bytes]


# What images may call outside of themselves: functions of the C library that compute nothing but
# their result, the system call in which threads wait, and what CPython's built-in functions need.
OUTSIDE = (
    *("memcpy", "memmove", "memset", "syscall"),
    *("PyEval_SaveThread", "PyEval_RestoreThread", "Py_IncRef"),
    *("ceil", "ceilf", "floor", "floorf", "fmod", "fmodf", "rint", "rintf", "trunc", "truncf"),
)
TABLE_BYTES = 4096


class Image(NamedTuple):
    """Machine code and its constants, which run wherever they are in memory.

    Right before them is a table of `TABLE_BYTES`; its first words are the addresses of `outside`,
    functions by name. `symbols` are offsets into the code.
    """

    code: bytes
    symbols: dict[str, int]
    outside: tuple[str, ...]


class RuntimeCode(NamedTuple):
    """LLVM IR of what runs a program, in each image, and the functions of it that have a name."""

    text: str
    symbols: tuple[str, ...]


class Native(NamedTuple):
    """Machine code of a program with `main`, and what the table of `main` must hold."""

    image: Image
    layout: Layout


class Backend(Protocol):
    """A function that compiles programs of the last level for a target.

    `runtime.execute` makes an `Executable` of what it gives, in this process or, from a file, in
    another.
    """

    def __call__(
        self,
        module: Module,
        target: Target,
        flushed: Flushed,
        runtime: RuntimeCode,
        store: Store,
        settled: Callable[[], None],
    ) -> Native:
        """Machine code of a program, with that of the runtime; `store` keeps objects.

        `settled` returns when the program's constants are where they stay, and is called before
        their arrays are asked for.
        """
        ...


class Executable(Code, Protocol):
    """A compiled program. May be entered from several Python threads at once."""

    def fits(self, shapes: Sequence[tuple[int, ...]]) -> bool:
        """Whether the program is for inputs of these shapes."""
        ...

    def guards(self) -> list[str]:
        """What must be equal of the sizes of inputs for the program to be for them."""
        ...

    def close(self) -> None:
        """End the threads that wait for a run; a later run starts them again."""
        ...
