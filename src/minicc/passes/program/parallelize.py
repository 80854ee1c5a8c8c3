"""Make the program SPMD.

Choose the axis along which threads share each launch, and put barriers between launches.

The axis is the one whose extent falls into the most even shares; a launch that is too small to
share is left to thread 0. A barrier stands before a launch that touches memory which another
thread may have written, or may still read, since the last barrier. Shares change who computes,
never what: results don't depend on the number of threads.

Mirrors: IREE's workgroup distribution, OpenMP's static schedules, XLA:CPU's parallel task
assignment. IREE and XLA hand tasks to a pool; ours gives each thread a fixed share, with barriers
where data crosses shares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from minicc.ir import program
from minicc.ir.core import Module, Op, Region, Value
from minicc.passes.program.plan_memory import buffer_bytes, roots

_SMALL = 16384  # points of a launch below which a barrier costs more than the second thread saves


class Access(NamedTuple):
    """Memory that a launch touches.

    Which memory (None is the arena), bytes from and to, and whether it writes.
    """

    memory: Value | None
    start: int
    stop: int
    writes: bool

    def conflicts(self, other: Access) -> bool:
        """Whether the two must not be reordered."""
        return (
            (self.writes or other.writes)
            and self.memory is other.memory
            and self.start < other.stop
            and other.start < self.stop
        )


def parallelize(module: Module) -> Module:
    """Choose the split of each launch, and insert barriers."""
    main = module.main
    grids = {f.name: f.attrs["grid"] for f in module.functions if f is not main}
    offsets = {op.result: op for op in main.body.ops if isinstance(op, program.Alloc)}
    body, _ = _Sharing(grids, roots(main), offsets).region(main.body, {})
    return Module(
        module.level, [main.with_body(body) if f is main else f for f in module.functions]
    )


Open = dict[tuple[Access, bool], None]


class _Sharing:
    """Walks a program with what was touched since the last barrier, and whether by thread 0 alone.

    What the end of a loop's body leaves open is open at its beginning, too: the body is looked at
    again until that adds nothing.
    """

    def __init__(
        self,
        grids: Mapping[str, tuple[int, ...]],
        root: Mapping[Value, Value],
        offsets: Mapping[Value, program.Alloc],
    ) -> None:
        self.grids = grids
        self.root = root
        self.offsets = offsets

    def region(self, region: Region, entered: Open) -> tuple[Region, Open]:
        """The region with shares and barriers, and what is open behind it."""
        ops: list[Op] = []
        touched = dict(entered)
        for op in region.ops:
            if isinstance(op, program.Loop):
                body, touched = self.loop(op, touched)
                ops.append(op.with_regions([body]))
                continue
            if isinstance(op, program.Launch):
                split = choose_split(self.grids[op.kernel], op.work)
                accesses = list(_accesses(op, self.root, self.offsets))
                if any(
                    a.conflicts(b) and not (alone and split < 0)
                    for a in accesses
                    for b, alone in touched
                ):
                    ops.append(program.Barrier(loc=op.loc))
                    touched = {}
                touched.update(((a, split < 0), None) for a in accesses)
                op = op.rebuilt(op.operands, split=split)
            ops.append(op)
        return Region(region.args, ops, region.yields), touched

    def loop(self, op: program.Loop, entered: Open) -> tuple[Region, Open]:
        """A loop's body for any round; behind it is open what some round leaves, or none ran."""
        before = entered
        while True:
            body, left = self.region(op.body, before)
            if left.keys() <= before.keys():
                return body, left if isinstance(op.count, int) and op.count else before
            before = {**before, **left}


def choose_split(grid: tuple[int, ...], work: int) -> int:
    """The axis with the most even shares for two and four threads.

    Or -1 where sharing does not pay.
    """
    if work < _SMALL or not grid:
        return -1

    def evenness(extent: int) -> float:
        return sum(extent / (n * -(-extent // n)) for n in (2, 4))

    best = max(range(len(grid)), key=lambda axis: (round(evenness(grid[axis]), 2), grid[axis]))
    return best if grid[best] > 1 else -1


def _accesses(
    op: program.Launch, root: Mapping[Value, Value], offsets: Mapping[Value, program.Alloc]
) -> Iterable[Access]:
    for k, v in enumerate(op.buffers):
        memory = root[v]
        alloc = offsets.get(memory)
        writes = k >= op.outputs
        if alloc is None:
            yield Access(memory, 0, 1, writes)
        else:
            yield Access(None, alloc.offset, alloc.offset + buffer_bytes(alloc.type), writes)
