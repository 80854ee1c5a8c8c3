"""Loops and branches at import: a region is built as the model around it, then closed.

Mirrors: JAX's tracing of a scan's body, whose captures become operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from minicc.errors import UserError
from minicc.frontends.onnx.context import Context
from minicc.ir import graph
from minicc.ir.affine import Dim
from minicc.ir.core import Op, Region, Value
from minicc.ir.rewrite import substituted
from minicc.ir.types import I64, TensorType

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


def emit_if(
    ctx: Context, condition: Value, branch: Callable[[bool], Sequence[Value]], name: str
) -> Sequence[Value]:
    """A branch whose regions emit into the context as if they stood outside.

    MC0128 where they yield other types. Where one of them is wrong for these shapes, a run can only
    choose the other one.
    """
    made: dict[bool, tuple[list[Op], Sequence[Value]]] = {}
    wrong: list[UserError] = []
    for taken in (True, False):
        try:
            with ctx.apart() as inner:
                yields = branch(taken)
                ctx.use(yields)
            made[taken] = inner.ops, yields
        except UserError as error:
            wrong.append(error)
    if wrong:
        if not made:
            raise wrong[0]
        ((taken, (ops, yields)),) = made.items()
        for op in ops:
            ctx.use(op.operands)
            ctx.builder.add(op)
        place = f"{name}/{'else' if taken else 'then'}, which does not fit ({wrong[0].message})"
        return _only(ctx, condition, yields, taken, place)
    closed = [_closed(ctx, (), *made[taken]) for taken in (True, False)]
    inside = [dict(zip(outer, region.args, strict=True)) for region, outer in closed]
    captured = list(dict.fromkeys(v for _, outer in closed for v in outer))
    ctx.use((condition, *captured))
    then, other = (
        Region([args.get(v) or Value(v.type, v.hint) for v in captured], r.ops, r.yields)
        for (r, _), args in zip(closed, inside, strict=True)
    )
    # of free sizes that are written in two ways, no guard can say that they are equal: which of
    # the branches runs may depend on them
    if [v.type for v in then.yields] != [v.type for v in other.yields]:
        raise ctx.refused("its branches give values of different types")
    op = graph.If(condition, captured, then=then, other=other, loc=ctx.builder.loc)
    return ctx.builder.add(op).results


def _only(
    ctx: Context, condition: Value, made: Sequence[Value], when: bool, where: str
) -> list[Value]:
    """What one branch made, where the other one can't be made of these shapes.

    The values are taken from a stack of one at the branch's number, so a run that would choose the
    other branch ends with an error that tells of it, which is `where`.
    """
    other = ctx.emit(graph.Not, condition) if when else condition
    ctx.builder.loc = (where,)
    number = ctx.cast(other, I64)
    stacks = [ctx.reshape(v, (1, *v.type.shape)) for v in made]
    return [ctx.emit(graph.Gather, stack, number, axis=0) for stack in stacks]


def _closed(
    ctx: Context, args: Sequence[Value], ops: Sequence[Op], yields: Sequence[Value]
) -> tuple[Region, list[Value]]:
    """The region of these ops, and what it captures; what is known is made within."""
    own = set(args).union(r for op in ops for r in op.results)
    used = dict.fromkeys([*[v for op in ops for v in op.operands], *yields])
    constants: list[Op] = []
    captured: list[Value] = []
    inside: dict[Value, Value] = {}
    for v in (v for v in used if v not in own):
        constant = ctx.known_op(v)
        if constant is not None:
            constants.append(constant)
            inside[v] = constant.results[0]
        else:
            captured.append(v)
            inside[v] = Value(v.type, v.hint)
    kept, results = substituted(ops, yields, inside)
    arguments = [*args, *[inside[v] for v in captured]]
    return Region(arguments, [*constants, *kept], results), captured
