"""The loop of the graph that comes of a recorded body.

Mirrors: `jax.lax.scan`'s jaxpr, whose captured values became operands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from minicc.frontends.trace.dispatch import value_of
from minicc.frontends.trace.indices import Round
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.slabs import Slab, key_of_all, key_of_one
from minicc.frontends.trace.tracer import Tracer
from minicc.ir import graph
from minicc.ir.core import Op, Region, Value
from minicc.ir.rewrite import live, substituted
from minicc.ir.types import I64


class State(NamedTuple):
    """A state of the scan: what it begins with, what stands for it in the body, what follows."""

    before: Value
    arg: Value
    after: Value


class Body:
    """What a scan is made of: ops, states, slices of arrays, and rows."""

    def __init__(self, recorder: Recorder, number: Round, ops: Sequence[Op]) -> None:
        self.recorder = recorder
        self.number = number
        self.ops = list(ops)
        self.states: list[State] = []
        self.scanned: list[tuple[Value, Value, bool]] = []  # array, slice, the last one first
        self.rows: list[tuple[Value, bool]] = []
        self.stacked: Sequence[Value] = ()
        self.forward: dict[Value, Value] = {}  # what values of the recording became

    def add_slab(self, box: Tracer, slab: Slab) -> None:
        """Have rows in the place of an array that each round writes another place of."""
        number = self.number
        before = box.value()
        self.forward.update(dict.fromkeys(slab.sources, before))
        self.forward.update(slab.same)
        for value, region in slab.old.items():
            key, place, turned = key_of_all(region, number)
            cut = self._to_front(value_of(self.recorder, box[key]), place)
            self.forward[value] = Value(value.type)
            self.scanned.append((cut, self.forward[value], turned))
        after = slab.new
        for back in range(1, max(slab.handed.values(), default=slab.axis is None) + 1):
            given = box[key_of_one(slab.region, number, -back)]
            state = State(value_of(self.recorder, given), Value(slab.new.type), after)
            self.states.append(state)
            self.forward.update({v: state.arg for v, n in slab.handed.items() if n == back})
            after = state.arg
        if slab.axis is not None:
            self.rows.append((slab.new, slab.step < 0))

    def _to_front(self, value: Value, axis: int) -> Value:
        rest = [k for k in range(value.type.rank) if k != axis]
        return self.recorder.transpose(value, (axis, *rest))

    def write(self, box: Tracer, slab: Slab, rows: Iterator[Value], last: Value | None) -> None:
        """Write what all rounds wrote, or what the last one did where all wrote the same place."""
        if slab.axis is None:
            assert last is not None
            box[key_of_one(slab.region, self.number, 0)] = Tracer(self.recorder, last)
            return
        made = next(rows)
        key, place, _ = key_of_all(slab.region, self.number)
        order = list(range(1, made.type.rank))
        order.insert(place, 0)
        box[key] = Tracer(self.recorder, self.recorder.transpose(made, tuple(order)))

    def _forwarded(self, wanted: Sequence[Value]) -> tuple[list[Op], list[Value]]:
        """The ops without those whose results became others, and what is wanted of them."""
        rebuilt: dict[Value, Value] = {}

        def now(value: Value) -> Value:
            while value in self.forward:
                value = self.forward[value]
            return rebuilt.get(value, value)

        ops: list[Op] = []
        for op in self.ops:
            if self.forward.keys().isdisjoint(op.results):
                ops.append(op.rebuilt([now(v) for v in op.operands]))
                rebuilt.update(zip(op.results, ops[-1].results, strict=True))
        yields = [now(v) for v in wanted]
        return live(ops, yields), yields

    def emit(self, states: Sequence[State]) -> dict[Value, Value] | None:
        """The last states by what a round leaves of them; None where all that goes in is known."""
        recorder, number = self.recorder, self.number
        states = [*states, *self.states]
        wanted = [*[s.after for s in states], *[v for v, _ in self.rows]]
        ops, yields = self._forwarded(wanted)
        args = [s.arg for s in states]
        slices = [(cut, arg, back) for cut, arg, back in self.scanned]
        count = recorder.emit(graph.Iota, (number.count,), 0, I64)
        slices.append((count, number.value, False))
        captured, body = closed([*args, *[arg for _, arg, _ in slices]], ops, yields)
        given = [*[s.before for s in states], *[cut for cut, _, _ in self.scanned]]
        if recorder.are_known([*captured, *given]):
            return None
        made = recorder.emit_all(
            graph.Scan,
            [*[s.before for s in states], *[cut for cut, _, _ in slices], *captured],
            count=number.count,
            states=len(states),
            backwards=tuple(back for _, _, back in slices),
            turned=tuple(turned for _, turned in self.rows),
            body=body,
        )
        self.stacked = made[len(states) :]
        return dict(zip(wanted, made[: len(states)], strict=False))


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
