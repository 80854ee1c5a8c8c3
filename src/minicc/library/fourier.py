"""Fast Fourier transforms of known lengths: a small transform for each factor of the length.

    n = 1024 = 16 * 8 * 8   -->   products with matrices of 16 x 16, 8 x 8 and 8 x 8

These are the stages of Cooley and Tukey in Stockham's order, in which nothing has to be moved: of
an axis of `radix * rest` elements, as [radix, rest], the first is transformed and stands behind
the second, and what it gives is turned by the roots of unity that the rest does not hold. Real and
imaginary parts lie apart meanwhile, so that vectors run along what is transformed already.

Of a signal of real numbers the upper half of the transform is the conjugate of the lower one, to
the last bit. It is half as much work where its length is even: its elements in pairs are
complex numbers, of whose transform each result of the signal's needs two (Cooley, Lewis and Welch,
"The Fast Fourier Transform Algorithm", 1970).

What is transformed is [..., parts, n, ...], of f32 or f64; real numbers have one part. `axis` is
that of the parts, which results lack. Tables are made in f64. `emit` creates an op of the graph
level, and gives its result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial, reduce
from math import isqrt
from string import ascii_lowercase
from typing import Any

import numpy as np

from minicc.ir import graph
from minicc.ir.core import Array, Literal, Value
from minicc.ir.types import F32

Emit = Callable[..., Value]

# The work of a stage apart from its products, in products of each element: its turns and moves.
_STAGE = 10
_VECTOR = 64  # bytes of the first results that lie side by side: fewer are as much work
_LONGEST = 1 << 40  # elements of which no memory holds as many: their factors take seconds to find
_LEAST_REAL = 32  # elements of a signal from which on it is taken in pairs


@lru_cache
def radices_of(length: int, size: int = 4) -> tuple[int, ...]:
    """The factors of a length whose transforms are the least work, the first of them first.

    `size` is that of an element, in bytes. A single one means that a product with a matrix is.
    """
    if length > _LONGEST:
        return (length,)
    lanes = _VECTOR // size

    def first_stage(radix: int) -> int:
        return -(-radix // lanes) * lanes + _STAGE

    best: tuple[int, tuple[int, ...]] = (first_stage(length), (length,))
    for first in _divisors(length):
        work, others = _least(length // first)
        best = min(best, (first_stage(first) + work, (first, *others)))
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


def apart(emit: Emit, x: Value, axis: int) -> Value:
    """[..., n, ..., parts] as [..., parts, n, ...], of elements of 32 bits at least."""
    y = emit(graph.Cast, x, dtype=F32) if x.type.dtype.bits < 32 else x
    order = [*range(x.type.rank)]
    order.insert(axis, order.pop())
    if x.type.shape[-1] == 1:
        return emit(graph.Reshape, y, shape=tuple(x.type.shape[k] for k in order))
    return emit(graph.Transpose, y, perm=tuple(order))


def together(emit: Emit, parts: Sequence[Value]) -> Value:
    """Parts of numbers side by side, on a last axis."""
    columns = [emit(graph.Reshape, v, shape=(*v.type.shape, 1)) for v in parts]
    return columns[0] if len(parts) == 1 else emit(graph.Concat, columns, axis=parts[0].type.rank)


def spectrum_of(
    emit: Emit, y: Value, axis: int, rows: int, inverse: bool = False
) -> tuple[Value, Value]:
    """The real and the imaginary parts of the first `rows` results of a transform."""
    parts, length = y.type.shape[axis : axis + 2]
    if parts == 1 and not inverse and length % 2 == 0 and length >= _LEAST_REAL:
        re, im = _of_pairs(emit, y, axis, rows)
    else:
        half = _fewest_rows(length, rows, y.type.dtype.bytes) if parts == 1 else rows
        y = _stages(emit, y, axis, min(rows, half), inverse)
        halves = [_part(emit, y, axis, k) for k in range(2)]
        if rows > half:
            halves = [_with_mirror(emit, v, axis, length, k) for k, v in enumerate(halves)]
        re, im = (_cut(emit, v, axis, 0, rows) for v in halves)
    if parts == 1:
        # of real numbers the first one is real, and the middle one
        place = np.arange(rows).reshape(-1, *(1,) * (im.type.rank - axis - 1))
        real = emit(graph.Constant, Literal(2 * place % length == 0))
        im = emit(graph.Select, real, _table(emit, np.zeros(()), im), im)
    return re, im


def _fewest_rows(length: int, rows: int, size: int) -> int:
    """How many results of a real signal's transform are computed, of which others are mirrored.

    A product with one matrix gives both halves alike, in as many vectors where these are few.
    """
    half, lanes = length // 2 + 1, _VECTOR // size
    alone = len(radices_of(length, size)) == 1 and -(-rows // lanes) == -(-half // lanes)
    return rows if alone else min(half, rows)


def _of_pairs(emit: Emit, y: Value, axis: int, rows: int) -> tuple[Value, Value]:
    """The same of a real signal of even length."""
    before, (_, length), after = _split(y, axis)
    half = length // 2
    order = [*range(y.type.rank)]
    order[axis], order[axis + 1] = axis + 1, axis
    pairs = emit(graph.Reshape, y, shape=(*before, half, 2, *after))
    y = _stages(emit, emit(graph.Transpose, pairs, perm=tuple(order)), axis, half, False)
    y = emit(graph.Concat, [y, _cut(emit, y, axis + 1, 0, 1)], axis=axis + 1)
    tables = _mixing(half, ((1, 1), (1, -1), (1, -1), (1, 1)))
    parts = _mixed(emit, y, axis, tables)
    if rows > half + 1:
        parts = [_with_mirror(emit, v, axis, length, k) for k, v in enumerate(parts)]
    re, im = (_cut(emit, v, axis, 0, rows) for v in parts)
    return re, im


def signal_of(emit: Emit, y: Value, axis: int, length: int) -> Value:
    """The real signal of a length of which `y` is the lower half of the transform."""
    if length % 2 or length < _LEAST_REAL:
        parts = [_with_mirror(emit, _part(emit, y, axis, k), axis, length, k) for k in range(2)]
        y = _stages(emit, stacked(emit, parts, axis), axis, length, True, real=True)
        return _part(emit, y, axis, 0)
    half = length // 2
    tables = _mixing(half, ((1, 1), (-1, 1), (1, -1), (-1, -1)))
    # the first result and the last one are real
    for k, part in ((0, 1), (1, 0), (2, 1), (3, 0)):
        tables[k, part, 0] = 0
    y = stacked(emit, _mixed(emit, _cut(emit, y, axis + 1, 0, half + 1), axis, tables), axis)
    y = _stages(emit, _cut(emit, y, axis + 1, 0, half), axis, half, True)
    # the elements in pairs are the parts
    order = [*range(y.type.rank)]
    order[axis], order[axis + 1] = axis + 1, axis
    before, _, after = _split(y, axis)
    pairs = emit(graph.Transpose, y, perm=tuple(order))
    return emit(graph.Reshape, pairs, shape=(*before, length, *after))


def stacked(emit: Emit, parts: Sequence[Value], axis: int) -> Value:
    """Parts of numbers as one tensor, along a new axis."""
    rows = [emit(graph.Reshape, v, shape=(*v.type.shape[:axis], 1, *v.type.shape[axis:]))
            for v in parts]  # fmt: skip
    return rows[0] if len(rows) == 1 else emit(graph.Concat, rows, axis=axis)


def _part(emit: Emit, y: Value, axis: int, part: int) -> Value:
    """One of the parts."""
    before, (_, length), after = _split(y, axis)
    one = _cut(emit, y, axis, part, part + 1)
    return emit(graph.Reshape, one, shape=(*before, length, *after))


def _stages(emit: Emit, y: Value, axis: int, rows: int, inverse: bool, real: bool = False) -> Value:
    """The first rows of the transform of [..., parts, n, ...]; the real part alone if `real`."""
    before, (parts, length), after = _split(y, axis)
    done, rest = 1, length
    for radix in radices_of(length, y.type.dtype.bytes):
        rest //= radix
        y = emit(graph.Reshape, y, shape=(*before, parts, radix, rest, done, *after))
        kept = radix if rest > 1 else -(-rows // done)
        weights = _small(radix, kept, inverse, length if rest == 1 and inverse else 1)
        weights = weights[:parts, : 1 if real and rest == 1 else 2]
        y = _stage(emit, y, weights, axis)
        if rest > 1:
            y = _turned(emit, y, axis, inverse)
        done, parts = done * kept, 2
    y = emit(graph.Reshape, y, shape=(*before, 1 if real else 2, done, *after))
    return _cut(emit, y, axis + 1, 0, rows)


def _split(y: Value, axis: int) -> tuple[Any, Any, Any]:
    shape = y.type.shape
    return shape[:axis], shape[axis : axis + 2], shape[axis + 2 :]


def _stage(emit: Emit, y: Value, weights: Array, axis: int) -> Value:
    """[..., parts, radix, rest, done, ...] with the radix transformed, and behind the rest."""
    letters = ascii_lowercase[: y.type.rank - 4]
    before, after = letters[:axis], letters[axis:]
    equation = f"{before}PRJM{after},PQRK->{before}QJKM{after}"
    return emit(graph.Contract, y, _table(emit, weights, y), equation=equation)


def _turned(emit: Emit, y: Value, axis: int, inverse: bool) -> Value:
    """[..., 2, rest, radix, ...] times the root of unity of each of the rest and of the radix."""
    rest, radix = y.type.shape[axis + 1 : axis + 3]
    cosines, sines = rotations(rest, radix, rest * radix, inverse)
    tail = (1,) * (y.type.rank - axis - 3)
    own = cosines.reshape(1, rest, radix, *tail)
    others = np.stack([-sines, sines]).reshape(2, rest, radix, *tail)
    swapped = _backwards(emit, y, axis)
    pairs = zip((y, swapped), (own, others), strict=True)
    return emit(graph.Add, *[emit(graph.Mul, v, _table(emit, t, y)) for v, t in pairs])


def _mixing(half: int, signs: Sequence[tuple[int, int]]) -> Array:
    """The weights of the four terms of `_mixed`, by parts and places; each part has its sign."""
    cosines, sines = _on_circle(np.arange(half + 1), 2 * half)
    own, mirrored, across = (1 - sines) / 2, (1 + sines) / 2, cosines / 2
    terms = zip((own, across, mirrored, across), signs, strict=True)
    return np.array([[a * term, b * term] for term, (a, b) in terms])


def _mixed(emit: Emit, y: Value, axis: int, tables: Array) -> list[Value]:
    """Each part: weighted sums of itself, of the other, and of both backwards."""
    own = [_part(emit, y, axis, k) for k in range(2)]
    mirrored = [_backwards(emit, v, axis) for v in own]
    tail = (1,) * (y.type.rank - axis - 2)
    found: list[Value] = []
    for k in range(2):
        given = own[k], own[1 - k], mirrored[k], mirrored[1 - k]
        weights = [_table(emit, table[k].reshape(-1, *tail), y) for table in tables]
        terms = [emit(graph.Mul, v, w) for v, w in zip(given, weights, strict=True)]
        found.append(reduce(partial(emit, graph.Add), terms))
    return found


def _with_mirror(emit: Emit, v: Value, axis: int, length: int, part: int) -> Value:
    """A part of a transform of which `v` is the lower half: the upper one is its conjugate."""
    half = _cut(emit, v, axis, 0, length // 2 + 1)
    upper = _backwards(emit, _cut(emit, v, axis, 1, (length + 1) // 2), axis)
    return emit(graph.Concat, [half, emit(graph.Neg, upper) if part else upper], axis=axis)


def _cut(emit: Emit, y: Value, axis: int, start: int, stop: int) -> Value:
    """The elements of an axis between two places; the value itself where these are all."""
    shape = y.type.shape
    if (start, stop) == (0, shape[axis]):
        return y
    starts = (*(0,) * axis, start, *(0,) * (len(shape) - axis - 1))
    stops = (*shape[:axis], stop, *shape[axis + 1 :])
    return emit(graph.Slice, y, starts=starts, stops=stops, steps=(1,) * len(shape))


def _backwards(emit: Emit, y: Value, axis: int) -> Value:
    shape = y.type.shape
    starts = (*(0,) * axis, shape[axis] - 1, *(0,) * (len(shape) - axis - 1))
    stops = (*shape[:axis], -1, *shape[axis + 1 :])
    steps = (*(1,) * axis, -1, *(1,) * (len(shape) - axis - 1))
    return emit(graph.Slice, y, starts=starts, stops=stops, steps=steps)


def _table(emit: Emit, table: Array, like: Value) -> Value:
    return emit(graph.Constant, Literal(np.asarray(table, like.type.dtype.numpy)))


def _small(radix: int, kept: int, inverse: bool, divisor: int) -> Array:
    """The matrix of a small transform: of both parts to both parts, and of elements to results."""
    cosines, sines = rotations(radix, kept, radix, inverse)
    parts = [np.stack([cosines, sines]), np.stack([-sines, cosines])]
    return np.stack(parts) / divisor


def rotations(rows: int, columns: int, length: int, inverse: bool) -> tuple[Array, Array]:
    """The real and imaginary parts of exp(-2 pi i r c / length), conjugate if inverse."""
    length = max(length, 1)
    turns = np.outer(np.arange(rows), np.arange(columns)) % length
    cosines, sines = _on_circle(turns, length)
    return cosines, sines if inverse else -sines


def _on_circle(turns: Array, length: int) -> tuple[Array, Array]:
    """The cosines and sines of so many parts of a whole turn; those of quarters are exact.

    Those of the second half of a turn are those of the first, to the last bit.
    """
    turns = turns % length
    second = 2 * turns > length
    angle = np.where(second, length - turns, turns) * (2 * np.pi / length)
    quarters = 4 * turns % length == 0
    found = np.cos(angle), np.where(second, -1, 1) * np.sin(angle)
    whole, half = np.where(quarters, np.round(found, 0), found)
    return whole + 0.0, half + 0.0  # no zero has a sign
