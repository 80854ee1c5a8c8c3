"""Suppression of boxes that overlap better ones."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import numpy as np

from minicc.ir.core import Array, Op, RunRegion, Value
from minicc.ir.types import BOOL, F32, I64, TensorType

# Boxes that are compared with one another at once, and with those that are chosen already. Of
# fewer pairs that meet than one of so many the others are left out.
_BLOCK, _AHEAD, _SPARSE = 128, 1024, 8


class Suppress(Op, name="graph.suppress"):
    """Which boxes are chosen: those that no better one of their class overlaps too much.

    `boxes` (f32[4,n]) are the lower coordinates of both axes, then the upper ones. Those of a class
    (`kinds`: i64[n]) stand together, the best first. A box is suppressed where the area that it
    shares with one that is chosen is more than `limit` (f32) of what both cover, or where so many
    of its class are chosen as `most` (i64) says.
    """

    boxes: Value
    kinds: Value
    limit: Value
    most: Value

    def infer(self) -> tuple[TensorType, ...]:
        n = self.boxes.type.shape[-1] if self.boxes.type.rank == 2 else 0
        wanted = (
            TensorType(F32, (4, n)),
            TensorType(I64, (n,)),
            TensorType(F32, ()),
            TensorType(I64, ()),
        )
        given = tuple(v.type for v in self.operands)
        if given != wanted:
            raise TypeError(f"{self.opname} takes {wanted}, not {given}")
        return (TensorType(BOOL, (n,)),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (unsuppressed(*args),)


def unsuppressed(boxes: Array, kinds: Array, limit: Any, most: Any) -> Array:
    """Whether each box is chosen, as `graph.suppress` says.

    A block of boxes, of whichever classes, is compared at once; which of it clash with a box are
    the bits of a number. A class of more boxes than a block has blocks of its own after that, of
    what does not clash with those that it has already.
    """
    kept: list[int] = []
    at = stop = 0
    places, clashes = list[int](), list[int]()
    ends = np.flatnonzero(kinds[1:] != kinds[:-1]) + 1
    for end in [*ends.tolist(), len(kinds)]:
        mine: list[int] = []
        ahead = _BLOCK
        while at < end and len(mine) < most:
            if at >= stop:
                stop = min(at + ahead, end if mine else len(kinds))
                block = np.arange(at, stop)
                if mine:
                    lost = _clash(boxes[:, mine], boxes[:, at:stop], limit).any(axis=0)
                    block = block[~lost][:_BLOCK]
                    if len(block) == _BLOCK:
                        stop = int(block[-1]) + 1
                    elif 2 * len(block) < _BLOCK:
                        ahead = min(2 * ahead, _AHEAD)
                clashes = _as_bits(_clash(boxes[:, block], boxes[:, block], limit))
                places = block.tolist()
            left = (1 << bisect_left(places, end)) - (1 << bisect_left(places, at))
            while left and len(mine) < most:
                best = (left & -left).bit_length() - 1
                mine.append(places[best])
                left &= ~(clashes[best] | 1 << best)
            at = min(end, stop)
        at = end
        kept += mine
    found = np.zeros(len(kinds), bool)
    found[kept] = True
    return found


def _as_bits(rows: Array) -> list[int]:
    """Each row of booleans as a number."""
    packed = np.packbits(rows, axis=1, bitorder="little")
    size, found = packed.shape[1], packed.tobytes()
    return [int.from_bytes(found[k : k + size], "little") for k in range(0, len(found), size or 1)]


def _clash(boxes: Array, others: Array, limit: float) -> Array:
    """Whether the area that each box and each other share is more than a limit of what they cover.

    Both are four rows: the lower coordinates of both axes, then the upper ones.
    """
    one, two = boxes[:, :, None], others[:, None]
    width = np.minimum(one[2], two[2]) - np.maximum(one[0], two[0])
    height = np.minimum(one[3], two[3]) - np.maximum(one[1], two[1])
    areas = [(b[2] - b[0]) * (b[3] - b[1]) for b in (one, two)]
    met: Array = np.minimum(width, height) > 0
    place = np.flatnonzero(met)
    if limit < 0 or len(place) > met.size // _SPARSE:
        return np.greater(_shared(width, height, areas[0], areas[1]), limit)
    # of all others the share is 0
    row, column = np.divmod(place, max(met.shape[1], 1))
    sides = width.reshape(-1)[place], height.reshape(-1)[place]
    shared = _shared(*sides, areas[0].reshape(-1)[row], areas[1].reshape(-1)[column])
    np.put(met, place, shared > limit)
    return met


def _shared(width: Array, height: Array, one: Array, two: Array) -> Array:
    """The area of overlaps over what boxes of the areas `one` and `two` cover together."""
    common = np.maximum(width, 0) * np.maximum(height, 0)
    together = two + one - common
    with np.errstate(all="ignore"):
        return np.where(together > 0, common / together, 0)
