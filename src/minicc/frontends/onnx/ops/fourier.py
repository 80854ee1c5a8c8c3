"""Fast Fourier transforms of known lengths: a small transform for each factor of the length.

    n = 1024 = 16 * 8 * 8   -->   products with matrices of 16 x 16, 8 x 8 and 8 x 8

These are the stages of Cooley and Tukey in Stockham's order, in which nothing has to be moved: of
an axis of `radix * rest` elements, as [radix, rest], the first is transformed and stands behind
the second, and what it gives is turned by the roots of unity that the rest does not hold. Real and
imaginary parts lie apart meanwhile, so that vectors run along what is transformed already.

Tables are made in f64; f16 and bf16 are transformed in f32 and rounded once.
"""

from __future__ import annotations

from functools import lru_cache
from math import isqrt
from string import ascii_lowercase

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.ops.movement import cut
from minicc.ir import graph
from minicc.ir.core import Array, Value
from minicc.ir.types import F32

# The work of a stage apart from its products, in products of each element: its turns and moves.
_STAGE = 10
# The first results lie side by side in vectors: fewer are as much work.
_VECTOR = 16


@lru_cache
def radices_of(length: int) -> tuple[int, ...]:
    """The factors of a length whose transforms are the least work, the first of them first.

    A single one means that a product with a matrix is.
    """
    best: tuple[int, tuple[int, ...]] = (max(length, _VECTOR) + _STAGE, (length,))
    for first in _divisors(length):
        work, others = _least(length // first)
        best = min(best, (max(first, _VECTOR) + _STAGE + work, (first, *others)))
    return best[1]


@lru_cache
def _least(length: int) -> tuple[int, tuple[int, ...]]:
    """The least work for what comes after the first stage, and its radices."""
    best: tuple[int, tuple[int, ...]] = (length + _STAGE, (length,))
    for radix in _divisors(length):
        work, others = _least(length // radix)
        best = min(best, (radix + _STAGE + work, tuple(sorted((radix, *others), reverse=True))))
    return best


def _divisors(length: int) -> list[int]:
    """Those between 1 and the length."""
    small = [r for r in range(2, isqrt(length) + 1) if length % r == 0]
    return sorted({*small, *(length // r for r in small)})


def transformed(
    ctx: Context, x: Value, axis: int, rows: int, inverse: bool = False, real: bool = False
) -> Value:
    """The first `rows` results of a transform along an axis, which is known.

    The last axis holds the parts of complex numbers, or the real one alone, which is also what is
    returned if `real`.
    """
    element = x.type.dtype
    shape = x.type.shape
    before, length, after, parts = shape[:axis], shape[axis], shape[axis + 1 : -1], shape[-1]
    length = ctx.static(length, "the axis")
    y = ctx.cast(x, F32) if element.bits < 32 else x
    if parts == 2:
        order = [*range(x.type.rank)]
        order.insert(axis, order.pop())
        y = ctx.emit(graph.Transpose, y, perm=tuple(order))
    done, rest = 1, length
    for radix in radices_of(length):
        rest //= radix
        y = ctx.reshape(y, (*before, parts, radix, rest, done, *after))
        kept = radix if rest > 1 else -(-rows // done)
        ctx.room(radix, kept, 2, 2)
        weights = _small(radix, kept, inverse, length if rest == 1 and inverse else 1)
        weights = weights[:parts, : 1 if real and rest == 1 else 2]
        y = _stage(ctx, y, weights, axis)
        if rest > 1:
            y = _turned(ctx, y, axis, inverse)
        done, parts = done * kept, 2
    y = ctx.reshape(y, (*before, 1 if real else 2, done, *after))
    y = cut(ctx, y, {axis + 1: (0, rows, 1)})
    order = [*range(y.type.rank)]
    order.append(order.pop(axis))
    return ctx.cast(ctx.emit(graph.Transpose, y, perm=tuple(order)), element)


def _stage(ctx: Context, y: Value, weights: Array, axis: int) -> Value:
    """[..., parts, radix, rest, done, ...] with the radix transformed, and behind the rest."""
    letters = ascii_lowercase[: y.type.rank - 4]
    before, after = letters[:axis], letters[axis:]
    matrix = ctx.constant(weights.astype(y.type.dtype.numpy))
    equation = f"{before}PRJM{after},PQRK->{before}QJKM{after}"
    return ctx.emit(graph.Contract, y, matrix, equation=equation)


def _turned(ctx: Context, y: Value, axis: int, inverse: bool) -> Value:
    """[..., 2, rest, radix, ...] times the root of unity of each of the rest and of the radix."""
    rest, radix = (ctx.static(n, "a factor") for n in y.type.shape[axis + 1 : axis + 3])
    cosines, sines = rotations(rest, radix, rest * radix, inverse)
    tail = (1,) * (y.type.rank - axis - 3)
    own = cosines.reshape(1, rest, radix, *tail)
    others = np.stack([-sines, sines]).reshape(2, rest, radix, *tail)
    swapped = cut(ctx, y, {axis: (1, -1, -1)})
    tables = (ctx.constant(t.astype(y.type.dtype.numpy)) for t in (own, others))
    terms = [ctx.emit(graph.Mul, v, t) for v, t in zip((y, swapped), tables, strict=True)]
    return ctx.emit(graph.Add, *terms)


def _small(radix: int, kept: int, inverse: bool, divisor: int) -> Array:
    """The matrix of a small transform: of both parts to both parts, and of elements to results."""
    cosines, sines = rotations(radix, kept, radix, inverse)
    parts = [np.stack([cosines, sines]), np.stack([-sines, cosines])]
    return np.stack(parts) / divisor


def rotations(rows: int, columns: int, length: int, inverse: bool) -> tuple[Array, Array]:
    """The real and imaginary parts of exp(-2 pi i r c / length), conjugate if inverse."""
    turns = np.outer(np.arange(rows), np.arange(columns)) % max(length, 1)
    angle = turns * (2 * np.pi / max(length, 1))
    return np.cos(angle), np.sin(angle) if inverse else -np.sin(angle)
