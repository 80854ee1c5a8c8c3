"""Loads, scratch and indices of kernels as LLVM instructions, and places in memory.

Along a tile's last axis a step of 1 is a vector access. Where another axis has that step, vectors
along it are turned in registers. Of what has a short step, whole vectors are read, and the elements
in between are dropped. Any other access is done element by element.
"""

from __future__ import annotations

from math import prod

import numpy as np

from minicc.backends.llvm.address import address, emit_index
from minicc.backends.llvm.emitter import Emitter
from minicc.backends.llvm.instructions import shuffle
from minicc.backends.llvm.stepped import every, is_short, starts
from minicc.backends.llvm.tiles import (
    gathered,
    memory_element,
    powers_of_two,
    splat,
    split_axis,
)
from minicc.backends.llvm.transpose import turned
from minicc.backends.llvm.writer import Vec, Writer
from minicc.errors import CompilerBug
from minicc.ir import affine_facts, kernel
from minicc.ir.affine import Dim
from minicc.ir.types import BufferType, buffer_bytes

SCRATCH = "%scratch"
LINE = 64  # bytes of a line of a cache


def offsets_of(shape: tuple[int, ...], steps: list[Dim]) -> list[Dim]:
    """Element offsets of all leading indices of a tile, in row-major order."""
    offsets: list[Dim] = [0]
    for extent, step in zip(shape[:-1], steps[:-1], strict=True):
        offsets = [o + k * step for o in offsets for k in range(extent)]
    return offsets


def at_offset(e: Emitter, pointer: str, element: str, offset: Dim) -> str:
    """The address so many elements further."""
    if offset == 0:
        return pointer
    return e.w.inst(
        f"getelementptr inbounds {element}, ptr {pointer}, i64 {emit_index(e, offset, ())}"
    )


def _load_chunk(
    e: Emitter, pointer: str, type: BufferType, offset: Dim, width: int, step: Dim
) -> str:
    w, element = e.w, memory_element(type.dtype)
    size = type.dtype.bytes
    vec = Vec(width, element)
    if step == 1 and e.halves and width * size == LINE:
        loaded = _load_halves(e, at_offset(e, pointer, element, offset), vec, size)
    elif step == 1 or width == 1:
        loaded = w.inst(f"load {vec}, ptr {at_offset(e, pointer, element, offset)}, align {size}")
    elif step == 0:
        scalar = w.inst(
            f"load {element}, ptr {at_offset(e, pointer, element, offset)}, align {size}"
        )
        loaded = splat(w, vec, scalar)
    elif is_short(step, width):
        low = offset + (width - 1) * step if step < 0 else offset
        pieces = [
            w.inst(f"load {vec}, ptr {at_offset(e, pointer, element, low + start)}, align {size}")
            for start in starts(width, abs(step))
        ]
        loaded = every(w, vec, pieces, step)
    else:
        at = [at_offset(e, pointer, element, offset + k * step) for k in range(width)]
        loaded = gathered(e.w, vec, [w.inst(f"load {element}, ptr {a}, align {size}") for a in at])
    return _truth(w, vec, loaded) if type.dtype.kind == "b" else loaded


def _load_halves(e: Emitter, at: str, vec: Vec, size: int) -> str:
    """A vector of a whole line as two halves, which LLVM does not join.

    Of vectors that lie across two lines each, Zen 5 reads half as many a second while lines are
    written past the caches (`nontemporal`).
    """
    half = vec._replace(lanes=vec.lanes // 2)
    further = e.w.inst(f"getelementptr inbounds i8, ptr {at}, i64 {half.lanes * size}")
    low, high = (e.w.inst(f"load volatile {half}, ptr {p}, align {size}") for p in (at, further))
    lanes = ", ".join([f"i32 {k}" for k in range(vec.lanes)])
    return e.w.inst(f"shufflevector {half} {low}, {half} {high}, <{vec.lanes} x i32> <{lanes}>")


def count_of(e: Emitter, op: kernel.Load | kernel.Store | kernel.Mask) -> str:
    """How many elements of a tile along its last axis are there; nothing where all are."""
    return "" if op.within is None else emit_index(e, op.within, op.indices)


def inside(e: Emitter, count: str, start: int, width: int) -> str:
    """The mask of a vector: which of its elements, from `start` on, are below a count."""
    key = e.w.block, count, start, width
    if key not in e.pointers:
        vec = Vec(width, "i32")
        number = splat(e.w, vec, e.w.inst(f"trunc i64 {count} to i32"))
        places = [f"i32 {start + k}" for k in range(width)]
        text = f"<{', '.join(places)}>" if width > 1 else places[0][4:]
        e.pointers[key] = e.w.compare("slt", vec, text, number)
    return e.pointers[key]


def kept_back(e: Emitter, count: str, place: int) -> str:
    """The place of an element, or of the last one that is there."""
    if place == 0:
        return "0"
    last, t = e.w.inst(f"sub nsw i64 {count}, 1"), Vec(1, "i64")
    return e.w.intrinsic("llvm.smin.i64", t, (t, last), (t, str(place)))


def at_place(e: Emitter, pointer: str, element: str, offset: Dim, place: str, step: Dim) -> str:
    """The address of an element of a tile whose place along the last axis is a number of ours."""
    first = at_offset(e, pointer, element, offset)
    moved = e.w.inst(f"mul nsw i64 {place}, {emit_index(e, step, ())}")
    return e.w.inst(f"getelementptr inbounds {element}, ptr {first}, i64 {moved}")


def _load_some(
    e: Emitter,
    pointer: str,
    type: BufferType,
    offset: Dim,
    chunk: tuple[int, int],
    step: Dim,
    count: str,
) -> str:
    """A vector of which the elements beyond a count are not read."""
    w, element, (start, width) = e.w, memory_element(type.dtype), chunk
    vec, size = Vec(width, element), type.dtype.bytes
    if step == 1 and width > 1 and e.target.masks(type.dtype.bits):
        at = at_offset(e, pointer, element, offset + start)
        loaded = _masked_load(e, vec, at, size, inside(e, count, start, width))
    elif is_short(step, width) and step > 0 and e.target.masks(type.dtype.bits):
        last = w.inst(f"sub nsw i64 {count}, {start + 1}")
        read = w.inst(f"add nsw i64 {w.inst(f'mul nsw i64 {last}, {step}')}, 1")
        pieces = [
            _masked_load(
                e,
                vec,
                at_offset(e, pointer, element, offset + start * step + at),
                size,
                inside(e, read, at, width),
            )
            for at in starts(width, step)
        ]
        loaded = every(w, vec, pieces, step)
    else:
        parts = []
        for k in range(width):
            place = kept_back(e, count, start + k)
            at = at_place(e, pointer, element, offset, place, step)
            parts.append(w.inst(f"load {element}, ptr {at}, align {size}"))
        mask = inside(e, count, start, width)
        loaded = w.select(vec, mask, gathered(e.w, vec, parts), _zero(vec))
    return _truth(w, vec, loaded) if type.dtype.kind == "b" else loaded


def _masked_load(e: Emitter, vec: Vec, at: str, size: int, mask: str) -> str:
    """A vector of which the elements that a mask lacks are not read, and 0."""
    name = f"llvm.masked.load.{vec.suffix}.p0"
    e.w.declares.setdefault(name, f"declare {vec} @{name}(ptr, i32, {vec.mask}, {vec})")
    given = f"ptr {at}, i32 {size}, {vec.mask} {mask}, {vec} {_zero(vec)}"
    return e.w.inst(f"call {vec} @{name}({given})")


def _truth(w: Writer, vec: Vec, bytes_: str) -> str:
    """Which bytes are true: those that are not zero, as in NumPy, where any may be booleans."""
    return w.compare("ne", vec, bytes_, _zero(vec))


def _zero(vec: Vec) -> str:
    return "zeroinitializer" if vec.lanes > 1 else "0.0" if vec.is_float else "0"


def mask(e: Emitter, op: kernel.Mask) -> None:
    """A comparison of each element's place with the count."""
    count, chunks = count_of(e, op), split_axis(op.shape[-1], e.lanes)
    row: list[str | None] = [inside(e, count, *chunk) for chunk in chunks]
    e.define(op.result, row * prod(op.shape[:-1]))


_CROSSED = 4  # extents from which turning a block in registers beats reading element by element


def crossing_axis(shape: tuple[int, ...], steps: list[Dim]) -> int | None:
    """The axis along which a tile lies side by side in memory, where that is not its last one."""
    if steps[-1] in (0, 1) or shape[-1] < _CROSSED:
        return None
    found = [k for k, n in enumerate(shape[:-1]) if steps[k] == 1 and n >= _CROSSED]
    return found[0] if found else None


def _load_crossed(
    e: Emitter,
    pointer: str,
    type: BufferType,
    steps: list[Dim],
    shape: tuple[int, ...],
    axis: int,
    count: str,
) -> list[str | None]:
    """Vectors along `axis` from memory, turned to vectors along the last axis in registers."""
    others = list(steps)
    others[axis] = 0
    chunks, per = split_axis(shape[-1], e.lanes), len(split_axis(shape[-1], e.lanes))
    offsets = offsets_of(shape, others)
    inner = prod(shape[axis + 1 : -1])
    parts: list[str | None] = [None] * (len(offsets) * per)
    for leading, offset in enumerate(offsets):
        if leading // inner % shape[axis]:
            continue  # its block is made from the first index along the axis
        for chunk, (start, width) in enumerate(chunks):
            for first, depth in powers_of_two(shape[axis], e.lanes):
                rows = [
                    _load_row(e, pointer, type, offset + first, start + k, steps[-1], depth, count)
                    for k in range(width)
                ]
                element = memory_element(type.dtype)
                vec = Vec(width, element)
                padded, columns = turned(e.w, rows, Vec(depth, element))
                if padded != vec:
                    columns = [first_of(e, padded, c, vec.lanes) for c in columns]
                if count:
                    mask = inside(e, count, start, width)
                    columns = [e.w.select(vec, mask, c, _zero(vec)) for c in columns]
                for k, column in enumerate(columns):
                    parts[(leading + (first + k) * inner) * per + chunk] = column
    return parts


def _load_row(
    e: Emitter,
    pointer: str,
    type: BufferType,
    offset: Dim,
    place: int,
    step: Dim,
    width: int,
    count: str,
) -> str:
    """A vector across the last axis, of a place there that is kept below a count."""
    if not count:
        return _load_chunk(e, pointer, type, offset + place * step, width, 1)
    kept = kept_back(e, count, place)
    pointer = at_place(e, pointer, memory_element(type.dtype), offset, kept, step)
    return _load_chunk(e, pointer, type, 0, width, 1)


def load(e: Emitter, op: kernel.Load) -> None:
    """Read a tile; one of scalars may wait until its parts are used."""
    shape = op.shape
    pointer, steps = address(e, op.buffer, op.at, op.indices, len(shape))
    shape, steps, count = shape or (1,), steps or [1], count_of(e, op)
    axis = crossing_axis(shape, steps)
    if axis is not None and op.buffer.type.dtype.kind != "b":
        e.define(op.result, _load_crossed(e, pointer, op.buffer.type, steps, shape, axis, count))
        return
    offsets = offsets_of(shape, steps)
    chunks = split_axis(shape[-1], e.lanes)

    def make(number: int) -> str:
        chunk, offset = chunks[number % len(chunks)], offsets[number // len(chunks)]
        if count:
            return _load_some(e, pointer, op.buffer.type, offset, chunk, steps[-1], count)
        start, width = chunk
        at = offset + start * steps[-1]
        return _load_chunk(e, pointer, op.buffer.type, at, width, steps[-1])

    vectors = len(offsets) * len(chunks)
    if op in e.lazy:
        e.define(op.result, [None] * vectors, make)
    else:
        e.define(op.result, [make(k) for k in range(vectors)])


def first_of(e: Emitter, vec: Vec, value: str, count: int) -> str:
    """So many elements of a vector, the first ones."""
    return value if count == vec.lanes else shuffle(e.w, vec, value, "poison", range(count))


def prefetch(e: Emitter, op: kernel.Prefetch) -> None:
    """One instruction for each line of the cache that the tile touches."""
    shape = op.shape or (1,)
    pointer, steps = address(e, op.buffer, op.at, op.indices, len(op.shape), inbounds=False)
    steps, element = steps or [1], memory_element(op.buffer.type.dtype)
    e.w.declares.setdefault(
        "llvm.prefetch.p0", "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
    )
    nearness = 3 if op.home == "L1" else 2
    last = steps[-1]
    stride = max(1, last) if isinstance(last, int) else LINE
    line = max(1, LINE // (op.buffer.type.dtype.bytes * stride))
    for offset in offsets_of(shape, steps):
        for start in range(0, shape[-1], line):
            ahead = emit_index(e, offset + start * last, ())
            at = e.w.inst(f"getelementptr {element}, ptr {pointer}, i64 {ahead}")
            e.w.line(f"call void @llvm.prefetch.p0(ptr {at}, i32 0, i32 {nearness}, i32 1)")


def index(e: Emitter, op: kernel.Index) -> None:
    """An index is an i64, or digits where it is constant."""
    e.number(op.result, emit_index(e, op.value, op.indices))


def alloc(e: Emitter, op: kernel.Alloc) -> None:
    """Scratch is memory of the stack, taken once in the entry.

    If it is large or its size is free, it is part of what the thread has for that.
    """
    name = f"%{e.w.fresh('scratch')}"
    if op.is_large:
        offset = emit_index(e, e.scratch, ())
        e.scratch = e.scratch + buffer_bytes(op.type)
        e.entry.append(f"  {name} = getelementptr i8, ptr {SCRATCH}, i64 {offset}")
        e.env[op.result] = name
        return
    e.entry.append(
        f"  {name} = alloca [{op.type.span()} x {memory_element(op.type.dtype)}], align 64"
    )
    e.env[op.result] = name


def coordinate(e: Emitter, op: kernel.Coordinate) -> None:
    """A tile of indices: the start in each lane, plus each lane's constant offset."""
    shape = op.shape or (1,)
    split = affine_facts.linear(op.value, tuple(f"t{k}" for k in range(len(op.shape))))
    if split is None:
        raise CompilerBug("MC0303", f"{op.value} is not linear in the tile's coordinates")
    coefficients, base = split
    steps: list[Dim] = [coefficients.get(f"t{k}", 0) for k in range(len(op.shape))] or [0]
    element = "i32" if op.result in e.short else "i64"
    start = _number(e, element, emit_index(e, base, op.indices))
    parts: list[str | None] = []
    for offset in offsets_of(shape, steps):
        for first, width in split_axis(shape[-1], e.lanes):
            vec = Vec(width, element)
            numbers = [offset + (first + k) * steps[-1] for k in range(width)]
            added = _lanes(e, vec, numbers)
            parts.append(e.w.binary("add", vec, splat(e.w, vec, start), added))
    e.define(op.result, parts)


def _number(e: Emitter, element: str, name: str) -> str:
    """An index as an integer of a type, of which all is read that has a place in it."""
    if element == "i64":
        return name
    if name.startswith("%"):
        return e.w.convert("trunc", Vec(1, "i64"), name, Vec(1, element))
    return str(int(np.int64(int(name)).astype(np.int32)))


def _lanes(e: Emitter, vec: Vec, numbers: list[Dim]) -> str:
    """A vector of numbers, which may depend on free dimensions."""
    known = all(isinstance(n, int) for n in numbers)
    names = map(str, numbers) if known else [emit_index(e, n, ()) for n in numbers]
    each = [_number(e, vec.element, name) for name in names]
    if vec.lanes == 1:
        return each[0]
    if known:
        return f"<{', '.join(f'{vec.element} {n}' for n in each)}>"
    out = "poison"
    for k, n in enumerate(each):
        out = e.w.inst(f"insertelement {vec} {out}, {vec.element} {n}, i32 {k}")
    return out
