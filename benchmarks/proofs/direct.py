"""A direct convolution: any stride and taps, halo in the input, bias, residual and ReLU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.proofs.shorthand import (
    I,
    T,
    buffer,
    constant,
    coordinates,
    function,
    load,
    loop,
    relu,
    store,
)

from minicc.ir import arith, kernel
from minicc.ir.affine import Dim, minimum
from minicc.ir.build import Builder
from minicc.ir.core import Function, Value


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


def convolution(name: str, c: Convolution, loc: str) -> Function:
    """The kernel; channels are last, and an instance is a tile of pixels x output channels.

    x[h + halo, w + halo, ic], w[oc / columns, kh, kw, ic, columns], bias[oc],
    (residual[h, w, oc],) y[h, w, oc].
    """
    p, h, block = coordinates("p h block")
    x, y = buffer("x", *c.extents, c.ic), buffer("y", c.height, c.width, c.oc)
    w = buffer("w", c.oc // c.columns, c.taps, c.taps, c.ic, c.columns)
    bias, residual = buffer("bias", c.oc), buffer("residual", c.height, c.width, c.oc)
    b = Builder((loc,))
    start: Dim = I[0] * c.rows
    if c.width % c.rows:  # the last block overlaps its neighbour
        start = minimum(start, c.width - c.rows)
    left = b.emit(kernel.Index, (block,), value=start)
    acc = _sums(b, c, (x, w), (p, h, left))
    out = (I[0], I[1] + T[0], I[2] * c.columns + T[1])
    addend = load(b, bias, (p,), (I[0] * c.columns + T[1],), (1, c.columns))
    result = b.emit(arith.Add, acc, addend)
    if c.residual:
        addend = load(b, residual, (h, left, p), out, (c.rows, c.columns))
        result = b.emit(arith.Add, result, addend)
    store(b, y, relu(b, result) if c.relu else result, (h, left, p), out)
    args = (p, h, block, x, w, bias, *((residual,) if c.residual else ()), y)
    return function(name, args, b, (c.oc // c.columns, c.height, -(-c.width // c.rows)))


def _sums(
    b: Builder, c: Convolution, buffers: tuple[Value, Value], at: tuple[Value, Value, Value]
) -> Value:
    """The accumulated tile: loops over both taps, and blocks of input channels."""
    (x, w), (p, h, left) = buffers, at
    zero = constant(b, 0, (c.rows, c.columns))
    cut = min(c.cut, c.ic)
    assert c.ic % cut == 0, c

    def block(b: Builder, tap: tuple[Value, Value], start: Value) -> Value:
        def step(b: Builder, ic: Value, acc: Sequence[Value]) -> Sequence[Value]:
            channel = I[4] + I[5] + T[1]
            pixel = (I[0] * c.stride + I[2], (I[1] + T[0]) * c.stride + I[3], channel)
            xs = load(b, x, (h, left, *tap, start, ic), pixel, (c.rows, 1))
            at = (I[0], I[1], I[2], I[3] + I[4], T[1])
            ws = load(b, w, (p, *tap, start, ic), at, (1, c.columns))
            return (b.emit(arith.Fma, xs, ws, acc[0]),)

        (total,) = loop(b, "ic", cut, (zero,), step)
        return total

    def add(b: Builder, tap: tuple[Value, Value], start: Value, acc: Value) -> Sequence[Value]:
        return (b.emit(arith.Add, acc, block(b, tap, start)),)

    def tap(b: Builder, kh: Value, kw: Value, acc: Sequence[Value]) -> Sequence[Value]:
        if cut == c.ic:
            return add(b, (kh, kw), b.emit(kernel.Index, (), value=0), acc[0])
        return loop(b, "start", c.ic, acc, lambda b, s, a: add(b, (kh, kw), s, a[0]), cut)

    def row(b: Builder, kh: Value, acc: Sequence[Value]) -> Sequence[Value]:
        return loop(b, "kw", c.taps, acc, lambda b, kw, a: tap(b, kh, kw, a))

    (total,) = loop(b, "kh", c.taps, (zero,), row)
    return total
