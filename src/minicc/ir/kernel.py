"""The kernel dialect: a grid of tile programs.

A kernel is a function with an attribute `grid`, one extent an axis. Its first arguments are the
instance's coordinates (`index`), the others are buffers. Values are indices, or static tiles
`f32[14,32]`; tiles are split into the target's vectors only at emission.

Laws. Instances of a grid are independent: no order among them is promised, and where two write one
element they write the same bits (a last block may overlap its neighbour). Within an instance ops
run in order. A load or store outside the extents of its buffer is a bug, which the interpreter
reports and machine code does not check; an index that is data goes through `kernel.check`. Scratch
from `kernel.alloc` belongs to one instance and starts undefined.

Addressing. `at` holds one affine expression a dimension of the buffer, over `i0, i1, ...` (the
index operands) and `t0, t1, ...` (the tile's coordinates): `kernel.load %x, %h, %w {at = [i0,
14*i1 + t0, t1], shape = [14, 32]}`. Where `within` is given, the tile has so many elements along
its last axis: those beyond are not read, and are 0, or are not written.

Interpretation is batched: a value is an array with a leading axis for the instances that run
together.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import Any

import numpy as np

from minicc.ir import affine
from minicc.ir.addresses import Address, Memory, address_of, tile_coordinates
from minicc.ir.affine import Dim, symbol
from minicc.ir.arith import COMBINERS, Fma, broadcast_tiles, reduce_array, widens
from minicc.ir.core import Array, Function, Op, Region, RunRegion, Value, walk
from minicc.ir.indices import counted
from minicc.ir.types import (
    BOOL,
    I64,
    INDEX_TYPE,
    BufferType,
    TensorType,
    buffer_bytes,
    converted,
    is_index,
)
from minicc.ir.words import require_words, word_products

_ON_STACK = 1 << 18  # bytes of one allocation, where a thread's stack has few megabytes


def before_end(within: Dim, indices: tuple[Any, ...], shape: tuple[int, ...]) -> Array:
    """Which elements of a tile come before `within` along its last axis."""
    (rest,) = tile_coordinates((within - symbol(f"t{len(shape) - 1}"),), indices, shape)
    return rest > 0


def located(op: Load | Store, memory: Memory, indices: tuple[Any, ...]) -> tuple[Array, Any]:
    """The element numbers of a tile in memory, and which of its elements are there."""
    shape = op.shape if isinstance(op, Load) else op.value.type.extents
    if op.within is None:
        if op.address is not None:
            return memory.locate(op.address, indices), True
        return memory.number(tile_coordinates(op.at, indices, shape)), True
    inside = before_end(op.within, indices, shape)
    # what is not there is looked for where the first element is
    whole = tile_coordinates(op.at, indices, shape)
    first = tile_coordinates(op.at, indices, (*shape[:-1], 1))
    return memory.number(
        [np.where(inside, a, b) for a, b in zip(whole, first, strict=True)]
    ), inside


def _rows(memory: Memory, position: Array) -> Array:
    """For scratch, which has a row an instance, the row number of each element."""
    count = memory.flat.shape[0]
    return np.arange(count).reshape((-1,) + (1,) * (position.ndim - 1))


def _check_addressing(
    op: Op, buffer: BufferType, at: tuple[Dim, ...], indices: int, rank: int
) -> None:
    if len(at) != buffer.rank:
        raise TypeError(f"{op.opname} gives {len(at)} coordinates for {buffer}")
    known = _known(indices, rank)
    for expression in at:
        if unknown := _unknown(expression, known):
            raise TypeError(f"{op.opname} uses the unknown {unknown} in {expression}")


def _check_within(op: Op, within: Dim | None, indices: int, shape: tuple[int, ...]) -> None:
    if within is None:
        return
    if unknown := _unknown(within, _known(indices)):
        raise TypeError(f"{op.opname} uses the unknown {unknown} in {within}")
    if not shape:
        raise TypeError(f"{op.opname} within {within} of a tile without axes")


@cache
def _known(indices: int, rank: int = 0) -> frozenset[str]:
    """What addresses may name: so many indices, and the axes of a tile of this rank."""
    return frozenset((*[f"i{k}" for k in range(indices)], *[f"t{k}" for k in range(rank)]))


def _unknown(expression: Dim, known: frozenset[str]) -> list[str]:
    """The symbols that are neither known nor free dimensions of the program."""
    names = affine.symbols(expression) - known
    return sorted(name for name in names if not affine.is_size(name))


class Index(Op, name="kernel.index"):
    """An index computed from others: `value` is an affine expression over i0, i1, ..."""

    indices: tuple[Value, ...]
    value: Dim

    def infer(self) -> tuple[TensorType, ...]:
        if unknown := _unknown(self.value, _known(len(self.operands))):
            raise TypeError(f"kernel.index uses the unknown {unknown}")
        return (INDEX_TYPE,)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        binding = {f"i{k}": np.asarray(v, np.int64) for k, v in enumerate(args)}
        return (np.asarray(affine.evaluate(self.value, binding), np.int64),)


class Check(Op, name="kernel.check"):
    """The one element of a tile as an index below `extent`, counted from the end where negative.

    Out of range it fails the run: the interpreter raises OutOfRange; machine code takes 0, goes on,
    and the runtime raises afterwards. Where `extent` is 0 nothing may be read at the index.
    """

    x: Value
    extent: Dim
    pure = False

    def infer(self) -> tuple[TensorType, ...]:
        t = self.x.type
        negative = isinstance(self.extent, int) and self.extent < 0
        if not is_index(t.dtype) or any(n != 1 for n in t.extents) or negative:
            raise TypeError(f"{self.opname} of {t} below {self.extent}")
        return (INDEX_TYPE,)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (counted(np.asarray(args[0]).reshape(-1), affine.number(self.extent), self.loc),)


class Coordinate(Op, name="kernel.coordinate"):
    """A tile of i64 whose elements are an affine expression of i0, i1, ...

    And the tile's t0, t1, ...
    """

    indices: tuple[Value, ...]
    value: Dim
    shape: tuple[int, ...]

    def infer(self) -> tuple[TensorType, ...]:
        return (TensorType(I64, self.shape),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        (at,) = tile_coordinates((self.value,), args, self.shape)
        return (np.broadcast_to(at, (at.shape[0], *self.shape)),)


class Load(Op, name="kernel.load"):
    """Read a tile of `shape` from a buffer at affine coordinates."""

    buffer: Value
    indices: tuple[Value, ...]
    at: tuple[Dim, ...]
    shape: tuple[int, ...]
    within: Dim | None = None

    def infer(self) -> tuple[TensorType, ...]:
        _check_addressing(self, self.buffer.type, self.at, len(self.indices), len(self.shape))
        _check_within(self, self.within, len(self.indices), self.shape)
        return (TensorType(self.buffer.type.dtype, self.shape),)

    @cached_property
    def address(self) -> Address | None:
        """Where its elements lie, as far as that is the same for all instances."""
        return address_of(self.at, self.shape)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        memory: Memory = args[0]
        position, inside = located(self, memory, args[1:])
        if memory.flat.shape[0] == 1:
            loaded = memory.flat[0].take(position)
        else:
            loaded = memory.flat[_rows(memory, position), position]
        if self.within is not None:
            loaded = np.where(inside, loaded, np.zeros((), loaded.dtype))
        batch = loaded.shape[0]
        return (np.broadcast_to(loaded, (batch, *self.shape)),)


class Store(Op, name="kernel.store"):
    """Write a tile to a buffer at affine coordinates.

    A `nontemporal` one goes past the caches where it can: nobody reads soon what it writes.
    """

    buffer: Value
    value: Value
    indices: tuple[Value, ...]
    at: tuple[Dim, ...]
    within: Dim | None = None
    nontemporal: bool = False
    pure = False

    def infer(self) -> tuple[TensorType, ...]:
        tile, buffer = self.value.type, self.buffer.type
        _check_addressing(self, buffer, self.at, len(self.indices), tile.rank)
        _check_within(self, self.within, len(self.indices), tile.extents)
        if tile.dtype is not buffer.dtype:
            raise TypeError(f"kernel.store of {tile} into {buffer}")
        return ()

    @cached_property
    def address(self) -> Address | None:
        """Where its elements go, as far as that is the same for all instances."""
        return address_of(self.at, self.value.type.extents)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        memory: Memory = args[0]
        position, inside = located(self, memory, args[2:])
        # each instance has scratch of its own, where all of them may store alike
        row = np.zeros(1, int) if memory.flat.shape[0] == 1 else _rows(memory, position)
        value, position, inside, row = np.broadcast_arrays(args[1], position, inside, row)
        memory.flat[row[inside], position[inside]] = value[inside]
        return ()


class Mask(Op, name="kernel.mask"):
    """A tile of booleans: which elements come before `within` along the last axis."""

    indices: tuple[Value, ...]
    within: Dim
    shape: tuple[int, ...]

    def infer(self) -> tuple[TensorType, ...]:
        _check_within(self, self.within, len(self.indices), self.shape)
        return (TensorType(BOOL, self.shape),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        inside = before_end(self.within, args, self.shape)
        return (np.broadcast_to(inside, (inside.shape[0], *self.shape)),)


class Prefetch(Op, name="kernel.prefetch"):
    """Bring the memory of a tile nearer ahead of its use.

    A hint without meaning: nothing is read, so the tile may lie outside of the buffer. `home` is
    where it should be then (`L1`, `L2`). Hardware fetches ahead along a stream, but stops while a
    loop works on what it has; a kernel that says where it goes next keeps memory busy.
    """

    buffer: Value
    indices: tuple[Value, ...]
    at: tuple[Dim, ...]
    shape: tuple[int, ...]
    home: str = "L2"
    pure = False

    def infer(self) -> tuple[TensorType, ...]:
        _check_addressing(self, self.buffer.type, self.at, len(self.indices), len(self.shape))
        return ()

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return ()


class Alloc(Op, name="kernel.alloc"):
    """Scratch memory of the instance; `home` says where it is meant to stay (`L1`, `L2`)."""

    type: BufferType
    home: str = "L1"
    pure = False  # two allocations are two memories

    @property
    def is_large(self) -> bool:
        """Whether it is too large for a stack, or its size is only known when the program runs."""
        bytes_ = buffer_bytes(self.type)
        return not isinstance(bytes_, int) or bytes_ > _ON_STACK

    def infer(self) -> tuple[BufferType, ...]:
        return (self.type,)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        raise RuntimeError("kernel.alloc needs the number of instances; the interpreter serves it")


def _carried(op: For | Range) -> tuple[TensorType, ...]:
    """The types that a loop carries; TypeError where its body takes or yields others."""
    types = tuple(v.type for v in op.inits)
    args = tuple(a.type for a in op.body.args)
    if args != (INDEX_TYPE, *types) or tuple(y.type for y in op.body.yields) != types:
        raise TypeError(
            f"{op.opname} carries {types}, but its body takes {args} and yields other types"
        )
    return types


class For(Op, name="kernel.for"):
    """Run `body` for each index `lo, lo + step, ...` below `hi`, carrying values on."""

    inits: tuple[Value, ...]
    lo: int = 0
    hi: int
    step: int = 1
    body: Region
    pure = False

    @property
    def rounds(self) -> int:
        """How often it runs."""
        return -((self.lo - self.hi) // self.step)

    def infer(self) -> tuple[TensorType, ...]:
        types = _carried(self)
        if self.hi <= self.lo or self.step < 1:
            raise ValueError(f"kernel.for from {self.lo} to {self.hi} by {self.step} never runs")
        return types

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        carried = args
        for i in range(self.lo, self.hi, self.step):
            carried = run(self.body, (i, *carried))
        return carried


class Range(Op, name="kernel.range"):
    """Run `body` for each index `start, start + step, ...` below `stop`, which may be none.

    Values are carried from one round to the next. Where instances run together, `start` and `stop`
    must be the same for all of them.
    """

    start: Value
    stop: Value
    inits: tuple[Value, ...]
    step: int = 1
    body: Region
    pure = False

    def infer(self) -> tuple[TensorType, ...]:
        types = _carried(self)
        if self.start.type != INDEX_TYPE or self.stop.type != INDEX_TYPE or self.step < 1:
            raise TypeError("kernel.range runs between indices, in steps of at least 1")
        return types

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        start, stop, *carried = args
        (ends,) = {(int(a), int(b)) for a, b in np.broadcast(start, stop)}
        out = tuple(carried)
        for i in range(*ends, self.step):
            out = run(self.body, (i, *out))
        return out


class Reduce(Op, name="kernel.reduce"):
    """Combine a tile along one axis, which stays with extent 1."""

    x: Value
    axis: int
    combine: str

    def infer(self) -> tuple[TensorType, ...]:
        if self.combine not in COMBINERS:
            raise ValueError(f"no combiner is called {self.combine}; there are {sorted(COMBINERS)}")
        t = self.x.type
        return (TensorType(t.dtype, (*t.shape[: self.axis], 1, *t.shape[self.axis + 1 :])),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (reduce_array(self.combine, np.asarray(args[0]), (self.axis + 1,), keepdims=True),)


class Dot(Op, name="kernel.dot"):
    """The accumulator and a product: what one round of a loop over the depth of a product adds.

    `lhs` and `rhs` are a column and a row of the two matrices, repeated up to the accumulator's
    shape. It may have a wider type of their kind, which they are converted to. Floats are rounded
    once where the target has the instruction, else twice. Where `form` is given, lhs and rhs are
    words of several integers each (see `ir.words`), of which all products are added.
    """

    lhs: Value
    rhs: Value
    acc: Value
    form: str = ""

    def infer(self) -> tuple[TensorType, ...]:
        lhs, rhs, acc = [v.type for v in self.operands]
        if broadcast_tiles([lhs, rhs, acc]) != acc.extents:
            raise TypeError(f"kernel.dot of {lhs} and {rhs} is larger than its accumulator {acc}")
        if self.form:
            require_words(self.opname, self.form, lhs, rhs, acc)
        elif not all(t.dtype is acc.dtype or widens(t.dtype, acc.dtype) for t in (lhs, rhs)):
            raise TypeError(f"kernel.dot of {lhs} and {rhs} can't be added to {acc}")
        return (acc,)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        acc = self.acc.type.dtype
        with np.errstate(all="ignore"):
            if self.form:
                out = args[2] + word_products(args[0], args[1], self.form)
            else:
                given = zip(args[:2], (self.lhs, self.rhs), strict=True)
                lhs, rhs = [converted(a, v.type.dtype, acc) for a, v in given]
                out = Fma.compute(lhs, rhs, args[2])
        return (np.asarray(out, acc.numpy),)


class Broadcast(Op, name="kernel.broadcast"):
    """Repeat the axes of extent 1 up to `shape`."""

    x: Value
    shape: tuple[int, ...]

    def infer(self) -> tuple[TensorType, ...]:
        t = self.x.type
        if t.rank != len(self.shape) or any(
            n not in (1, m) for n, m in zip(t.shape, self.shape, strict=True)
        ):
            raise TypeError(f"{t} does not broadcast to {list(self.shape)}")
        return (TensorType(t.dtype, self.shape),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        x = np.asarray(args[0])
        return (np.broadcast_to(x, (x.shape[0], *self.shape)),)


class Reshape(Op, name="kernel.reshape"):
    """The same elements in row-major order under another shape."""

    x: Value
    shape: tuple[int, ...]

    def infer(self) -> tuple[TensorType, ...]:
        t = self.x.type
        if int(np.prod(t.extents)) != int(np.prod(self.shape)):
            raise TypeError(f"{t} has not as many elements as {list(self.shape)}")
        return (TensorType(t.dtype, self.shape),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        x = np.asarray(args[0])
        x = np.broadcast_to(x, (x.shape[0], *self.x.type.shape)) if x.ndim else x
        return (x.reshape((-1, *self.shape)),)


class Slice(Op, name="kernel.slice"):
    """`size` elements along one axis, from `start`."""

    x: Value
    axis: int
    start: int
    size: int = 1

    def infer(self) -> tuple[TensorType, ...]:
        t = self.x.type
        if not 0 <= self.start <= self.start + self.size <= t.extents[self.axis]:
            raise ValueError(f"{self.start}+{self.size} leaves axis {self.axis} of {t}")
        return (TensorType(t.dtype, (*t.shape[: self.axis], self.size, *t.shape[self.axis + 1 :])),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        cut = [slice(None)] * (self.x.type.rank + 1)
        cut[self.axis + 1] = slice(self.start, self.start + self.size)
        return (np.asarray(args[0])[tuple(cut)],)


class Concat(Op, name="kernel.concat"):
    """Tiles one after the other along an axis."""

    xs: tuple[Value, ...]
    axis: int

    def infer(self) -> tuple[TensorType, ...]:
        types = [v.type for v in self.xs]
        first, k = types[0], self.axis
        rest = first.shape[:k], first.shape[k + 1 :], first.dtype
        if any((t.shape[:k], t.shape[k + 1 :], t.dtype) != rest for t in types):
            raise TypeError(f"tiles {types} do not fit together along axis {k}")
        total = sum(t.extents[k] for t in types)
        return (TensorType(first.dtype, (*first.shape[:k], total, *first.shape[k + 1 :])),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        batch = max(np.shape(a)[0] for a in args)
        whole = [np.broadcast_to(a, (batch, *np.shape(a)[1:])) for a in args]
        return (np.concatenate(whole, axis=self.axis + 1),)


def scratch_of(function: Function) -> Dim:
    """Bytes of a kernel's scratch that is not on the stack."""
    large = [op for op in walk(function.body) if isinstance(op, Alloc) and op.is_large]
    return sum([buffer_bytes(op.type) for op in large])
