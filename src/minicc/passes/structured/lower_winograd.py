"""graph -> structured for Winograd's transforms: a tile at a point of the space.

    %v = graph.winograd_input %x   -->   a generic over (t, c) that reads the n*n pixels of tile t
                                         and fills the n*n places [k, t, c] of %v

A transform of a tile is a matrix on its columns, then on its rows; the matrices are written out as
additions and multiply-adds, with what several rows need made once.

Mirrors: the hand-written transforms of ncnn and MNN; winograd_conv2d_transform of MLIR's Linalg.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minicc.ir import arith, structured
from minicc.ir.affine import Dim, minimum, symbol
from minicc.ir.build import Builder
from minicc.ir.core import Literal, Value
from minicc.ir.graph.minimal_filters import TAPS, Form, Matrix, derive, share
from minicc.ir.graph.winograd import tile_counts
from minicc.ir.space import PARALLEL, SEQUENTIAL, Iter, Space
from minicc.ir.types import TensorType

T, C = symbol("t"), symbol("c")


def winograd_input(b: Builder, op: Any, operands: tuple[Value, ...]) -> Value:
    """The generic of a `graph.winograd_input`."""
    (x,), m = operands, op.outputs
    n = m + TAPS - 1
    _, height, width, channels = x.type.extents
    batch, rows, columns = _corner(height - (TAPS - 1), width - (TAPS - 1), m)
    reads = [(batch, rows + i, columns + j, C) for i in range(n) for j in range(n)]
    writes = [(k, T, C) for k in range(n * n)]
    tiles = op.result.type.shape[1]
    space = Space([Iter("t", tiles), Iter("c", channels)])
    matrix = derive(m).input
    return _transform(b, x, space, (reads, writes), matrix, op.result.type.shape)


def winograd_output(b: Builder, op: Any, operands: tuple[Value, ...]) -> Value:
    """The generic of a `graph.winograd_output`; overlapping tiles must come in order."""
    (x,), m = operands, op.outputs
    n = m + TAPS - 1
    _, height, width, channels = op.result.type.extents
    batch, rows, columns = _corner(height, width, m)
    reads = [(k, T, C) for k in range(n * n)]
    writes = [(batch, rows + i, columns + j, C) for i in range(m) for j in range(m)]
    kind = SEQUENTIAL if height % m or width % m else PARALLEL
    space = Space([Iter("t", x.type.shape[1], kind), Iter("c", channels)])
    matrix = derive(m).output
    return _transform(b, x, space, (reads, writes), matrix, op.result.type.shape)


def _corner(height: int, width: int, m: int) -> tuple[Dim, Dim, Dim]:
    """The image of tile t, and its first output row and column."""
    down, across = tile_counts(height, width, m)
    assert isinstance(down, int)
    assert isinstance(across, int)
    row, column = T // across % down * m, T % across * m
    if height % m:
        row = minimum(row, height - m)
    if width % m:
        column = minimum(column, width - m)
    return T // (across * down), row, column


def _transform(
    b: Builder,
    x: Value,
    space: Space,
    maps: tuple[Sequence[tuple[Dim, ...]], Sequence[tuple[Dim, ...]]],
    matrix: Matrix,
    shape: tuple[Dim, ...],
) -> Value:
    """The generic that reads a tile, applies the matrix on both sides, and writes a tile."""
    reads, writes = maps
    scalars = [Value(TensorType(x.type.dtype)) for _ in reads]

    def body(inner: Builder) -> Sequence[Value]:
        n = len(matrix[0])
        columns = [apply(inner, matrix, scalars[j::n]) for j in range(n)]
        rows = [apply(inner, matrix, list(row)) for row in zip(*columns, strict=True)]
        return [v for row in rows for v in row]

    return b.emit(
        structured.Generic,
        (x,) * len(reads),
        space=space,
        maps=(*reads, *writes),
        shapes=(shape,),
        combine=(None,) * len(writes),
        into=(0,) * len(writes),
        body=b.region(scalars, body),
    )


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
