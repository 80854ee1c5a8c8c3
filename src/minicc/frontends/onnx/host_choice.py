"""Operators on the host whose results' extents depend on data: choosing elements and boxes.

Mirrors: ONNX's NonZero, Compress, Unique and NonMaxSuppression.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.frontends.onnx.host import host_operator
from minicc.frontends.onnx.reader import Node
from minicc.ir.core import Array


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
            kept: list[int] = []
            for box in order:
                if len(kept) >= count:
                    break
                if not (_overlap(corners[box], corners[kept]) > limit).any():
                    kept.append(int(box))
            chosen += [(image, kind, box) for box in kept]
    return np.array(chosen, np.int64).reshape(-1, 3)


def _corners(boxes: Array, centred: bool) -> Array:
    """Boxes as the lower and the upper coordinate of both axes."""
    if centred:
        middle, half = boxes[:, :2], boxes[:, 2:] / 2
        return np.concatenate([middle - half, middle + half], axis=1)
    pair = (boxes[:, :2], boxes[:, 2:])
    return np.concatenate([np.minimum(*pair), np.maximum(*pair)], axis=1)


def _overlap(box: Array, others: Array) -> Array:
    """The area that a box and others share over the area that they cover together."""
    shared = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    common = np.prod(np.maximum(shared, 0), axis=1)
    areas = np.prod(others[:, 2:] - others[:, :2], axis=1)
    own: Any = np.prod(box[2:] - box[:2])
    together = areas + own - common
    return np.where(together > 0, common / np.where(together > 0, together, 1), 0)


@host_operator("Det")
def determinant(node: Node, x: Array) -> Array:
    """The determinants of square matrices."""
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
    return np.asarray(np.linalg.det(wide)).astype(x.dtype)
