"""A kernel to LLVM IR text: one emitter for each op of the kernel level, in one table.

The function emitted is `void @name(ptr buffers..., i64 lo, hi for each axis of the grid)`; it runs
the instances of that part of the grid in row-major order. Loops are emitted in do-while form with
carried tiles as phis, so that accumulators are registers by construction. Addresses are sums of
index terms with constant strides; what does not change in a loop is left to LLVM's code generator
to hoist.

Mirrors: Triton's TritonGPU-to-LLVM, IREE's ConvertToLLVM, XLA:CPU's kernel emitters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minicc.backends.llvm import elementwise
from minicc.backends.llvm.tiles import ELEMENT, Tile, leading_map, memory_element, splat, split_axis
from minicc.backends.llvm.writer import Vec, Writer, constant
from minicc.errors import CompilerBug
from minicc.ir import affine, arith, kernel
from minicc.ir.affine import Dim
from minicc.ir.core import Function, Op, Region, Value
from minicc.ir.types import BufferType, TensorType
from minicc.target import Target


def llvm_features(target: Target) -> tuple[str, ...]:
    """The features that the writer asks about, which a target has by its level."""
    names = ("fma",) if target.has_fma else ()
    return (*names, "avx512f", "avx512dq", "avx512vl") if target.vector_bits >= 512 else names


class Emitter:
    """The state while one kernel is emitted: the writer, and what each value became."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.w = Writer(llvm_features(target))
        self.env: dict[Value, Any] = {}
        self.entry: list[str] = []
        self.block = "entry"
        self.lazy: set[Op] = set()

    def lanes(self, type: TensorType) -> int:
        """How many elements of a type one vector register holds."""
        return max(1, self.target.vector_bits // max(type.dtype.bits, 8))

    def tile(self, value: Value) -> Tile:
        """The tile that a value became."""
        found: Tile = self.env[value]
        return found

    def define(
        self, value: Value, parts: list[str | None], make: Callable[[int], str] | None = None
    ) -> None:
        """Bind a value to its vectors."""
        self.env[value] = Tile(value.type, self.lanes(value.type), parts, make)

    def start(self, label: str) -> None:
        """Begin a block."""
        self.w.label(label)
        self.block = label

    def region(self, region: Region) -> None:
        """Emit the ops of a region in order."""
        self.lazy |= deferrable(region)
        for op in region.ops:
            emit = EMIT.get(type(op))
            if emit is None:
                raise CompilerBug("MC0303", f"{op.opname} has no emission", where=op.loc)
            emit(self, op)


def deferrable(region: Region) -> set[Op]:
    """Loads of scalars that can wait until they are used.

    All their uses follow in this region, with nothing between that could write memory. Emitted
    where they are used, they don't hold a register for each row of a tile.
    """
    uses: dict[Value, int] = {}
    inner: set[Value] = set()
    barriers: list[int] = []
    for position, op in enumerate(region.ops):
        for v in op.operands:
            uses[v] = position
        if op.regions or not op.pure:
            barriers.append(position)
            for r in op.regions:
                inner |= _used_within(r)
    found: set[Op] = set()
    for position, op in enumerate(region.ops):
        if isinstance(op, kernel.Load) and op.shape and op.shape[-1] == 1:
            v = op.result
            last = uses.get(v, position)
            if (
                v not in inner
                and v not in region.yields
                and not any(position < b < last for b in barriers)
            ):
                found.add(op)
    return found


def _used_within(region: Region) -> set[Value]:
    used = set(region.yields)
    for op in region.ops:
        used.update(op.operands)
        for r in op.regions:
            used |= _used_within(r)
    return used


def emit_index(e: Emitter, expression: Dim, indices: tuple[Value, ...]) -> str:
    """An affine expression over i0, i1, ... as an i64; constants come back as their digits."""
    w, t = e.w, Vec(1, "i64")

    def floor_operation(divide: bool) -> Callable[[Any, int], str]:
        def emit(a: Any, n: int) -> str:
            # indices that are divided are never negative, so the unsigned instruction is the floor
            return w.inst(f"{'udiv' if divide else 'urem'} i64 {a}, {n}")

        return emit

    return str(
        affine.fold(
            expression,
            lambda name: e.env[indices[int(name[1:])]],
            lambda a, b: w.binary("add nsw", t, str(a), str(b)),
            lambda a, b: w.binary("mul nsw", t, str(a), str(b)),
            floor_operation(True),
            floor_operation(False),
            lambda a, b: w.intrinsic("llvm.smin.i64", t, (t, str(a)), (t, str(b))),
        )
    )


def address(
    e: Emitter,
    buffer: Value,
    at: tuple[Dim, ...],
    indices: tuple[Value, ...],
    rank: int,
    within: str = " inbounds",
) -> tuple[str, list[int]]:
    """The pointer to a tile's first element, and the step in elements along each of its axes."""
    type: BufferType = buffer.type
    total: Dim = 0
    for coordinate, stride in zip(at, type.strides, strict=True):
        total = total + coordinate * stride
    split = affine.linear(total, tuple(f"t{k}" for k in range(rank)))
    if split is None:
        raise CompilerBug("MC0303", f"the address {total} is not linear in the tile's coordinates")
    steps, base = split
    pointer = str(e.env[buffer])
    offset = emit_index(e, base, indices)
    if offset != "0":
        pointer = e.w.inst(
            f"getelementptr{within} {memory_element(type.dtype)}, ptr {pointer}, i64 {offset}"
        )
    return pointer, [steps.get(f"t{k}", 0) for k in range(rank)]


def _offsets(shape: tuple[int, ...], steps: list[int]) -> list[int]:
    """Element offsets of all leading indices of a tile, in row-major order."""
    offsets = [0]
    for extent, step in zip(shape[:-1], steps[:-1], strict=True):
        offsets = [o + k * step for o in offsets for k in range(extent)]
    return offsets


def _at(e: Emitter, pointer: str, element: str, offset: int) -> str:
    return (
        pointer
        if offset == 0
        else e.w.inst(f"getelementptr inbounds {element}, ptr {pointer}, i64 {offset}")
    )


def _load_chunk(
    e: Emitter, pointer: str, type: BufferType, offset: int, width: int, step: int
) -> str:
    w, element = e.w, memory_element(type.dtype)
    size = type.dtype.bytes
    vec = Vec(width, element)
    if step == 1 or width == 1:
        loaded = w.inst(f"load {vec}, ptr {_at(e, pointer, element, offset)}, align {size}")
    elif step == 0:
        scalar = w.inst(f"load {element}, ptr {_at(e, pointer, element, offset)}, align {size}")
        loaded = splat(w, vec, scalar)
    else:
        loaded = "poison"
        for k in range(width):
            scalar = w.inst(
                f"load {element}, ptr {_at(e, pointer, element, offset + k * step)}, align {size}"
            )
            loaded = w.inst(f"insertelement {vec} {loaded}, {element} {scalar}, i32 {k}")
    return w.inst(f"trunc {vec} {loaded} to {vec.mask}") if type.dtype.kind == "b" else loaded


def _load(e: Emitter, op: kernel.Load) -> None:
    shape = op.shape
    pointer, steps = address(e, op.buffer, op.at, op.indices, len(shape))
    shape, steps = shape or (1,), steps or [1]
    offsets = _offsets(shape, steps)
    chunks = split_axis(shape[-1], e.lanes(op.result.type))

    def make(number: int) -> str:
        start, width = chunks[number % len(chunks)]
        offset = offsets[number // len(chunks)] + start * steps[-1]
        return _load_chunk(e, pointer, op.buffer.type, offset, width, steps[-1])

    count = len(offsets) * len(chunks)
    if op in e.lazy:
        e.define(op.result, [None] * count, make)
    else:
        e.define(op.result, [make(k) for k in range(count)])


def _store(e: Emitter, op: kernel.Store) -> None:
    w, tile = e.w, e.tile(op.value)
    dtype = tile.dtype
    element = memory_element(dtype)
    pointer, steps = address(e, op.buffer, op.at, op.indices, op.value.type.rank)
    steps = steps or [1]
    for leading, offset in enumerate(_offsets(tile.shape, steps)):
        for chunk, (start, width) in enumerate(tile.chunks):
            value = tile.get(w, leading, chunk, width)
            vec = Vec(width, element)
            if dtype.kind == "b":
                value = w.inst(f"zext {vec.mask} {value} to {vec}")
            where = offset + start * steps[-1]
            if steps[-1] == 1 or width == 1:
                target = _at(e, pointer, element, where)
                w.line(f"store {vec} {value}, ptr {target}, align {dtype.bytes}")
                continue
            for k in range(width):
                scalar = w.inst(f"extractelement {vec} {value}, i32 {k}")
                target = _at(e, pointer, element, where + k * steps[-1])
                w.line(f"store {element} {scalar}, ptr {target}, align {dtype.bytes}")


def _prefetch(e: Emitter, op: kernel.Prefetch) -> None:
    """One instruction for each line of the cache that the tile touches."""
    shape = op.shape or (1,)
    pointer, steps = address(e, op.buffer, op.at, op.indices, len(op.shape), within="")
    steps, element = steps or [1], memory_element(op.buffer.type.dtype)
    e.w.declares.setdefault(
        "llvm.prefetch.p0", "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
    )
    nearness = 3 if op.home == "L1" else 2
    line = max(1, 64 // (op.buffer.type.dtype.bytes * max(1, steps[-1])))
    for offset in _offsets(shape, steps):
        for start in range(0, shape[-1], line):
            ahead = offset + start * steps[-1]
            at = e.w.inst(f"getelementptr {element}, ptr {pointer}, i64 {ahead}")
            e.w.line(f"call void @llvm.prefetch.p0(ptr {at}, i32 0, i32 {nearness}, i32 1)")


def _index(e: Emitter, op: kernel.Index) -> None:
    e.env[op.result] = emit_index(e, op.value, op.indices)


def _alloc(e: Emitter, op: kernel.Alloc) -> None:
    name = f"%{e.w.fresh('scratch')}"
    e.entry.append(
        f"  {name} = alloca [{op.type.span()} x {memory_element(op.type.dtype)}], align 64"
    )
    e.env[op.result] = name


def _for(e: Emitter, op: kernel.For) -> None:
    w = e.w
    head, before = w.fresh("for"), e.block
    index = f"%{w.fresh('i')}"
    inits = [e.tile(v) for v in op.inits]
    initial = [t.all_parts() for t in inits]
    w.line(f"br label %{head}")
    e.start(head)
    slot = len(w.lines)  # the phis are written when the values of the back edge are known
    e.env[op.body.args[0]] = index
    names: list[list[str]] = []
    for arg, tile, parts in zip(op.body.args[1:], inits, initial, strict=True):
        fresh = [f"%{w.fresh('c')}" for _ in parts]
        names.append(fresh)
        e.env[arg] = Tile(arg.type, e.lanes(arg.type), list(fresh))
        assert tile.shape == e.tile(arg).shape
    e.region(op.body)
    yielded = [e.tile(v).all_parts() for v in op.body.yields]
    following = w.inst(f"add nuw nsw i64 {index}, {op.step}")
    w.line(f"; {op.hi - op.lo} by {op.step}")
    more = w.inst(f"icmp slt i64 {following}, {op.hi}")
    tail, done = e.block, w.fresh("done")
    w.line(f"br i1 {more}, label %{head}, label %{done}")
    phis = [f"  {index} = phi i64 [ {op.lo}, %{before} ], [ {following}, %{tail} ]"]
    for tile, ns, first, last in zip(inits, names, initial, yielded, strict=True):
        for k, name in enumerate(ns):
            vec = tile.vec(tile.chunks[k % len(tile.chunks)][1])
            phis.append(f"  {name} = phi {vec} [ {first[k]}, %{before} ], [ {last[k]}, %{tail} ]")
    w.lines[slot:slot] = phis
    e.start(done)
    for result, parts in zip(op.results, yielded, strict=True):
        e.define(result, list(parts))


def _elementwise(e: Emitter, op: arith.Elementwise) -> None:
    tiles = [e.tile(v) for v in op.operands]
    type: TensorType = op.result.type
    shape = type.extents or (1,)
    chunks = _common_chunks(e, tiles, shape) or split_axis(shape[-1], e.lanes(type))
    emit = elementwise.TABLE[_class_of(op)]
    maps = [leading_map(t.shape, shape) for t in tiles]
    dtype = tiles[0].dtype
    w, parts = e.w, []
    for leading in range(len(maps[0])):
        for chunk, (_, width) in enumerate(chunks):
            xs = [t.get(w, m[leading], chunk, width) for t, m in zip(tiles, maps, strict=True)]
            parts.append(emit(w, Vec(width, ELEMENT[dtype.name]), dtype, xs))
    _define_chunked(e, op.result, list(parts), chunks)


def _class_of(op: Op) -> type[Op]:
    if type(op) not in elementwise.TABLE:
        raise CompilerBug("MC0303", f"{op.opname} has no emission", where=op.loc)
    return type(op)


def _common_chunks(
    e: Emitter, tiles: list[Tile], shape: tuple[int, ...]
) -> tuple[tuple[int, int], ...] | None:
    """The chunks of the operands that have the full last extent; all must agree."""
    full = {t.chunks for t in tiles if t.shape[-1] == shape[-1]}
    if len(full) > 1:
        raise CompilerBug("MC0303", f"operands are split into vectors in {len(full)} ways")
    return full.pop() if full else None


def _define_chunked(
    e: Emitter, value: Value, parts: list[str | None], chunks: tuple[tuple[int, int], ...]
) -> None:
    tile = Tile(value.type, e.lanes(value.type), parts)
    tile.chunks = chunks
    e.env[value] = tile


def _select(e: Emitter, op: arith.Select) -> None:
    w = e.w
    tiles = [e.tile(v) for v in op.operands]
    shape = op.result.type.extents or (1,)
    chunks = _common_chunks(e, tiles, shape) or split_axis(shape[-1], e.lanes(op.result.type))
    maps = [leading_map(t.shape, shape) for t in tiles]
    parts: list[str | None] = []
    for leading in range(len(maps[0])):
        for chunk, (_, width) in enumerate(chunks):
            c, a, b = [t.get(w, m[leading], chunk, width) for t, m in zip(tiles, maps, strict=True)]
            parts.append(w.select(tiles[1].vec(width), c, a, b))
    _define_chunked(e, op.result, parts, chunks)


def _cast(e: Emitter, op: arith.Cast) -> None:
    source = e.tile(op.x)
    parts: list[str | None] = []
    for k in range(len(source.parts)):
        width = source.chunks[k % len(source.chunks)][1]
        parts.append(elementwise.cast(e.w, width, source.part(k), source.dtype, op.dtype))
    _define_chunked(e, op.result, parts, source.chunks)


def _constant(e: Emitter, op: arith.Constant) -> None:
    dtype = op.result.type.dtype
    scalar = op.value.array[()]
    text = constant(ELEMENT[dtype.name], float(scalar) if dtype.is_float else int(scalar))
    shape = op.shape or (1,)
    chunks = split_axis(shape[-1], e.lanes(op.result.type))
    parts: list[str | None] = []
    for _ in range(len(leading_map(shape, shape))):
        parts += [splat(e.w, Vec(width, ELEMENT[dtype.name]), text) for _, width in chunks]
    e.define(op.result, parts)


def _combine(e: Emitter, combine: str, vec: Vec, tile: Tile, a: str, b: str) -> str:
    return elementwise.TABLE[arith.COMBINERS[combine]](e.w, vec, tile.dtype, [a, b])


def _reduce(e: Emitter, op: kernel.Reduce) -> None:
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
        _define_chunked(e, op.result, parts, source.chunks)
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


def _broadcast(e: Emitter, op: kernel.Broadcast) -> None:
    source, shape = e.tile(op.x), op.shape or (1,)
    chunks = (
        source.chunks
        if source.shape[-1] == shape[-1]
        else split_axis(shape[-1], e.lanes(op.result.type))
    )
    parts: list[str | None] = []
    for leading in leading_map(source.shape, shape):
        parts += [source.get(e.w, leading, c, width) for c, (_, width) in enumerate(chunks)]
    _define_chunked(e, op.result, parts, chunks)


def _reshape(e: Emitter, op: kernel.Reshape) -> None:
    source, shape = e.tile(op.x), op.shape or (1,)
    if source.shape[-1] == shape[-1]:
        _define_chunked(e, op.result, list(source.all_parts()), source.chunks)
        return
    scalars = _scalars(e, source)
    chunks = split_axis(shape[-1], e.lanes(op.result.type))
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


def _slice(e: Emitter, op: kernel.Slice) -> None:
    source = e.tile(op.x)
    rank, per = len(source.shape), len(source.chunks)
    if op.axis == rank - 1:
        scalars = _scalars(e, source)
        n = source.shape[-1]
        rows = [
            scalars[k * n + op.start : k * n + op.start + op.size] for k in range(source.leading)
        ]
        chunks = split_axis(op.size, e.lanes(op.result.type))
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
    _define_chunked(e, op.result, parts, source.chunks)


def _concat(e: Emitter, op: kernel.Concat) -> None:
    tiles = [e.tile(v) for v in op.xs]
    rank = len(tiles[0].shape)
    parts: list[str | None] = []
    if op.axis == rank - 1:
        rows = [
            [s for t in tiles for s in _scalars(e, t)[k * t.shape[-1] : (k + 1) * t.shape[-1]]]
            for k in range(tiles[0].leading)
        ]
        chunks = split_axis(op.result.type.extents[-1], e.lanes(op.result.type))
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
    _define_chunked(e, op.result, parts, tiles[0].chunks)


EMIT: dict[type[Op], Callable[[Emitter, Any], None]] = {
    kernel.Load: _load,
    kernel.Store: _store,
    kernel.Prefetch: _prefetch,
    kernel.Index: _index,
    kernel.Alloc: _alloc,
    kernel.For: _for,
    kernel.Reduce: _reduce,
    kernel.Broadcast: _broadcast,
    kernel.Reshape: _reshape,
    kernel.Slice: _slice,
    kernel.Concat: _concat,
    arith.Select: _select,
    arith.Cast: _cast,
    arith.Constant: _constant,
    **dict.fromkeys(elementwise.TABLE, _elementwise),
}


def emit_kernel(function: Function, target: Target) -> str:
    """The LLVM module text of one kernel; see the module's text for the function's signature."""
    e = Emitter(target)
    w = e.w
    grid: tuple[int, ...] = function.attrs["grid"]
    coordinates, buffers = function.args[: len(grid)], function.args[len(grid) :]
    params = []
    for k, b in enumerate(buffers):
        e.env[b] = f"%b{k}"
        params.append(f"ptr noalias nocapture %b{k}")
    params += [f"i64 %{end}{axis}" for axis in range(len(grid)) for end in ("lo", "hi")]
    _grid_loops(e, coordinates, function.body)
    lines = [
        f"define void @{function.name}({', '.join(params)}) nounwind {{",
        "entry:",
        *e.entry,
        *w.lines,
        "}",
    ]
    return w.declarations() + "\n" + "\n".join(lines) + "\n"


def _grid_loops(e: Emitter, coordinates: tuple[Value, ...], body: Region) -> None:
    """Nested loops over each axis from lo to hi, which may be empty."""
    w = e.w
    ends: list[tuple[str, str, str, str, int]] = []
    for axis, c in enumerate(coordinates):
        head, inside, after = w.fresh("grid"), w.fresh("instance"), w.fresh("after")
        before = e.block
        w.line(f"br label %{head}")
        e.start(head)
        name = f"%{w.fresh('g')}"
        slot = len(w.lines)
        w.lines.append("")
        more = w.inst(f"icmp slt i64 {name}, %hi{axis}")
        w.line(f"br i1 {more}, label %{inside}, label %{after}")
        e.start(inside)
        e.env[c] = name
        ends.append((head, after, name, before, slot))
    e.region(body)
    for axis in reversed(range(len(coordinates))):
        head, after, name, before, slot = ends[axis]
        following = w.inst(f"add nuw nsw i64 {name}, 1")
        w.line(f"br label %{head}")
        w.lines[slot] = f"  {name} = phi i64 [ %lo{axis}, %{before} ], [ {following}, %{e.block} ]"
        e.start(after)
    w.line("ret void")
