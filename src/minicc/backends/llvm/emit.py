"""A kernel to LLVM IR text: one emitter for each op of the kernel level, in one table.

The function emitted is `void @name(ptr buffers..., i64 lo, hi for each axis of the grid)`, then the
free dimensions that it depends on, `ptr scratch` where it has scratch that is not on the stack, and
`ptr status` where it has checks; it runs the instances of that part of the grid in row-major order.
Loops are emitted in do-while form with carried tiles as phis, so that accumulators are
registers by construction. What of an address does not change in a loop is added before it (see
`address`); other values that don't change are moved by `passes.kernel.hoist`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from minicc.backends.llvm import checks, dots, elementwise, memory, shapes, stores
from minicc.backends.llvm.emitter import (
    Emit,
    Emitter,
    Loop,
    common_chunks,
    define_chunked,
    short_coordinates,
    symbol_of,
)
from minicc.backends.llvm.long_functions import emit_long, often
from minicc.backends.llvm.narrow import is_narrow
from minicc.backends.llvm.nontemporal import fence, passes_by
from minicc.backends.llvm.sizes import parameter
from minicc.backends.llvm.tiles import ELEMENT, Tile, leading_map, splat, split_axis
from minicc.backends.llvm.writer import Vec, constant
from minicc.ir import affine, arith, kernel
from minicc.ir.affine import Dim
from minicc.ir.core import Function, Op, Region, Value, walk
from minicc.ir.types import BOOL, INDEX, TensorType
from minicc.ir.words import WordProduct
from minicc.target import Target


def _for(e: Emitter, op: kernel.For) -> None:
    """A loop that runs at least once: what is carried is looked at after the body."""
    w = e.w
    head, before, (index, inits, initial, names) = w.fresh("for"), w.block, _carried(e, op)
    outer, e.loop, first = e.loop, Loop(index, e.loop), len(w.lines)
    w.line(f"br label %{head}")
    w.label(head)
    slot = len(w.lines)  # the phis are written when the values of the back edge are known
    e.region(op.body)
    yielded = [e.tile(v).all_parts() for v in op.body.yields]
    following = w.inst(f"add nuw nsw i64 {index}, {op.step}")
    w.line(f"; {op.hi - op.lo} by {op.step}")
    more = w.inst(f"icmp slt i64 {following}, {op.hi}")
    tail, done = w.block, w.fresh("done")
    w.line(f"br i1 {more}, label %{head}, label %{done}")
    phis = [f"  {index} = phi i64 [ {op.lo}, %{before} ], [ {following}, %{tail} ]"]
    w.lines[slot:slot] = phis + _phis(inits, names, initial, before, yielded, tail)
    w.lines[first:first] = e.loop.lines
    e.loop = outer
    w.label(done)
    for result, parts in zip(op.results, yielded, strict=True):
        e.define(result, list(parts))


def _range(e: Emitter, op: kernel.Range) -> None:
    """A loop that may have no rounds: what is carried is looked at in front of the body."""
    w = e.w
    head, inside, done = w.fresh("range"), w.fresh("round"), w.fresh("done")
    before, (index, inits, initial, names) = w.block, _carried(e, op)
    start, stop = e.env[op.start], e.env[op.stop]
    outer, e.loop, first, kept = e.loop, Loop(index, e.loop), len(w.lines), len(w.kept)
    w.line(f"br label %{head}")
    w.label(head)
    slot = len(w.lines)
    more = w.inst(f"icmp slt i64 {index}, {stop}")
    w.line(f"br i1 {more}, label %{inside}, label %{done}")
    w.label(inside)
    e.region(op.body)
    yielded = [e.tile(v).all_parts() for v in op.body.yields]
    following = w.inst(f"add nuw nsw i64 {index}, {op.step}")
    tail = w.block
    w.line(f"br label %{head}")
    phis = [f"  {index} = phi i64 [ {start}, %{before} ], [ {following}, %{tail} ]"]
    w.lines[slot:slot] = phis + _phis(inits, names, initial, before, yielded, tail)
    w.lines[first:first] = e.loop.lines
    e.loop = outer
    w.forget(kept)
    w.label(done)
    for result, parts in zip(op.results, names, strict=True):
        e.define(result, list(parts))


_Carried = tuple[str, list[Tile], list[list[str]], list[list[str]]]


def _carried(e: Emitter, op: kernel.For | kernel.Range) -> _Carried:
    """The index of a loop, what it carries at first, the vectors of that, and names within."""
    index = f"%{e.w.fresh('i')}"
    inits = [e.tile(v) for v in op.inits]
    initial = [t.all_parts() for t in inits]
    e.env[op.body.args[0]] = index
    names: list[list[str]] = []
    for arg, tile, parts in zip(op.body.args[1:], inits, initial, strict=True):
        fresh = [f"%{e.w.fresh('c')}" for _ in parts]
        names.append(fresh)
        e.env[arg] = Tile(arg.type, e.lanes, list(fresh))
        assert tile.shape == e.tile(arg).shape
    return index, inits, initial, names


def _phis(
    inits: list[Tile],
    names: list[list[str]],
    initial: list[list[str]],
    before: str,
    yielded: list[list[str]],
    tail: str,
) -> list[str]:
    """The phis of what a loop carries, from the block before it and from its last one."""
    phis: list[str] = []
    for tile, ns, first, last in zip(inits, names, initial, yielded, strict=True):
        for k, name in enumerate(ns):
            vec = tile.vec(tile.chunks[k % len(tile.chunks)][1])
            phis.append(f"  {name} = phi {vec} [ {first[k]}, %{before} ], [ {last[k]}, %{tail} ]")
    return phis


def _elementwise(e: Emitter, op: arith.Elementwise) -> None:
    tiles = [e.tile(v) for v in op.operands]
    type_: TensorType = op.result.type
    shape = type_.extents or (1,)
    chunks = common_chunks(e, tiles, shape) or split_axis(shape[-1], e.lanes)
    maps = [leading_map(t.shape, shape) for t in tiles]
    dtype = tiles[0].dtype
    w = e.w

    def vectors(number: int) -> list[str]:
        leading, chunk = divmod(number, len(chunks))
        width = chunks[chunk][1]
        return [t.get(w, m[leading], chunk, width) for t, m in zip(tiles, maps, strict=True)]

    widths = [width for _, width in chunks] * len(maps[0])
    parts = emit_long(e, type(op), dtype, widths, vectors) or [
        elementwise.apply(type(op), w, width, dtype, vectors(k), type_.dtype)
        for k, width in enumerate(widths)
    ]
    define_chunked(e, op.result, list(parts), chunks)


def _select(e: Emitter, op: arith.Select) -> None:
    w = e.w
    tiles = [e.tile(v) for v in op.operands]
    shape = op.result.type.extents or (1,)
    chunks = common_chunks(e, tiles, shape) or split_axis(shape[-1], e.lanes)
    maps = [leading_map(t.shape, shape) for t in tiles]
    parts: list[str | None] = []
    for leading in range(len(maps[0])):
        for chunk, (_, width) in enumerate(chunks):
            c, a, b = [t.get(w, m[leading], chunk, width) for t, m in zip(tiles, maps, strict=True)]
            parts.append(w.select(tiles[1].vec(width), c, a, b))
    define_chunked(e, op.result, parts, chunks)


def _cast(e: Emitter, op: arith.Cast) -> None:
    source = e.tile(op.x)
    if op.x in e.short:
        define_chunked(e, op.result, source.parts, source.chunks)
        return
    parts: list[str | None] = []
    for k in range(len(source.parts)):
        width = source.chunks[k % len(source.chunks)][1]
        parts.append(elementwise.cast(e.w, width, source.part(k), source.dtype, op.dtype))
    define_chunked(e, op.result, parts, source.chunks)


def _bitcast(e: Emitter, op: arith.BitCast) -> None:
    source = e.tile(op.x)
    parts: list[str | None] = []
    for k in range(len(source.parts)):
        width = source.chunks[k % len(source.chunks)][1]
        at, to = (Vec(width, ELEMENT[d.name]) for d in (source.dtype, op.dtype))
        part = source.part(k)
        if source.dtype is BOOL:
            at, part = (
                at._replace(element="i8"),
                e.w.convert("zext", at, part, at._replace(element="i8")),
            )
        parts.append(part if at == to else e.w.bitcast(at, part, to))
    define_chunked(e, op.result, parts, source.chunks)


def _constant(e: Emitter, op: arith.Constant) -> None:
    dtype = op.result.type.dtype
    scalar = op.value.array[()]
    if is_narrow(dtype) or dtype.kind == "s":
        scalar = scalar.view(np.uint16 if dtype.bytes == 2 else np.uint8)
    is_float = Vec(1, ELEMENT[dtype.name]).is_float
    number = float(scalar) if is_float else int(scalar)
    text = constant(ELEMENT[dtype.name], number)
    shape = op.shape or (1,)
    chunks = split_axis(shape[-1], e.lanes)
    parts: list[str | None] = []
    for _ in range(len(leading_map(shape, shape))):
        parts += [splat(e.w, Vec(width, ELEMENT[dtype.name]), text) for _, width in chunks]
    e.define(op.result, parts)


EMIT: dict[type[Op], Emit] = {
    kernel.Load: memory.load,
    kernel.Store: stores.store,
    kernel.Prefetch: memory.prefetch,
    kernel.Index: memory.index,
    kernel.Mask: memory.mask,
    kernel.Check: checks.check,
    kernel.Coordinate: memory.coordinate,
    kernel.Alloc: memory.alloc,
    kernel.For: _for,
    kernel.Range: _range,
    kernel.Dot: dots.dot,
    kernel.Reduce: shapes.reduce,
    kernel.Broadcast: shapes.broadcast,
    kernel.Reshape: shapes.reshape,
    kernel.Slice: shapes.slice,
    kernel.Concat: shapes.concat,
    WordProduct: dots.word_product,
    arith.Select: _select,
    arith.Cast: _cast,
    arith.BitCast: _bitcast,
    arith.Constant: _constant,
    **dict.fromkeys(elementwise.TABLE, _elementwise),
}


def lanes_of(ops: Sequence[Op], short: set[Value], target: Target) -> int:
    """Elements of a vector in a kernel: what a register holds of its products' sums.

    Where it has no products, of the widest type in it. One number a kernel, so that masks, indices
    and numbers of one tile are cut alike; LLVM takes several registers for what is wider. A tile of
    one element is not cut. Coordinates that are `short` have as many bits as other tiles.
    """
    sums = [op for op in ops if isinstance(op, kernel.Dot)]
    made = [r for op in sums or ops for r in op.results if r not in short]
    tiles = [r.type for r in made if isinstance(r.type, TensorType)]
    types = {t.dtype for t in tiles if t.dtype is not INDEX and prod(t.extents) > 1}
    return target.vector_bits // max([8, *[32 if is_narrow(d) else d.bits for d in types]])


def emit_kernel(function: Function, target: Target) -> str:
    """The LLVM module text of one kernel; see the module's text for the function's signature."""
    ops = walk(function.body)
    short = short_coordinates(ops)
    e = Emitter(target, EMIT, lanes_of(ops, short, target), short, often(ops))
    e.halves = passes_by(ops)
    w = e.w
    grid: tuple[Dim, ...] = function.attrs["grid"]
    coordinates, buffers = function.args[: len(grid)], function.args[len(grid) :]
    params = []
    apart = "" if function.attrs.get("updates") else "noalias "
    for k, b in enumerate(buffers):
        e.env[b] = f"%b{k}"
        params.append(f"ptr {apart}nocapture %b{k}")
    params += [f"i64 %{end}{axis}" for axis in range(len(grid)) for end in ("lo", "hi")]
    for position, size in enumerate(function.attrs.get("sizes", ())):
        e.sizes[affine.symbol(size)] = parameter(position)
        params.append(f"i64 {parameter(position)}")
    _grid_loops(e, coordinates, function.body)
    mark = fence(e)
    w.line("ret void")
    e.env.clear()  # tiles that are computed late hold the emitter, which would hold them
    if e.scratch != 0:
        params.append(f"ptr noalias nocapture {memory.SCRATCH}")
    if e.checks:
        params.append(f"ptr {checks.STATUS}")
    lines = [
        f"define void @{symbol_of(function.name)}({', '.join(params)}) nounwind {{",
        "entry:",
        *e.entry,
        *w.lines,
        "}",
    ]
    return "\n".join([w.declarations(), *e.functions.values(), *lines, mark])


def _grid_loops(e: Emitter, coordinates: tuple[Value, ...], body: Region) -> None:
    """Nested loops over each axis from lo to hi, which may be empty."""
    w = e.w
    ends: list[tuple[str, str, str, str, int]] = []
    for axis, c in enumerate(coordinates):
        head, inside, after = w.fresh("grid"), w.fresh("instance"), w.fresh("after")
        before = w.block
        w.line(f"br label %{head}")
        w.label(head)
        name = f"%{w.fresh('g')}"
        slot = len(w.lines)
        w.lines.append("")
        more = w.inst(f"icmp slt i64 {name}, %hi{axis}")
        w.line(f"br i1 {more}, label %{inside}, label %{after}")
        w.label(inside)
        e.env[c] = name
        ends.append((head, after, name, before, slot))
    e.region(body)
    for axis in reversed(range(len(coordinates))):
        head, after, name, before, slot = ends[axis]
        following = w.inst(f"add nuw nsw i64 {name}, 1")
        w.line(f"br label %{head}")
        w.lines[slot] = f"  {name} = phi i64 [ %lo{axis}, %{before} ], [ {following}, %{w.block} ]"
        w.label(after)
