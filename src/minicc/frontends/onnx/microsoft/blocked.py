"""Convolutions and poolings of images whose channels lie in blocks, as ONNX Runtime lays them out.

Here a tensor in blocks is one of [N, C, H, W] whose channels are filled up with zeros to a whole
number of blocks: how it lies in memory is the compiler's affair. Only weights come in blocks from
the file, and are laid out anew. How large a block is depends on the machine that a model was saved
on; like ONNX Runtime, this takes it to be one like that which opens it.
"""

from __future__ import annotations

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.microsoft.common import (
    DOMAIN,
    add,
    attributes_of,
    channels_first,
    channels_last,
    flag,
    permuted,
    standard,
)
from minicc.frontends.onnx.microsoft.linear import fused
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.fitting import fitted
from minicc.frontends.onnx.ops.movement import cut
from minicc.frontends.onnx.ops.window import conv
from minicc.frontends.onnx.registry import operator
from minicc.ir.core import Value
from minicc.ir.graph.shapes import differ
from minicc.target import Target

_BLOCKED = f"{DOMAIN}.nchwc"
_WINDOW = "auto_pad dilations kernel_shape pads strides"


def block_size() -> int:
    """How many channels ONNX Runtime puts in a block on this machine."""
    return max(8, Target.host().lanes(32))


@operator(f"{_BLOCKED}.ReorderInput", attributes="channels_last")
def reorder_input(ctx: Context, node: Node, x: Value) -> Value:
    """Put channels in blocks."""
    x = channels_first(ctx, x) if flag(node, "channels_last") else x
    rest = x.type.rank - 2
    return fitted(ctx, x, (0,) * (rest + 1), (-x.type.shape[1] % block_size(), *(0,) * rest), 1)


@operator(f"{_BLOCKED}.ReorderOutput", attributes="channels channels_last")
def reorder_output(ctx: Context, node: Node, x: Value) -> Value:
    """Take channels out of their blocks, without those that fill them up."""
    channels = node.integer("channels", 0)
    held = x.type.shape[1]
    if channels < 1 or (isinstance(held, int) and channels > held):
        raise ctx.wrong(f"attribute channels is {channels} of {held} channels")
    out = cut(ctx, x, {1: (0, channels, 1)})
    return channels_last(ctx, out) if flag(node, "channels_last") else out


def _weights(ctx: Context, w: Value) -> Value:
    """Weights [O, I, spatial...] of some whose output channels lie in blocks.

    Input channels lie in blocks too, outside of those, where there are enough of them for one.
    """
    if w.type.rank < 3:
        raise ctx.refused("Conv wants weights of [O, I, spatial...]")
    outer, inner, *rest = w.type.shape
    block = block_size()
    blocks = outer // block
    if differ(blocks * block, outer):
        hint = "save it on a machine like this, or without the optimisations of layouts"
        raise ctx.unsupported(f"{outer} channels that lie in blocks of another machine", hint)
    axes = range(2, 2 + len(rest))
    if isinstance(inner, int) and inner % block:
        laid = ctx.reshape(w, (blocks, inner, *rest, block))
        turned = permuted(ctx, laid, (0, laid.type.rank - 1, 1, *axes))
    else:
        # input channels of a free number are taken to fill blocks
        inner = ctx.quotient(inner, block, "channels")
        laid = ctx.reshape(w, (blocks, inner, *rest, block, block))
        last = laid.type.rank - 1
        turned = permuted(ctx, laid, (0, last, 1, last - 1, *axes))
    return ctx.reshape(turned, w.type.shape)


@operator(f"{_BLOCKED}.Conv", attributes=f"{_WINDOW} activation activation_params group")
def blocked_conv(
    ctx: Context, node: Node, x: Value, w: Value, b: Value | None = None, z: Value | None = None
) -> Value:
    """A convolution, a tensor added to it, and an activation."""
    return fused(ctx, node, add(ctx, conv(ctx, node, x, _weights(ctx, w), b), z))


@operator(f"{_BLOCKED}.MaxPool", attributes=f"{_WINDOW} ceil_mode storage_order")
def blocked_max_pool(ctx: Context, node: Node, x: Value) -> Value:
    """The greatest of each window."""
    return standard(ctx, node, "MaxPool", x, **attributes_of(node, f"{_WINDOW} ceil_mode"))


@operator(f"{_BLOCKED}.AveragePool", attributes=f"{_WINDOW} ceil_mode count_include_pad")
def blocked_average_pool(ctx: Context, node: Node, x: Value) -> Value:
    """The mean of each window."""
    options = attributes_of(node, f"{_WINDOW} ceil_mode count_include_pad")
    return standard(ctx, node, "AveragePool", x, **options)


@operator(f"{_BLOCKED}.GlobalMaxPool")
def blocked_global_max_pool(ctx: Context, node: Node, x: Value) -> Value:
    """The greatest over all spatial axes, which stay."""
    return standard(ctx, node, "GlobalMaxPool", x)


@operator(f"{_BLOCKED}.GlobalAveragePool")
def blocked_global_average_pool(ctx: Context, node: Node, x: Value) -> Value:
    """The mean over all spatial axes, which stay."""
    return standard(ctx, node, "GlobalAveragePool", x)


@operator(f"{_BLOCKED}.Upsample", attributes="coordinate_transformation_mode mode scales")
def blocked_upsample(ctx: Context, node: Node, x: Value) -> Value:
    """An image made larger by whole numbers."""
    given = node.integers("scales")
    if given is None:
        raise ctx.wrong("its attribute scales is missing")
    scales = ctx.constant(np.array(given, np.float32))
    way = node.text("coordinate_transformation_mode", "asymmetric")
    options = {
        "mode": node.text("mode", "nearest"),
        "coordinate_transformation_mode": way,
        "nearest_mode": "floor",
    }
    return standard(ctx, node, "Resize", x, None, scales, **options)
