"""What of a pad's border is filled: as much of it as the tiles that read it reach.

Of a convolution whose taps are far apart, most rounds over its padding are left out (`skips`), and
with an image that is smaller than they are apart, nearly all of the border is read by nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from minicc.ir import affine, affine_facts
from minicc.ir.affine import Dim
from minicc.ir.core import Function, Value, walk_control
from minicc.ir.graph.shapes import Shape
from minicc.ir.index_maps import Map
from minicc.ir.structured import Generic, Group, Pad
from minicc.passes.structured.skips import reach_of

_FEW = 2  # rows that are filled sooner than it is found out that they need not be


def readers_of(function: Function) -> dict[Value, list[Group]]:
    """The groups that read each padded value, of those values that nothing else reads."""
    ops = walk_control(function.body)
    readers: dict[Value, list[Group]] = {op.result: [] for op in ops if isinstance(op, Pad)}
    for region in (function.body, *[region for op in ops if op.control for region in op.regions]):
        for v in region.yields:
            readers.pop(v, None)
    for op in ops:
        for v in op.operands:
            if isinstance(op, Group) and v in readers:
                readers[v].append(op)
            else:
                readers.pop(v, None)
    return readers


def border(op: Pad, readers: Sequence[Group] | None) -> list[tuple[Shape, Shape]]:
    """The boxes (start, extents) around a pad's inside that are read, by groups that are known."""
    edges = [_edges(op, readers, axis) for axis in range(len(op.low))]
    return around(op.low, op.x.type.shape, edges)


def around(
    low: Shape, inside: Shape, edges: Sequence[tuple[Dim, Dim]]
) -> list[tuple[Shape, Shape]]:
    """The boxes (start, extents) around one at `low`, so far before and after it as `edges` say.

    Axes before the one along which a box lies inside, those after it with their edges.
    """
    first = [at - before for at, (before, _) in zip(low, edges, strict=True)]
    whole = [sum(pair, extent) for extent, pair in zip(inside, edges, strict=True)]
    boxes: list[tuple[Shape, Shape]] = []
    for axis, (before, after) in enumerate(edges):
        for start, count in ((first[axis], before), (low[axis] + inside[axis], after)):
            extents = (*inside[:axis], count, *whole[axis + 1 :])
            if 0 not in extents:
                boxes.append(((*low[:axis], start, *first[axis + 1 :]), extents))
    return boxes


def _edges(op: Pad, readers: Sequence[Group] | None, axis: int) -> tuple[Dim, Dim]:
    """How much is read of an axis's padding before its inside and after it."""
    low, high = op.low[axis], op.high[axis]
    if readers is None or low == high == 0:
        return low, high
    beyond: Dim = 0
    for reader, at in _accesses(op.result, readers):
        found = reach_of(reader, at[axis])
        if found is None or found[:2] != (low, low + op.x.type.shape[axis]):
            return low, high
        beyond = affine_facts.larger(beyond, found[2])
    return _as_far(low, beyond), _as_far(high, beyond)


def _as_far(edge: Dim, beyond: Dim) -> Dim:
    """So much of a padding's edge as is read beyond the inside."""
    if isinstance(edge, int) and edge <= _FEW and not isinstance(beyond, int):
        return edge
    return affine.minimum(edge, beyond)


def _accesses(value: Value, readers: Sequence[Group]) -> Iterator[tuple[Generic, Map]]:
    """Where the ops of groups read a tensor."""
    for group in readers:
        args = [a for v, a in zip(group.operands, group.body.args, strict=True) if v is value]
        for op in group.body.ops:
            assert isinstance(op, Generic)
            for v, at in zip(op.operands, op.input_maps, strict=True):
                if v in args:
                    yield op, at
