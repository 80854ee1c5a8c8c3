"""Contractions: einsum of two operands, and convolution."""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.ir.affine import Dim
from minicc.ir.core import Op, RunRegion, Value
from minicc.ir.graph.reduce import window_extent, windows
from minicc.ir.types import TensorType


class Contract(Op, name="graph.contract"):
    """einsum of two operands with explicit output, each letter at most once an operand.

    "bmk,bkn->bmn".
    """

    a: Value
    b: Value
    equation: str

    def infer(self) -> tuple[TensorType, ...]:
        terms, _, out = self.equation.partition("->")
        letters = terms.split(",")
        extents: dict[str, Dim] = {}
        for term, v in zip(letters, self.operands, strict=True):
            if len(term) != v.type.rank or len(set(term)) != len(term):
                raise TypeError(f"the term {term} of {self.equation} does not fit {v.type}")
            for letter, n in zip(term, v.type.shape, strict=True):
                if extents.setdefault(letter, n) != n:
                    raise TypeError(
                        f"{letter} of {self.equation} is both {extents[letter]} and {n}"
                    )
        if self.a.type.dtype is not self.b.type.dtype:
            raise TypeError(f"graph.contract of {self.a.type} and {self.b.type}")
        return (TensorType(self.a.type.dtype, tuple(extents[letter] for letter in out)),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        dtype = self.result.type.dtype.numpy
        wide = [
            np.asarray(a, np.float32) if dtype.itemsize == 2 and dtype.kind in "fV" else a
            for a in args
        ]
        return (np.asarray(np.einsum(self.equation, *wide, optimize=True), dtype),)


class Conv(Op, name="graph.conv"):
    """Convolution (cross-correlation) without padding, over any number of spatial dimensions.

    `x` is [N, C, *spatial], or [N, *spatial, C] if `layout` is "channels_last", and so is the
    result; `w` is [O, C / groups, *kernel] in both.
    """

    x: Value
    w: Value
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    groups: int = 1
    layout: str = "channels_first"

    def infer(self) -> tuple[TensorType, ...]:
        x, w = self.x.type, self.w.type
        last = self.layout == "channels_last"
        channels = x.shape[-1] if last else x.shape[1]
        spatial = x.shape[1:-1] if last else x.shape[2:]
        if x.dtype is not w.dtype or w.rank != x.rank or w.shape[1] * self.groups != channels:
            raise TypeError(f"graph.conv of {x} with weights {w} in {self.groups} groups")
        parts = zip(spatial, w.extents[2:], self.strides, self.dilations, strict=True)
        out = tuple(window_extent(*p) for p in parts)
        if any(isinstance(n, int) and n < 1 for n in out):
            raise ValueError(f"a kernel of {w.shape[2:]} does not fit {x}")
        shape = (x.shape[0], *out, w.shape[0]) if last else (x.shape[0], w.shape[0], *out)
        return (TensorType(x.dtype, shape),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        x, w = np.asarray(args[0]), np.asarray(args[1])
        dtype = x.dtype
        if dtype.itemsize == 2 and dtype.kind in "fV":
            x, w = x.astype(np.float32), w.astype(np.float32)
        if self.layout == "channels_last":
            x = np.moveaxis(x, -1, 1)
        rank = w.ndim - 2
        view = windows(x, (1, 1, *w.shape[2:]), (1, 1, *self.strides), (1, 1, *self.dilations))
        view = view.reshape(*view.shape[: 2 + rank], *w.shape[2:])
        depth, width = w.shape[1], w.shape[0] // self.groups
        outs = []
        for g in range(self.groups):
            part = view[:, g * depth : (g + 1) * depth]
            weights = w[g * width : (g + 1) * width]
            axes = ([1, *range(2 + rank, 2 + 2 * rank)], list(range(1, 2 + rank)))
            outs.append(np.moveaxis(np.tensordot(part, weights, axes), -1, 1))
        out = np.concatenate(outs, axis=1)
        if self.layout == "channels_last":
            out = np.moveaxis(out, 1, -1)
        return (np.asarray(out, dtype),)
