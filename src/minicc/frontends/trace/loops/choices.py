"""Branches in a loop's body that traced conditions decide: each way through the body is recorded.

Where the body asks for the truth of a traced condition, the recording goes one way; at the end of
the round the body is recorded once more, the other way, until all ways are known. Both sides are
computed in each round, and what they leave is chosen by the condition: numbers and arrays that
names are bound to, and the contents of arrays that are written to. Where both sides write to the
same place of an array, or one writes and the other does not, the place alone is chosen.

Which array a name shows is then no longer known, so one that is chosen can't be written to in
place; and where two names share an array on one side alone, the loop is written out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, NoReturn

import numpy as np

from minicc.frontends.trace.lens import Content
from minicc.frontends.trace.loops.carried import Unlike
from minicc.frontends.trace.loops.indices import Index
from minicc.frontends.trace.loops.selected import selected
from minicc.frontends.trace.loops.tails import join_tails
from minicc.frontends.trace.numbers import Number
from minicc.frontends.trace.paths import value_key
from minicc.frontends.trace.pytree import PLAIN, mapped
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.tracer import Tracer
from minicc.ir import affine, graph
from minicc.ir.core import Op, Value
from minicc.ir.types import BOOL

_MOST = 64  # ways through a body
_LIGHT = 1 << 14  # numbers that one side computes, and the other has no need of


class Way(NamedTuple):
    """What one way through a body leaves: names, and contents of arrays by their boxes' ids.

    `ops` are those that it needs, by their first results.
    """

    sides: tuple[bool, ...]
    names: dict[str, Any]
    contents: dict[int, Content]
    ops: dict[Value, Op]


Put = graph.InsertSlice | graph.ScatterND  # writes to a place of an array
Left = tuple[dict[str, Any], dict[int, Content]]  # names, and contents of arrays
ANY = object()  # what a name is bound to that nobody reads


class Choices:
    """The ways through one recording of a body; `ways` are those that were gone."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.ways: list[Way] = []
        self.sides: list[bool] = []
        self.asked: list[Value] = []
        self.ops: dict[Value, Op] = {}
        self.conditions: dict[tuple[bool, ...], Value] = {}
        self._final: set[int] = set()  # of the sides those of which the others are known

    def side(self, condition: Value) -> bool:
        """Which side this way takes where the body asks."""
        for earlier, side in zip(self.asked, self.sides, strict=False):
            if earlier is condition:
                return side
        return self._sided(condition, True)

    def passed(self, condition: Value, stays: bool, left: Callable[[], Left]) -> None:
        """Go on where a round may leave the loop: `left` gives what it leaves then."""
        n = len(self.asked)
        if condition in self.asked:
            self.recorder.write_out("a round asks twice whether it leaves the loop")
        before = len(self.sides)
        if self._sided(condition, stays) is not stays:
            self.recorder.write_out("a round asks otherwise when it is recorded again")
        if before == n:
            self._final.add(n)
            self.ways.append(Way((*self.sides[:n], not stays), *left(), dict(self.ops)))

    def _sided(self, condition: Value, first: bool) -> bool:
        n = len(self.asked)
        self.asked.append(condition)
        if n == len(self.sides):
            self.sides.append(first)
        known = self.conditions.setdefault(tuple(self.sides[:n]), condition)
        if max(len(self.ways), len(self.sides)) >= _MOST:
            self.recorder.write_out("there are too many ways through a round")
        if known is not condition:
            self.recorder.write_out("a round asks otherwise when it is recorded again")
        return self.sides[n]

    def path(self) -> Iterator[tuple[Value, bool]]:
        """What this way has been asked so far, with the sides that it takes."""
        return zip(self.asked, self.sides, strict=False)

    def go_on(self, names: dict[str, Any], contents: dict[int, Content]) -> bool:
        """Remember what a way left; whether there is another to go."""
        if len(self.asked) < len(self.sides):
            self.recorder.write_out("a round asks otherwise when it is recorded again")
        self.ways.append(Way(tuple(self.sides), names, contents, self.ops))
        self.asked, self.ops = [], {}
        while self.sides and (not self.sides[-1] or len(self.sides) - 1 in self._final):
            self.sides.pop()
            self._final.discard(len(self.sides))
        if self.sides:
            self.sides[-1] = False
        return bool(self.sides)

    def is_heavy(self, ops: Sequence[Op]) -> bool:
        """Whether much of the work of these is for one side of a branch alone."""
        sided = [op for op in ops if len({op.results[0] in w.ops for w in self.ways}) > 1]
        return is_much(sided)

    def chosen(self, pick: Any, sides: tuple[bool, ...] = ()) -> Any:
        """What all ways together leave: `pick` takes a condition, and of each way a value."""
        here = next((w for w in self.ways if w.sides == sides), None)
        if here is not None:
            return here
        condition = self.conditions[sides]
        return pick(condition, *[self.chosen(pick, (*sides, s)) for s in (True, False)])


def is_much(ops: Collection[Op]) -> bool:
    """Whether ops are so much work that they are not done for nothing."""
    return sum(map(work, ops)) > _LIGHT


def is_worth_a_branch(ops: Collection[Op]) -> bool:
    """Whether it is worth a branch to do ops on one side alone, where all sides are much work."""
    return sum(map(work, ops)) > _LIGHT // 8


def work(op: Op) -> int:
    """About how many numbers an op computes."""
    if isinstance(op, (graph.Gather, graph.Slice)):
        values: Sequence[Value] = op.results
    elif isinstance(op, graph.InsertSlice):
        values = (op.new,)
    else:
        values = (*op.operands, *op.results)
    sizes = [math.prod(int(affine.typical(n)) for n in v.type.shape) for v in values]
    inner = sum(work(o) for region in op.regions for o in region.ops)
    if isinstance(op, graph.Contract):
        return math.isqrt(math.prod(sizes))  # for each product of two numbers has three letters
    return max(sizes, default=1) + inner * int(affine.typical(op.attrs.get("count", 1)))


class Chooser:
    """Chooses between what two ways leave."""

    def __init__(
        self,
        recorder: Recorder,
        choices: Choices,
        outer: Iterable[int],
    ) -> None:
        """`outer` are all arrays that were before the loop."""
        self.recorder = recorder
        self.choices = choices
        self.outer = set(outer)
        self._made: dict[Any, Any] = {}

    def way(self, start: dict[str, Any], args: dict[int, Content], live: Iterable[str]) -> Way:
        """What is left of all ways; `args` are what arrays held before that a round writes to."""
        names = sorted(set(live))
        shared = {self._shared(w.names, names) for w in self.choices.ways}
        if len(shared) > 1:
            self.recorder.write_out("names share an array on one side of a branch alone")

        def pick(condition: Value, then: Way, other: Way) -> Way:
            joined = join_tails(
                self.recorder, then.ops, other.ops, partial(self._content, condition)
            )
            then, other = (self._after(way, joined.values) for way in (then, other))
            bound = {
                n: self._name(condition, n, then.names.get(n), other.names.get(n), start.get(n))
                for n in names
            }
            contents: dict[int, Content] = {
                k: self._content(condition, *[w.contents.get(k, args[k]) for w in (then, other)])
                for k in args
            }
            return Way((), bound, contents, joined.ops)

        made: Way = self.choices.chosen(pick)
        # what single ways left would be taken for something that is used after the loop
        self.choices.ways = [w._replace(names={}, contents={}) for w in self.choices.ways]
        return made

    def _after(self, way: Way, values: dict[Value, Value]) -> Way:
        """A way whose end was recorded for another one, too."""
        if not values:
            return way
        leaves: list[Any] = []
        mapped(lambda leaf, at: leaves.append(leaf), list(way.names.values()))
        for x in leaves:  # arrays of other ways may hold these values, too
            for box in _boxes(x):
                root = box.root
                if (content := root.held()) in values:
                    root.hold(values[content], root.version)
                box.forget()
        held = {k: values.get(v, v) if isinstance(v, Value) else v for k, v in way.contents.items()}
        return way._replace(contents=held)

    def _shared(self, bound: dict[str, Any], names: Sequence[str]) -> tuple[int, ...]:
        """Which names show one array: for each the first that does."""
        first: dict[int, int] = {}
        found = [bound.get(n) for n in names]
        arrays = [x.root if isinstance(x, Tracer) and x.ndim else None for x in found]
        return tuple([k if a is None else first.setdefault(id(a), k) for k, a in enumerate(arrays)])

    def _name(self, condition: Value, name: str, then: Any, other: Any, start: Any) -> Any:
        """What a name is bound to; the loop is written out where that depends on the side."""
        if other is ANY or then is other or self._is_alike(then, other):
            return then
        if then is ANY:
            return other
        if type(then) is type(other) is tuple and len(then) == len(other):
            begun = start if type(start) is tuple and len(start) == len(then) else then
            parts = zip(then, other, begun, strict=True)
            return tuple([self._name(condition, name, *part) for part in parts])
        key = condition, id(then), id(other)
        if key not in self._made:
            for x in (then, other):
                old = isinstance(x, Tracer) and x.ndim and id(x.root) in self.outer
                if old and x is not start:
                    self._refuse(name)
            try:
                made = selected(self.recorder, condition, name, then, other)
            except Unlike:
                self._refuse(name)
            self._made[key] = made, then, other
        return self._made[key][0]

    def _is_alike(self, then: Any, other: Any) -> bool:
        if type(then) is not type(other):
            return False
        if type(then) is Index:
            return bool(then.dim == other.dim)
        if type(then) is Number:
            kinds = [
                (x.kind, *((*x.mixed.kinds, x.mixed.theirs.content) if x.mixed else (None,) * 4))
                for x in (then, other)
            ]
            same = all(a is b for a, b in zip(*kinds, strict=True))
            return same and self._is_alike(then.box, other.box)
        if isinstance(then, Tracer):
            mine, theirs = then.looks_at(), other.looks_at()
            if mine is not None or theirs is not None:
                return bool(mine and theirs and mine[0] is theirs[0]) and (
                    mine[1].key == theirs[1].key  # type: ignore[index]
                )
            made = not {id(then), id(other)} & self.outer
            return made and then.scalar == other.scalar and then.content is other.content
        return type(then) in (*PLAIN, range) and value_key(then) == value_key(other)

    def _lifted(self, content: Content) -> Value:
        return content if isinstance(content, Value) else self.recorder.lift(content)

    def _refuse(self, name: str) -> NoReturn:
        what = f"`{name}`" if name else "what ends it"
        self.recorder.write_out(f"{what} is another thing on each side of a branch")

    def _content(self, condition: Value, then: Content, other: Content) -> Value:
        """What an array holds: the place alone is chosen where a side wrote just one."""
        left, right = self._lifted(then), self._lifted(other)
        if left is right:
            return left
        mine, theirs = self._put(left), self._put(right)
        if mine is not None and theirs is not None and not _alike(mine, theirs):
            theirs = None
        put = mine or theirs
        if put is None:
            return self.recorder.emit(graph.Select, condition, left, right)
        sides = (mine, left), (theirs, right)
        under = self._content(condition, *[p.x if p else v for p, v in sides])
        new = [_new(p) if p else self._read(put, v) for p, v in sides]
        chosen = self.recorder.emit(graph.Select, condition, *new)
        if isinstance(put, graph.ScatterND):
            made = self.recorder.emit(graph.ScatterND, under, put.indices, chosen)
            self.recorder.fails_alike(made, [p.result for p, _ in sides if p])
            return made
        return self.recorder.emit(graph.InsertSlice, under, chosen, put.starts, put.steps)

    def _read(self, put: Put, content: Value) -> Value:
        """What stands at a place of other content."""
        if isinstance(put, graph.ScatterND):
            return self.recorder.emit(graph.GatherND, content, put.indices)
        places = zip(put.starts, put.new.type.extents, put.steps, strict=True)
        stops = tuple(start + (n - 1) * step + 1 for start, n, step in places)
        return self.recorder.emit(graph.Slice, content, put.starts, stops, put.steps)

    def _put(self, value: Value) -> Put | None:
        known = [self.choices.ops, *[w.ops for w in self.choices.ways]]  # chosen ones, too
        made = next((ops[value] for ops in known if value in ops), None)
        if isinstance(made, graph.ScatterND):
            return made if made.combine == "none" else None
        return made if isinstance(made, graph.InsertSlice) else None


def _boxes(x: Any) -> list[Tracer]:
    """The traced values that a value of Python's stands for."""
    if type(x) is Number and x.term is None:
        return [x.box] if x.mixed is None else [x.box, x.mixed.theirs]
    return [x] if isinstance(x, Tracer) else []


def _new(put: Put) -> Value:
    return put.updates if isinstance(put, graph.ScatterND) else put.new


def _alike(left: Put, right: Put) -> bool:
    """Whether two writes are to the same place in each round."""
    if isinstance(left, graph.ScatterND):
        return isinstance(right, graph.ScatterND) and left.indices is right.indices
    if isinstance(right, graph.ScatterND):
        return False
    same = left.starts == right.starts and left.steps == right.steps
    return bool(same and left.new.type == right.new.type)


def always(recorder: Recorder) -> Tracer:
    """The condition of a loop that its test does not end."""
    return Tracer(recorder, np.array(True), scalar=True)


def as_bool(recorder: Recorder, condition: Tracer) -> Value:
    """The truth of a condition."""
    value = recorder.reshape(condition.value(), ())
    element = value.type.dtype
    if element is not BOOL:
        value = recorder.emit(graph.Ne, value, recorder.scalar(0, element))
    return value
