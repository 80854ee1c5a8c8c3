"""Have loops go back and forth over what is more than the second cache holds.

Each round of a recurrent layer reads all of its weights. From the first to the last each time, a
cache that holds a little less than all of them has none when it is read again. From the last to the
first in every other round, each thread finds what it has just read. Instances are independent, so
no bit of a result changes.
"""

from __future__ import annotations

from collections.abc import Mapping

from minicc.ir import affine, program
from minicc.ir.core import Function, Op, Region, Value
from minicc.ir.types import buffer_bytes
from minicc.target import Target

_FEWEST = 4  # instances along the shared axis, so that what is read last is a small part


def back_and_forth(
    region: Region, kernels: Mapping[str, Function], root: Mapping[Value, Value], target: Target
) -> Region:
    """The region with `zigzag` at launches of its loops; `root` is as of `program.roots`.

    They stand in a loop of which each round reads more than half of what a second cache holds, in
    buffers that no round writes, and read some of that themselves.
    """
    ops: list[Op] = []
    for op in region.ops:
        if op.regions:
            op = op.with_regions([back_and_forth(r, kernels, root, target) for r in op.regions])
        if isinstance(op, program.Loop):
            op = _turned(op, kernels, root, target)
        ops.append(op)
    return Region(region.args, ops, region.yields)


def _turned(
    loop: program.Loop,
    kernels: Mapping[str, Function],
    root: Mapping[Value, Value],
    target: Target,
) -> Op:
    written = {root[v] for op in program.launches(loop.body) for v in op.buffers[op.outputs :]}
    made = {v for op in loop.body.ops for v in op.results}  # a part of a buffer for each round
    direct = [op for op in loop.body.ops if isinstance(op, program.Launch)]
    kept = {
        op: {v for v in op.buffers[: op.outputs] if v not in made and root[v] not in written}
        for op in direct
    }
    read = {v for values in kept.values() for v in values}
    size = sum(affine.typical(buffer_bytes(v.type)) for v in read)
    if size <= target.l2 // 2:
        return loop

    def turns(op: program.Launch) -> bool:
        if len(op.split) != 1 or not kept[op]:
            return False
        extent = kernels[op.kernel].attrs["grid"][op.split[0]]
        return isinstance(extent, int) and extent >= _FEWEST

    ops = [
        op.rebuilt(op.operands, zigzag=True) if isinstance(op, program.Launch) and turns(op) else op
        for op in loop.body.ops
    ]
    return loop.with_regions([Region(loop.body.args, ops, loop.body.yields)])
