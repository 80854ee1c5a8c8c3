"""What stands where in the table of a native program, and what the memory around it must hold.

That is all that the runtime knows of a program beside its machine code. This module imports nothing
of the compiler, since what opens a program from a file imports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from minicc.ir.arrays import Array
from minicc.ir.types import BufferType, TensorType

if TYPE_CHECKING:
    from minicc.ir.affine import Dim

# slots of the table: seven of its own, the sizes, main's arguments, the constants in their order;
# of the seven, three are for who calls main: its address, which slot is the first argument's, and
# whether a run is so short that Python waits for it
ARENA, TEAM, STATUS, WATCH, MAIN, ARRAYS, BRIEF, FIRST = range(8)
WORDS = 2  # of a check in the status: whether it failed, the least index
_NONE = np.iinfo(np.int64).max


class Check(NamedTuple):
    """A check of a launch: the nodes that it is for, and the extent that indices stay below."""

    where: tuple[str, ...]
    extent: Dim


class Layout(NamedTuple):
    """The free dimensions, the memory that a run needs, types of arguments, checks, constants.

    `sizes` are the free dimensions that the table says, `derived` what is computed of them, and
    `guards` pairs that must be equal. `work` counts the points of all iteration spaces, and
    `shares` says whether threads share any of these. `checks` are those whose words are in the
    status, in the order of these. `watched` are the nodes of each loop that asks the table's
    function, by its place among these, whether to go on. `donated` are inputs, each with the output
    in whose memory it must lie.
    """

    sizes: tuple[str, ...]
    derived: tuple[tuple[str, Dim], ...]
    guards: tuple[tuple[Dim, Dim], ...]
    arena: Dim
    scratch: Dim
    inputs: tuple[BufferType | TensorType, ...]
    outputs: tuple[BufferType | TensorType, ...]
    work: Dim
    shares: bool
    checks: tuple[Check, ...]
    watched: tuple[tuple[str, ...], ...]
    donated: tuple[tuple[int, int], ...]
    constants: tuple[Array, ...]


def clean_status(checks: int) -> Array:
    """The words of a run in which nothing failed yet, a row a check."""
    return np.tile(np.array([0, _NONE], np.int64), (checks, 1))
