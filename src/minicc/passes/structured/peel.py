"""The first and the last round of a loop run apart, where that spares copies of its states.

    %r = structured.scan %u {count = 10, states = 1, ...} { ... }         // %u is an argument
        -->   %a = group %u;  %b = structured.scan %a {count = 8, ...};  %r = group %b

States lie in memory of the loop's own. What the first round reads may lie elsewhere, as a caller's
array does, and would be copied there; so would be what the last round leaves from there to an
output. The groups are those of the other rounds, and so are their kernels.
"""

from __future__ import annotations

from collections.abc import Sequence

from minicc.ir import affine
from minicc.ir.bind import sizes_in
from minicc.ir.core import Function, Module, Op, Value
from minicc.ir.graph.shapes import product
from minicc.ir.rewrite import Rebuilder, inline, rebuild
from minicc.ir.structured import Constant, Reshape, Scan
from minicc.passes.structured.in_place import find_in_place

_MOST_OPS = 12  # of a round, which stands three times then
_LEAST_ROUNDS = 4
_LEAST_BYTES = 1 << 14  # of a state


def peel(module: Module) -> Module:
    """The module with such rounds apart, of loops that are in no other."""
    return Module(module.level, [_peeled(f) for f in module.functions])


def _peeled(function: Function) -> Function:
    body = function.body
    if not any(isinstance(op, Scan) for op in body.ops):
        return function
    kept = find_in_place(body).kept
    made = {r: op for op in body.ops for r in op.results}
    used = [*body.yields, *(v for op in body.ops for v in op.operands)]

    def lies_elsewhere(v: Value) -> bool:
        """Whether a first state is copied to where the loop has it."""
        maker = made.get(v)
        return maker is None or isinstance(maker, Constant | Reshape | Scan) or used.count(v) > 1

    def visit(out: Rebuilder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        if not isinstance(op, Scan) or not _is_plain(op):
            return None
        halves = [k for k in range(op.states) if (op, k) not in kept and _is_large(op.results[k])]
        first = any(lies_elsewhere(op.operands[k]) for k in halves)
        last = any(op.results[k] in body.yields for k in halves)
        states, captured = operands[: op.states], operands[op.states :]
        if first:
            states = inline(out, op.body, operands)
        if first or last:
            count = op.count - first - last
            states = out.add(op.rebuilt((*states, *captured), count=count)).results
        if last:
            states = inline(out, op.body, (*states, *captured))
        return states if first or last else None

    return rebuild(function, visit)


def _is_plain(op: Scan) -> bool:
    """Whether rounds of a loop are alike, and few ops."""
    ops = op.body.ops
    if not isinstance(op.count, int) or op.count < _LEAST_ROUNDS or len(ops) > _MOST_OPS:
        return False
    alike = not (op.condition or op.backwards or op.turned)
    return alike and not any(inner.control or op.index in sizes_in(inner) for inner in ops)


def _is_large(v: Value) -> bool:
    return bool(affine.typical(product(v.type.shape)) * v.type.dtype.bytes >= _LEAST_BYTES)
