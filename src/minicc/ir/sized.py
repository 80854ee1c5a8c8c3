"""Sizes that data give within a program: what `graph.sized` and `structured.sized` share.

    %y = graph.sized %n, %x {count = 101, index = "$n0"} {
    ^(%x: f32[100]): %part = graph.slice %x {starts = [0], stops = [$n0], ...} ... yield %sum
    }

The region runs once, and in it the size `index` is the number. It uses nothing but its arguments,
which are the other operands. Places and extents of what is in it may depend on the size, those of
what it takes and yields may not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from minicc.ir import affine
from minicc.ir.affine import Dim
from minicc.ir.core import Op, Region, RunRegion, Value
from minicc.ir.scan import require_closed, surely_differ
from minicc.ir.types import I64, TensorType, static_shape


class Sizing(Op):
    """A region with a size that is one of `count` numbers, from 0 on.

    A number that is below or above them is taken for the nearest one.
    """

    number: Value
    inputs: tuple[Value, ...]
    count: Dim
    body: Region
    index: str
    control = True
    first = 1  # the first operand that is captured

    def infer(self) -> tuple[TensorType, ...]:
        require_closed(self)
        if self.number.type != TensorType(I64):
            raise TypeError(f"the number of {self.opname} is {self.number.type}")
        taken = [a.type for a in self.body.args]
        if len(taken) != len(self.inputs):
            raise TypeError(f"the body of {self.opname} takes {len(taken)} values")
        for v, want in zip(self.inputs, taken, strict=True):
            same = v.type.dtype is want.dtype and v.type.rank == want.rank
            if not same or any(map(surely_differ, v.type.shape, want.shape)):
                raise TypeError(f"the body of {self.opname} takes {want}, and is given {v.type}")
        made = [y.type for y in self.body.yields]
        if any(self.index in affine.symbols(n) for t in (*taken, *made) for n in t.shape):
            raise TypeError(f"the body of {self.opname} takes or yields an extent of {self.index}")
        return tuple(made)

    def same_extents(self) -> Iterator[tuple[Dim, Dim]]:
        """The extents that must be one: of what the body takes, and is given."""
        for v, a in zip(self.inputs, self.body.args, strict=True):
            yield from zip(v.type.shape, a.type.shape, strict=True)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return run(self.body, args[1:], {self.index: nearest(args[0], self.count)})


def nearest(number: Any, count: Dim) -> int:
    """The number itself where it is one of so many, from 0 on, else the nearest of them."""
    (known,) = static_shape((count,))
    return max(0, min(int(number), known - 1))
