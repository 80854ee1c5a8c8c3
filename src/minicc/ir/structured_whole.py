"""The ops of the structured dialect that take tensors whole: constants, views, pads, parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.ir.affine import Dim
from minicc.ir.arrays import inserted
from minicc.ir.core import Literal, Op, RunRegion, Value
from minicc.ir.scattering import scattered
from minicc.ir.types import TensorType, static_shape


class Constant(Op, name="structured.constant"):
    """A tensor known at compile time."""

    value: Literal

    def infer(self) -> tuple[TensorType, ...]:
        return (self.value.type,)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (self.value.array,)


class Reshape(Op, name="structured.reshape"):
    """The same elements in row-major order under another shape; a view where memory is dense."""

    x: Value
    shape: tuple[Dim, ...]

    def infer(self) -> tuple[TensorType, ...]:
        return (TensorType(self.x.type.dtype, self.shape),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (np.reshape(args[0], self.result.type.extents),)


class Pad(Op, name="structured.pad"):
    """A larger tensor with `x` inside and `value` around.

    There are `low` elements before and `high` after, an entry an axis. The producer of `x` writes
    into the larger buffer where it can; else this is a copy.
    """

    x: Value
    low: tuple[Dim, ...]
    high: tuple[Dim, ...]
    value: Literal

    def infer(self) -> tuple[TensorType, ...]:
        t = self.x.type
        shape = tuple(n + a + b for n, a, b in zip(t.shape, self.low, self.high, strict=True))
        return (TensorType(t.dtype, shape),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        width = list(zip(static_shape(self.low), static_shape(self.high), strict=True))
        return (np.pad(args[0], width, constant_values=self.value.array[()]),)


class InsertSlice(Op, name="structured.insert_slice"):
    """`x` with `new` inside, whose first element lies at `starts`, and further ones `steps` apart.

    `axes` are those of `x` along which the axes of `new` lie; along others it has one element.
    In the memory of `x` where nobody needs that any more; the producer of `new` writes there where
    it reads nothing of it. Else these are copies.
    """

    x: Value
    new: Value
    starts: tuple[Dim, ...]
    steps: tuple[int, ...]
    axes: tuple[int, ...]

    def infer(self) -> tuple[TensorType, ...]:
        if len(self.axes) != self.new.type.rank or len(self.starts) != self.x.type.rank:
            raise TypeError(f"{self.opname} of {self.new.type} into {self.x.type}")
        return (self.x.type,)

    def extents(self) -> tuple[Dim, ...]:
        """How many elements are replaced along each axis of `x`."""
        found: list[Dim] = [1] * self.x.type.rank
        for axis, n in zip(self.axes, self.new.type.shape, strict=True):
            found[axis] = n
        return tuple(found)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        new = np.reshape(args[1], static_shape(self.extents()))
        return (inserted(args[0], new, static_shape(self.starts), self.steps),)


class Scatter(Op, name="structured.scatter"):
    """`x` with `updates` at `indices`, one after the other, by a kernel of its own.

    As `graph.scatter_elements` along `axis`, or without one as `graph.scatter_nd`. In the memory of
    `x` where nobody needs that any more, else in a copy.
    """

    x: Value
    indices: Value
    updates: Value
    combine: str
    axis: int | None = None

    def infer(self) -> tuple[TensorType, ...]:
        if self.updates.type.dtype is not self.x.type.dtype:
            raise TypeError(f"{self.opname} of {self.updates.type} into {self.x.type}")
        return (self.x.type,)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (scattered(self, self.axis, *map(np.asarray, args)),)


class Concat(Op, name="structured.concat"):
    """Tensors one after the other along an axis.

    Their producers write into the whole where they can.
    """

    xs: tuple[Value, ...]
    axis: int

    def infer(self) -> tuple[TensorType, ...]:
        types = [v.type for v in self.xs]
        extent: Dim = 0
        for t in types:
            extent = extent + t.shape[self.axis]
        shape = types[0].shape
        return (TensorType(types[0].dtype, (*shape[: self.axis], extent, *shape[self.axis + 1 :])),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (np.concatenate(args, axis=self.axis),)
