"""Large tensors that are rather computed where they are read, though that is at several places.

Elementwise ops read them around each point, as stencils do, or a few reductions all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from minicc.ir import affine
from minicc.ir.affine_facts import bends
from minicc.ir.core import Op, Value
from minicc.ir.index_maps import Map, names_of, plain_names
from minicc.ir.space import REDUCTION, Space
from minicc.ir.structured import Generic

_PLACES = 4  # around a point, or ops, at which such a tensor is read
_NEAR = 1 << 17  # bytes that the nearer caches hold beside all else

Readers = Mapping[Value, Sequence[Op]]  # of what no function yields


def is_around(value: Value, readers: Readers) -> bool:
    """Whether elementwise ops alone read a large tensor, some times around each point.

    So that what they make of it comes together again in one op.
    """
    ops = [op for op in readers[value] if isinstance(op, Generic) and _is_elementwise(op)]
    if len(ops) < len(readers[value]):
        return False
    maps = [list(dict.fromkeys(reads_of(op, value))) for op in ops]
    places = {_of_result(op, m) for op, ms in zip(ops, maps, strict=True) for m in ms}
    pairs = ((m, n) for m, *more in maps for n in more)
    shifts = (
        affine.add(a, affine.multiply(b, -1)) for m, n in pairs for a, b in zip(m, n, strict=True)
    )
    points = prod(map(affine.typical, value.type.shape))
    return (
        (max(map(len, maps)) > 1 or (len(places) > 1 and _meet(ops, readers)))
        and sum(map(len, maps)) <= _PLACES
        and all(isinstance(shift, int) for shift in shifts)
        and not any(bends(m, n) for ms in maps for m in ms for n in names_of(m))
        and points * value.type.dtype.bytes > _NEAR
        and all(2 * points_of(op.space) > points for op in ops)
    )


def _of_result(op: Generic, m: Map) -> Map:
    """A map of an op with its dimensions named by the axes of the result that they index."""
    names = plain_names(op.yield_maps[0]) or ()
    axes = {name: affine.symbol(f"#{axis}") for axis, name in enumerate(names)}
    return tuple(affine.substitute(e, axes) for e in m)


def is_reduced(value: Value, readers: Readers) -> bool:
    """Whether a few reductions alone read a tensor, each once over rows that no near cache holds.

    Elementwise ops may stand between. What is made of it is one pass over what it is made of then.
    """
    if not 1 < len(readers[value]) <= _PLACES:
        return False
    whole = prod(map(affine.typical, value.type.shape))
    rows: set[int] = set()
    for op in readers[value]:
        last = _reduction_after(op, readers)
        if last is None or op.operands.count(value) != 1 or points_of(last.space) != whole:
            return False
        rows.add(prod(affine.typical(it.extent) for it in last.space.of_kind(REDUCTION)))
    return len(rows) == 1 and min(rows) * value.type.dtype.bytes > _NEAR


def _reduction_after(op: Op, readers: Readers) -> Generic | None:
    """The reduction in which an op ends through elementwise ops that nothing else reads."""
    while isinstance(op, Generic) and _is_elementwise(op):
        following = readers.get(op.results[0], ())
        if len(following) != 1:
            return None
        op = following[0]
    return op if isinstance(op, Generic) and None not in op.combine else None


def _is_elementwise(op: Generic) -> bool:
    return op.combine == (None,) and not op.indices and not op.into


def _meet(ops: Sequence[Op], readers: Readers) -> bool:
    """Whether results of some of these become operands of one op, through elementwise ops."""
    found: set[Op] = set()
    for start in ops:
        op: Op | None = start
        while op is not None:
            if op in found:
                return True
            found.add(op)
            following = readers.get(op.results[0], ())
            only = following[0] if len(following) == 1 else None
            op = only if isinstance(only, Generic) and _is_elementwise(only) else None
    return False


def reads_of(op: Generic, value: Value) -> list[Map]:
    """The maps by which an op reads a value."""
    return [m for v, m in zip(op.operands, op.input_maps, strict=True) if v is value]


def points_of(space: Space) -> int:
    """How many points a space has, about."""
    return prod(space.typical.values())
