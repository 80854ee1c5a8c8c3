"""The contract of a backend: a module of the program level in, something that runs out.

Mirrors: Triton's BaseBackend, IREE's HAL executables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

# (kind, text that determines the content, how to make it) -> content, kept between processes
Store = Callable[[str, str, Callable[[], bytes]], bytes]


def no_store(kind: str, text: str, make: Callable[[], bytes]) -> bytes:
    """A store that keeps nothing."""
    return make()


class Executable(Protocol):
    """A compiled program. May be entered from several Python threads at once."""

    def run(self, inputs: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        """The outputs for C-contiguous inputs of the expected types, in the order of `main`."""
        ...

    def fits(self, shapes: Sequence[tuple[int, ...]]) -> bool:
        """Whether the program is for inputs of these shapes."""
        ...

    def close(self) -> None:
        """End the threads that wait for a run; a later run starts them again."""
        ...
