"""What rounds append to a list of which data decide how long it is.

Where a loop has a known number of rounds, it stacks what each would append, and whether it does.
Where data end the loop, an array with room for all that may come goes from round to round, and each
round writes what it appends after what is there, as a vector that grows does in C++. It has room
for as many elements as there may be, or else for those of some thousand rounds: NumPy runs a call
that has more.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from minicc.frontends.trace.dispatch import value_of
from minicc.frontends.trace.functions.masks import Masked
from minicc.frontends.trace.loops.body import State
from minicc.frontends.trace.loops.carried import Unlike
from minicc.frontends.trace.loops.filled import common, is_flat
from minicc.frontends.trace.loops.grown import Grown, like_in_data
from minicc.frontends.trace.loops.indices import Index
from minicc.frontends.trace.numbers import checked
from minicc.frontends.trace.pytree import leaves
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import Dispatch
from minicc.frontends.trace.tracer import Tracer
from minicc.ir import graph
from minicc.ir.core import Value
from minicc.ir.types import I64, TensorType

_ROUNDS = 4096  # for which there is room where nothing says how many there are
_BYTES = 1 << 20  # that the room for what one `append` appends may take
# of an array that only a list holds: the list, what it and arrays were, and five of who asks
_HOLDERS = 8


class Sifted:
    """What may be appended to a list in a round, and whether it is."""

    def __init__(
        self,
        recorder: Recorder,
        before: Sequence[Any],
        items: Sequence[Any],
        added: Sequence[Any],
    ) -> None:
        """`before` are the elements from before the loop, `added` says which `items` are appended.

        Raises Unlike where these are not all of one kind.
        """
        self.recorder = recorder
        like = common([*map(like_in_data, items)])
        self._items = [[value_of(recorder, x) for x in leaves(item)] for item in items]
        if like is None or len({tuple([v.type for v in values]) for values in self._items}) > 1:
            raise Unlike("gets elements of several kinds, as a condition decides")
        self.like = like
        self._before = [leaves(item) for item in before]
        shared = any(_is_shared(x) for item in self._before for x in item)
        # those that are no rows of an array that the list is all that holds
        self._first = [*before] if shared or {like} < {like, *map(like_in_data, before)} else []
        if self._first:
            self._before = []
            self._require_rows()
        self._all = all(yes is True for yes in added)
        self._added = [] if self._all else [value_of(recorder, yes) for yes in added]
        self._room: tuple[int, ...] = ()
        self._most: int | None = None  # elements that there is room for, where there may be more

    def _require_rows(self) -> None:
        """Unlike where the first elements are not of the shapes of those that rounds append."""
        shapes = [v.type.extents for v in self._items[0]]
        for item in self._first:
            found = [value_of(self.recorder, x).type.extents for x in leaves(item)]
            if like_in_data(item) is None or found != shapes or not is_flat(self.like):
                raise Unlike("begins with elements of other kinds than it gets")

    def rows(self) -> list[Value]:
        """What a loop stacks: the leaves of each element, and which of these are appended."""
        return [*[v for values in self._items for v in values], *self._added]

    def of_rows(self, stacked: Iterator[Tracer], refusal: BaseException) -> Grown:
        """The list, where `rows` are stacked; `refusal` says why it may be none of Python's."""
        each = [[next(stacked) for _ in values] for values in self._items]
        columns = [self._side_by_side(column) for column in zip(*each, strict=True)]
        if self._all:
            return self._made(columns, None, refusal)
        return self._made(columns, self._side_by_side([next(stacked) for _ in each]), refusal)

    def states(self, rounds: Any) -> list[State]:
        """What goes from round to round where elements are written one after the other.

        `rounds` is how many there may be; None where nothing says so.
        """
        recorder = self.recorder
        types = [v.type for v in self._items[0]]
        many = recorder.rounds.extent(rounds.dim) if type(rounds) is Index else rounds
        limit = min(_room(types), _ROUNDS) if rounds is None else _room(types)
        bounded = rounds is None or many > limit
        self._most = limit * len(self._items) if bounded else None
        most = rounds * len(self._items) if self._most is None else self._most
        room = most + 1  # the last one is for what is not appended
        self._room = (recorder.rounds.extent(room.dim) if type(room) is Index else room,)
        args = [Value(TensorType(t.dtype, (*self._room, *t.extents))) for t in types]
        count = Value(TensorType(I64))
        now, place = list[Value](args), count
        for k, values in enumerate(self._items):
            inside = place
            if self._most is not None:
                inside = recorder.emit(graph.Min, place, recorder.scalar(self._most, I64))
            at = recorder.reshape(inside, (1, 1))
            for n, value in enumerate(values):
                row = recorder.reshape(value, (1, *value.type.extents))
                now[n] = recorder.emit(graph.ScatterND, now[n], at, row, "none")
            one = recorder.cast(self._added[k], I64) if self._added else recorder.scalar(1, I64)
            place = recorder.emit(graph.Add, place, one)
        begun = [count, *args]  # `begin` has what it is
        return [State(*each) for each in zip(begun, begun, [place, *now], strict=True)]

    def begin(self) -> list[Value]:
        """What the states begin with."""
        recorder = self.recorder
        zeros = [(v.type, recorder.scalar(0, v.type.dtype)) for v in self._items[0]]
        whole = [recorder.broadcast(zero, (*self._room, *t.extents)) for t, zero in zeros]
        return [recorder.scalar(0, I64), *whole]

    def of_states(self, values: Iterator[Value], refusal: BaseException) -> Grown:
        """The list, where a loop has left the last `states`."""
        recorder = self.recorder
        count: Any = Tracer(recorder, next(values), scalar=True)
        columns = [Tracer(recorder, next(values)) for _ in self._items[0]]
        if self._most is not None:
            count = checked(count, count <= self._most)
        numbers = Tracer(recorder, recorder.emit(graph.Iota, self._room, 0, I64))
        return self._made(columns, numbers < count, refusal, count + len(self._before))

    def _made(
        self, columns: Sequence[Any], mask: Any, refusal: BaseException, count: Any = None
    ) -> Grown:
        recorder = self.recorder
        if self._before:
            first = zip(*self._before, strict=True)
            heads: list[Any] = [Dispatch.call(recorder, "stack", ([*x],), {}) for x in first]
            if any(a.dtype != b.dtype for a, b in zip(heads, columns, strict=True)):
                recorder.end(refusal)
            columns = [
                Dispatch.call(recorder, "concatenate", (list(pair),), {})
                for pair in zip(heads, columns, strict=True)
            ]
            if mask is not None:
                yes = [True] * len(self._before)
                mask = Dispatch.call(recorder, "concatenate", ([yes, mask],), {})
        if mask is not None:
            columns = [Masked(column, mask, None, None, refusal, count) for column in columns]
        return Grown(self.like, columns, refusal, self._first)

    def _side_by_side(self, arrays: Sequence[Tracer]) -> Tracer:
        """The rows of arrays, the first of each, then the second, and so on."""
        if len(arrays) == 1:
            return arrays[0]
        return flattened(self.recorder, Dispatch.call(self.recorder, "stack", ([*arrays], 1), {}))


def flattened(recorder: Recorder, array: Tracer) -> Tracer:
    """The rows of all rows of an array."""
    n, m, *shape = array.shape
    made: Tracer = Dispatch.call(recorder, "reshape", (array, (n * m, *shape)), {})
    return Tracer(recorder, made.content)


def _room(types: Sequence[TensorType]) -> int:
    """For how many rounds there is room at most, by what one of them appends."""
    size = sum(math.prod(t.extents) * t.dtype.numpy.itemsize for t in types)
    return max(1, _BYTES // max(size, 1))


def _is_shared(leaf: Any) -> bool:
    """Whether a leaf of an element is an array that the list may not be all that holds."""
    if not isinstance(leaf, Tracer) or leaf.scalar:
        return False
    return leaf.looks_at() is not None or sys.getrefcount(leaf) > _HOLDERS
