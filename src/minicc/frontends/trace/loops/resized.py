"""Arrays that each round of a captured loop makes longer or shorter, by the same along one axis.

    for k in range(n):
        v = 0.5 * (v[1:] + v[:-1])      # a row of a triangle, as of a binomial tree

The state has room for the longest of them; a round sees as much of it as its number says. So do
dynamic shapes in XLA, which have a bound and a size (`xla/service/dynamic_padder.h`).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from minicc.frontends.trace.dispatch import value_of
from minicc.frontends.trace.loops.body import State
from minicc.frontends.trace.loops.carried import Carried, CarriedArray, Unlike, strides_of
from minicc.frontends.trace.loops.extents import dim_of
from minicc.frontends.trace.loops.indices import Index
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import Dispatch
from minicc.frontends.trace.tracer import Tracer
from minicc.ir import affine, graph
from minicc.ir.affine import Dim
from minicc.ir.core import Value


class CarriedPart(CarriedArray):
    """A name of an array of which an axis grows by `step` in each round, or shrinks."""

    def __init__(
        self, recorder: Recorder, taken: CarriedArray, axis: int, step: int, rounds: int
    ) -> None:
        """Of a name that was `taken` for one of an array of one shape."""
        self.scalar, self.strides, self.box = False, (), taken.box
        self.axis, self.step = axis, step
        self._first: int = taken.before.type.extents[axis]
        self._last = self._first + step * rounds
        self.before = taken.before
        if step > 0:
            self.before = self._longer(recorder, taken.before, step * rounds)
        self.arg = Value(self.before.type, taken.arg.hint)
        self._start = None

    def _longer(self, recorder: Recorder, value: Value, by: int) -> Value:
        """A value with zeros after it."""
        shape = list(value.type.extents)
        shape[self.axis] = by
        zeros = np.zeros(shape, value.type.dtype.numpy)
        joined = [Tracer(recorder, value), zeros]
        return value_of(recorder, Dispatch.call(recorder, "concatenate", (joined, self.axis), {}))

    def begin(self, recorder: Recorder, number: str) -> Any:
        """As much of the state as the round with that number has."""
        self.arg = Value(self.arg.type, self.arg.hint)
        self._number = number
        self._start = self._part(recorder, self.arg, Index(recorder, self._extent(0)))
        self.box = weakref.ref(self._start)
        return self._start

    def _extent(self, ahead: int) -> Dim:
        """How long the array is in a round, so many rounds later."""
        grown = affine.multiply(affine.symbol(self._number), self.step)
        return affine.add(grown, self._first + self.step * ahead)

    def _part(self, recorder: Recorder, value: Value, extent: Any) -> Tracer:
        part: Any = Tracer(recorder, value)[(*[slice(None)] * self.axis, slice(None, extent))]
        return Tracer(recorder, part.copy().content)

    def boxed(self, recorder: Recorder, values: Iterator[Value]) -> Tracer:
        """What all rounds leave."""
        return self._part(recorder, next(values), self._last)

    def states(self, recorder: Recorder, now: Any) -> list[State]:
        """What a round leaves, in the place of what it had."""
        start, self._start = self._start, None
        if start is not None and start.written:
            raise Unlike("is bound to an array that each round writes to")
        value = value_of(recorder, now) if isinstance(now, Tracer) and not now.scalar else None
        wanted = [*self.arg.type.shape]
        wanted[self.axis] = self._extent(1)
        if value is None or value.type.dtype is not self.arg.type.dtype or strides_of(now):
            raise Unlike("is no array of the same element type after a round")
        if [dim_of(n) for n in value.type.extents] != wanted:
            raise Unlike("does not grow or shrink by the same in each round")
        rank = value.type.rank
        after = recorder.emit(graph.InsertSlice, self.arg, value, (0,) * rank, (1,) * rank)
        self.afters = [after]
        return [State(self.before, self.arg, after)]


Shapes = dict[str, tuple[int, ...]]
Changes = dict[str, tuple[int, int]]  # which axis, and by how much it grows


def shapes_of(names: Mapping[str, Any], number: str = "") -> Shapes:
    """The shapes of the arrays that some names are bound to, as far as they are numbers.

    What the number of a round says is told for the first one.
    """
    arrays = {n: x for n, x in names.items()
              if isinstance(x, Tracer) and not (x.scalar or x.pending)}  # fmt: skip
    shapes: dict[str, Any] = {
        n: tuple([affine.substitute(dim_of(m), {number: 0}) for m in x.shape])
        for n, x in arrays.items()
    }
    return {n: shape for n, shape in shapes.items() if all(type(m) is int for m in shape)}


def changes_of(before: Shapes, after: Shapes) -> Changes:
    """The names whose arrays have become longer or shorter along one axis: which, and by what."""
    found: Changes = {}
    for name in before.keys() & after.keys():
        pairs = [*zip(before[name], after[name], strict=False)]
        axes = [k for k, (n, m) in enumerate(pairs) if n != m]
        if len(axes) == 1 and len(before[name]) == len(after[name]):
            found[name] = axes[0], pairs[axes[0]][1] - pairs[axes[0]][0]
    return found


def of_changes(
    recorder: Recorder, names: Mapping[str, Any], changes: Changes, count: Any
) -> dict[str, Carried]:
    """How names are carried whose arrays a loop of a known number of rounds changes so."""
    known = {n: CarriedArray(recorder, names[n]) for n in sorted(changes.keys() & names)}
    shapes = {n: c.before.type.extents for n, c in known.items() if not c.strides}
    return {n: CarriedPart(recorder, known[n], *changes[n], count)
            for n in _lasting(changes, shapes, count)}  # fmt: skip


def resized(
    taken: Mapping[str, Carried], now: Mapping[str, Any], number: str, count: Any
) -> Changes:
    """Of names taken for those of arrays of one shape, those of which a round leaves another.

    Shapes are told by the `number` of the round.
    """
    kept = {n: c.arg.type.extents for n, c in taken.items()
            if type(c) is CarriedArray and not c.strides}  # fmt: skip
    before = {n: shape for n, shape in kept.items() if all(type(m) is int for m in shape)}
    changes = changes_of(before, shapes_of({n: now.get(n) for n in before}, number))
    return {n: changes[n] for n in _lasting(changes, before, count)}


def _lasting(changes: Changes, shapes: Shapes, count: Any) -> list[str]:
    """The names whose arrays have elements for a known number of rounds."""
    if type(count) is not int:
        return []
    pairs = [(n, *changes[n]) for n in changes if n in shapes]
    return [n for n, axis, step in pairs if shapes[n][axis] + step * count >= 0]
