"""Reductions: over whole axes, over windows that slide along axes, and of all elements so far.

Combiners are those of `arith.COMBINERS`. A reduction over nothing yields the combiner's neutral
element. f16 and bf16 are combined in f32 and rounded once. No order of combining is promised.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from minicc.ir.affine import Dim
from minicc.ir.arith import COMBINERS, accumulated, identity_of, reduce_array, widened
from minicc.ir.core import Op, RunRegion, Value
from minicc.ir.graph.shapes import window_extent
from minicc.ir.types import DType, TensorType, static_shape


def check_combiner(opname: str, combine: str, element: DType) -> None:
    """ValueError for an unknown combiner, TypeError for one that the element type lacks."""
    scalar = COMBINERS.get(combine)
    if scalar is None:
        raise ValueError(f"no combiner is called {combine}; there are {sorted(COMBINERS)}")
    if element.kind not in scalar.kinds and not (element.is_complex and combine == "add"):
        raise TypeError(f"{opname} with `{combine}` is not defined on {element}")


class Reduce(Op, name="graph.reduce"):
    """Combine all elements along `axes`, which vanish, or stay with extent 1 under `keepdims`.

    Axes count from 0 and are given once each; without axes every element is left alone.
    """

    x: Value
    axes: tuple[int, ...]
    combine: str
    keepdims: bool = False

    def infer(self) -> tuple[TensorType, ...]:
        t: TensorType = self.x.type
        check_combiner(self.opname, self.combine, t.dtype)
        if len({*self.axes}) < len(self.axes) or any(not 0 <= a < t.rank for a in self.axes):
            raise ValueError(f"{self.opname} over axes {list(self.axes)} of {t}")
        kept = [1 if k in self.axes else n for k, n in enumerate(t.shape)]
        if not self.keepdims:
            kept = [n for k, n in enumerate(t.shape) if k not in self.axes]
        return (TensorType(t.dtype, tuple(kept)),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        x = np.asarray(args[0])
        return (reduce_array(self.combine, x, self.axes, self.keepdims) if self.axes else x,)


class Accumulate(Op, name="graph.accumulate"):
    """Combine all elements up to each along an axis, itself among them.

    An element has part in the results from its own place on alone: a NaN reaches no one before it.
    """

    x: Value
    axis: int
    combine: str

    def infer(self) -> tuple[TensorType, ...]:
        t: TensorType = self.x.type
        check_combiner(self.opname, self.combine, t.dtype)
        if not 0 <= self.axis < t.rank:
            raise ValueError(f"{self.opname} along axis {self.axis} of {t}")
        return (t,)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        x = np.asarray(args[0])
        return (accumulated(self.combine, x, self.axis),)


class Window(Op, name="graph.window"):
    """Combine the elements of each window of `size` taps, `dilations` apart, every `strides`.

    `size`, `strides` and `dilations` have an entry an axis, 1 where an axis is not pooled. There is
    no padding: `graph.pad` comes before. ValueError where a window does not fit.
    """

    x: Value
    combine: str
    size: tuple[Dim, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]

    def infer(self) -> tuple[TensorType, ...]:
        t: TensorType = self.x.type
        check_combiner(self.opname, self.combine, t.dtype)
        if not len(self.size) == len(self.strides) == len(self.dilations) == t.rank:
            raise ValueError(f"{self.opname} wants a size, stride and dilation an axis of {t}")
        per_axis = zip(t.shape, self.size, self.strides, self.dilations, strict=True)
        return (TensorType(t.dtype, tuple([window_extent(*axis) for axis in per_axis])),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        t: TensorType = self.result.type
        x = widened(np.asarray(args[0]))
        first = identity_of(self.combine, self.x.type.dtype).array.astype(x.dtype)
        out = np.full(t.extents, first)
        combine = COMBINERS[self.combine].compute
        with np.errstate(all="ignore"):
            for tap in itertools.product(*map(range, static_shape(self.size))):
                out = combine(out, x[self._seen_by(tap, t.extents)])
            return (np.asarray(out, t.dtype.numpy),)

    def _seen_by(self, tap: tuple[int, ...], extents: tuple[int, ...]) -> tuple[slice, ...]:
        """The elements that stand at one tap of all the windows."""
        per_axis = zip(tap, self.strides, self.dilations, extents, strict=True)
        return tuple([slice(t * d, t * d + (n - 1) * s + 1, s) for t, s, d, n in per_axis])
