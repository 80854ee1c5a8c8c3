"""Gradients of graphs: reverse-mode differentiation, with a rule for each op.

The ops are gone through from the last to the first, and each hands on to its operands what came to
its result. Rules are functions of the op, of what came and of the operand's number. Integers and
truth values have no derivative; what is computed of a float through them counts as constant.
"""

from __future__ import annotations

from collections.abc import Sequence

from minicc.ir import graph
from minicc.ir.build import Builder
from minicc.ir.core import Op, Value
from minicc.library.gradient_elements import (
    ELEMENTS,
    NoDerivativeError,
    number,
    summed_to,
)
from minicc.library.gradient_tensors import TENSORS, zeros
from minicc.library.gradient_windows import WINDOWS

RULES = {**ELEMENTS, **TENSORS, **WINDOWS}
# Functions that are constant between their steps.
STEPS = (graph.Floor, graph.Ceil, graph.Round, graph.FloorDiv)


def gradients(b: Builder, ops: Sequence[Op], y: Value, xs: Sequence[Value]) -> list[Value]:
    """The derivatives of the sum of all elements of `y` by each of `xs`, of which `ops` make it.

    NoDerivativeError where an op between them has no rule.
    """
    active = _dependent(ops, xs)
    found = {y: b.emit(graph.Broadcast, number(b, 1, y), shape=y.type.shape)}
    for op in reversed(ops):
        came = next((found[r] for r in op.results if r in found), None)
        if came is None or active.isdisjoint(op.results):
            continue
        rule = RULES.get(type(op))
        if rule is None:
            raise NoDerivativeError(op)
        for k, x in enumerate(op.operands):
            part = rule(b, op, came, k) if x in active else None
            if part is None:
                continue
            if isinstance(op, graph.Elementwise):
                part = summed_to(b, part, x.type.shape)
            if part.type.shape != x.type.shape:
                part = b.emit(graph.Reshape, part, shape=x.type.shape)
            found[x] = b.emit(graph.Add, found[x], part) if x in found else part
    return [found[x] if x in found else zeros(b, x, x.type.shape) for x in xs]


def _dependent(ops: Sequence[Op], xs: Sequence[Value]) -> set[Value]:
    """The values that change with `xs`, and not in steps."""
    found = set(xs)
    for op in ops:
        if not found.isdisjoint(op.operands) and not isinstance(op, STEPS):
            found.update(r for r in op.results if r.type.dtype.kind not in "iub")
    return found
