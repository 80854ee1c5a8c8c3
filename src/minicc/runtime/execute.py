"""Run native programs.

Arenas and tables of addresses, a set for each caller that is inside; thread teams serve all.

Mirrors: IREE's HAL command buffers on a local task system, ORT's IO binding, reduced to one call.
Unlike IREE's, nothing is recorded or submitted; the call returns when all is done.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from minicc.backends.llvm.compile import Native
from minicc.backends.llvm.jit import Library
from minicc.backends.llvm.program import ARENA, BARRIER, FIRST
from minicc.ir.arrays import Array, aligned, empty, is_aligned
from minicc.runtime.threads import close_idle, give_team, take_team

# points of all iteration spaces; below that a second thread costs more than it brings
_ALONE = 200_000


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
    """What one run needs for itself: an arena and a table."""

    __slots__ = ("arena", "table")

    def __init__(self, native: Native, constants: Sequence[int]) -> None:
        layout = native.layout
        self.arena = aligned(max(1, layout.arena))
        count = len(layout.inputs) + len(layout.outputs)
        self.table = (ctypes.c_void_p * (FIRST + count + len(constants)))()
        self.table[ARENA] = self.arena.ctypes.data
        for k, address in enumerate(constants):
            self.table[FIRST + count + k] = address


class NativeExecutable:
    """A native program with its constants in memory; implements `backends.base.Executable`."""

    def __init__(self, native: Native, threads: int, library: Library | None = None) -> None:
        self.native = native
        self.threads = threads if native.layout.work > _ALONE else 1
        self.library = library
        self._arrays, self._constants = place_constants([c.array for c in native.layout.constants])
        self._free: list[_Context] = []

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs for C-contiguous inputs of the expected types; allocates the outputs."""
        try:
            context = self._free.pop()
        except IndexError:
            context = _Context(self.native, self._constants)
        layout = self.native.layout
        outputs = [empty(t.extents, t.dtype.numpy) for t in layout.outputs]
        table = context.table
        for k, array in enumerate((*inputs, *outputs)):
            table[FIRST + k] = array.ctypes.data
        team = take_team(self.threads, self.library)
        table[BARRIER] = team.barrier
        try:
            team.run(self.native.main, ctypes.addressof(table))
        finally:
            give_team(team)
        self._free.append(context)
        return outputs

    def close(self) -> None:
        """Forget the memory of runs, and end the threads that wait for one."""
        self._free.clear()
        close_idle(self.threads)
