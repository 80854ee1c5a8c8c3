"""Evaluate ops whose operands are all constants, with the op's own reference semantics.

    %w2 = graph.mul %w, %s (both constant)   -->   %w2 = graph.constant

A result much larger than its operands (a broadcast, an iota) is left to be computed where it is
used, but for weights that an algorithm wants larger.

Mirrors: XLA's constant folding with its evaluator, Relax's FoldConstant, ORT's constant folding.
Theirs run between other graph passes, as ours does. Unlike ORT's, it runs no kernels: the
definition of an op evaluates it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minicc.ir import graph
from minicc.ir.core import Array, Function, Literal, Module, Op, Region, Value
from minicc.ir.indices import OutOfRange
from minicc.ir.mapped import let_go
from minicc.ir.rewrite import Rebuilder, everywhere, rebuild
from minicc.ir.types import OPAQUE, is_free

_GROWTH = 4096  # elements that a result may have more than its operands


def fold_constants(module: Module) -> Module:
    """Fold in every function."""
    return Module(module.level, [everywhere(f, _fold) for f in module.functions])


def _fold(function: Function) -> Function:
    known: dict[Value, Array] = {}

    def visit(b: Rebuilder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        if isinstance(op, graph.Constant):
            result = b.add(op).result
            known[result] = op.value.array
            return (result,)
        if not op.pure or op.regions or not operands or any(v not in known for v in operands):
            return None
        arrays = [known[v] for v in operands]
        if any(is_free(r.type.shape) or r.type.dtype is OPAQUE for r in op.results):
            return None
        grown = sum(int(np.prod(r.type.shape)) for r in op.results) - sum(a.size for a in arrays)
        if grown > _GROWTH and not isinstance(op, graph.WinogradWeights):
            return None
        try:
            results = op.rebuilt(operands).evaluate(_no_region, *arrays)
        except OutOfRange:
            return None  # the op stays, and the run tells
        for array in arrays:
            let_go(array)
        values: list[Value] = []
        for array in results:
            value = b.emit(graph.Constant, value=Literal(np.asarray(array)))
            known[value] = np.asarray(array)
            values.append(value)
        return values

    return rebuild(function, visit)


def _no_region(region: Region, args: Sequence[Any]) -> tuple[Any, ...]:
    raise AssertionError("an op without regions asked for one")
