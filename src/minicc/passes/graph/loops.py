"""Make loops small: take out of their bodies what need not be there, and write short ones out.

    graph.scan %h, %w { ^(%h, %w): %t = transpose %w; %n = contract %h, %t; yield %n }
    -->   %t = transpose %w; graph.scan %h, %t { ^(%h, %t): %n = contract %h, %t; yield %n }

Constants go into the body, where rules and folding see them; what depends on nothing that changes
in a round goes out, to be computed once; so do states that stay what they are. Products are made
for all rounds ahead where that can be (see `products_ahead`). Results that nobody reads vanish,
with what only they need. Loops of few rounds, or of few operations in all rounds, are written out:
their rounds are then fused as any other ops. Branches are made small on the way (see `branches`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeVar

import numpy as np

from minicc.ir import affine_facts, graph
from minicc.ir.affine import Dim
from minicc.ir.bind import bound_region
from minicc.ir.build import Builder
from minicc.ir.core import Function, Literal, Module, Op, Region, Value
from minicc.ir.rewrite import Rebuilder, inline, live, rebuild, substituted
from minicc.ir.scan import lift
from minicc.ir.types import static_shape
from minicc.passes.graph.batch import batch
from minicc.passes.graph.branches import simplify_branch
from minicc.passes.graph.products_ahead import row_products_ahead, scanned_products_ahead
from minicc.passes.graph.whiles import as_scan, keeps_types

# what fails where an index is out of range
_INDEXED = (graph.Gather, graph.GatherElements, graph.GatherND)
Ranges = Mapping[str, Dim]
_FEW_ROUNDS = 3
_FEW_OPS = 48  # of all rounds together
_MOST_OPS = 192  # the same, of few rounds


def simplify_loops(module: Module, strict: bool = False) -> Module:
    """Simplify the loops of every function, and do without those that can be spared."""
    return Module(module.level, [_simplify(f, strict, {}) for f in module.functions])


def _simplify(function: Function, strict: bool, around: Ranges) -> Function:
    """`around` are the sizes that loops around give, and for each how many numbers it is one of."""
    used = {v for op in function.body.ops for v in op.operands}.union(function.body.yields)
    constants: dict[Value, graph.Constant] = {}

    def visit(b: Rebuilder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        if isinstance(op, graph.Constant):
            made = b.add(op)
            constants[made.results[0]] = op
            return made.results
        kept = [r in used for r in op.results]
        if isinstance(op, graph.If) and any(kept):
            branches = [
                _simplify(Function("branch", region), strict, around).body for region in op.regions
            ]
            start = len(b.ops)
            became = simplify_branch(b, op.rebuilt(operands, branches), constants, kept)
            constants.update((o.result, o) for o in b.ops[start:] if isinstance(o, graph.Constant))
            return [new or old for new, old in zip(became, op.results, strict=True)]
        if not any(kept):
            # one that keeps types binds no size, and vanishes though its types may be free
            return op.results if isinstance(op, graph.While) and keeps_types(op) else None
        if isinstance(op, graph.Sized):
            made = b.add(_sized(op.rebuilt(operands), constants, strict, around))
            return made.results
        added = 0
        if isinstance(op, graph.While) and keeps_types(op):
            op, added = as_scan(b, op, operands, constants)
            operands, kept = op.operands, [False] * added + kept
        if not isinstance(op, graph.Scan):
            return None
        body = _simplify(Function("body", op.body), strict, _within(op, around)).body
        scan, found = _without_fixed_states(op.rebuilt(operands, (body,)))
        scan, found = _needed(with_constants(scan, constants), found, kept)
        outer, scan = lift(scan, partial(_is_movable, scan))
        outside: dict[Value, Value] = {}
        for inner in outer:
            made = b.add(inner.rebuilt([outside.get(v, v) for v in inner.operands]))
            outside.update(zip(inner.results, made.results, strict=True))
            if isinstance(made, graph.Constant):
                constants[made.result] = made
        scan = scan.rebuilt([outside.get(v, v) for v in scan.operands])
        scan = with_constants(scanned_products_ahead(b, scan), constants)
        whole = batch(scan, strict, around)
        if whole is not None:
            b.ops.extend(whole[0])
            results = tuple(whole[1])
        elif is_short(scan):
            results = _written_out(b, scan)
        else:
            results = b.add(row_products_ahead(b, scan, around) or scan).results
        became = [results[f] if isinstance(f, int) else f for f in found]
        return [new or old for new, old in zip(became, op.results, strict=True)][added:]

    return rebuild(function, visit)


def _sized(
    op: graph.Sized, constants: Mapping[Value, graph.Constant], strict: bool, around: Ranges
) -> graph.Sized:
    """A region with a size that data give, made small, with the constants that it captures."""
    body = _simplify(Function("body", op.body), strict, _within(op, around)).body
    return with_constants(op.with_regions([body]), constants)


def _within(op: graph.Scan | graph.Sized, around: Ranges) -> Ranges:
    """The sizes that are given in a region."""
    count = affine_facts.at_most(op.count, around)
    return {**around, op.index: count} if op.index else around


def _is_movable(scan: graph.Scan, op: Op) -> bool:
    """Whether an op may run before a loop; one that can fail may not where no round may run."""
    return op.pure and not (scan.condition and isinstance(op, _INDEXED))


# what a result became: that of another number, a value from outside, None where nobody reads it
Found = int | Value | None


def _without_fixed_states(scan: graph.Scan) -> tuple[graph.Scan, list[Found]]:
    """The loop without states that no round changes, and what each of its results became."""
    args, yields, n = scan.body.args, scan.body.yields, scan.states
    fixed = [k for k in range(scan.condition, n) if yields[k] is args[k]]
    found: list[Found] = [scan.operands[k] if k in fixed else k for k in range(n)]
    left = [k for k in range(n) if k not in fixed]
    found = [left.index(f) if isinstance(f, int) else f for f in found]
    found += [len(left) + k for k in range(len(scan.turned))]

    def order(values: Sequence[Value]) -> list[Value]:
        return [*[values[k] for k in left], *values[n:], *[values[k] for k in fixed]]

    body = Region(order(args), scan.body.ops, [*[yields[k] for k in left], *yields[n:]])
    return scan.rebuilt(order(scan.operands), (body,), states=len(left)), found


def _needed(
    scan: graph.Scan, found: Sequence[Found], kept: Sequence[bool]
) -> tuple[graph.Scan, list[Found]]:
    """The loop without what nobody reads; `kept` says which of the old results are read."""
    args, yields, n = scan.body.args, scan.body.yields, scan.states
    wanted = {f for f, keep in zip(found, kept, strict=True) if keep and isinstance(f, int)}
    wanted.update(range(scan.condition))
    while True:
        results = [yields[k] for k in sorted(wanted)]
        ops = live(scan.body.ops, results)
        used = {v for op in ops for v in op.operands}.union(results)
        more = {k for k in range(n) if args[k] in used} - wanted
        if not more:
            break
        wanted |= more
    numbers = sorted(wanted)
    states = [k for k in numbers if k < n]
    scanned = [k for k in range(n, scan.first) if args[k] in used]
    captured = [k for k in range(scan.first, len(args)) if args[k] in used]
    taken = [*states, *scanned, *captured]
    body = Region([args[k] for k in taken], ops, results)
    small = scan.rebuilt(
        [scan.operands[k] for k in taken],
        (body,),
        states=len(states),
        backwards=tuple(scan.backwards[k - n] for k in scanned),
        turned=tuple(scan.turned[k - n] for k in numbers if k >= n),
    )
    place = {k: position for position, k in enumerate(numbers)}
    return small, [place.get(f) if isinstance(f, int) else f for f in found]


Capturing = TypeVar("Capturing", graph.Scan, graph.Sized)


def with_constants(scan: Capturing, known: Mapping[Value, graph.Constant]) -> Capturing:
    """The loop, or sized region, with the constants that it captures in its body."""
    inside: list[Op] = []
    forward: dict[Value, Value] = {}
    captured: list[tuple[Value, Value]] = []
    own: int = len(scan.body.args) - len(scan.operands[scan.first :])
    pairs = zip(scan.body.args[own:], scan.operands[scan.first :], strict=True)
    for inner, outer in pairs:
        if outer in known:
            inside.append(known[outer].rebuilt(()))
            forward[inner] = inside[-1].results[0]
        else:
            captured.append((inner, outer))
    if not inside:
        return scan
    args = [*scan.body.args[:own], *[inner for inner, _ in captured]]
    made: tuple[list[Op], list[Value]] = substituted(scan.body.ops, scan.body.yields, forward)
    body = Region(args, [*inside, *made[0]], made[1])
    operands = (*scan.operands[: scan.first], *[outer for _, outer in captured])
    return scan.rebuilt(operands, (body,))


def is_short(scan: graph.Scan) -> bool:
    """Whether a loop is worth writing out: few rounds, or few operations in all of them.

    What is heavy is no faster for being written out, but takes as often to compile.
    """
    if not isinstance(scan.count, int) or scan.condition:
        return False
    large = (graph.Contract, graph.Conv)
    heavy = any(isinstance(op, large) or op.control for op in scan.body.ops)
    size = scan.count * max(_size(scan.body), 1)
    few = scan.count <= _FEW_ROUNDS and size <= _MOST_OPS
    return few or (not heavy and size <= _FEW_OPS)


def _size(region: Region) -> int:
    """How many operations a body has, those of loops within included."""
    ops = [op for op in region.ops if not isinstance(op, graph.Constant)]
    return len(ops) + sum(_size(inner) for op in ops for inner in op.regions)


def _written_out(b: Builder, scan: graph.Scan) -> tuple[Value, ...]:
    """The rounds of a loop one after the other; what its results became."""
    n = scan.states
    (count,) = static_shape((scan.count,))
    states = scan.operands[:n]
    rows: list[Sequence[Value]] = []
    b.loc = scan.loc
    for t in range(count):
        slices = [
            _row(b, x, count - 1 - t if back else t)
            for x, back in zip(scan.operands[n : scan.first], scan.backwards, strict=True)
        ]
        body = bound_region(scan.body, {scan.index: t}) if scan.index else scan.body
        made = inline(b, body, [*states, *slices, *scan.operands[scan.first :]])
        b.loc = scan.loc
        states, row = made[:n], made[n:]
        rows.append([b.emit(graph.Reshape, v, shape=(1, *v.type.shape)) for v in row])
    stacked: list[Value] = []
    for k, back in enumerate(scan.turned):
        column = tuple(row[k] for row in (rows[::-1] if back else rows))
        if column:
            stacked.append(b.emit(graph.Concat, column, axis=0))
        else:
            t = scan.results[n + k].type
            nothing = b.emit(graph.Constant, value=Literal(np.zeros((), t.dtype.numpy)))
            stacked.append(b.emit(graph.Broadcast, nothing, shape=t.shape))
    return (*states, *stacked)


def _row(b: Builder, x: Value, t: int) -> Value:
    """One slice of a tensor along axis 0."""
    shape = x.type.shape
    rest = shape[1:]
    row = b.emit(
        graph.Slice,
        x,
        starts=(t, *(0 for _ in rest)),
        stops=(t + 1, *rest),
        steps=tuple(1 for _ in shape),
    )
    return b.emit(graph.Reshape, row, shape=rest)
