"""Indices that are data: counted from the end where negative, and checked against an extent.

Every level reads an index that way: the ops of graph, generics that read an operand at one, and
`kernel.check`.
"""

from __future__ import annotations

import numpy as np

from minicc.ir.arrays import Array


class OutOfRange(IndexError):
    """Indices that leave an extent: the least of them, the extent, and the locations of the op."""

    def __init__(self, index: int, extent: int, where: tuple[str, ...]) -> None:
        super().__init__(f"{out_of_range(index, extent)} at {', '.join(where)}")
        self.index = index
        self.extent = extent
        self.where = where


def out_of_range(index: int, extent: int) -> str:
    """What is wrong, in words."""
    return f"index {index} leaves an extent of {extent}"


def counted(indices: Array, extent: int, where: tuple[str, ...]) -> Array:
    """The indices counted from the front; OutOfRange where one is not in -extent .. extent-1."""
    bad = (indices < -extent) | (indices >= extent)
    if bad.any():
        raise OutOfRange(int(indices[bad].min()), extent, where)
    places = indices.astype(np.int64)
    return np.where(places < 0, places + extent, places)
