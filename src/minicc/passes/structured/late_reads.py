"""Reads of an old tensor after a part of it was replaced, from the tensor that this has made.

    %y = insert_slice %x, %new {starts = [$i]};  %z = group %x      // which reads %x at $i - 1
        -->   %y = insert_slice %x, %new {starts = [$i]};  %z = group %y

What is read is the same, and nobody reads the old tensor any more, so the part may be written
where that lies (`in_place`). A read comes after a write as it is fused into a later group. For
MLIR's One-Shot Bufferize, too, subsets that do not overlap are no conflict of a read and a write.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from minicc.ir.affine import Dim
from minicc.ir.core import Function, Op, Region, Value
from minicc.ir.structured import Generic, Group, InsertSlice, Scan, Sized
from minicc.passes.structured.in_place import misses

Rounds = Mapping[str, Dim]


def read_late(function: Function) -> Function:
    """The function with such reads moved, in the bodies of its loops, too."""
    return function.with_body(_region(function.body, MappingProxyType({})))


def _region(region: Region, rounds: Rounds) -> Region:
    now: dict[Value, Value] = {}
    writes: dict[Value, InsertSlice] = {}  # the last into each tensor
    ops: list[Op] = []
    for op in region.ops:
        made, within = op, rounds
        if isinstance(op, Scan | Sized) and op.index:
            within = {**rounds, op.index: op.count}
        if op.control:
            made = op.with_regions([_region(inner, within) for inner in op.regions])
        operands = [now.get(v, v) for v in op.operands]
        if isinstance(op, Group):
            operands = [_latest(op, k, v, operands, writes, rounds) for k, v in enumerate(operands)]
        if operands != [*op.operands]:
            made = made.rebuilt(operands)
        now.update(zip(op.results, made.results, strict=True))
        if isinstance(made, InsertSlice):
            writes[made.x] = made
        ops.append(made)
    return Region(region.args, ops, [now.get(v, v) for v in region.yields])


def _latest(
    group: Group,
    number: int,
    v: Value,
    operands: list[Value],
    writes: Mapping[Value, InsertSlice],
    rounds: Rounds,
) -> Value:
    """The last tensor made of an operand that holds the same where a group reads it."""
    arg = group.body.args[number]
    readers = [op for op in group.body.ops if arg in op.operands]
    reads = [(g, m) for g in readers if isinstance(g, Generic)
             for x, m in zip(g.operands, g.maps, strict=False) if x is arg]  # fmt: skip
    if arg in group.body.yields or not all(isinstance(g, Generic) for g in readers):
        return v
    while (write := writes.get(v)) is not None and write.result not in operands:
        if not all(misses(g, m, write, rounds) for g, m in reads):
            break
        v = write.result
    return v
