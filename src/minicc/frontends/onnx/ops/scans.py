"""Loops and branches at import: a region is built as the model around it, then closed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import chain
from typing import NamedTuple

import numpy as np

from minicc.errors import UserError
from minicc.frontends.onnx.context import Context, Demands
from minicc.frontends.onnx.host.nodes import Types, emit_hosted
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.needs import NeedsValueError
from minicc.ir import affine, graph
from minicc.ir.affine import Dim, sizes, symbols
from minicc.ir.affine_facts import at_least
from minicc.ir.core import Op, Region, Value, walk
from minicc.ir.graph.demands import equal_extents, natural_numbers
from minicc.ir.rewrite import substituted
from minicc.ir.types import BOOL, I64, OPAQUE, DType, TensorType

Each = Callable[[Sequence[Value], Sequence[Value]], tuple[Sequence[Value], Sequence[Value]]]


_SLICES = 13  # an opset in which Slice takes steps as an operand
_BEFORE = -(1 << 62)  # before the first element of any axis
MOST_ROUNDS = 16  # that are written out


class TooManyError(Exception):
    """A loop has more rounds than are written out."""


class UnlikeError(Exception):
    """The branches of an If give tensors of unlike ranks or element types."""


class Loop(NamedTuple):
    """A loop to be: how many rounds, what each state begins with, and what is cut into slices.

    `backwards` are the scanned tensors whose last slice comes first, `turned` the stacked results
    whose first round makes the last row. The slices of a `numbered` loop begin with the round's
    number, of which the context knows what it is.
    """

    rounds: Dim
    states: Sequence[Value]
    scanned: Sequence[Value]
    backwards: frozenset[int] = frozenset()
    turned: frozenset[int] = frozenset()
    numbered: bool = False


Emit = Callable[[Context, Loop, Each], tuple[Value, ...]]


def emit_scan(ctx: Context, loop: Loop, body: Each) -> tuple[Value, ...]:
    """A loop whose body emits into the context as if it stood outside.

    `body` gets the states and the slices, and returns the new states and the rows. MC0128 where the
    states that a round leaves are of other types than those that it takes.
    """
    states = [Value(v.type, v.hint) for v in loop.states]
    slices = [Value(TensorType(v.type.dtype, v.type.shape[1:])) for v in loop.scanned]
    entered = ctx.symbols.in_rounds(loop.rounds) if loop.numbered else nullcontext()
    with ctx.apart() as inner, entered as number:
        numbers = [] if number is None else [ctx.of_dims(np.array(number, object))]
        made, rows = body(states, [*numbers, *slices])
        yields = [*made, *rows]
        ctx.use(yields)
    for old, new in zip(states, made, strict=True):
        if any(map(_may_differ, old.type.shape, new.type.shape)):
            raise ctx.refused(f"a round takes {old.type}, and leaves {new.type}")
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
            index="" if number is None else min(symbols(number)),
            body=region,
            loc=ctx.builder.loc,
        )
    except (TypeError, ValueError) as error:
        raise ctx.refused(str(error)) from error
    return ctx.builder.add(op).results


def _may_differ(left: Dim, right: Dim) -> bool:
    """Whether two extents are unlike for data, for all sizes, or for all but 0.

    Where sizes of inputs may make them equal, that is a guard.
    """
    of_data = bool(sizes(left) or sizes(right))
    return left != right and (of_data or at_least(left, right) or at_least(right, left))


def emit_rounds(ctx: Context, loop: Loop, body: Each) -> tuple[Value, ...]:
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
            numbers = [ctx.constant(np.array(t))] if loop.numbered else []
            states, rows = body(states, [*numbers, *slices])
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


Round = Callable[[Value, Value, Sequence[Value]], tuple[Value, Sequence[Value], Sequence[Value]]]


class Rounds(NamedTuple):
    """A loop to be whose rounds data decide: their most, whether there is a first, its states."""

    limit: Value
    condition: Value
    states: Sequence[Value]


def emit_while(ctx: Context, types: Types, loop: Rounds, body: Round) -> tuple[Value, ...]:
    """A loop on the host whose body emits into the context as if it stood outside.

    `body` gets the round's number, whether the last one said to go on, and the states; it returns
    whether to go on, new states and rows. What is known of a state is what holds in each round;
    extents that are equal at first, and of which each round makes equal ones, are one size.
    """
    _require(ctx, loop.limit, I64, "the number of its rounds")
    _require(ctx, loop.condition, BOOL, "its condition")
    taken = [v.type for v in loop.states]
    given: list[Sequence[Value]] = []  # what rounds made of the states
    own: set[str] = set()  # the sizes of states that change from round to round
    while True:
        states = [Value(t, v.hint) for t, v in zip(taken, loop.states, strict=True)]
        types.adopt(states, loop.states, *given)
        args = [Value(TensorType(I64), "round"), Value(TensorType(BOOL), "goes_on"), *states]
        before = set(types.symbols.made)
        with ctx.apart() as inner:
            holds, made, rows = body(args[0], args[1], states)
            _require(ctx, holds, BOOL, "the condition that its body gives")
            yields = [ctx.reshape(holds, ()), *made, *rows]
            ctx.use(yields)
        inside = types.symbols.made - before
        joined: list[TensorType] = []
        steps: dict[Dim, Dim] = {}
        met: dict[tuple[Dim, Dim], Dim] = {}
        for t, v in zip(taken, made, strict=True):
            opened = _opened(v.type, t, own, steps)
            same = t == opened or t.dtype is OPAQUE
            joined.append(t if same else types.joined(t, opened, inside, v.hint, met))
        if joined == taken and _is_known(types, states, made):
            break
        given.append(made)
        own |= types.symbols.made - before - inside
        taken = joined
    inside |= own
    met = {}
    results = [types.joined(t, t, inside, v.hint, met) for t, v in zip(taken, made, strict=True)]
    count = types.symbols.fresh(rows[0].hint, 0) if rows else 0  # each round has one row of each
    for v in rows:
        row = types.joined(v.type, v.type, inside, v.hint)
        results.append(row if row.dtype is OPAQUE else TensorType(row.dtype, (count, *row.shape)))
    region, captured = _closed(ctx, args, inner.ops, yields)
    operands = (ctx.reshape(loop.limit, ()), ctx.reshape(loop.condition, ()), *loop.states)
    ctx.use((*operands, *captured))
    op = graph.While(
        (*operands, *captured),
        states=len(states),
        types=tuple(results),
        body=region,
        loc=ctx.builder.loc,
    )
    n = len(states)
    types.adopt(op.results[:n], loop.states, made)
    return ctx.builder.add(op).results


def _require(ctx: Context, value: Value, element: DType, what: str) -> None:
    if value.type.dtype is not element:
        raise ctx.wrong(f"{what} is {value.type}, and must be one {element}")


def _is_known(types: Types, states: Sequence[Value], made: Sequence[Value]) -> bool:
    """Whether all that was taken to be known of opaque states is so of what a round makes."""
    pairs = zip(states, made, strict=True)
    opaque = [(s, m) for s, m in pairs if s.type.dtype is OPAQUE]
    again = [Value(s.type) for s, _ in opaque]
    types.adopt(again, [s for s, _ in opaque], [m for _, m in opaque])
    return all(types.proto(a) == types.proto(s) for a, (s, _) in zip(again, opaque, strict=True))


def _opened(
    made: TensorType, taken: TensorType, own: set[str], steps: dict[Dim, Dim]
) -> TensorType:
    """The type that a round makes, with the extents that it takes where these may be any.

    `steps` says what it makes of such an extent, which is the same for all states that have it.
    """
    if made.rank != taken.rank:
        return made
    pairs = zip(made.shape, taken.shape, strict=True)
    shape = tuple(
        t if own.intersection(symbols(t)) and steps.setdefault(t, m) == m else m for m, t in pairs
    )
    return TensorType(made.dtype, shape)


def emit_on_host(types: Types) -> Emit:
    """What emits a loop of which some ops run on the host, in the manner of `emit_scan`."""

    def emit(ctx: Context, loop: Loop, body: Each) -> tuple[Value, ...]:
        count = ctx.of_dims(np.array(loop.rounds, object))

        def each(
            number: Value, holds: Value, states: Sequence[Value]
        ) -> tuple[Value, Sequence[Value], Sequence[Value]]:
            last = ctx.of_dims(np.array(loop.rounds - 1, object))
            back = ctx.emit(graph.Sub, last, number) if loop.backwards else number
            slices = [
                ctx.emit(graph.Gather, x, back if k in loop.backwards else number, axis=0)
                for k, x in enumerate(loop.scanned)
            ]
            return holds, *body(states, [number, *slices] if loop.numbered else slices)

        always = ctx.constant(np.array(True))
        made = emit_while(ctx, types, Rounds(count, always, loop.states), each)
        n = len(loop.states)
        rows = [_turned(ctx, types, v) if k in loop.turned else v for k, v in enumerate(made[n:])]
        return (*made[:n], *rows)

    return emit


def _turned(ctx: Context, types: Types, x: Value) -> Value:
    """The rows of a tensor, the last one first."""
    if x.type.dtype is OPAQUE:
        last, before, first, step = (ctx.constant(np.array([n])) for n in (-1, _BEFORE, 0, -1))
        names = ("rows", "starts", "ends", "axes", "steps")
        node = Node("Slice", "", names, ("turned",), {})
        parts = (x, last, before, first, step)
        return emit_hosted(ctx, node, parts, {}, types, (_SLICES, _SLICES))[0]
    count, *rest = x.type.shape
    nothing, steps = (0 for _ in rest), (1 for _ in rest)
    return ctx.emit(
        graph.Slice,
        x,
        starts=(count - 1, *nothing),
        stops=(-1, *rest),
        steps=(-1, *steps),
    )


def emit_if(
    ctx: Context,
    condition: Value,
    branch: Callable[[bool], Sequence[Value]],
    name: str,
    types: Types | None = None,
    *,
    alike: bool = False,
) -> Sequence[Value]:
    """A branch whose regions emit into the context as if they stood outside.

    MC0128 where they yield other types, unless `types` says what both of them are. Where one of
    them is wrong for these shapes, a run can only choose the other one. So it is where sizes decide
    and one of them fits no sizes that choose the other, as a Squeeze does: that the sizes choose
    the usual one becomes a demand, as TorchDynamo guards on what it assumes of sizes. UnlikeError
    where tensors that are to be `alike` differ in rank, or broadcast along other axes.
    """
    before = set() if types is None else set(types.symbols.made)
    holds = ctx.truth(condition)
    made, wrong = _branches(ctx, branch, decided=holds is not None)
    if holds is not None and len(made) == 2 and _like(made[True].yields, made[False].yields):
        usual = bool(_usual(holds))
        if _refuses_usual_sizes(made[not usual]):
            del made[not usual]
    for chosen in made.values():
        ctx.demands.update(chosen.demands)
    if len(made) == 1:
        ((taken, chosen),) = made.items()
        for op in chosen.ops:
            ctx.use(op.operands)
            ctx.builder.add(op)
        if holds is None:
            return _only(ctx, condition, chosen.yields, taken, name, wrong[0])
        ctx.demand(holds, int(taken), f"{name}: sizes choose the branch that does not fit")
        return chosen.yields
    closed = [_closed(ctx, (), made[taken].ops, made[taken].yields) for taken in (True, False)]
    inside = [dict(zip(outer, region.args, strict=True)) for region, outer in closed]
    captured = list(dict.fromkeys(v for _, outer in closed for v in outer))
    ctx.use((condition, *captured))
    then, other = (
        Region([args.get(v) or Value(v.type, v.hint) for v in captured], r.ops, r.yields)
        for (r, _), args in zip(closed, inside, strict=True)
    )
    # of free sizes that are written in two ways, no guard can say that they are equal: which of
    # the branches runs may depend on them
    pairs = list(zip(then.yields, other.yields, strict=True))
    stated: tuple[TensorType, ...] = ()
    if types is not None:
        stated = _stated(types, pairs, types.symbols.made - before, alike)
    elif any(a.type != b.type or a.type.dtype is OPAQUE for a, b in pairs):
        raise ctx.refused("its branches give values of different types")
    parts = {"then": then, "other": other, "types": stated}
    try:
        op = graph.If(condition, captured, **parts, loc=ctx.builder.loc)
    except (TypeError, ValueError) as error:
        raise ctx.refused(str(error)) from error
    if types is not None:
        types.adopt(op.results, made[True].yields, made[False].yields)
    return ctx.builder.add(op).results


class _Branch(NamedTuple):
    """What a branch emits and yields, and what it demands of sizes."""

    ops: list[Op]
    yields: Sequence[Value]
    demands: Demands


def _branches(
    ctx: Context, branch: Callable[[bool], Sequence[Value]], decided: bool
) -> tuple[dict[bool, _Branch], list[UserError | NeedsValueError]]:
    """The branches of an If that can be made, and why others can't; an error where none can.

    Where sizes decide which one runs, one that wants to know sizes is as one that does not fit.
    """
    misfits = (UserError, NeedsValueError) if decided else (UserError,)
    made: dict[bool, _Branch] = {}
    wrong: list[UserError | NeedsValueError] = []
    for taken in (True, False):
        try:
            with ctx.apart() as inner, ctx.demanding() as demands:
                yields = branch(taken)
                ctx.use(yields)
            made[taken] = _Branch(inner.ops, yields, demands)
        except misfits as error:
            wrong.append(error)
    if not made:
        raise next((e for e in wrong if isinstance(e, NeedsValueError)), wrong[0])
    return made, wrong


def _like(some: Sequence[Value], others: Sequence[Value]) -> bool:
    """Whether values have the ranks and element types of others."""
    pairs = zip(some, others, strict=True)
    return all((a.type.dtype, a.type.rank) == (b.type.dtype, b.type.rank) for a, b in pairs)


def _refuses_usual_sizes(branch: _Branch) -> bool:
    """Whether a branch demands of sizes what usual ones do not fulfil."""
    inside = walk(Region((), branch.ops, ()))
    equal = chain(branch.demands, chain.from_iterable(map(equal_extents, inside)))
    least = chain.from_iterable(map(natural_numbers, inside))
    return any(_usual(a) != _usual(b) for a, b in equal) or any(_usual(n) < 0 for n in least)


def _usual(value: Dim) -> int:
    """An expression of sizes where each of them is a usual one."""
    return int(affine.evaluate(value, dict.fromkeys(symbols(value), affine.TYPICAL)))


def _stated(
    types: Types, pairs: Sequence[tuple[Value, Value]], inside: set[str], alike: bool
) -> tuple[TensorType, ...]:
    """The types of what two branches give, with nothing known of `inside`; none if they agree."""
    stated = tuple(types.joined(a.type, b.type, inside, a.hint) for a, b in pairs)
    for (a, b), t in zip(pairs, stated, strict=True):
        tensors = alike and OPAQUE not in (a.type.dtype, b.type.dtype)
        if tensors and (t.dtype is OPAQUE or _broadcasting(a.type) != _broadcasting(b.type)):
            raise UnlikeError
    same = [(t, t) for t in stated] == [(a.type, b.type) for a, b in pairs]
    return () if same else stated


def _broadcasting(type: TensorType) -> list[bool]:
    """Along which axes a tensor broadcasts."""
    return [n == 1 for n in type.shape]


def _only(
    ctx: Context,
    condition: Value,
    made: Sequence[Value],
    when: bool,
    name: str,
    wrong: UserError | NeedsValueError,
) -> list[Value]:
    """What one branch made, where the other one can't be made of these shapes, which is `wrong`.

    The values are taken from a stack of one at the branch's number, so a run that would choose the
    other branch ends with an error that tells of it. A sequence can't be stacked.
    """
    if any(v.type.dtype is OPAQUE for v in made):
        raise wrong
    other = ctx.emit(graph.Not, condition) if when else condition
    place = f"{name}/{'else' if when else 'then'}, which does not fit ({wrong.message})"
    ctx.builder.loc = (place,)
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
    return Region(arguments, _placed(constants, kept), results), captured


def _placed(constants: Sequence[Op], ops: Sequence[Op]) -> list[Op]:
    """Ops with each constant before the first that uses it, as a size is bound by then."""
    waiting = {op.results[0]: op for op in constants}
    placed: list[Op] = []
    for op in ops:
        placed += [waiting.pop(v) for v in dict.fromkeys(op.operands) if v in waiting]
        placed.append(op)
    return [*placed, *waiting.values()]
