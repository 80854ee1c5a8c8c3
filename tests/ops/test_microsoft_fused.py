"""Activations, products and normalisations of `com.microsoft` against NumPy and ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import erf
from typing import Any

import numpy as np
import pytest
from tests.ops.microsoft import F4, Array, Case, brain, check, check_runtime, half, in_forms, random

BATCH = {2: "batch", 5: "steps"}
ERF: Any = np.vectorize(erf)


def gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + ERF(x / np.sqrt(2))), x.dtype)


def fast(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))), x.dtype)


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)), x.dtype)


def softmax(x: Array, axes: tuple[int, ...]) -> Array:
    power = np.exp(x - x.max(axis=axes, keepdims=True))
    return np.asarray(power / power.sum(axis=axes, keepdims=True))


def activations() -> Iterator[tuple[str, Case]]:
    x, bias, skip = random(2, 5, 8) * 2, random(8, seed=4), random(2, 5, 8, seed=5)
    both = x + bias
    yield "Gelu", Case("com.microsoft.Gelu", [x], [gelu(x)], free=BATCH)
    yield "BiasGelu", Case("com.microsoft.BiasGelu", [x, bias], [gelu(both)], free=BATCH)
    yield "FastGelu", Case("com.microsoft.FastGelu", [x], [fast(x)], free=BATCH)
    yield "FastGelu biased", Case("com.microsoft.FastGelu", [x, bias], [fast(both)], free=BATCH)
    yield "QuickGelu", Case("com.microsoft.QuickGelu", [x], [x * sigmoid(1.702 * x)], free=BATCH)
    wants = [x * sigmoid(F4(0.5) * x)]
    yield "QuickGelu alpha", Case("com.microsoft.QuickGelu", [x], wants, {"alpha": 0.5})
    wants = [both[..., :4] * gelu(both[..., 4:])]
    op = "com.microsoft.BiasSplitGelu"
    yield "BiasSplitGelu", Case(op, [x, bias], wants, free=BATCH, runtime=False)
    wants = [both + skip]
    op = "com.microsoft.BiasAdd"
    yield "BiasAdd", Case(op, [x, bias, skip], wants, free=BATCH, runtime=False)
    w = random(8, 3, seed=6)
    op = "com.microsoft.GemmFastGelu"
    wants = [fast(x @ w + bias[:3])]
    yield "GemmFastGelu", Case(op, [x, w, bias[:3]], wants, {}, (1, 2), BATCH, runtime=False)
    gate = random(2, 5, 1, seed=7)
    yield "GatedAdd", Case("com.microsoft.GatedAdd", [x, skip, gate], [x + skip * gate], free=BATCH)
    wants = [0.5 * x * sigmoid(0.5 * x)]
    yield "ScaledSiLU", Case("com.microsoft.ScaledSiLU", [x], wants, {"alpha": 0.5}, free=BATCH)
    two = np.array(2, F4)
    yield "ScaledSiLU scale", Case("com.microsoft.ScaledSiLU", [x, two], [2 * x * sigmoid(2 * x)])
    yield from soft_maxima()


def soft_maxima() -> Iterator[tuple[str, Case]]:
    op = "com.microsoft.BiasSoftmax"
    scores = random(2, 3, 5, 7)
    inner, outer = random(2, 1, 5, 7, seed=4), random(1, 1, 5, 7, seed=5)
    options = {"axis": 3, "is_inner_broadcast": 1}
    wants = [softmax(scores + inner, (3,))]
    yield "BiasSoftmax", Case(op, [scores, inner], wants, options, free=BATCH, runtime=False)
    options = {"axis": 3, "is_inner_broadcast": 0}
    wants = [softmax(scores + outer, (3,))]
    yield "BiasSoftmax outer", Case(op, [scores, outer], wants, options, free=BATCH, runtime=False)
    options = {"axis": 2, "is_inner_broadcast": 1}
    wants = [softmax(scores + inner, (2, 3))]
    yield "BiasSoftmax axes", Case(op, [scores, inner], wants, options, runtime=False)


def products() -> Iterator[tuple[str, Case]]:
    op = "com.microsoft.FusedMatMul"
    a, b = random(2, 3, 5, 4), random(2, 3, 4, 6, seed=4)
    yield "FusedMatMul", Case(op, [a, b], [a @ b * F4(0.5)], {"alpha": 0.5}, free=BATCH)
    wants = [a.swapaxes(2, 3) @ b.swapaxes(2, 3)[..., :5, :]]
    flags = {"transA": 1, "transB": 1}
    a_, b_ = a, np.ascontiguousarray(random(2, 3, 6, 5, seed=4))
    wants = [a_.swapaxes(2, 3) @ b_.swapaxes(2, 3)]
    yield "FusedMatMul turned", Case(op, [a_, b_], wants, flags, free=BATCH)
    yield (
        "FusedMatMul vector",
        Case(op, [b[0, 0, 0], random(6, 3)], [b[0, 0, 0] @ random(6, 3)], {"transA": 1}),
    )
    matrix = random(6, 4, seed=8)
    yield "FusedMatMul matrix", Case(op, [a, matrix], [a @ matrix.T], {"transB": 1}, (1,), BATCH)
    c, d = random(5, 2, 3, 4), random(2, 3, 4, 6, seed=4)
    wants = [c.transpose(1, 2, 0, 3) @ d]
    yield "FusedMatMul batch", Case(op, [c, d], wants, {"transBatchA": 1}, free=BATCH)
    c, d = random(4, 2, 3, 5), random(6, 2, 3, 4, seed=4)
    wants = [c.transpose(1, 2, 3, 0) @ d.transpose(1, 2, 3, 0)]
    flags = {"transA": 1, "transB": 1, "transBatchA": 1, "transBatchB": 1}
    yield "FusedMatMul all", Case(op, [c, d], wants, flags, free=BATCH)
    double = [a.astype(np.float64), b.astype(np.float64)]
    yield "FusedMatMul f64", Case(op, double, [double[0] @ double[1]], {}, error=1e-12)
    op = "com.microsoft.TransposeMatMul"
    yield "TransposeMatMul", Case(op, [a, matrix], [a @ matrix.T], {"transB": 1}, (1,), BATCH)
    yield from gemms()
    yield from convolutions()


CURVES: dict[str, tuple[dict[str, float], Any]] = {
    "Relu": ({}, lambda x: np.maximum(x, 0)),
    "Tanh": ({}, np.tanh),
    "Sigmoid": ({}, sigmoid),
    "LeakyRelu": ({"alpha": 0.2}, lambda x: np.where(x < 0, F4(0.2) * x, x)),
    "HardSigmoid": (
        {"alpha": 0.3, "beta": 0.4},
        lambda x: np.clip(F4(0.3) * x + F4(0.4), 0, 1),
    ),
}


def gemms() -> Iterator[tuple[str, Case]]:
    op = "com.microsoft.FusedGemm"
    a, b, c = random(2, 5), random(4, 5, seed=4), random(4, seed=5)
    line = F4(0.5) * (a @ b.T) + F4(2) * c
    for name, (parameters, curve) in CURVES.items():
        options: dict[str, Any] = {"activation": name, "transB": 1, "alpha": 0.5, "beta": 2.0}
        options |= {f"activation_{key}": value for key, value in parameters.items()}
        case = Case(op, [a, b, c], [np.asarray(curve(line), F4)], options, (1, 2), {2: "rows"})
        yield f"FusedGemm {name}", case
    options = {"activation": "Relu", "transA": 1}
    wants = [np.maximum(a.T @ b[:2], 0)]
    yield "FusedGemm turned", Case(op, [a, np.ascontiguousarray(b[:2])], wants, options)


def convolved(x: Array, w: Array) -> Array:
    """A convolution of images with a padding of 1."""
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    views = np.lib.stride_tricks.sliding_window_view(wide, w.shape[2:], axis=(2, 3))
    return np.asarray(np.einsum("nchwij,ocij->nohw", views, w), x.dtype)


def convolutions() -> Iterator[tuple[str, Case]]:
    op = "com.microsoft.FusedConv"
    x, w, b = random(2, 3, 5, 5), random(4, 3, 3, 3, seed=4), random(4, seed=5)
    z = random(2, 4, 5, 5, seed=6)
    line = convolved(x, w) + b[:, None, None]
    shape = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    curves = {**CURVES, "Clip": ({"min": -1.0, "max": 2.0}, lambda x: np.clip(x, -1, 2))}
    for name, (parameters, curve) in curves.items():
        options: dict[str, Any] = {**shape, "activation": name}
        if parameters:
            options["activation_params"] = list(parameters.values())
        wants = [np.asarray(curve(line), F4)]
        yield f"FusedConv {name}", Case(op, [x, w, b], wants, options, (1, 2), BATCH, 1e-4)
    options = {**shape, "activation": "Relu"}
    wants = [np.maximum(line + z, 0)]
    yield "FusedConv sum", Case(op, [x, w, b, z], wants, options, (1, 2), BATCH, 1e-4)
    wants = [convolved(x, w) + z]
    yield "FusedConv no bias", Case(op, [x, w, None, z], wants, shape, (1,), BATCH, 1e-4)
    last = (0, 2, 3, 1)
    inputs = [np.ascontiguousarray(v.transpose(last)) for v in (x, w)]
    wants = [line.transpose(last)]
    op = "com.microsoft.NhwcConv"
    yield "NhwcConv", Case(op, [*inputs, b], wants, shape, (1, 2), BATCH, 1e-4, False)
    inputs = [inputs[0], w, b, np.ascontiguousarray(z.transpose(last))]
    wants = [np.maximum(line + z, 0).transpose(last)]
    op, options = "com.microsoft.NhwcFusedConv", {**shape, "activation": "Relu"}
    yield "NhwcFusedConv", Case(op, inputs, wants, options, (1, 2), BATCH, 1e-4, False)


def layer_norm(x: Array, gamma: Array, beta: Array | None, epsilon: float) -> list[Array]:
    x = x.astype(np.float64)
    mean, inverse = x.mean(-1, keepdims=True), 1 / np.sqrt(x.var(-1, keepdims=True) + epsilon)
    out = (x - mean) * inverse * gamma
    return [out if beta is None else out + beta, mean, inverse]


def rms_norm(x: Array, gamma: Array, epsilon: float) -> list[Array]:
    x = x.astype(np.float64)
    inverse = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon)
    return [x * inverse * gamma, inverse]


def norms() -> Iterator[tuple[str, Case]]:
    x, skip = random(2, 5, 8), random(2, 5, 8, seed=4)
    gamma, beta, bias = (random(8, seed=k) for k in (5, 6, 7))
    weights = (2, 3, 4)
    op = "com.microsoft.SkipLayerNormalization"
    for name, shift, more in (("", beta, bias), (" no beta", None, bias), (" no bias", beta, None)):
        total = x + skip + (0 if more is None else more)
        out = layer_norm(total, gamma, shift, 1e-12)[0].astype(F4)
        inputs = [x, skip, gamma, shift, more]
        yield f"{op}{name}", Case(op, inputs, [out, None, None, total], {}, weights, BATCH)
    for name, across in ((" of steps", skip[0]), (" of one", skip[:1])):
        total = x + across
        out = layer_norm(total, gamma, beta, 1e-3)[0].astype(F4)
        options = {"epsilon": 1e-3}
        yield f"{op}{name}", Case(op, [x, across, gamma, beta], [out], options, weights, BATCH)
    for name, kind, error in ((" f16", half, 4e-3), (" bf16", brain, 3e-2)):
        rounded = kind(x).astype(F4) + kind(skip).astype(F4)
        out = kind(layer_norm(rounded, kind(gamma).astype(F4), kind(beta).astype(F4), 1e-12)[0])
        inputs = [kind(v) for v in (x, skip, gamma, beta)]
        wants = [out, None, None, kind(rounded)]
        runtime = kind is half  # it takes no array of bf16
        yield f"{op}{name}", Case(op, inputs, wants, {}, weights, BATCH, error, runtime)
    op = "com.microsoft.SkipSimplifiedLayerNormalization"
    for name, more in (("", bias), (" no bias", None)):
        total = x + skip + (0 if more is None else more)
        out = rms_norm(total, gamma, 1e-6)[0].astype(F4)
        wants, options = [out, None, None, total], {"epsilon": 1e-6}
        yield f"{op}{name}", Case(op, [x, skip, gamma, more], wants, options, (2, 3), BATCH)
    rounded = half(x).astype(F4) + half(skip).astype(F4)
    out = half(rms_norm(rounded, half(gamma).astype(F4), 1e-12)[0])
    inputs = [half(v) for v in (x, skip, gamma)]
    yield f"{op} f16", Case(op, inputs, [out, None, None, half(rounded)], {}, (2,), BATCH, 4e-3)
    yield (
        f"{op} rank 2",
        Case(
            op,
            [x[0], skip[0], gamma],
            [rms_norm(x[0] + skip[0], gamma, 0)[0].astype(F4)],
            {},
            (2,),
            BATCH,
        ),
    )
    yield from simplified()
    yield from embeddings()
    yield from branches()


def simplified() -> Iterator[tuple[str, Case]]:
    op = "SimplifiedLayerNormalization"
    x, gamma = random(2, 5, 8), random(8, seed=5)
    out, inverse = rms_norm(x, gamma, 1e-5)
    wants = [out.astype(F4), inverse.astype(F4)]
    yield op, Case(op, [x, gamma], wants, {}, (1,), BATCH)
    square = random(5, 8, seed=5)
    rows = rms_norm(x.reshape(2, 40), square.ravel(), 1e-3)[0].reshape(x.shape).astype(F4)
    yield f"{op} axis", Case(op, [x, square], [rows], {"axis": 1, "epsilon": 1e-3}, (1,), {2: "n"})
    out = half(rms_norm(half(x).astype(F4), half(gamma).astype(F4), 1e-5)[0])
    yield f"{op} f16", Case(op, [half(x), half(gamma)], [out], {}, (1,), BATCH, 4e-3)


def embeddings() -> Iterator[tuple[str, Case]]:
    op = "com.microsoft.EmbedLayerNormalization"
    words, positions, segments = random(11, 8), random(7, 8, seed=4), random(3, 8, seed=5)
    gamma, beta = random(8, seed=6), random(8, seed=7)
    draw = np.random.default_rng(3).integers
    ids, kinds = draw(0, 11, (2, 5)).astype(np.int32), draw(0, 3, (2, 5)).astype(np.int32)
    at = draw(0, 7, (2, 5)).astype(np.int32)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    weights = (2, 3, 4, 5, 6)
    total = words[ids] + positions[:5] + segments[kinds]
    out = layer_norm(total, gamma, beta, 1e-12)[0].astype(F4)
    inputs: list[Array | None] = [ids, kinds, words, positions, segments, gamma, beta, mask]
    wants = [out, mask.sum(1, dtype=np.int32), total]
    yield op, Case(op, inputs, wants, {}, weights, BATCH)
    wants = [out, np.zeros(2, np.int32), total]
    yield f"{op} no mask", Case(op, inputs[:7], wants, {}, weights, BATCH)
    total = words[ids] + positions[at]
    out = layer_norm(total, gamma, beta, 1e-5)[0].astype(F4)
    inputs = [ids, None, words, positions, None, gamma, beta, mask, at]
    wants = [out, mask.sum(1, dtype=np.int32), total]
    yield f"{op} positions", Case(op, inputs, wants, {"epsilon": 1e-5}, weights, BATCH)
    total = words[ids] + positions[at[:1]]
    out = layer_norm(total, gamma, beta, 1e-5)[0].astype(F4)
    inputs = [*inputs[:8], at[:1]]
    wants = [out, mask.sum(1, dtype=np.int32), total]
    yield f"{op} positions of one", Case(op, inputs, wants, {"epsilon": 1e-5}, weights, BATCH)


def branches() -> Iterator[tuple[str, Case]]:
    op = "com.microsoft.BranchwiseRMSNorm"
    x, scale = random(2, 5, 3, 8), random(8, seed=5)
    wants = [rms_norm(x, scale, 1e-5)[0].astype(F4)]
    yield op, Case(op, [x, scale], wants, {}, (1,), BATCH)
    rows = random(24, seed=6)
    out = rms_norm(x, rows.reshape(3, 8), 1e-5)[0].astype(F4).reshape(2, 5, 24)
    flat, options = x.reshape(2, 5, 24), {"num_branches": 3}
    yield f"{op} flat", Case(op, [flat, rows], [out], options, (1,), BATCH)
    op = "com.microsoft.GatedRMSNorm"
    gate = random(2, 5, 24, seed=7)
    out = rms_norm(x, scale, 1e-5)[0].astype(F4).reshape(2, 5, 24)
    yield op, Case(op, [flat, scale, gate], [out * gate * sigmoid(gate)], {}, (1,), BATCH)
    options2 = {"activation": "sigmoid"}
    wants = [out * sigmoid(gate)]
    yield f"{op} sigmoid", Case(op, [flat, scale, gate], wants, options2, (1,), BATCH)
    op = "com.microsoft.GroupNorm"
    image, line = random(2, 5, 5, 8), random(8, seed=8)
    grouped = image.reshape(2, 25, 4, 2).astype(np.float64)
    mean, variance = grouped.mean((1, 3), keepdims=True), grouped.var((1, 3), keepdims=True)
    out = ((grouped - mean) / np.sqrt(variance + 1e-5)).reshape(image.shape) * scale + line
    out = (out * sigmoid(out)).astype(F4)
    options3 = {"activation": 1, "groups": 4}
    yield op, Case(op, [image, scale, line], [out], options3, (1, 2), BATCH, runtime=False)
    yield from skip_group_norms()


def skip_group_norms() -> Iterator[tuple[str, Case]]:
    """What is added is an image or has one number a channel; channels are last or first."""
    op = "com.microsoft.SkipGroupNorm"
    scale, line, bias = (random(8, seed=k) for k in (1, 2, 3))
    shapes = {"image": (2, 5, 5, 8), "of one": (2, 1, 1, 8), "flat": (2, 8)}
    for (name, shape), first, biased in product(shapes.items(), (0, 1), (0, 1)):
        image, skip = random(2, 5, 5, 8, seed=4), random(*shape, seed=5)
        more = skip.reshape(2, 1, 1, 8) if skip.ndim == 2 else skip
        whole = image + more + (bias if biased else 0)
        grouped = whole.reshape(2, 25, 4, 2).astype(np.float64)
        mean, variance = grouped.mean((1, 3), keepdims=True), grouped.var((1, 3), keepdims=True)
        out = ((grouped - mean) / np.sqrt(variance + 1e-5)).reshape(whole.shape) * scale + line
        out = (out * sigmoid(out)).astype(F4)
        images = [image, skip, out, whole.astype(F4)]
        if first:
            images = [a.transpose(0, 3, 1, 2).copy() if a.ndim == 4 else a for a in images]
        x, skip, *wants = images
        given = [x, scale, line, skip, *([bias] if biased else [])]
        options = {"activation": 1, "groups": 4, "channels_last": 1 - first}
        label = f"{op} {name}{' first' * first}{' bias' * biased}"
        yield label, Case(op, given, wants, options, (1, 2, 4), BATCH, runtime=False)


CASES = dict([*activations(), *products(), *norms()])


@in_forms(CASES)
def test_against_numpy(case: Case, free: bool) -> None:
    check(case, free)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_against_onnx_runtime(case: Case) -> None:
    check_runtime(case)
