"""Loops over whole tensors: what `graph.scan` and `structured.scan` have in common.

    %last, %all = graph.scan %h, %xs, %w {count = 5, states = 1, backwards = [false], ...} {
    ^(%h: f32[8], %x: f32[4], %w: f32[8,4]): ... yield %new, %row
    }

The body runs `count` times. It takes the states (at first the first operands, then what the round
before yielded for them), a slice along axis 0 of each scanned operand, and the other operands
whole, which are the same in each round. It yields the states, and rows that are stacked along a
new axis 0. A body uses nothing but its arguments, so a pass can treat it as a function of its own.

With a `condition` the loop ends, too, when its first state is false; it has states alone then.
An `index` is a size of the body: the number of the round. Places and extents of what is in the body
may depend on it, those of what it takes and yields may not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from minicc.ir import affine, affine_facts
from minicc.ir.affine import Dim
from minicc.ir.arrays import empty
from minicc.ir.bind import sizes_in
from minicc.ir.core import Op, Region, RunRegion, Value, walk_control
from minicc.ir.types import BOOL, TensorType, static_shape

ENDLESS = 1 << 62  # rounds of a loop that data end


class Scanning(Op):
    """A loop of `count` rounds; the operands are states, scanned tensors, and what is captured.

    `backwards` says of each scanned operand whether its last slice comes first, `turned` of each
    stacked result whether the first round makes its last row. `condition` says whether the first
    state ends the loop. `index` names the size that is the number of the round.
    """

    inputs: tuple[Value, ...]
    count: Dim
    states: int
    backwards: tuple[bool, ...]
    turned: tuple[bool, ...]
    body: Region
    condition: bool = False
    index: str = ""
    control = True

    @property
    def first(self) -> int:
        """How many operands are states or scanned: captured ones begin there."""
        return int(self.states) + len(self.backwards)

    def infer(self) -> tuple[TensorType, ...]:
        given: list[TensorType] = [v.type for v in self.operands]
        taken: list[TensorType] = [a.type for a in self.body.args]
        made: list[TensorType] = [y.type for y in self.body.yields]
        n = self.states
        require_closed(self)
        if isinstance(self.count, int) and self.count < 0:
            raise ValueError(f"{self.opname} of {self.count} rounds")
        if self.condition and (taken[:1] != [TensorType(BOOL)] or self.backwards or self.turned):
            raise TypeError(f"{self.opname} with a condition has states alone, first a bool")
        if len(given) != len(taken) or len(given) < self.first:
            raise TypeError(f"the body of {self.opname} takes {len(taken)} of {len(given)} values")
        for k in range(n, self.first):
            if not given[k].rank or surely_differ(given[k].shape[0], self.count):
                raise TypeError(f"{given[k]} has not {self.count} slices")
            given[k] = TensorType(given[k].dtype, given[k].shape[1:])
        if len(made) != n + len(self.turned):
            raise TypeError(f"the body of {self.opname} yields {len(made)} values")
        inside = {s for t in (*taken, *made) for n in t.shape for s in affine.symbols(n)}
        if self.index in inside:
            raise TypeError(f"the body of {self.opname} takes or yields an extent of {self.index}")
        for have, want in zip((*given, *made[:n]), (*taken, *taken[:n]), strict=True):
            pairs = zip(have.shape, want.shape, strict=False)
            same = have.dtype is want.dtype and have.rank == want.rank
            if not same or any(surely_differ(a, b) for a, b in pairs):
                raise TypeError(f"the body of {self.opname} takes {want}, and is given {have}")
        rows = [TensorType(t.dtype, (self.count, *t.shape)) for t in made[n:]]
        return (*taken[:n], *rows)

    def same_extents(self) -> Iterator[tuple[Dim, Dim]]:
        """The extents that must be one: of what the body takes, and is given, and yields for it."""
        n, args = self.states, self.body.args
        for k, (v, a) in enumerate(zip(self.operands, args, strict=True)):
            scanned = n <= k < self.first
            yield from zip(v.type.shape, (self.count,) * scanned + a.type.shape, strict=True)
        for y, a in zip(self.body.yields[:n], args[:n], strict=True):
            yield from zip(y.type.shape, a.type.shape, strict=True)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        (count,) = static_shape((self.count,))
        n = self.states
        states, slices, captured = args[:n], args[n : self.first], args[self.first :]
        rows = [empty(r.type.extents, r.type.dtype.numpy) for r in self.results[n:]]
        for t in range(count):
            if self.condition and not states[0]:
                break
            here = [
                np.asarray(x[count - 1 - t if back else t])
                for x, back in zip(slices, self.backwards, strict=True)
            ]
            number = {self.index: t} if self.index else {}
            made = run(self.body, [*states, *here, *captured], number)
            states = made[:n]
            for out, back, row in zip(rows, self.turned, made[n:], strict=True):
                out[count - 1 - t if back else t] = row
        return (*states, *rows)


Loop = TypeVar("Loop", bound=Scanning)


def largest_rounds(region: Region) -> dict[str, Dim]:
    """The sizes that loops or data give, and for each how many numbers it is one of, at most.

    At any level: a loop of a program has an index as well.
    """
    ranges: dict[str, Dim] = {}
    for op in walk_control(region):  # outer loops come before those within
        if op.control and op.attrs.get("index"):
            count = op.attrs.get("count", ENDLESS)
            name, most = op.attrs["index"], affine_facts.at_most(count, ranges)
            # a loop in one that was written out has several counts
            ranges[name] = affine_facts.larger(ranges.get(name, 0), most)
    return ranges


def require_closed(owner: Op) -> None:
    """ValueError where a region of an op uses what is neither its argument nor made in it."""
    for region in owner.regions:
        known = set(region.args)
        for op in region.ops:
            if not known.issuperset(op.operands):
                raise ValueError(f"{op.opname} uses what is outside of the body of {owner.opname}")
            known.update(op.results)
        if not known.issuperset(region.yields):
            raise ValueError(f"the body of {owner.opname} yields what is outside of it")


def surely_differ(left: Dim, right: Dim) -> bool:
    """Whether two extents are different whatever the symbols are."""
    if left == right:
        return False
    gap = affine.add(left, affine.multiply(right, -1))
    return isinstance(gap, int) and gap != 0


def lift(scan: Loop, movable: Callable[[Op], bool]) -> tuple[list[Op], Loop]:
    """The ops of a body that give the same in each round, and the scan that captures their results.

    Those are moved for which `movable` holds, whose operands are captured or moved, and which don't
    depend on the number of the round; what is no longer used is not captured.
    """
    args, operands = scan.body.args, scan.operands
    outside = dict(zip(args[scan.first :], operands[scan.first :], strict=True))
    moved: list[Op] = []
    kept: list[Op] = []
    for op in scan.body.ops:
        known = all(v in outside for v in op.operands)
        fixed = known and not (scan.index and scan.index in sizes_in(op))
        if fixed and movable(op):
            moved.append(op.rebuilt([outside[v] for v in op.operands]))
            for inner, outer in zip(op.results, moved[-1].results, strict=True):
                outer.hint = inner.hint
                outside[inner] = outer
        else:
            kept.append(op)
    used = {v for op in kept for v in op.operands}.union(scan.body.yields)
    captured = {inner: outer for inner, outer in outside.items() if inner in used}
    body = Region((*args[: scan.first], *captured), kept, scan.body.yields)
    return moved, scan.rebuilt((*operands[: scan.first], *captured.values()), (body,))
