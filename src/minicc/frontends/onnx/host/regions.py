"""Pooling over regions on the host: each region has its own cells, of extents that data decide."""

from __future__ import annotations

from math import prod

import numpy as np

from minicc.frontends.onnx.host.registry import host_operator
from minicc.frontends.onnx.model.reader import Node
from minicc.ir.core import Array


@host_operator("MaxRoiPool")
def max_roi_pool(node: Node, x: Array, regions: Array) -> Array:
    """The maxima of the cells of each region: [regions, C, *pooled_shape]; 0 of an empty cell.

    A region is the number of its picture and the corners x1, y1, x2 and y2, which are scaled,
    rounded and part of it. Cells overlap where the region is no multiple of them.
    """
    if x.ndim != 4 or regions.ndim != 2 or regions.shape[1] != 5:
        raise ValueError(f"it takes [N, C, H, W] and [regions, 5], not {x.shape}, {regions.shape}")
    pooled = node.integers("pooled_shape") or ()
    if len(pooled) != 2 or min(pooled) <= 0:
        raise ValueError(f"its pooled_shape is {list(pooled)}, and must be two positive numbers")
    scale = np.float32(node.number("spatial_scale", 1.0))
    pictures = regions[:, 0].astype(np.int64)
    if ((pictures < 0) | (pictures >= len(x))).any():
        raise IndexError(f"a region of a picture that is none of {len(x)}")
    corners = regions[:, 1:].astype(np.float32) * scale
    corners = np.copysign(np.floor(np.abs(corners) + np.float32(0.5)), corners)
    columns, rows = (
        _cells(corners[:, k], corners[:, k + 2], cells, extent)
        for k, cells, extent in ((0, pooled[1], x.shape[3]), (1, pooled[0], x.shape[2]))
    )
    out = np.zeros((len(regions), x.shape[1], prod(pooled)), x.dtype)
    for region, picture in enumerate(pictures):
        spans = ((a, b, c, d) for a, b in rows[region] for c, d in columns[region])
        for cell, (top, bottom, left, right) in enumerate(spans):
            if top < bottom and left < right:
                out[region, :, cell] = x[picture, :, top:bottom, left:right].max(axis=(1, 2))
    return out.reshape(len(regions), x.shape[1], *pooled)


def _cells(first: Array, last: Array, count: int, extent: int) -> Array:
    """Where the cells of each region begin and end along an axis: [regions, cells, 2]."""
    size = np.maximum(last - first + 1, 1) / np.float32(count)
    steps = np.arange(count + 1, dtype=np.float32) * size[:, None]
    ends = np.stack([np.floor(steps[:, :-1]), np.ceil(steps[:, 1:])], axis=2)
    found: Array = np.clip(ends + first[:, None, None], 0, extent).astype(np.int64)
    return found
