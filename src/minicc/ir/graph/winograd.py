"""Winograd's convolution F(m x m, 3x3) as three ops around a batched product.

    y = conv(x, w)   -->   v = winograd_input(x)      [n*n, tiles, C]
                           u = winograd_weights(w)    [n*n, C, O]
                           y = winograd_output(contract "xtc,xco->xto" of v, u)

An image is cut into tiles of m x m outputs, which need n x n inputs, n = m + 2. At each of the n*n
positions the product runs over the channels alone, so that m*m*9 multiplications become n*n. Tiles
are counted image by image and row by row; where m does not divide the outputs, the last tile of a
row or column overlaps its neighbour. Images are channels-last.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.ir.affine import Dim
from minicc.ir.core import Array, Op, RunRegion, Value
from minicc.ir.graph.minimal_filters import POINTS, TAPS, as_array, derive
from minicc.ir.types import TensorType


def _check_outputs(op: Op, m: int) -> None:
    if m not in POINTS:
        raise ValueError(f"{op.opname} has tiles of {sorted(POINTS)} outputs, not {m}")


def tile_counts(height: Dim, width: Dim, m: int) -> tuple[Dim, Dim]:
    """Tiles down and across an image of so many output rows and columns."""
    return (height + (m - 1)) // m, (width + (m - 1)) // m


def tile_starts(extent: int, m: int) -> list[int]:
    """The first output row (or column) of each tile; one alone of an image that is smaller."""
    return [max(0, min(k, extent - m)) for k in range(0, extent, m)]


class WinogradInput(Op, name="graph.winograd_input"):
    """The tiles of padded images [N, H+2, W+2, C], transformed: [n*n, N, down, across, C]."""

    x: Value
    outputs: int

    def infer(self) -> tuple[TensorType, ...]:
        _check_outputs(self, self.outputs)
        t: TensorType = self.x.type
        if t.rank != 4:
            raise TypeError(f"{self.opname} wants [N, H, W, C], not {t}")
        batch, height, width, channels = t.shape
        down, across = tile_counts(height - (TAPS - 1), width - (TAPS - 1), self.outputs)
        n = self.outputs + TAPS - 1
        return (TensorType(t.dtype, (n * n, batch, down, across, channels)),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        x, m = np.asarray(args[0]), self.outputs
        n, edge = m + TAPS - 1, TAPS - 1
        rows, columns = (tile_starts(e - edge, m) for e in x.shape[1:3])
        b = as_array(derive(m).input).astype(x.dtype)
        down, across = (
            np.minimum(np.add.outer(np.array(starts, np.int64), np.arange(n)), e - 1)
            for starts, e in zip((rows, columns), x.shape[1:3], strict=True)
        )
        tiles = x[:, down[:, None, :, None], across[None, :, None, :]]
        out = np.einsum("ai,bj,nhwijc->abnhwc", b, b, tiles, optimize=True)
        shape = (n * n, x.shape[0], len(rows), len(columns), x.shape[3])
        return (out.reshape(shape),)


class WinogradWeights(Op, name="graph.winograd_weights"):
    """Weights [O, C, 3, 3], transformed in float64 and rounded once: [n*n, C, O]."""

    w: Value
    outputs: int

    def infer(self) -> tuple[TensorType, ...]:
        _check_outputs(self, self.outputs)
        t: TensorType = self.w.type
        if t.shape[2:] != (TAPS, TAPS):
            raise TypeError(f"{self.opname} wants [O, C, 3, 3], not {t}")
        n = self.outputs + TAPS - 1
        return (TensorType(t.dtype, (n * n, t.shape[1], t.shape[0])),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        w: Array = args[0]
        g = as_array(derive(self.outputs).taps)
        both = np.einsum("ai,bj->abij", g, g).reshape(-1, TAPS * TAPS)
        out = np.empty((both.shape[0], w.shape[1], w.shape[0]), w.dtype)
        for c in range(w.shape[1]):  # one channel at a time: in float64 it is not small
            out[:, c] = both @ w[:, c].reshape(-1, TAPS * TAPS).T.astype(np.float64)
        return (out,)


class WinogradOutput(Op, name="graph.winograd_output"):
    """Images [N, H, W, O] from products [n*n, N, down, across, O]."""

    x: Value
    height: Dim
    width: Dim
    outputs: int

    def infer(self) -> tuple[TensorType, ...]:
        _check_outputs(self, self.outputs)
        t: TensorType = self.x.type
        n = self.outputs + TAPS - 1
        down, across = tile_counts(self.height, self.width, self.outputs)
        if t.rank != 5 or (t.shape[0], *t.shape[2:4]) != (n * n, down, across):
            raise TypeError(f"{self.opname} wants [{n * n}, N, {down}, {across}, O], not {t}")
        _, batch, _, _, channels = t.shape
        return (TensorType(t.dtype, (batch, self.height, self.width, channels)),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        x, m = np.asarray(args[0]), self.outputs
        n = m + TAPS - 1
        batch, height, width, channels = self.result.type.extents
        a = as_array(derive(m).output).astype(x.dtype)
        products = x.reshape(n, n, batch, -1, channels)
        tiles = np.einsum("pi,qj,ijntc->ntpqc", a, a, products, optimize=True)
        out = np.empty((batch, height, width, channels), x.dtype)
        corners = [(h, w) for h in tile_starts(height, m) for w in tile_starts(width, m)]
        for k, (h, w) in enumerate(corners):
            out[:, h : h + m, w : w + m] = tiles[:, k, : height - h, : width - w]
        return (out,)
