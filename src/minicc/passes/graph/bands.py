"""Find which keys the masks of an attention leave to a row: those of a band along the diagonal.

    %near = graph.le %keys, %rows         the numbers of keys, from 0 on, and those of rows
    %bias = graph.select %near, %zero, %minus_infinity
    %masked = graph.add %scores, %bias    -->  row r sees no key beyond r

An attention by blocks leaves out the rows that see no key of a block (see `online_softmax`). The
numbers may be shifted, as where keys of earlier steps stand before those of the rows. Of a mask
that is known, the band is that of all that it shows. A mask that hides by a finite number, as
exporters write it, is a band only where it is the one mask, and each row sees a key: else a row
whose keys are all hidden weighs them equally.

What hidden keys hold is not read then, be it NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from math import inf
from typing import NamedTuple

import numpy as np

from minicc.ir import affine, graph
from minicc.ir.affine import Dim
from minicc.ir.affine_facts import at_least
from minicc.ir.core import Array, Op, Value
from minicc.passes.graph.attention import Attention, number_of

_LOWEST = -1e30  # an exponential of what is so far below others is 0

Makers = Mapping[Value, Op]


class Band(NamedTuple):
    """The keys k that row r may see: r - `oldest` <= k <= r + `newest`; None is no bound.

    Rows are numbered along `axis` of the scores.
    """

    axis: int
    newest: Dim | None = None
    oldest: Dim | None = None

    def sees_all(self, rows: Dim, keys: Dim) -> bool:
        """Whether each of so many rows surely sees a key: that of its own number, or the last."""
        if self.oldest is not None and not at_least(keys + self.oldest, rows):
            return False
        return all(x is None or at_least(x, 0) for x in (self.newest, self.oldest))

    def within(self, other: Band) -> Band:
        """A band with the bounds that another has beside; of two on one side, its own stays."""
        if other.axis != self.axis:
            return self
        return Band(
            self.axis,
            other.newest if self.newest is None else self.newest,
            other.oldest if self.oldest is None else self.oldest,
        )

    def rows(self, rows: Dim, keys: Dim, start: Dim, size: Dim) -> tuple[Dim, Dim]:
        """The first row, and that after the last one, to see one of `size` keys from `start` on."""
        first: Dim = 0
        last = rows
        if self.newest is not None:
            first = start - self.newest
            if not at_least(affine.multiply(self.newest, -1), 0):
                first = affine.maximum(first, 0)
            if not at_least(rows + self.newest, keys):
                first = affine.minimum(first, rows)
        if self.oldest is not None:
            last = start + size + self.oldest
            if not at_least(last, first):
                last = affine.maximum(last, first)
            last = affine.minimum(last, rows)
        return first, last


class _Linear(NamedTuple):
    """A sum of a number and of places along axes, which are counted from the last, -1."""

    const: Dim
    places: tuple[tuple[int, int], ...] = ()

    def plus(self, other: _Linear, sign: int = 1) -> _Linear:
        places = dict(self.places)
        for axis, n in other.places:
            places[axis] = places.get(axis, 0) + sign * n
        kept = tuple((axis, n) for axis, n in places.items() if n)
        return _Linear(self.const + affine.multiply(other.const, sign), kept)


def band_of(found: Attention, makers: Makers) -> Band | None:
    """The band of keys that the masks of an attention leave, if there is one."""
    shape = (*found.top.result.type.shape[:-1], found.keys)
    inner = {found.product.result, *(op.result for op in found.path)}
    masks = [mask for op in _last(found.path) for mask in _masks(op, inner, makers)]
    alone = sum(isinstance(op, graph.Add | graph.Select) for op in found.path) == len(masks) == 1
    band: Band | None = None
    for mask in masks:
        if mask.fill != -inf and not (alone and mask.sees_all):
            continue
        for bound in mask.bounds:
            if bound is not None and _has_extents(mask.value, shape, (bound.axis, -1)):
                bound = bound._replace(axis=bound.axis + len(shape))
                band = bound if band is None else band.within(bound)
    return band


def _last(path: Sequence[Op]) -> Iterator[Op]:
    """The ops at the end of a path that leave what is hidden hidden."""
    return takewhile(lambda op: isinstance(op, graph.Add | graph.Select), reversed(path))


def _has_extents(v: Value, shape: Sequence[Dim], axes: Sequence[int]) -> bool:
    """Whether a value has these extents along axes that are counted from the last, -1."""
    own = v.type.shape
    return all(-len(own) <= k and own[k] == shape[k] for k in axes)


class _Mask(NamedTuple):
    """What hides scores by a number in their place or beside them, `fill`.

    `value` is true or false for each score, or added to it. `bounds` are those of the scores that
    are seen, with axes counted from the last, -1; None stands for a part that is no bound.
    `sees_all` tells whether each row surely sees a key.
    """

    value: Value
    fill: float
    bounds: Sequence[Band | None]
    sees_all: bool


def _masks(op: Op | None, inner: set[Value], makers: Makers) -> Iterator[_Mask]:
    """The masks that an op of the path applies."""
    if isinstance(op, graph.Add):
        for x in op.operands:
            if x not in inner:
                yield from _masks(makers.get(x), inner, makers)
    elif isinstance(op, graph.Constant) and op.result.type.rank > 1:
        seen = op.value.array > _LOWEST
        if not seen.all():
            yield _known(op.result, float(op.value.array[~seen].max()), seen)
    elif isinstance(op, graph.Select):
        for x, shown in ((op.b, True), (op.a, False)):
            fill = number_of(makers.get(x))
            if fill is not None and fill <= _LOWEST:
                yield _chosen(op.condition, fill, shown, makers)


def _chosen(condition: Value, fill: float, shown: bool, makers: Makers) -> _Mask:
    """A mask that leaves scores where a condition is `shown`."""
    op = makers.get(condition)
    if isinstance(op, graph.Constant) and op.result.type.rank > 1:
        return _known(condition, fill, op.value.array == shown)
    shape = condition.type.shape
    bounds = tuple(_bounds(condition, shown, makers))
    sees_all = all(b is not None and b.sees_all(shape[b.axis], shape[-1]) for b in bounds)
    return _Mask(condition, fill, bounds, sees_all)


def _known(value: Value, fill: float, seen: Array) -> _Mask:
    """A mask that is known; rows are those along the axis before the last.

    A bound that leaves out few of the scores at a corner is none.
    """
    rows, keys = np.nonzero(seen.any(tuple(range(seen.ndim - 2))))
    newest = (keys - rows).max(initial=-seen.shape[-2])
    oldest = (rows - keys).max(initial=-seen.shape[-1])
    bounds = []
    if 2 * newest < seen.shape[-1]:
        bounds.append(Band(-2, newest=int(newest)))
    if 2 * oldest < seen.shape[-2]:
        bounds.append(Band(-2, oldest=int(oldest)))
    return _Mask(value, fill, bounds, bool(seen.any(-1).all()))


def _bounds(condition: Value, shown: bool, makers: Makers) -> Iterator[Band | None]:
    """The bounds that hold wherever a condition is `shown`; None for a part that is no bound."""
    op = makers.get(condition)
    if isinstance(op, graph.And) and shown:
        for x in op.operands:
            yield from _bounds(x, shown, makers)
    elif isinstance(op, graph.Not):
        yield from _bounds(op.operands[0], not shown, makers)
    else:
        difference = _difference(op, shown, makers)
        places = dict(difference.places) if difference else {}
        key = places.pop(-1, 0)
        ((axis, row),) = places.items() if len(places) == 1 else ((0, 0),)
        bound = affine.multiply(difference.const, -1) if difference else 0
        if (key, row) == (1, -1):
            yield Band(axis, newest=bound)
        else:
            yield Band(axis, oldest=bound) if (key, row) == (-1, 1) else None


def _difference(op: Op | None, shown: bool, makers: Makers) -> _Linear | None:
    """What is at most 0 where a comparison of places is `shown`."""
    if not isinstance(op, graph.Le | graph.Lt):
        return None
    a, b = (_linear(x, makers) for x in op.operands)
    if a is None or b is None:
        return None
    difference = a.plus(b, -1) if shown else b.plus(a, -1)
    return difference.plus(_Linear(1)) if isinstance(op, graph.Lt) == shown else difference


def _linear(v: Value, makers: Makers) -> _Linear | None:
    """A tensor of integers as a sum of places, if it is one."""
    op = makers.get(v)
    number = number_of(op)
    if number is not None:
        return _Linear(int(number)) if number == int(number) else None
    if isinstance(op, graph.Sizes) and len(op.values) == 1:
        return _Linear(op.values[0])
    if isinstance(op, graph.Iota):
        one = op.shape[op.axis] == 1
        return _Linear(0) if one else _Linear(0, ((op.axis - len(op.shape), 1),))
    if isinstance(op, graph.Add | graph.Sub):
        a, b = (_linear(x, makers) for x in op.operands)
        return a and b and a.plus(b, 1 if isinstance(op, graph.Add) else -1)
    if isinstance(op, graph.Cast) and op.result.type.dtype.kind == op.x.type.dtype.kind == "i":
        return _linear(op.x, makers)
    if isinstance(op, graph.Reshape | graph.Broadcast):
        return _moved(op, _linear(op.operands[0], makers))
    return None


def _moved(op: Op, x: _Linear | None) -> _Linear | None:
    """The same of a tensor that has its elements along another axis."""
    if x is None or isinstance(op, graph.Broadcast):
        return x
    if not x.places:
        return x
    old, new = (
        [k - len(shape) for k, n in enumerate(shape) if n != 1]
        for shape in (op.operands[0].type.shape, op.result.type.shape)
    )
    if len(old) != 1 or len(new) != 1 or [axis for axis, _ in x.places] != old:
        return None
    return x._replace(places=((new[0], x.places[0][1]),))
