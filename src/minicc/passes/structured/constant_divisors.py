"""Let quotients by constants be made of products, where these are the same bit for bit.

%q = arith.div %x, %c   -->   %q = arith.div_by %x, %c
"""

from __future__ import annotations

from collections.abc import Sequence

from minicc.ir import arith
from minicc.ir.core import Function, Module, Op, Region, Value
from minicc.ir.quotients import SIGNIFICANDS, parts_of_inverse
from minicc.ir.rewrite import Rebuilder, everywhere, rebuild
from minicc.ir.structured import Generic


def divide_by_constants(module: Module) -> Module:
    """The same module with `div_by` in the bodies of its generics."""

    def one(function: Function) -> Function:
        ops = [_with_quotients(op) if isinstance(op, Generic) else op for op in function.body.ops]
        return function.with_body(Region(function.args, ops, function.body.yields))

    return Module(module.level, [everywhere(f, one) for f in module.functions])


def _with_quotients(op: Generic) -> Generic:
    constants = {c.result: c.value for c in op.body.ops if isinstance(c, arith.Constant)}
    found = {
        d
        for d in op.body.ops
        if isinstance(d, arith.Div)
        and d.result.type.dtype in SIGNIFICANDS
        and d.b in constants
        and parts_of_inverse(constants[d.b].array.item(), SIGNIFICANDS[d.result.type.dtype])
    }
    if not found:
        return op

    def visit(b: Rebuilder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        return (b.emit(arith.DivBy, *operands),) if op in found else None

    return op.with_regions([rebuild(Function("body", op.body), visit).body])
