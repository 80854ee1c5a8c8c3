"""The loop of the graph that comes of a recorded body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from minicc.errors import UserError
from minicc.frontends.trace.loops.extents import (
    DataSize,
    Extent,
    Rounds,
    dim_of,
    in_all_rounds,
    same_number,
)
from minicc.frontends.trace.loops.indices import Index
from minicc.frontends.trace.loops.sides import Weigh, in_branches
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.sizes import Unsized
from minicc.ir import affine, graph
from minicc.ir.affine import Dim, Expr
from minicc.ir.core import Function, Op, Region, Value, region_key
from minicc.ir.graph.demands import equal_extents, natural_numbers
from minicc.ir.rewrite import live, substituted

_LONG = 1 << 14  # operations of a loop of which all is known, up to which Python does them
ROUNDS = 100  # that a loop is taken to have of which it is not known


class State(NamedTuple):
    """A state of the scan: what it begins with, what stands for it in the body, what follows."""

    before: Value
    arg: Value
    after: Value


def emit_loop(
    recorder: Recorder,
    number: str,
    count: Any,
    ops: Sequence[Op],
    states: Sequence[State],
    rows: Sequence[Value],
    data: Mapping[str, DataSize],
    is_much: Weigh | None,
) -> tuple[dict[Value, Value], Sequence[Value]] | None:
    """The last states by what a round leaves of them, and the rows of all rounds, stacked.

    None where all that goes in is known, and it is not long. `data` is what data give in its
    rounds, `is_much` says which sides of branches are rather not computed where the other one is
    taken.
    """
    yields = [*[s.after for s in states], *rows]
    captured, body = recorded([s.arg for s in states], ops, yields, data, is_much)
    inner = type(count) is Index  # of a loop within, whose rounds the one around it says
    known = not inner and recorder.are_known([*captured, *[s.before for s in states]])
    if known and count * sum(map(steps_of, body.ops)) < _LONG:
        return None
    rounds = count.place() if inner else count
    if not (recorder.loops or recorder.rounds.sizes):
        body = in_all_rounds(body)  # that of a loop within goes with what is around it
    made = recorder.emit_all(
        graph.Scan,
        [*[s.before for s in states], *captured],
        count=rounds,
        states=len(states),
        backwards=(),
        turned=(False,) * len(rows),
        index=number,
        body=body,
    )
    last = len(states)
    return dict(zip(yields[:last], made[:last], strict=True)), made[last:]


def steps_of(op: Op) -> int:
    """About how many operations are run, which of a loop are those of its rounds as well."""
    inner = sum([steps_of(o) for region in op.regions for o in region.ops])
    return 1 + inner * int(affine.typical(op.attrs.get("count", ROUNDS))) if inner else 1


def recorded(
    args: Sequence[Value],
    ops: Sequence[Op],
    yields: Sequence[Value],
    data: Mapping[str, DataSize],
    is_much: Weigh | None,
) -> tuple[list[Value], Region]:
    """The values that a recorded body uses from outside of it, and the body that takes them, too.

    What depends on a size that data give is in an op that binds it; sides of branches that are much
    work are in branches.
    """
    inside = live(ops, [*yields, *[size.number for size in data.values()]])
    left = list(yields)
    for name in reversed([*data]):
        inside, left = _sized(inside, left, name, data[name])
    if is_much is not None:
        inside, left = in_branches(live(inside, left), left, is_much)
    return closed(args, live(inside, left), left)


def _sized(
    ops: Sequence[Op], yields: Sequence[Value], name: str, size: DataSize
) -> tuple[list[Op], list[Value]]:
    """The ops with those in one op that depend on a size that data give, and what they yield."""
    using = {op for op in ops if name in symbols_in(op)}
    if not using:
        return list(ops), list(yields)
    after: dict[Op, None] = {}  # those ops, and all that follow from them
    made: set[Value] = set()
    for op in ops:
        if op in using or not made.isdisjoint(op.operands):
            after[op] = None
            made.update(op.results)
    inside: list[Op] = []
    needed: set[Value] = set()
    for op in reversed(after):
        if op in using or not needed.isdisjoint(op.results):
            inside.append(op)
            needed.update(op.operands)
    inside.reverse()
    within = set(inside)
    rest = [op for op in ops if op not in within]
    used = {v for op in rest for v in op.operands}.union(yields)
    left = [v for op in inside for v in op.results if v in used]
    captured, body = closed([], inside, left)
    loc = inside[0].loc
    sized = graph.Sized(size.number, captured, count=size.sample, index=name, body=body, loc=loc)
    ready = [op for op in rest if op not in after]
    forward = dict(zip(left, sized.results, strict=True))
    return substituted([*ready, sized, *[op for op in rest if op in after]], yields, forward)


def symbols_in(op: Op) -> set[str]:
    """The rounds, and what data give, on which attributes and types of a recorded op depend."""
    found: set[str] = set()
    waiting: list[Any] = [op.attrs.values(), *[v.type.shape for v in (*op.operands, *op.results)]]
    for region in op.regions:
        waiting += [a.type.shape for a in region.args]
        found |= {s for inner in region.ops for s in symbols_in(inner)}
    while waiting:
        for value in waiting.pop():
            if isinstance(value, Extent | Expr):
                found |= affine.symbols(dim_of(value) if isinstance(value, Extent) else value)
            elif isinstance(value, tuple):
                waiting.append(value)
    return found


def closed(
    args: Sequence[Value], ops: Sequence[Op], yields: Sequence[Value]
) -> tuple[list[Value], Region]:
    """The values that a body uses from outside of it, and the body that takes them, too."""
    own = {*args, *[v for op in ops for v in op.results]}
    used = dict.fromkeys([*[v for op in ops for v in op.operands], *yields])
    captured = [v for v in used if v not in own]
    inside = {v: Value(v.type, v.hint) for v in captured}
    ops, yields = substituted(ops, yields, inside)
    return captured, Region([*args, *inside.values()], ops, yields)


def in_all_sizes(recorder: Recorder, function: Function) -> Function:
    """What was traced, for all sizes; Unsized where that is not sure to be what NumPy does.

    An extent that is computed must not become 0 or 1, as what broadcasts may depend on that.
    """
    rounds, body = recorder.rounds, function.body
    if not rounds.sizes:
        return function
    for op in body.ops:
        extents = [n for v in op.results for n in v.type.shape if isinstance(n, Extent)]
        if not all(n > 1 for n in extents):
            raise Unsized(f"{' '.join(op.loc)}: an extent may be 0 or 1")
    made = in_all_rounds(body)
    for op in made.ops:
        if not all(same_number(*map(rounds.extent, pair)) for pair in equal_extents(op)):
            raise Unsized(f"{' '.join(op.loc)}: extents may differ")
        if not all(rounds.sizes.natural(n) for n in natural_numbers(op)):
            raise Unsized(f"{' '.join(op.loc)}: a number may be negative")
    demands = tuple([(affine.minimum(n, 0), 0) for n in rounds.sizes.demands])
    attrs = {**function.attrs, "demands": demands} if demands else function.attrs
    return Function(function.name, made, attrs, function.result_names)


def same_in_all(
    rounds: Rounds, states: Sequence[State], ops: Sequence[Op], rows: Sequence[Value], sampled: Any
) -> tuple[str, Any]:
    """Why the recording of a sample may not be what each round does, and what tells it apart.

    `sampled` is what told another sample apart, if there was one.
    """
    try:
        left = [*[s.after for s in states], *rows, *[n.number for n in rounds.data.values()]]
        _, body = closed([s.arg for s in states], live(ops, left), left)
        body = in_all_rounds(body)
        recorded = region_key(body)
    except (UserError, ValueError, TypeError) as error:
        return f"not all rounds are alike: {error}", None
    if sampled not in (None, recorded):
        return "an extent that depends on the round is taken for a number", recorded
    return undecided(body, rounds), recorded


def zeros_of(recorder: Recorder, value: Value) -> Value:
    """Zeros of the type of a value."""
    extents, element = value.type.extents, value.type.dtype
    if recorder.rounds.sizes:
        return recorder.broadcast(recorder.scalar(0, element), extents)
    return recorder.lift(np.zeros(extents, element.numpy))


def undecided(body: Region, rounds: Rounds) -> str:
    """What may not hold in some round of a body; empty where nothing is open."""
    for op in body.ops:
        for left, right in equal_extents(op):
            if left != right:
                return f"extents {left} and {right} differ in some round"
        for n in natural_numbers(op):
            if rounds.bounds(n)[0] < 0:
                return f"{n} is negative in some round"
    return ""


def symbols_of(value: Value) -> frozenset[str]:
    """The rounds on which a recorded value's extents depend."""
    extents: list[Dim] = [dim_of(n) for n in value.type.shape if isinstance(n, Extent)]
    return frozenset().union(*map(affine.symbols, extents))
