"""Four kernels that a compiler for neural networks must be able to say, built op by op.

Each function returns a kernel for the extents it is given; `write.py` prints those of the proofs.
Shapes of buffers stand at each function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from benchmarks.proofs.winograd import INPUTS, OUTPUTS, Form, derive, share
from minicc.ir import arith, kernel
from minicc.ir.affine import Dim, Expr, minimum, symbol
from minicc.ir.build import Builder
from minicc.ir.core import Function, Literal, Region, Value
from minicc.ir.types import F32, INDEX_TYPE, BufferType

I = [symbol(f"i{k}") for k in range(8)]
T = [symbol(f"t{k}") for k in range(4)]
LANES = 16  # floats that the transforms and soft-max handle at once

Body = Callable[[Builder, Value, Sequence[Value]], Sequence[Value]]


def loop(b: Builder, name: str, hi: int, carried: Sequence[Value], body: Body, step: int = 1) -> Sequence[Value]:
    """A `kernel.for`; `body` gets builder, index and carried values, and returns the next ones."""
    index = Value(INDEX_TYPE, name)
    inner = [Value(v.type, "acc") for v in carried]
    region = b.region((index, *inner), lambda r: body(r, index, inner))
    return b.emit_all(kernel.For, carried, lo=0, hi=hi, step=step, body=region)


def constant(b: Builder, value: float, shape: tuple[int, ...]) -> Value:
    """A tile that holds one number."""
    return b.emit(arith.Constant, value=Literal(np.float32(value)), shape=shape)


def load(b: Builder, buffer: Value, indices: Sequence[Value], at: Sequence[Dim], shape: tuple[int, ...]) -> Value:
    """Read a tile."""
    return b.emit(kernel.Load, buffer, tuple(indices), at=tuple(at), shape=shape)


def store(b: Builder, buffer: Value, value: Value, indices: Sequence[Value], at: Sequence[Dim]) -> None:
    """Write a tile."""
    b.add(kernel.Store(buffer, value, tuple(indices), at=tuple(at), loc=b.loc))


def buffer(name: str, *shape: int, strides: tuple[int, ...] | None = None) -> Value:
    """A parameter in memory."""
    return Value(BufferType(F32, shape, strides), name)


def coordinates(names: str) -> list[Value]:
    """The arguments that say which instance runs."""
    return [Value(INDEX_TYPE, n) for n in names.split()]


def relu(b: Builder, x: Value) -> Value:
    """The greater of x and 0."""
    return b.emit(arith.Max, x, constant(b, 0, (1,) * len(x.type.shape)))


def function(name: str, args: Sequence[Value], b: Builder, grid: tuple[int, ...]) -> Function:
    """The kernel that the builder's ops make."""
    return Function(name, Region(tuple(args), b.ops, ()), {"grid": grid})


class Convolution(NamedTuple):
    """A direct convolution: output extents, channels, taps, and how it is cut into tiles."""

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
    cut: bool = True  # one block of the sum for each tap, else one chain over all

    @property
    def extents(self) -> tuple[int, int]:
        """Height and width of the input with its halo."""
        return (self.height - 1) * self.stride + self.taps, (self.width - 1) * self.stride + self.taps


def convolution(name: str, c: Convolution, loc: str) -> Function:
    """Channels last. x[h + halo, w + halo, ic], w[oc / columns, kh, kw, ic, columns], bias[oc],
    (residual[h, w, oc],) y[h, w, oc]; an instance is one tile of pixels x output channels."""
    p, h, block = coordinates("p h block")
    x, y = buffer("x", *c.extents, c.ic), buffer("y", c.height, c.width, c.oc)
    w = buffer("w", c.oc // c.columns, c.taps, c.taps, c.ic, c.columns)
    bias, residual = buffer("bias", c.oc), buffer("residual", c.height, c.width, c.oc)
    b = Builder((loc,))
    start: Dim = I[0] * c.rows
    if c.width % c.rows:  # the last block overlaps its neighbour
        start = minimum(start, c.width - c.rows)
    left = b.emit(kernel.Index, (block,), value=start)
    zero = constant(b, 0, (c.rows, c.columns))

    def tap(b: Builder, kh: Value, kw: Value, acc: Value) -> Value:
        def channel(b: Builder, ic: Value, carried: Sequence[Value]) -> Sequence[Value]:
            at = (I[0] * c.stride + I[2], (I[1] + T[0]) * c.stride + I[3], I[4] + T[1])
            xs = load(b, x, (h, left, kh, kw, ic), at, (c.rows, 1))
            ws = load(b, w, (p, kh, kw, ic), (*I[:4], T[1]), (1, c.columns))
            return (b.emit(arith.Fma, xs, ws, carried[0]),)

        (block_sum,) = loop(b, "ic", c.ic, (zero if c.cut else acc,), channel)
        return b.emit(arith.Add, acc, block_sum) if c.cut else block_sum

    def row(b: Builder, kh: Value, carried: Sequence[Value]) -> Sequence[Value]:
        return loop(b, "kw", c.taps, carried, lambda b, kw, acc: (tap(b, kh, kw, acc[0]),))

    (acc,) = loop(b, "kh", c.taps, (zero,), row)
    out = (I[0], I[1] + T[0], I[2] * c.columns + T[1])
    result = b.emit(arith.Add, acc, load(b, bias, (p,), (I[0] * c.columns + T[1],), (1, c.columns)))
    if c.residual:
        result = b.emit(arith.Add, result, load(b, residual, (h, left, p), out, (c.rows, c.columns)))
    store(b, y, relu(b, result) if c.relu else result, (h, left, p), out)
    args = (p, h, block, x, w, bias, *((residual,) if c.residual else ()), y)
    return function(name, args, b, (c.oc // c.columns, c.height, -(-c.width // c.rows)))


class Winograd(NamedTuple):
    """A 3x3 convolution of stride 1 by F(4x4, 3x3): extents, channels, and its blocks.

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
    rows: int = 14
    columns: int = 32
    cut: int = 32
    pad: int = 16  # between rows of V, so that they don't fall on the same lines of the cache

    @property
    def grid(self) -> tuple[int, int]:
        """Instances over blocks of output channels, and over rows of tiles."""
        return self.oc // self.channels, -(-self.high // self.tile_rows)

    @property
    def high(self) -> int:
        """Rows of tiles."""
        return -(-self.height // OUTPUTS)

    @property
    def wide(self) -> int:
        """Tiles in a row; the last one overlaps its neighbour where 4 does not divide."""
        return -(-self.width // OUTPUTS)


def transform(b: Builder, matrix: list[list[Fraction]], xs: Sequence[Value]) -> list[Value]:
    """The rows of a matrix applied to values of one shape."""
    plan = share(matrix)
    values = list(xs)
    for form in plan.shared:
        values.append(combine(b, form, values))
    return [combine(b, form, values) for form in plan.rows]


def combine(b: Builder, form: Form, values: Sequence[Value]) -> Value:
    """A linear form as additions, subtractions and multiply-adds; it has a coefficient 1."""
    terms = sorted(form.items(), key=lambda item: (item[1] != 1, abs(item[1]) != 1))
    assert terms[0][1] == 1, form
    total = values[terms[0][0]]
    for k, c in terms[1:]:
        if abs(c) == 1:
            total = b.emit(arith.Add if c == 1 else arith.Sub, total, values[k])
        else:
            total = b.emit(arith.Fma, values[k], constant(b, float(c), (1, 1)), total)
    return total


class _Parts(NamedTuple):
    """What the stages of the Winograd kernel share."""

    w: Winograd
    x: Value  # [height + 2, width + 2, ic]
    u: Value  # [oc / columns, 36, ic, columns]
    bias: Value  # [oc]
    y: Value  # [height, width, oc]
    v: Value  # [36, tiles, ic]
    m: Value  # [36, tiles, columns]
    across: Value  # [6, 6, 16]: between the two halves of a transform
    panel0: Value  # the first panel of output channels
    tile0: Value  # the first row of tiles


def winograd(name: str, w: Winograd, loc: str) -> Function:
    """Channels last. x[h + 2, w + 2, ic], u[oc / columns, 36, ic, columns], bias[oc], y[h, w, oc].

    V = B x B' of all tiles, then for each panel of output channels M = V U and y = A M A'.
    """
    assert w.height % OUTPUTS == 0 or w.tile_rows == w.high, "overlaps must be in one instance"
    block, row = coordinates("block row")
    x, u = buffer("x", w.height + 2, w.width + 2, w.ic), buffer("u", w.oc // w.columns, 36, w.ic, w.columns)
    bias, y = buffer("bias", w.oc), buffer("y", w.height, w.width, w.oc)
    b = Builder((loc,))
    tiles, pitch = w.tile_rows * w.wide, w.ic + w.pad
    v_type = BufferType(F32, (INPUTS**2, tiles, w.ic), (tiles * pitch, pitch, 1))
    v = b.emit(kernel.Alloc, type=v_type, home="L2")
    m = b.emit(kernel.Alloc, type=BufferType(F32, (INPUTS**2, tiles, w.columns)), home="L2")
    across = b.emit(kernel.Alloc, type=BufferType(F32, (INPUTS, INPUTS, LANES)))
    panels = w.channels // w.columns
    panel0 = b.emit(kernel.Index, (block,), value=I[0] * panels)
    first: Dim = I[0] * w.tile_rows
    if w.high % w.tile_rows:
        first = minimum(first, w.high - w.tile_rows)
    tile0 = b.emit(kernel.Index, (row,), value=first)
    parts = _Parts(w, x, u, bias, y, v, m, across, panel0, tile0)

    _for_tiles(b, parts, w.ic, _input)

    def panel(b: Builder, p: Value, carried: Sequence[Value]) -> Sequence[Value]:
        loop(b, "xi", INPUTS**2, (), lambda b, xi, _: _products(b, parts, p, xi))
        _for_tiles(b, parts, w.columns, lambda b, q, r, c, g: _output(b, q, p, r, c, g))
        return ()

    loop(b, "panel", panels, (), panel)
    return function(name, (block, row, x, u, bias, y), b, w.grid)


Stage = Callable[[Builder, _Parts, Value, Value, Value], None]


def _for_tiles(b: Builder, q: _Parts, channels: int, stage: Stage) -> None:
    """Run a stage for each tile of the instance and each group of channels."""

    def group(b: Builder, r: Value, c: Value, g: Value) -> Sequence[Value]:
        stage(b, q, r, c, g)
        return ()

    def column(b: Builder, r: Value, c: Value) -> Sequence[Value]:
        return loop(b, "group", channels // LANES, (), lambda b, g, _: group(b, r, c, g))

    def row(b: Builder, r: Value) -> Sequence[Value]:
        return loop(b, "c", q.w.wide, (), lambda b, c, _: column(b, r, c))

    loop(b, "r", q.w.tile_rows, (), lambda b, r, _: row(b, r))


def _origin(b: Builder, q: _Parts, r: Value, c: Value) -> tuple[Value, Value, Value]:
    """The first row and column of a tile's pixels, and its number within the instance."""
    oh = minimum((I[0] + I[1]) * OUTPUTS, q.w.height - OUTPUTS) if q.w.height % OUTPUTS else (I[0] + I[1]) * OUTPUTS
    ow = minimum(I[0] * OUTPUTS, q.w.width - OUTPUTS) if q.w.width % OUTPUTS else I[0] * OUTPUTS
    return (
        b.emit(kernel.Index, (q.tile0, r), value=oh),
        b.emit(kernel.Index, (c,), value=ow),
        b.emit(kernel.Index, (r, c), value=I[0] * q.w.wide + I[1]),
    )


def _slices(b: Builder, x: Value) -> list[Value]:
    return [b.emit(kernel.Slice, x, axis=0, start=k) for k in range(x.type.shape[0])]


def _input(b: Builder, q: _Parts, r: Value, c: Value, g: Value) -> None:
    h, w, t = _origin(b, q, r, c)
    matrix = derive().input

    def columns(b: Builder, j: Value, _: Sequence[Value]) -> Sequence[Value]:
        at = (I[0] + T[0], I[1] + I[2], I[3] * LANES + T[1])
        xs = _slices(b, load(b, q.x, (h, w, j, g), at, (INPUTS, LANES)))
        for k, value in enumerate(transform(b, matrix, xs)):
            store(b, q.across, value, (j,), (k + T[0], I[0], T[1]))
        return ()

    def rows(b: Builder, k: Value, _: Sequence[Value]) -> Sequence[Value]:
        xs = _slices(b, load(b, q.across, (k,), (I[0], T[0], T[1]), (INPUTS, LANES)))
        for j, value in enumerate(transform(b, matrix, xs)):
            store(b, q.v, value, (k, t, g), (I[0] * INPUTS + j + T[0], I[1], I[2] * LANES + T[1]))
        return ()

    loop(b, "j", INPUTS, (), columns)
    loop(b, "k", INPUTS, (), rows)


def _products(b: Builder, q: _Parts, p: Value, xi: Value) -> Sequence[Value]:
    """M of one of the 36 positions, for one panel: full register tiles, and what remains."""
    tiles = q.w.tile_rows * q.w.wide
    full, rest = divmod(tiles, q.w.rows)

    def block(b: Builder, t: Value, _: Sequence[Value]) -> Sequence[Value]:
        _product(b, q, p, xi, t, q.w.rows)
        return ()

    if full:
        loop(b, "t", full * q.w.rows, (), block, step=q.w.rows)
    if rest:
        _product(b, q, p, xi, b.emit(kernel.Index, (), value=full * q.w.rows), rest)
    return ()


def _product(b: Builder, q: _Parts, p: Value, xi: Value, t: Value, rows: int) -> None:
    w = q.w
    zero = constant(b, 0, (rows, w.columns))

    def chain(b: Builder, start: Value, k: Value, acc: Value) -> Value:
        vs = load(b, q.v, (xi, t, start, k), (I[0], I[1] + T[0], I[2] + I[3] + T[1]), (rows, 1))
        at = (I[0] + I[1], I[2], I[3] + I[4], T[1])
        us = load(b, q.u, (q.panel0, p, xi, start, k), at, (1, w.columns))
        return b.emit(arith.Fma, vs, us, acc)

    def blocks(b: Builder, start: Value, carried: Sequence[Value]) -> Sequence[Value]:
        first = carried[0] if w.cut == w.ic else zero
        (partial,) = loop(b, "k", w.cut, (first,), lambda b, k, acc: (chain(b, start, k, acc[0]),))
        return (partial if w.cut == w.ic else b.emit(arith.Add, carried[0], partial),)

    (acc,) = loop(b, "start", w.ic, (zero,), blocks, step=w.cut)
    store(b, q.m, acc, (xi, t), (I[0], I[1] + T[0], T[1]))


def _output(b: Builder, q: _Parts, p: Value, r: Value, c: Value, g: Value) -> None:
    h, w, t = _origin(b, q, r, c)
    matrix = derive().output
    channel = (I[0] + I[1]) * q.w.columns + I[2] * LANES + T[1]
    bias = load(b, q.bias, (q.panel0, p, g), ((I[0] + I[1]) * q.w.columns + I[2] * LANES + T[1],), (1, LANES))

    def columns(b: Builder, j: Value, _: Sequence[Value]) -> Sequence[Value]:
        at = (T[0] * INPUTS + I[0], I[1], I[2] * LANES + T[1])
        ms = _slices(b, load(b, q.m, (j, t, g), at, (INPUTS, LANES)))
        for k, value in enumerate(transform(b, matrix, ms)):
            store(b, q.across, value, (j,), (k + T[0], I[0], T[1]))
        return ()

    def rows(b: Builder, k: Value, _: Sequence[Value]) -> Sequence[Value]:
        ms = _slices(b, load(b, q.across, (k,), (I[0], T[0], T[1]), (INPUTS, LANES)))
        for j, value in enumerate(transform(b, matrix, ms)):
            out = relu(b, b.emit(arith.Add, value, bias))
            at = (I[3] + I[4], I[5] + j + T[0], channel)
            store(b, q.y, out, (q.panel0, p, g, h, k, w), at)
        return ()

    loop(b, "j", INPUTS, (), columns)
    loop(b, "k", OUTPUTS, (), rows)
