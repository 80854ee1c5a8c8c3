"""Tensors whose planes are laid a line apart, as places in many of them are used at once.

A first cache holds few lines whose addresses are alike in their last bits. Where planes lie whole
or half pages apart, what one point of Winograd's transforms writes, an element of each of 36
planes, drives itself out: such a transform of an image of 64 x 64 took five times as long as one
of 60 x 60.

    f32[36,256,32]   strides [8192, 32, 1]  -->  [8208, 32, 1]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd

from minicc.ir import affine
from minicc.ir.affine import Dim
from minicc.ir.core import Op, Region, Value
from minicc.ir.index_maps import Map
from minicc.ir.structured import Generic, Group, Reshape
from minicc.ir.types import dense_strides

_WAYS = 8  # lines with such addresses that a first cache holds, at least
_PAGE, _LINE = 4096, 64  # bytes


def spread_in(region: Region) -> set[Value]:
    """The tensors of a region whose planes are better apart; groups alone make and read them."""
    users: dict[Value, list[Op]] = {}
    for op in region.ops:
        for v in op.operands:
            users.setdefault(v, []).append(op)
    made = [(op, v) for op in region.ops if isinstance(op, Group) for v in op.results]
    ends = {*region.yields}
    return {v for op, v in made if v not in ends and _is_spread(v, op, users, ends)}


def spread_strides(shape: Sequence[Dim], bits: int) -> tuple[Dim, ...]:
    """Strides of a tensor whose planes lie a line further apart than one after the other."""
    first, *others = dense_strides(tuple(shape))
    return (affine.add(first, _LINE * 8 // bits), *others)


def strides_through(op: Reshape, strides: Sequence[Dim]) -> tuple[Dim, ...]:
    """The strides of what a reshape gives, of an operand that is dense, or is so within planes."""
    dense = dense_strides(op.result.type.shape)
    if tuple(strides) == dense_strides(op.x.type.shape):
        return dense
    return (strides[0], *dense[1:])


def _is_spread(v: Value, maker: Op, users: Mapping[Value, list[Op]], ends: set[Value]) -> bool:
    """Whether planes of a tensor may lie pages apart, and some op is in many of them at once."""
    shape = v.type.shape
    if len(shape) < 2 or not isinstance(shape[0], int) or 0 in shape:
        return False
    pitch = dense_strides(shape)[0]
    alike = _PAGE if not isinstance(pitch, int) else gcd(pitch * v.type.dtype.bits // 8, _PAGE)
    if shape[0] * alike <= _WAYS * _PAGE:  # so many of the planes begin in each set
        return False
    at_once = 0
    for value, op in [(v, maker), *_uses(v, users)]:
        if isinstance(op, Reshape) and op.result.type.shape[:1] == shape[:1]:
            if op.result in ends:
                return False
            continue
        if not isinstance(op, Group):
            return False
        for maps in _maps_of(value, op):
            first = {m[0] for m in maps}
            if not all(isinstance(e, int) or e.is_atom() for e in first):
                return False  # planes are counted together with what is in them
            at_once = max(at_once, len(first))
    return at_once > _WAYS


def _uses(v: Value, users: Mapping[Value, list[Op]]) -> Iterator[tuple[Value, Op]]:
    """What reads a value, as it is or in another shape."""
    waiting = [v]
    while waiting:
        value = waiting.pop()
        for op in users.get(value, ()):
            yield value, op
            if isinstance(op, Reshape):
                waiting.append(op.result)


def _maps_of(v: Value, group: Group) -> Iterator[list[Map]]:
    """The maps by which each op of a group makes or reads a value."""
    inside = {a for a, o in zip(group.body.args, group.operands, strict=True) if o is v}
    inside |= {y for y, r in zip(group.body.yields, group.results, strict=True) if r is v}
    for op in group.body.ops:
        if not isinstance(op, Generic):
            continue
        pairs = zip(op.operands, op.input_maps, strict=True)
        yield [m for operand, m in pairs if operand in inside]
        for k, result in enumerate(op.results):
            yield list(op.maps_of(k)) if result in inside else []
