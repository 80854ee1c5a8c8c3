"""Operators on the host whose results' extents depend on data: choosing elements and boxes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minicc.frontends.onnx.host.registry import host_operator
from minicc.frontends.onnx.model.reader import Node
from minicc.ir.core import Array
from minicc.ir.graph.suppress import unsuppressed
from minicc.ir.orders import stable_order
from minicc.ir.types import TensorType

_LARGEST_MATRIX = 32  # rows of which the determinant is found by elimination


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
    if key.dtype.kind == "O" and key.ndim != 1:  # NumPy compares no slices of objects
        key = np.unique(key, return_inverse=True)[1].reshape(key.shape)
    if key.ndim == 1 and key.dtype.kind in "fiu":
        first, inverse, counts = _groups(key)
    else:
        _, first, inverse, counts = np.unique(
            key, return_index=True, return_inverse=True, return_counts=True, axis=along
        )
    order = np.arange(len(first)) if node.integer("sorted", 1) else np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    found = np.take(flat, first[order], axis=along)
    parts = (first[order], place[inverse.reshape(-1)], counts[order])
    return found, *(p.astype(np.int64) for p in parts)


def _groups(x: Array) -> tuple[Array, Array, Array]:
    """Of the different elements in their order the first places, and counts; which each one is.

    All NaN are one element.
    """
    order = stable_order(x)
    ordered = x[order]
    new = np.ones(len(x), bool)
    new[1:] = ordered[1:] != ordered[:-1]
    if x.dtype.kind == "f":
        new[1:] &= ~np.isnan(ordered[:-1])  # which stands last
    starts = np.flatnonzero(new)
    inverse = np.empty_like(order)
    inverse[order] = np.cumsum(new) - 1
    return order[starts], inverse, np.diff(starts, append=len(x))


@host_operator("NonMaxSuppression")
def non_max_suppression(node: Node, *inputs: Array | None) -> Any:
    """Boxes by score, each unless it overlaps a better one of its class too much.

    Where the boxes are compared by machine code, the host does what comes before or after that.
    """
    return _PARTS[node.text("part", "whole")](node, *inputs)


def _suppressed(
    node: Node,
    boxes: Array,
    scores: Array,
    most: Array | None = None,
    overlap: Array | None = None,
    least: Array | None = None,
) -> Array:
    corners, kinds, rows = _by_score(node, boxes, scores, least)
    limit = np.float32(0) if overlap is None else overlap.reshape(-1)[0]
    count = 0 if most is None else most.reshape(-1)[0]
    return _chosen(node, rows, unsuppressed(corners, kinds, limit, count))


def _by_score(
    node: Node, boxes: Array, scores: Array, least: Array | None = None
) -> tuple[Array, ...]:
    """Boxes by image and class, there by score: corners as `graph.suppress` takes them.

    And the numbers of their classes, and the rows that are given for them: image, class and box.
    """
    classes, length = scores.shape[1:]
    flat = scores.reshape(-1)
    place = np.arange(flat.size) if least is None else np.flatnonzero(flat > least.reshape(-1)[0])
    place = place[stable_order(-flat[place])]
    if len(flat) > length:
        place = place[stable_order(place // length)]
    kinds = place // (length or 1)
    image = kinds // (classes or 1)
    box = place - kinds * length
    corners = _corners(boxes[image, box], bool(node.integer("center_point_box", 0)))
    return corners, kinds, np.stack([image, kinds - image * classes, box], axis=1)


def _chosen(node: Node, rows: Array, kept: Array) -> Array:
    """The rows of boxes that are not suppressed."""
    return np.take(rows, np.flatnonzero(kept), axis=0)


_PARTS: dict[str, Callable[..., Any]] = {
    "whole": _suppressed,
    "by score": _by_score,
    "chosen": _chosen,
}


def _corners(boxes: Array, centred: bool) -> Array:
    """Boxes as the lower coordinates of both axes and the upper ones, a row each."""
    rows = np.ascontiguousarray(boxes.T)
    pair = rows[:2], rows[2:]
    if centred:
        return np.concatenate([pair[0] - pair[1] / 2, pair[0] + pair[1] / 2])
    return np.concatenate([np.minimum(*pair), np.maximum(*pair)])


def _is_large_matrix(node: Node, types: Sequence[TensorType]) -> bool:
    """Whether LAPACK, which NumPy calls, is quicker than elimination row by row."""
    return any(isinstance(n, int) and n > _LARGEST_MATRIX for n in types[0].shape[-2:])


@host_operator("Det", _is_large_matrix)
def determinant(node: Node, x: Array) -> Array:
    """The determinants of square matrices."""
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
    return np.asarray(np.linalg.det(wide)).astype(x.dtype)
