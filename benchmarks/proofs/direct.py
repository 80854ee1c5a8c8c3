"""A direct convolution: any stride and taps, halo in the input, bias, residual and ReLU."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import minicc
import minicc.tile as tl


class Convolution(NamedTuple):
    """Output extents, channels, taps, and how it is cut into tiles."""

    height: int
    width: int
    ic: int
    oc: int
    taps: int = 3
    stride: int = 1
    rows: int = 14
    columns: int = 32
    residual: bool = False
    relu: bool = True
    cut: int = 128  # at most so many terms of a sum in one chain; blocks are added

    @property
    def extents(self) -> tuple[int, int]:
        """Height and width of the input with its halo."""
        h, w = ((n - 1) * self.stride + self.taps for n in (self.height, self.width))
        return h, w

    @property
    def flops(self) -> int:
        """Floating-point operations of the sums."""
        return 2 * self.height * self.width * self.oc * self.ic * self.taps**2


@minicc.kernel(
    grid=lambda c: (c.oc // c.columns, c.height, tl.cdiv(c.width, c.rows)),
    out=lambda c: (c.height, c.width, c.oc),
    threads=1,
)
def convolution(x: Any, w: Any, bias: Any, *others: Any, c: Convolution) -> None:
    """Channels are last, and an instance is a tile of pixels x output channels.

    x[h + halo, w + halo, ic], w[oc / columns, kh, kw, ic, columns], bias[oc],
    (residual[h, w, oc],) y[h, w, oc].
    """
    p, h, left = tl.program_id(0), tl.program_id(1), tl.program_id(2) * c.rows
    if c.width % c.rows:  # the last block overlaps its neighbour
        left = np.minimum(left, c.width - c.rows)
    total, cut = tl.zeros((c.rows, c.columns)), min(c.cut, c.ic)
    for kh in tl.range(c.taps):
        for kw in tl.range(c.taps):
            for start in tl.range(0, c.ic, cut):
                pixels = tl.ds(left * c.stride + kw, c.rows, c.stride)
                xs = x[h * c.stride + kh, pixels, start : start + cut]
                total = total + tl.dot(xs, w[p, kh, kw, start : start + cut, :])
    here = (h, tl.ds(left, c.rows), tl.ds(p * c.columns, c.columns))
    result = total + bias[tl.ds(p * c.columns, c.columns)]
    if c.residual:
        result = result + others[0][here]
    others[-1][here] = np.maximum(result, 0) if c.relu else result
