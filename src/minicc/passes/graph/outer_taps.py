"""Taps of a convolution that read nothing but padding, for a rule that leaves them out.

A kernel that is dilated by as much as its image has rows, as at the end of a network for
segmentation, or 3 x 3 on an image of one pixel: eight of its nine taps multiply zeros.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from minicc.ir import graph
from minicc.ir.arrays import is_finite
from minicc.ir.build import Builder
from minicc.ir.core import Literal, Op, Value


class Kept(NamedTuple):
    """What is left along a spatial axis.

    Which taps, and which rows they read of the padded image: from one on, up to another.
    """

    taps: tuple[int, int]
    rows: tuple[int, int]


def match_outer_taps(op: graph.Conv, pad: Op | None, weights: Literal | None) -> Any:
    """The convolution's padding, and what is left along each spatial axis; None if all is.

    The weights must be known, for infinities and NaN times zero are no zeros.
    """
    if not isinstance(pad, graph.Pad) or weights is None:
        return None
    numbers = (*pad.low, *pad.high, *pad.x.type.shape[1:], *op.result.type.shape[1:])
    if pad.value.array.any() or not all(isinstance(n, int) for n in numbers):
        return None
    first = 1 if op.layout == "channels_last" else 2
    kept = []
    for k, (taps, stride, dilation) in enumerate(
        zip(weights.array.shape[2:], op.strides, op.dilations, strict=True)
    ):
        axis = first + k
        low, image, out = pad.low[axis], pad.x.type.shape[axis], op.result.type.shape[axis]
        # of each tap the first and the last place of the result where it may read the image
        at = np.arange(taps) * dilation - low
        earliest, latest = np.maximum(0, -(at // stride)), (image - 1 - at) // stride
        (used,) = (earliest <= np.minimum(latest, out - 1)).nonzero()
        if not used.size:
            return None
        start, stop = int(used[0]), int(used[-1]) + 1
        last = (stop - 1) * dilation + (out - 1) * stride + 1
        kept.append(Kept((start, stop), (start * dilation, last)))
    whole = all(k.taps == (0, n) for k, n in zip(kept, weights.array.shape[2:], strict=True))
    return None if whole or not is_finite(weights.array) else (pad, weights, tuple(kept))


def build_outer_taps(b: Builder, op: graph.Conv, found: Any) -> Value:
    """The convolution by the taps that are left, on as much padding as these read."""
    pad, weights, kept = found
    first = 1 if op.layout == "channels_last" else 2
    low, high = list(pad.low), list(pad.high)
    starts, stops = [0] * len(low), list(pad.x.type.shape)
    for axis, (start, stop) in enumerate((k.rows for k in kept), first):
        image = stops[axis]
        starts[axis] = max(0, start - low[axis])
        stops[axis] = min(image, stop - low[axis])
        high[axis] = max(0, stop - low[axis] - image)
        low[axis] = max(0, low[axis] - start)
    x, steps = pad.x, (1,) * len(low)
    if (*stops,) != x.type.shape or any(starts):
        x = b.emit(graph.Slice, x, starts=tuple(starts), stops=tuple(stops), steps=steps)
    if any((*low, *high)):
        x = b.emit(graph.Pad, x, low=tuple(low), high=tuple(high), value=pad.value)
    part = weights.array[(..., *[slice(*k.taps) for k in kept])]
    w = b.emit(graph.Constant, value=Literal(np.ascontiguousarray(part)))
    return b.emit(graph.Conv, x, w, **op.attrs)
