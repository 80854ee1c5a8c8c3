"""Evaluate ops whose operands are all constants, with the op's own reference semantics.

    %w2 = graph.mul %w, %s (both constant)   -->   %w2 = graph.constant

A result much larger than its operands (a broadcast, an iota) is left to be computed where it is
used, but for weights that an algorithm wants larger. A large result is computed when its array is
asked for, together with what is folded of it later on.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from minicc.errors import UserError
from minicc.ir import graph
from minicc.ir.bind import sizes_in
from minicc.ir.core import Function, Literal, Module, Op, Region, Value, computed
from minicc.ir.indices import OutOfRange
from minicc.ir.mapped import let_go
from minicc.ir.rewrite import Rebuilder, everywhere, rebuild
from minicc.ir.types import OPAQUE, is_free

_GROWTH = 4096  # elements that a result may have more than its operands
_MOST = 1 << 30  # elements of which something is computed here
_LATE = 1 << 16  # bytes of a result that is computed when it is asked for
# what no element of an operand can fail
_CERTAIN = (
    graph.Broadcast,
    graph.Concat,
    graph.Elementwise,
    graph.Pad,
    graph.Reshape,
    graph.Slice,
    graph.Transpose,
    graph.WinogradWeights,
)


def fold_constants(module: Module) -> Module:
    """Fold in every function."""
    return Module(module.level, [everywhere(f, _fold) for f in module.functions])


def _fold(function: Function) -> Function:
    known: dict[Value, Literal] = {}

    def visit(b: Rebuilder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        if isinstance(op, graph.Constant):
            result = b.add(op).result
            known[result] = op.value
            return (result,)
        if any(new.type != old.type for new, old in zip(operands, op.operands, strict=True)):
            op = _retyped(op, operands)
        if not op.pure or op.regions or not operands or any(v not in known for v in operands):
            return None
        if any(is_free(r.type.shape) or r.type.dtype is OPAQUE for r in op.results):
            return None
        if sizes_in(op):
            return None  # a slice of a known extent, at a place that is not
        given = _elements(operands)
        grown = _elements(op.results) - given
        if given > _MOST:
            return None  # no file holds so many: they are one number, and take an hour to look at
        if grown > _GROWTH and not isinstance(op, graph.WinogradWeights):
            return None
        try:
            literals = evaluated(op.rebuilt(operands), [known[v] for v in operands])
        except OutOfRange:
            return None  # the op stays, and the run tells
        values = [b.emit(graph.Constant, value=literal) for literal in literals]
        known.update(zip(values, literals, strict=True))
        return values

    return rebuild(function, visit)


def _retyped(op: Op, operands: Sequence[Value]) -> Op:
    """An op on values whose sizes data decided, now that these are known; MC0142 if it has none."""
    try:
        return op.rebuilt(operands)
    except (TypeError, ValueError, IndexError) as error:
        text = f"the sizes that constants decide do not fit the model: {op.opname}: {error}"
        raise UserError("MC0142", text, where=op.loc) from None


def _elements(values: Sequence[Value]) -> int:
    return sum(prod(v.type.extents) for v in values)


def evaluated(op: Op, operands: Sequence[Literal]) -> list[Literal]:
    """The results of a pure op of static shapes for literals.

    OutOfRange as its `evaluate` raises it.
    """
    if isinstance(op, _CERTAIN) and op.result.type.nbytes >= _LATE:
        return [computed(op, operands, _no_region)]
    arrays = [literal.array for literal in operands]
    results = op.evaluate(_no_region, *arrays)
    for array in arrays:
        let_go(array)
    return [Literal(np.asarray(array)) for array in results]


def _no_region(region: Region, args: Sequence[Any]) -> tuple[Any, ...]:
    raise AssertionError("an op without regions asked for one")
