"""Make loops whose rounds need nothing of one another operations on whole arrays.

    graph.scan %y, %x { %s = slice %x [$i0]; %t = graph.exp %s; insert_slice %y, %t [$i0] }
    -->   %t = graph.exp %x; graph.insert_slice %y, %t [0]

All that a round computes gets an axis of rounds in front: a slice at the number of the round is one
of all such places, elementwise ops stay what they are, reductions and contractions keep that axis.
A state that each round writes at a place of its own is written at once; one to which each round
adds becomes a sum over the rounds, which takes another order: in strict mathematics, integers
alone. Loops within are done before those around them, so that nests become operations over several
axes, and a sum of products a contraction. JAX's `vmap` treats a function so, whatever it is for.

A plan is no list of decisions here: a loop is rebuilt apart, and taken where all of it could be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from string import ascii_lowercase
from typing import Any, NamedTuple

import numpy as np

from minicc.ir import affine, affine_facts, graph
from minicc.ir.affine import Dim, symbol
from minicc.ir.bind import sizes_in
from minicc.ir.build import Builder
from minicc.ir.core import Literal, Op, Value
from minicc.ir.graph.shapes import product
from minicc.ir.types import F32, F64, I64
from minicc.passes.graph.streams import LARGE, streamed

_MOST = 1 << 22  # elements of what all rounds compute together


class _Unbatched(Exception):
    """A loop needs its rounds one after the other, or is better so."""


class _Written(NamedTuple):
    """A state that each round writes at a place of its own: the insertions, and along which axis.

    The place there is `step` times the number of the round, and `start`.
    """

    chain: tuple[graph.InsertSlice, ...]
    axis: int
    step: int
    start: Dim


class _Summed(NamedTuple):
    """A state to which each round adds `term`, or where a condition holds."""

    term: Value
    holds: Value | None
    ops: tuple[Op, ...]


class _Last(NamedTuple):
    """A state of which the last round alone tells what it is."""

    value: Value


State = _Written | _Summed | _Last


def batch(
    scan: graph.Scan, strict: bool, around: Mapping[str, Dim]
) -> tuple[list[Op], Sequence[Value]] | None:
    """The ops that do what a loop does for all rounds at once, and its results; None for others.

    `around` are the sizes that loops around give, and for each how many numbers it is one of.
    """
    if scan.condition or scan.count == 0 or not (scan.index or scan.backwards):
        return None
    try:
        return _Batch(scan, strict, around).run()
    except _Unbatched:
        return None


class _Batch:
    """Rebuilds the body of a loop; `values` are what became of its values."""

    def __init__(self, scan: graph.Scan, strict: bool, around: Mapping[str, Dim]) -> None:
        self.scan = scan
        self.strict = strict
        self.around = around
        self.count = scan.count
        self.b = Builder(scan.loc)
        self.values: dict[Value, Value] = {}
        self.turning: set[Value] = set()  # values of the body that differ from round to round
        self.plain: dict[Value, Value] = {}  # what reshaped values are of
        self.makers = {r: op for op in scan.body.ops for r in op.results}
        self.uses: dict[Value, list[Op]] = {v: [] for v in (*scan.body.args, *self.makers)}
        for op in scan.body.ops:
            for v in op.operands:
                self.uses[v].append(op)
        self.yields = Counter(scan.body.yields)
        self.streamed = streamed(scan, self.uses)

    def run(self) -> tuple[list[Op], Sequence[Value]]:
        """The ops and what became of the loop's results."""
        scan, n = self.scan, self.scan.states
        args, yields = scan.body.args, scan.body.yields
        self.values.update(zip(args, scan.operands, strict=True))
        for a, back in zip(args[n : scan.first], scan.backwards, strict=True):
            self.values[a] = self.flipped(self.values[a]) if back else self.values[a]
            self.turning.add(a)
        states = [self.state(a, y) for a, y in zip(args, yields[:n], strict=False)]
        done = {op for s in states for op in (s.chain if isinstance(s, _Written) else
                                              s.ops if isinstance(s, _Summed) else ())}  # fmt: skip
        for op in scan.body.ops:
            if op not in done:
                self.b.loc = op.loc
                self.op(op)
        self.b.loc = scan.loc
        results = [self.result(a, s) for a, s in zip(args, states, strict=False)]
        for y, turned in zip(yields[n:], scan.turned, strict=True):
            rows = self.rows(y)
            results.append(self.flipped(rows) if turned else rows)
        for made, was in zip(results, scan.results, strict=True):
            if made.type != was.type:
                raise _Unbatched
        return self.b.ops, results

    def state(self, a: Value, y: Value) -> State:
        """What rounds do with a state."""
        if not self.uses[a] and not self.yields[a]:
            return _Last(y)
        if self.yields[a] or self.yields[y] != 1:
            raise _Unbatched
        return self.summed(a, y) or self.written(a, y)

    def written(self, a: Value, y: Value) -> _Written:
        """A state of which each round replaces parts that no other round reads or replaces."""
        chain: list[graph.InsertSlice] = []
        v = y
        while v is not a:
            op = self.makers.get(v)
            alone = len(self.uses[v]) + self.yields[v] == 1
            if not isinstance(op, graph.InsertSlice) or not alone:
                raise _Unbatched
            chain.append(op)
            v = op.x
        places = {self.place(op.starts, op.new.type.shape) for op in chain}
        if len(places) != 1:
            raise _Unbatched
        axis, step, start = places.pop()
        for op in self.uses[a]:
            if op in chain and a not in op.operands[1:]:
                continue
            if not isinstance(op, graph.Slice):
                raise _Unbatched
            if op.starts[axis] != chain[0].starts[axis] or op.result.type.shape[axis] != 1:
                raise _Unbatched
        return _Written(tuple(reversed(chain)), axis, step, start)

    def place(self, starts: Sequence[Dim], shape: Sequence[Dim]) -> tuple[int, int, Dim]:
        """Along which axis alone a place moves with the round: by how much, and from where."""
        moving = self.moving(starts)
        if len(moving) != 1 or shape[moving[0]] != 1:
            raise _Unbatched
        return (moving[0], *self.steps(starts[moving[0]]))

    def moving(self, starts: Sequence[Dim]) -> list[int]:
        """The axes along which a place depends on the round."""
        return [k for k, at in enumerate(starts) if self.scan.index in affine.symbols(at)]

    def steps(self, at: Dim) -> tuple[int, Dim]:
        """By how much a coordinate grows from round to round, and what it is in the first."""
        split = affine_facts.linear(at, (self.scan.index,))
        step = None if split is None else split[0].get(self.scan.index)
        if split is None or not isinstance(step, int) or step == 0:
            raise _Unbatched
        return step, split[1]

    def summed(self, a: Value, y: Value) -> _Summed | None:
        """A state to which each round adds something, maybe where a condition holds."""
        op, holds = self.makers.get(y), None
        ops: tuple[Op, ...] = ()
        if isinstance(op, graph.Select) and op.operands[2] is a and not self.uses[y]:
            holds, y, ops = op.operands[0], op.operands[1], (op,)
            op = self.makers.get(y)
        if not isinstance(op, graph.Add) or len(self.uses[a]) != 1 + len(ops):
            return None
        if len(self.uses[y]) != len(ops):
            return None
        terms = [v for v in op.operands if v is not a]
        exact = a.type.dtype.is_integer
        # narrow floats are rounded after each addition, which a sum of all is not
        if len(terms) != 1 or not (exact or (not self.strict and a.type.dtype in (F32, F64))):
            return None
        return _Summed(terms[0], holds, (*ops, op))

    def result(self, a: Value, state: State) -> Value:
        """What a state is after all rounds."""
        first = self.values[a]
        if isinstance(state, _Last):
            if not isinstance(self.count, int) or self.count < 1:
                raise _Unbatched
            if state.value not in self.turning:
                return self.values[state.value]
            rows = self.values[state.value]
            last = self.cut(rows, {0: (self.count - 1, self.count, 1)})
            return self.reshaped(last, a.type.shape)
        if isinstance(state, _Summed):
            return self.b.emit(graph.Add, first, self.total(a, state))
        whole = first
        for op in state.chain:
            rows, axis = self.rows(op.new), state.axis
            rest = rows.type.shape[1:]
            rows = self.reshaped(rows, (self.count, *rest[:axis], *rest[axis + 1 :]))
            perm = (*range(1, axis + 1), 0, *range(axis + 1, len(rest)))
            block = self.transposed(rows, perm)
            start = state.start
            if state.step < 0:
                block = self.flipped(block, axis)
                start = affine.add(start, affine.multiply(affine.add(self.count, -1), state.step))
            starts = (*op.starts[:axis], start, *op.starts[axis + 1 :])
            steps = (*op.steps[:axis], abs(state.step), *op.steps[axis + 1 :])
            every = block.type == whole.type and not any(starts) and set(steps) == {1}
            put = partial(self.b.emit, graph.InsertSlice, starts=starts, steps=steps)
            whole = block if every else put(whole, block)
        return whole

    def total(self, a: Value, state: _Summed) -> Value:
        """The sum of what rounds add; that of products is a contraction."""
        dtype, shape = a.type.dtype, a.type.shape
        op = self.makers.get(state.term)
        if isinstance(op, graph.Mul) and state.holds is None and not shape:
            left, right = (self.rows(v) for v in op.operands)
            return self.b.emit(graph.Contract, left, right, equation="t,t->")
        rows = self.rows(state.term, shape)
        if state.holds is not None:
            nothing = self.scalar(0, dtype.numpy)
            rows = self.b.emit(graph.Select, self.rows(state.holds, shape), rows, nothing)
        return self.b.emit(graph.Reduce, rows, axes=(0,), combine="add", keepdims=False)

    def op(self, op: Op) -> None:
        """Rebuild an op of the body for all rounds."""
        turning = not self.turning.isdisjoint(op.operands)
        placed = bool(self.scan.index) and self.scan.index in sizes_in(op)
        if not turning and not placed:
            made = self.b.add(op.rebuilt([self.values[v] for v in op.operands]))
            self.values.update(zip(op.results, made.results, strict=True))
            return
        rule = _RULES.get(type(op))
        if isinstance(op, graph.Elementwise):
            rule = _Batch.elementwise
        moves = isinstance(op, graph.Slice | graph.Sizes)
        if rule is None or len(op.results) != 1 or (placed and not moves):
            raise _Unbatched
        if any(self.scan.index in affine.symbols(n) for n in op.result.type.shape):
            raise _Unbatched
        result = rule(self, op)
        self.require_small(op, result)
        self.values[op.result] = result
        self.turning.add(op.result)

    def require_small(self, op: Op, made: Value) -> None:
        """Unbatched where rounds are much work, or what they compute is not held at once."""
        if made.type.shape != (self.count, *op.result.type.shape):
            raise _Unbatched
        each, every = (
            affine.typical(affine_facts.at_most(product(v.type.shape), self.around))
            for v in (op.result, made)
        )
        if (each > LARGE or every > _MOST) and op not in self.streamed:
            raise _Unbatched

    def aligned(self, v: Value, rank: int) -> Value:
        """What became of a value, with as many axes after that of the rounds, if it has that."""
        if v not in self.turning:
            return self.values[v]
        ones = (1,) * (rank - v.type.rank)
        return self.reshaped(self.values[v], (self.count, *ones, *v.type.shape))

    def rows(self, v: Value, shape: Sequence[Dim] | None = None) -> Value:
        """A value for each round, maybe repeated to a shape."""
        wanted = (self.count, *(v.type.shape if shape is None else shape))
        made = self.aligned(v, len(wanted) - 1)
        return made if made.type.shape == wanted else self.b.emit(graph.Broadcast, made, wanted)

    def elementwise(self, op: Op) -> Value:
        """An elementwise op, which broadcasts."""
        rank = op.result.type.rank
        return self.b.add(op.rebuilt([self.aligned(v, rank) for v in op.operands])).result

    def slice(self, op: graph.Slice) -> Value:
        """What lies at a place of the round, or a part of what each round has."""
        starts, stops, steps = op.starts, op.stops, op.steps
        x, shape = self.values[op.x], op.result.type.shape
        if op.x in self.turning:
            if self.moving(starts):
                raise _Unbatched
            return self.b.emit(
                graph.Slice, x, starts=(0, *starts), stops=(self.count, *stops), steps=(1, *steps)
            )
        moving = self.moving(starts)
        if len(moving) == 2 and moving[1] == moving[0] + 1:
            # along a diagonal: two axes that lie one in the other are one
            d, columns = moving[0], x.type.shape[moving[1]]
            if shape[d] != 1 or shape[d + 1] != 1 or not isinstance(columns, int):
                raise _Unbatched
            flat = product(x.type.shape[d : d + 2])
            x = self.reshaped(x, (*x.type.shape[:d], flat, *x.type.shape[d + 2 :]))
            at = affine.add(affine.multiply(starts[d], columns), starts[d + 1])
            starts, stops = (
                (*ends[:d], end, *ends[d + 2 :])
                for ends, end in ((starts, at), (stops, affine.add(at, 1)))
            )
            steps, shape = (*steps[: d + 1], *steps[d + 2 :]), (*shape[:d], *shape[d + 1 :])
        axis, step, start = self.place(starts, shape)
        last = affine.add(start, affine.multiply(affine.add(self.count, -1), step))
        stop = affine.add(last, 1 if step > 0 else -1)
        starts, stops = (
            (*ends[:axis], end, *ends[axis + 1 :]) for ends, end in ((starts, start), (stops, stop))
        )
        made = self.part(x, starts, stops, (*steps[:axis], step, *steps[axis + 1 :]))
        if made.type.shape[axis] != self.count:
            raise _Unbatched
        rank = made.type.rank
        made = self.transposed(made, (axis, *(k for k in range(rank) if k != axis)))
        return self.reshaped(made, (self.count, *op.result.type.shape))

    def sizes(self, op: graph.Sizes) -> Value:
        """A number of the round, for each round."""
        if op.shape:
            raise _Unbatched
        emit, constant = self.b.emit, self.scalar

        def binary(cls: type[Op], a: Value | int, b: Value | int) -> Value:
            return emit(cls, *[constant(v, np.int64) if isinstance(v, int) else v for v in (a, b)])

        def leaf(name: str) -> Value:
            if name == self.scan.index:
                return emit(graph.Iota, shape=(self.count,), axis=0, dtype=I64)
            return emit(graph.Sizes, values=(symbol(name),), shape=(), dtype=I64)

        ops = (graph.Add, graph.Mul, graph.FloorDiv, graph.Mod, graph.Min)

        def whole(atom: affine.Whole) -> Value:
            raise _Unbatched

        steps: list[Any] = [*[partial(binary, cls) for cls in ops], whole]
        made: Value = affine.fold(op.values[0], leaf, *steps)
        return made if op.dtype is I64 else emit(graph.Cast, made, dtype=op.dtype)

    def gather(self, op: graph.Gather) -> Value:
        """What data say of the same tensor."""
        if op.x in self.turning:
            if op.indices in self.turning:
                raise _Unbatched
            return self.b.emit(
                graph.Gather, self.values[op.x], self.values[op.indices], axis=op.axis + 1
            )
        x, indices = self.values[op.x], self.values[op.indices]
        made = self.b.emit(graph.Gather, x, indices, axis=op.axis)
        others = (k for k in range(made.type.rank) if k != op.axis)
        return self.transposed(made, (op.axis, *others))

    def gather_nd(self, op: graph.GatherND) -> Value:
        """The same with several coordinates."""
        if op.batch or op.x in self.turning:
            raise _Unbatched
        return self.b.emit(
            graph.GatherND, self.values[op.x], self.values[op.indices], batch=op.batch
        )

    def reduce(self, op: graph.Reduce) -> Value:
        """Combined along axes after that of the rounds."""
        axes = tuple(a + 1 for a in op.axes)
        made = self.b.add(op.rebuilt([self.values[op.x]], axes=axes, keepdims=False)).result
        return self.reshaped(made, (self.count, *op.result.type.shape))

    def contract(self, op: graph.Contract) -> Value:
        """A contraction with the rounds as a batch, or as rows of a side."""
        *terms, out = graph.parse_equation(op.equation)
        t = next(letter for letter in ascii_lowercase if letter not in op.equation)
        a, c = (t + term if v in self.turning else term
                for term, v in zip(terms, op.operands, strict=True))  # fmt: skip
        operands = [self.values[v] for v in op.operands]
        return self.b.add(op.rebuilt(operands, equation=f"{a},{c}->{t}{out}")).result

    def reshape(self, op: graph.Reshape) -> Value:
        """The same elements of each round."""
        return self.reshaped(self.values[op.x], (self.count, *op.shape))

    def transpose(self, op: graph.Transpose) -> Value:
        """The axes after that of the rounds permuted."""
        return self.transposed(self.values[op.x], (0, *(p + 1 for p in op.perm)))

    def broadcast(self, op: graph.Broadcast) -> Value:
        """What each round has, repeated."""
        return self.rows(op.x, op.shape)

    def concat(self, op: graph.Concat) -> Value:
        """Parts of each round side by side."""
        return self.b.emit(graph.Concat, tuple(map(self.rows, op.xs)), axis=op.axis + 1)

    def pad(self, op: graph.Pad) -> Value:
        """A border around what each round has."""
        low, high = (0, *op.low), (0, *op.high)
        return self.b.add(op.rebuilt([self.values[op.x]], low=low, high=high)).result

    def insert(self, op: graph.InsertSlice) -> Value:
        """Parts of what each round has replaced."""
        starts, steps = (0, *op.starts), (1, *op.steps)
        operands = [self.rows(v) for v in op.operands]
        return self.b.add(op.rebuilt(operands, starts=starts, steps=steps)).result

    def scalar(self, number: float, dtype: np.dtype[np.generic] | type) -> Value:
        """A constant of rank 0."""
        return self.b.emit(graph.Constant, value=Literal(np.asarray(number, dtype)))

    def reshaped(self, v: Value, shape: Sequence[Dim]) -> Value:
        """The value, or the one that it is of, under another shape."""
        v, shape = self.plain.get(v, v), tuple(shape)
        if v.type.shape == shape:
            return v
        made = self.b.emit(graph.Reshape, v, shape=shape)
        self.plain[made] = v
        return made

    def transposed(self, v: Value, perm: tuple[int, ...]) -> Value:
        """The value with its axes permuted; only reshaped where others than those of 1 stay."""
        shape = tuple(v.type.shape[k] for k in perm)
        long = [k for k in perm if v.type.shape[k] != 1]
        stays = long == sorted(long)
        return self.reshaped(v, shape) if stays else self.b.emit(graph.Transpose, v, perm=perm)

    def cut(self, v: Value, ends: dict[int, tuple[Dim, Dim, int]]) -> Value:
        """A part of a value along some axes."""
        every = [ends.get(k, (0, n, 1)) for k, n in enumerate(v.type.shape)]
        return self.part(v, *zip(*every, strict=True))

    def part(
        self, v: Value, starts: tuple[Dim, ...], stops: tuple[Dim, ...], steps: tuple[int, ...]
    ) -> Value:
        """A strided part of a value, or all of it."""
        if not any(starts) and stops == v.type.shape and set(steps) <= {1}:
            return v
        return self.b.emit(graph.Slice, v, starts=starts, stops=stops, steps=steps)

    def flipped(self, v: Value, axis: int = 0) -> Value:
        """The value with the last first along an axis."""
        return self.cut(v, {axis: (affine.add(v.type.shape[axis], -1), -1, -1)})


# each takes ops of its own class
_RULES: dict[type[Op], Callable[[_Batch, Any], Value]] = {
    graph.Slice: _Batch.slice,
    graph.Sizes: _Batch.sizes,
    graph.Gather: _Batch.gather,
    graph.GatherND: _Batch.gather_nd,
    graph.Reduce: _Batch.reduce,
    graph.Contract: _Batch.contract,
    graph.Reshape: _Batch.reshape,
    graph.Transpose: _Batch.transpose,
    graph.Broadcast: _Batch.broadcast,
    graph.Concat: _Batch.concat,
    graph.Pad: _Batch.pad,
    graph.InsertSlice: _Batch.insert,
}
