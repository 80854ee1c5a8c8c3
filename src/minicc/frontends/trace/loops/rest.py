"""The rest of the last round of a `for` that a test may leave before its end.

    for _ in range(100):
        new = f(x)
        if abs(new - x) < 1e-9:
            break
        x = new

The loop of the graph goes from one asking of its test to the next, so its states are what names are
where the test is asked. Where the items end before the test is true, the last round still has to
come to its end: what that leaves is known from the recording, which came by there, and is done in
one branch after the loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import islice
from typing import Any, NamedTuple

from minicc.frontends.trace.dispatch import content_of
from minicc.frontends.trace.lens import Content
from minicc.frontends.trace.loops.body import State, symbols_in
from minicc.frontends.trace.loops.carried import (
    Carried,
    CarriedCount,
    Unlike,
    Written,
    same_type,
    strides_of,
)
from minicc.frontends.trace.loops.extents import in_all_rounds
from minicc.frontends.trace.loops.sides import closed_in, outer
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.tracer import Tracer
from minicc.ir import graph
from minicc.ir.core import Op, Value
from minicc.ir.rewrite import copied, live
from minicc.ir.types import I64


class Rest:
    """What names and arrays are where a recording asks for its next item."""

    def __init__(
        self, recorder: Recorder, names: Mapping[str, Any], contents: Mapping[int, Content]
    ) -> None:
        """`contents` are those of arrays that the round has written to till there."""
        self.recorder = recorder
        self._names = {n: _as_it_is(recorder, v) for n, v in names.items()}
        self._contents = contents
        self._changed: dict[Value, Value] = {}  # what it leaves, by what stands for a state
        self._counted: set[str] = set()  # names whose count has grown
        self._written: list[tuple[Tracer, Value]] = []
        self._ops: list[Op] = []

    def take(
        self, carried: Mapping[str, Carried], written: Mapping[int, Written], outside: Set[int]
    ) -> bool:
        """See what of the states is changed there; whether that can be done after the loop.

        `outside` are the arrays from before the loop, by their identity.
        """
        self._changed, self._counted = {}, set()
        self._written = [(w.box, w.arg) for w in written.values()]
        arrays = [x for n, x in self._names.items() if n in carried and isinstance(x, _Held)]
        roots = {x.root for x in arrays}
        if len(roots) < len(arrays) or not roots.isdisjoint(outside):
            return False  # names would share memory
        try:
            for n, c in carried.items():
                for state in self._states(n, c):
                    self._note(state.arg, state.after)
            for k, w in written.items():
                self._note(w.arg, same_type(self.recorder, self._contents.get(k, w.arg), w.arg))
        except Unlike:
            return False
        return True

    def _note(self, arg: Value, after: Value) -> None:
        if after is not arg:
            self._changed[arg] = after

    def _states(self, name: str, kind: Carried) -> Sequence[State]:
        if name not in self._names:
            raise Unlike("is not bound")
        now = self._names[name]
        if isinstance(now, _Held):
            now = now.box
        if isinstance(kind, CarriedCount):
            if kind.agrees(now):
                self._counted.add(name)
            elif not kind.is_as_begun(now):
                raise Unlike("is another number")
            return []
        afters = kind.afters
        try:
            return kind.states(self.recorder, now)
        finally:
            kind.afters = afters

    def is_sure(self, recorded: Sequence[Op], rounds: Set[str], unsure: Set[Value]) -> bool:
        """Whether what it does is the same in all rounds, and can't fail."""
        self._ops = live(recorded, [*self._changed.values()])
        within = [op for outer in self._ops for r in outer.regions for op in r.ops]
        if self._is_within and any(map(symbols_in, within)):
            return False  # what is around turns extents of rounds into expressions, and not twice
        return all(
            symbols_in(op).isdisjoint(rounds) and unsure.isdisjoint(op.results) for op in self._ops
        )

    @property
    def _is_within(self) -> bool:
        """Whether the loop's extents stay what they are in the sample for now."""
        return bool(self.recorder.loops or self.recorder.rounds.sizes)

    def finish(
        self,
        goes_on: Value,
        last: Mapping[Value, Value],
        args: Iterable[Value],
        carried: Mapping[str, Carried],
        rounds: Value,
    ) -> dict[str, Any]:
        """Do the rest where the loop would go on; what names are to be bound to.

        `last` are the last states by what stands for them, which are those of arrays that are
        written to, and `args` for those of names. There were so many `rounds`.
        """
        recorder = self.recorder
        done = self._done(goes_on, last)
        for box, arg in self._written:
            if done[arg] is not last[arg]:
                box.hold(done[arg], box.version + 1)
        bound: dict[str, Any] = {}
        of_names = iter(args)
        for n, c in carried.items():
            mine = list(islice(of_names, c.width))
            if n in self._counted:
                one = recorder.cast(goes_on, I64)
                bound[n] = c.boxed(recorder, iter([recorder.emit(graph.Add, rounds, one)]))
            elif any(done[arg] is not last[arg] for arg in mine):
                bound[n] = box = c.boxed(recorder, iter([done[arg] for arg in mine]))
                if isinstance(box, Tracer) and box.ndim:
                    box.unsure = True
        return bound

    def _done(self, goes_on: Value, last: Mapping[Value, Value]) -> dict[Value, Value]:
        """The states after the rest, by what stands for them."""
        if not self._changed:
            return dict(last)
        left = [*self._changed.values()]
        captured = dict.fromkeys([*outer(self._ops, left), *self._changed])
        then = closed_in(captured, self._ops, left)
        other = closed_in(captured, [], [*self._changed])
        if not self._is_within:
            then, other = in_all_rounds(then), in_all_rounds(other)
        given = [last.get(v, v) for v in captured]
        then = copied(then)  # for a round has these ops, too
        made = self.recorder.emit_all(graph.If, goes_on, given, then=then, other=other)
        return {**last, **dict(zip(self._changed, made, strict=True))}


class _Held(NamedTuple):
    """What an array holds at one time; `root` is the identity of the memory that it shows."""

    root: int
    box: Tracer


def _as_it_is(recorder: Recorder, x: Any) -> Any:
    """A value that stays what it is when the round goes on; None for one that may not."""
    if not isinstance(x, Tracer) or x.scalar:
        return x
    if strides_of(x):
        return None
    return _Held(id(x.root), Tracer(recorder, content_of(recorder, x)))
