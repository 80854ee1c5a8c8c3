"""Soft-max over rows, and one head of attention: what must run together over a row."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import minicc
import minicc.tile as tl

LANES = 16  # floats that element by element work handles at once


@minicc.kernel(grid=lambda x: x.shape[0], out=lambda x: x, threads=1)
def softmax(x: Any, y: Any, *, width: int = 64) -> None:
    """An instance is a row, read in tiles of `width`.

    Three walks over the row, which stays in the first cache: maximum, exponentials, division.
    """
    row, n = tl.program_id(0), x.shape[1]
    best, total = tl.full(width, -np.inf), tl.zeros(width)
    for j in tl.range(0, n, width):
        best = np.maximum(best, x[row, j : j + width])
    top = best.max()
    for j in tl.range(0, n, width):
        e = np.exp2((x[row, j : j + width] - top) * (1 / np.log(2)))
        y[row, j : j + width] = e
        total = total + e
    factor = 1 / total.sum()
    for j in tl.range(0, n, width):
        y[row, j : j + width] = y[row, j : j + width] * factor


class Attention(NamedTuple):
    """One head: queries and keys, their length, and the register tile."""

    length: int
    depth: int
    rows: int = 8
    columns: int = 32

    @property
    def flops(self) -> int:
        """Floating-point operations of the two products."""
        return 4 * self.length**2 * self.depth


@minicc.kernel(grid=lambda q, rows: q.shape[0] // rows, out=lambda q: q, threads=1)
def attention(q: Any, k: Any, v: Any, y: Any, *, rows: int = 8) -> None:
    """q[n, d], k[n / columns, d, columns] as its producer packs it, v[n, d], y[n, d].

    An instance is a block of queries: its scores stay in scratch from the first product, through
    the soft-max, to the second.
    """
    i, (n, d), (panels, _, columns) = tl.program_id(0) * rows, q.shape, k.shape
    s = tl.alloc((rows, n))
    for p in tl.range(panels):
        s[:, tl.ds(p * columns, columns)] = tl.dot(q[i : i + rows, :], k[p, :, :])
    best, total = tl.full((rows, LANES), -np.inf), tl.zeros((rows, LANES))
    for j in tl.range(0, n, LANES):  # more exponentials at once than registers are not faster
        best = np.maximum(best, s[:, j : j + LANES])
    top = best.max(axis=1, keepdims=True)
    for j in tl.range(0, n, LANES):
        e = np.exp2((s[:, j : j + LANES] - top) * (d**-0.5 / np.log(2)))
        s[:, j : j + LANES] = e
        total = total + e
    factor = 1 / total.sum(axis=1, keepdims=True)
    for c in tl.range(0, d, columns):
        y[i : i + rows, c : c + columns] = tl.dot(s[:, :], v[:, c : c + columns]) * factor
