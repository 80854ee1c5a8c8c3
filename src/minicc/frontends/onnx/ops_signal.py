"""Fourier transforms as products with a matrix of sines and cosines, and windows.

The matrices are made in f64 at import.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.ops_transposed import fitted
from minicc.frontends.onnx.reader import Node
from minicc.frontends.onnx.registry import Importer, operator, register
from minicc.frontends.onnx.tensors import element_type
from minicc.ir import graph
from minicc.ir.core import Array, Value


def _rotations(rows: int, length: int, inverse: bool) -> tuple[Array, Array]:
    """The real and imaginary parts of exp(-2 pi i r c / length), conjugate if inverse."""
    turns = np.outer(np.arange(rows), np.arange(length)) % max(length, 1)
    angle = turns * (2 * np.pi / max(length, 1))
    return np.cos(angle), np.sin(angle) if inverse else -np.sin(angle)


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
    own = ctx.static(x.type.shape[along], "the axis that is transformed")
    inverse, half = bool(node.integer("inverse", 0)), bool(node.integer("onesided", 0))
    parts = ctx.static(x.type.shape[-1], "the parts of complex numbers")
    wanted = own
    if length is not None:
        (wanted,) = ctx.integers(length, "dft_length")
    elif inverse and half:
        wanted = 2 * (own - 1)
    ctx.room(wanted, wanted, parts)
    moved = _last_but_one(ctx, x, along)
    if inverse and half:
        # the upper half is the lower one's mirror image, conjugate
        out = _real_from_half(ctx, moved, wanted, own)
    else:
        fitting = fitted(ctx, moved, [0, 0], [wanted - own, 0], rank - 2)
        rows = wanted // 2 + 1 if half else wanted
        out = _transformed(ctx, fitting, rows, wanted, inverse, parts)
    back = list(range(rank))
    back[along], back[rank - 2] = rank - 2, along
    return out if along == rank - 2 else ctx.emit(graph.Transpose, out, perm=tuple(back))


def _last_but_one(ctx: Context, x: Value, axis: int) -> Value:
    perm = list(range(x.type.rank))
    perm[axis], perm[-2] = perm[-2], perm[axis]
    return x if axis == x.type.rank - 2 else ctx.emit(graph.Transpose, x, perm=tuple(perm))


def _product(ctx: Context, x: Value, weights: Array) -> Value:
    """[..., n, parts] with weights [n, parts, k, result's parts], summed over n and parts."""
    letters = "abcdefghijkl"[: x.type.rank]
    n, p = letters[-2], letters[-1]
    matrix = ctx.constant(weights.astype(x.type.dtype.numpy))
    equation = f"{letters},{n}{p}yz->{letters[:-2]}yz"
    return ctx.emit(graph.Contract, x, matrix, equation=equation)


def _transformed(
    ctx: Context, x: Value, rows: int, length: int, inverse: bool, parts: int
) -> Value:
    real, imaginary = _rotations(rows, length, inverse)
    weights = np.zeros((length, parts, rows, 2))
    weights[:, 0, :, 0], weights[:, 0, :, 1] = real.T, imaginary.T
    if parts == 2:
        weights[:, 1, :, 0], weights[:, 1, :, 1] = -imaginary.T, real.T
    return _product(ctx, x, weights / length if inverse else weights)


def _real_from_half(ctx: Context, x: Value, length: int, own: int) -> Value:
    """The real signal of a given length of which `x` is the lower half of the transform."""
    rows = length // 2 + 1
    rank = x.type.rank
    half = fitted(ctx, x, [0, 0], [rows - own, 0], rank - 2)
    real, imaginary = _rotations(length, length, True)
    weights = np.zeros((rows, 2, length, 1))
    twice = np.full((rows, 1), 2.0)
    twice[0] = 1
    if length % 2 == 0:
        twice[-1] = 1
    weights[:, 0, :, 0] = twice * real[:rows] / length
    weights[:, 1, :, 0] = -twice * imaginary[:rows] / length
    return _product(ctx, half, weights)


@operator("STFT", attributes="onesided")
def stft(
    ctx: Context,
    node: Node,
    signal: Value,
    step: Value,
    window: Value | None = None,
    length: Value | None = None,
) -> Value:
    """Transforms of overlapping frames: a convolution with the windowed rows of the transform."""
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
    parts = ctx.static(signal.type.shape[2], "the parts of complex numbers")
    ctx.room(2, rows, parts, size)
    real, imaginary = _rotations(rows, size, False)
    kernel = np.stack([real, imaginary])[:, :, None, :]
    if parts == 2:
        other = np.stack([-imaginary, real])[:, :, None, :]
        kernel = np.concatenate([kernel, other], axis=2)
    flat = kernel.reshape(2 * rows, parts, size).astype(signal.type.dtype.numpy)
    weights = ctx.constant(flat)
    if window is not None:
        weights = ctx.emit(graph.Mul, weights, window)
    channels = ctx.emit(graph.Transpose, signal, perm=(0, 2, 1))
    out = ctx.emit(graph.Conv, channels, weights, strides=(hop,), dilations=(1,))
    batch, _, frames = out.type.shape
    apart = ctx.reshape(out, (batch, 2, rows, frames))
    return ctx.emit(graph.Transpose, apart, perm=(0, 3, 2, 1))


def _window(terms: Sequence[float]) -> Importer:
    """A sum of cosines over a window, which is periodic or symmetric."""

    def run(ctx: Context, node: Node, size: Value) -> Value:
        count = int(ctx.known(size, "size").item())
        ctx.room(count)
        to = element_type(node.integer("output_datatype", 1), "the result", node.name)
        period = count if node.integer("periodic", 1) else count - 1
        turn = 2 * np.pi * np.arange(count) / max(period, 1)
        line = sum(c * np.cos(k * turn) for k, c in enumerate(terms))
        return ctx.constant(np.asarray(line).astype(to.numpy))

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
