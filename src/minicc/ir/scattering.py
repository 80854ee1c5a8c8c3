"""What gathering and scattering mean, for the ops of graph and structured: on arrays of NumPy.

Scattered elements that meet are combined in the order of the updates; without a combiner the last
in row-major order stays.
"""

from __future__ import annotations

from types import EllipsisType
from typing import Any

import numpy as np

from minicc.ir import arith
from minicc.ir.arrays import Array
from minicc.ir.indices import counted


def grid_of(shape: tuple[int, ...]) -> list[Array]:
    """The coordinates of all elements, an open array an axis."""
    return list(np.ogrid[tuple(slice(n) for n in shape)])


def coordinates(op: Any, x: Array, indices: Array, batch: int) -> tuple[Array, ...]:
    """The coordinates that vectors of indices name, with those of the common axes in front."""
    depth = indices.shape[-1]
    vectors = [counted(indices[..., k], x.shape[batch + k], op.loc) for k in range(depth)]
    common = [
        np.arange(x.shape[k]).reshape((-1,) + (1,) * (indices.ndim - 2 - k)) for k in range(batch)
    ]
    return (*common, *vectors)


def scattered(op: Any, axis: int | None, x: Array, indices: Array, updates: Array) -> Array:
    """What an op that scatters gives: along an axis, or at vectors of indices."""
    if axis is not None:
        grid = grid_of(indices.shape)
        grid[axis] = counted(indices, x.shape[axis], op.loc)
        return _put(op.combine, x, tuple(grid), updates)
    where = coordinates(op, x, indices, 0)
    if where:
        return _put(op.combine, x, where, updates)
    for update in updates.reshape((-1, *x.shape)):  # vectors of length 0 name all of it, once each
        x = _put(op.combine, x, ..., update)
    return x


def _put(combine: str, x: Array, where: tuple[Array, ...] | EllipsisType, updates: Array) -> Array:
    """A copy of `x` with updates put to or combined with what stands at coordinates."""
    if combine == "none":
        out = x.copy()
        out[where] = updates
        return out
    wide = np.array(arith.widened(x))
    with np.errstate(all="ignore"):
        arith.UFUNCS[combine].at(wide, where, updates.astype(wide.dtype))
        return wide.astype(x.dtype)
