"""Branches over whole tensors: what `graph.if` and `structured.if` have in common.

    %y = graph.if %c, %x {
    ^(%x: f32[8]): ... yield %a
    } {
    ^(%x: f32[8]): ... yield %b
    }

Where the condition holds the first region runs, else the second one. Both take all operands but the
condition, and use nothing else; both yield values of the same types.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from minicc.ir.affine import Dim
from minicc.ir.core import Op, Region, RunRegion, Value
from minicc.ir.scan import require_closed, surely_differ
from minicc.ir.types import BOOL, TensorType

CONDITION = TensorType(BOOL)


class Branching(Op):
    """One of two regions, which take what is captured, as the condition says."""

    condition: Value
    captured: tuple[Value, ...]
    then: Region
    other: Region
    control = True

    def infer(self) -> tuple[TensorType, ...]:
        require_closed(self)
        if self.condition.type != CONDITION:
            text = f"the condition of {self.opname} is {self.condition.type}, not {CONDITION}"
            raise TypeError(text)
        for region in self.regions:
            self._require_same("takes", self.captured, region.args)
        self._require_same("yields", self.then.yields, self.other.yields)
        return tuple([v.type for v in self.then.yields])

    def _require_same(self, what: str, have: Sequence[Value], want: Sequence[Value]) -> None:
        if len(have) != len(want):
            text = f"a branch of {self.opname} {what} {len(want)} values, not {len(have)}"
            raise TypeError(text)
        for x, y in zip(have, want, strict=True):
            same = x.type.dtype is y.type.dtype and x.type.rank == y.type.rank
            if not same or any(map(surely_differ, x.type.shape, y.type.shape)):
                raise TypeError(f"a branch of {self.opname} {what} {y.type}, not {x.type}")

    def same_extents(self) -> Iterator[tuple[Dim, Dim]]:
        """The extents that must be one: of what the branches take and are given, and yield."""
        pairs = [*zip(self.captured * 2, (*self.then.args, *self.other.args), strict=True)]
        pairs += zip(self.then.yields, self.other.yields, strict=True)
        for x, y in pairs:
            yield from zip(x.type.shape, y.type.shape, strict=True)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        condition, *captured = args
        return run(self.then if condition else self.other, captured)
