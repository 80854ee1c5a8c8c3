"""How arrays lie in memory: strides, the order of axes, and gaps between elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from minicc.ir.core import Array


class Shown:
    """How an array is seen: of an argument or of what was computed, through NumPy's own views."""

    __slots__ = ("keys", "moves", "of_argument")

    def __init__(
        self, of_argument: bool, keys: Sequence[Any], moves: Sequence[Callable[[Array], Array]]
    ) -> None:
        self.of_argument = of_argument
        self.keys = tuple(keys)
        self.moves = tuple(moves)

    def of(self, array: Array) -> Array:
        """The view of an array."""
        for move in self.moves:
            array = move(array)
        return array

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shown) and (self.of_argument, str(self.keys)) == (
            other.of_argument,
            str(other.keys),
        )

    def __hash__(self) -> int:
        return hash(str(self.keys))


ROWS = Shown(False, ("rows",), (np.ascontiguousarray,))


def laid(shape: Sequence[int], dtype: Any, strides: Sequence[int]) -> Array:
    """Zeros whose elements lie so far from each other."""
    reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)] if 0 not in shape else []
    low = sum(r for r in reach if r < 0)
    high = sum(r for r in reach if r > 0) + dtype.itemsize
    return np.ndarray(shape, dtype, np.zeros(high - low, np.uint8), -low, strides)


def spread(strides: tuple[int, ...]) -> Shown:
    """Have an array copied to where its elements lie so far from each other."""
    return Shown(False, ("strides", strides), (partial(_spread, strides),))


def _spread(strides: tuple[int, ...], array: Array) -> Array:
    if array.strides == strides:
        return array
    made = laid(array.shape, array.dtype, strides)
    made[...] = array
    return made


def order_of(like: Array) -> tuple[int, ...]:
    """The axes of an array from the widest stride to the least."""
    return tuple(sorted(range(like.ndim), key=lambda k: (-abs(like.strides[k]), k)))


def lies_by_rows(like: Array) -> bool:
    """Whether it lies row by row, if need be with gaps between elements and rows."""
    steps = [s for n, s in zip(like.shape, like.strides, strict=True) if n > 1]
    return like.flags.c_contiguous or all(a > b for a, b in pairwise([*steps, 0]))


def has_gaps(like: Array) -> bool:
    """Whether its elements lie otherwise than one beside the other, in any order of axes."""
    return not (like.flags.c_contiguous or like.transpose(order_of(like)).flags.c_contiguous)


def without_gaps(like: Array) -> tuple[int, ...]:
    """The strides of an array whose axes lie in the same order; what is repeated stays so."""
    steps, step = [0] * like.ndim, like.itemsize
    for k in reversed(order_of(like)):
        if like.strides[k] or like.shape[k] < 2:
            steps[k] = step
            step *= max(like.shape[k], 1)
    return tuple(steps)


def memory_of(array: Array) -> Array | None:
    """The plain array, all in one piece, whose memory an array with axes shows; None without one.

    NumPy's strided views have an object between them and what they show.
    """
    memory: Any = array
    while getattr(memory, "base", None) is not None:
        memory = memory.base
    if type(memory) is not np.ndarray or not array.ndim:
        return None
    return memory if memory.flags.c_contiguous or memory.flags.f_contiguous else None


def within(memory: Array, array: Array) -> Shown:
    """Have an array's place in its memory seen in another one, whose elements lie in one line."""
    start = array.ctypes.data - memory.ctypes.data
    place = array.shape, array.dtype.str, start, array.strides, array.flags.writeable
    return Shown(False, ("within", *place), (partial(_within, *place),))


def _within(
    shape: tuple[int, ...],
    element: str,
    start: int,
    strides: tuple[int, ...],
    writeable: bool,
    memory: Array,
) -> Array:
    array: Array = np.ndarray(shape, element, memory, start, strides)
    array.flags.writeable = writeable
    return array
