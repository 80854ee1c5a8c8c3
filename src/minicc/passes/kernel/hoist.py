"""Move what does not change in a loop in front of it.

    for i { %c = load %b[0]; ... }   -->   %c = load %b[0]; for i { ... }

Pure ops move when their operands come from outside; loads also want a loop that stores nothing and
that runs at least once, as `kernel.for` does and `kernel.range` may not.
"""

from __future__ import annotations

from collections.abc import Mapping

from minicc.ir import kernel
from minicc.ir.core import Function, Op, Region, Value, walk


def hoist(function: Function) -> Function:
    """One kernel with its loops' invariant ops moved out, innermost loops first."""
    forward: dict[Value, Value] = {}
    return function.with_body(_region(function.body, forward))


def _region(region: Region, forward: dict[Value, Value]) -> Region:
    out: list[Op] = []
    for op in region.ops:
        operands = [forward.get(v, v) for v in op.operands]
        if isinstance(op, kernel.For | kernel.Range):
            body = _region(op.body, forward)
            moved, kept = split(body, isinstance(op, kernel.For))
            out += moved
            fresh: Op = op.rebuilt(operands, (Region(body.args, kept, body.yields),))
        elif all(a is b for a, b in zip(operands, op.operands, strict=True)):
            fresh = op
        else:
            fresh = op.rebuilt(operands)
        out.append(fresh)
        forward.update(_renamed(op, fresh))
    return Region(region.args, out, [forward.get(v, v) for v in region.yields])


def _renamed(op: Op, fresh: Op) -> Mapping[Value, Value]:
    return {} if op is fresh else dict(zip(op.results, fresh.results, strict=True))


def split(body: Region, runs: bool = True) -> tuple[list[Op], list[Op]]:
    """The ops of a loop's body that can go in front of it, and those that stay.

    Of a loop that may have no rounds, loads stay: their memory may not be there.
    """
    inside = set(body.args)
    stores = not runs or any(isinstance(op, kernel.Store) for op in walk(body))
    moved: list[Op] = []
    kept: list[Op] = []
    for op in body.ops:
        stays = (
            not op.pure
            or bool(op.regions)
            or any(v in inside for v in op.operands)
            or (stores and isinstance(op, kernel.Load))
        )
        (kept if stays else moved).append(op)
        if stays:
            inside.update(op.results)
    return moved, kept
