"""Place every allocation of `main` in one arena.

What lives at different times may share memory.

A plan first: the first and last launch that touch each allocation, then offsets by decreasing
size, each at the lowest place that is free during its life. Applying writes the offsets into the
ops.

Mirrors: TFLite's greedy-by-size planner (Pisarchyk and Lee), ExecuTorch's memory planning, XLA's
heap simulator. These plan tensors of a graph by its order; ours plans buffers of launches, and
views count as their root.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

from minicc.ir import program
from minicc.ir.arrays import ALIGNMENT
from minicc.ir.core import Function, Module, Op, Region, Value, walk
from minicc.ir.types import BufferType

Loops = tuple[program.Loop, ...]


class Life(NamedTuple):
    """An allocation: the value, bytes with padding, and the positions of its first and last use."""

    value: Value
    size: int
    first: int
    last: int


class MemoryPlan(NamedTuple):
    """Byte offsets of all allocations, and the bytes of the arena."""

    offsets: dict[Value, int]
    size: int


def plan_memory(module: Module) -> Module:
    """Give each allocation its offset; the module is at level program then."""
    main = module.main
    plan = plan_offsets(lifetimes(main))
    attrs = {**main.attrs, "arena": plan.size}
    placed = Function(main.name, _placed(main.body, plan, {}), attrs)
    return Module("program", [placed if f is main else f for f in module.functions])


def _placed(region: Region, plan: MemoryPlan, forward: dict[Value, Value]) -> Region:
    ops: list[Op] = []
    for op in region.ops:
        operands = [forward.get(v, v) for v in op.operands]
        if isinstance(op, program.Alloc):
            fresh: Op = op.rebuilt(operands, offset=plan.offsets[op.result])
        else:
            fresh = op.rebuilt(operands, [_placed(r, plan, forward) for r in op.regions])
        for old, new in zip(op.results, fresh.results, strict=True):
            new.hint = old.hint
            forward[old] = new
        ops.append(fresh)
    return Region(region.args, ops, region.yields)


def roots(main: Function) -> dict[Value, Value]:
    """The allocation, constant or argument whose memory each buffer is."""
    found: dict[Value, Value] = {a: a for a in main.args}
    for op in walk(main.body):
        for r in op.results:
            found[r] = found[op.operands[0]] if isinstance(op, program.View) else r
    return found


def lifetimes(main: Function) -> list[Life]:
    """When each allocation is used, by positions in `main`.

    What is used within a loop alone lives from its first to its last use there, since each round
    makes it anew; anything else that a loop uses is kept until its last round is done.
    """
    root = roots(main)
    uses: dict[Value, list[tuple[int, Loops]]] = {}
    within: dict[program.Loop, list[int]] = {}
    for position, (launch, loops) in enumerate(_launches(main.body, ())):
        for loop in loops:
            within.setdefault(loop, []).append(position)
        for v in launch.operands:
            uses.setdefault(root[v], []).append((position, loops))
    span: dict[Value, tuple[int, int]] = {}
    for v, found in uses.items():
        columns = zip(*[loops for _, loops in found], strict=False)
        shared = sum(1 for _ in takewhile(lambda c: len({*c}) == 1, columns))
        whole = [within[loops[shared]] if loops[shared:] else [p] for p, loops in found]
        span[v] = min(p[0] for p in whole), max(p[-1] for p in whole)
    lives: list[Life] = []
    for op in main.body.ops:
        if isinstance(op, program.Alloc):
            first, last = span.get(op.result, (0, 0))
            lives.append(Life(op.result, buffer_bytes(op.type), first, last))
    return lives


def _launches(region: Region, loops: Loops) -> Iterator[tuple[program.Launch, Loops]]:
    """The launches in order, each with the loops around it."""
    for op in region.ops:
        if isinstance(op, program.Launch):
            yield op, loops
        elif isinstance(op, program.Loop):
            yield from _launches(op.body, (*loops, op))


def buffer_bytes(type: BufferType) -> int:
    """Bytes that a buffer takes in the arena."""
    return -(-type.span() * type.dtype.bytes // ALIGNMENT) * ALIGNMENT


def plan_offsets(lives: list[Life]) -> MemoryPlan:
    """Offsets by decreasing size, each at the lowest place free during its life."""
    placed: list[tuple[int, Life]] = []
    total = 0
    for life in sorted(lives, key=lambda x: (-x.size, x.first)):
        offset = 0
        for other_offset, other in sorted(
            ((o, x) for o, x in placed if x.first <= life.last and life.first <= x.last),
            key=lambda p: p[0],
        ):
            if offset + life.size <= other_offset:
                break
            offset = max(offset, other_offset + other.size)
        placed.append((offset, life))
        total = max(total, offset + life.size)
    return MemoryPlan({life.value: offset for offset, life in placed}, total)
