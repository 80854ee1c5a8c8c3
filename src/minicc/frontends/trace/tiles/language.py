"""The language of tiles: what a kernel by hand says besides Python's and NumPy's own words.

`import minicc.tile as tl`. Buffers are read and written by subscripts, elements are computed with
operators and NumPy's functions, and the words here are Triton's and Pallas's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from minicc.frontends.trace.tiles.coordinates import Coordinates
from minicc.frontends.trace.tiles.loops import rounds
from minicc.frontends.trace.tiles.memory import Buffer, Part, loaded, reread, scratch, spilled
from minicc.frontends.trace.tiles.numbers import Index, dim_of, number
from minicc.frontends.trace.tiles.recording import current, line, wrong
from minicc.frontends.trace.tiles.tile import (
    FUNCTIONS,
    Tile,
    constant,
    element_of,
    emitted,
    extents_of,
    level,
    tile_of,
)
from minicc.ir import affine, arith, kernel
from minicc.ir.affine import Dim
from minicc.ir.build import Builder
from minicc.ir.core import Region, Value
from minicc.ir.types import F32, INDEX_TYPE


def program_id(axis: int) -> Any:
    """Which instance of the grid this one is along an axis."""
    recording = current()
    if not 0 <= axis < len(recording.grid):
        wrong("MC0194", f"a grid of {len(recording.grid)} axes has no axis {axis}")
    return Index(affine.symbol(f"p{axis}"))


def num_programs(axis: int) -> Any:
    """How many instances the grid has along an axis."""
    return number(current().grid[axis])


def cdiv(a: Any, b: int) -> Any:
    """The quotient rounded up: how many tiles of `b` cover `a`."""
    return number(affine.ceildiv(dim_of(a), b))


def range(start: Any, stop: Any = None, step: int = 1) -> Iterator[Any]:
    """A loop of the kernel, for a `for` statement; Python's own `range` writes its rounds out."""
    return rounds(0, start, step) if stop is None else rounds(start, stop, step)


def ds(start: Any, size: int, step: int = 1) -> Part:
    """So many elements from `start` on, as a place along an axis of a buffer."""
    return Part(start, size, step)


def arange(start: int, stop: int | None = None) -> Any:
    """The numbers from `start` up to `stop`; compared with a number they make a mask."""
    first, end = (0, start) if stop is None else (start, stop)
    return Coordinates(affine.symbol("t0") + first, (end - first,))


def load(buffer: Buffer, place: Any, mask: Any = None) -> Any:
    """The tile at a place; elements beyond the mask are not read, and are 0."""
    return buffer.load(place, mask)


def store(buffer: Buffer, place: Any, value: Any, mask: Any = None) -> None:
    """Write a tile; elements beyond the mask are not written."""
    buffer.store(place, value, mask)


def prefetch(buffer: Buffer, place: Any) -> None:
    """Bring the memory of a tile nearer before it is read; a hint, which may point outside."""
    buffer.prefetch(place)


def alloc(shape: Sequence[int], dtype: Any = np.float32) -> Any:
    """Memory of the instance, which nobody else sees, and which is undefined at first."""
    return scratch(shape, dtype)


def full(shape: Sequence[int] | int, value: Any, dtype: Any = np.float32) -> Any:
    """A tile of one number."""
    return constant(value, element_of(dtype), extents_of(shape))


def zeros(shape: Sequence[int] | int, dtype: Any = np.float32) -> Any:
    """A tile of zeros."""
    return full(shape, 0, dtype)


def erf(x: Tile) -> Any:
    """The error function."""
    return emitted(arith.Erf, x.value)


def fma(a: Any, b: Any, c: Any) -> Any:
    """A * b + c, rounded once where the machine does that."""
    (first, *_) = [x for x in (a, b, c) if isinstance(x, Tile)]
    return emitted(arith.Fma, *level([tile_of(x, first.element) for x in (a, b, c)]))


def trans(x: Tile) -> Any:
    """The tile with its two axes exchanged, read so from memory: by way of scratch if need be."""
    if x.ndim != 2:
        wrong("MC0191", f"tl.trans of {x!r}", "a tile of two axes can be transposed")
    op = loaded(x) or loaded(spilled(x)[...])
    assert op is not None
    turned: dict[str, Dim] = {"t0": affine.symbol("t1"), "t1": affine.symbol("t0")}
    at = tuple(affine.substitute(e, turned) for e in op.at)
    return reread(op, op.indices, at, x.shape[::-1])


FUNCTIONS["transpose"] = trans


def dot(a: Tile, b: Tile, acc: Tile | None = None) -> Any:
    """The product of `a` [m, k] and `b` [k, n], added to `acc`, which is the accumulator.

    Its type is that of the sums, and may be wider than those of `a` and `b`.

    A loop over k with a column of `a` and a row of `b` in each round, which are loaded there: where
    they come from memory that is not written to meanwhile, from there, else by way of scratch. So
    tiles of a product may be larger than the registers; [m, n] should fit them.
    """
    typed = a.dtype == b.dtype or acc is not None
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or not typed:
        hint = "[m, k] and [k, n] have a product, of two types where an accumulator has its own"
        wrong("MC0191", f"tl.dot of {a!r} and {b!r}", hint)
    if acc is None:
        wide = F32 if a.element.is_float and a.element.bits < F32.bits else a.element
        acc = constant(0, wide, (a.shape[0], b.shape[1]))
    if acc.shape != (a.shape[0], b.shape[1]):
        wrong("MC0191", f"tl.dot of {a!r} and {b!r} is added to {acc!r}")
    sources = [loaded(x) or loaded(spilled(x)[...]) for x in (a, b)]
    index, total = Value(INDEX_TYPE, "k"), Value(acc.value.type, "acc")
    inner = Builder((line(),))
    m, k = a.shape
    factors = []
    shapes, elements = ((m, 1), (1, b.shape[1])), (a.element, b.element)
    for op, axis, shape, element in zip(sources, (1, 0), shapes, elements, strict=True):
        assert op is not None
        places: dict[str, Dim] = {f"t{axis}": affine.symbol(f"i{len(op.indices)}")}
        at = tuple(affine.substitute(e, places) for e in op.at)
        factor = inner.emit(kernel.Load, op.buffer, (*op.indices, index), at=at, shape=shape)
        if not (element is acc.element or arith.widens(element, acc.element)):
            factor = inner.emit(arith.Cast, factor, dtype=acc.element)
        factors.append(factor)
    made = inner.emit(kernel.Dot, *factors, total)
    body = Region((index, total), inner.ops, (made,))
    return emitted(kernel.For, (acc.value,), lo=0, hi=k, step=1, body=body)
