"""Which tensors are changed in the memory that they lie in.

    for $i: %b = insert_slice %a, %row {starts = [$i, 0]}   -->   one buffer, whose rows are written

An op that changes a part of a tensor takes over its memory where nobody reads the tensor later. A
loop's state of which each round changes parts alone has one buffer for all rounds, and takes over
the memory of its first value likewise. What can't be done in place gets a copy.

Mirrors: MLIR's one-shot bufferisation (which reads conflict with a write in place), XLA's
in-place dynamic-update-slice in while loops. Ours looks at the order of ops alone, theirs at
overlap of slices, too.
"""

from __future__ import annotations

from typing import NamedTuple

from minicc.ir.core import Op, Region, Value
from minicc.ir.structured import Concat, Group, If, InsertSlice, Pad, Reshape, Scan


class InPlace(NamedTuple):
    """What is done in place.

    `taken` are the operands whose memory an op takes over (by op and number), `kept` the states of
    loops that have one buffer, and `direct` the insertions whose new part may be computed there.
    """

    taken: set[tuple[Op, int]]
    kept: set[tuple[Op, int]]
    direct: set[Op]


def find_in_place(region: Region, found: InPlace | None = None) -> InPlace:
    """What can be done in place in a region and all within it."""
    found = found or InPlace(set(), set(), set())
    for op in region.ops:
        for inner in op.regions:
            find_in_place(inner, found)
        if isinstance(op, Scan):
            pairs = zip(op.body.yields[: op.states], op.body.args, strict=False)
            makers = {r: inner for inner in op.body.ops for r in inner.results}
            found.kept.update(
                (op, k) for k, (y, a) in enumerate(pairs) if _changes(y, a, makers, found)
            )
    _Uses(region).enter(found)
    return found


def _changes(v: Value, start: Value, makers: dict[Value, Op], found: InPlace) -> bool:
    """Whether a value is another one after changes in place."""
    while v is not start:
        op = makers.get(v)
        k = op.results.index(v) if isinstance(op, Scan) else 0
        if op is None or (op, k) not in found.taken:
            return False
        if isinstance(op, Scan) and (op, k) not in found.kept:
            return False
        v = op.operands[k]
    return True


class _Uses:
    """Where the values of a region are made and used, by positions of its ops."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.root: dict[Value, Value] = {}
        self.made: dict[Value, int] = dict.fromkeys(region.args, -1)
        self.makers: dict[Value, Op] = {}
        self.uses: dict[Value, list[int]] = {}
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

    def enter(self, found: InPlace) -> None:
        """Enter what ops of the region do in place."""
        for position, op in enumerate(self.region.ops):
            states = op.states if isinstance(op, Scan) else 0
            for k in range(1 if isinstance(op, InsertSlice) else states):
                if self._last(op.operands[k], position):
                    found.taken.add((op, k))
            if isinstance(op, InsertSlice) and (op, 0) in found.taken and self._apart(op, position):
                found.direct.add(op)

    def _last(self, v: Value, position: int) -> bool:
        """Whether an op is the last to use a value whose memory may be written."""
        maker = self.makers.get(v)
        made = isinstance(maker, Group | Pad | Concat | If | InsertSlice | Scan)
        owned = made or (maker is None and v in self.region.args)
        uses = self.uses[self.root.get(v, v)]
        return owned and max(uses) == position and uses.count(position) == 1

    def _apart(self, op: InsertSlice, position: int) -> bool:
        """Whether what makes the new part may overwrite that of the old tensor."""
        begin = self.made.get(op.new, -1)
        late = [at for at in self.uses[op.x] if begin <= at < position]
        return self.made[op.x] < begin and not late
