"""Quantised operators of `com.microsoft` against NumPy and ONNX Runtime.

What is quantised anew may differ by one where a quotient is nearly between two integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from tests.ops.microsoft import F4, Array, Case, check, check_runtime, in_forms, integers, random
from tests.ops.test_microsoft_attention import attended, causal, heads_of, hiding
from tests.ops.test_microsoft_fused import layer_norm, sigmoid, softmax

FREE = {2: "batch", 5: "steps"}
U1, I1 = np.uint8, np.int8


def quantized(x: Array, scale: Array, zero: Array) -> Array:
    info = np.iinfo(zero.dtype)
    return np.asarray(np.clip(np.rint(x / scale) + zero, info.min, info.max), zero.dtype)


def real(x: Array, scale: Array, zero: Array) -> Array:
    return (x.astype(F4) - zero.astype(F4)) * scale


def dynamic(x: Array) -> tuple[Array, Array, Array]:
    """Whole numbers, their scale and zero point, by the least and the greatest element."""
    low, high = min(x.min(), F4(0)), max(x.max(), F4(0))
    scale = F4((high - low) / F4(255)) if high > low else F4(1)
    zero = np.rint(np.clip(-low / scale, 0, 255)).astype(U1)
    return quantized(x, np.asarray(scale), zero), np.asarray(scale), zero


def whole(a: Array, a_zero: Array, b: Array, b_zero: Array) -> Array:
    return (a.astype(np.int32) - a_zero) @ (b.astype(np.int32) - b_zero)


def scalar(x: float, kind: Any = F4) -> Array:
    return np.array(x, kind)


def products() -> Iterator[tuple[str, Case]]:
    a, a_scale, a_zero = integers(2, 5, 8), scalar(0.02), scalar(117, U1)
    for kind in (U1, I1):
        b = integers(8, 6, dtype=kind, seed=4)
        for name, scale, zero in (
            ("", scalar(0.03), scalar(9, kind)),
            (" columns", random(6, low=0.01, high=0.1), integers(6, dtype=kind, seed=6)),
        ):
            kinds = f"{name} {kind.__name__}"
            out = whole(a, a_zero, b, zero).astype(F4) * (a_scale * scale)
            bias = random(6, seed=7)
            op = "com.microsoft.MatMulIntegerToFloat"
            inputs: list[Array | None] = [a, b, a_scale, scale, a_zero, zero, bias]
            yield f"{op}{kinds}", Case(op, inputs, [out + bias], {}, (1, 3, 4, 5, 6), FREE, 1e-4)
            x = random(2, 5, 8, seed=8)
            q, x_scale, x_zero = dynamic(x)
            out = whole(q, x_zero, b, zero).astype(F4) * (x_scale * scale)
            op = "com.microsoft.DynamicQuantizeMatMul"
            inputs = [x, b, scale, zero, bias]
            yield f"{op}{kinds}", Case(op, inputs, [out + bias], {}, (1, 2, 3, 4), FREE, 1e-4)
            out = whole(q, x_zero, b, np.zeros((), kind)).astype(F4) * (x_scale * scale)
            inputs = [x, b, scale]
            yield f"{op} plain{kinds}", Case(op, inputs, [out], {}, (1, 2), FREE, 1e-4)
    c, d = (integers(5, 4, dtype=np.int16, high=999), integers(4, 3, dtype=np.int16, high=999))
    op = "com.microsoft.MatMulInteger16"
    yield op, Case(op, [c, d], [c.astype(np.int32) @ d], {}, (1,), FREE)
    yield from gemms()
    yield from lines()


def gemms() -> Iterator[tuple[str, Case]]:
    op = "com.microsoft.QGemm"
    a, b = integers(5, 8), integers(6, 8, dtype=I1, seed=4)
    a_scale, a_zero = scalar(0.02), scalar(117, U1)
    b_scale, b_zero = random(6, low=0.01, high=0.1), np.zeros(6, I1)
    c = integers(6, dtype=np.int32, high=2000, seed=5)
    y_scale, y_zero = scalar(0.4), scalar(100, U1)
    out = (whole(a, a_zero, b.T, b_zero) + c).astype(F4) * (F4(0.5) * a_scale * b_scale)
    options = {"transB": 1, "alpha": 0.5}
    inputs: list[Array | None] = [a, a_scale, a_zero, b, b_scale, b_zero, c]
    const = (1, 2, 3, 4, 5, 6, 7, 8)
    yield f"{op} f32", Case(op, inputs, [out], options, const, FREE, 1e-4)
    wants = [quantized(out, y_scale, y_zero)]
    yield op, Case(op, [*inputs, y_scale, y_zero], wants, options, const, FREE, 1)
    out = whole(a.T, a_zero, b[:5, :4], b_zero[0]).astype(F4) * (a_scale * F4(0.05))
    inputs = [a, a_scale, a_zero, b[:5, :4].copy(), scalar(0.05), scalar(0, I1), None]
    wants = [quantized(out, y_scale, y_zero)]
    case = Case(op, [*inputs, y_scale, y_zero], wants, {"transA": 1}, const, FREE, 1)
    yield f"{op} turned", case


def lines() -> Iterator[tuple[str, Case]]:
    op = "com.microsoft.QuantizeLinear"
    x = random(2, 5, 6) * 3
    for kind in (U1, I1, np.uint16, np.int16):
        scale, zero = scalar(0.02), scalar(5, kind)
        want = quantized(x, scale, zero)
        name = kind.__name__
        yield f"{op} {name}", Case(op, [x, scale, zero], [want], {}, (1, 2), FREE)
        back = "com.microsoft.DequantizeLinear"
        case = Case(back, [want, scale, zero], [real(want, scale, zero)], {}, (1, 2), FREE)
        yield f"{back} {name}", case
    scale, zero = random(6, low=0.01, high=0.1), integers(6, seed=5)
    want = quantized(x, scale, zero)
    options = {"axis": 2}
    yield f"{op} axis", Case(op, [x, scale, zero], [want], options, (1, 2), FREE)
    op = "com.microsoft.DequantizeLinear"
    wants = [real(want, scale, zero)]
    yield f"{op} axis", Case(op, [want, scale, zero], wants, options, (1, 2), FREE)


def elementwise() -> Iterator[tuple[str, Case]]:
    for kind in (U1, I1):
        name = kind.__name__
        a, b = integers(2, 5, 7, dtype=kind), integers(7, dtype=kind, seed=4)
        sa, sb, sc = scalar(0.02), scalar(0.031), scalar(0.05)
        za, zb, zc = (scalar(v, kind) for v in (20, 33, 4))
        x, y = real(a, sa, za), real(b, sb, zb)
        const = (1, 2, 3, 4, 5, 6, 7)
        for op, out in (("Add", x + y), ("Mul", x * y)):
            op = f"com.microsoft.QLinear{op}"
            inputs: list[Array | None] = [a, sa, za, b, sb, zb, sc, zc]
            yield f"{op} {name}", Case(op, inputs, [quantized(out, sc, zc)], {}, const, FREE, 1)
        op, none = "com.microsoft.QLinearAdd", scalar(0, kind)
        out = real(a, sa, none) + real(a, sb, none)
        inputs = [a, sa, None, a, sb, None, sc, None]
        wants = [quantized(out, sc, none)]
        # ONNX Runtime takes the type of the input after one that is left out for its type
        case = Case(op, inputs, wants, {}, (1, 4, 6), FREE, 1, runtime=False)
        yield f"{op} plain {name}", case
        curves: dict[str, tuple[dict[str, Any], Callable[[Array], Array], float]] = {
            "Sigmoid": ({}, sigmoid, 1 / 256),
            "LeakyRelu": ({"alpha": 0.2}, lambda x: np.where(x < 0, F4(0.2) * x, x), 0.03),
        }
        for op, (options, curve, scale) in curves.items():
            op, s = f"com.microsoft.QLinear{op}", scalar(scale)
            zero = scalar(0 if kind is U1 else -128, kind)
            inputs = [a, sa, za, s, zero]
            wants = [quantized(curve(x), s, zero)]
            yield f"{op} {name}", Case(op, inputs, wants, options, (1, 2, 3, 4), FREE, 1)
        yield from soft_maxima(kind)
        yield from choices(kind)
        yield from poolings(kind)


def soft_maxima(kind: Any) -> Iterator[tuple[str, Case]]:
    op = "com.microsoft.QLinearSoftmax"
    a, sa, za = integers(2, 5, 7, dtype=kind), scalar(0.02), scalar(20, kind)
    x = real(a, sa, za)
    # its reciprocal is rounded down
    s, z = scalar(0.0047), scalar(0 if kind is U1 else -128, kind)
    levels = scalar(1 / np.floor(1 / 0.0047))
    for name, options, axes in (
        ("", {"axis": -1, "opset": 13}, (2,)),
        (" axis", {"axis": 1, "opset": 13}, (1,)),
        (" old", {"axis": 1, "opset": 11}, (1, 2)),
    ):
        wants = [quantized(softmax(x, axes), levels, z)]
        case = Case(op, [a, sa, za, s, z], wants, options, (1, 2, 3, 4), FREE, 1)
        yield f"{op}{name} {kind.__name__}", case


def choices(kind: Any) -> Iterator[tuple[str, Case]]:
    a, b = integers(2, 5, 7, dtype=kind), integers(2, 3, 7, dtype=kind, seed=4)
    sa, sb, sc = scalar(0.02), scalar(0.031), scalar(0.05)
    za, zb, zc = (scalar(v, kind) for v in (20, 33, 4))
    out = np.concatenate([real(a, sa, za), real(b, sb, zb)], 1)
    op = "com.microsoft.QLinearConcat"
    inputs: list[Array | None] = [sc, zc, a, sa, za, b, sb, zb]
    const = (0, 1, 3, 4, 6, 7)
    wants = [quantized(out, sc, zc)]
    yield f"{op} {kind.__name__}", Case(op, inputs, wants, {"axis": 1}, const, FREE, 1)
    op = "com.microsoft.QLinearWhere"
    c = integers(2, 5, 1, seed=9) > 128
    b = integers(2, 5, 7, dtype=kind, seed=4)
    out = np.where(c, real(a, sa, za), real(b, sb, zb))
    inputs = [c, a, sa, za, b, sb, zb, sc, zc]
    const = (2, 3, 5, 6, 7, 8)
    case = Case(op, inputs, [quantized(out, sc, zc)], {}, const, FREE, 1)
    yield f"{op} {kind.__name__}", case


def windows(x: Array, size: int, pad: float) -> Array:
    """The windows of images, with a padding of 1 and a stride of 2."""
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=pad)
    views = np.lib.stride_tricks.sliding_window_view(wide, (size, size), axis=(2, 3))
    return views[:, :, ::2, ::2]


LAST = (0, 2, 3, 1)
WINDOW = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}


def both_orders(x: Array, y: Array) -> Sequence[tuple[int, Array, Array]]:
    """An input and a result with channels first, and last."""
    a, b = (np.ascontiguousarray(v.transpose(LAST)) for v in (x, y))
    return [(0, x, y), (1, a, b)]


def poolings(kind: Any) -> Iterator[tuple[str, Case]]:
    a, sa, za = integers(2, 3, 7, 7, dtype=kind), scalar(0.02), scalar(20, kind)
    x = real(a, sa, za)
    s, z = scalar(0.015), scalar(9, kind)
    name, const = kind.__name__, (1, 2, 3, 4)
    for counted in (0, 1):
        taps = np.ones_like(x) if not counted else None
        total = windows(x, 3, 0).sum((4, 5))
        count = 9 if taps is None else windows(taps, 3, 0).sum((4, 5))
        want = quantized(total / count, s, z)
        op = "com.microsoft.QLinearAveragePool"
        for last, image, wanted in both_orders(a, want):
            options = {**WINDOW, "count_include_pad": counted, "channels_last": last}
            case = Case(op, [image, sa, za, s, z], [wanted], options, const, FREE, 1)
            yield f"{op} {counted} {last} {name}", case
    op = "com.microsoft.QLinearGlobalAveragePool"
    want = quantized(x.mean((2, 3), keepdims=True), s, z)
    for last, image, wanted in both_orders(a, want):
        options = {"channels_last": last}
        case = Case(op, [image, sa, za, s, z], [wanted], options, const, FREE, 1)
        yield f"{op} {last} {name}", case
    op = "com.microsoft.QLinearReduceMean"
    options = {"axes": [1, 3], "keepdims": 0}
    wants = [quantized(x.mean((1, 3)), s, z)]
    case = Case(op, [a, sa, za, s, z], wants, options, const, FREE, 1, runtime=False)
    yield f"{op} {name}", case
    op = "com.microsoft.NhwcMaxPool"
    wanted = windows(a, 3, np.iinfo(kind).min).max((4, 5)).transpose(LAST)
    image = np.ascontiguousarray(a.transpose(LAST))
    yield f"{op} {name}", Case(op, [image], [wanted], WINDOW, (), {2: "batch", 7: "side"})
    op = "com.microsoft.QLinearConv"
    w, w_scale = integers(4, 3, 3, 3, dtype=I1, seed=4), random(4, low=0.01, high=0.02)
    w_zero, b = np.zeros(4, I1), integers(4, dtype=np.int32, high=500, seed=5)
    taps = windows(a.astype(np.int32) - za, 3, 0)
    out = np.einsum("nchwij,ocij->nohw", taps, w.astype(np.int32)) + b[:, None, None]
    s = scalar(0.4)
    want = quantized(out.astype(F4) * (sa * w_scale)[:, None, None], s, z)
    for last, image, wanted in both_orders(a, want):
        inputs: list[Array | None] = [image, sa, za, w, w_scale, w_zero, s, z, b]
        options = {**WINDOW, "channels_last": last}
        case = Case(op, inputs, [wanted], options, (1, 2, 3, 4, 5, 6, 7, 8), FREE, 1)
        yield f"{op} {last} {name}", case


def attention() -> Iterator[tuple[str, Case]]:
    op = "com.microsoft.QAttention"
    x, w = integers(2, 5, 8), integers(8, 54, dtype=I1, seed=4)
    bias, x_scale, x_zero = random(54, seed=5), scalar(0.02), scalar(117, U1)
    mask = np.array([3, 5], np.int32)
    for name, scale, zero in (
        ("", scalar(0.01), scalar(3, I1)),
        (" columns", random(54, low=0.005, high=0.02), integers(54, dtype=I1, seed=6)),
    ):
        product = whole(x, x_zero, w, zero).astype(F4) * (x_scale * scale) + bias
        q, k, v = (heads_of(p) for p in np.split(product, 3, axis=2))
        shown = np.arange(5) < mask[:, None]
        wants = [attended(q, k, v, hiding(shown))[0]]
        inputs: list[Array | None] = [x, w, bias, x_scale, scale, mask, x_zero, zero]
        const = (1, 2, 3, 4, 6, 7)
        yield f"{op}{name}", Case(op, inputs, wants, {"num_heads": 3}, const, FREE, 1e-4)
        past = random(2, 2, 3, 7, 6, seed=6)
        old, new = (np.concatenate([p, n], 2) for p, n in zip(past, (k, v), strict=True))
        wants = [attended(q, old, new, causal(5, 7))[0], np.stack([old, new])]
        inputs = [x, w, bias, x_scale, scale, None, x_zero, zero, past]
        options = {"num_heads": 3, "unidirectional": 1}
        free = {2: "batch", 5: "steps", 7: "old"}
        yield f"{op} past{name}", Case(op, inputs, wants, options, const, free, 1e-4)
    op = "com.microsoft.QEmbedLayerNormalization"
    tables = [integers(n, 8, seed=n) for n in (11, 7, 3)] + [integers(8, seed=n) for n in (4, 5)]
    scales = [scalar(0.01 * n) for n in range(1, 6)]
    zeros = [scalar(20 * n, U1) for n in range(1, 6)]
    word, position, segment, gamma, beta = map(real, tables, scales, zeros)
    draw = np.random.default_rng(3).integers
    ids, kinds = draw(0, 11, (2, 5)).astype(np.int32), draw(0, 3, (2, 5)).astype(np.int32)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    total = word[ids] + position[:5] + segment[kinds]
    wants = [layer_norm(total, gamma, beta, 1e-12)[0].astype(F4), mask.sum(1, dtype=np.int32)]
    inputs = [ids, kinds, *tables, mask, *scales, *zeros]
    rest = [k for k in range(18) if k not in (0, 1, 7)]
    yield op, Case(op, inputs, wants, {}, rest, FREE, 1e-4)


def long_short(
    x: Array,
    w: tuple[Array, ...],
    r: tuple[Array, ...],
    b: Array | None,
    backwards: bool,
    lengths: Array,
    states: tuple[Array, Array],
    holes: Array | None,
) -> tuple[Array, Array, Array]:
    """One direction of an LSTM whose inputs and states are quantised in each step."""

    def product(a: Array, weights: tuple[Array, ...]) -> Array:
        q, scale, zero = dynamic(a)
        return np.asarray(whole(q, zero, weights[0], weights[2]).astype(F4) * (scale * weights[1]))

    h, c = states
    steps, size = len(x), h.shape[1]
    inputs = product(x, w)
    both = 0 if b is None else b[: 4 * size] + b[4 * size :]
    out = np.zeros((steps, *h.shape), F4)
    for n in range(steps):
        # sequences that end early go backwards from their own end
        at = np.maximum(lengths - 1 - n, 0) if backwards else np.full(len(lengths), n)
        rows = inputs[at, np.arange(len(at))] + product(h, r) + both
        i, o, f, g = np.split(rows, 4, axis=1)
        p = np.zeros(3 * size, F4) if holes is None else holes
        i, f = sigmoid(i + p[:size] * c), sigmoid(f + p[2 * size :] * c)
        new_c = f * c + i * np.tanh(g)
        new_h = sigmoid(o + p[size : 2 * size] * new_c) * np.tanh(new_c)
        inside = (n < lengths)[:, None]
        for row in np.flatnonzero(inside):
            out[at[row], row] = new_h[row]
        h, c = np.where(inside, new_h, h), np.where(inside, new_c, c)
    return out, h, c


def recurrent() -> Iterator[tuple[str, Case]]:
    op = "com.microsoft.DynamicQuantizeLSTM"
    x, size = random(5, 2, 7), 6
    for kind in (U1, I1):
        for direction in ("forward", "reverse", "bidirectional"):
            many = 2 if direction == "bidirectional" else 1
            for each in (False, True):
                shape = (many, 4 * size) if each else (many,)
                w, r = (integers(many, n, 4 * size, dtype=kind, seed=n) for n in (7, size))
                w_scale, r_scale = (random(*shape, seed=n, low=0.002, high=0.006) for n in (2, 3))
                w_zero, r_zero = (np.full(shape, n, kind) for n in (9, 14))
                if kind is I1:
                    w_zero, r_zero = np.zeros_like(w_zero), np.zeros_like(r_zero)
                b = random(many, 8 * size, seed=6)
                h0, c0 = (random(many, 2, size, seed=s, low=-1, high=1) for s in (7, 8))
                p = random(many, 3 * size, seed=9)
                parts = []
                for k in range(many):
                    back = direction == "reverse" or k == 1
                    weights = (w[k], w_scale[k], w_zero[k]), (r[k], r_scale[k], r_zero[k])
                    start = (h0[k], c0[k])
                    full = np.array([5, 5])
                    parts.append(long_short(x, *weights, b[k], back, full, start, p[k]))
                wants = [np.stack(v, axis) for axis, v in enumerate(zip(*parts, strict=True))]
                wants = [np.stack([q[0] for q in parts], 1)]
                wants += [np.stack([q[n] for q in parts]) for n in (1, 2)]
                inputs = [x, w, r, b, None, h0, c0, p, w_scale, w_zero, r_scale, r_zero]
                options = {"hidden_size": size, "direction": direction}
                const = (1, 2, 3, 7, 8, 9, 10, 11)
                free = {5: "steps", 2: "batch"} if many == 1 else {5: "steps"}
                case = Case(op, inputs, wants, options, const, free, 1e-4)
                yield f"{op} {direction} {kind.__name__} {each}", case
    yield from bare(op, x, size)


def bare(op: str, x: Array, size: int) -> Iterator[tuple[str, Case]]:
    """With as few inputs as there may be, and with lengths."""
    w, r = (integers(1, n, 4 * size, dtype=I1, seed=n) for n in (7, size))
    scale, zero = np.array([0.005], F4), np.zeros(1, I1)
    weights = (w[0], scale[0], zero[0]), (r[0], scale[0], zero[0])
    none = np.zeros((2, size), F4)
    for name, lengths in (("", None), (" lengths", np.array([5, 3], np.int32))):
        count = np.array([5, 5]) if lengths is None else lengths
        out, h, c = long_short(x, *weights, None, False, count, (none, none), None)
        inputs = [x, w, r, None, lengths, None, None, None, scale, zero, scale, zero]
        wants = [out[:, None], h[None], c[None]]
        options = {"hidden_size": size}
        free = {5: "steps", 2: "batch"}
        yield f"{op} bare{name}", Case(op, inputs, wants, options, (1, 2, 8, 9, 10, 11), free, 1e-4)


CASES = dict([*products(), *elementwise(), *attention(), *recurrent()])


@in_forms(CASES)
def test_against_numpy(case: Case, free: bool) -> None:
    check(case, free)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_against_onnx_runtime(case: Case) -> None:
    check_runtime(case)
