"""Run native programs.

Arenas, tables of addresses and thread teams, a set for each caller that is inside.

Mirrors: IREE's HAL command buffers on a local task system, ORT's IO binding, reduced to one call.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence

import numpy as np

from minicc.backends.llvm.compile import Native
from minicc.backends.llvm.jit import Library
from minicc.backends.llvm.program import ARENA, BARRIER, FIRST
from minicc.ir.arrays import Array, aligned, empty, is_aligned
from minicc.runtime.threads import Team


def place_constants(arrays: Sequence[Array]) -> tuple[list[Array], list[int]]:
    """The arrays at aligned addresses, copied where they are not, and those addresses."""
    placed: list[Array] = []
    for a in arrays:
        if not is_aligned(a):
            copy = aligned(max(1, a.nbytes))
            copy[: a.nbytes] = np.ascontiguousarray(a).reshape(-1).view(np.uint8)
            a = copy
        placed.append(a)
    return placed, [a.ctypes.data for a in placed]


class _Context:
    """What one run needs for itself: an arena, a table and a team."""

    __slots__ = ("arena", "table", "team")

    def __init__(
        self, native: Native, constants: Sequence[int], threads: int, library: Library | None
    ) -> None:
        layout = native.layout
        self.team = Team(threads, library)
        self.arena = aligned(max(1, layout.arena))
        count = len(layout.inputs) + len(layout.outputs)
        self.table = (ctypes.c_void_p * (FIRST + count + len(constants)))()
        self.table[ARENA] = self.arena.ctypes.data
        self.table[BARRIER] = self.team.barrier
        for k, address in enumerate(constants):
            self.table[FIRST + count + k] = address


class NativeExecutable:
    """A native program with its constants in memory; implements `backends.base.Executable`."""

    def __init__(self, native: Native, threads: int, library: Library | None = None) -> None:
        self.native = native
        self.threads = threads
        self.library = library
        self._arrays, self._constants = place_constants([c.array for c in native.layout.constants])
        self._free: list[_Context] = []
        self._lock = threading.Lock()

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs for C-contiguous inputs of the expected types; allocates the outputs."""
        with self._lock:
            context = self._free.pop() if self._free else None
        if context is None:
            context = _Context(self.native, self._constants, self.threads, self.library)
        layout = self.native.layout
        outputs = [empty(t.extents, t.dtype.numpy) for t in layout.outputs]
        table = context.table
        for k, array in enumerate((*inputs, *outputs)):
            table[FIRST + k] = array.ctypes.data
        context.team.run(self.native.main, ctypes.addressof(table))
        with self._lock:
            self._free.append(context)
        return outputs

    def close(self) -> None:
        """End the threads of all idle teams."""
        with self._lock:
            for context in self._free:
                context.team.close()
            self._free.clear()
