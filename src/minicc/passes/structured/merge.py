"""Merge elementwise producers into their consumers: two generics become one with a longer body.

    %a = generic(x) { exp }   %y = generic(a, b) { add }   -->   %y = generic(x, b) { exp, add }

Legal: the producer has one parallel result, indexed by its plain dimensions. Profitable: nothing
is computed more often than before, the producer only moves data, or it is short, and what it gives
is more than the nearer caches hold and read at some places around each point (a stencil of a
stencil) or by a few reductions. Applying substitutes the producer's dimensions by what the consumer
reads.

Where a producer's result is not indexed by plain dimensions (grouped channels, a block of results
at a point), an elementwise consumer goes the other way: its dimensions are substituted by where
each yield goes. Its body then stands after the producer's, or, where the producer reduces, in an
op of its own over the producer's dimensions, which `fuse` can put beside it. Gathers have rules
of their own (`merge_gather`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import prod

from minicc.ir import affine
from minicc.ir.affine import Dim
from minicc.ir.build import Builder
from minicc.ir.core import Function, Module, Op, Region, Value
from minicc.ir.index_maps import Map, names_of, plain_names
from minicc.ir.lengths import length
from minicc.ir.rewrite import Rebuilder, everywhere, inline, live, merge_locations
from minicc.ir.space import REDUCTION, Space
from minicc.ir.structured import Generic
from minicc.ir.types import I64, TensorType
from minicc.passes.structured.merge_around import is_around, is_reduced, points_of, reads_of
from minicc.passes.structured.merge_gather import blends_rows, turns_rows, visits_indices

_LONGEST = 128  # instructions of a body, about: each merge copies it
_AGAIN = 64  # of them that are computed in place of one result and its reads
_REPEATED = 4  # times that elements are read, from which they are not written apart first


def merge(module: Module) -> Module:
    """Merge in every function, in one walk from the inputs to the outputs."""
    return Module(module.level, [everywhere(f, _merge_function) for f in module.functions])


class _Uses:
    """By how many ops each value is read, of those that are left when others have been merged.

    What two ops read that end in a third is read by that one alone in the end: it is merged there,
    and computed once.
    """

    def __init__(self, region: Region) -> None:
        self.made: dict[Value, Generic] = {}
        self._counts = dict.fromkeys(region.yields, 1)
        for op in region.ops:
            for v in set(op.operands):
                self._counts[v] = self.of(v) + 1

    def of(self, value: Value) -> int:
        """How many ops read a value; a function's result is read by its caller too."""
        return self._counts.get(value, 0)

    def rename(self, old: Value, new: Value) -> None:
        """Let a value stand for another one."""
        self._counts[new] = self.of(old)

    def replace(self, old: Generic, new: Generic) -> None:
        """Let an op read what another one, with which it has been merged, reads."""
        before, after = set(old.operands), set(new.operands)
        for v in after - before:
            self._counts[v] += 1
        self._unread(before - after)

    def _unread(self, values: Collection[Value]) -> None:
        for v in values:
            self._counts[v] -= 1
            if not self._counts[v] and v in self.made:
                self._unread(set(self.made[v].operands))


def _merge_function(function: Function) -> Function:
    readers: dict[Value, list[Op]] = {}
    for op in function.body.ops:
        for v in set(op.operands):
            readers.setdefault(v, []).append(op)
    for v in function.body.yields:
        readers.pop(v, None)
    around = {v for v in readers if is_around(v, readers) or is_reduced(v, readers)}
    uses = _Uses(function.body)
    forward: dict[Value, Value] = {}
    out: list[Op] = []
    for op in function.body.ops:
        current = op
        if any(v in forward for v in op.operands):
            current = op.rebuilt([forward.get(v, v) for v in op.operands])
        if isinstance(current, Generic):
            current = _absorb(current, uses, around)
        for old, new in zip(op.results, current.results, strict=True):
            if new is not old:
                new.hint = new.hint or old.hint
                forward[old] = new
                uses.rename(old, new)
                if old in around:
                    around.add(new)
        if isinstance(current, Generic) and len(current.results) == 1:
            uses.made[current.results[0]] = current
        out.append(current)
    yields = [forward.get(v, v) for v in function.body.yields]
    return function.with_body(Region(function.args, live(out, yields), yields))


def _absorb(consumer: Generic, uses: _Uses, around: set[Value]) -> Generic:
    progress = True
    while progress:
        progress = False
        for v in dict.fromkeys(consumer.operands):
            producer = uses.made.get(v)
            if producer is None:
                continue
            if uses.of(v) == 1 and follows(producer, consumer, v):
                reduces = any(c is not None for c in producer.combine)
                merged = (reindex if reduces else append)(producer, consumer, v)
                uses.replace(consumer, merged)
                return merged
            if not legal(producer, consumer, v):
                continue
            again = v in around and _is_short(producer, consumer, v, uses.made)
            if again or profitable(producer, consumer, v, uses.of(v)):
                merged = apply(producer, consumer, v, not again)
                uses.replace(consumer, merged)
                consumer, progress = merged, True
                break
    return consumer


def legal(producer: Generic, consumer: Generic, value: Value) -> bool:
    """Whether the producer's one parallel result is indexed by its plain dimensions.

    What makes indices stays apart, which are elements of an operand, unless it only moves them; so
    does a gather of which a consumer may skip indices and their checks.
    """
    indices = [consumer.operands[k] for _, k, _ in consumer.indices if not _moves(producer)]
    return (
        producer.combine == (None,)
        and (not producer.coordinates or _takes_places(producer, consumer))
        and value not in indices
        and plain_names(producer.yield_maps[0]) is not None
        and (not producer.indices or visits_indices(producer, consumer, reads_of(consumer, value)))
    )


def _takes_places(producer: Generic, consumer: Generic) -> bool:
    """Whether an op computes places that it reads: one number, or those among which one is found.

    That takes less time than to write and to read them, where vectors of what is compared have no
    more elements than those of places.
    """
    if not producer.space.names:
        return True
    found = set(consumer.combine) <= {"max", "min"}
    wide = all(v.type.dtype.bits >= 32 for v in consumer.operands)
    return found and wide and not producer.operands and len(producer.coordinates) == 1


def _moves(producer: Generic) -> bool:
    """Whether a producer gives elements of its one operand as they are."""
    return len(producer.operands) == 1 and producer.body.yields == producer.body.args


def _overlaps(producer: Generic) -> bool:
    """Whether windows of a tensor are moved that have most elements in common."""
    windows = [m for m in producer.input_maps if any(len(names_of((e,))) > 1 for e in m)]
    source = producer.operands[0].type.shape if windows else ()
    return bool(windows) and points_of(producer.space) >= _REPEATED * prod(
        map(affine.typical, source)
    )


def profitable(producer: Generic, consumer: Generic, value: Value, uses: int) -> bool:
    """Whether merging computes nothing more often.

    Or only moves data that an elementwise op then reads.
    """
    if not producer.operands and not producer.space.names:
        return True  # a number
    reads = reads_of(consumer, value)
    if not producer.body.ops and not producer.indices:
        if consumer.indices and points_of(consumer.space) >= points_of(producer.space):
            # rows that are read where data say are moved once, so that they lie in memory as read
            return not any(turns_rows(producer, consumer, m) for m in reads)
        # windows and contractions read an element often: they want it where it is contiguous
        elementwise = all(c is None for c in consumer.combine)
        return (
            elementwise
            or _overlaps(producer)
            or (all(plain_names(m) is not None for m in reads) and len(consumer.operands) > 1)
        )
    if uses != 1 or len(set(reads)) != 1:
        return False
    if producer.indices and not blends_rows(producer, consumer, reads[0]):
        return False
    if length(producer.body.ops) + length(consumer.body.ops) > _LONGEST:
        return False
    return points_of(producer.space) >= points_of(consumer.space)


def _is_short(
    producer: Generic, consumer: Generic, value: Value, made: Mapping[Value, Generic]
) -> bool:
    """Whether computing a producer at each place that a consumer reads is few instructions.

    One that ends a reduction is computed with that, at no cost.
    """
    again = length(producer.body.ops) * len({*reads_of(consumer, value)})
    whole = again + length(consumer.body.ops)
    ends = any(made[v].combine != (None,) for v in producer.operands if v in made)
    return bool(producer.body.ops) and not ends and again <= _AGAIN and whole <= _LONGEST


class _Reads:
    """The elements that a merged op reads: each read is made once."""

    def adopt(self, op: Generic) -> bool:
        """Take an op's own scalars for what it reads, if nothing read any of that before."""
        pairs = list(zip(op.operands, op.input_maps, strict=True))
        if not self._scalars.keys().isdisjoint(pairs) or len({*pairs}) < len(pairs):
            return False
        self._scalars.update(zip(pairs, op.body.args, strict=False))
        return True

    def __init__(self) -> None:
        self._scalars: dict[tuple[Value, Map], Value] = {}

    def element(self, v: Value, m: Map) -> Value:
        """The scalar that stands for `v` read at `m`."""
        if (v, m) not in self._scalars:
            self._scalars[v, m] = Value(TensorType(v.type.dtype))
        return self._scalars[v, m]

    def position(self, v: Value, m: Map) -> int:
        """The number of the operand that is `v` read at `m`."""
        return list(self._scalars).index((v, m))

    @property
    def inputs(self) -> list[Value]:
        """What is read."""
        return [v for v, _ in self._scalars]

    @property
    def maps(self) -> list[Map]:
        """Where it is read."""
        return [m for _, m in self._scalars]

    @property
    def scalars(self) -> list[Value]:
        """What stands for it in the body."""
        return list(self._scalars.values())


def _substituted(m: Map, at: Mapping[str, Dim]) -> Map:
    return tuple(affine.substitute(e, at) for e in m)


def apply(producer: Generic, consumer: Generic, value: Value, alone: bool = True) -> Generic:
    """The consumer with the producer's body in place of each element that it read of `value`.

    `alone` says that no other op reads it.
    """
    names = plain_names(producer.yield_maps[0])
    assert names is not None
    reads = _Reads()
    several = len({*reads_of(consumer, value)}) > 1
    body = Rebuilder()  # neighbours share what is alike
    body.loc = consumer.loc
    args: list[Value] = []
    inlined: dict[Map, Value] = {}  # once for each place at which the value is read
    places: dict[Value, Dim] = {}  # what stands for the producer's coordinates there
    # what has operands and ops is merged into one reader alone, unless that is so at each place
    whole = bool(producer.operands and producer.body.ops) and not several and alone
    whole &= not producer.coordinates
    for v, m in zip(consumer.operands, consumer.input_maps, strict=True):
        if v is not value:
            args.append(reads.element(v, m))
            continue
        if m not in inlined:
            if whole and not inlined and m == producer.yield_maps[0] and reads.adopt(producer):
                # the producer is gone then, and a long chain is not copied for each of its ops
                body.ops += producer.body.ops
                (inlined[m],) = producer.body.yields
            else:
                at = dict(zip(names, m, strict=True))
                made = [
                    reads.element(pv, _substituted(pm, at))
                    for pv, pm in zip(producer.operands, producer.input_maps, strict=True)
                ]
                inner = [Value(TensorType(I64)) for _ in producer.coordinates]
                (inlined[m],) = inline(body, producer.body, [*made, *inner])
                places |= zip(inner, _substituted(producer.coordinates, at), strict=True)
        args.append(inlined[m])
    # a gather's indices are read at one place
    at = dict(zip(names, next(iter(inlined)), strict=True))
    own = consumer.body.args[len(consumer.operands) :]
    yields = inline(body, consumer.body, [*args, *own])
    region = Region([*reads.scalars, *own, *places], live(body.ops, yields), yields)
    indices: list[tuple[str, int, Dim]] = []
    for name, k, extent in consumer.indices:
        v, m = consumer.operands[k], consumer.maps[k]
        if v is value:
            there = dict(zip(names, m, strict=True))
            v, m = producer.operands[0], _substituted(producer.maps[0], there)
        indices.append((name, reads.position(v, m), extent))
    for name, k, extent in producer.indices:
        place = _substituted(producer.maps[k], at)
        indices.append((name, reads.position(producer.operands[k], place), extent))
    attrs = {
        **consumer.attrs,
        "maps": (*reads.maps, *consumer.yield_maps),
        "indices": tuple(indices),
        "coordinates": (*consumer.coordinates, *places.values()),
    }
    loc = merge_locations(producer.loc, consumer.loc)
    return Generic.make(reads.inputs, attrs, (region,), loc)


def follows(producer: Generic, consumer: Generic, value: Value) -> bool:
    """Whether the consumer is elementwise on a result that no plain dimensions index."""
    place = consumer.yield_maps[0]
    return (
        any(plain_names(m) is None for m in producer.yield_maps)
        and consumer.combine == (None,)
        and not consumer.coordinates
        and not consumer.indices
        and plain_names(place) is not None
        and consumer.shapes == producer.shapes
        and all(
            m == place
            for v, m in zip(consumer.operands, consumer.input_maps, strict=True)
            if v is value
        )
    )


def reindex(producer: Generic, consumer: Generic, value: Value) -> Generic:
    """The consumer over the parallel dimensions of the producer, each point where that yields."""
    names = plain_names(consumer.yield_maps[0])
    assert names is not None
    at = dict(zip(names, producer.yield_maps[0], strict=True))
    space = Space(i for i in producer.space.iters if i.kind != REDUCTION)
    maps = tuple(_substituted(m, at) for m in consumer.maps)
    return consumer.rebuilt(consumer.operands, space=space, maps=maps)


def append(producer: Generic, consumer: Generic, value: Value) -> Generic:
    """The producer with the consumer's body after each of its yields."""
    names = plain_names(consumer.yield_maps[0])
    assert names is not None
    reads = _Reads()
    body = Builder(producer.loc)
    made = map(reads.element, producer.operands, producer.input_maps)
    yields: list[Value] = []
    yielded = inline(body, producer.body, list(made))
    body.loc = consumer.loc
    for place, y in zip(producer.yield_maps, yielded, strict=True):
        at = dict(zip(names, place, strict=True))
        args = [
            y if v is value else reads.element(v, _substituted(m, at))
            for v, m in zip(consumer.operands, consumer.input_maps, strict=True)
        ]
        yields += inline(body, consumer.body, args)
    region = Region(reads.scalars, live(body.ops, yields), yields)
    attrs = {**producer.attrs, "maps": (*reads.maps, *producer.yield_maps)}
    loc = merge_locations(producer.loc, consumer.loc)
    return Generic.make(reads.inputs, attrs, (region,), loc)
