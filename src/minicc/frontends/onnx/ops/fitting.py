"""Tensors with zeros around them, or with less of them where that is negative."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.ops.movement import Range, cut
from minicc.ir import graph
from minicc.ir.affine import Dim, maximum, substitute, symbol, symbols
from minicc.ir.affine_facts import at_least
from minicc.ir.core import Literal, Value


def _is_natural(value: Dim, taps: Sequence[Dim]) -> bool:
    """Whether a number is surely not negative, of kernels that have so many taps, at least 1."""
    more = {name: n + 1 for n in taps for name in symbols(n) if n == symbol(name)}
    return at_least(substitute(value, more), 0)


def clamped(value: Dim, taps: Sequence[Dim]) -> Dim:
    """A number, or 0 where it is negative."""
    if _is_natural(value, taps):
        return value
    return 0 if _is_natural(-value, taps) else maximum(value, 0)


def fitted(
    ctx: Context,
    x: Value,
    low: Sequence[Dim],
    high: Sequence[Dim],
    first: int = 2,
    taps: Sequence[Dim] = (),
) -> Value:
    """`x` with zeros around its axes from `first` on, or with so much less where it is negative.

    `taps` are extents that are at least 1, by which signs can be told.
    """
    shape = x.type.shape
    before, after = ([clamped(n, taps) for n in side] for side in (low, high))
    ranges: dict[int, Range] = {}
    for k, (a, b) in enumerate(zip(low, high, strict=True)):
        if before[k] != a or after[k] != b:
            end = shape[first + k] - (after[k] - b)
            ranges[first + k] = (before[k] - a, end, 1)
    x = cut(ctx, x, ranges)
    if not any((*before, *after)):
        return x
    zero = Literal(np.zeros((), x.type.dtype.numpy))
    outer = (0,) * first
    return ctx.emit(graph.Pad, x, low=(*outer, *before), high=(*outer, *after), value=zero)
