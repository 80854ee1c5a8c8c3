"""Loops that data end, as scans with a condition where memory for their states is known ahead.

    %n, %x = graph.while %limit, %go, %n0, %x0 { ... yield %goes_on, %new_n, %new_x }
    -->   %_, %_, %n, %x = graph.scan %go, %zero, %n0, %x0 {condition = true, ...} { ... }

A state keeps its type from round to round there, and no rows are stacked, whose number only the
data would say. Such a loop becomes machine code with its conditions; any other the host runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from minicc.ir import graph
from minicc.ir.build import Builder
from minicc.ir.core import Literal, Region, Value
from minicc.ir.rewrite import substituted
from minicc.ir.scan import ENDLESS
from minicc.ir.types import BOOL, I64, TensorType


def keeps_types(op: graph.While) -> bool:
    """Whether memory for a loop's states can be had before it runs, and it makes nothing else."""
    given = [v.type for v in op.operands[2:]]
    made = [v.type for v in op.body.yields[1:]]
    taken = [a.type for a in op.body.args[2:]]
    return given == taken and made == taken[: op.states] == [*op.types]


def as_scan(
    b: Builder, op: graph.While, operands: Sequence[Value], known: Mapping[Value, graph.Constant]
) -> tuple[graph.Scan, int]:
    """The loop as a scan, and the number of the first result that the loop had.

    `b` gets what the scan needs before it. Its states are the condition, the number of the round,
    and the loop's. A limit that is not `known` becomes a part of the condition.
    """
    b.loc = op.loc
    limit, go, *rest = operands
    number, goes = op.body.args[:2]
    args = [Value(TensorType(BOOL), goes.hint), Value(TensorType(I64), number.hint)]
    args += op.body.args[2:]
    inner = Builder(op.loc)
    ops, yields = substituted(op.body.ops, op.body.yields, {number: args[1], goes: args[0]})
    inner.ops = list(ops)
    following = inner.emit(graph.Add, args[1], _number(inner, 1))
    more, *made = yields
    count = ENDLESS
    if limit in known:
        count = max(0, int(known[limit].value.array))
    else:
        end = Value(limit.type, limit.hint)
        args.append(end)
        rest.append(limit)
        more = inner.emit(graph.And, more, inner.emit(graph.Lt, following, end))
        go = b.emit(graph.And, go, b.emit(graph.Lt, _number(b, 0), limit))
    scan = graph.Scan(
        (go, _number(b, 0), *rest),
        count=count,
        states=2 + op.states,
        backwards=(),
        turned=(),
        condition=True,
        index=op.index,
        body=Region(args, inner.ops, (more, following, *made)),
        loc=op.loc,
    )
    return scan, 2


def _number(b: Builder, value: int) -> Value:
    return b.emit(graph.Constant, value=Literal(np.array(value)))
