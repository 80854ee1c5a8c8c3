"""Where every tensor of a function of groups lies: the plan that `bufferize` applies.

Each tensor is somewhere in a root (an input, an output, a constant, a fresh allocation). Walking
from the outputs back, a value that a pad or concat takes is placed inside the larger buffer, so
that its producer writes there directly; a reshape shares its operand's memory; an output is the
caller's buffer. What can't be placed is copied. A tensor lies row by row, but for planes that are
laid a line further apart (`spread`), as a dump shows by their strides.

In a loop, places move with the round: a slice lies in what is scanned, a row in what is stacked,
and a state in one half of a buffer while the round writes the other half, or in one buffer of which
each round changes a part (`in_place`), or which gets its one element when the round has ended. What
has an extent that depends on the round gets memory for the largest one. Whatever makes the first
state writes it into the first half where nobody else reads it. Both branches of an `if` write their
results into the same place; so does what is within a `sized` op, and it changes its operands where
they lie.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import NamedTuple

from minicc.ir import affine, affine_facts
from minicc.ir.affine import Dim
from minicc.ir.core import Function, Op, Region, Value, walk
from minicc.ir.graph.shapes import product
from minicc.ir.scan import largest_rounds
from minicc.ir.structured import (
    Concat,
    Constant,
    Group,
    If,
    InsertSlice,
    Kernel,
    Pad,
    Reshape,
    Scan,
    Scatter,
    Sized,
)
from minicc.ir.types import BufferType, dense_strides
from minicc.passes.structured.in_place import InPlace, changes, find_in_place, replaces
from minicc.passes.structured.spread import spread_in, spread_strides, strides_through


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
    many there were, which only data say where it has a condition. `donated` are inputs and the
    outputs in whose memory they lie from the beginning, as these are what is left of them.
    """

    places: dict[Value, Place]
    outputs: dict[int, Value]
    copies: list[tuple[Op, int]]
    rounds: dict[Scan, tuple[str, Dim]]
    in_place: InPlace
    donated: list[tuple[int, int]]

    def has_halves(self, scan: Scan, k: int) -> bool:
        """Whether a loop's state lies in one half of its memory, and then in the other one."""
        return (scan, k) not in self.in_place.kept and product(scan.results[k].type.shape) != 1

    def state(self, scan: Scan, k: int, t: Dim) -> Place:
        """Where a loop's state lies at the beginning of round `t`."""
        v = scan.results[k]
        if not self.has_halves(scan, k):
            return self.places[v]
        root = self.places[v].root
        size = BufferType(v.type.dtype, v.type.shape).reach()
        return Place(root, affine.multiply(affine.mod(t, 2), size), dense_strides(v.type.shape))


def plan_buffers(function: Function) -> BufferPlan:
    """Decide where every tensor of a function of groups lies; rewrites nothing."""
    plan = BufferPlan({}, {}, [], {}, find_in_place(function.body), [])
    for k, v in enumerate(function.body.yields):
        plan.outputs[k] = Value(BufferType(v.type.dtype, v.type.shape), function.result_names[k])
    for a in function.args:
        plan.places[a] = Place(a, 0, dense_strides(a.type.shape))
    for given, out in function.attrs.get("donates", ()):
        a, v = function.args[given], function.body.yields[out]
        if a.type == v.type and any(
            is_left(function.body, v, a, plan.in_place) for is_left in (changes, replaces)
        ):
            plan.donated.append((given, out))
            plan.places[a] = Place(plan.outputs[out], 0, dense_strides(a.type.shape))
    targets = [Place(root, 0, root.type.strides) for root in plan.outputs.values()]
    _Planner(plan, largest_rounds(function.body)).region(function.body, targets)
    return plan


class _Planner:
    """Fills a plan, region by region: first a region's own values, then its loops' bodies."""

    def __init__(self, plan: BufferPlan, ranges: Mapping[str, Dim]) -> None:
        self.plan = plan
        self.ranges = ranges
        self.numbers = count()
        self.spread: set[Value] = set()

    def region(self, region: Region, targets: Sequence[Place]) -> None:
        """Place the values of a region whose arguments have places; its yields go to `targets`."""
        places = self.plan.places
        self.spread |= spread_in(region)
        makers = {r: op for op in region.ops for r in op.results}
        viewed = {op.x for op in region.ops if isinstance(op, Reshape)}
        for outer in (op for op in region.ops if op.control):
            if any(isinstance(op, Reshape) for inner in outer.regions for op in walk(inner)):
                viewed.update(outer.operands)
        for v, target in zip(region.yields, targets, strict=True):
            dense = target.strides == dense_strides(v.type.shape)
            while dense and isinstance(maker := makers.get(v), Reshape):
                v = maker.x
            free = v not in places and (dense or v not in viewed)
            if free and self.writes_anywhere(makers.get(v), v):
                strides = dense_strides(v.type.shape) if dense else target.strides
                places[v] = target._replace(strides=strides)
        for op in reversed(region.ops):
            if isinstance(op, Constant):
                places[op.result] = Place(op.result, 0, dense_strides(op.result.type.shape))
            elif not isinstance(op, Reshape):
                for k, r in enumerate(op.results):
                    state = isinstance(op, Scan) and k < op.states and self.plan.has_halves(op, k)
                    places.setdefault(r, self.fresh(r, state))
            if isinstance(op, (Pad, Concat)):
                self.operands(op, makers, viewed)
            elif isinstance(op, InsertSlice):
                self.parts(op, makers, viewed)
            elif isinstance(op, Scatter):
                if not self.take_over(op, 0, places[op.result], makers, viewed):
                    self.plan.copies.append((op, 0))
            elif isinstance(op, Scan):
                self.first_states(op, makers, viewed, region)
            elif isinstance(op, Sized):
                for r in (r for r in op.results if r in self.plan.in_place.changed):
                    k = self.plan.in_place.changed[r]
                    if not self.take_over(op, k, places[r], makers, viewed):
                        self.plan.copies.append((op, k))
        for op in region.ops:
            if isinstance(op, Reshape):
                root, offset, strides = places[op.x]
                places[op.result] = Place(root, offset, strides_through(op, strides))
            elif isinstance(op, Scan):
                self.body(op)
            elif isinstance(op, Sized):
                given = [places[v] for v in op.inputs]
                for r in op.results:
                    if r in self.plan.in_place.changed:
                        given[self.plan.in_place.changed[r] - 1] = places[r]
                places.update(zip(op.body.args, given, strict=True))
                self.region(op.body, [places[r] for r in op.results])
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
            free = free and (op, k) not in self.plan.in_place.outlived
            if free and self.writes_anywhere(makers.get(v), v):
                places[v] = Place(whole.root, offset, whole.strides)
            else:
                self.plan.copies.append((op, k))

    def parts(self, op: InsertSlice, makers: Mapping[Value, Op], viewed: set[Value]) -> None:
        """Let a tensor be changed where it lies, and what makes its new part write it there."""
        suited = self.plan.in_place.direct
        if not self.take_over(op, 0, self.plan.places[op.result], makers, viewed):
            self.plan.copies.append((op, 0))
            suited = self.plan.in_place.beside
        free = op.new not in self.plan.places and op.new not in viewed
        if free and op in suited and self.writes_anywhere(makers.get(op.new), op.new):
            self.plan.places[op.new] = part_of(op, self.plan.places[op.result])
        else:
            self.plan.copies.append((op, 1))

    def take_over(
        self, op: Op, k: int, place: Place, makers: Mapping[Value, Op], viewed: set[Value]
    ) -> bool:
        """Whether an operand whose memory the op takes over lies at a place, or can."""
        v, places = op.operands[k], self.plan.places
        if (op, k) not in self.plan.in_place.taken:
            return False
        dense = place.strides == dense_strides(v.type.shape)
        free = v not in places and (dense or v not in viewed)
        if free and self.writes_anywhere(makers.get(v), v):
            places[v] = place
        return places.get(v) == place

    def first_states(
        self, op: Scan, makers: Mapping[Value, Op], viewed: set[Value], region: Region
    ) -> None:
        """Let what makes a loop's first states write them where the first round reads them."""
        places = self.plan.places
        number = next(self.numbers)
        end = affine.symbol(f"rounds{number}") if op.condition else op.count
        self.plan.rounds[op] = f"round{number}", end
        last = {r: self.plan.state(op, k, end) for k, r in enumerate(op.results[: op.states])}
        places.update(last)
        for k, v in enumerate(op.operands[: op.states]):
            if (op, k) in self.plan.in_place.kept:
                if not self.take_over(op, k, self.plan.state(op, k, 0), makers, viewed):
                    self.plan.copies.append((op, k))
                continue
            uses = [*region.yields, *(u for other in region.ops for u in other.operands)].count(v)
            if v not in places and uses == 1 and self.writes_anywhere(makers.get(v), v):
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
        for k, v in enumerate(op.body.yields[: op.states]):
            if (op, k) not in self.plan.in_place.kept and not self.plan.has_halves(op, k):
                made[k] = self.fresh(v, False)
        self.region(op.body, [*made, *[row(v, back) for v, back in rows]])

    def writes_anywhere(self, maker: Op | None, v: Value) -> bool:
        """Whether what makes a value can write it to a place that somebody else chooses."""
        if isinstance(maker, Scan):
            k = maker.results.index(v)
            return k >= maker.states or (maker, k) in self.plan.in_place.kept
        return isinstance(maker, (Group, Kernel, Pad, Concat, If, InsertSlice, Scatter, Sized))

    def fresh(self, v: Value, twice: bool) -> Place:
        """Memory of its own; that of a loop's state has two halves."""
        if v in self.spread and not twice:
            strides = spread_strides(v.type.shape, v.type.dtype.bits)
            room = affine.multiply(v.type.shape[0], strides[0])
            return Place(Value(BufferType(v.type.dtype, (room,)), v.hint), 0, strides)
        shape = (2, *v.type.shape) if twice else v.type.shape
        if any(affine.symbols(n) & self.ranges.keys() for n in shape):
            shape = (affine_facts.at_most(product(shape), self.ranges),)
        return Place(Value(BufferType(v.type.dtype, shape), v.hint), 0, dense_strides(v.type.shape))


def part_of(op: InsertSlice, whole: Place) -> Place:
    """Where the new part of a tensor lies that is changed in place."""
    shift = affine.add(whole.offset, shift_of(op.starts, whole.strides))
    strides = tuple(affine.multiply(whole.strides[a], op.steps[a]) for a in op.axes)
    return Place(whole.root, shift, strides)


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
