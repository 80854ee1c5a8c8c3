"""Ops whose indices are data: gathering, scattering and choosing the greatest elements.

Indices hold i32 or i64; a negative one counts from the end, and evaluation raises IndexError for
one that is out of range. Scattered elements that meet are combined in no stated order; without a
combiner the last in row-major order stays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.ir import arith
from minicc.ir.affine import Dim
from minicc.ir.core import Array, Op, RunRegion, Value
from minicc.ir.graph.shapes import check_axis, differ
from minicc.ir.indices import counted
from minicc.ir.orders import stable_order
from minicc.ir.scattering import coordinates, grid_of, scattered
from minicc.ir.types import I64, TensorType, static_shape

# Rows of so many elements, so many times what is chosen of them, are not sorted whole. What may be
# among the chosen is found by the best of so many groups an element that is chosen.
_LONG, _FEW, _GROUPS = 2048, 8, 2

_COMBINED = ("add", "mul", "max", "min")


def _check_indices(op: Op, indices: TensorType) -> None:
    if indices.dtype.name not in ("i32", "i64"):
        raise TypeError(f"{op.opname} wants i32 or i64 as indices, not {indices}")


def _check_within(op: Op, indices: TensorType, x: TensorType, axis: int) -> None:
    """TypeError where indices have more elements along an axis that they do not count."""
    for k, (n, m) in enumerate(zip(indices.shape, x.shape, strict=True)):
        if k != axis and isinstance(n, int) and isinstance(m, int) and n > m:
            raise TypeError(f"{op.opname} of {x} at {indices}: axis {k} is longer")


class GatherElements(Op, name="graph.gather_elements"):
    """For each index the element that stands there along `axis` (numpy.take_along_axis).

    `indices` has the rank of `x`, and along other axes no more elements.
    """

    x: Value
    indices: Value
    axis: int

    def infer(self) -> tuple[TensorType, ...]:
        t, indices = self.x.type, self.indices.type
        _check_indices(self, indices)
        if indices.rank != t.rank:
            raise TypeError(f"{self.opname} of {t} at {indices}: ranks differ")
        check_axis(self.opname, self.axis, t.rank)
        _check_within(self, indices, t, self.axis)
        return (TensorType(t.dtype, indices.shape),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        x, indices = map(np.asarray, args)
        where = grid_of(indices.shape)
        where[self.axis] = counted(indices, x.shape[self.axis], self.loc)
        return (x[tuple(where)],)


class GatherND(Op, name="graph.gather_nd"):
    """For each vector of `indices`, its last axis, the slice of `x` with these coordinates.

    The first `batch` axes of both are common.
    """

    x: Value
    indices: Value
    batch: int = 0

    def infer(self) -> tuple[TensorType, ...]:
        t, indices = self.x.type, self.indices.type
        _check_indices(self, indices)
        depth = indices.shape[-1] if indices.rank else 0
        if not isinstance(depth, int) or not 0 <= self.batch < indices.rank:
            raise TypeError(f"{self.opname} wants vectors of a known length, not {indices}")
        if self.batch + depth > t.rank or any(
            differ(a, b)
            for a, b in zip(t.shape[: self.batch], indices.shape[: self.batch], strict=True)
        ):
            raise TypeError(f"{self.opname} of {t} at {indices}, of which {self.batch} are common")
        return (TensorType(t.dtype, (*indices.shape[:-1], *t.shape[self.batch + depth :])),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        x, indices = map(np.asarray, args)
        if not indices.shape[-1]:
            # vectors of length 0 name all that is after the common axes
            between = (1,) * (indices.ndim - 1 - self.batch)
            apart = x.reshape((*x.shape[: self.batch], *between, *x.shape[self.batch :]))
            shape = (*indices.shape[:-1], *x.shape[self.batch :])
            return (np.broadcast_to(apart, shape).copy(),)
        return (np.asarray(x[coordinates(self, x, indices, self.batch)]),)


class _Scatter(Op):
    """`x` with `updates` at `indices`; `combine` is none, add, mul, max or min."""

    __slots__ = ()

    def _check(self, combine: str) -> None:
        if combine != "none" and combine not in _COMBINED:
            raise ValueError(f"{self.opname} does not combine by {combine}")


class ScatterElements(_Scatter, name="graph.scatter_elements"):
    """`x` with each of `updates` put where its index says along `axis`.

    `combine` says what is done to what stands there: `none` replaces it, `add`, `mul`, `max` and
    `min` combine.
    """

    x: Value
    indices: Value
    updates: Value
    axis: int
    combine: str = "none"

    def infer(self) -> tuple[TensorType, ...]:
        t, indices, updates = self.x.type, self.indices.type, self.updates.type
        _check_indices(self, indices)
        self._check(self.combine)
        if indices.rank != t.rank or updates.dtype is not t.dtype:
            raise TypeError(f"{self.opname} of {updates} into {t} at {indices}")
        if updates.rank != t.rank or any(
            differ(a, b) for a, b in zip(indices.shape, updates.shape, strict=True)
        ):
            raise TypeError(f"{self.opname} of {updates} at {indices}: shapes differ")
        check_axis(self.opname, self.axis, t.rank)
        _check_within(self, indices, t, self.axis)
        return (t,)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (scattered(self, self.axis, *map(np.asarray, args)),)


class ScatterND(_Scatter, name="graph.scatter_nd"):
    """`x` with slices of `updates` put where vectors of `indices`, its last axis, say.

    `combine` is that of `graph.scatter_elements`.
    """

    x: Value
    indices: Value
    updates: Value
    combine: str = "none"

    def infer(self) -> tuple[TensorType, ...]:
        t, indices, updates = self.x.type, self.indices.type, self.updates.type
        _check_indices(self, indices)
        self._check(self.combine)
        depth = indices.shape[-1] if indices.rank else None
        if not isinstance(depth, int) or depth > t.rank or updates.dtype is not t.dtype:
            raise TypeError(f"{self.opname} of {updates} into {t} at {indices}")
        wanted: tuple[Dim, ...] = (*indices.shape[:-1], *t.shape[depth:])
        if len(wanted) != updates.rank or any(
            differ(a, b) for a, b in zip(wanted, updates.shape, strict=True)
        ):
            raise TypeError(f"{self.opname} of {updates} at {indices} into {t}: shapes differ")
        return (t,)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (scattered(self, None, *map(np.asarray, args)),)


class Sort(Op, name="graph.sort"):
    """The elements along `axis` in ascending order; NaN counts as the greatest.

    Where places are given `at` which elements are read, only these have to be as they are in that
    order, with none after them that is less, and none before that is greater (numpy.partition).
    """

    x: Value
    axis: int
    at: tuple[int, ...] = ()

    def infer(self) -> tuple[TensorType, ...]:
        t: TensorType = self.x.type
        check_axis(self.opname, self.axis, t.rank)
        extent = t.shape[self.axis]
        if any(k < 0 or (isinstance(extent, int) and k >= extent) for k in self.at):
            raise ValueError(f"{self.opname} at {list(self.at)} of axis {self.axis} of {t}")
        return (t,)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        x = np.asarray(args[0])
        wide = arith.widened(x)
        made = np.partition(wide, self.at, self.axis) if self.at else np.sort(wide, self.axis)
        return (made.astype(x.dtype, copy=False),)


class TopK(Op, name="graph.top_k"):
    """The `k` greatest elements along `axis` (smallest without `largest`), and their indices.

    Best first; of equal ones that with the lower index is first. NaN counts as the greatest.
    """

    x: Value
    axis: int
    k: Dim
    largest: bool = True

    def infer(self) -> tuple[TensorType, ...]:
        t: TensorType = self.x.type
        check_axis(self.opname, self.axis, t.rank)
        room = t.shape[self.axis] - self.k
        if (isinstance(self.k, int) and self.k < 0) or (isinstance(room, int) and room < 0):
            raise ValueError(f"{self.opname} of {self.k} elements along axis {self.axis} of {t}")
        shape = (*t.shape[: self.axis], self.k, *t.shape[self.axis + 1 :])
        return TensorType(t.dtype, shape), TensorType(I64, shape)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        x = np.asarray(args[0])
        (count,) = static_shape((self.k,))
        rows = arith.widened(x).swapaxes(self.axis, -1)
        length = rows.shape[-1]
        if not count or length < _LONG or length < _FEW * count:
            first = stable_order(rows, self.largest)[..., :count]
        else:
            flat = rows.reshape(-1, length)
            chosen = [_first_of_few(row, count, self.largest) for row in flat]
            first = np.array(chosen, np.int64).reshape(*rows.shape[:-1], count)
        first = first.swapaxes(-1, self.axis).astype(np.int64, copy=False)
        if not first.size:  # NumPy would number elements of the other axes
            return np.zeros(first.shape, x.dtype), first
        return np.take_along_axis(x, first, self.axis), first


def _first_of_few(row: Array, count: int, largest: bool) -> Array:
    """The places of the first elements of a long row: only what may be among them is put in order.

    Of so many groups as are chosen the worst best one is no better than the last that is chosen.
    """
    width = len(row) // (_GROUPS * count)
    groups = row[: len(row) // width * width].reshape(width, -1)
    best = np.maximum.reduce(groups) if largest else np.fmin.reduce(groups)
    # selection, as by partition, takes far longer than sorting where many are equal
    least = np.sort(best)[len(best) - count if largest else count - 1]
    if least != least:
        return stable_order(row, largest)[:count]
    # NaN is greater than all, and no comparison holds of it
    better = np.flatnonzero(~(row <= least) if largest else row < least)
    if len(better) < count:
        equal = np.flatnonzero(row == least)[: count - len(better)]
        better = np.sort(np.concatenate([better, equal]))
    return better[stable_order(row[better], largest)[:count]]
