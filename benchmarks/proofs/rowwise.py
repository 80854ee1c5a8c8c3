"""Soft-max over rows, and one head of attention: what must run together over a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
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
    store,
)

from minicc.ir import arith, kernel
from minicc.ir.build import Builder
from minicc.ir.core import Function, Value
from minicc.ir.types import F32, BufferType


def power(b: Builder, x: Value, scale: float) -> Value:
    """exp(scale * x) for x of at most 0, as the compiler's own rule writes it."""
    factor = constant(b, scale / np.log(2), (1, 1))
    return b.emit(arith.Exp2, b.emit(arith.Mul, x, factor))


def softmax(name: str, rows: int, columns: int, loc: str, width: int = 64) -> Function:
    """x[rows, columns], y[rows, columns]; an instance is a row, read in tiles of `width`.

    Three walks over the row, which stays in the first cache: maximum, exponentials, division.
    """
    (row,) = coordinates("row")
    x, y = buffer("x", rows, columns), buffer("y", rows, columns)
    b = Builder((loc,))
    at, tile = (I[0], I[1] + T[1]), (1, width)

    def greatest(b: Builder, j: Value, best: Sequence[Value]) -> Sequence[Value]:
        return (b.emit(arith.Max, best[0], load(b, x, (row, j), at, tile)),)

    (best,) = loop(b, "j", columns, (constant(b, -np.inf, tile),), greatest, width)
    top = b.emit(kernel.Reduce, best, axis=1, combine="max")

    def exponential(b: Builder, j: Value, total: Sequence[Value]) -> Sequence[Value]:
        e = power(b, b.emit(arith.Sub, load(b, x, (row, j), at, tile), top), 1.0)
        store(b, y, e, (row, j), at)
        return (b.emit(arith.Add, total[0], e),)

    (total,) = loop(b, "j", columns, (constant(b, 0, tile),), exponential, width)
    whole = b.emit(kernel.Reduce, total, axis=1, combine="add")
    factor = b.emit(arith.Div, constant(b, 1, (1, 1)), whole)

    def scale(b: Builder, j: Value) -> None:
        store(b, y, b.emit(arith.Mul, load(b, y, (row, j), at, tile), factor), (row, j), at)

    each(b, "j", columns, scale, width)
    return function(name, (row, x, y), b, (rows,))


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


def attention(name: str, a: Attention, loc: str) -> Function:
    """q[n, d], k[n / columns, d, columns] as its producer packs it, v[n, d], y[n, d].

    An instance is a block of queries: its scores stay in scratch from the first product, through
    the soft-max, to the second.
    """
    (block,) = coordinates("block")
    n, d = a.length, a.depth
    q, k = buffer("q", n, d), buffer("k", n // a.columns, d, a.columns)
    v, y = buffer("v", n, d), buffer("y", n, d)
    b = Builder((loc,))
    s = b.emit(kernel.Alloc, type=BufferType(F32, (a.rows, n)))
    first = b.emit(kernel.Index, (block,), value=I[0] * a.rows)
    tile = (a.rows, a.columns)
    zero, at = constant(b, 0, tile), (T[0], I[0] + T[1])
    narrow = (a.rows, LANES)  # more exponentials at once than registers are not faster

    def scores(b: Builder, p: Value) -> None:
        def step(b: Builder, j: Value, acc: Sequence[Value]) -> Sequence[Value]:
            qs = load(b, q, (first, j), (I[0] + T[0], I[1] + T[1]), (a.rows, 1))
            ks = load(b, k, (p, j), (I[0], I[1], T[1]), (1, a.columns))
            return (b.emit(arith.Fma, qs, ks, acc[0]),)

        (acc,) = loop(b, "j", d, (zero,), step)
        store(b, s, acc, (p,), (T[0], I[0] * a.columns + T[1]))

    def greatest(b: Builder, j: Value, best: Sequence[Value]) -> Sequence[Value]:
        return (b.emit(arith.Max, best[0], load(b, s, (j,), at, narrow)),)

    each(b, "p", n // a.columns, scores)
    (best,) = loop(b, "j", n, (constant(b, -np.inf, narrow),), greatest, LANES)
    top = b.emit(kernel.Reduce, best, axis=1, combine="max")

    def exponential(b: Builder, j: Value, total: Sequence[Value]) -> Sequence[Value]:
        e = power(b, b.emit(arith.Sub, load(b, s, (j,), at, narrow), top), d**-0.5)
        store(b, s, e, (j,), at)
        return (b.emit(arith.Add, total[0], e),)

    (total,) = loop(b, "j", n, (constant(b, 0, narrow),), exponential, LANES)
    whole = b.emit(kernel.Reduce, total, axis=1, combine="add")
    factor = b.emit(arith.Div, constant(b, 1, (1, 1)), whole)

    def output(b: Builder, c: Value) -> None:
        def step(b: Builder, j: Value, acc: Sequence[Value]) -> Sequence[Value]:
            es = load(b, s, (j,), at, (a.rows, 1))
            vs = load(b, v, (j, c), (I[0] + T[0], I[1] + T[1]), (1, a.columns))
            return (b.emit(arith.Fma, es, vs, acc[0]),)

        (acc,) = loop(b, "j", n, (zero,), step)
        where = (I[0] + T[0], I[1] + T[1])
        store(b, y, b.emit(arith.Mul, acc, factor), (first, c), where)

    each(b, "c", d, output, a.columns)
    return function(name, (block, q, k, v, y), b, (n // a.rows,))
