"""graph -> structured for Winograd's transforms: a tile at a point of the space.

    %v = graph.winograd_input %x   -->   a generic over (t, c) that reads the n*n pixels of tile t
                                         and fills the n*n places [k, t, c] of %v

A transform of a tile is a matrix on its columns, then on its rows; the matrices are written out as
additions and multiply-adds, with what several rows need made once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from minicc.ir import arith, structured
from minicc.ir.affine import Dim, maximum, minimum, symbol
from minicc.ir.build import Builder
from minicc.ir.core import Literal, Region, Value
from minicc.ir.graph.minimal_filters import TAPS, Form, Matrix, derive, share
from minicc.ir.rewrite import inline
from minicc.ir.space import PARALLEL, SEQUENTIAL, Iter, Space
from minicc.ir.types import DType, TensorType

IMAGE, DOWN, ACROSS, CHANNEL = (symbol(name) for name in "nijc")


def winograd_input(b: Builder, op: Any, operands: tuple[Value, ...]) -> Value:
    """The generic of a `graph.winograd_input`."""
    (x,), m = operands, op.outputs
    n = m + TAPS - 1
    _, height, width, channels = x.type.shape
    edge = TAPS - 1
    rows = _points(_corner(DOWN, height - edge, m), n, height)
    columns = _points(_corner(ACROSS, width - edge, m), n, width)
    reads = [(IMAGE, row, column, CHANNEL) for row in rows for column in columns]
    writes = [(k, IMAGE, DOWN, ACROSS, CHANNEL) for k in range(n * n)]
    _, batch, down, across, _ = op.result.type.shape
    space = Space([Iter("n", batch), Iter("i", down), Iter("j", across), Iter("c", channels)])
    body = _body(derive(m).input, x.type.dtype)
    return _transform(b, x, space, (reads, writes), body, op.result.type.shape)


def winograd_output(b: Builder, op: Any, operands: tuple[Value, ...]) -> Value:
    """The generic of a `graph.winograd_output`; overlapping tiles must come in order."""
    (x,), m = operands, op.outputs
    n = m + TAPS - 1
    batch, height, width, channels = op.result.type.shape
    rows = _points(_corner(DOWN, height, m), m, height)
    columns = _points(_corner(ACROSS, width, m), m, width)
    reads = [(k, IMAGE, DOWN, ACROSS, CHANNEL) for k in range(n * n)]
    writes = [(IMAGE, row, column, CHANNEL) for row in rows for column in columns]
    kinds = [PARALLEL if extent % m == 0 else SEQUENTIAL for extent in (height, width)]
    _, _, down, across, _ = x.type.shape
    tiles = Iter("i", down, kinds[0]), Iter("j", across, kinds[1])
    space = Space([Iter("n", batch), *tiles, Iter("c", channels)])
    body = _body(derive(m).output, x.type.dtype)
    return _transform(b, x, space, (reads, writes), body, op.result.type.shape)


def _corner(tile: Dim, extent: Dim, m: int) -> Dim:
    """The first output row (or column) of a tile."""
    start = tile * m
    if extent % m == 0:
        return start
    start = minimum(start, extent - m)
    return start if isinstance(extent, int) else maximum(start, 0)


def _points(start: Dim, count: int, extent: Dim) -> list[Dim]:
    """The rows (or columns) of a tile; of a free extent, which may be less, none is after its last.

    What is read there is used by nothing that stays.
    """
    points = [start + k for k in range(count)]
    return points if isinstance(extent, int) else [minimum(p, extent - 1) for p in points]


def _transform(
    b: Builder,
    x: Value,
    space: Space,
    maps: tuple[Sequence[tuple[Dim, ...]], Sequence[tuple[Dim, ...]]],
    body: Region,
    shape: tuple[Dim, ...],
) -> Value:
    """The generic that reads a tile, runs the body on it, and writes a tile."""
    reads, writes = maps
    # of yields for one element the last one counts: of a tile that is larger than its image, the
    # rows and columns that the image has come after the others
    order = sorted(range(len(writes)), reverse=True)
    scalars = [Value(a.type) for a in body.args]

    def copied(inner: Builder) -> Sequence[Value]:
        made = inline(inner, body, scalars, b.loc)
        return [made[k] for k in order]

    return b.emit(
        structured.Generic,
        (x,) * len(reads),
        space=space,
        maps=(*reads, *[writes[k] for k in order]),
        shapes=(shape,),
        combine=(None,) * len(writes),
        into=(0,) * len(writes),
        body=b.region(scalars, copied),
    )


@cache
def _body(matrix: Matrix, dtype: DType) -> Region:
    """The matrix on both sides of a tile, of which each op has a copy."""
    b, n = Builder(()), len(matrix[0])
    scalars = [Value(TensorType(dtype)) for _ in range(n * n)]
    columns = [apply(b, matrix, scalars[j::n]) for j in range(n)]
    rows = [apply(b, matrix, list(row)) for row in zip(*columns, strict=True)]
    return Region(scalars, b.ops, [v for row in rows for v in row])


def apply(b: Builder, matrix: Matrix, values: Sequence[Value]) -> list[Value]:
    """A matrix times a vector of scalars."""
    plan = share(matrix)
    known = list(values)
    for form in plan.shared:
        known.append(_combine(b, form, known))
    return [_combine(b, form, known) for form in plan.rows]


def _combine(b: Builder, form: Form, values: Sequence[Value]) -> Value:
    """A linear form as additions, subtractions and multiply-adds."""
    terms = sorted(form.items(), key=lambda item: (item[1] != 1, abs(item[1]) != 1))
    first, lead = terms[0]
    total = values[first]
    if lead != 1:
        total = b.emit(arith.Mul, total, _scalar(b, float(lead), total))
    for k, c in terms[1:]:
        if abs(c) == 1:
            total = b.emit(arith.Add if c == 1 else arith.Sub, total, values[k])
        else:
            total = b.emit(arith.Fma, values[k], _scalar(b, float(c), total), total)
    return total


def _scalar(b: Builder, value: float, like: Value) -> Value:
    return b.emit(arith.Constant, value=Literal(np.array(value, like.type.dtype.numpy)))
