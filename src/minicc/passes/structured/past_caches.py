"""Results that are written past the caches: those of a group that moves more than the last holds.

When such a group has run, no cache has what it wrote first, and whoever reads that next reads
memory. A nontemporal store then spares that a line is read before it is written.
"""

from __future__ import annotations

from math import prod

from minicc.ir.core import Value
from minicc.ir.structured import Generic, Group
from minicc.target import Target


def results_past_caches(group: Group, target: Target) -> tuple[int, ...]:
    """The places of a group's results that are written past the caches; none where sizes are free.

    They are larger than a second cache.
    """
    ops = [op for op in group.body.ops if isinstance(op, Generic)]
    sizes = [n for v in group.body.yields for n in v.type.shape]
    if not all(isinstance(n, int) for n in sizes) or not all(op.space.static for op in ops):
        return ()
    moved = {v: _bytes(v) for v in group.body.yields}
    written = dict(moved)
    for op in ops:
        points = prod(op.space.extents.values())
        for v in op.operands:
            if v in group.body.args:  # a part of it may be all that is read, as where data say
                read = points * v.type.dtype.bytes
                if all(isinstance(n, int) for n in v.type.shape):
                    read = min(read, _bytes(v))
                moved[v] = max(moved.get(v, 0), read)
    if sum(moved.values()) <= target.l3:
        return ()
    return tuple([k for k in read_by_others(group) if written[group.body.yields[k]] > target.l2])


def read_by_others(group: Group) -> list[int]:
    """The places of a group's results that no op of the group reads again."""
    read = {v for op in group.body.ops for v in op.operands}
    return [k for k, v in enumerate(group.body.yields) if v not in read]


def _bytes(v: Value) -> int:
    size: int = prod(v.type.shape) * v.type.dtype.bytes
    return size
