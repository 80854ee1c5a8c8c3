"""Write short loops out.

A loop of few rounds over a small body becomes its rounds, one after the other. How many, and how
small, a kernel's attribute `unroll` says where that is not as usual.

    for i in 0..3 carries %a { ... }   -->   three copies of the body, %a handed on
"""

from __future__ import annotations

from math import prod

from minicc.ir import kernel
from minicc.ir.build import Builder
from minicc.ir.core import Function, Op, Region, Value, walk
from minicc.ir.schedule import Unroll
from minicc.ir.types import BufferType


def unroll(function: Function) -> Function:
    """One kernel with its short innermost loops written out."""
    b = Builder(("#0",))
    forward: dict[Value, Value] = {}
    _ops(b, function.body, forward, Unroll(*function.attrs.get("unroll", ())))
    return function.with_body(Region(function.args, b.ops, ()))


def is_short(op: kernel.For, most: Unroll) -> bool:
    """Whether a loop is written out: few rounds, no loop within, and not too much code."""
    if op.rounds > most.rounds or any(inner.regions for inner in walk(op.body)):
        return False
    size = sum(
        prod(r.type.extents)
        for inner in op.body.ops
        for r in inner.results
        if not isinstance(r.type, BufferType)
    )
    return bool(size * op.rounds <= most.elements)


def _ops(b: Builder, region: Region, forward: dict[Value, Value], most: Unroll) -> None:
    for op in region.ops:
        b.loc = op.loc
        operands = [forward.get(v, v) for v in op.operands]
        if isinstance(op, kernel.For) and is_short(op, most):
            results = _written_out(b, op, operands, forward, most)
        elif op.regions:
            results = _loop(b, op, operands, forward, most)
        else:
            results = b.add(op.rebuilt(operands)).results
        forward.update(zip(op.results, results, strict=True))


def _loop(
    b: Builder, op: Op, operands: list[Value], forward: dict[Value, Value], most: Unroll
) -> tuple[Value, ...]:
    inner = Builder(op.loc)
    (body,) = op.regions
    args = [Value(a.type, a.hint) for a in body.args]
    forward.update(zip(body.args, args, strict=True))
    _ops(inner, body, forward, most)
    yields = [forward.get(v, v) for v in body.yields]
    return b.add(op.rebuilt(operands, (Region(args, inner.ops, yields),))).results


def _written_out(
    b: Builder, op: kernel.For, inits: list[Value], forward: dict[Value, Value], most: Unroll
) -> tuple[Value, ...]:
    carried = inits
    for i in range(op.lo, op.hi, op.step):
        index = b.emit(kernel.Index, (), value=i)
        forward.update(zip(op.body.args, (index, *carried), strict=True))
        _ops(b, op.body, forward, most)
        carried = [forward.get(v, v) for v in op.body.yields]
    return tuple(carried)
