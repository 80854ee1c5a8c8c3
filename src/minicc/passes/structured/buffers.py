"""Where every tensor of a function of groups lies: the plan that `bufferize` applies.

Each tensor is somewhere in a root (an input, an output, a constant, a fresh allocation). Walking
from the outputs back, a value that a pad or concat takes is placed inside the larger buffer, so
that its producer writes there directly; a reshape shares its operand's memory; an output is the
caller's buffer. What can't be placed is copied.

In a loop, places move with the round: a slice lies in what is scanned, a row in what is stacked,
and a state in one half of a buffer while the round writes the other half. Whatever makes the first
state writes it into the first half where nobody else reads it. Both branches of an `if` write their
results into the same place.

Mirrors: MLIR's one-shot bufferisation with destination passing, XLA's buffer assignment with
aliasing. XLA gives a loop's state one buffer and copies where a round reads it late; ours
alternates between two, and never copies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import NamedTuple

from minicc.ir import affine
from minicc.ir.affine import Dim
from minicc.ir.core import Function, Op, Region, Value, walk
from minicc.ir.structured import Concat, Constant, Group, If, Pad, Reshape, Scan
from minicc.ir.types import BufferType, dense_strides


class Place(NamedTuple):
    """Where a tensor lies.

    In `root`'s memory (a value of the old function), `offset` elements in, with strides. Offsets
    may hold the symbols of rounds.
    """

    root: Value
    offset: Dim
    strides: tuple[Dim, ...]


class BufferPlan(NamedTuple):
    """Places of all tensors, the roots' types where they are new.

    And the values that need a copy into their place: operands of pads and concats, and the first
    states of loops. `rounds` names the symbols of each loop: that of its round, and that of how
    many there were, which only data say where it has a condition.
    """

    places: dict[Value, Place]
    outputs: dict[int, Value]
    copies: list[tuple[Op, int]]
    rounds: dict[Scan, tuple[str, Dim]]

    def state(self, scan: Scan, k: int, t: Dim) -> Place:
        """Where a loop's state lies at the beginning of round `t`."""
        v = scan.results[k]
        root = self.places[v].root
        size = BufferType(v.type.dtype, v.type.shape).reach()
        return Place(root, affine.multiply(affine.mod(t, 2), size), dense_strides(v.type.shape))


def plan_buffers(function: Function) -> BufferPlan:
    """Decide where every tensor of a function of groups lies; rewrites nothing."""
    plan = BufferPlan({}, {}, [], {})
    for k, v in enumerate(function.body.yields):
        plan.outputs[k] = Value(BufferType(v.type.dtype, v.type.shape), function.result_names[k])
    for a in function.args:
        plan.places[a] = Place(a, 0, dense_strides(a.type.shape))
    targets = [Place(root, 0, root.type.strides) for root in plan.outputs.values()]
    _Planner(plan).region(function.body, targets)
    return plan


class _Planner:
    """Fills a plan, region by region: first a region's own values, then its loops' bodies."""

    def __init__(self, plan: BufferPlan) -> None:
        self.plan = plan
        self.numbers = count()

    def region(self, region: Region, targets: Sequence[Place]) -> None:
        """Place the values of a region whose arguments have places; its yields go to `targets`."""
        places = self.plan.places
        makers = {r: op for op in region.ops for r in op.results}
        viewed = {op.x for op in region.ops if isinstance(op, Reshape)}
        for outer in (op for op in region.ops if op.control):
            if any(isinstance(op, Reshape) for inner in outer.regions for op in walk(inner)):
                viewed.update(outer.operands)
        for v, target in zip(region.yields, targets, strict=True):
            dense = target.strides == dense_strides(v.type.shape)
            free = v not in places and (dense or v not in viewed)
            if free and _writes_anywhere(makers.get(v), v):
                places[v] = target
        for op in reversed(region.ops):
            if isinstance(op, Constant):
                places[op.result] = Place(op.result, 0, dense_strides(op.result.type.shape))
            elif not isinstance(op, Reshape):
                for k, r in enumerate(op.results):
                    places.setdefault(r, _fresh(r, isinstance(op, Scan) and k < op.states))
            if isinstance(op, (Pad, Concat)):
                self.operands(op, makers, viewed)
            elif isinstance(op, Scan):
                self.first_states(op, makers, region)
        for op in region.ops:
            if isinstance(op, Reshape):
                root, offset, _ = places[op.x]
                places[op.result] = Place(root, offset, dense_strides(op.result.type.shape))
            elif isinstance(op, Scan):
                self.body(op)
            elif isinstance(op, If):
                given = [places[v] for v in op.captured]
                for inner in op.regions:
                    places.update(zip(inner.args, given, strict=True))
                    self.region(inner, [places[r] for r in op.results])

    def operands(self, op: Pad | Concat, makers: Mapping[Value, Op], viewed: set[Value]) -> None:
        """Let the producers of an op's operands write into its result where nothing forbids it."""
        places = self.plan.places
        whole = places[op.result]
        for k, (v, start) in enumerate(operand_starts(op)):
            offset = affine.add(whole.offset, shift_of(start, whole.strides))
            free = v not in places and v not in viewed
            if free and _writes_anywhere(makers.get(v), v):
                places[v] = Place(whole.root, offset, whole.strides)
            else:
                self.plan.copies.append((op, k))

    def first_states(self, op: Scan, makers: Mapping[Value, Op], region: Region) -> None:
        """Let what makes a loop's first states write them where the first round reads them."""
        places = self.plan.places
        number = next(self.numbers)
        end = affine.symbol(f"rounds{number}") if op.condition else op.count
        self.plan.rounds[op] = f"round{number}", end
        last = {r: self.plan.state(op, k, end) for k, r in enumerate(op.results[: op.states])}
        places.update(last)
        for k, v in enumerate(op.operands[: op.states]):
            uses = [*region.yields, *(u for other in region.ops for u in other.operands)].count(v)
            if v not in places and uses == 1 and _writes_anywhere(makers.get(v), v):
                places[v] = self.plan.state(op, k, 0)
            else:
                self.plan.copies.append((op, k))

    def body(self, op: Scan) -> None:
        """Place the arguments of a loop's body, then what is within."""
        places = self.plan.places
        t = affine.symbol(self.plan.rounds[op][0])

        def row(v: Value, back: bool) -> Place:
            root, offset, strides = places[v]
            at = affine.add(op.count, affine.multiply(affine.add(t, 1), -1)) if back else t
            shift = affine.multiply(at, strides[0])
            return Place(root, affine.add(offset, shift), strides[1:])

        slices = zip(op.operands[op.states : op.first], op.backwards, strict=True)
        rows = zip(op.results[op.states :], op.turned, strict=True)
        given = [self.plan.state(op, k, t) for k in range(op.states)]
        given += [row(v, back) for v, back in slices]
        given += [places[v] for v in op.operands[op.first :]]
        places.update(zip(op.body.args, given, strict=True))
        made = [self.plan.state(op, k, affine.add(t, 1)) for k in range(op.states)]
        self.region(op.body, [*made, *[row(v, back) for v, back in rows]])


def _writes_anywhere(maker: Op | None, v: Value) -> bool:
    """Whether what makes a value can write it to a place that somebody else chooses."""
    if isinstance(maker, Scan):
        return v not in maker.results[: maker.states]
    return isinstance(maker, (Group, Pad, Concat, If))


def _fresh(v: Value, twice: bool) -> Place:
    """Memory of its own; that of a loop's state has two halves."""
    shape = (2, *v.type.shape) if twice else v.type.shape
    return Place(Value(BufferType(v.type.dtype, shape), v.hint), 0, dense_strides(v.type.shape))


def shift_of(start: Sequence[Dim], strides: Sequence[Dim]) -> Dim:
    """Elements from the first of a buffer to the one at `start`."""
    total: Dim = 0
    for s, step in zip(start, strides, strict=True):
        total = total + s * step
    return total


def operand_starts(op: Pad | Concat) -> list[tuple[Value, tuple[Dim, ...]]]:
    """Each operand of a pad or concat with the coordinates at which it starts in the result.

    An empty one starts at 0: after an empty result's memory there is none.
    """
    if isinstance(op, Pad):
        return [(op.x, (0,) * len(op.low) if 0 in op.x.type.shape else op.low)]
    out: list[tuple[Value, tuple[Dim, ...]]] = []
    start: Dim = 0
    for v in op.xs:
        at = 0 if 0 in v.type.shape else start
        out.append((v, tuple(at if axis == op.axis else 0 for axis in range(v.type.rank))))
        start = start + v.type.shape[op.axis]
    return out
