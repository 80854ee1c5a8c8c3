"""Where the elements of a resized axis come from, and with what weights: numbers, no graph.

Mirrors: ONNX's Resize as its reference computes it, in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from minicc.ir.core import Array


@dataclass(frozen=True, slots=True)
class Axis:
    """How one axis is resized: its extents, the scale as given, and the node's attributes."""

    extent: int
    length: int
    scale: float
    mode: str
    coordinates: str
    nearest: str
    cubic: float
    antialias: bool
    exclude_outside: bool
    roi: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Taps:
    """For each element of the result: the elements it is made of, and their weights.

    `indices` may leave the axis, which is repeated at its edges; `outside` marks what the
    extrapolation value stands for.
    """

    indices: Array
    weights: Array
    outside: Array


def source_of(axis: Axis) -> Array:
    """The coordinate in the original of each element of the result; ValueError for a mode."""
    x, n, scale = np.arange(axis.length, dtype=np.float64), axis.extent, axis.scale
    width = scale * n
    one = np.zeros_like(x)
    low, high = axis.roi
    if axis.coordinates == "half_pixel":
        return np.asarray((x + 0.5) / scale - 0.5)
    if axis.coordinates == "pytorch_half_pixel":
        return one - 0.5 if width == 1 else np.asarray((x + 0.5) / scale - 0.5)
    if axis.coordinates == "half_pixel_symmetric":
        offset = n / 2 * (1 - axis.length / width)
        return np.asarray(offset + (x + 0.5) / scale - 0.5)
    if axis.coordinates == "tf_half_pixel_for_nn":
        return np.asarray((x + 0.5) / scale)
    if axis.coordinates == "align_corners":
        return one if width == 1 else np.asarray(x * (n - 1) / (width - 1))
    if axis.coordinates == "asymmetric":
        return np.asarray(x / scale)
    if axis.coordinates == "tf_crop_and_resize":
        reach = (high - low) * (n - 1)
        return np.asarray(
            low * (n - 1) + (one + reach / 2 if width == 1 else x * reach / (width - 1))
        )
    raise ValueError(f"coordinate_transformation_mode {axis.coordinates!r}")


_NEAREST: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
    "simple": np.trunc,
}


def taps_of(axis: Axis) -> Taps:
    """The taps of each element of the result; ValueError for an unknown mode."""
    source = source_of(axis)
    outside = np.zeros(axis.length, bool)
    if axis.coordinates == "tf_crop_and_resize":
        outside = (source < 0) | (source > axis.extent - 1)
    if axis.mode == "nearest":
        if axis.nearest not in _NEAREST:
            raise ValueError(f"nearest_mode {axis.nearest!r}")
        indices = _NEAREST[axis.nearest](source).astype(np.int64)[:, None]
        return Taps(indices, np.ones(indices.shape), outside)
    scale = min(axis.scale, 1.0) if axis.antialias else 1.0
    reach = 1 if axis.mode == "linear" else 2
    first = int(np.floor(-reach / scale)) + 1
    offsets = np.arange(first, 2 - first)
    # an element that stands where one of the original does lies at the end of its interval
    left = np.ceil(source) - 1
    distance = np.abs(offsets[None, :] - (source - left)[:, None]) * scale
    weights = _linear(distance) if axis.mode == "linear" else _cubic(distance, axis.cubic)
    if axis.antialias:
        weights = weights / weights.sum(1, keepdims=True)
    indices = left.astype(np.int64)[:, None] + offsets
    if axis.exclude_outside:
        weights = np.where((indices < 0) | (indices >= axis.extent), 0, weights)
        total = weights.sum(1, keepdims=True)
        weights = weights / np.where(total == 0, 1, total)
    return Taps(indices, weights, outside)


def _linear(distance: Array) -> Array:
    return np.asarray(np.clip(1 - distance, 0, 1))


def _cubic(distance: Array, a: float) -> Array:
    d = distance
    near = (a + 2) * d**3 - (a + 3) * d**2 + 1
    far = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def matrix_of(taps: Taps, extent: int) -> Array:
    """The matrix that makes the result of the axis, which is repeated at its edges."""
    matrix = np.zeros((len(taps.indices), extent))
    rows = np.arange(len(taps.indices))[:, None] + np.zeros_like(taps.indices)
    np.add.at(matrix, (rows, np.clip(taps.indices, 0, extent - 1)), taps.weights)
    return matrix


def period_of(taps: Taps) -> tuple[int, int]:
    """After how many elements of the result taps repeat, and by how much they have moved.

    (length of the result, 0) where they do not.
    """
    length = len(taps.indices)
    for period in range(1, length):
        if length % period:
            continue
        moved = taps.indices[period:] - taps.indices[:-period]
        same = np.allclose(taps.weights[period:], taps.weights[:-period], rtol=0, atol=1e-12)
        if same and (moved == moved.flat[0]).all():
            return period, int(moved.flat[0])
    return length, 0
