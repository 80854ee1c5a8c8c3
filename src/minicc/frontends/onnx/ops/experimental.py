"""Operators that ONNX had on trial before opset 10, and that old exporters of Core ML wrote."""

from __future__ import annotations

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.activation import softplus_of
from minicc.frontends.onnx.ops.movement import cut
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.core import Value
from minicc.ir.graph.shapes import differ


def _times(ctx: Context, factor: float, x: Value) -> Value:
    return ctx.emit(graph.Mul, ctx.scalar(factor, x), x)


@operator("Affine", attributes="alpha beta")
def affine(ctx: Context, node: Node, x: Value) -> Value:
    """Alpha * x + beta."""
    scaled = _times(ctx, node.number("alpha", 1.0), x)
    return ctx.emit(graph.Add, scaled, ctx.scalar(node.number("beta", 0.0), x))


@operator("Scale", attributes="scale")
def scale(ctx: Context, node: Node, x: Value) -> Value:
    """A multiple."""
    return _times(ctx, node.number("scale", 1.0), x)


@operator("ScaledTanh", attributes="alpha beta")
def scaled_tanh(ctx: Context, node: Node, x: Value) -> Value:
    """Alpha * tanh(beta * x)."""
    inner = ctx.emit(graph.Tanh, _times(ctx, node.number("beta", 1.0), x))
    return _times(ctx, node.number("alpha", 1.0), inner)


@operator("ParametricSoftplus", attributes="alpha beta")
def parametric_softplus(ctx: Context, node: Node, x: Value) -> Value:
    """Alpha * log(1 + exp(beta * x))."""
    inner = softplus_of(ctx, _times(ctx, node.number("beta", 1.0), x))
    return _times(ctx, node.number("alpha", 1.0), inner)


@operator("ImageScaler", attributes="bias scale")
def image_scaler(ctx: Context, node: Node, x: Value) -> Value:
    """A multiple of images [N,C,H,W], and a bias for each channel."""
    scaled = _times(ctx, node.number("scale", 1.0), x)
    bias = np.array(node.numbers("bias") or (0.0,), np.float32)
    if x.type.rank != 4 or (bias.size != 1 and differ(bias.size, x.type.shape[1])):
        raise ctx.refused(f"its {bias.size} biases do not fit {x.type}")
    column = bias.reshape(-1, 1, 1).astype(x.type.dtype.numpy)
    return ctx.emit(graph.Add, scaled, ctx.constant(column))


@operator("Crop", attributes="border scale")
def crop(ctx: Context, node: Node, x: Value) -> Value:
    """Images [N,C,H,W] without a border (left, top, right, bottom), or as high and wide as told."""
    border, size = node.integers("border") or (), node.integers("scale")
    if x.type.rank != 4 or len(border) != 4 or (size is not None and len(size) != 2):
        raise ctx.wrong("it wants four axes, a border of four integers, and a scale of two")
    left, top, right, bottom = border
    height, width = x.type.shape[2:]
    below, right_of = (top + size[0], left + size[1]) if size else (height - bottom, width - right)
    gaps = (top, left, below - top, right_of - left, height - below, width - right_of)
    if any(isinstance(n, int) and n < 0 for n in gaps):
        raise ctx.wrong(f"its border {list(border)} leaves nothing of {height} x {width}")
    return cut(ctx, x, {2: (top, below, 1), 3: (left, right_of, 1)})
