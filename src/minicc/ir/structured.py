"""The structured dialect: iteration spaces, index maps and scalar bodies.

A matmul, a convolution, a pooling, a transpose and an add are all one op here,
`structured.generic`:

    %y = structured.generic %x, %w {
      space = <n=1, h=56, w=56, c=64 | kh=3, kw=3, k=64>,
      maps = [[n, h + kh, w + kw, k], [kh, kw, k, c], [n, h, w, c]], combine = ["add"], ...
    } { ^(%a: f32, %b: f32): %p = arith.mul %a, %b ... yield %p }

Laws. What the body yields has a map of its own and either no combiner (then every dimension of the
space is in its map, up to dimensions of extent 1) or one: then the dimensions that its map lacks
are reduced, in no stated order. A yield's map may visit an element twice (a last block that
overlaps its neighbour) only with equal values, or along a sequential dimension, whose points run in
order: the last one wins. An operand may be read where another one says (`indices`); of a yield the
map alone says where it goes. Several yields may fill one result (`into`): a point makes a small
block of it, as Winograd's transforms do, and of yields for one element the last one counts. Values
stay whole tensors; where they live is not said. A `structured.group` says which ops run together:
for each point of the `shared` dimensions, all its ops in order; what passes between them is seen in
full only after the group. A `structured.scan` is a loop whose body is groups and what else there is
of this level.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from minicc.ir import affine, affine_facts
from minicc.ir.affine import Dim
from minicc.ir.arith import COMBINERS, accumulated, identity_of, reduce_array
from minicc.ir.arrays import empty
from minicc.ir.branch import Branching
from minicc.ir.by_hand import ByHand
from minicc.ir.core import Array, Op, Region, RunRegion, Value
from minicc.ir.index_maps import Map, contiguous_name, names_of
from minicc.ir.indices import counted
from minicc.ir.mapped import copy
from minicc.ir.scan import Scanning
from minicc.ir.schedule import Schedule
from minicc.ir.sized import Sizing
from minicc.ir.space import REDUCTION, SEQUENTIAL, Space
from minicc.ir.structured_whole import Concat as Concat
from minicc.ir.structured_whole import Constant as Constant
from minicc.ir.structured_whole import InsertSlice as InsertSlice
from minicc.ir.structured_whole import Pad as Pad
from minicc.ir.structured_whole import Reshape as Reshape
from minicc.ir.structured_whole import Scatter as Scatter
from minicc.ir.types import I64, TensorType, is_index

HOLD, PARTIAL = 0, -1  # in place of a step
_CHUNK = 1 << 18  # points evaluated at once: what fits a second-level cache


class Generic(Op, name="structured.generic"):
    """Run `body` at each point of `space`; see the dialect's text.

    `maps` holds an expression an axis for each operand and then for each yield, over the space's
    names; `combine` a combiner or None a yield; `shapes` the results' shapes. A combiner goes over
    the dimensions that the map of its yield lacks; where that has a sequential dimension, there is
    at each of its points what is combined up to there. `into` says which
    result each yield is for, and is empty where each has its own. `coordinates` are expressions
    whose values (i64) the body takes after the elements. `indices` are names with an operand and
    an extent each: the name stands for the operand's element, counted from the end where negative
    and checked, and maps of other operands may use it. `nonzero` says where terms are not zero: an
    expression over the dimensions with two bounds, from the first on and below the second. The rest
    is the schedule's: `tile` says how many points of a dimension one step handles; sums restart in
    each of `blocks` of a reduction and in each round of `cut`; rounds of a reduction that `skips`
    names are left out where all their terms are zero; a loop over blocks of the reductions `around`
    stands around the loops over dimensions of the op's own, with totals in scratch; `ahead` says
    how many elements ahead in memory an operand is fetched, by all passes over it together.
    """

    inputs: tuple[Value, ...]
    space: Space
    maps: tuple[Map, ...]
    shapes: tuple[tuple[Dim, ...], ...]
    combine: tuple[str | None, ...]
    into: tuple[int, ...] = ()
    coordinates: tuple[Dim, ...] = ()
    indices: tuple[tuple[str, int, Dim], ...] = ()
    nonzero: tuple[tuple[Dim, Dim, Dim], ...] = ()
    ahead: tuple[tuple[int, int], ...] = ()
    tile: tuple[tuple[str, int], ...] = ()
    blocks: tuple[tuple[str, int], ...] = ()
    cut: tuple[str, ...] = ()
    skips: tuple[str, ...] = ()
    around: tuple[tuple[str, int], ...] = ()
    body: Region

    @property
    def input_maps(self) -> tuple[Map, ...]:
        """The maps of the operands."""
        maps: tuple[Map, ...] = self.maps
        return maps[: len(self.operands)]

    @property
    def yield_maps(self) -> tuple[Map, ...]:
        """The maps of what is yielded."""
        maps: tuple[Map, ...] = self.maps
        return maps[len(self.operands) :]

    @property
    def yield_vectors(self) -> tuple[str | None, ...]:
        """The dimension along which what each yield gives lies side by side, if there is one.

        Several yields that fill a result are its columns: there it is the last of their rows.
        """
        rows = [m[:-1] if self.into and isinstance(m[-1], int) else m for m in self.yield_maps]
        return tuple(map(contiguous_name, rows))

    @property
    def targets(self) -> tuple[int, ...]:
        """The number of the result that each yield is for."""
        return self.into or tuple(range(len(self.combine)))

    def maps_of(self, result: int) -> tuple[Map, ...]:
        """The maps of all yields that a result is filled by."""
        return tuple(
            m for m, target in zip(self.yield_maps, self.targets, strict=True) if target == result
        )

    def reduced(self, k: int) -> tuple[str, ...]:
        """The names of the dimensions that a yield is reduced over; none without a combiner."""
        if self.combine[k] is None:
            return ()
        seen = names_of(self.yield_maps[k])
        return tuple(n for n in self.space.names if n not in seen)

    @property
    def running(self) -> str:
        """The sequential dimension along which yields are combined up to each point; else ""."""
        combined = any(c is not None for c in self.combine)
        ordered = self.space.of_kind(SEQUENTIAL) if combined else ()
        return ordered[0].name if ordered else ""

    def infer(self) -> tuple[TensorType, ...]:
        elements = [TensorType(v.type.dtype) for v in self.operands] + [TensorType(I64)] * len(
            self.coordinates
        )
        if [a.type for a in self.body.args] != elements:
            taken = [a.type for a in self.body.args]
            raise TypeError(f"the body of {self.opname} takes {taken}, not {elements}")
        yielded = [y.type.dtype for y in self.body.yields]
        targets = self.targets
        if not len(yielded) == len(self.yield_maps) == len(self.combine) == len(targets):
            raise TypeError(f"{self.opname} yields {len(yielded)} values, not {len(self.combine)}")
        elements_of = dict(zip(targets, yielded, strict=True))
        if sorted(elements_of) != list(range(len(self.shapes))) or any(
            elements_of[t] is not d for t, d in zip(targets, yielded, strict=True)
        ):
            raise TypeError(f"the yields of {self.opname} do not fill {len(self.shapes)} results")
        return tuple(TensorType(elements_of[k], s) for k, s in enumerate(self.shapes))

    def verify(self) -> None:
        self._verify_indices()
        names = {n for e, _, _ in self.nonzero for n in affine.symbols(e) if not affine.is_size(n)}
        if names - {*self.space.names}:
            raise ValueError(f"terms are zero where unknown names say: {sorted(names)}")
        ranks = [v.type.rank for v in self.operands] + [len(self.shapes[t]) for t in self.targets]
        for k, (m, rank) in enumerate(zip(self.maps, ranks, strict=True)):
            unknown = {n for n in names_of(m) - set(self.space.names) if not affine.is_size(n)}
            if k < len(self.operands) and k not in {operand for _, operand, _ in self.indices}:
                unknown -= {name for name, _, _ in self.indices}
            if len(m) != rank or unknown:
                raise ValueError(
                    f"the map {m} does not fit rank {rank} or uses the unknown {sorted(unknown)}"
                )
        running = affine.symbol(self.running) if self.running else None
        for k, combine in enumerate(self.combine):
            if combine is not None and combine not in COMBINERS:
                raise ValueError(f"no combiner is called {combine}")
            if running is not None and (combine is None or self.yield_maps[k].count(running) != 1):
                raise ValueError(f"yield {k} is not combined along an axis {self.running}")
            if combine is not None and self.targets.count(self.targets[k]) > 1:
                raise ValueError(f"yield {k} has a combiner and does not fill a result alone")
            seen = names_of(self.yield_maps[k])
            for i in self.space.iters:
                if i.name not in seen and combine is None and i.extent != 1:
                    raise ValueError(
                        f"yield {k} has no combiner, and its map lacks the dimension {i.name}"
                    )
                if i.name not in seen and i.kind != REDUCTION and i.extent != 1:
                    raise ValueError(f"yield {k} is reduced over {i.name}, which is {i.kind}")
        self._verify_bounds()
        self._verify_coverage()

    def _verify_indices(self) -> None:
        names = [name for name, _, _ in self.indices]
        if len({*names, *self.space.names}) != len(names) + len(self.space.names):
            raise ValueError(f"the indices {names} and dimensions are not named apart")
        for name, k, extent in self.indices:
            negative = isinstance(extent, int) and extent < 0
            if not 0 <= k < len(self.operands) or negative:
                raise ValueError(f"the index {name} is of no operand, or below no extent")
            if not is_index(self.operands[k].type.dtype):
                raise TypeError(f"the index {name} can't be of {self.operands[k].type}")

    def _verify_bounds(self) -> None:
        if any(isinstance(i.extent, affine.Expr) or i.extent == 0 for i in self.space.iters):
            return
        if any(isinstance(n, affine.Expr) for _, _, n in self.indices) or self._free_maps():
            return
        extents = {**self.space.extents}
        extents.update((name, affine.number(n)) for name, _, n in self.indices)
        shapes = [v.type.shape for v in self.operands] + [self.shapes[t] for t in self.targets]
        alone = not self.into and not self.indices  # each result is written by one yield
        for k, (m, shape) in enumerate(zip(self.maps, shapes, strict=True)):
            for e, n in zip(m, shape, strict=True):
                low, high = affine_facts.bounds(e, extents)
                if low < 0 or (isinstance(n, int) and high >= n):
                    raise ValueError(
                        f"the map {m} leaves the shape {list(shape)} ({e} is {low}..{high})"
                    )
                short = isinstance(n, int) and (low > 0 or high < n - 1)
                if alone and short and k >= len(self.operands):
                    raise ValueError(f"the map {m} covers a part of {list(shape)} alone")

    def _verify_coverage(self) -> None:
        """ValueError where the points that yields write are surely fewer than a result has.

        Also where one axis has gaps; that a result whose maps mix their dimensions has none is
        left to the interpreter.
        """
        extents = {i.name: i.extent for i in self.space.iters}
        for result, shape in enumerate(self.shapes):
            maps = self.maps_of(result)
            points: Dim = 0
            for m in maps:
                points = points + _product([extents[n] for n in extents if n in names_of(m)])
            short = affine_facts.at_least(_product(shape) - 1, points)
            if short or (len(maps) == 1 and any(map(self._has_gaps, maps[0]))):
                written = " and ".join(map(str, maps))
                raise ValueError(f"the map {written} covers a part of {list(shape)} alone")

    def _has_gaps(self, e: Dim) -> bool:
        """Whether a sum of dimensions skips numbers between its least and its greatest."""
        split = affine_facts.linear(e, self.space.names)
        steps = [] if split is None else list(split[0].items())
        known = [(abs(c), n) for n, c in steps if isinstance(c, int)]
        reach: Dim = 0  # of the dimensions with smaller steps
        for step, n in sorted(known) if len(known) == len(steps) else ():
            extent = next(i.extent for i in self.space.iters if i.name == n)
            if affine_facts.at_least(step - 2, reach) and affine_facts.at_least(extent, 2):
                return True
            reach = reach + step * (extent - 1)
        return False

    def _free_maps(self) -> bool:
        return any(affine.is_size(n) for m in self.maps for n in names_of(m))

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        outs = [empty(r.type.extents, r.type.dtype.numpy) for r in self.results]
        if self._only_moves():
            self._move(np.asarray(args[0]), outs[0])
            return tuple(outs)
        if 0 in self.space.extents.values():
            for combine, target in zip(self.combine, self.targets, strict=True):
                if combine is not None:
                    dtype = self.results[target].type.dtype
                    outs[target][...] = identity_of(combine, dtype).array
            return tuple(outs)
        reduced = {n for k in range(len(self.combine)) for n in self.reduced(k)}
        ordered = [i.name for i in self.space.of_kind(SEQUENTIAL)]
        always = [n for n in self.space.names if n not in reduced and n not in ordered]
        others = [n for n in self.space.names if n in reduced]
        for point in itertools.product(*[range(self.space.extents[n]) for n in ordered]):
            fixed = {n: range(k, k + 1) for n, k in zip(ordered, point, strict=True)}
            for chunk in _chunks(self.space, always, _CHUNK):
                self._chunk(run, {**fixed, **chunk}, others, args, outs)
        for k, combine in enumerate(self.combine):
            if combine is not None and self.running:
                out, axis = (
                    outs[self.targets[k]],
                    self.yield_maps[k].index(affine.symbol(self.running)),
                )
                out[...] = accumulated(combine, out, axis)
        return tuple(outs)

    def _only_moves(self) -> bool:
        """Whether the op is a copy that writes its result in the order of its dimensions."""
        return (
            len(self.operands) == 1
            and not self.indices
            and self.combine == (None,)
            and list(self.body.yields) == list(self.body.args)
            and self.yield_maps[0] == tuple(map(affine.symbol, self.space.names))
        )

    def _move(self, x: Array, out: Array) -> None:
        """The copy by views of constant stride; dimensions under a minimum are taken one by one.

        `x` may be a view itself, as of a transposed array.
        """
        if not out.size:
            return
        names = self.space.names
        bent = [n for n in names if affine_facts.bends(self.maps[0], n)]
        pairs: list[tuple[Array, Array]] = []
        for point in itertools.product(*[range(self.space.extents[n]) for n in bent]):
            fixed = dict(zip(bent, point, strict=True))
            first: list[slice] = []
            strides = dict.fromkeys(names, 0)
            for e, stride in zip(self.maps[0], x.strides, strict=True):
                split = affine_facts.linear(affine.substitute(e, fixed), names)
                assert split is not None
                coefficients, rest = split
                assert isinstance(rest, int)
                first.append(slice(rest, None))
                for n, c in coefficients.items():
                    assert isinstance(c, int)
                    strides[n] += c * stride
            where = tuple(fixed.get(n, slice(None)) for n in names)
            shape = [self.space.extents[n] for n in names if n not in fixed]
            steps = [strides[n] for n in names if n not in fixed]
            source = as_strided(x[tuple(first)], shape, steps, writeable=False)
            pairs.append((out[(*where, ...)], source))
        copy(pairs, x)

    def _chunk(
        self,
        run: RunRegion,
        outer: dict[str, range],
        others: list[str],
        args: tuple[Any, ...],
        outs: list[Array],
    ) -> None:
        """All of the reductions `others` at a box of the other dimensions."""
        points = int(np.prod([len(r) for r in outer.values()], dtype=np.int64))
        totals: list[Any] = [None] * len(self.combine)
        for inner in _chunks(self.space, others, max(1, _CHUNK // points)):
            self._step(run, {**outer, **inner}, args, outs, totals)
        for k, total in enumerate(totals):
            if self.combine[k] is not None:
                _write(outs[self.targets[k]], self._locate(self.yield_maps[k], outer), total)

    def _locate(
        self, m: Map, ranges: dict[str, range], indices: Mapping[str, Array] | None = None
    ) -> tuple[Array, ...]:
        """Integer arrays that pick what a map visits.

        One axis of the space an axis of the array.
        """
        names = self.space.names
        at: dict[str, Array] = dict(indices or {})
        for axis, name in enumerate(names):
            r = ranges.get(name, range(1))
            at[name] = np.arange(r.start, r.stop).reshape(
                (1,) * axis + (-1,) + (1,) * (len(names) - axis - 1)
            )
        one = np.zeros((1,) * len(names), np.int64)
        return tuple(np.asarray(affine.evaluate(e, at)) + one for e in m)

    def _step(
        self,
        run: RunRegion,
        ranges: dict[str, range],
        args: tuple[Any, ...],
        outs: list[Array],
        totals: list[Any],
    ) -> None:
        names = self.space.names
        one = (1,) * len(names)

        def read(k: int, indices: Mapping[str, Array]) -> Array:
            x, m = np.asarray(args[k]), self.maps[k]
            return np.asarray(x[self._locate(m, ranges, indices)]) if m else x.reshape(one)

        indices = {
            n: counted(read(k, {}), affine.number(extent), self.loc)
            for n, k, extent in self.indices
        }
        elements = [read(k, indices) for k in range(len(args))]
        elements += [self._locate((e,), ranges)[0] for e in self.coordinates]
        shape = tuple(len(ranges[n]) for n in names)
        for k, y in enumerate(run(self.body, elements)):
            value = np.broadcast_to(np.asarray(y).reshape(np.shape(y) or one), shape)
            combine = self.combine[k]
            if combine is None:
                where = self._locate(self.yield_maps[k], ranges)
                _write(outs[self.targets[k]], where, value)
                continue
            gone = tuple(axis for axis, n in enumerate(names) if n in self.reduced(k))
            part = reduce_array(combine, value, gone, keepdims=True)
            if totals[k] is not None:
                part = COMBINERS[combine].compute(totals[k], part)
            totals[k] = part


def _product(extents: Iterable[Dim]) -> Dim:
    one: Dim = 1
    return functools.reduce(affine.multiply, extents, one)


def _write(out: Array, where: tuple[Array, ...], value: Array) -> None:
    """Store values at coordinates; a result of rank 0 has none."""
    if where:
        out[where] = value
    else:
        out[...] = value.reshape(())


def _chunks(space: Space, names: list[str], limit: int) -> Iterator[dict[str, range]]:
    """Cut the box of some dimensions into boxes of at most about `limit` points.

    The last dimensions are kept whole first.

    """
    steps: dict[str, int] = {}
    for name in reversed(names):
        steps[name] = max(1, min(space.extents[name], limit))
        limit //= steps[name]
    cuts = [
        [
            range(k, min(k + steps[n], space.extents[n]))
            for k in range(0, space.extents[n], steps[n])
        ]
        for n in names
    ]
    for box in itertools.product(*cuts):
        yield dict(zip(names, box, strict=True))


class Group(Op, name="structured.group"):
    """Ops that run together for each point of the dimensions named in `shared`.

    The order of the names is the order of the grid. `label` names the kernel that the group
    becomes. `schedule` is what is still to be done of its schedule. `cover` is the schedule's: for
    a shared dimension whose extent is free, how many points an instance has, and the steps in which
    it goes over them. It takes the first step as often as it fits; the rest is covered by the first
    of the others that is no longer than the extent, whose last step then overlaps what is before.
    A last step of `HOLD` says that the steps are those of `passes.structured.rows`: all of them
    may be the last one, which overlaps what is before it, or has points beyond the end that are
    the last one again. With a step of 1 before it a point alone is handled apart. A last step of
    `PARTIAL` says that what the first leaves over is taken in vectors, of which the last has fewer
    elements.
    """

    inputs: tuple[Value, ...]
    shared: tuple[str, ...]
    label: str = ""
    cover: tuple[tuple[str, int, tuple[int, ...]], ...] = ()
    schedule: Schedule | None = None
    body: Region

    def infer(self) -> tuple[TensorType, ...]:
        if [a.type for a in self.body.args] != [v.type for v in self.operands]:
            raise TypeError("the arguments of a group's body are not of the types of its operands")
        return tuple(y.type for y in self.body.yields)

    def verify(self) -> None:
        for op in self.body.ops:
            if not isinstance(op, Generic):
                raise ValueError(f"a group holds structured.generic alone, not {op.opname}")
            for name in self.shared:
                if name not in op.space:
                    raise ValueError(
                        f"the shared dimension {name} is missing in an op of the group"
                    )
                if any(name in op.reduced(k) for k in range(len(op.results))):
                    raise ValueError(
                        f"the shared dimension {name} is reduced in an op of the group"
                    )

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return run(self.body, args)


class Scan(Scanning, name="structured.scan"):
    """Run the body `count` times; the body itself makes each of its yields, which are distinct."""

    def verify(self) -> None:
        yields = self.body.yields
        made = {
            r for op in self.body.ops if not isinstance(op, (Constant, Reshape)) for r in op.results
        }
        if len({*yields}) < len(yields) or not made.issuperset(yields):
            raise ValueError(f"the body of {self.opname} does not make each of its yields")


class If(Branching, name="structured.if"):
    """Run one of two regions, as a condition says; see `ir.branch`."""


class Sized(Sizing, name="structured.sized"):
    """Run the body with a size that data give; see `ir.sized`."""


class Kernel(ByHand, name="structured.kernel"):
    """A kernel that somebody wrote; see `ir.by_hand`."""
