"""Loops while a model is imported: a region is built as the model around it, then closed.

Mirrors: JAX's tracing of a scan's body, whose captures become operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from minicc.frontends.onnx.context import Context
from minicc.ir import graph
from minicc.ir.affine import Dim
from minicc.ir.core import Op, Region, Value
from minicc.ir.rewrite import substituted
from minicc.ir.types import TensorType

Body = Callable[[Sequence[Value], Sequence[Value]], tuple[Sequence[Value], Sequence[Value]]]


MOST_ROUNDS = 16  # that are written out


class TooManyError(Exception):
    """A loop has more rounds than are written out."""


class Loop(NamedTuple):
    """A loop to be: how many rounds, what each state begins with, and what is cut into slices.

    `backwards` are the scanned tensors whose last slice comes first, `turned` the stacked results
    whose first round makes the last row.
    """

    rounds: Dim
    states: Sequence[Value]
    scanned: Sequence[Value]
    backwards: frozenset[int] = frozenset()
    turned: frozenset[int] = frozenset()


def emit_scan(ctx: Context, loop: Loop, body: Body) -> tuple[Value, ...]:
    """A loop whose body emits into the context as if it stood outside.

    `body` gets the states and the slices, and returns the new states and the rows. MC0128 where the
    states that a round leaves are of other types than those that it takes.
    """
    states = [Value(v.type, v.hint) for v in loop.states]
    slices = [Value(TensorType(v.type.dtype, v.type.shape[1:])) for v in loop.scanned]
    with ctx.apart() as inner:
        made, rows = body(states, slices)
        yields = [*made, *rows]
        ctx.use(yields)
    region, captured = _closed(ctx, [*states, *slices], inner.ops, yields)
    operands = (*loop.states, *loop.scanned, *captured)
    ctx.use(operands)
    try:
        op = graph.Scan(
            operands,
            count=loop.rounds,
            states=len(states),
            backwards=tuple(k in loop.backwards for k in range(len(slices))),
            turned=tuple(k in loop.turned for k in range(len(rows))),
            body=region,
            loc=ctx.builder.loc,
        )
    except (TypeError, ValueError) as error:
        raise ctx.refused(str(error)) from error
    return ctx.builder.add(op).results


def emit_rounds(ctx: Context, loop: Loop, body: Body) -> tuple[Value, ...]:
    """The rounds of a loop one after the other, in which slices of what is known are known.

    TooManyError where they are not few.
    """
    if not isinstance(loop.rounds, int) or not 0 < loop.rounds <= MOST_ROUNDS:
        raise TooManyError
    states: Sequence[Value] = loop.states
    made: list[Sequence[Value]] = []
    with ctx.apart() as inner:
        for t in range(loop.rounds):
            slices = [
                _row(ctx, x, loop.rounds - 1 - t if k in loop.backwards else t)
                for k, x in enumerate(loop.scanned)
            ]
            states, rows = body(states, slices)
            made.append([ctx.reshape(v, (1, *v.type.shape)) for v in rows])
        columns = zip(*made, strict=True)
        stacked = [
            ctx.emit(graph.Concat, tuple(column[::-1] if k in loop.turned else column), axis=0)
            for k, column in enumerate(columns)
        ]
    for op in inner.ops:
        ctx.use(op.operands)
        ctx.builder.add(op)
    return (*states, *stacked)


def _row(ctx: Context, x: Value, t: int) -> Value:
    """One slice of a tensor along axis 0."""
    rest = x.type.shape[1:]
    nothing = tuple(0 for _ in rest)
    steps = tuple(1 for _ in x.type.shape)
    row = ctx.emit(graph.Slice, x, starts=(t, *nothing), stops=(t + 1, *rest), steps=steps)
    return ctx.reshape(row, rest)


def _closed(
    ctx: Context, args: Sequence[Value], ops: Sequence[Op], yields: Sequence[Value]
) -> tuple[Region, list[Value]]:
    """The region of these ops, and what it captures; constants from outside are made within."""
    own = set(args).union(r for op in ops for r in op.results)
    used = dict.fromkeys([*[v for op in ops for v in op.operands], *yields])
    constants: list[Op] = []
    captured: list[Value] = []
    inside: dict[Value, Value] = {}
    for v in (v for v in used if v not in own):
        constant = ctx.constant_op(v)
        if constant is not None:
            constants.append(constant)
            inside[v] = constant.result
        else:
            captured.append(v)
            inside[v] = Value(v.type, v.hint)
    kept, results = substituted(ops, yields, inside)
    arguments = [*args, *[inside[v] for v in captured]]
    return Region(arguments, [*constants, *kept], results), captured
