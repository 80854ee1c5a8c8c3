"""What one side of a branch alone needs is computed where that side is taken.

    %a = f(%x)   %y = select %c, %a, %b   -->   %y = if %c, %x, %b { yield f(%x) } { yield %b }

Ways through a body are recorded as if both sides of a branch were taken in each round, and what
they leave is chosen. That is best where sides are little work, as rounds may be side by side then.
This is what LLVM's sinking does (Sink), on a graph, into a region.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from minicc.ir import graph
from minicc.ir.core import Op, Region, Value
from minicc.ir.rewrite import substituted

Weigh = Callable[[Collection[Op]], bool]  # whether ops are much work


class Branch(NamedTuple):
    """Choices by one condition, and the ops that only what they choose in one case needs."""

    condition: Value
    choices: tuple[Op, ...]
    then: tuple[Op, ...]
    other: tuple[Op, ...]


def branches(ops: Sequence[Op], yields: Sequence[Value], is_much: Weigh) -> Iterator[Branch]:
    """The branches of ops that are worth it, those around others first."""
    conditions: dict[Value, list[Op]] = {}
    for op in ops:
        if isinstance(op, graph.Select) and not op.condition.type.rank and _are_alike(op):
            conditions.setdefault(op.condition, []).append(op)
    for condition, choices in reversed(conditions.items()):
        apart = tuple(_independent(ops, choices))
        then, other = (_needed_by(ops, yields, apart, side) for side in (1, 2))
        if is_much(then) or is_much(other):
            yield Branch(condition, apart, then, other)


def in_branches(
    ops: Sequence[Op], yields: Sequence[Value], is_much: Weigh
) -> tuple[list[Op], list[Value]]:
    """The ops with branches in the places of choices, and what they yield."""
    found = next(branches(ops, yields, is_much), None)
    if found is None:
        return list(ops), list(yields)
    sides = [
        in_branches(inner, [op.operands[k] for op in found.choices], is_much)
        for k, inner in ((1, found.then), (2, found.other))
    ]
    captured = dict.fromkeys(v for inner, left in sides for v in outer(inner, left))
    then, other = (closed_in(captured, *side) for side in sides)
    loc = found.choices[0].loc
    made = graph.If(found.condition, tuple(captured), then=then, other=other, loc=loc)
    gone = {*found.choices, *found.then, *found.other}
    results = [op.results[0] for op in found.choices]
    rest, left = substituted(
        [op for op in ops if op not in gone],
        yields,
        dict(zip(results, made.results, strict=True)),
    )
    return in_branches(_in_order([made, *rest]), left, is_much)


def _are_alike(op: graph.Select) -> bool:
    return all(v.type == op.result.type for v in op.operands[1:])


def _independent(ops: Sequence[Op], choices: Sequence[Op]) -> Iterator[Op]:
    """Those of some choices for which none of the others is needed."""
    after: set[Value] = set()
    for op in ops:
        if op in choices and after.isdisjoint(op.operands):
            yield op
            after.update(op.results)
        elif not after.isdisjoint(op.operands):
            after.update(op.results)


def _needed_by(
    ops: Sequence[Op], yields: Sequence[Value], choices: Collection[Op], side: int
) -> tuple[Op, ...]:
    """The ops that nothing needs but what choices choose in one case."""
    elsewhere = {*yields}
    found: list[Op] = []
    for op in reversed(ops):
        if op in choices:
            elsewhere.update(v for k, v in enumerate(op.operands) if k != side)
        elif op.pure and elsewhere.isdisjoint(op.results):
            found.append(op)
        else:
            elsewhere.update(op.operands)
    return tuple(reversed(found))


def outer(ops: Sequence[Op], yields: Sequence[Value]) -> list[Value]:
    """The values that ops and what they yield take from elsewhere."""
    own = {v for op in ops for v in op.results}
    used = dict.fromkeys([*[v for op in ops for v in op.operands], *yields])
    return [v for v in used if v not in own]


def closed_in(captured: Collection[Value], ops: Sequence[Op], yields: Sequence[Value]) -> Region:
    """A region of ops with arguments for the values that are captured."""
    inside = {v: Value(v.type, v.hint) for v in captured}
    ops, left = substituted(ops, yields, inside)
    return Region(list(inside.values()), ops, left)


def _in_order(ops: Sequence[Op]) -> list[Op]:
    """Ops so that each follows those that it needs, as they were otherwise."""
    makers = {v: op for op in ops for v in op.results}
    out: dict[Op, None] = {}

    def place(op: Op) -> None:
        if op not in out:
            for v in op.operands:
                if v in makers:
                    place(makers[v])
            out[op] = None

    for op in ops:
        place(op)
    return list(out)
