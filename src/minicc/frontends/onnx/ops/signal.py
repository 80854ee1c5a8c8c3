"""Fourier transforms, and windows.

Those of lengths with small factors are fast (see `library.fourier`); others are products with a
matrix of sines and cosines, made in f64 at import, or by the graph where the axis is free.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.model.tensors import element_type
from minicc.frontends.onnx.ops.movement import cut
from minicc.frontends.onnx.registry import Importer, operator, register
from minicc.ir import graph
from minicc.ir.affine import Dim, maximum, minimum
from minicc.ir.core import Literal, Op, Value
from minicc.ir.types import F64, I64
from minicc.library.fourier import (
    apart,
    radices_of,
    rotations,
    signal_of,
    spectrum_of,
    together,
)


@operator("DFT", attributes="axis inverse onesided")
def dft(
    ctx: Context, node: Node, x: Value, length: Value | None = None, axis: Value | None = None
) -> Value:
    """The Fourier transform along an axis, of real (last extent 1) or complex numbers (2)."""
    rank = x.type.rank
    if axis is not None:
        (named,) = ctx.integers(axis, "axis")
    else:
        named = node.integer("axis", 1 if ctx.opset < 20 else -2)
    (along,) = ctx.axes((named,), rank)
    if along == rank - 1:
        raise ctx.refused("the last axis holds the parts of complex numbers")
    inverse, half = bool(node.integer("inverse", 0)), bool(node.integer("onesided", 0))
    own = x.type.shape[along]
    wanted: Dim = own
    if length is not None:
        (wanted,) = ctx.dims(length, "dft_length")
    elif inverse and half:
        wanted = 2 * (own - 1)
    if isinstance(wanted, int) and _is_fast(x, wanted):
        return _fast(ctx, x, along, wanted, inverse, half)
    moved = _last_but_one(ctx, x, along)
    if inverse and half:
        out = _real_from_half(ctx, moved, wanted)
    else:
        rows = wanted // 2 + 1 if half else wanted
        out = _dense(ctx, _fitting(ctx, moved, rank - 2, wanted), rows, wanted, inverse)
    back = list(range(rank))
    back[along], back[rank - 2] = rank - 2, along
    return out if along == rank - 2 else ctx.emit(graph.Transpose, out, perm=tuple(back))


def _is_fast(x: Value, length: int) -> bool:
    """Whether transforms of this length are less work in stages than as a product."""
    radices = radices_of(length, max(x.type.dtype.bytes, 4)) if length > 1 else ()
    return isinstance(x.type.shape[-1], int) and len(radices) > 1


def _fast(ctx: Context, x: Value, axis: int, length: int, inverse: bool, half: bool) -> Value:
    largest = max(radices_of(length, max(x.type.dtype.bytes, 4)))
    ctx.room(largest, largest, 2, 2)
    if inverse and half:
        y = apart(ctx.emit, _half(ctx, x, axis, length), axis)
        parts: Sequence[Value] = [signal_of(ctx.emit, y, axis, length)]
    else:
        rows = length // 2 + 1 if half else length
        y = apart(ctx.emit, _fitting(ctx, x, axis, length), axis)
        parts = spectrum_of(ctx.emit, y, axis, rows, inverse)
    return ctx.cast(together(ctx.emit, parts), x.type.dtype)


def _last_but_one(ctx: Context, x: Value, axis: int) -> Value:
    perm = list(range(x.type.rank))
    perm[axis], perm[-2] = perm[-2], perm[axis]
    return x if axis == x.type.rank - 2 else ctx.emit(graph.Transpose, x, perm=tuple(perm))


def _fitting(ctx: Context, x: Value, axis: int, length: Dim) -> Value:
    """`x` with so many elements along an axis: the first of them, then zeros."""
    own, low = x.type.shape[axis], (0,) * x.type.rank
    kept = own if own == length else minimum(own, length)
    x = cut(ctx, x, {axis: (0, kept, 1)})
    if kept == length:
        return x
    zero = Literal(np.zeros((), x.type.dtype.numpy))
    high = (*low[:axis], length - kept, *low[axis + 1 :])
    return ctx.emit(graph.Pad, x, low=low, high=high, value=zero)


def _product(ctx: Context, x: Value, weights: Value) -> Value:
    """[..., n, parts] with weights [n, parts, k, result's parts], summed over n and parts."""
    letters = "abcdefghijkl"[: x.type.rank]
    n, p = letters[-2], letters[-1]
    # of a real number there is only the first part
    matrix = cut(ctx, weights, {1: (0, x.type.shape[-1], 1)})
    equation = f"{letters},{n}{p}yz->{letters[:-2]}yz"
    return ctx.emit(graph.Contract, x, matrix, equation=equation)


def _dense(ctx: Context, x: Value, rows: Dim, length: Dim, inverse: bool) -> Value:
    if isinstance(length, int) and isinstance(rows, int):
        ctx.room(length, rows, 2, 2)
        real, imaginary = (part.T for part in rotations(rows, length, length, inverse))
        weights = np.stack([real, imaginary, -imaginary, real], -1).reshape(length, rows, 2, 2)
        weights = weights.transpose(0, 2, 1, 3) / (length if inverse else 1)
        return _product(ctx, x, ctx.constant(weights.astype(x.type.dtype.numpy)))
    cosines, sines = _free_rotations(ctx, length, rows, length, x)
    less = ctx.emit(graph.Neg, sines)
    ends = (cosines, sines, less, cosines) if inverse else (cosines, less, sines, cosines)
    columns = [ctx.reshape(v, (length, 1, rows, 1)) for v in ends]
    lines = [ctx.emit(graph.Concat, tuple(columns[k : k + 2]), axis=3) for k in (0, 2)]
    out = _product(ctx, x, ctx.emit(graph.Concat, tuple(lines), axis=1))
    return ctx.emit(graph.Div, out, ctx.extent(length, out)) if inverse else out


def _half(ctx: Context, x: Value, axis: int, length: Dim) -> Value:
    """The lower half of the transform of a real signal, fitted to the signal's length."""
    text = "the half of a transform has two parts, real and imaginary"
    ctx.demand(x.type.shape[-1], 2, text)
    return _fitting(ctx, x, axis, length // 2 + 1)


def _real_from_half(ctx: Context, x: Value, length: Dim) -> Value:
    """The real signal of a given length of which `x` is the lower half of the transform."""
    rows = length // 2 + 1
    half = _half(ctx, x, x.type.rank - 2, length)
    if isinstance(length, int) and isinstance(rows, int):
        ctx.room(length, rows, 2)
        number = np.arange(rows)[:, None]
        twice = np.where((number == 0) | (2 * number == length), 1, 2) / max(length, 1)
        real, imaginary = (part.T * twice for part in rotations(length, rows, length, True))
        weights = np.stack([real, -imaginary], axis=1)[..., None]
        return _product(ctx, half, ctx.constant(weights.astype(x.type.dtype.numpy)))
    cosines, sines = _free_rotations(ctx, rows, length, length, x)
    row = ctx.emit(graph.Iota, shape=(rows, 1), axis=0, dtype=I64)
    mirrored = ctx.emit(graph.Add, row, row)
    ends = [ctx.emit(graph.Eq, mirrored, ctx.extent(n, I64)) for n in (0, length)]
    alone = ctx.emit(graph.Or, *ends)
    factor = ctx.emit(graph.Select, alone, ctx.scalar(1, x), ctx.scalar(2, x))
    lines = (ctx.emit(graph.Mul, v, factor) for v in (cosines, ctx.emit(graph.Neg, sines)))
    columns = tuple(ctx.reshape(v, (rows, 1, length, 1)) for v in lines)
    out = _product(ctx, half, ctx.emit(graph.Concat, columns, axis=1))
    return ctx.emit(graph.Div, out, ctx.extent(length, out))


def _free_rotations(
    ctx: Context, rows: Dim, columns: Dim, length: Dim, like: Value
) -> tuple[Value, Value]:
    """The cosines and sines of 2 pi r c / length, [rows, columns].

    Those of a whole turn are computed once, in f64, and taken from there.
    """
    step = ctx.emit(graph.Iota, shape=(length,), axis=0, dtype=F64)
    angle = ctx.emit(graph.Div, ctx.scaled(step, 2 * np.pi), ctx.extent(length, F64))
    row = ctx.emit(graph.Iota, shape=(rows, 1), axis=0, dtype=I64)
    column = ctx.emit(graph.Iota, shape=(1, columns), axis=1, dtype=I64)
    turns = ctx.emit(graph.Mod, ctx.emit(graph.Mul, row, column), ctx.extent(length, I64))

    def table(cls: type[Op]) -> Value:
        line = ctx.cast(ctx.emit(cls, angle), like.type.dtype)
        return ctx.emit(graph.Gather, line, turns, axis=0)

    return table(graph.Cos), table(graph.Sin)


@operator("STFT", attributes="onesided")
def stft(
    ctx: Context,
    node: Node,
    signal: Value,
    step: Value,
    window: Value | None = None,
    length: Value | None = None,
) -> Value:
    """Transforms of overlapping frames.

    Where these are fast they are what they are called; else a convolution with the windowed rows
    of the transform.
    """
    (hop,) = ctx.integers(step, "frame_step")
    if length is not None:
        (size,) = ctx.integers(length, "frame_length")
    elif window is not None:
        size = ctx.static(window.type.shape[0], "the length of the window")
    else:
        raise ctx.wrong("it has neither a window nor a frame_length")
    half = bool(node.integer("onesided", 1))
    rows = size // 2 + 1 if half else size
    shape = signal.type.shape
    if signal.type.rank == 2:
        signal = ctx.reshape(signal, (*shape, 1))
    if _is_fast(signal, size) and hop > 0 and not ctx.decides(shape[1]):
        frames = _framed(ctx, signal, window, size, hop)
        found = spectrum_of(ctx.emit, apart(ctx.emit, frames, 2), 2, rows)
        return ctx.cast(together(ctx.emit, found), signal.type.dtype)
    ctx.room(2, rows, 2, size)
    real, imaginary = rotations(rows, size, size, False)
    kernel = np.stack([np.stack([real, imaginary]), np.stack([-imaginary, real])], axis=2)
    flat = kernel.reshape(2 * rows, 2, size).astype(signal.type.dtype.numpy)
    # of a real signal there is only the first part
    weights = cut(ctx, ctx.constant(flat), {1: (0, signal.type.shape[2], 1)})
    if window is not None:
        weights = ctx.emit(graph.Mul, weights, window)
    channels = ctx.emit(graph.Transpose, signal, perm=(0, 2, 1))
    out = ctx.emit(graph.Conv, channels, weights, strides=(hop,), dilations=(1,))
    batch, _, frames = out.type.shape
    out = ctx.reshape(out, (batch, 2, rows, frames))
    return ctx.emit(graph.Transpose, out, perm=(0, 3, 2, 1))


def _framed(ctx: Context, signal: Value, window: Value | None, size: int, hop: int) -> Value:
    """[batch, frames, size, parts] of a signal [batch, length, parts], times a window."""
    frames = ctx.emit(graph.Frames, signal, axis=1, size=size, step=hop)
    if window is not None:
        frames = ctx.emit(graph.Mul, frames, window)
    return ctx.emit(graph.Transpose, frames, perm=(0, 1, 3, 2))


def _window(terms: Sequence[float]) -> Importer:
    """A sum of cosines over a window, which is periodic or symmetric."""

    def run(ctx: Context, node: Node, size: Value) -> Value:
        (count,) = ctx.dims(size, "size")
        to = element_type(node.integer("output_datatype", 1), "the result", node.name)
        period = count if node.integer("periodic", 1) else count - 1
        if isinstance(count, int) and isinstance(period, int):
            ctx.room(count)
            turn = 2 * np.pi * np.arange(count) / max(period, 1)
            line = sum(c * np.cos(k * turn) for k, c in enumerate(terms))
            return ctx.constant(np.asarray(line).astype(to.numpy))
        step = ctx.emit(graph.Iota, shape=(count,), axis=0, dtype=F64)
        whole = ctx.extent(maximum(period, 1), F64)
        turns = ctx.emit(graph.Div, ctx.scaled(step, 2 * np.pi), whole)
        waves = [ctx.emit(graph.Cos, ctx.scaled(turns, k)) for k in range(1, len(terms))]
        total = ctx.scalar(terms[0], step)
        for c, wave in zip(terms[1:], waves, strict=True):
            total = ctx.emit(graph.Add, total, ctx.scaled(wave, c))
        return ctx.cast(total, to)

    return run


register("HannWindow", _window((0.5, -0.5)), "output_datatype periodic")
register("HammingWindow", _window((25 / 46, -21 / 46)), "output_datatype periodic")
register("BlackmanWindow", _window((0.42, -0.5, 0.08)), "output_datatype periodic")


@operator("MelWeightMatrix", attributes="output_datatype")
def mel_weight_matrix(
    ctx: Context, node: Node, bins: Value, length: Value, rate: Value, low: Value, high: Value
) -> Value:
    """Triangles over the bins of a transform, spaced evenly on the mel scale."""
    given = (bins, length, rate, low, high)
    if any(v.type.dtype.is_float for v in (bins, length, rate)):
        raise ctx.refused("numbers of bins, lengths and rates are integers")
    count, size, rate_, lowest, highest = (ctx.known(v, "scalar").item() for v in given)
    rows = size // 2 + 1
    ctx.room(rows, count)
    ends = [2595 * np.log10(1 + hertz / 700) for hertz in (lowest, highest)]
    step = (ends[1] - ends[0]) / (count + 2)
    mels = ends[0] + step * np.arange(count + 2)
    centres = 700 * (10 ** (mels / 2595) - 1)
    places = ((size + 1) * centres // rate_).astype(np.int64)
    out = np.zeros((rows, count))
    for k in range(count):
        left, middle, right = places[k : k + 3]
        if middle == left:
            out[middle, k] = 1
        else:
            rising = np.arange(left, middle + 1)
            out[rising, k] = (rising - left) / (middle - left)
        if right > middle:
            falling = np.arange(middle, right)
            out[falling, k] = (right - falling) / (right - middle)
    to = element_type(node.integer("output_datatype", 1), "the result", node.name)
    return ctx.constant(out.astype(to.numpy))
