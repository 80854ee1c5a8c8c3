"""Stores of kernels as LLVM instructions.

Along a tile's last axis a step of 1 is a vector access. Where another axis has that step, vectors
along it are turned in registers before they are written. Any other access is done element by
element.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from minicc.backends.llvm.address import address
from minicc.backends.llvm.emitter import Emitter
from minicc.backends.llvm.memory import (
    at_offset,
    at_place,
    count_of,
    crossing_axis,
    first_of,
    inside,
    kept_back,
    offsets_of,
)
from minicc.backends.llvm.nontemporal import Write, store_all
from minicc.backends.llvm.stepped import woven
from minicc.backends.llvm.tiles import Tile, memory_element, split_axis
from minicc.backends.llvm.transpose import turned
from minicc.backends.llvm.writer import Vec
from minicc.ir import kernel
from minicc.ir.affine import Dim
from minicc.ir.types import DType


def store(e: Emitter, op: kernel.Store) -> None:
    """Write a tile; one of several that fill what lies between them waits for the last of them."""
    run = e.woven.get(op)
    if run is not None:
        _store_woven(e, run)
        return
    w, tile = e.w, e.tile(op.value)
    element = memory_element(tile.dtype)
    pointer, steps = address(e, op.buffer, op.at, op.indices, op.value.type.rank)
    steps, count = steps or [1], count_of(e, op)
    axis = crossing_axis(tile.shape, steps)
    if axis is not None:
        _store_crossed(e, pointer, tile, steps, axis, count)
        return
    waiting: list[Write] | None = [] if op.nontemporal and not count else None
    for leading, offset in enumerate(offsets_of(tile.shape, steps)):
        chunks = [*enumerate(tile.chunks)]
        # what lies beyond a count is written where what is below it follows
        for chunk, (start, width) in reversed(chunks) if count else chunks:
            value, vec = _in_memory(e, tile, leading, chunk), Vec(width, element)
            if count:
                piece = start, width
                _store_some(e, pointer, tile.dtype, offset, piece, steps[-1], count, value)
                continue
            where = offset + start * steps[-1]
            if steps[-1] == 1 or width == 1:
                _store_whole(e, pointer, tile.dtype, where, vec, value, waiting)
                continue
            for k in range(width):
                scalar = w.inst(f"extractelement {vec} {value}, i32 {k}")
                _store_whole(e, pointer, tile.dtype, where + k * steps[-1], Vec(1, element), scalar)
    if waiting:
        store_all(e, waiting, tile.dtype.bytes)


def _store_some(
    e: Emitter,
    pointer: str,
    dtype: DType,
    offset: Dim,
    chunk: tuple[int, int],
    step: Dim,
    count: str,
    value: str,
) -> None:
    """Write the elements of a vector that are below a count."""
    w, element, (start, width) = e.w, memory_element(dtype), chunk
    vec = Vec(width, element)
    if step == 1 and width > 1 and e.target.masks(dtype.bits):
        at, mask = at_offset(e, pointer, element, offset + start), inside(e, count, start, width)
        _masked_store(e, vec, value, at, dtype.bytes, mask)
        return
    for k in reversed(range(width)):
        at = at_place(e, pointer, element, offset, kept_back(e, count, start + k), step)
        scalar = value if width == 1 else w.inst(f"extractelement {vec} {value}, i32 {k}")
        w.line(f"store {element} {scalar}, ptr {at}, align {dtype.bytes}")


def _store_crossed(
    e: Emitter, pointer: str, tile: Tile, steps: list[Dim], axis: int, count: str
) -> None:
    """Write vectors along `axis`, to which those along the last axis are turned in registers."""
    element, size = memory_element(tile.dtype), tile.dtype.bytes
    others = list(steps)
    others[axis] = 0
    inner = prod(tile.shape[axis + 1 : -1])
    for leading, offset in enumerate(offsets_of(tile.shape, others)):
        if leading // inner % tile.shape[axis]:
            continue  # its block is written from the first index along the axis
        for chunk, (start, width) in reversed([*enumerate(tile.chunks)]):
            for first, depth in split_axis(tile.shape[axis], e.lanes):
                rows = [
                    _in_memory(e, tile, leading + (first + k) * inner, chunk) for k in range(depth)
                ]
                vec, columns = turned(e.w, rows, Vec(width, element))
                # what lies beyond a count is written where what is below it follows
                for k in reversed(range(width)):
                    if count:
                        place = kept_back(e, count, start + k)
                        at = at_place(e, pointer, element, offset + first, place, steps[-1])
                    else:
                        at = at_offset(
                            e, pointer, element, offset + first + (start + k) * steps[-1]
                        )
                    _store_first(e, vec, columns[k], depth, at, size)


def _store_first(e: Emitter, vec: Vec, value: str, count: int, at: str, size: int) -> None:
    """Write so many elements of a vector, the first ones."""
    if count < vec.lanes and e.target.masks(vec.bits):
        bits = ", ".join(f"i1 {int(k < count)}" for k in range(vec.lanes))
        _masked_store(e, vec, value, at, size, f"<{bits}>")
        return
    value = first_of(e, vec, value, count)
    e.w.line(f"store {Vec(count, vec.element)} {value}, ptr {at}, align {size}")


def _masked_store(e: Emitter, vec: Vec, value: str, at: str, size: int, mask: str) -> None:
    """Write the elements of a vector that a mask has."""
    name = f"llvm.masked.store.{vec.suffix}.p0"
    e.w.declares.setdefault(name, f"declare void @{name}({vec}, ptr, i32, {vec.mask})")
    e.w.line(f"call void @{name}({vec} {value}, ptr {at}, i32 {size}, {vec.mask} {mask})")


def _in_memory(e: Emitter, tile: Tile, leading: int, chunk: int) -> str:
    """A vector of a tile as memory has it, where a boolean is a byte."""
    _, width = tile.chunks[chunk]
    value = tile.get(e.w, leading, chunk, width)
    if tile.dtype.kind != "b":
        return value
    vec = Vec(width, memory_element(tile.dtype))
    return e.w.inst(f"zext {vec.mask} {value} to {vec}")


def _store_whole(
    e: Emitter,
    pointer: str,
    dtype: DType,
    offset: Dim,
    vec: Vec,
    value: str,
    waiting: list[Write] | None = None,
) -> None:
    """Write a vector, or have it wait with others that are written past the caches."""
    target = at_offset(e, pointer, memory_element(dtype), offset)
    if waiting is not None and isinstance(offset, int):
        waiting.append(Write(vec, value, target, offset * dtype.bytes))
    else:
        e.w.line(f"store {vec} {value}, ptr {target}, align {dtype.bytes}")


def _store_woven(e: Emitter, run: Sequence[kernel.Store]) -> None:
    """Write tiles of which each has every so manieth element of a row, the first one's first."""
    if not run:
        return
    op, tiles, number = run[0], [e.tile(s.value) for s in run], len(run)
    dtype, element = tiles[0].dtype, memory_element(tiles[0].dtype)
    pointer, steps = address(e, op.buffer, op.at, op.indices, op.value.type.rank)
    count = count_of(e, op)
    whole = e.w.inst(f"mul nsw i64 {count}, {number}") if count else ""
    waiting: list[Write] | None = [] if op.nontemporal and not count else None
    for leading, offset in enumerate(offsets_of(tiles[0].shape, steps)):
        chunks = [*enumerate(tiles[0].chunks)]
        # what lies beyond a count is written where what is below it follows
        for chunk, (start, width) in reversed(chunks) if count else chunks:
            vec = Vec(width, element)
            values = [_in_memory(e, tile, leading, chunk) for tile in tiles]
            pieces = [*enumerate(woven(e.w, vec, values))]
            for k, value in reversed(pieces) if count else pieces:
                at = start * number + k * width
                if count:
                    _store_some(e, pointer, dtype, offset, (at, width), 1, whole, value)
                else:
                    _store_whole(e, pointer, dtype, offset + at, vec, value, waiting)
    if waiting:
        store_all(e, waiting, dtype.bytes)
