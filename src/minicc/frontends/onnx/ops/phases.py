"""Transposed convolutions with strides, phase by phase of these.

What lies `strides` apart in the result is made by the same taps of the kernel: it is a convolution
of the elements by these, whose results are laid side by side.

All phases may be one convolution, with a channel for each. It has the most taps that a phase has
for each of them, at all places that one of them has. Where that is much more than what is wanted,
each phase is a convolution of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.ops.fitting import fitted
from minicc.frontends.onnx.ops.movement import Range, cut
from minicc.ir import graph
from minicc.ir.affine import Dim, ceildiv, typical
from minicc.ir.core import Value
from minicc.ir.types import static_shape

_WASTE = 1.2  # of the products of one convolution to those wanted, from which on there are several
_FEWEST = 16  # channels of a convolution of its own: columns of a product


class _Phase(NamedTuple):
    """Along an axis: which taps make it, at which element the first place begins."""

    taps: range
    start: int


def by_phases(
    ctx: Context,
    x: Value,
    w: Value,
    groups: int,
    strides: tuple[int, ...],
    gone: tuple[Sequence[Dim], Sequence[Dim]],
) -> Value:
    """The transposed convolution without dilations; `gone` is cut off before and after.

    Where that is negative, zeros are added.
    """
    size, (low, high) = w.type.shape[2:], gone
    if groups == 1 and all(isinstance(n, int) for n in (*size, *low, *high)):
        counts = [
            n - 1 + ceildiv(k - a - b, s)
            for n, k, s, a, b in zip(x.type.shape[2:], size, strides, low, high, strict=True)
        ]
        if _pays(x, w, strides, counts):
            each = zip(static_shape(size), strides, static_shape(tuple(low)), strict=True)
            axes = [_phases(*axis) for axis in each]
            return _apart(ctx, x, w, axes, counts, gone)
    out = _together(ctx, x, w, groups, strides)
    # the last phases of the last element lie after the end
    spare = [-k % s for k, s in zip(size, strides, strict=True)]
    after = [-b - n for b, n in zip(high, spare, strict=True)]
    return fitted(ctx, out, [-n for n in low], after, taps=size)


def _phases(size: int, stride: int, low: int) -> list[_Phase]:
    """The phases of an axis, that of its first element first."""
    found: list[_Phase] = []
    for place in range(low, low + stride):
        first, tap = divmod(place, stride)
        taps = range(tap, size, stride)
        found.append(_Phase(taps, first - max(0, len(taps) - 1)))
    return found


def _pays(x: Value, w: Value, strides: Sequence[int], counts: Sequence[Dim]) -> bool:
    """Whether convolutions of their own have many columns, and far fewer products together."""
    _, width, *size = w.type.shape
    places = [typical(n) for n in counts]
    if not isinstance(width, int) or width < _FEWEST or min(places) < 1:
        return False
    if any(k < s for k, s in zip(size, strides, strict=True)):
        return False  # a phase has no taps
    most = [ceildiv(k, s) for k, s in zip(size, strides, strict=True)]
    together = [
        (typical(n) + m - 1) * m * s
        for n, m, s in zip(x.type.shape[2:], most, strides, strict=True)
    ]
    apart = [n * k for n, k in zip(places, size, strict=True)]
    return bool(prod(together) >= _WASTE * prod(apart))


def _apart(
    ctx: Context,
    x: Value,
    w: Value,
    axes: Sequence[Sequence[_Phase]],
    counts: Sequence[Dim],
    gone: tuple[Sequence[Dim], Sequence[Dim]],
) -> Value:
    """A convolution for each phase, of as many places."""
    rank, width = len(axes), w.type.shape[1]
    low = [max(-phase.start for phase in phases) for phases in axes]
    stops = [max(p.start + len(p.taps) - 1 for p in phases) for phases in axes]
    high = [stop + n - m for stop, n, m in zip(stops, counts, x.type.shape[2:], strict=True)]
    whole = fitted(ctx, x, low, high)
    swapped = ctx.emit(graph.Transpose, w, perm=(1, 0, *range(2, rank + 2)))
    made: list[Value] = []
    for phases in product(*axes):
        turned: dict[int, Range] = {}
        read: dict[int, Range] = {}
        for axis, (phase, before, n) in enumerate(zip(phases, low, counts, strict=True), 2):
            first = phase.start + before
            turned[axis] = (phase.taps[-1], -1, -len(axes[axis - 2]))
            read[axis] = (first, first + n + len(phase.taps) - 1, 1)
        one = (1,) * rank
        part, weights = cut(ctx, whole, read), cut(ctx, swapped, turned)
        made.append(ctx.emit(graph.Conv, part, weights, strides=one, dilations=one))
    out = ctx.emit(graph.Concat, made, axis=1)
    strides = [len(phases) for phases in axes]
    split = ctx.reshape(out, (x.type.shape[0], *strides, width, *counts))
    perm = (0, 1 + rank, *[k for axis in range(rank) for k in (2 + rank + axis, 1 + axis)])
    laid = ctx.emit(graph.Transpose, split, perm=perm)
    wide = [n * s for n, s in zip(counts, strides, strict=True)]
    out = ctx.reshape(laid, (x.type.shape[0], width, *wide))
    full = zip(x.type.shape[2:], strides, w.type.shape[2:], *gone, strict=True)
    wanted = [(n - 1) * s + k - a - b for n, s, k, a, b in full]
    return fitted(ctx, out, [0] * rank, [n - m for n, m in zip(wanted, wide, strict=True)])


def _together(ctx: Context, x: Value, w: Value, groups: int, strides: tuple[int, ...]) -> Value:
    """One convolution for all phases, whose channels are then laid side by side."""
    channels, width, *kernel = w.type.shape
    share = ctx.quotient(channels, groups, "channels")
    rank = len(kernel)
    steps = [ceildiv(k, s) for k, s in zip(kernel, strides, strict=True)]
    lack = [m * s - k for m, s, k in zip(steps, strides, kernel, strict=True)]
    whole = fitted(ctx, w, [0] * rank, lack)
    pairs = [n for pair in zip(steps, strides, strict=True) for n in pair]
    apart = ctx.reshape(whole, (groups, share, width, *pairs))
    step_axes = tuple(3 + 2 * k for k in range(rank))
    phase_axes = tuple(4 + 2 * k for k in range(rank))
    turned = cut(
        ctx, apart, {a: (m - 1, -1, -1) for a, m in zip(step_axes, steps, strict=True) if m != 1}
    )
    perm = (0, 2, *phase_axes, 1, *step_axes)
    moved = ctx.emit(graph.Transpose, turned, perm=perm)
    phases = prod(strides)
    weights = ctx.reshape(moved, (groups * width * phases, share, *steps))
    around = [m - 1 for m in steps]
    out = ctx.emit(
        graph.Conv,
        fitted(ctx, x, around, around, taps=kernel),
        weights,
        strides=(1,) * rank,
        dilations=(1,) * rank,
        groups=groups,
    )
    batch, _, *spatial = out.type.shape
    split = ctx.reshape(out, (batch, groups * width, *strides, *spatial))
    mixed = [2 + k + rank * side for k in range(rank) for side in (1, 0)]
    laid = ctx.emit(graph.Transpose, split, perm=(0, 1, *mixed))
    wide = [n * s for n, s in zip(spatial, strides, strict=True)]
    return ctx.reshape(laid, (batch, groups * width, *wide))
