"""Operators on the host whose results' extents depend on data: choosing elements and boxes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from minicc.frontends.onnx.host import host_operator
from minicc.frontends.onnx.reader import Node
from minicc.ir.core import Array
from minicc.ir.orders import stable_order
from minicc.ir.types import TensorType

_LARGEST_MATRIX = 32  # rows of which the determinant is found by elimination
# Boxes that are compared with one another at once, and with those that are chosen already. Of
# fewer pairs that meet than one of so many the others are left out.
_BLOCK, _AHEAD, _SPARSE = 128, 1024, 8


@host_operator("NonZero")
def non_zero(node: Node, x: Array) -> Array:
    """The coordinates of all elements that are not 0, a column each, in row-major order."""
    whole = np.atleast_1d(x)
    place = np.flatnonzero(whole != 0 if whole.dtype.kind in "fiu" else whole)
    found = np.empty((whole.ndim, len(place)), np.int64)
    # a quotient and what it leaves, the last axis first, as a division by a number is quick
    for axis in range(whole.ndim - 1, 0, -1):
        before = place // whole.shape[axis]
        np.subtract(place, before * whole.shape[axis], out=found[axis])
        place = before
    found[0] = place
    return found


@host_operator("Compress")
def compress(node: Node, x: Array, condition: Array) -> Array:
    """Slices along an axis (or elements of all axes as one) where a condition holds."""
    axis = node.attributes.get("axis")
    chosen = np.flatnonzero(condition)
    return np.take(x.reshape(-1) if axis is None else x, chosen, axis=axis or 0)


@host_operator("Unique")
def unique(node: Node, x: Array) -> tuple[Array, ...]:
    """Different elements (or slices), where each is first, which each element is, and how often."""
    axis = node.attributes.get("axis")
    flat = x.reshape(-1) if axis is None else x
    along = 0 if axis is None else int(axis)
    key = flat.astype(np.float32) if flat.dtype.kind == "V" else flat
    _, first, inverse, counts = np.unique(
        key, return_index=True, return_inverse=True, return_counts=True, axis=along
    )
    order = np.arange(len(first)) if node.integer("sorted", 1) else np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    found = np.take(flat, first[order], axis=along)
    parts = (first[order], place[inverse.reshape(-1)], counts[order])
    return found, *(p.astype(np.int64) for p in parts)


@host_operator("NonMaxSuppression")
def non_max_suppression(
    node: Node,
    boxes: Array,
    scores: Array,
    most: Array | None = None,
    overlap: Array | None = None,
    least: Array | None = None,
) -> Array:
    """Boxes by score, each unless it overlaps a better one of its class too much."""
    count = 0 if most is None else int(most.reshape(-1)[0])
    limit = 0.0 if overlap is None else float(overlap.reshape(-1)[0])
    classes, length = scores.shape[1:]
    flat = scores.reshape(-1)
    place = np.arange(flat.size) if least is None else np.flatnonzero(flat > least.reshape(-1)[0])
    # by score within each class, as a stable order by class leaves it
    place = place[stable_order(-flat[place])]
    if len(flat) > length:
        place = place[stable_order(place // length)]
    kind, box = np.divmod(place, length or 1)
    image = kind // (classes or 1)
    corners = _corners(boxes[image, box], bool(node.integer("center_point_box", 0)))
    ends = np.flatnonzero(np.diff(kind, append=-1)) + 1
    kept = _apart(np.ascontiguousarray(corners.T), ends.tolist(), limit, count)
    return np.stack([image[kept], (kind - image * classes)[kept], box[kept]], axis=1)


def _corners(boxes: Array, centred: bool) -> Array:
    """Boxes as the lower and the upper coordinate of both axes."""
    if centred:
        middle, half = boxes[:, :2], boxes[:, 2:] / 2
        return np.concatenate([middle - half, middle + half], axis=1)
    pair = (boxes[:, :2], boxes[:, 2:])
    return np.concatenate([np.minimum(*pair), np.maximum(*pair)], axis=1)


def _apart(boxes: Array, ends: Sequence[int], limit: float, most: int) -> list[int]:
    """The boxes of each class, at most so many, that no better one overlaps by more than a limit.

    Those of a class stand in their order, up to one of `ends`. A block of boxes is compared at
    once; which of it clash with a box are the bits of a number. A class of more boxes than a block
    has blocks of its own after that, of what does not clash with those that it has already.
    """
    kept: list[int] = []
    at = stop = 0
    places, clashes = list[int](), list[int]()
    for end in ends:
        mine: list[int] = []
        ahead = _BLOCK
        while at < end and len(mine) < most:
            if at >= stop:
                stop = min(at + ahead, end if mine else boxes.shape[1])
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
    return kept


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


def _is_large_matrix(node: Node, types: Sequence[TensorType]) -> bool:
    """Whether LAPACK, which NumPy calls, is quicker than elimination row by row."""
    return any(not isinstance(n, int) or n > _LARGEST_MATRIX for n in types[0].shape[-2:])


@host_operator("Det", _is_large_matrix)
def determinant(node: Node, x: Array) -> Array:
    """The determinants of square matrices."""
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
    return np.asarray(np.linalg.det(wide)).astype(x.dtype)
