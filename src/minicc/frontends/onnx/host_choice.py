"""Operators on the host whose results' extents depend on data: choosing elements and boxes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minicc.frontends.onnx.host import host_operator
from minicc.frontends.onnx.reader import Node
from minicc.ir.core import Array
from minicc.ir.types import TensorType

_LARGEST_MATRIX = 32  # rows of which the determinant is found by elimination
_BLOCK = 64  # boxes that are compared with one another at once


@host_operator("NonZero")
def non_zero(node: Node, x: Array) -> Array:
    """The coordinates of all elements that are not 0, a column each, in row-major order."""
    return np.array(np.nonzero(np.atleast_1d(x)), np.int64)


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
    chosen: list[tuple[int, int, int]] = []
    for image in range(scores.shape[0]):
        corners = _corners(boxes[image], bool(node.integer("center_point_box", 0)))
        for kind in range(scores.shape[1]):
            score = scores[image, kind]
            order = np.argsort(-score, kind="stable")
            if least is not None:
                order = order[score[order] > least.reshape(-1)[0]]
            chosen += [(image, kind, box) for box in _apart(corners, order, limit, count)]
    return np.array(chosen, np.int64).reshape(-1, 3)


def _corners(boxes: Array, centred: bool) -> Array:
    """Boxes as the lower and the upper coordinate of both axes."""
    if centred:
        middle, half = boxes[:, :2], boxes[:, 2:] / 2
        return np.concatenate([middle - half, middle + half], axis=1)
    pair = (boxes[:, :2], boxes[:, 2:])
    return np.concatenate([np.minimum(*pair), np.maximum(*pair)], axis=1)


def _apart(corners: Array, order: Array, limit: float, most: int) -> list[int]:
    """Boxes in order, at most so many, each unless one before overlaps it by more than a limit."""
    kept: list[int] = []
    while order.size and len(kept) < most:
        block, order = order[:_BLOCK], order[_BLOCK:]
        clash = _overlap(corners[block], corners[block]) > limit
        open_ = np.ones(len(block), bool)
        first = len(kept)
        for k in range(len(block)):
            if open_[k] and len(kept) < most:
                kept.append(int(block[k]))
                open_ &= ~clash[k]
        if order.size:
            order = order[~(_overlap(corners[order], corners[kept[first:]]) > limit).any(axis=1)]
    return kept


def _overlap(boxes: Array, others: Array) -> Array:
    """The area that each box and each other share over the area that they cover together."""
    one, two = boxes[:, None], others[None]
    sides = np.minimum(one[..., 2:], two[..., 2:]) - np.maximum(one[..., :2], two[..., :2])
    sides = np.maximum(sides, 0)
    common = sides[..., 0] * sides[..., 1]
    areas = [(b[..., 2] - b[..., 0]) * (b[..., 3] - b[..., 1]) for b in (two, one)]
    together = areas[0] + areas[1] - common
    return np.where(together > 0, common / np.where(together > 0, together, 1), 0)


def _is_large_matrix(node: Node, types: Sequence[TensorType]) -> bool:
    """Whether LAPACK, which NumPy calls, is quicker than elimination row by row."""
    return any(not isinstance(n, int) or n > _LARGEST_MATRIX for n in types[0].shape[-2:])


@host_operator("Det", _is_large_matrix)
def determinant(node: Node, x: Array) -> Array:
    """The determinants of square matrices."""
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
    return np.asarray(np.linalg.det(wide)).astype(x.dtype)
