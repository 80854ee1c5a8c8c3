"""Which tensors are changed in the memory that they lie in.

    for $i: %b = insert_slice %a, %row {starts = [$i, 0]}   -->   one buffer, whose rows are written

An op that changes a part of a tensor takes over its memory where nobody reads the tensor later. A
loop's state of which each round changes parts alone has one buffer for all rounds, and takes over
the memory of its first value likewise. What can't be done in place gets a copy: of what is around
the new part alone, where that is most of the tensor and can be computed in the copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from minicc.ir import affine, affine_facts
from minicc.ir.affine import Dim
from minicc.ir.core import Op, Region, Value
from minicc.ir.graph.shapes import product
from minicc.ir.index_maps import Map
from minicc.ir.structured import (
    PARTIAL,
    Concat,
    Generic,
    Group,
    If,
    InsertSlice,
    Pad,
    Reshape,
    Scan,
    Scatter,
    Sized,
)


class InPlace(NamedTuple):
    """What is done in place.

    `taken` are the operands whose memory an op takes over (by op and number), `kept` the states of
    loops that have one buffer, `direct` the insertions whose new part may be computed there, and
    `updates` the groups that read there what they replace, each element before it is written.
    `beside` are insertions into a copy of the tensor, where the new part may be computed as well.
    `outlived` are the operands of pads and concats that may not lie in the result, since they are
    read after it has changed. `changed` says of results of sized ops which operand they are after
    changes in place.
    """

    taken: set[tuple[Op, int]]
    kept: set[tuple[Op, int]]
    direct: set[Op]
    beside: set[Op]
    updates: set[Op]
    outlived: set[tuple[Op, int]]
    changed: dict[Value, int]


def find_in_place(
    region: Region, found: InPlace | None = None, rounds: Mapping[str, Dim] = MappingProxyType({})
) -> InPlace:
    """What can be done in place in a region and all within it.

    `rounds` are the indices of the loops around, and how many rounds these have.
    """
    found = found or InPlace(set(), set(), set(), set(), set(), set(), {})
    for op in region.ops:
        within = rounds
        if isinstance(op, Scan | Sized) and op.index:
            within = {**rounds, op.index: op.count}
        for inner in op.regions if op.control else ():
            find_in_place(inner, found, within)
        if isinstance(op, Scan):
            pairs = zip(op.body.yields[: op.states], op.body.args, strict=False)
            found.kept.update(
                (op, k) for k, (y, a) in enumerate(pairs) if changes(op.body, y, a, found)
            )
        if isinstance(op, Sized):
            for r, y in zip(op.results, op.body.yields, strict=True):
                for k, a in enumerate(op.body.args, 1):
                    if changes(op.body, y, a, found):
                        found.changed[r] = k
    _Uses(region, rounds, found).enter()
    return found


def changes(region: Region, v: Value, start: Value, found: InPlace) -> bool:
    """Whether a value of a region is an argument of it after changes in place."""
    makers = {r: op for op in region.ops for r in op.results}
    return v is not start and _changes(v, start, makers, found)


def replaces(region: Region, v: Value, start: Value, found: InPlace) -> bool:
    """Whether a group makes a value of an argument, each element of the one that it replaces.

    Nothing reads the argument later. The group becomes one of the `updates`.
    """
    uses = _Uses(region, {}, found)
    maker = uses.makers.get(v)
    while isinstance(maker, Reshape):
        v, maker = maker.x, uses.makers.get(maker.x)
    if not isinstance(maker, Group):
        return False
    read = [x for x in maker.operands if uses.root.get(x, x) is start]
    if len(read) != 1 or read[0].type != v.type:
        return False
    if max(uses.uses[start]) != uses.made[v]:
        return False
    rank = v.type.rank
    whole = InsertSlice(
        read[0], v, starts=(0,) * rank, steps=(1,) * rank, axes=tuple(range(rank)), loc=maker.loc
    )
    if uses.reads_apart(maker, whole):
        found.updates.add(maker)
        return True
    return False


def _changes(v: Value, start: Value, makers: dict[Value, Op], found: InPlace) -> bool:
    """Whether a value is another one after changes in place."""
    while v is not start:
        op = makers.get(v)
        k = op.results.index(v) if isinstance(op, Scan) else found.changed.get(v, 0)
        if op is None or (op, k) not in found.taken:
            return False
        if isinstance(op, Scan) and (op, k) not in found.kept:
            return False
        v = op.operands[k]
    return True


class _Uses:
    """Where the values of a region are made and used, by positions of its ops."""

    def __init__(self, region: Region, rounds: Mapping[str, Dim], found: InPlace) -> None:
        self.region = region
        self.rounds = rounds
        self.found = found
        self.root: dict[Value, Value] = {}
        self.made: dict[Value, int] = dict.fromkeys(region.args, -1)
        self.makers: dict[Value, Op] = {}
        self.uses: dict[Value, list[int]] = {}
        # where the first that goes into a value is written, which may lie in its memory
        self.begun: dict[Value, int] = {}
        self.within: dict[Value, set[Value]] = {}  # all that may
        for position, op in enumerate(region.ops):
            self.made.update(dict.fromkeys(op.results, position))
            self.makers.update(dict.fromkeys(op.results, op))
            if isinstance(op, Reshape):
                self.root[op.result] = self.root.get(op.x, op.x)
                continue
            for v in op.operands:
                self.uses.setdefault(self.root.get(v, v), []).append(position)
        for v in region.yields:
            self.uses.setdefault(self.root.get(v, v), []).append(len(region.ops))

    def enter(self) -> None:
        """Enter what ops of the region do in place."""
        found = self.found
        for position, op in enumerate(self.region.ops):
            for k in _replaced(op, found):
                if self._last(op.operands[k], position):
                    found.taken.add((op, k))
            if isinstance(op, InsertSlice) and not self._outlives(op.new, op.result, position):
                self._insertion(op, position)
            if isinstance(op, Pad | Concat):
                found.outlived.update(
                    (op, k)
                    for k, v in enumerate(op.operands)
                    if self._outlives(v, op.result, position)
                )
            for r, into in self._parts(op):
                self.begun[r] = min((self.begun.get(v, -1) for v in into), default=position)
                self.within[r] = {
                    w for v in into for w in (self.root.get(v, v), *self.within.get(v, ()))
                }

    def _insertion(self, op: InsertSlice, position: int) -> None:
        """Enter where the new part of a tensor may be computed."""
        if _is_most(op, self.rounds):
            self.found.beside.add(op)
        if (op, 0) in self.found.taken and self._apart(op, position):
            self.found.direct.add(op)
            maker = self.makers.get(op.new)
            if isinstance(maker, Group) and op.x in maker.operands:
                self.found.updates.add(maker)

    def _parts(self, op: Op) -> Iterator[tuple[Value, Sequence[Value]]]:
        """The results of an op, each with what may lie in its memory before it is made."""
        for position, r in enumerate(op.results):
            into: Sequence[Value] = ()
            k = self.found.changed.get(r, position)
            if isinstance(op, Pad | Concat | Reshape):
                into = op.operands
            elif isinstance(op, InsertSlice):
                computed = op in self.found.direct or op in self.found.beside
                into = op.operands[(op, 0) not in self.found.taken : 1 + computed]
            elif (op, k) in self.found.taken:
                into = op.operands[k : k + 1]
            yield r, into

    def _last(self, v: Value, position: int) -> bool:
        """Whether an op is the last to use a value whose memory may be written."""
        maker = self.makers.get(v)
        made = isinstance(maker, _MAKERS)
        owned = made or (maker is None and v in self.region.args)
        uses = self.uses[self.root.get(v, v)]
        return owned and max(uses) == position and uses.count(position) == 1

    def _apart(self, op: InsertSlice, position: int) -> bool:
        """Whether what makes the new part may overwrite that of the old tensor."""
        begin = self.begun.get(op.new, -1)
        there = (op.x, *self.within.get(op.x, ()))
        late = {at for v in there for at in self.uses.get(v, ()) if begin <= at < position}
        if not late:
            return self.made[op.x] < begin
        maker = self.makers.get(op.new)
        return late == {begin} and isinstance(maker, Group) and self.reads_apart(maker, op)

    def _outlives(self, part: Value, whole: Value, position: int) -> bool:
        """Whether a part of what is made at a position is read when the whole has changed again."""
        last = max(self.uses[self.root.get(part, part)])
        return last > position and any(at <= last for at in self._changes(whole))

    def _changes(self, whole: Value) -> Iterator[int]:
        """Where a tensor may first be changed in its memory, or one in which it may lie."""
        for at in self.uses.get(self.root.get(whole, whole), ()):
            op = self.region.ops[at] if at < len(self.region.ops) else None
            changed = [op.operands[k] for k in _replaced(op, self.found)] if op else []
            if any(self.root.get(v, v) is whole for v in changed):
                yield at
            elif isinstance(op, Pad | Concat | InsertSlice):
                yield from self._changes(op.result)

    def reads_apart(self, maker: Group, op: InsertSlice) -> bool:
        """Whether a group reads nothing of a tensor that it writes before.

        One that writes a single element has read all by then.
        """
        if len(maker.results) == 1 and all(n == 1 for n in op.new.type.shape):
            return True
        there = {op.x, *self.within.get(op.x, ())}
        if any(v is not op.x for v in maker.operands if self.root.get(v, v) in there):
            return False  # in another shape or as a part the places have other names
        arg = maker.body.args[maker.operands.index(op.x)]
        readers = [g for g in maker.body.ops if isinstance(g, Generic) and arg in g.operands]
        made = maker.body.yields[maker.results.index(op.new)]
        return all(
            misses(g, g.maps[k], op, self.rounds)
            or (made in g.results and not _overlaps(maker) and _replaces(g, g.maps[k], made, op))
            for g in readers
            for k, v in enumerate(g.operands)
            if v is arg
        )


def _is_most(op: InsertSlice, rounds: Mapping[str, Dim]) -> bool:
    """Whether the new part is a box, the same in all rounds, and at least half of the tensor."""
    part = op.extents()
    fixed = all(affine.symbols(n).isdisjoint(rounds) for n in (*op.starts, *part))
    size, whole = (affine.typical(product(shape)) for shape in (part, op.x.type.shape))
    return fixed and all(step == 1 for step in op.steps) and 2 * size >= whole > 0


def misses(reader: Generic, read: Map, op: InsertSlice, rounds: Mapping[str, Dim]) -> bool:
    """Whether elements that a generic reads surely are others than those that are replaced.

    `rounds` are the indices of the loops around, and how many rounds these have.
    """
    counts = {**rounds, **{i.name: i.extent for i in reader.space.iters}}
    counts |= {name: extent for name, _, extent in reader.indices}
    for at, start, n, step in zip(read, op.starts, op.extents(), op.steps, strict=True):
        last = start + (n - 1) * step
        gaps = (start - at - 1, at - last - 1)
        if any(_natural(affine_facts.extreme_within(g, counts, most=False)) for g in gaps):
            return True
    return False


# what makes tensors in memory that may be changed
_MAKERS = Group | Pad | Concat | If | InsertSlice | Scatter | Scan | Sized


def _replaced(op: Op, found: InPlace) -> Iterable[int]:
    """The operands of which an op's results may be what is left after changes in place."""
    if isinstance(op, Scan):
        return range(op.states)
    if isinstance(op, Sized):
        return [found.changed[r] for r in op.results if r in found.changed]
    return range(1 if isinstance(op, InsertSlice | Scatter) else 0)


def _overlaps(group: Group) -> bool:
    """Whether blocks of a group may compute what others have computed.

    Those of a single dimension end with a part of a vector.
    """
    single = all(len(op.space.iters) == 1 for op in group.body.ops if isinstance(op, Generic))
    return any(not single or steps[-1] != PARTIAL for _, _, steps in group.cover)


def _replaces(op: Generic, read: Map, made: Value, into: InsertSlice) -> bool:
    """Whether an op reads at each point what its result replaces there, and once alone.

    Blocks that overlap compute what they share twice: from what they wrote, the second time.
    """
    k = op.results.index(made)
    names = tuple(op.space.names)
    if op.combine[k] is not None or any(affine_facts.linear(e, names) is None for e in read):
        return False
    place = dict(zip(into.axes, op.yield_maps[k], strict=True))
    pairs = zip(read, into.starts, into.steps, strict=True)
    return all(
        at == affine.add(start, affine.multiply(place.get(axis, 0), step))
        for axis, (at, start, step) in enumerate(pairs)
    )


def _natural(value: Dim) -> bool:
    return affine_facts.at_least(value, 0)
