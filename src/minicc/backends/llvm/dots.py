"""`kernel.dot` as LLVM instructions: the target's own, or those that every target has."""

from __future__ import annotations

from minicc.backends.llvm import elementwise
from minicc.backends.llvm.emitter import Emitter, common_chunks, define_chunked
from minicc.backends.llvm.tiles import ELEMENT, Tile, leading_map, split_axis
from minicc.backends.llvm.writer import Vec, Writer
from minicc.ir import arith, kernel
from minicc.ir.core import Value
from minicc.ir.types import I32, DType, TensorType
from minicc.ir.words import FORMS, WordProduct


def dot(e: Emitter, op: kernel.Dot) -> None:
    """The factors in the accumulator's type, then a multiply-add of each vector."""
    dtype = op.acc.type.dtype
    _products(e, op.result, [_as(e, e.tile(v), dtype) for v in op.operands], op.form)


def word_product(e: Emitter, op: WordProduct) -> None:
    """The same with nothing to add to."""
    none = Tile(TensorType(I32, (1,) * max(1, op.result.type.rank)), e.lanes, ["0"])
    _products(e, op.result, [*map(e.tile, op.operands), none], op.form)


def _products(e: Emitter, result: Value, tiles: list[Tile], form: str) -> None:
    shape = result.type.extents or (1,)
    chunks = common_chunks(e, tiles, shape) or split_axis(shape[-1], e.lanes)
    maps = [leading_map(t.shape, shape) for t in tiles]
    parts: list[str | None] = []
    for leading in range(len(maps[0])):
        for chunk, (_, width) in enumerate(chunks):
            vectors = [
                t.get(e.w, m[leading], chunk, width) for t, m in zip(tiles, maps, strict=True)
            ]
            parts.append(_multiply_add(e.w, width, result.type.dtype, vectors, form))
    define_chunked(e, result, parts, chunks)


def _as(e: Emitter, tile: Tile, dtype: DType) -> Tile:
    """A tile converted to another element type."""
    if tile.dtype is dtype:
        return tile
    made: list[str | None] = []
    for k in range(len(tile.parts)):
        width = tile.chunks[k % len(tile.chunks)][1]
        made.append(elementwise.cast(e.w, width, tile.part(k), tile.dtype, dtype))
    converted = Tile(TensorType(dtype, tile.shape), e.lanes, made)
    converted.chunks = tile.chunks
    return converted


def _multiply_add(w: Writer, lanes: int, dtype: DType, vectors: list[str], form: str) -> str:
    lhs, rhs, acc = vectors
    vec = Vec(lanes, ELEMENT[dtype.name])
    if form:
        own = w.own.get(f"dot.{form}")
        return own(w, vec, vectors) if own is not None else _of_words(w, vec, vectors, form)
    if dtype.is_float:
        return elementwise.apply(arith.Fma, w, lanes, dtype, vectors, dtype)
    return w.binary("add", vec, acc, w.binary("mul", vec, lhs, rhs))


def _of_words(w: Writer, vec: Vec, vectors: list[str], form: str) -> str:
    """The products of what words hold, each taken out of its word by shifts."""
    *words, total = vectors
    kinds = FORMS[form]
    bits = kinds.lhs.bits
    for k in range(kinds.parts):
        factors = []
        for word, kind in zip(words, kinds, strict=True):
            lifted = w.binary("shl", vec, word, w.splat(vec, 32 - bits * (k + 1)))
            shift = "ashr" if kind.kind == "i" else "lshr"
            factors.append(w.binary(shift, vec, lifted, w.splat(vec, 32 - bits)))
        total = w.binary("add", vec, total, w.binary("mul", vec, *factors))
    return total
