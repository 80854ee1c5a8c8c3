"""What is decided of fusion: groups to be, and for each pair of neighbours why they are one or not.

`fuse` makes the plan with the judgements of `judge_fusion`, and what it prints is what it obeys. A
person may ask for pairs to be fused or kept apart, by the names of their nodes or results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from minicc.errors import UserError
from minicc.ir.core import Loc, Value
from minicc.ir.index_maps import plain_names
from minicc.ir.lengths import length
from minicc.ir.space import PARALLEL
from minicc.ir.structured import Generic
from minicc.passes.structured.contraction import contraction_of

LOOPS = 8  # instructions that an op takes besides its body

Pairs = Sequence[tuple[str, str]]


class Member:
    """An op of a draft, what it is as a product, and what its dimensions are called there."""

    __slots__ = ("contraction", "names", "op")

    def __init__(self, op: Generic, names: Mapping[str, str]) -> None:
        self.op = op
        self.contraction = contraction_of(op)
        self.names = names

    def axes(self, value: Value) -> tuple[str | None, ...]:
        """For each axis of a result, the dimension (by its name in the draft) that indexes it."""
        maps = self.op.maps_of(self.op.results.index(value))
        plain = [
            plain_names((es[0],)) if len(set(es)) == 1 else None for es in zip(*maps, strict=True)
        ]
        return tuple(self.names[p[0]] if p else None for p in plain)


class Draft:
    """A group to be.

    Its members, the dimensions shared so far, and where in the function it stands.
    """

    __slots__ = ("defines", "length", "members", "position", "read_outside", "shared")

    def __init__(self, op: Generic, position: int) -> None:
        self.members = [Member(op, {n: n for n in op.space.names})]
        self.shared = {i.name: i.extent for i in op.space.of_kind(PARALLEL)}
        self.defines: dict[Value, Member] = dict.fromkeys(op.results, self.members[0])
        self.length = length_of(op)
        self.position = position
        self.read_outside = False

    def append(self, op: Generic, names: Mapping[str, str], position: int) -> None:
        """Let `op` join with its dimensions called `names`.

        What it does not share is no longer shared.
        """
        member = Member(op, names)
        kept = {names[i.name] for i in op.space.of_kind(PARALLEL)}
        self.shared = {n: extent for n, extent in self.shared.items() if n in kept}
        self.members.append(member)
        self.length += length_of(op)
        self.defines.update(dict.fromkeys(op.results, member))
        if not self.read_outside:
            self.position = position

    def names(self) -> list[str]:
        """What all dimensions of the members are called."""
        return list(dict.fromkeys(n for m in self.members for n in m.names.values()))

    def absorb(self, other: Draft, names: Mapping[str, str]) -> None:
        """Take the members of another draft, whose dimensions are called `names` here, as first.

        What it does not share is no longer shared.
        """
        kept = {names[n] for n in other.shared}
        self.shared = {n: extent for n, extent in self.shared.items() if n in kept}
        members = [Member(m.op, {n: names[t] for n, t in m.names.items()}) for m in other.members]
        self.members = members + self.members
        self.length += other.length
        self.defines |= {v: m for m in members for v in m.op.results}

    def planned(self) -> Planned:
        """The group as it is decided."""
        return Planned(self.position, tuple(self.members), tuple(self.shared))


def length_of(op: Generic) -> int:
    """The instructions that an op takes in a group, about."""
    return LOOPS + length(op.body.ops)


class Planned(NamedTuple):
    """A group that is decided: after which op it stands, its members, the dimensions they share."""

    position: int
    members: tuple[Member, ...]
    shared: tuple[str, ...]

    def defines(self) -> list[Value]:
        """The values that the group makes."""
        return [v for m in self.members for v in m.op.results]


class Verdict(NamedTuple):
    """Whether an op joins a group, the reason in words, and what would change it.

    What is `firm` can't be asked for otherwise.
    """

    fused: bool
    reason: str
    remedy: str = ""
    firm: bool = False


class Decision(NamedTuple):
    """The verdict on a pair of neighbours: ops of a group that make a value, and one that reads it.

    They are told by the nodes that they compute for.
    """

    makers: tuple[Loc, ...]
    reader: Loc
    verdict: Verdict


class FusionPlan(NamedTuple):
    """The groups of a function, and the decisions that led to them in order."""

    groups: tuple[Planned, ...]
    decisions: tuple[Decision, ...]


class Wishes:
    """The pairs that a person wants fused or apart, what became of them, and the plans made."""

    def __init__(self, together: Pairs = (), apart: Pairs = ()) -> None:
        self.together = tuple(together)
        self.apart = tuple(apart)
        self.met: set[tuple[str, str]] = set()
        self.refused: dict[tuple[str, str], str] = {}
        self.plans: list[FusionPlan] = []

    def heard(self, verdict: Verdict, makers: Sequence[Generic], reader: Generic) -> Verdict:
        """The verdict on a pair as it is wanted, if that can be."""
        apart = _called(makers, reader, self.apart)
        self.met.update(apart)
        if apart and verdict.fused:
            return Verdict(False, f"asked for; of itself it would: {verdict.reason}")
        together = _called(makers, reader, self.together)
        if verdict.firm:
            self.refused |= dict.fromkeys(together, verdict.reason)
            return verdict
        self.met.update(together)
        if together and not verdict.fused:
            return Verdict(True, f"asked for; of itself it would not: {verdict.reason}")
        return verdict

    def require_met(self) -> None:
        """UserError for a pair that can't be fused (MC0139), or that are no neighbours (MC0138)."""
        hint = "minicc compile MODEL --fusion tells of all pairs"
        for pair in (*self.together, *self.apart):
            a, b = pair
            if pair in self.refused.keys() - self.met:
                text = f"{a} and {b} can't be fused: {self.refused[pair]}"
                raise UserError("MC0139", text, hint=hint)
            if pair not in self.met:
                text = f"no op {b!r} reads what an op {a!r} makes, where groups are formed"
                raise UserError("MC0138", text, hint=hint)


def _called(makers: Sequence[Generic], reader: Generic, pairs: Pairs) -> list[tuple[str, str]]:
    """Those of some pairs that are of these ops."""
    return [
        (a, b)
        for a, b in pairs
        if _is_called(reader, b) and any(_is_called(op, a) for op in makers)
    ]


def _is_called(op: Generic, name: str) -> bool:
    return name in op.loc or any(v.hint == name for v in op.results)
