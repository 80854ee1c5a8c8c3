"""Arrays for the four kernels, and what NumPy says in float64 that they should compute."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from benchmarks.proofs.direct import Convolution
from benchmarks.proofs.fused_winograd import Winograd
from benchmarks.proofs.measure import Floats, aligned, placed
from benchmarks.proofs.rowwise import Attention
from benchmarks.proofs.winograd import derive, transform_weights
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


class Case(NamedTuple):
    """The arrays of a kernel, the output last, and the truth."""

    arrays: list[Floats]
    truth: Doubles

    @property
    def output(self) -> Floats:
        """What the kernel writes."""
        return self.arrays[-1]


def direct_truth(x: Floats, w: Floats, stride: int) -> Doubles:
    """A convolution in float64, channels last; w[oc, ic, kh, kw]."""
    oc, ic, taps, _ = w.shape
    height, width = ((n - taps) // stride + 1 for n in x.shape[:2])
    out = np.zeros((height * width, oc))
    for kh in range(taps):
        for kw in range(taps):
            rows = x[kh : kh + stride * height : stride, kw : kw + stride * width : stride]
            taken = rows[:height, :width].reshape(-1, ic).astype(np.float64)
            out += taken @ w[:, :, kh, kw].T.astype(np.float64)
    return out.reshape(height, width, oc)


def _layer(
    height: int, width: int, ic: int, oc: int, halo: tuple[int, int, int]
) -> tuple[Floats, Floats, Floats]:
    """An input with a halo of zeros, weights as a network has them, and a bias."""
    random = np.random.default_rng(1)
    top, bottom, taps = halo
    x = aligned(height + top + bottom, width + top + bottom, ic)
    inner = np.maximum(random.standard_normal((height, width, ic)), 0)
    x[top : top + height, top : top + width] = inner
    scale = (2 / (taps * taps * ic)) ** 0.5
    w = placed(random.standard_normal((oc, ic, taps, taps)) * scale)
    return x, w, placed(random.standard_normal(oc) * 0.1)


def convolution_case(c: Convolution) -> Case:
    """For `direct.convolution`."""
    top = c.taps // 2
    height, width = c.extents
    bottom = 0 if c.stride > 1 else top
    x, w, bias = _layer(
        height - top - bottom, width - top - bottom, c.ic, c.oc, (top, bottom, c.taps)
    )
    truth = direct_truth(x, w, c.stride) + bias
    panels = w.reshape(c.oc // c.columns, c.columns, c.ic, c.taps, c.taps)
    arrays = [x, placed(panels.transpose(0, 3, 4, 2, 1)), bias]
    if c.residual:
        residual = np.random.default_rng(2).standard_normal(truth.shape)
        arrays.append(placed(residual))
        truth += arrays[-1]
    arrays.append(aligned(*truth.shape))
    return Case(arrays, np.maximum(truth, 0) if c.relu else truth)


def winograd_case(w: Winograd) -> Case:
    """For `fused_winograd.winograd`."""
    x, weights, bias = _layer(w.height, w.width, w.ic, w.oc, (1, 1, 3))
    truth = np.maximum(direct_truth(x, weights, 1) + bias, 0)
    u = placed(transform_weights(weights, derive().taps, w.columns))
    return Case([x, u, bias, aligned(*truth.shape)], truth)


def _softmax(x: Doubles) -> Doubles:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def softmax_case(rows: int, columns: int) -> Case:
    """For `rowwise.softmax`."""
    x = placed(np.random.default_rng(3).standard_normal((rows, columns)) * 3)
    return Case([x, aligned(rows, columns)], _softmax(x.astype(np.float64)))


def attention_case(a: Attention) -> Case:
    """For `rowwise.attention`."""
    random = np.random.default_rng(4)
    q, k, v = (placed(random.standard_normal((a.length, a.depth))) for _ in range(3))
    scores = q.astype(np.float64) @ k.T.astype(np.float64) * a.depth**-0.5
    panels = placed(k.reshape(-1, a.columns, a.depth).transpose(0, 2, 1))
    return Case([q, panels, v, aligned(a.length, a.depth)], _softmax(scores) @ v)
