"""Attention block by block of the keys, with a running maximum and sum.

    %s = contract %q, %k          %e = exp(%s - max(%s))      %y = contract (%e / sum(%e)), %v
    -->
    %acc, %l, %m = graph.scan ... { for each block of keys:
        %s = contract %q, %k[block];  %m' = max(%m, max(%s));  %a = exp(%m - %m')
        %e = exp(%s - %m');  yield %acc * %a + contract(%e, %v[block]),  %l * %a + sum(%e),  %m'
    }
    %y = %acc / %l

Few keys and their values stay in the second cache while all rows meet them, and a row's scores in
the first (see `fuse`): one block has them all (of free ones where a table of positions, say, has
no more rows), and the product is divided by the sum in the place
of the weights, where it has fewer elements. Of more keys, the scores would have to be written to
memory, all of them: a block has as many keys as stay near. Where the number of keys is free, a
first block has what is left over of whole ones, so that few keys are done as if there were no
blocks. What stands between the product and the soft-max, such as a scale and masks, is done for
each block, too. Where masks leave each row a band of keys (see `bands`), a block is done for the
rows that see one of its keys.

Legal where nobody else reads the scores or the weights, and sums of float32 or float64 may be
reassociated: narrower ones would be rounded in each block. A maximum begins at the least finite
number, so that a block that is masked whole counts nothing; a row of
nothing but masked keys is NaN, as without blocks. What guards against that stays: another number
in the place of a maximum of -inf or of a sum of 0, and weights of 0 in rows that are hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf, prod
from typing import NamedTuple

import numpy as np

from minicc.ir import affine, affine_facts, graph
from minicc.ir.affine import Dim
from minicc.ir.build import Builder
from minicc.ir.core import Function, Literal, Op, Value
from minicc.ir.graph.demands import largest_sizes
from minicc.ir.rewrite import Rebuilder, rebuild
from minicc.ir.types import I64, TensorType
from minicc.passes.graph.attention import Attention, attentions, typical_shape
from minicc.passes.graph.bands import Band, band_of
from minicc.passes.graph.loops import with_constants
from minicc.target import Target

_LONGEST = 1 << 11  # keys of a block: a few rows of scores stay in the first cache
_BANDED = 1 << 8  # the same where masks hide keys: at the band's edge, half a block is for nothing
_MANY_ROWS = 32  # that meet the same keys
_LANES = 16  # keys of a block, if there is a choice, are a multiple of this

Parts = Mapping[Value, Value]


class Demands:
    """What becomes a guard of the program: pairs that must be equal, over sizes of its inputs."""

    def __init__(self, function: Function) -> None:
        shapes = [a.type.shape for a in function.args]
        self.sizes = frozenset(s for shape in shapes for n in shape for s in affine.sizes(n))
        self.pairs: dict[tuple[Dim, Dim], None] = {}

    def add(self, natural: Dim) -> bool:
        """Demand that a number is not negative; whether inputs decide that."""
        known = affine.symbols(natural) <= self.sizes
        if known:
            self.pairs[affine.minimum(natural, 0), 0] = None
        return known


def apply_online_softmax(
    function: Function, numbers: Iterator[int], target: Target, demands: Demands
) -> Function:
    """Give each attention over many keys a loop over blocks of them; `numbers` name the loops.

    `demands` learns that there is a key: of none the weights sum to 0, by which all is divided.
    """
    makers = {r: op for op in function.body.ops for r in op.results}
    found: dict[Op, tuple[Attention, Band | None, Dim]] = {}
    known = list(attentions(function))
    largest = largest_sizes(function) if known else {}
    for attention in known:
        band = _band(attention, makers)
        most = min(_most(attention, target), _LONGEST if band is None else _BANDED)
        size = _size(attention, most, largest)
        if size != 0:
            found[attention.weighing] = attention, band, size

    def visit(b: Rebuilder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        if op not in found:
            return None
        attention, band, size = found[op]
        surely = affine_facts.at_least(attention.keys, 1) or demands.add(attention.keys - 1)
        return (_emit(b, attention, f"$block{next(numbers)}", size, band, surely),)

    return rebuild(function, visit) if found else function


def _size(found: Attention, most: int, largest: Mapping[str, int]) -> Dim:
    """How many keys a block has, at most `most`, all of them in one; 0 for few rows or few keys.

    Free keys are all in one where that is the `largest` number that they may be. Of more keys than
    a value has elements, the product has fewer to divide than the weights are.
    """
    weights, values, _ = found.terms()
    extents = dict(zip(weights, typical_shape(found.weights), strict=True))
    rows = prod(n for c, n in extents.items() if c not in values)
    if rows < _MANY_ROWS:
        return 0
    keys = found.keys
    if _at_most(keys, largest) > most:
        return block_of(keys, most)
    v = typical_shape(found.weighing.operands[found.values])
    wide = prod(n for c, n in zip(values, v, strict=True) if c not in weights)
    return keys if affine.typical(keys) > wide else 0


def _at_most(keys: Dim, largest: Mapping[str, int]) -> float:
    """The most keys that there may be, where sizes have a largest number."""
    names = affine.symbols(keys)
    if not names <= largest.keys():
        return inf
    return affine_facts.bounds(keys, {name: largest[name] + 1 for name in names})[1]


def _most(found: Attention, target: Target) -> int:
    """How many keys stay near, and so do the values, in the second cache."""
    weights, values, _ = found.terms()
    *_, out = graph.parse_equation(found.product.equation)
    k, term = next((k, term) for k, term in found.factors if found.key in term)
    v = found.weighing.operands[found.values]
    pairs = ((term, k, out), (values, v, weights))
    depths = [
        prod(n for c, n in zip(term, typical_shape(x), strict=True) if c not in other)
        for term, x, other in pairs
    ]
    near: int = target.resident // 2 // found.top.result.type.dtype.bytes
    return near // max(*depths, 1)


def block_of(keys: Dim, most: int) -> int:
    """How many keys a block has: all blocks alike if that can be, else the first one is shorter.

    It is 0 where so few may be in one that a loop over blocks does not pay.
    """
    if most < _LANES:
        return 0
    if not isinstance(keys, int):
        return most // _LANES * _LANES
    for n in range(most, most // 2, -1):
        if keys % n == 0 and n % (_LANES // 2) == 0:
            return n
    rounds = -(-keys // most)
    return min(most, -(-keys // (rounds * _LANES)) * _LANES)


def _band(found: Attention, makers: Mapping[Value, Op]) -> Band | None:
    """The band of keys that rows may see, where only the queries and the scores have these rows."""
    if any(isinstance(op, graph.Reshape) for op in (*found.path, *found.division)):
        return None
    band = band_of(found, makers)
    if band is None:
        return None
    weights, values, _ = found.terms()
    *_, out = graph.parse_equation(found.product.equation)
    of_keys = [term for _, term in found.factors if found.key in term]
    alone = weights[band.axis] not in values and all(out[band.axis] not in term for term in of_keys)
    return band if alone else None


class _Cut(NamedTuple):
    """The part of an axis, counted from the last, -1, that a block takes of its whole extent."""

    axis: int
    extent: Dim
    start: Dim
    size: Dim


def _emit(
    b: Rebuilder, found: Attention, index: str, size: Dim, band: Band | None, surely: bool
) -> Value:
    """The attention by blocks, as the product with the values gives it.

    Unless there `surely` are keys, there may be none.
    """
    keys = found.keys
    rounds = 0 if keys == size else affine.floordiv(keys, size)
    rest = keys if keys == size else affine.mod(keys, size)
    *_, out = found.terms()
    taken = {v: b.new(v) for v in _taken(found)} | _named_alike(b, found)
    states = _begin(b, found) if rest == 0 else _block(b, found, [_keys(found, 0, rest)], (), taken)

    def after(b: Builder, start: Dim, states: tuple[Value, ...], taken: Parts) -> Sequence[Value]:
        """The states after the block of keys from `start` on."""
        block = _keys(found, start, size)
        return _banded(b, found, block, band, states, taken)

    if rounds == 1:
        states = tuple(after(b, rest, states, taken))
    elif rounds != 0:
        states = _loop(b, keys, rounds, size, states, taken, index, after)
    total, total_sum, _ = states
    if not surely:
        total_sum = b.emit(graph.Add, total_sum, _one_of_none(b, keys, total_sum.type))
    one = b.emit(graph.Constant, value=_literal(1.0, total.type))
    *_, guard = found.guards
    if guard is not None:
        total_sum = guard.around(b, total_sum)
    inverse = b.emit(graph.Div, one, total_sum)
    if found.hidden is not None:
        condition, zero = b.new(found.hidden.condition), b.new(found.hidden.a)
        inverse = b.emit(graph.Select, condition, zero, inverse)
    inverse = _shaped(b, found, inverse)
    y = b.emit(graph.Mul, total, inverse)
    *_, result = graph.parse_equation(found.weighing.equation)
    order = tuple(out.index(c) for c in result)
    return y if order == tuple(range(len(order))) else b.emit(graph.Transpose, y, perm=order)


def _one_of_none(b: Builder, keys: Dim, type: TensorType) -> Value:
    """1 where there are no keys, else 0: the sum of nothing divided by that is nothing."""
    count = b.emit(graph.Sizes, values=(1 - affine.minimum(keys, 1),), shape=(), dtype=I64)
    return b.emit(graph.Cast, count, dtype=type.dtype)


def _literal(number: float, type: TensorType) -> Literal:
    return Literal(np.array(number, type.dtype.numpy))


def _begin(b: Builder, found: Attention) -> tuple[Value, ...]:
    """The states before any key: products, sums and maxima of no keys."""
    top: TensorType = found.top.result.type
    weights, values, out = found.terms()
    of_values = found.weighing.operands[found.values].type.shape
    extents = dict(zip(values, of_values, strict=True)) | dict(
        zip(weights, found.weights.type.shape, strict=True)
    )
    shapes = (tuple(extents[c] for c in out), top.shape, top.shape)
    zero = b.emit(graph.Constant, value=_literal(0.0, top))
    numbers = (zero, zero, _least(b, top))
    pairs = zip(numbers, shapes, strict=True)
    return tuple(b.emit(graph.Broadcast, n, shape=shape) for n, shape in pairs)


def _least(b: Builder, type: TensorType) -> Value:
    """What no finite score is below."""
    return b.emit(graph.Constant, value=_literal(float(np.finfo(type.dtype.numpy).min), type))


def _taken(found: Attention) -> list[Value]:
    """What comes from before the attention, in the order of its ops."""
    ops = (*found.masks, *found.path, *found.exponential)
    made = {op.result for op in (*found.masks, *found.inside)}
    outer = [v for op in ops for v in op.operands if v not in made]
    inner = [v for v, _ in found.factors]
    return list(dict.fromkeys([*inner, *outer, found.weighing.operands[found.values]]))


def _named_alike(b: Rebuilder, found: Attention) -> dict[Value, Value]:
    """The values with as many rows as there are keys, which a model may have under two names."""
    values = found.weighing.operands[found.values]
    weights, term, _ = found.terms()
    shape = tuple(
        found.keys if c == weights[-1] else n for c, n in zip(term, values.type.shape, strict=True)
    )
    if shape == values.type.shape:
        return {}
    return {values: b.emit(graph.Reshape, b.new(values), shape=shape)}


def _keys(found: Attention, start: Dim, size: Dim) -> _Cut:
    """A block of keys."""
    return _Cut(-1, found.keys, start, size)


def _loop(
    b: Builder,
    end: Dim,
    rounds: Dim,
    size: Dim,
    states: tuple[Value, ...],
    taken: Parts,
    index: str,
    after: Callable[[Builder, Dim, tuple[Value, ...], Parts], Sequence[Value]],
) -> tuple[Value, ...]:
    """The states after so many blocks of one size up to the key `end`, the last block first.

    So the rows to see a block under a mask of later keys are ever more, by a block each round.
    """
    args = [Value(v.type) for v in states]
    captured = {v: Value(new.type, new.hint) for v, new in taken.items()}
    start = end - (affine.symbol(index) + 1) * size
    scan = graph.Scan(
        (*states, *taken.values()),
        count=rounds,
        states=len(args),
        backwards=(),
        turned=(),
        index=index,
        body=b.region(
            [*args, *captured.values()], lambda inner: after(inner, start, tuple(args), captured)
        ),
        loc=b.loc,
    )
    constants = {op.result: op for op in b.ops if isinstance(op, graph.Constant)}
    return b.add(with_constants(scan, constants)).results


def _banded(
    b: Builder,
    found: Attention,
    keys: _Cut,
    band: Band | None,
    states: tuple[Value, ...],
    taken: Parts,
) -> Sequence[Value]:
    """The states after a block of keys, which rows that see none of them are not computed for."""
    if band is None:
        return _block(b, found, [keys], states, taken)
    rows = found.top.result.type.shape[band.axis]
    first, last = band.rows(rows, found.keys, keys.start, keys.size)
    cut = _Cut(band.axis - found.top.result.type.rank, rows, first, last - first)
    new = _block(b, found, [keys, cut], [_part_of(b, x, [cut]) for x in states], taken)
    starts = [tuple(first if k == band.axis else 0 for k in range(x.type.rank)) for x in states]
    return [
        b.emit(graph.InsertSlice, x, part, starts=at, steps=(1,) * x.type.rank)
        for x, part, at in zip(states, new, starts, strict=True)
    ]


def _block(
    b: Builder, found: Attention, cuts: Sequence[_Cut], states: Sequence[Value], taken: Parts
) -> tuple[Value, ...]:
    """The states after a block of keys; `taken` has what comes from outside.

    No states are those before any key. Of rows, the states are those that the block takes.
    """
    *_, out = graph.parse_equation(found.product.equation)
    factors = [
        _part_of(
            b, taken[v], [c._replace(axis=k) for c in cuts if (k := term.find(out[c.axis])) >= 0]
        )
        for v, term in found.factors
    ]
    terms = ",".join(term for _, term in found.factors)
    scores = b.emit(graph.Contract, *factors, equation=f"{terms}->{out}")
    parts = {**taken, found.product.result: scores}
    for op in (*found.masks, *found.path):
        scores = parts[op.result] = _masked(b, op, cuts, parts)
    last = (scores.type.rank - 1,)
    top = b.emit(graph.Reduce, scores, axes=last, combine=found.top.combine, keepdims=True)
    top = b.emit(graph.Max, states[2] if states else _least(b, top.type), top)
    e = _exponentials(b, found, scores, top, taken)
    sums = b.emit(graph.Reduce, e, axes=last, combine="add", keepdims=True)
    weights, values, out = found.terms()
    v = taken[found.weighing.operands[found.values]]
    v = _part_of(b, v, [cuts[0]._replace(axis=values.index(weights[-1]))])
    shaped = _shaped(b, found, e)
    new = b.emit(graph.Contract, shaped, v, equation=f"{weights},{values}->{out}")
    if not states:
        return new, sums, top
    factor = _exponentials(b, found, states[2], top, taken)
    old = b.emit(graph.Mul, states[0], _shaped(b, found, factor))
    old_sums = b.emit(graph.Mul, states[1], factor)
    return b.emit(graph.Add, old, new), b.emit(graph.Add, old_sums, sums), top


def _exponentials(b: Builder, found: Attention, x: Value, top: Value, taken: Parts) -> Value:
    """What the soft-max has of scores and their maximum."""
    lowered, *_ = found.exponential
    made = {**taken, lowered.operands[0]: x, lowered.operands[1]: top}
    for op in found.exponential:
        x = made[op.result] = b.add(op.rebuilt([made[v] for v in op.operands])).result
    return x


def _masked(b: Builder, op: Op, cuts: Sequence[_Cut], parts: Parts) -> Value:
    """An op of the path, or of a mask, for a block."""
    if isinstance(op, graph.Reshape):
        shape = (*op.result.type.shape[:-1], cuts[0].size)
        return b.emit(graph.Reshape, parts[op.x], shape=shape)
    operands = [_part_of(b, parts[v], cuts) for v in op.operands]
    return b.add(op.rebuilt(operands)).result


def _part_of(b: Builder, v: Value, cuts: Sequence[_Cut]) -> Value:
    """The part of a value that a block takes along those axes that it has whole."""
    shape = v.type.shape
    axes = {c.axis % len(shape): c for c in cuts if -len(shape) <= c.axis < len(shape)}
    whole = {k: c for k, c in axes.items() if shape[k] == c.extent != c.size}
    if not whole:
        return v
    starts = tuple(whole[k].start if k in whole else 0 for k in range(len(shape)))
    stops = tuple(whole[k].start + whole[k].size if k in whole else n for k, n in enumerate(shape))
    return b.emit(graph.Slice, v, starts=starts, stops=stops, steps=(1,) * len(shape))


def _shaped(b: Builder, found: Attention, x: Value) -> Value:
    """A tensor of scores' shape, or with one column of them, in the shape that the weights have."""
    shape = found.weights.type.shape[:-1]
    if found.top.result.type.shape[:-1] == shape:
        return x
    return b.emit(graph.Reshape, x, shape=(*shape, x.type.shape[-1]))
