"""The contract of a backend: a module of the program level in, an image out, and what runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

from minicc.backends.layout import Layout
from minicc.ir.arrays import Code

if TYPE_CHECKING:
    from minicc.ir.core import Function, Module
    from minicc.options import Flushed
    from minicc.target import Target


class Store(Protocol):
    """What keeps code, under its kind and the text that determines it."""

    def get(self, kind: str, text: str) -> bytes | None:
        """What was put there; None where nothing was."""
        ...

    def put(self, kind: str, text: str, code: bytes) -> None:
        """Keep code."""
        ...


class MemoryStore:
    """A store that lasts as long as whoever has it."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], bytes] = {}

    def get(self, kind: str, text: str) -> bytes | None:
        """See `Store`."""
        return self._kept.get((kind, text))

    def put(self, kind: str, text: str, code: bytes) -> None:
        """See `Store`."""
        self._kept[kind, text] = code


# What images may call outside of themselves: functions of the C library that compute nothing but
# their result, the system call in which threads wait, and what CPython's built-in functions need.
OUTSIDE = (
    *("memcpy", "memmove", "memset", "syscall"),
    *("PyEval_SaveThread", "PyEval_RestoreThread", "Py_IncRef", "Py_DecRef", "PyErr_Clear"),
    *("PyContextVar_Get", "PyDict_GetItem", "PyList_New", "PyLong_AsLongLongAndOverflow"),
    *("PyObject_CallNoArgs", "PyObject_GetAttr"),
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


class Compiling(Protocol):
    """A program for a target that is being compiled; it is closed at the end of a `with` block."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: object, *_: object) -> None: ...

    def begin(self, kernels: Sequence[Function]) -> None:
        """Begin with kernels as the program will have them, under names of its own.

        Those that may differ in numbers alone are given together. What is not given is compiled
        with the program.
        """
        ...

    def program(self, module: Module, settled: Callable[[], None]) -> Native:
        """Machine code of a program, with that of the runtime.

        `settled` returns when the program's constants are where they stay, and is called before
        their arrays are asked for.
        """
        ...


class Backend(Protocol):
    """What compiles programs of the last level for a target.

    `runtime.execute` makes an `Executable` of what it gives, in this process or, from a file, in
    another.
    """

    def __call__(
        self, target: Target, flushed: Flushed, runtime: RuntimeCode, store: Store
    ) -> Compiling:
        """Begin a program, with that of the runtime; `store` keeps objects."""
        ...


class Executable(Code, Protocol):
    """A compiled program. May be entered from several Python threads at once."""

    def fits(self, shapes: Sequence[tuple[int, ...]]) -> bool:
        """Whether the program is for inputs of these shapes."""
        ...

    def guards(self) -> list[str]:
        """What must be equal of the sizes of inputs for the program to be for them."""
        ...

    def is_shared(self) -> bool:
        """Whether threads may share any of its launches, at some sizes."""
        ...

    def close(self) -> None:
        """End the threads that wait for a run; a later run starts them again."""
        ...
