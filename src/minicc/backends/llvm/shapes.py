"""Reductions and changes of shape of tiles as LLVM instructions.

Axes before the last one cost nothing: they only say which vector is meant. Along the last axis
lanes move.
"""

from __future__ import annotations

from minicc.backends.llvm import elementwise
from minicc.backends.llvm.emitter import Emitter, define_chunked
from minicc.backends.llvm.instructions import shuffle
from minicc.backends.llvm.tiles import (
    ELEMENT,
    Tile,
    gathered,
    leading_map,
    powers_of_two,
    split_axis,
)
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
    ends: list[list[str]] = [[] for _ in range(source.leading)]
    pieces = [_pieces(e, source, leading) for leading in range(source.leading)]
    for width in pieces[0]:
        rows = [_tree(e, op.combine, source.vec(width), source, row[width]) for row in pieces]
        for row, end in zip(ends, _fold_rows(e, op.combine, width, source, rows), strict=True):
            row.append(end)
    e.define(op.result, [_tree(e, op.combine, source.vec(1), source, row) for row in ends])


def _pieces(e: Emitter, tile: Tile, leading: int) -> dict[int, list[str]]:
    """The vectors of one leading index, cut to powers of two, by their widths."""
    found: dict[int, list[str]] = {}
    for chunk, (_, of) in enumerate(tile.chunks):
        part, vec = tile.part(leading * len(tile.chunks) + chunk), tile.vec(of)
        for start, width in powers_of_two(of, 1 << of.bit_length() - 1):
            lanes = [*range(start, start + width)]
            piece = part if width == of else _lanes(e, vec, part, part, lanes)
            found.setdefault(width, []).append(piece)
    return found


def _tree(e: Emitter, combine: str, vec: Vec, tile: Tile, xs: list[str]) -> str:
    while len(xs) > 1:
        paired = [
            _combine(e, combine, vec, tile, xs[k], xs[k + 1]) for k in range(0, len(xs) - 1, 2)
        ]
        xs = paired + ([xs[-1]] if len(xs) % 2 else [])
    return xs[0]


def _fold_rows(e: Emitter, combine: str, width: int, tile: Tile, rows: list[str]) -> list[str]:
    """The combined lanes of each vector.

    Each step combines the halves of every row; rows move together into one vector as they get
    shorter, so that few lanes are idle. Which lanes meet does not depend on the other rows.
    """
    count = 1 << min(width.bit_length(), len(rows).bit_length()) - 1
    if count < len(rows):
        first = _fold_rows(e, combine, width, tile, rows[:count])
        return first + _fold_rows(e, combine, width, tile, rows[count:])
    vec, length = tile.vec(width), width
    while length > 1:
        half = length // 2
        alone = len(rows) == 1
        pairs = [(rows[0], rows[0])] if alone else zip(rows[::2], rows[1::2], strict=True)
        lanes = vec.lanes if alone else 2 * vec.lanes
        low = [k for start in range(0, lanes, length) for k in range(start, start + half)]
        halves = tile.vec(len(low))
        rows = [
            _combine(
                e,
                combine,
                halves,
                tile,
                _lanes(e, vec, a, b, low),
                _lanes(e, vec, a, b, [k + half for k in low]),
            )
            for a, b in pairs
        ]
        vec, length = halves, half
    return [rows[0]] if vec.lanes == 1 else [_scalar(e, vec, rows[0], k) for k in range(vec.lanes)]


def _lanes(e: Emitter, vec: Vec, a: str, b: str, lanes: list[int]) -> str:
    """The named lanes of a followed by b; a scalar where it is one, of a."""
    return _scalar(e, vec, a, *lanes) if len(lanes) == 1 else shuffle(e.w, vec, a, b, lanes)


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
            parts.append(gathered(e.w, Vec(width, ELEMENT[source.dtype.name]), row))
    e.define(op.result, parts)


def _scalars(e: Emitter, tile: Tile) -> list[str]:
    out: list[str] = []
    for k, part in enumerate(tile.all_parts()):
        width = tile.chunks[k % len(tile.chunks)][1]
        out += (
            [part] if width == 1 else [_scalar(e, tile.vec(width), part, j) for j in range(width)]
        )
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
                gathered(e.w, source.vec(width), row[start : start + width])
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
                gathered(e.w, tiles[0].vec(width), row[start : start + width])
                for start, width in chunks
            ]
        e.define(op.result, parts)
        return
    outer = 1
    for n in tiles[0].shape[: op.axis]:
        outer *= n
    places: list[tuple[Tile, int]] = []
    for k in range(outer):
        for t in tiles:
            block = len(t.parts) // outer
            places += [(t, k * block + n) for n in range(block)]
    # rows that wait until they are used wait here, too
    parts += [t.parts[n] for t, n in places]
    define_chunked(e, op.result, parts, tiles[0].chunks, lambda k: places[k][0].part(places[k][1]))
