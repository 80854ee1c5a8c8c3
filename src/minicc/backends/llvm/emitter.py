"""The state while a kernel is emitted, and what all its emitters share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from minicc.backends.llvm.isa.table import writer_for
from minicc.backends.llvm.sizes import evaluated
from minicc.backends.llvm.stepped import interleaved
from minicc.backends.llvm.tiles import Tile
from minicc.backends.llvm.writer import Vec
from minicc.errors import CompilerBug
from minicc.ir import arith, kernel
from minicc.ir.affine import Dim
from minicc.ir.core import Op, Region, Value
from minicc.ir.rewrite import used_by
from minicc.ir.types import I32, DType
from minicc.target import Target

Emit = Callable[["Emitter", Any], None]
Kind = tuple[type[Op], DType]  # of an elementwise op


def symbol_of(kernel: str) -> str:
    """The name of a kernel in machine code, where the C library's functions have names too."""
    return f"kernel.{kernel}"


class Loop:
    """The innermost loop that is being emitted.

    `own` are the numbers that change in it, `lines` what is computed before it, `outer` is the loop
    around it.
    """

    def __init__(self, index: str, outer: Loop | None) -> None:
        self.outer = outer
        self.own = {index}
        self.lines: list[str] = []


class Emitter:
    """The state while one kernel is emitted: the writer, and what each value became."""

    def __init__(
        self,
        target: Target,
        table: Mapping[type[Op], Emit],
        lanes: int,
        short: Set[Value],
        often: Set[Kind],
    ) -> None:
        self.target = target
        self.table = table
        self.lanes = lanes
        self.short = short  # coordinates of 32 bits
        self.often = often  # what is called
        self.functions: dict[str, str] = {}  # those that are called, by name
        self.w = writer_for(target)
        self.env: dict[Value, Any] = {}
        self.entry: list[str] = []
        self.pointers: dict[object, str] = {}
        self.loop: Loop | None = None
        self.lazy: set[Op] = set()
        self.woven: dict[Op, list[kernel.Store]] = {}
        self.checks = 0  # how many were emitted
        self.halves = False  # whether vectors of a line are read in halves
        self.fenced = False  # whether stores go past the caches, which a fence ends
        self.scratch: Dim = 0  # bytes of scratch that is not on the stack
        self.sizes: dict[Dim, str] = {}

    def tile(self, value: Value) -> Tile:
        """The tile that a value became."""
        found: Tile = self.env[value]
        return found

    def define(
        self, value: Value, parts: list[str | None], make: Callable[[int], str] | None = None
    ) -> None:
        """Bind a value to its vectors."""
        self.env[value] = Tile(value.type, self.lanes, parts, make)

    def number(self, value: Value, name: str) -> None:
        """Bind an index to an i64 that was computed here."""
        self.env[value] = name
        if self.loop is not None:
            self.loop.own.add(name)

    def of_sizes(self, expression: Dim) -> str:
        """An expression over free dimensions alone as an i64, computed once in the entry."""
        found = self.sizes.get(expression)
        if found is None:
            found = self.sizes[expression] = evaluated(expression, self.entry, self.sizes)
        return found

    def slots(self, vec: Vec, count: int, position: int) -> str:
        """Memory of the stack for so many vectors, which is free again after each use."""
        key = "slots", vec, count, position
        if key not in self.pointers:
            name = self.pointers[key] = f"%{self.w.fresh('slots')}"
            self.entry.append(f"  {name} = alloca [{count} x {vec}], align 64")
        return self.pointers[key]

    def region(self, region: Region) -> None:
        """Emit the ops of a region in order."""
        self.lazy |= deferrable(region)
        self.woven |= interleaved(region)
        for op in region.ops:
            emit = self.table.get(type(op))
            if emit is None:
                raise CompilerBug("MC0303", f"{op.opname} has no emission", where=op.loc)
            emit(self, op)


def deferrable(region: Region) -> set[Op]:
    """Loads of scalars that can wait until they are used.

    All their uses follow in this region, also those of rows that are put together, with nothing
    between that could write memory. Emitted where they are used, they don't hold a register for
    each row of a tile: LLVM would keep all of them, and move accumulators about.
    """
    uses: dict[Value, int] = {}
    inner: set[Value] = set()
    barriers: list[int] = []
    for position, op in reversed([*enumerate(region.ops)]):
        last = position
        if isinstance(op, kernel.Concat):
            last = uses.get(op.result, position)
            if op.result in inner or op.result in region.yields:
                inner.update(op.operands)
        for v in op.operands:
            uses[v] = max(uses.get(v, 0), last)
        if op.regions or not (op.pure or isinstance(op, kernel.Prefetch)):
            barriers.append(position)
            for r in op.regions:
                inner |= used_by(r)
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


def short_coordinates(ops: Sequence[Op]) -> set[Value]:
    """The coordinates of which nothing but 32 bits is read: they are computed in so many.

    Vectors of 64 bits have half the lanes, which all tiles of a kernel have in common.
    """
    found = {op.result for op in ops if isinstance(op, kernel.Coordinate)}
    for op in ops if found else ():
        if not (isinstance(op, arith.Cast) and op.dtype is I32):
            found.difference_update(op.operands)
        for region in op.regions:
            found.difference_update(region.yields)
    return found


def common_chunks(
    e: Emitter, tiles: list[Tile], shape: tuple[int, ...]
) -> tuple[tuple[int, int], ...] | None:
    """The chunks of the operands that have the full last extent; all must agree."""
    full = {t.chunks for t in tiles if t.shape[-1] == shape[-1]}
    if len(full) > 1:
        raise CompilerBug("MC0303", f"operands are split into vectors in {len(full)} ways")
    return full.pop() if full else None


def define_chunked(
    e: Emitter,
    value: Value,
    parts: list[str | None],
    chunks: tuple[tuple[int, int], ...],
    make: Callable[[int], str] | None = None,
) -> None:
    """Bind a value to vectors of the given chunks, which need not be those that its type has."""
    tile = Tile(value.type, e.lanes, parts, make)
    tile.chunks = chunks
    e.env[value] = tile
