"""Loops, branches and kernels by hand over whole tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from minicc.errors import UserError
from minicc.ir.affine import Dim
from minicc.ir.branch import Branching
from minicc.ir.by_hand import ByHand
from minicc.ir.core import Op, Region, RunRegion, Value
from minicc.ir.graph.host import Stating
from minicc.ir.scan import Scanning, require_closed, surely_differ
from minicc.ir.sized import Sizing
from minicc.ir.types import BOOL, I64, OPAQUE, TensorType


class Scan(Scanning, name="graph.scan"):
    """Run the body `count` times, hand on its states, and stack its rows; see `ir.scan`."""


class Kernel(ByHand, name="graph.kernel"):
    """A kernel that somebody wrote; see `ir.by_hand`."""


class If(Branching, Stating, name="graph.if"):
    """Run one of two regions, as a condition says; see `ir.branch`.

    With `types` the results have these, though the regions yield other ones: an extent that is not
    the same in both is a size that the op binds. Such a branch runs on the host, where one whose
    result has another extent than what follows wants is an error: the other may be taken.
    """

    types: tuple[TensorType, ...] = ()

    def infer(self) -> tuple[TensorType, ...]:
        if not self.types:
            return super().infer()
        require_closed(self)
        for region in self.regions:
            _require_given(self, [v.type for v in self.captured], region)
        made = [[v.type for v in region.yields] for region in self.regions]
        for types in made:
            _require_made(self, types, self.types, extents=False)
        if not any(_same_extents(types, self.types) for types in made):
            _require_made(self, made[0], self.types)
        return self.types

    def same_extents(self) -> Iterator[tuple[Dim, Dim]]:
        """The extents that must be one; what the branches yield need not be, where `types` say."""
        if not self.types:
            yield from super().same_extents()


class Sized(Sizing, name="graph.sized"):
    """Run the body with a size that data give; see `ir.sized`."""


class While(Stating, name="graph.while"):
    """Run the body while a condition holds, at most so many times, and stack its rows.

        %n, %rows = graph.while %limit, %go, %x, %w {states = 1, types = [...]} {
        ^(%i: i64, %go: bool, %x: f32[$x_0], %w: f32[8]): ... yield %goes_on, %new, %row
        }

    The operands are the limit, the condition of the first round, the states and what is captured.
    An `index` names a size of the body that is the round's number, as that of a scan does.
    The body takes the round's number and condition in place of the first two. A state's extent that
    changes from round to round is a size of the body, bound when it is entered. `types` are those
    of the results: the states, then the rows, stacked along a new axis 0.
    """

    inputs: tuple[Value, ...]
    states: int
    types: tuple[TensorType, ...]
    body: Region
    index: str = ""
    control = True

    def infer(self) -> tuple[TensorType, ...]:
        require_closed(self)
        scalars = [TensorType(I64), TensorType(BOOL)]
        if [v.type for v in self.operands[:2]] != scalars:
            raise TypeError(f"{self.opname} wants a limit and a condition, {scalars}")
        given = [v.type for v in self.operands]
        _require_given(self, given, self.body)
        made = [v.type for v in self.body.yields]
        if made[:1] != scalars[1:] or len(made) != 1 + len(self.types):
            raise TypeError(f"the body of {self.opname} yields {made}")
        n = self.states
        _require_made(self, made[1 : 1 + n], self.types[:n])
        rows = [t if t.dtype is OPAQUE else _row(t) for t in self.types[n:]]
        _require_made(self, made[1 + n :], rows)
        return self.types

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        limit, holds, n = int(args[0]), bool(args[1]), int(self.states)
        states, captured = list(args[2 : 2 + n]), args[2 + n :]
        rounds: list[Sequence[Any]] = []
        while holds and len(rounds) < limit:
            number, goes_on = np.array(len(rounds)), np.array(holds)
            sizes = {self.index: len(rounds)} if self.index else {}
            made = run(self.body, [number, goes_on, *states, *captured], sizes)
            holds, states = bool(made[0]), list(made[1 : 1 + n])
            rounds.append(made[1 + n :])
        return (*states, *[self._stacked(rounds, k) for k in range(len(self.types) - n)])

    def _stacked(self, rounds: Sequence[Sequence[Any]], position: int) -> Any:
        """The rows of all rounds upon one another; none for no rounds."""
        type = self.types[self.states + position]
        if not rounds:
            # of an extent that only a round would tell there is nothing
            shape = (0, *[n if isinstance(n, int) else 0 for n in type.shape[1:]])
            element = np.float32 if type.dtype is OPAQUE else type.dtype.numpy
            return np.zeros(shape, element)
        try:
            return np.stack([row[position] for row in rounds])
        except ValueError as error:
            text = f"what its rounds give has different shapes: {error}"
            raise UserError("MC0158", text, where=self.loc) from error


def _row(type: TensorType) -> TensorType:
    return TensorType(type.dtype, type.shape[1:])


def _require_given(op: Op, given: Sequence[TensorType], region: Region) -> None:
    """TypeError where a region takes other values than it is given."""
    taken = [a.type for a in region.args]
    if len(given) != len(taken):
        raise TypeError(f"a body of {op.opname} takes {len(taken)} values, and gets {len(given)}")
    _require_made(op, given, taken)


def _require_made(
    op: Op, made: Sequence[TensorType], wanted: Sequence[TensorType], *, extents: bool = True
) -> None:
    """TypeError where values do not fit types, which may say less than is known of them.

    Without `extents` only their kinds must: their numbers, ranks and element types.
    """
    if len(made) != len(wanted):
        raise TypeError(f"a body of {op.opname} has {len(made)} values, not {len(wanted)}")
    for have, want in zip(made, wanted, strict=True):
        if want.dtype is OPAQUE:
            continue
        same = have.dtype is want.dtype and have.rank == want.rank
        if not same or (extents and not _same_extents([have], [want])):
            raise TypeError(f"a body of {op.opname} has {have}, and {want} is wanted")


def _same_extents(made: Sequence[TensorType], wanted: Sequence[TensorType]) -> bool:
    """Whether values of the same kinds as types may have their extents."""
    pairs = zip(made, wanted, strict=True)
    return not any(any(map(surely_differ, a.shape, b.shape)) for a, b in pairs)
