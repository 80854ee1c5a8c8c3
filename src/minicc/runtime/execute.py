"""Run native programs.

Arenas and tables of addresses, a set for each caller that is inside; thread teams serve all.

Mirrors: IREE's HAL command buffers on a local task system, ORT's IO binding, reduced to one call.
Unlike IREE's, nothing is recorded or submitted; the call returns when all is done.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from weakref import WeakValueDictionary

import numpy as np

from minicc.backends.base import Image
from minicc.backends.layout import ARENA, BARRIER, FIRST, STATUS, Check, Layout, clean_status
from minicc.errors import UserError
from minicc.ir.arrays import Array, aligned, empty, is_aligned
from minicc.ir.indices import out_of_range
from minicc.ir.mapped import changes, copy
from minicc.limits import no_memory
from minicc.runtime.image import load
from minicc.runtime.threads import close_idle, give_team, take_team

# points of all iteration spaces; below that a second thread costs more than it brings
_ALONE = 200_000


# Constants of all executables by their type and a sample of their bytes: specialisations of one
# model have weights in common.
_constants: WeakValueDictionary[tuple[object, ...], Array] = WeakValueDictionary()
_SAMPLE = 4096


def place_constants(arrays: Sequence[Array]) -> tuple[list[Array], list[int]]:
    """The arrays at aligned addresses, and those addresses.

    They are copied where they are not aligned or lie in a model's file, and shared with other
    executables' that are equal.
    """
    placed = [_placed(a) for a in arrays]
    return placed, [a.ctypes.data for a in placed]


def _placed(array: Array) -> Array:
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    key = (array.shape, array.dtype.str, raw[:_SAMPLE].tobytes(), raw[-_SAMPLE:].tobytes())
    known = _constants.get(key)
    if known is not None and np.array_equal(known.reshape(-1).view(np.uint8), raw):
        return known
    if not is_aligned(array) or changes(array):
        placed = aligned(max(1, array.nbytes))[: array.nbytes]
        copy([(placed, raw)], raw)
        array = placed.view(array.dtype).reshape(array.shape)
    if array.nbytes > _SAMPLE:
        _constants[key] = array
    return array


class _Context:
    """What one run needs for itself: an arena, a table, and the words that checks leave."""

    __slots__ = ("arena", "status", "table")

    def __init__(self, arena: int, count: int, constants: Sequence[int], checks: int) -> None:
        self.arena = aligned(max(1, arena))
        self.table = (ctypes.c_void_p * (FIRST + count + len(constants)))()
        self.table[ARENA] = self.arena.ctypes.data
        self.status = clean_status(checks)
        self.table[STATUS] = self.status.ctypes.data
        for k, address in enumerate(constants):
            self.table[FIRST + count + k] = address


def _failure(context: _Context, checks: Sequence[Check]) -> UserError | None:
    """The first check of a run that failed, as an error; the words are as before the run then."""
    (failed,) = context.status[:, 0].nonzero()
    if not failed.size:
        return None
    check = checks[failed[0]]
    index = int(context.status[failed[0], 1])
    context.status[:] = clean_status(len(checks))
    return UserError("MC0158", out_of_range(index, check.extent), where=check.where)


class NativeExecutable:
    """A native program with its constants in memory; implements `backends.base.Executable`."""

    def __init__(self, image: Image, layout: Layout, threads: int) -> None:
        self._library = load(image)
        self._main = self._library["main"]
        self._arena, self._outputs, self._checks = layout.arena, layout.outputs, layout.checks
        self._count = len(layout.inputs) + len(layout.outputs)
        self.threads = threads if layout.work > _ALONE else 1
        self._arrays, self._constants = place_constants(layout.constants)
        self._free: list[_Context] = []

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs for C-contiguous inputs of the expected types; allocates the outputs.

        UserError where an index among the data is out of range.
        """
        try:
            try:
                context = self._free.pop()
            except IndexError:
                context = _Context(self._arena, self._count, self._constants, len(self._checks))
            outputs = [empty(t.extents, t.dtype.numpy) for t in self._outputs]
        except MemoryError:
            raise no_memory("the outputs and the values in between") from None
        table = context.table
        for k, array in enumerate((*inputs, *outputs)):
            table[FIRST + k] = array.ctypes.data
        team = take_team(self.threads, self._library)
        table[BARRIER] = team.barrier
        try:
            team.run(self._main, ctypes.addressof(table))
        finally:
            give_team(team)
        failure = _failure(context, self._checks) if self._checks else None
        self._free.append(context)
        if failure is not None:
            raise failure
        return outputs

    def close(self) -> None:
        """Forget the memory of runs, and end the threads that wait for one."""
        self._free.clear()
        close_idle(self.threads)
