"""What is surely computed: where an index out of bounds must raise, nothing may leave it out.

Passes leave out what nothing is made of, and more than that: the parts of a concatenation that a
slice does not reach, and what an array held before all of it is written over. An op that may do
without an operand in such a way does not count as needing it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from minicc.ir import graph
from minicc.ir.core import Op, Value
from minicc.ir.rewrite import used_by

_BETWEEN = (graph.Elementwise, graph.Reshape, graph.Transpose, graph.Broadcast, graph.Slice)


def lost(ops: Sequence[Op], wanted: Iterable[Value], unsure: Set[Value]) -> list[Value]:
    """The unsure values that ops may do without when they compute what is wanted, in order.

    Of those that others of them need it is these alone.
    """
    makers = {v: op for op in ops for v in op.results}
    joined: set[Value] = set()
    for op in ops:
        if isinstance(op, graph.Concat) or (
            isinstance(op, _BETWEEN) and not joined.isdisjoint(op.operands)
        ):
            joined.update(op.results)
    needed, found = set(wanted), list[Value]()
    for op in reversed(ops):
        alone = [v for v in op.results if v in unsure and v not in needed]
        found += alone[::-1]
        if op.pure and not alone and needed.isdisjoint(op.results):
            continue
        loose = _loose(op, makers, joined)
        needed.update(v for v in op.operands if v not in loose)
        for region in op.regions:
            needed |= used_by(region)
    return found[::-1]


def _loose(op: Op, makers: Mapping[Value, Op], joined: set[Value]) -> set[Value]:
    """The operands of an op of which it may need only parts, or nothing."""
    if isinstance(op, graph.Slice):
        return joined.intersection(op.operands)
    if isinstance(op, graph.InsertSlice) and not isinstance(makers.get(op.x), graph.InsertSlice):
        return set()
    return {*op.operands} - _read(op)


def _read(op: Op) -> set[Value]:
    """What an op reads, but arrays of which it may have no element left."""
    if isinstance(op, graph.InsertSlice):
        return {op.new}
    if not isinstance(op, (graph.Scan, graph.While)):
        return {*op.operands}
    inside = set(op.body.yields).union(*map(_read, op.body.ops))
    pairs = zip(op.operands, op.body.args, strict=True)
    return {v for v, arg in pairs if arg in inside}
