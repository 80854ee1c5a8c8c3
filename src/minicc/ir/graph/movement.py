"""Ops that place and move elements without computing on them."""

from __future__ import annotations

import itertools
from functools import reduce
from typing import Any

import numpy as np

from minicc.ir import affine
from minicc.ir.affine import Dim
from minicc.ir.arrays import inserted
from minicc.ir.core import Literal, Op, RunRegion, Value
from minicc.ir.graph.shapes import (
    Shape,
    agree,
    check_axis,
    differ,
    product,
    show,
    window_extent,
)
from minicc.ir.indices import counted
from minicc.ir.types import DType, TensorType, static_shape


class Constant(Op, name="graph.constant"):
    """A tensor that is known."""

    value: Literal

    def infer(self) -> tuple[TensorType, ...]:
        return (self.value.type,)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (self.value.array,)


class Iota(Op, name="graph.iota"):
    """0, 1, 2, ... along `axis`, the same along all others."""

    shape: tuple[Dim, ...]
    axis: int
    dtype: DType

    def infer(self) -> tuple[TensorType, ...]:
        check_axis(self.opname, self.axis, len(self.shape))
        if self.dtype.kind not in "fiu":
            raise TypeError(f"{self.opname} is not defined on {self.dtype}")
        return (TensorType(self.dtype, self.shape),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        extents = static_shape(self.shape)
        column = (-1,) + (1,) * (len(extents) - self.axis - 1)
        counted = np.arange(extents[self.axis]).astype(self.dtype.numpy).reshape(column)
        return (np.broadcast_to(counted, extents),)


class Sizes(Op, name="graph.sizes"):
    """Dimensions as a tensor: integers that may depend on what is free, in row-major order."""

    values: tuple[Dim, ...]
    shape: tuple[int, ...]
    dtype: DType

    def infer(self) -> tuple[TensorType, ...]:
        if not self.dtype.is_integer:
            raise TypeError(f"{self.opname} is not defined on {self.dtype}")
        if product(self.shape) != len(self.values):
            raise TypeError(f"{self.opname} has {len(self.values)} values for {show(self.shape)}")
        return (TensorType(self.dtype, self.shape),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        numbers = np.array(static_shape(self.values), np.int64)
        return (numbers.astype(self.dtype.numpy).reshape(self.shape),)


class Reshape(Op, name="graph.reshape"):
    """The same elements in row-major order under another shape."""

    x: Value
    shape: tuple[Dim, ...]

    def infer(self) -> tuple[TensorType, ...]:
        t: TensorType = self.x.type
        if differ(product(t.shape), product(self.shape)):
            raise TypeError(f"{t} has not as many elements as {show(self.shape)}")
        if any(isinstance(n, int) and n < 0 for n in self.shape):
            raise TypeError(f"no tensor has the shape {show(self.shape)}")
        return (TensorType(t.dtype, self.shape),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (np.asarray(args[0]).reshape(static_shape(self.shape)),)


class Transpose(Op, name="graph.transpose"):
    """Axis `k` of the result is axis `perm[k]` of the operand."""

    x: Value
    perm: tuple[int, ...]

    def infer(self) -> tuple[TensorType, ...]:
        t: TensorType = self.x.type
        if sorted(self.perm) != list(range(t.rank)):
            raise ValueError(f"{list(self.perm)} is no permutation of the axes of {t}")
        return (TensorType(t.dtype, tuple([t.shape[k] for k in self.perm])),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (np.transpose(args[0], self.perm),)


class Broadcast(Op, name="graph.broadcast"):
    """Repeat up to `shape`: new leading axes, and axes of extent 1 (numpy.broadcast_to)."""

    x: Value
    shape: tuple[Dim, ...]

    def infer(self) -> tuple[TensorType, ...]:
        t: TensorType = self.x.type
        pairs = zip(reversed(t.shape), reversed(self.shape), strict=False)
        if t.rank > len(self.shape) or any(n != 1 and differ(n, m) for n, m in pairs):
            raise TypeError(f"{t} does not broadcast to {show(self.shape)}")
        return (TensorType(t.dtype, self.shape),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (np.broadcast_to(args[0], static_shape(self.shape)),)


class Frames(Op, name="graph.frames"):
    """All runs of `size` neighbours along an axis, of which each is a row of a new last axis.

    One begins at every step-th element that has so many from there on: where `step` is 1 it is
    numpy.sliding_window_view, else tf.signal.frame.
    """

    x: Value
    axis: int
    size: Dim
    step: int = 1

    def infer(self) -> tuple[TensorType, ...]:
        t: TensorType = self.x.type
        check_axis(self.opname, self.axis, t.rank)
        count = window_extent(t.shape[self.axis], self.size, self.step, 1)
        shape = (*t.shape[: self.axis], count, *t.shape[self.axis + 1 :], self.size)
        return (TensorType(t.dtype, shape),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        (size,) = static_shape((self.size,))
        every = np.lib.stride_tricks.sliding_window_view(args[0], size, self.axis)
        return (every[(slice(None),) * self.axis + (slice(None, None, self.step),)],)


class Slice(Op, name="graph.slice"):
    """Along each axis the elements `start, start + step, ...` that come before `stop`.

    An entry an axis. With a positive step 0 <= start <= stop <= extent; with a negative one
    -1 <= stop <= start <= extent - 1, where a stop of -1 takes element 0 with it (unlike Python).
    """

    x: Value
    starts: tuple[Dim, ...]
    stops: tuple[Dim, ...]
    steps: tuple[int, ...]

    def infer(self) -> tuple[TensorType, ...]:
        t: TensorType = self.x.type
        if not len(self.starts) == len(self.stops) == len(self.steps) == t.rank:
            raise ValueError(f"{self.opname} wants a start, stop and step an axis of {t}")
        per_axis = zip(t.shape, self.starts, self.stops, self.steps, strict=True)
        return (TensorType(t.dtype, tuple([self._extent(*axis) for axis in per_axis])),)

    def _extent(self, extent: Dim, start: Dim, stop: Dim, step: int) -> Dim:
        if step == 0:
            raise ValueError(f"{self.opname} with a step of 0")
        ascending = (0, start, stop, extent) if step > 0 else (-1, stop, start, extent - 1)
        gaps = [b - a for a, b in itertools.pairwise(ascending)]
        if any(isinstance(gap, int) and gap < 0 for gap in gaps):
            raise ValueError(f"{start}:{stop}:{step} is no normal slice of the extent {extent}")
        return affine.floordiv(gaps[1] + (abs(step) - 1), abs(step))

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        starts, stops = static_shape(self.starts), static_shape(self.stops)
        cut = [_python_slice(*axis) for axis in zip(starts, stops, self.steps, strict=True)]
        return (np.asarray(args[0])[tuple(cut)],)


class InsertSlice(Op, name="graph.insert_slice"):
    """`x` with `new` in the place of the elements `start, start + step, ...` of each axis.

    An entry an axis. Steps are at least 1, and 0 <= start, so that all of `new` lies within `x`.
    """

    x: Value
    new: Value
    starts: tuple[Dim, ...]
    steps: tuple[int, ...]

    def infer(self) -> tuple[TensorType, ...]:
        t, new = self.x.type, self.new.type
        if t.dtype is not new.dtype or not t.rank == new.rank == len(self.starts):
            raise TypeError(f"{self.opname} of {new} into {t}")
        for whole, n, start, step in zip(t.shape, new.shape, self.starts, self.steps, strict=True):
            room = whole - start - affine.multiply(n - 1, step) - 1
            outside = isinstance(room, int) and room < 0 and n != 0
            if step < 1 or outside or (isinstance(start, int) and start < 0):
                raise ValueError(f"{new} at {start} by {step} does not lie within {t}")
        return (t,)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (inserted(args[0], args[1], static_shape(self.starts), self.steps),)


def _python_slice(start: int, stop: int, step: int) -> slice[int, int | None, int]:
    """Python reads a stop of -1 as the last element; None is its word for "down to the first"."""
    return slice(0, 0, 1) if start == stop else slice(start, None if stop < 0 else stop, step)


class Concat(Op, name="graph.concat"):
    """Tensors one after the other along an axis."""

    xs: tuple[Value, ...]
    axis: int

    def infer(self) -> tuple[TensorType, ...]:
        types: list[TensorType] = [v.type for v in self.xs]
        if not types:
            raise TypeError(f"{self.opname} wants at least one operand")
        first = types[0]
        check_axis(self.opname, self.axis, first.rank)
        if any(t.rank != first.rank or t.dtype is not first.dtype for t in types):
            raise TypeError(f"{self.opname} of {types}: ranks or element types differ")
        shapes = [list(t.shape) for t in types]
        length = reduce(affine.add, [shape.pop(self.axis) for shape in shapes])
        try:
            rest = [reduce(agree, column) for column in zip(*shapes, strict=True)]
        except TypeError as error:
            message = f"{types} do not fit together along axis {self.axis}"
            raise TypeError(message) from error
        rest.insert(self.axis, length)
        return (TensorType(first.dtype, tuple(rest)),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (np.concatenate(args, axis=self.axis),)


class Pad(Op, name="graph.pad"):
    """Put `low` elements before and `high` after along each axis, all equal to `value`."""

    x: Value
    low: tuple[Dim, ...]
    high: tuple[Dim, ...]
    value: Literal

    def infer(self) -> tuple[TensorType, ...]:
        t: TensorType = self.x.type
        negative = any(isinstance(n, int) and n < 0 for n in self.low + self.high)
        if negative or not len(self.low) == len(self.high) == t.rank:
            raise ValueError(f"{self.opname} wants two amounts of at least 0 an axis of {t}")
        if self.value.type != TensorType(t.dtype):
            raise TypeError(f"{self.opname} of {t} with {self.value.type}")
        per_axis = zip(t.shape, self.low, self.high, strict=True)
        return (TensorType(t.dtype, tuple([n + (a + b) for n, a, b in per_axis])),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        x = np.asarray(args[0])
        low = static_shape(self.low)
        out = np.full(self.result.type.extents, self.value.array, x.dtype)
        out[tuple([slice(a, a + n) for a, n in zip(low, x.shape, strict=True)])] = x
        return (out,)


class Gather(Op, name="graph.gather"):
    """The slices of `x` along `axis` that `indices` name (numpy.take).

    The axis gives way to the shape of `indices`, which hold i32 or i64. A negative index counts
    from the end; evaluation raises IndexError for one that is out of range.
    """

    x: Value
    indices: Value
    axis: int

    def infer(self) -> tuple[TensorType, ...]:
        t, indices = self.x.type, self.indices.type
        check_axis(self.opname, self.axis, t.rank)
        if not indices.dtype.is_integer:
            raise TypeError(f"{self.opname} wants integers as indices, not {indices}")
        shape: Shape = (*t.shape[: self.axis], *indices.shape, *t.shape[self.axis + 1 :])
        return (TensorType(t.dtype, shape),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        x, indices = map(np.asarray, args)
        places = counted(indices, x.shape[self.axis], self.loc)
        return (np.take(x, places, axis=self.axis),)
