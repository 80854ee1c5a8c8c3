"""Reductions and changes of shape of tiles as LLVM instructions.

Axes before the last one cost nothing: they only say which vector is meant. Along the last axis
lanes move.

Mirrors: MLIR's vector.multi_reduction and shape_cast lowering, Triton's reduce and layout
conversion.
"""

from __future__ import annotations

from minicc.backends.llvm import elementwise
from minicc.backends.llvm.emitter import Emitter, define_chunked
from minicc.backends.llvm.tiles import ELEMENT, Tile, leading_map, split_axis
from minicc.backends.llvm.writer import Vec
from minicc.ir import arith, kernel


def _combine(e: Emitter, combine: str, vec: Vec, tile: Tile, a: str, b: str) -> str:
    op = arith.COMBINERS[combine]
    return elementwise.apply(op, e.w, vec.lanes, tile.dtype, [a, b], tile.dtype)


def reduce(e: Emitter, op: kernel.Reduce) -> None:
    """Along a leading axis vectors are combined.

    Along the last, chunks and then halves of a vector.
    """
    source = e.tile(op.x)
    rank = len(source.shape)
    if op.axis < rank - 1:
        shape = op.result.type.extents
        inner = 1
        for n in source.shape[op.axis + 1 : -1]:
            inner *= n
        extent, per = source.shape[op.axis], len(source.chunks)
        parts: list[str | None] = []
        for leading in range(len(leading_map(shape, shape))):
            outer, rest = divmod(leading, inner)
            for chunk, (_, width) in enumerate(source.chunks):
                rows = [
                    source.part(((outer * extent + k) * inner + rest) * per + chunk)
                    for k in range(extent)
                ]
                parts.append(_tree(e, op.combine, source.vec(width), source, rows))
        define_chunked(e, op.result, parts, source.chunks)
        return
    scalars: list[str | None] = []
    for leading in range(source.leading):
        by_width: dict[int, list[str]] = {}
        for chunk, (_, width) in enumerate(source.chunks):
            by_width.setdefault(width, []).append(source.part(leading * len(source.chunks) + chunk))
        ends = [
            _fold_lanes(
                e, op.combine, width, source, _tree(e, op.combine, source.vec(width), source, xs)
            )
            for width, xs in by_width.items()
        ]
        scalars.append(_tree(e, op.combine, source.vec(1), source, ends))
    e.define(op.result, scalars)


def _tree(e: Emitter, combine: str, vec: Vec, tile: Tile, xs: list[str]) -> str:
    while len(xs) > 1:
        paired = [
            _combine(e, combine, vec, tile, xs[k], xs[k + 1]) for k in range(0, len(xs) - 1, 2)
        ]
        xs = paired + ([xs[-1]] if len(xs) % 2 else [])
    return xs[0]


def _fold_lanes(e: Emitter, combine: str, width: int, tile: Tile, x: str) -> str:
    while width > 1:
        vec, half = tile.vec(width), width // 2
        if half == 1:
            a, b = _scalar(e, vec, x, 0), _scalar(e, vec, x, 1)
        else:
            low = ", ".join(f"i32 {k}" for k in range(half))
            high = ", ".join(f"i32 {k}" for k in range(half, width))
            a = e.w.inst(f"shufflevector {vec} {x}, {vec} poison, <{half} x i32> <{low}>")
            b = e.w.inst(f"shufflevector {vec} {x}, {vec} poison, <{half} x i32> <{high}>")
        x = _combine(e, combine, tile.vec(half), tile, a, b)
        width = half
    return x


def _scalar(e: Emitter, vec: Vec, x: str, lane: int) -> str:
    return e.w.inst(f"extractelement {vec} {x}, i32 {lane}")


def broadcast(e: Emitter, op: kernel.Broadcast) -> None:
    """Name a vector again for each index that repeats it."""
    source, shape = e.tile(op.x), op.shape or (1,)
    chunks = source.chunks if source.shape[-1] == shape[-1] else split_axis(shape[-1], e.lanes)
    parts: list[str | None] = []
    for leading in leading_map(source.shape, shape):
        parts += [source.get(e.w, leading, c, width) for c, (_, width) in enumerate(chunks)]
    define_chunked(e, op.result, parts, chunks)


def reshape(e: Emitter, op: kernel.Reshape) -> None:
    """Free where the last extent stays; else lanes are gathered anew."""
    source, shape = e.tile(op.x), op.shape or (1,)
    if source.shape[-1] == shape[-1]:
        define_chunked(e, op.result, list(source.all_parts()), source.chunks)
        return
    scalars = _scalars(e, source)
    chunks = split_axis(shape[-1], e.lanes)
    parts: list[str | None] = []
    for start_of_row in range(0, len(scalars), shape[-1]):
        for start, width in chunks:
            row = scalars[start_of_row + start : start_of_row + start + width]
            parts.append(_gather(e, Vec(width, ELEMENT[source.dtype.name]), row))
    e.define(op.result, parts)


def _scalars(e: Emitter, tile: Tile) -> list[str]:
    out: list[str] = []
    for k, part in enumerate(tile.all_parts()):
        width = tile.chunks[k % len(tile.chunks)][1]
        out += (
            [part] if width == 1 else [_scalar(e, tile.vec(width), part, j) for j in range(width)]
        )
    return out


def _gather(e: Emitter, vec: Vec, scalars: list[str]) -> str:
    if vec.lanes == 1:
        return scalars[0]
    out = "poison"
    for k, s in enumerate(scalars):
        out = e.w.inst(f"insertelement {vec} {out}, {vec.element} {s}, i32 {k}")
    return out


def slice(e: Emitter, op: kernel.Slice) -> None:
    """Free along leading axes; else lanes are gathered anew."""
    source = e.tile(op.x)
    rank, per = len(source.shape), len(source.chunks)
    if op.axis == rank - 1:
        scalars = _scalars(e, source)
        n = source.shape[-1]
        rows = [
            scalars[k * n + op.start : k * n + op.start + op.size] for k in range(source.leading)
        ]
        chunks = split_axis(op.size, e.lanes)
        e.define(
            op.result,
            [
                _gather(e, source.vec(width), row[start : start + width])
                for row in rows
                for start, width in chunks
            ],
        )
        return
    inner = per
    for n in source.shape[op.axis + 1 : -1]:
        inner *= n
    block = source.shape[op.axis] * inner
    everything = source.all_parts()
    parts: list[str | None] = []
    for first in range(0, len(everything), block):
        parts += everything[first + op.start * inner : first + (op.start + op.size) * inner]
    define_chunked(e, op.result, parts, source.chunks)


def concat(e: Emitter, op: kernel.Concat) -> None:
    """Free along leading axes; else lanes are gathered anew."""
    tiles = [e.tile(v) for v in op.xs]
    rank = len(tiles[0].shape)
    parts: list[str | None] = []
    if op.axis == rank - 1:
        rows = [
            [s for t in tiles for s in _scalars(e, t)[k * t.shape[-1] : (k + 1) * t.shape[-1]]]
            for k in range(tiles[0].leading)
        ]
        chunks = split_axis(op.result.type.extents[-1], e.lanes)
        for row in rows:
            parts += [
                _gather(e, tiles[0].vec(width), row[start : start + width])
                for start, width in chunks
            ]
        e.define(op.result, parts)
        return
    outer = 1
    for n in tiles[0].shape[: op.axis]:
        outer *= n
    for k in range(outer):
        for t in tiles:
            block = len(t.parts) // outer
            parts += t.all_parts()[k * block : (k + 1) * block]
    define_chunked(e, op.result, parts, tiles[0].chunks)
