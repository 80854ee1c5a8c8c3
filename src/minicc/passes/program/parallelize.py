"""Make the program parallel.

Choose the axis along which threads share each launch, and put barriers between launches.

The axis is the one whose extent falls into the most even shares; a launch that is too small to
share is left to the caller. A barrier stands before a launch that touches memory which another
thread may have written, or may still read, since the last barrier. Who computes an instance never
changes its bits: results don't depend on the number of threads.

Mirrors: IREE's workgroup distribution, OpenMP's loop schedules, XLA:CPU's parallel task assignment.
IREE and XLA hand tasks to a pool; ours shares each launch, and waits where data crosses shares.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from minicc.ir import affine, program
from minicc.ir.affine import Dim
from minicc.ir.core import Module, Op, Region, Value
from minicc.ir.types import buffer_bytes
from minicc.passes.program.plan_memory import roots

_SMALL = 16384  # points of a launch below which a barrier costs more than the second thread saves


class Access(NamedTuple):
    """Memory that a launch touches.

    Which memory (None is the arena, an expression the slot of it that begins there), bytes from and
    to, and whether it writes.
    """

    memory: Value | Dim | None
    start: int
    stop: int
    writes: bool

    def conflicts(self, other: Access) -> bool:
        """Whether the two must not be reordered."""
        return (
            (self.writes or other.writes)
            and self.memory == other.memory
            and self.start < other.stop
            and other.start < self.stop
        )


def parallelize(module: Module) -> Module:
    """Choose the split of each launch, and insert barriers."""
    main = module.main
    grids = {f.name: f.attrs["grid"] for f in module.functions if f is not main}
    root = roots(main)
    offsets = {op.result: op for op in main.body.ops if isinstance(op, program.Alloc)}
    ops: list[Op] = []
    open_accesses: list[tuple[Access, bool]] = []
    for op in main.body.ops:
        if not isinstance(op, program.Launch):
            ops.append(op)
            continue
        split = choose_split(grids[op.kernel], op.work)
        accesses = list(_accesses(op, root, offsets))
        if any(
            a.conflicts(b) and not (alone and split < 0)
            for a in accesses
            for b, alone in open_accesses
        ):
            ops.append(program.Barrier(loc=op.loc))
            open_accesses = []
        ops.append(op.rebuilt(op.operands, split=split))
        open_accesses += [(a, split < 0) for a in accesses]
    body = Region(main.args, ops, main.body.yields)
    return Module(
        module.level, [main.with_body(body) if f is main else f for f in module.functions]
    )


def choose_split(grid: tuple[Dim, ...], work: Dim) -> int:
    """The axis with the most even shares for two and four threads.

    Or -1 where sharing does not pay.
    """
    # of free sizes how much work there is, is looked at when the launch is handed out
    if not grid or (isinstance(work, int) and work < _SMALL):
        return -1
    extents = [affine.typical(n) for n in grid]

    def evenness(extent: int) -> float:
        return sum(extent / (n * -(-extent // n)) for n in (2, 4))

    best = max(range(len(grid)), key=lambda a: (round(evenness(extents[a]), 2), extents[a]))
    return best if extents[best] > 1 else -1


def _accesses(
    op: program.Launch, root: dict[Value, Value], offsets: dict[Value, program.Alloc]
) -> Iterable[Access]:
    for k, v in enumerate(op.buffers):
        memory = root[v]
        alloc = offsets.get(memory)
        writes = k >= op.outputs
        if alloc is None:
            yield Access(memory, 0, 1, writes)
            continue
        size = buffer_bytes(alloc.type)
        if isinstance(size, int) and isinstance(alloc.offset, int):
            yield Access(None, alloc.offset, alloc.offset + size, writes)
        else:
            yield Access(alloc.offset, 0, 1, writes)
