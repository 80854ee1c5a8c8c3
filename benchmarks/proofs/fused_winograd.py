"""Winograd F(4x4, 3x3) in one kernel: V and M, which lie between its stages, never leave scratch.

With B, G, A of `winograd.py`, for each tile of 6x6 inputs: V = B x B', at each of the 36 positions
M = V U over the input channels, and 4x4 outputs y = A M A'. The weights U = G w G' come ready made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from benchmarks.proofs.shorthand import (
    LANES,
    I,
    T,
    buffer,
    constant,
    coordinates,
    each,
    function,
    load,
    loop,
    relu,
    store,
)
from benchmarks.proofs.winograd import INPUTS, OUTPUTS, Form, Matrix, derive, share

from minicc.ir import arith, kernel
from minicc.ir.affine import Dim, minimum
from minicc.ir.build import Builder
from minicc.ir.core import Function, Value
from minicc.ir.types import F32, BufferType

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


class _Parts(NamedTuple):
    """What the stages share."""

    w: Winograd
    x: Value  # [height + 2, width + 2, ic]
    u: Value  # [oc / columns, 36, ic, columns]
    bias: Value  # [oc]
    y: Value  # [height, width, oc]
    v: Value  # [36, tiles, ic]
    m: Value  # [36, tiles, columns]
    across: Value  # [6, 6, 16]: between the two halves of a transform
    panel0: Value  # the first panel of output channels
    row0: Value  # the first row of tiles


def winograd(name: str, w: Winograd, loc: str) -> Function:
    """The kernel; channels are last, and the input has a halo of one pixel.

    x[h + 2, w + 2, ic], u[oc / columns, 36, ic, columns], bias[oc], y[h, w, oc].
    """
    # Two tiles that overlap give a pixel different bits, so one instance must order them.
    assert w.height % OUTPUTS == 0 or w.tile_rows == w.high, w
    block, row = coordinates("block row")
    x, y = buffer("x", w.height + 2, w.width + 2, w.ic), buffer("y", w.height, w.width, w.oc)
    u, bias = buffer("u", w.oc // w.columns, POSITIONS, w.ic, w.columns), buffer("bias", w.oc)
    b = Builder((loc,))
    pitch, panels = w.ic + w.pad, w.channels // w.columns
    v_type = BufferType(F32, (POSITIONS, w.tiles, w.ic), (w.tiles * pitch, pitch, 1))
    v = b.emit(kernel.Alloc, type=v_type, home="L2")
    m_type = BufferType(F32, (POSITIONS, w.tiles, w.columns))
    m = b.emit(kernel.Alloc, type=m_type, home="L2")
    across = b.emit(kernel.Alloc, type=BufferType(F32, (INPUTS, INPUTS, LANES)))
    panel0 = b.emit(kernel.Index, (block,), value=I[0] * panels)
    first: Dim = I[0] * w.tile_rows
    if w.high % w.tile_rows:  # the last rows are made twice, alike
        first = minimum(first, w.high - w.tile_rows)
    row0 = b.emit(kernel.Index, (row,), value=first)
    q = _Parts(w, x, u, bias, y, v, m, across, panel0, row0)

    def panel(b: Builder, p: Value) -> None:
        each(b, "xi", POSITIONS, lambda b, xi: _products(b, q, p, xi))
        _for_tiles(b, q, w.columns, lambda b, r, c, g: _output(b, q, p, (r, c, g)))

    _for_tiles(b, q, w.ic, lambda b, r, c, g: _input(b, q, (r, c, g)))
    each(b, "panel", panels, panel)
    return function(name, (block, row, x, u, bias, y), b, w.grid)


Stage = Callable[[Builder, Value, Value, Value], None]
Tile = tuple[Value, Value, Value]  # row and column among the instance's tiles, group of channels


def _for_tiles(b: Builder, q: _Parts, channels: int, stage: Stage) -> None:
    """Run a stage for each tile of the instance and each group of channels."""

    def row(b: Builder, r: Value) -> None:
        each(b, "c", q.w.wide, lambda b, c: column(b, r, c))

    def column(b: Builder, r: Value, c: Value) -> None:
        each(b, "group", channels // LANES, lambda b, g: stage(b, r, c, g))

    each(b, "r", q.w.tile_rows, row)


def _origin(b: Builder, q: _Parts, r: Value, c: Value) -> tuple[Value, Value, Value]:
    """The first row and column of a tile's pixels, and its number within the instance."""
    w = q.w
    down, right = (I[0] + I[1]) * OUTPUTS, I[0] * OUTPUTS
    if w.height % OUTPUTS:
        down = minimum(down, w.height - OUTPUTS)
    if w.width % OUTPUTS:
        right = minimum(right, w.width - OUTPUTS)
    return (
        b.emit(kernel.Index, (q.row0, r), value=down),
        b.emit(kernel.Index, (c,), value=right),
        b.emit(kernel.Index, (r, c), value=I[0] * w.wide + I[1]),
    )


def transform(b: Builder, matrix: Matrix, column: Value) -> list[Value]:
    """A matrix times a tile [rows, 16], as tiles [1, 16]."""
    plan = share(matrix)
    count = column.type.shape[0]
    values = [b.emit(kernel.Slice, column, axis=0, start=k) for k in range(count)]
    for form in plan.shared:
        values.append(combine(b, form, values))
    return [combine(b, form, values) for form in plan.rows]


def combine(b: Builder, form: Form, values: Sequence[Value]) -> Value:
    """A linear form as additions, subtractions and multiply-adds; one coefficient must be 1."""
    terms = sorted(form.items(), key=lambda item: (item[1] != 1, abs(item[1]) != 1))
    assert terms[0][1] == 1, form
    total = values[terms[0][0]]
    for k, c in terms[1:]:
        if abs(c) == 1:
            total = b.emit(arith.Add if c == 1 else arith.Sub, total, values[k])
        else:
            total = b.emit(arith.Fma, values[k], constant(b, float(c), (1, 1)), total)
    return total


def _input(b: Builder, q: _Parts, tile: Tile) -> None:
    """V of a tile: the matrix on its columns, then on the rows of what that gave."""
    r, c, g = tile
    h, w, t = _origin(b, q, r, c)
    matrix = derive().input

    def columns(b: Builder, j: Value) -> None:
        at = (I[0] + T[0], I[1] + I[2], I[3] * LANES + T[1])
        xs = load(b, q.x, (h, w, j, g), at, (INPUTS, LANES))
        for k, value in enumerate(transform(b, matrix, xs)):
            store(b, q.across, value, (j,), (k + T[0], I[0], T[1]))

    def rows(b: Builder, k: Value) -> None:
        xs = load(b, q.across, (k,), (I[0], T[0], T[1]), (INPUTS, LANES))
        for j, value in enumerate(transform(b, matrix, xs)):
            at = (I[0] * INPUTS + j + T[0], I[1], I[2] * LANES + T[1])
            store(b, q.v, value, (k, t, g), at)

    each(b, "j", INPUTS, columns)
    each(b, "k", INPUTS, rows)


def _products(b: Builder, q: _Parts, p: Value, xi: Value) -> None:
    """M at one of the 36 positions, for one panel: full register tiles, and what remains."""
    full, rest = divmod(q.w.tiles, q.w.rows)
    whole = full * q.w.rows
    if full:
        each(b, "t", whole, lambda b, t: _product(b, q, (p, xi, t), q.w.rows), q.w.rows)
    if rest:
        _product(b, q, (p, xi, b.emit(kernel.Index, (), value=whole)), rest)


def _product(b: Builder, q: _Parts, at: tuple[Value, Value, Value], rows: int) -> None:
    """M for one register tile."""
    w, (p, xi, t) = q.w, at
    zero = constant(b, 0, (rows, w.columns))

    def chain(b: Builder, start: Value, first: Value) -> Value:
        def step(b: Builder, k: Value, acc: Sequence[Value]) -> Sequence[Value]:
            weights, line = (q.panel0, p, xi, start, k), (1, w.columns)
            of_v = (I[0], I[1] + T[0], I[2] + I[3] + T[1])
            of_u = (I[0] + I[1], I[2], I[3] + I[4], T[1])
            # the same line of the next position, which is wanted when this position is done
            following = (I[0] + I[1], I[2] + 1, I[3] + I[4], T[1])
            b.add(kernel.Prefetch(q.u, weights, at=following, shape=line, loc=b.loc))
            vs = load(b, q.v, (xi, t, start, k), of_v, (rows, 1))
            us = load(b, q.u, weights, of_u, line)
            return (b.emit(arith.Fma, vs, us, acc[0]),)

        (acc,) = loop(b, "k", w.cut, (first,), step)
        return acc

    def add(b: Builder, start: Value, total: Sequence[Value]) -> Sequence[Value]:
        return (b.emit(arith.Add, total[0], chain(b, start, zero)),)

    if w.cut == w.ic:
        acc = chain(b, b.emit(kernel.Index, (), value=0), zero)
    else:
        (acc,) = loop(b, "start", w.ic, (zero,), add, w.cut)
    store(b, q.m, acc, (xi, t), (I[0], I[1] + T[0], T[1]))


def _output(b: Builder, q: _Parts, p: Value, tile: Tile) -> None:
    """The pixels of a tile from its M, with bias and ReLU."""
    r, c, g = tile
    h, w, t = _origin(b, q, r, c)
    matrix = derive().output
    channel = (I[0] + I[1]) * q.w.columns + I[2] * LANES + T[1]
    bias = load(b, q.bias, (q.panel0, p, g), (channel,), (1, LANES))

    def columns(b: Builder, j: Value) -> None:
        at = (T[0] * INPUTS + I[0], I[1], I[2] * LANES + T[1])
        ms = load(b, q.m, (j, t, g), at, (INPUTS, LANES))
        for k, value in enumerate(transform(b, matrix, ms)):
            store(b, q.across, value, (j,), (k + T[0], I[0], T[1]))

    def rows(b: Builder, k: Value) -> None:
        ms = load(b, q.across, (k,), (I[0], T[0], T[1]), (INPUTS, LANES))
        for j, value in enumerate(transform(b, matrix, ms)):
            out = relu(b, b.emit(arith.Add, value, bias))
            at = (I[3] + I[4], I[5] + j + T[0], channel)
            store(b, q.y, out, (q.panel0, p, g, h, k, w), at)

    each(b, "j", INPUTS, columns)
    each(b, "k", OUTPUTS, rows)
