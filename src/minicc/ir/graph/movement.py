"""Constants and the movement of data: nothing here computes."""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.ir.affine import Dim, multiply
from minicc.ir.core import Literal, Op, RunRegion, Value
from minicc.ir.graph.elementwise import broadcast_shapes
from minicc.ir.types import DType, TensorType, tensor_of


class Constant(Op, name="graph.constant"):
    """A tensor known at compile time."""

    value: Literal

    def infer(self) -> tuple[TensorType, ...]:
        return (tensor_of(self.value.array),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (self.value.array,)


def _count(shape: tuple[Dim, ...]) -> Dim:
    total: Dim = 1
    for n in shape:
        total = multiply(total, n)
    return total


class Reshape(Op, name="graph.reshape"):
    """The same elements in row-major order under another shape."""

    x: Value
    shape: tuple[Dim, ...]

    def infer(self) -> tuple[TensorType, ...]:
        t = self.x.type
        before, after = _count(t.shape), _count(self.shape)
        if isinstance(before, int) and isinstance(after, int) and before != after:
            raise TypeError(f"{t} has {before} elements, the shape {list(self.shape)} has {after}")
        return (TensorType(t.dtype, self.shape),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (np.reshape(args[0], self.result.type.extents),)


class Transpose(Op, name="graph.transpose"):
    """Axis k of the result is axis `perm[k]` of the operand."""

    x: Value
    perm: tuple[int, ...]

    def infer(self) -> tuple[TensorType, ...]:
        t = self.x.type
        if sorted(self.perm) != list(range(t.rank)):
            raise ValueError(f"{list(self.perm)} is no permutation of the axes of {t}")
        return (TensorType(t.dtype, tuple(t.shape[p] for p in self.perm)),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (np.transpose(args[0], self.perm),)


class Broadcast(Op, name="graph.broadcast"):
    """Repeat to `shape` by NumPy's rules."""

    x: Value
    shape: tuple[Dim, ...]

    def infer(self) -> tuple[TensorType, ...]:
        if broadcast_shapes(self.x.type.shape, self.shape) != tuple(self.shape):
            raise TypeError(f"{self.x.type} does not broadcast to {list(self.shape)}")
        return (TensorType(self.x.type.dtype, self.shape),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (np.broadcast_to(args[0], self.result.type.extents),)


def slice_extent(start: int, stop: int, step: int) -> int:
    """How many elements start, start+step, ... lie before `stop`."""
    return len(range(start, stop, step))


class Slice(Op, name="graph.slice"):
    """Every `step`-th element from `start` before `stop`, an entry an axis.

    Steps may be negative, stops then -1.
    """

    x: Value
    starts: tuple[int, ...]
    stops: tuple[int, ...]
    steps: tuple[int, ...]

    def infer(self) -> tuple[TensorType, ...]:
        t = self.x.type
        shape: list[Dim] = []
        for n, start, stop, step in zip(t.shape, self.starts, self.stops, self.steps, strict=True):
            extent = slice_extent(start, stop, step)
            if (
                extent
                and isinstance(n, int)
                and not (0 <= start < n and 0 <= start + (extent - 1) * step < n)
            ):
                raise ValueError(f"the slice {start}:{stop}:{step} leaves an axis of {n}")
            shape.append(extent)
        return (TensorType(t.dtype, tuple(shape)),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        cuts = tuple(
            slice(start, None if stop < 0 else stop, step)
            for start, stop, step in zip(self.starts, self.stops, self.steps, strict=True)
        )
        return (np.asarray(args[0])[cuts],)


class Concat(Op, name="graph.concat"):
    """Tensors one after the other along an axis."""

    xs: tuple[Value, ...]
    axis: int

    def infer(self) -> tuple[TensorType, ...]:
        types = [v.type for v in self.xs]
        first, extent = types[0], types[0].shape[self.axis]
        for t in types[1:]:
            rest = (*t.shape[: self.axis], first.shape[self.axis], *t.shape[self.axis + 1 :])
            if t.dtype is not first.dtype or rest != first.shape:
                raise TypeError(f"{t} does not continue {first} along axis {self.axis}")
            extent = extent + t.shape[self.axis]
        shape = (*first.shape[: self.axis], extent, *first.shape[self.axis + 1 :])
        return (TensorType(first.dtype, shape),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (np.concatenate(args, axis=self.axis),)


class Pad(Op, name="graph.pad"):
    """`low` elements of `value` before and `high` behind, an entry an axis, none negative."""

    x: Value
    low: tuple[int, ...]
    high: tuple[int, ...]
    value: Literal

    def infer(self) -> tuple[TensorType, ...]:
        t = self.x.type
        if min((*self.low, *self.high), default=0) < 0:
            raise ValueError("graph.pad takes no negative widths; slice instead")
        shape = tuple(n + a + b for n, a, b in zip(t.shape, self.low, self.high, strict=True))
        return (TensorType(t.dtype, shape),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        width = list(zip(self.low, self.high, strict=True))
        return (np.pad(args[0], width, constant_values=self.value.array[()]),)


class Iota(Op, name="graph.iota"):
    """The index along `axis`."""

    shape: tuple[Dim, ...]
    axis: int
    dtype: DType

    def infer(self) -> tuple[TensorType, ...]:
        return (TensorType(self.dtype, self.shape),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        extents = self.result.type.extents
        line = np.arange(extents[self.axis]).astype(self.dtype.numpy)
        shape = [1] * len(extents)
        shape[self.axis] = -1
        return (np.broadcast_to(line.reshape(shape), extents),)


class Gather(Op, name="graph.gather"):
    """numpy.take: `indices` into one axis, counted from the end where negative.

    IndexError outside.
    """

    x: Value
    indices: Value
    axis: int

    def infer(self) -> tuple[TensorType, ...]:
        t, i = self.x.type, self.indices.type
        if not i.dtype.is_integer:
            raise TypeError(f"graph.gather wants integer indices, not {i}")
        return (TensorType(t.dtype, (*t.shape[: self.axis], *i.shape, *t.shape[self.axis + 1 :])),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (np.take(args[0], args[1], axis=self.axis),)
