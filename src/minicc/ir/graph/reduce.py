"""Reductions over axes and over sliding windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.ir.affine import Dim
from minicc.ir.arith import COMBINERS, reduce_array
from minicc.ir.core import Array, Op, RunRegion, Value
from minicc.ir.types import TensorType


def _check_combiner(op: Op, combine: str) -> None:
    if combine not in COMBINERS:
        raise ValueError(
            f"{op.opname}: no combiner is called {combine}; there are {sorted(COMBINERS)}"
        )


class Reduce(Op, name="graph.reduce"):
    """Combine the elements along `axes`, which vanish or stay with extent 1.

    Over nothing gives the neutral element.
    """

    x: Value
    axes: tuple[int, ...]
    combine: str
    keepdims: bool = False

    def infer(self) -> tuple[TensorType, ...]:
        _check_combiner(self, self.combine)
        t = self.x.type
        axes = {a % t.rank for a in self.axes}
        if len(axes) != len(self.axes):
            raise ValueError(f"graph.reduce names an axis twice: {self.axes}")
        shape = [
            1 if k in axes else n for k, n in enumerate(t.shape) if self.keepdims or k not in axes
        ]
        return (TensorType(t.dtype, tuple(shape)),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (reduce_array(self.combine, np.asarray(args[0]), tuple(self.axes), self.keepdims),)


def window_extent(extent: Dim, size: int, stride: int, dilation: int) -> Dim:
    """How many windows of `size` taps fit an axis; a number or an expression."""
    span = (size - 1) * dilation + 1
    if stride == 1:
        return extent - span + 1
    if isinstance(extent, int):
        return (extent - span) // stride + 1
    return (extent - span) // stride + 1


def windows(
    x: Array, size: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...]
) -> Array:
    """A view of shape (windows..., taps...) over all sliding windows of an array."""
    counts = tuple(
        (n - (k - 1) * d - 1) // s + 1
        for n, k, s, d in zip(x.shape, size, strides, dilations, strict=True)
    )
    steps = [b * s for b, s in zip(x.strides, strides, strict=True)]
    taps = [b * d for b, d in zip(x.strides, dilations, strict=True)]
    return np.lib.stride_tricks.as_strided(x, (*counts, *size), (*steps, *taps), writeable=False)


class Window(Op, name="graph.window"):
    """Combine each sliding window; `size`, `strides` and `dilations` have an entry an axis.

    No padding.
    """

    x: Value
    combine: str
    size: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]

    def infer(self) -> tuple[TensorType, ...]:
        _check_combiner(self, self.combine)
        t = self.x.type
        parts = zip(t.shape, self.size, self.strides, self.dilations, strict=True)
        shape = tuple(window_extent(*p) for p in parts)
        if any(isinstance(n, int) and n < 1 for n in shape):
            raise ValueError(f"windows of {self.size} do not fit {t}")
        return (TensorType(t.dtype, shape),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        x = np.asarray(args[0])
        view = windows(x, self.size, self.strides, self.dilations)
        return (reduce_array(self.combine, view, tuple(range(x.ndim, 2 * x.ndim))),)
