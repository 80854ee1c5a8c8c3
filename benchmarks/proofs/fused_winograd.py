"""Winograd F(4x4, 3x3) in one kernel: V and M, which lie between its stages, never leave scratch.

With B, G, A of `winograd.py`, for each tile of 6x6 inputs: V = B x B', at each of the 36 positions
M = V U over the input channels, and 4x4 outputs y = A M A'. The weights U = G w G' come ready made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from benchmarks.proofs.rowwise import LANES
from benchmarks.proofs.winograd import INPUTS, OUTPUTS, Form, Matrix, derive, share

import minicc
import minicc.tile as tl

POSITIONS = INPUTS**2


class Winograd(NamedTuple):
    """Extents, channels and blocks of a 3x3 convolution of stride 1.

    An instance makes `tile_rows` rows of output tiles (of 4x4 pixels) for `channels` output
    channels. Its products are register tiles of `rows` tiles x `columns` channels, whose sums over
    input channels are cut into blocks of `cut`.
    """

    height: int
    width: int
    ic: int
    oc: int
    tile_rows: int
    channels: int
    rows: int = 7
    columns: int = 32
    cut: int = 32
    pad: int = 16  # floats between rows of V, which else fall on the same lines of the cache

    @property
    def high(self) -> int:
        """Rows of tiles."""
        return -(-self.height // OUTPUTS)

    @property
    def wide(self) -> int:
        """Tiles in a row; the last one overlaps its neighbour where 4 does not divide."""
        return -(-self.width // OUTPUTS)

    @property
    def tiles(self) -> int:
        """Tiles of an instance."""
        return self.tile_rows * self.wide

    @property
    def grid(self) -> tuple[int, int]:
        """Instances over blocks of output channels, and over rows of tiles."""
        return self.oc // self.channels, -(-self.high // self.tile_rows)

    @property
    def flops(self) -> int:
        """Operations of the direct form, which rates are told in."""
        return 2 * self.height * self.width * self.oc * self.ic * 9


@minicc.kernel(grid=lambda w: w.grid, out=lambda w: (w.height, w.width, w.oc), threads=1)
def winograd(x: Any, u: Any, bias: Any, y: Any, *, w: Winograd) -> None:
    """Channels are last, and the input has a halo of one pixel.

    x[h + 2, w + 2, ic], u[oc / columns, 36, ic, columns], bias[oc], y[h, w, oc].
    """
    # Two tiles that overlap give a pixel different bits, so one instance must order them.
    assert w.height % OUTPUTS == 0 or w.tile_rows == w.high, w
    panels = w.channels // w.columns
    row0 = tl.program_id(1) * w.tile_rows
    if w.high % w.tile_rows:  # the last rows are made twice, alike
        row0 = np.minimum(row0, w.high - w.tile_rows)
    v = tl.alloc((POSITIONS, w.tiles, w.ic + w.pad))
    m = tl.alloc((POSITIONS, w.tiles, w.columns))
    across = tl.alloc((INPUTS, INPUTS, LANES))  # between the two halves of a transform
    for r in tl.range(w.tile_rows):
        for c in tl.range(w.wide):
            for g in tl.range(0, w.ic, LANES):
                _input(x, v, across, _origin(w, row0 + r, c), (r * w.wide + c, g))
    for p in tl.range(panels):
        panel = tl.program_id(0) * panels + p
        for xi in tl.range(POSITIONS):
            _products(v, u, m, w, (panel, xi))
        for r in tl.range(w.tile_rows):
            for c in tl.range(w.wide):
                for g in tl.range(0, w.columns, LANES):
                    channels = tl.ds(panel * w.columns + g, LANES)
                    to = (*_origin(w, row0 + r, c), channels)
                    _output(m, across, bias[channels], y, (r * w.wide + c, g), to)


def _origin(w: Winograd, row: Any, column: Any) -> tuple[Any, Any]:
    """The first row and column of a tile's pixels."""
    down, right = row * OUTPUTS, column * OUTPUTS
    if w.height % OUTPUTS:
        down = np.minimum(down, w.height - OUTPUTS)
    if w.width % OUTPUTS:
        right = np.minimum(right, w.width - OUTPUTS)
    return down, right


def _transform(matrix: Matrix, column: Any) -> Iterator[Any]:
    """A matrix times a tile [rows, 16], as tiles [16]."""
    plan = share(matrix)
    values = [column[k] for k in range(column.shape[0])]
    for form in plan.shared:
        values.append(_combined(form, values))
    return (_combined(form, values) for form in plan.rows)


def _combined(form: Form, values: Sequence[Any]) -> Any:
    """A linear form as additions, subtractions and multiply-adds; one coefficient must be 1."""
    terms = sorted(form.items(), key=lambda item: (item[1] != 1, abs(item[1]) != 1))
    assert terms[0][1] == 1, form
    total = values[terms[0][0]]
    for k, c in terms[1:]:
        if abs(c) == 1:
            total = total + values[k] if c == 1 else total - values[k]
        else:
            total = tl.fma(values[k], float(c), total)
    return total


def _input(x: Any, v: Any, across: Any, place: tuple[Any, Any], to: tuple[Any, Any]) -> None:
    """V of a tile: the matrix on its columns, then on the rows of what that gave."""
    (h, w), (t, g), matrix = place, to, derive().input
    for j in tl.range(INPUTS):
        column = x[tl.ds(h, INPUTS), w + j, tl.ds(g, LANES)]
        for k, value in enumerate(_transform(matrix, column)):
            across[k, j, :] = value
    for i in tl.range(INPUTS):
        for k, value in enumerate(_transform(matrix, across[i, :, :])):
            v[i * INPUTS + k, t, tl.ds(g, LANES)] = value


def _products(v: Any, u: Any, m: Any, w: Winograd, at: tuple[Any, Any]) -> None:
    """M at one of the 36 positions, for one panel: full register tiles, and what remains."""
    panel, xi = at

    def product(t: Any, rows: int) -> None:
        total = tl.zeros((rows, w.columns))
        for start in tl.range(0, w.ic, w.cut):
            acc = tl.zeros((rows, w.columns))
            for k in tl.range(w.cut):
                # the same line of the next position, which is wanted when this position is done
                tl.prefetch(u, (panel, xi + 1, start + k, ...))
                vs = v[xi, tl.ds(t, rows), tl.ds(start + k, 1)]
                acc = tl.fma(vs, u[panel, xi, start + k, :], acc)
            total = total + acc
        m[xi, tl.ds(t, rows), :] = total

    whole = w.tiles // w.rows * w.rows
    for t in tl.range(0, whole, w.rows):
        product(t, w.rows)
    if w.tiles > whole:
        product(whole, w.tiles - whole)


def _output(
    m: Any, across: Any, bias: Any, y: Any, of: tuple[Any, Any], to: tuple[Any, Any, Any]
) -> None:
    """The pixels of a tile from its M, with bias and ReLU."""
    (t, g), (h, w, channels), matrix = of, to, derive().output
    for j in tl.range(INPUTS):
        column = m[tl.ds(j, INPUTS, INPUTS), t, tl.ds(g, LANES)]
        for k, value in enumerate(_transform(matrix, column)):
            across[k, j, :] = value
    for i in tl.range(OUTPUTS):
        for k, value in enumerate(_transform(matrix, across[i, :, :])):
            y[h + i, w + k, channels] = np.maximum(value + bias, 0)
