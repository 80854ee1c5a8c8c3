"""Images of com.microsoft: convolutions with what follows, channels last or in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.frontends.onnx.microsoft.blocked import block_size
from tests.generate.draft import BLOCKED, MICROSOFT, Draft, Item
from tests.generate.families.operands import below, plain, positive, scales, small, whole
from tests.generate.families.table import family
from tests.generate.source import F16, F32, I8, I32, U8

_ACTIVATIONS: tuple[dict[str, Any], ...] = (
    {},
    {"activation": "Relu"},
    {"activation": "Tanh"},
    {"activation": "Sigmoid"},
    {"activation": "LeakyRelu", "activation_params": [0.1]},
    {"activation": "Clip", "activation_params": [-0.5, 0.75]},
    {"activation": "HardSigmoid", "activation_params": [0.25, 0.5]},
)


def _windows(draft: Draft, extents: tuple[int, int]) -> tuple[dict[str, Any], list[int], list[int]]:
    """How a kernel goes over images of a size, its own size, and that of what it gives."""
    source = draft.source
    kernel = [source.count(1, 3), source.count(1, 3)]
    pads = [source.count(0, k - 1) for k in (*kernel, *kernel)]
    strides = [source.count(1, 2), source.count(1, 2)]
    apart = [source.pick((1, 1, 2)), source.pick((1, 1, 2))]
    how: dict[str, Any] = {"strides": strides, "dilations": apart, "pads": pads}
    made = []
    for k, extent in enumerate(extents):
        reach = (kernel[k] - 1) * apart[k] + 1
        made.append((extent + pads[k] + pads[k + 2] - reach) // strides[k] + 1)
    how["kernel_shape"] = source.pick((None, kernel))
    return how, kernel, made


@family
def fused_conv(draft: Draft) -> None:
    """A convolution, what is added to it, and an activation; channels may be last."""
    source = draft.source
    n, extents = source.count(1, 2), (source.pick((5, 8)), source.pick((6, 7)))
    groups = source.pick((1, 1, 2))
    c, m = groups * source.pick((1, 3)), groups * source.pick((1, 4, 16))
    how, kernel, made = _windows(draft, extents)
    op = source.pick(("FusedConv", "FusedConv", "NhwcFusedConv", "NhwcConv"))
    last = op != "FusedConv"
    image = (n, *extents, c) if last else (n, c, *extents)
    out = (n, *made, m) if last else (n, m, *made)
    weights = (m, *kernel, c // groups) if op == "NhwcConv" else (m, c // groups, *kernel)
    bias = small(draft, m, constant=0.7) if source.chance(0.6) else None
    inputs = [small(draft, *image), small(draft, *weights, constant=0.8), bias]
    if op != "NhwcConv":
        inputs.append(small(draft, *out) if source.chance(0.4) else None)
        how |= source.pick(_ACTIVATIONS)
    draft.node(op, inputs, domain=MICROSOFT, group=groups, **how)


def _blocked(draft: Draft, op: str, *inputs: Item | None, **how: Any) -> Item:
    """The result of an operator on blocks, which is no output: its order is no one's."""
    (made,) = draft.node(op, inputs, domain=BLOCKED, **how)
    draft.hidden.add(made.name)
    return made


@family
def blocks(draft: Draft) -> None:
    """Convolutions and poolings of channels in blocks, which are put there and taken out again."""
    source = draft.source
    block = block_size()
    n, extents = source.count(1, 2), (source.pick((5, 8)), source.pick((6, 7)))
    how, kernel, made = _windows(draft, extents)
    m = block * source.pick((1, 2))
    way = source.pick(("none", "plain", "full", "alone"))
    # none: channels in blocks as they are; plain: too few for a block; alone: each for itself
    c = {"plain": 3, "none": source.pick((8, block, 2 * block))}.get(way, block)
    x = small(draft, n, c, *extents)
    if way != "plain":
        turned = source.pick((None, 1)) if way == "none" else None
        if turned:
            x = small(draft, n, *extents, c)
        x = _blocked(draft, "ReorderInput", x, channels_last=turned)
    if way == "none":
        m = c
    else:
        groups = block if way == "alone" else 1
        m = block if way == "alone" else m
        weights = small(draft, m, c // groups, *kernel, constant=1)
        bias = small(draft, m, constant=1) if source.chance(0.6) else None
        how["group"] = groups
        x = _blocked(draft, "Conv", x, weights, bias, **how, **source.pick(_ACTIVATIONS[:5]))
        extents = (made[0], made[1])
    op = source.pick(
        ("", "MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool", "Upsample")
    )
    if op in ("MaxPool", "AveragePool"):
        pooled: dict[str, Any] = {"kernel_shape": [min(2, n) for n in extents], "strides": [1, 2]}
        if op == "AveragePool":
            pooled["count_include_pad"] = source.pick((None, 0, 1))
        x = _blocked(draft, op, x, **pooled)
    elif op == "Upsample":
        mode = source.pick(("nearest", "linear"))
        ways = (
            ("asymmetric",) if mode == "nearest" else ("asymmetric", "half_pixel", "align_corners")
        )
        x = _blocked(draft, op, x, scales=[1, 1, source.count(1, 3), 2], mode=mode,
                     coordinate_transformation_mode=source.pick(ways))  # fmt: skip
    elif op:
        x = _blocked(draft, op, x)
    last = source.pick((None, 1))
    draft.node("ReorderOutput", [x], domain=BLOCKED, channels=m, channels_last=last)


@family
def moved_images(draft: Draft) -> None:
    """Images that are cut out, sampled, or transposed convolutions with paddings as an input."""
    source = draft.source
    op = source.pick(("CropAndResize", "GridSample", "ConvTransposeWithDynamicPads"))
    n, c = source.count(1, 2), source.pick((1, 3))
    x = small(draft, n, c, source.pick((1, 4, 5)), source.pick((3, 6)))
    if op == "CropAndResize":
        count = source.count(1, 3)
        corners = np.sort(source.rng.uniform(-0.2, 1.2, (count, 2, 2)), axis=1).reshape(count, 4)
        size = draft.fresh(np.array([source.count(1, 4), source.count(1, 4)], I32), 1, fixed=True)
        draft.node(
            op,
            [x, draft.fresh(corners.astype(F32), 0.3), below(draft, n, (count,)), size],
            domain=MICROSOFT,
            mode=source.pick((None, "bilinear", "nearest")),
            extrapolation_value=source.pick((None, 0.5)),
        )
    elif op == "GridSample":
        grid = source.rng.uniform(-1.3, 1.3, (n, source.count(1, 4), source.count(1, 4), 2))
        draft.node(
            op,
            [x, draft.fresh(grid.astype(F32), 0.2)],
            domain=MICROSOFT,
            mode=source.pick((None, "bilinear", "nearest", "bicubic")),
            padding_mode=source.pick((None, "zeros", "border", "reflection")),
            align_corners=source.pick((None, 0, 1)),
        )
    else:
        m, kernel = source.pick((1, 4)), [source.count(1, 3), source.count(2, 3)]
        # on both sides together less than the kernel, for some images have one row
        pads = draft.fresh(np.array([source.count(0, (k - 1) // 2) for k in (*kernel, *kernel)]), 1)
        draft.node(
            op,
            [
                x,
                small(draft, c, m, *kernel, constant=0.8),
                pads if source.chance(0.8) else None,
                small(draft, m, constant=0.7) if source.chance(0.5) else None,
            ],
            domain=MICROSOFT,
            strides=source.pick((None, [2, 1])),
            kernel_shape=source.pick((None, kernel)),
        )


@family
def normalized_groups(draft: Draft) -> None:
    """Groups of channels normalised, of images or of sums of them."""
    source = draft.source
    kind = source.pick((F32, F16))
    n, c, extents = source.count(1, 2), source.pick((4, 8)), (source.pick((1, 3)), 4)
    last = source.pick((None, 0, 1))
    image = (n, c, *extents) if last == 0 else (n, *extents, c)
    how: dict[str, Any] = {
        "groups": source.pick((1, 2, 4)),
        "activation": source.pick((0, 1)),
        "channels_last": last,
        "epsilon": source.pick((0.01, 0.1)),
    }
    line = [positive(draft, c), small(draft, c)]
    x = small(draft, *image, kind=kind)
    if source.chance(0.5):
        draft.node("GroupNorm", [x, *line], domain=MICROSOFT, **how)
        return
    one = (n, c, 1, 1) if last == 0 else (n, 1, 1, c)
    skip = small(draft, *source.pick((image, one, (n, c))), kind=kind)
    bias = small(draft, c, kind=kind) if source.chance(0.5) else None
    draft.node("SkipGroupNorm", [x, *line, skip, bias], 2, domain=MICROSOFT, **how)


@family
def byte_images(draft: Draft) -> None:
    """Convolutions and poolings of bytes, with channels last."""
    source = draft.source
    kind = source.pick((U8, I8))
    n, extents = source.count(1, 2), (source.pick((5, 8)), source.pick((6, 7)))
    how, kernel, _ = _windows(draft, extents)
    c = source.pick((1, 3, 16))
    if source.chance(0.4):
        how["kernel_shape"] = kernel
        how["ceil_mode"] = source.pick((None, 0))
        x = whole(draft, n, *extents, c, kind=kind)
        draft.node("NhwcMaxPool", [x], exact=True, domain=MICROSOFT, **how)
        return
    groups = source.pick((1, 1, c))
    m = groups * source.pick((1, 4))
    last = source.pick((None, 0, 1))
    image = (n, *extents, c) if last else (n, c, *extents)
    of_weights = source.pick((U8, I8)) if kind == U8 else I8
    own = source.pick(((), (m,)))
    # ONNX Runtime takes one zero point for the weights of all channels
    zero = np.full(own, source.count(0, 9) if of_weights == U8 else 0)
    bias = below(draft, 500, (m,), start=-500, constant=1) if source.chance(0.5) else None
    inputs: list[Item | None] = [
        whole(draft, *image, kind=kind),
        scales(draft),
        whole(draft, kind=kind, constant=1),
        whole(draft, m, c // groups, *kernel, kind=of_weights, constant=1),
        scales(draft, *own),
        draft.constant(zero.astype(of_weights)),
        draft.constant(np.array(source.pick((1.5, 6.0)), F32)),
        whole(draft, kind=kind, constant=1),
        bias,
    ]
    how |= {"group": groups, "channels_last": last}
    draft.node("QLinearConv", inputs, domain=MICROSOFT, steps=1, **how)


@family
def on_trial(draft: Draft) -> None:
    """What ONNX had on trial before opset 10, and a norm that ONNX Runtime enters beside it."""
    source = draft.source
    op = source.pick(
        ("Affine", "Scale", "ScaledTanh", "ParametricSoftplus", "ImageScaler", "Crop", "Simplified")
    )
    x = plain(draft, source.count(1, 2), source.pick((1, 3)), source.pick((4, 5)), 6)
    if op == "Simplified":
        kind = source.pick((F32, F32, F16))
        x = small(draft, *source.shape(source.pick((1, 2, 3)), 1), kind=kind)
        axis = source.axis(x.rank)
        scale = positive(draft, *x.shape[axis:], kind=kind)
        outputs = source.count(1, 2)
        draft.node("SimplifiedLayerNormalization", [x, scale], outputs, axis=axis, epsilon=0.01)
        return
    how: dict[str, Any] = {"alpha": 0.5, "beta": source.pick((0.25, 1.5))}
    if op == "Scale":
        how = {"scale": source.pick((None, 0.5))}
    elif op == "ImageScaler":
        bias = [0.5, -1.0, 2.0][: x.shape[1]]
        how = {"bias": bias, "scale": source.pick((None, 0.5))}
    elif op == "Crop":
        how = {"border": [source.count(0, 1) for _ in range(4)]}
        how["scale"] = source.pick((None, [2, 3]))
    draft.node(op, [x], exact=op == "Crop", **how)
