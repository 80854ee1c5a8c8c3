"""Where the elements of a resized axis come from, and with what weights.

These are numbers where the extents are, and else what `Lazy` makes of the same formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from minicc.ir.core import Array
from minicc.ir.types import F32, F64, DType


@dataclass(frozen=True, slots=True)
class Axis:
    """How one axis is resized: its extents, the scale as given, and the node's attributes.

    What is free of these three is `Lazy`, and so is a roi of the run's data; so are the taps then.
    """

    extent: Any
    length: Any
    scale: Any
    mode: str
    coordinates: str
    nearest: str
    cubic: float
    antialias: bool
    exclude_outside: bool
    roi: tuple[Any, Any]


class Taps(NamedTuple):
    """For each element of the result: the elements it is made of, and their weights.

    There is an array of each a tap. `indices` may leave the axis, which is repeated at its edges;
    `outside` marks what the extrapolation value stands for, if there may be such.
    """

    indices: list[Any]
    weights: list[Any]
    outside: Any


def source_of(axis: Axis, x: Any) -> Any:
    """The coordinate in the original of each element `x` of the result; ValueError for a mode."""
    n, scale = axis.extent, axis.scale
    width = scale * n
    low, high = axis.roi
    if axis.coordinates == "half_pixel":
        return (x + 0.5) / scale - 0.5
    if axis.coordinates == "pytorch_half_pixel":
        return np.where(np.less(width, 2), x * 0, (x + 0.5) / scale - 0.5)
    if axis.coordinates == "half_pixel_symmetric":
        offset = n / 2 * (1 - axis.length / width)
        return offset + (x + 0.5) / scale - 0.5
    if axis.coordinates == "tf_half_pixel_for_nn":
        return (x + 0.5) / scale
    if axis.coordinates == "align_corners":
        # of whole extents, as the specification, ONNX Runtime and PyTorch have it: ONNX's reference
        # divides by what scales give
        return np.where(np.equal(axis.length, 1), x * 0, x * (n - 1) / (axis.length - 1))
    if axis.coordinates == "asymmetric":
        return x / scale
    if axis.coordinates == "tf_crop_and_resize":
        reach = (high - low) * (n - 1)
        middle = x * 0 + reach / 2
        inner = np.where(np.equal(axis.length, 1), middle, x * reach / (axis.length - 1))
        return low * (n - 1) + inner
    raise ValueError(f"coordinate_transformation_mode {axis.coordinates!r}")


# What is then cut off after the point.
_NEAREST: dict[str, Callable[[Any], Any]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
    "simple": lambda x: x,
}


_MOST_TAPS = 1 << 17  # on each side


def reach_of(mode: str) -> int:
    """How many elements on each side a mode blends at a scale of 1."""
    return {"nearest": 0, "linear": 1}.get(mode, 2)


def taps_of(
    axis: Axis, x: Any, offsets: Iterable[Any] | None = None, total_of: Callable[..., Any] = sum
) -> Taps:
    """The taps of elements `x` of the result, as floats; ValueError for an unknown mode.

    `offsets` are those of the taps where how many there are is free, and `total_of` adds up then.
    """
    with np.errstate(all="ignore"):
        source = source_of(axis, x)
    outside = None
    if axis.coordinates == "tf_crop_and_resize":
        outside = (source < 0) | (source > axis.extent - 1)
    if axis.mode == "nearest":
        if axis.nearest not in _NEAREST:
            raise ValueError(f"nearest_mode {axis.nearest!r}")
        return Taps([_NEAREST[axis.nearest](source)], [1.0], outside)
    scale = np.minimum(axis.scale, 1.0) if axis.antialias else 1.0
    if offsets is None:
        first = int(np.floor(-reach_of(axis.mode) / scale)) + 1
        if -first > _MOST_TAPS:
            raise ValueError(f"each element would be blended of more than {_MOST_TAPS} others")
        offsets = range(first, 2 - first)
    # an element that stands where one of the original does lies at the end of its interval
    left = np.ceil(source) - 1
    indices: list[Any] = []
    weights: list[Any] = []
    for offset in offsets:
        distance = np.abs(offset - (source - left)) * scale
        indices.append(left + offset)
        linear = axis.mode == "linear"
        weights.append(_linear(distance) if linear else _cubic(distance, axis.cubic))
    if axis.antialias:
        total = total_of(weights)
        weights = [w / total for w in weights]
    if axis.exclude_outside:
        pairs = zip(indices, weights, strict=True)
        weights = [np.where((k < 0) | (k > axis.extent - 1), 0.0, w) for k, w in pairs]
        total = total_of(weights)
        weights = [w / np.where(np.equal(total, 0), 1.0, total) for w in weights]
    return Taps(indices, weights, outside)


def _linear(distance: Any) -> Any:
    return np.maximum(1 - distance, 0.0)


def _cubic(distance: Any, a: float) -> Any:
    d = distance
    near = (a + 2) * d**3 - (a + 3) * d**2 + 1
    far = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
    return np.where(d > 1, np.where(d < 2, far, 0.0), near)


class Table(NamedTuple):
    """Taps whose numbers are known: a row each element of the result."""

    indices: Array
    weights: Array
    outside: Array


def precision_of(mode: str) -> DType:
    """The floats in which coordinates are computed: single ones where an element is chosen by them.

    So ONNX Runtime chooses (`providers/cpu/tensor/upsamplebase.h`). Two divided by 0.4 is five
    then; in double precision it is a little less, as 0.4 in 32 bits is a little more.
    """
    return F32 if mode == "nearest" else F64


def table_of(axis: Axis) -> Table:
    """The taps of each element of the result; ValueError for an unknown mode."""
    element = precision_of(axis.mode).numpy.type
    x = np.arange(axis.length, dtype=element)
    extent, length, scale = map(element, (axis.extent, axis.length, axis.scale))
    sides = replace(axis, extent=extent, length=length, scale=scale)
    indices, weights, outside = taps_of(sides, x)
    weights = [np.broadcast_to(w, x.shape) for w in weights]
    whole = np.stack(indices, axis=1).astype(np.int64)
    outside = np.zeros(x.shape, bool) if outside is None else outside
    return Table(whole, np.stack(weights, axis=1), outside)


def period_of(taps: Table) -> tuple[int, int]:
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
