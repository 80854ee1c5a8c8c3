"""Weights of few bits and small operators of `com.microsoft` against NumPy and ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.ops.microsoft import (
    F4,
    Array,
    Case,
    check,
    check_runtime,
    half,
    in_forms,
    integers,
    random,
)

FREE = {2: "batch", 5: "steps"}


def numbers(x: Array, bits: int) -> Array:
    """Bytes as numbers of some bits, the lowest first."""
    parts = [(x >> low) & ((1 << bits) - 1) for low in range(0, 8, bits)]
    return np.stack(parts, -1).reshape(*x.shape[:-1], -1).astype(F4)


def products() -> Iterator[tuple[str, Case]]:
    op = "com.microsoft.MatMulNBits"
    rows, block = 6, 16
    for bits in (2, 4, 8):
        for depth in (32, 40):
            blocks = -(-depth // block)
            a = random(2, 5, depth)
            b = integers(rows, blocks, block * bits // 8, seed=4)
            scales = random(rows, blocks, seed=5, low=0.5, high=1)
            packed = integers(rows, -(-blocks * bits // 8), seed=6)
            bias = random(rows, seed=7)
            kinds: dict[str, tuple[Array | None, Any]] = {
                "": (None, F4(1 << (bits - 1))),
                " bytes": (packed, numbers(packed, bits)[:, :blocks, None]),
            }
            if bits != 8:
                real = random(rows, blocks, seed=8, low=0, high=3)
                kinds[" floats"] = (real, real[..., None])
            options = {"K": depth, "N": rows, "bits": bits, "block_size": block}
            for name, (zeros, at) in kinds.items():
                w = (numbers(b, bits) - at) * scales[..., None]
                out = a @ w.reshape(rows, -1)[:, :depth].T
                inputs: list[Array | None] = [a, b, scales, zeros, None, bias]
                wants, const = [out + bias], (1, 2, 3, 5)
                case = Case(op, inputs, wants, options, const, FREE, 1e-3)
                yield f"{op} {bits} {depth}{name}", case
    w = (numbers(b, 8) - 128) * scales[..., None]
    out = a @ w.reshape(rows, -1)[:, :depth].T
    inputs = [half(a), b, half(scales)]
    case = Case(op, inputs, [half(out)], options, (1, 2), FREE, 0.05)
    yield f"{op} f16", case


def products_by_table() -> Iterator[tuple[str, Case]]:
    op = "com.microsoft.MatMulBnb4"
    rows, depth, block = 6, 24, 32
    # what a sign, 2 bits of an exponent and 1 of a fraction stand for, and quantiles
    size = np.array([0, 1 / 192, 2 / 3, 1, 1 / 3, 1 / 2, 1 / 6, 1 / 4])
    quantiles = np.array([
        -1, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.09105004, 0,
        0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1,
    ])  # fmt: skip
    a, b = random(2, 5, depth), integers(rows * depth // 2, seed=4)
    scales = random(-(-rows * depth // block), seed=5, low=0.5, high=1)
    codes = np.stack([b >> 4, b & 15], -1).ravel()
    for kind, table in enumerate((np.concatenate([size, -size]), quantiles)):
        w = (table[codes] * scales.repeat(block)[: codes.size]).reshape(rows, depth)
        options = {"K": depth, "N": rows, "block_size": block, "quant_type": kind}
        out = (a @ w.T).astype(F4)
        yield f"{op} {kind}", Case(op, [a, b, scales], [out], options, (1, 2), FREE, 1e-4)


def rows_of_blocks() -> Iterator[tuple[str, Case]]:
    op = "com.microsoft.GatherBlockQuantized"
    rows, width, block = 7, 32, 16
    at = np.array([[0, 6, -1], [2, 2, 5]])
    scales = random(rows, width // block, seed=5, low=0.5, high=1)
    wide = scales.repeat(block, 1)
    for bits in (2, 4, 8):
        x = integers(rows, width * bits // 8, seed=4)
        packed = integers(rows, -(-2 * bits // 8), seed=6)
        zero = numbers(packed, bits)[:, :2].repeat(block, 1)
        options = {"bits": bits, "block_size": block, "quantize_axis": 1, "gather_axis": 0}
        for name, zeros, less in (("", None, F4(1 << (bits - 1))), (" zeros", packed, zero)):
            wants = [((numbers(x, bits) - less) * wide)[at]]
            inputs: list[Array | None] = [x, at, scales, zeros]
            case = Case(op, inputs, wants, options, (0, 2, 3), {2: "batch"}, 1e-4)
            yield f"{op} {bits}{name}", case
    beyond = np.array([0, 7, -8, 3], np.int32)
    out = ((numbers(x, 8) - 128) * wide)[beyond % 7] * np.array([1, 0, 0, 1])[:, None]
    wants = [out.astype(F4)]
    yield f"{op} beyond", Case(op, [x, beyond, scales], wants, options, (0, 2), {4: "n"}, 1e-4)
    for kind in (ml_dtypes.int4, ml_dtypes.uint4):
        whole = np.random.default_rng(3).integers(0, 8, (width, rows))
        zeros = np.random.default_rng(4).integers(0, 8, (width // block, rows))
        less = zeros.repeat(block, 0)
        wants = [((whole - less) * wide.T)[:, at].astype(F4)]
        inputs = [whole.astype(kind), at, scales.T.copy(), zeros.astype(kind)]
        options = {"block_size": block, "quantize_axis": 0, "gather_axis": 1}
        case = Case(op, inputs, wants, options, (0, 2, 3), {2: "batch"}, 1e-4)
        yield f"{op} {kind.__name__}", case


def small() -> Iterator[tuple[str, Case]]:
    x = random(2, 5, 7)
    k = np.array(1)
    yield "Trilu", Case("com.microsoft.Trilu", [x, k], [np.triu(x, 1)], {}, (1,), FREE)
    wants = [np.tril(x)]
    yield "Trilu lower", Case("com.microsoft.Trilu", [x], wants, {"upper": 0}, (), FREE)
    one, nine, two = (np.array(v, F4) for v in (1, 9, 2.5))
    op = "com.microsoft.Range"
    yield "Range", Case(op, [one, nine, two], [np.arange(1, 9, 2.5).astype(F4)], {}, (0, 1, 2))
    ends = [np.array([v], np.int32) for v in (2, 9)]
    yield "Range whole", Case(op, [*ends], [np.arange(2, 9, dtype=np.int32)], {}, (0, 1))
    op = "com.microsoft.ExpandDims"
    for axis in (0, 2, -1):
        case = Case(op, [x, np.array(axis, np.int32)], [np.expand_dims(x, axis)], {}, (1,), FREE)
        yield f"ExpandDims {axis}", case
    op, at = "com.microsoft.GatherND", np.array([[0, 1], [1, 4], [1, -1]])
    yield "GatherND", Case(op, [x, at], [x[at[:, 0], at[:, 1]]])
    op = "com.microsoft.Pad"
    pads, value = np.array([0, 1, 2, 0, 3, 0]), np.array([1.5], F4)
    wide = np.pad(x, ((0, 0), (1, 3), (2, 0)), constant_values=1.5)
    yield "Pad", Case(op, [x, pads, value], [wide], {}, (1, 2), FREE)
    wide = np.pad(x, ((0, 0), (1, 3), (2, 0)), mode="reflect")
    case = Case(op, [x, pads[None].copy()], [wide], {"mode": "reflect"}, (1,), FREE)
    yield "Pad reflect", case
    a, b = random(2, 5, 3, 2), random(5, 3, 2, seed=4)
    left, right = (v[..., 0] + 1j * v[..., 1] for v in (a, b))
    for op, out in (("ComplexMul", left * right), ("ComplexMulConj", left * right.conj())):
        wants = [np.stack([out.real, out.imag], -1).astype(F4)]
        free = {5: "steps"}
        yield op, Case(f"com.microsoft.{op}", [a, b], wants, {}, (), free, runtime=False)
    a, b = random(5, 8), random(2, 8, seed=4)
    square = ((a[:, None] - b) ** 2).sum(-1)
    for metric, wanted in (("euclidean", np.sqrt(square)), ("sqeuclidean", square)):
        case = Case("com.microsoft.CDist", [a, b], [wanted], {"metric": metric}, (), FREE, 1e-4)
        yield f"CDist {metric}", case
    op = "com.microsoft.UnfoldTensor"
    views = np.lib.stride_tricks.sliding_window_view(x, 3, axis=1)[:, ::2]
    options = {"dim": 1, "size": 3, "step": 2}
    yield "UnfoldTensor", Case(op, [x], [views], options, (), FREE)
    table, at = random(9, 4), np.array([[0, 8, 3], [1, 1, 2]])
    op = "com.microsoft.TorchEmbedding"
    yield "TorchEmbedding", Case(op, [table, at], [table[at]], {}, (0,), {2: "n"}, runtime=False)
    yield from n_grams()
    yield from images()


def n_grams() -> Iterator[tuple[str, Case]]:
    op = "com.microsoft.NGramRepeatBlock"
    ids = np.array([[1, 2, 3, 1, 2], [4, 4, 4, 4, 4]])
    scores = random(2, 6)
    for size in (1, 2, 3, 7):
        want = scores.copy()
        for row, said in enumerate(ids):
            for k in range(len(said) - size + 1):
                if (said[k : k + size - 1] == said[len(said) - size + 1 :]).all():
                    want[row, said[k + size - 1]] = -np.inf
        free = FREE if size < 7 else {2: "batch"}
        case = Case(op, [ids, scores], [want], {"ngram_size": size}, (), free)
        yield f"NGramRepeatBlock {size}", case


def images() -> Iterator[tuple[str, Case]]:
    x = random(2, 3, 5, 7)
    op = "com.microsoft.CropAndResize"
    boxes = np.array([[0, 0, 1, 1], [0.2, 0.1, 0.7, 1.2], [0.9, 0.8, 0.1, 0.3]], F4)
    batch = np.array([0, 1, 1], np.int32)
    for mode in ("bilinear", "nearest"):
        for size in ((4, 3), (1, 2)):
            options = {"mode": mode, "extrapolation_value": 0.5}
            want = crops(x, boxes, batch, size, mode)
            inputs: list[Array | None] = [x, boxes, batch, np.array(size, np.int32)]
            case = Case(op, inputs, [want], options, (3,), {5: "height", 7: "width"}, 1e-4)
            yield f"CropAndResize {mode} {size}", case
    op = "com.microsoft.GridSample"
    height, width = np.meshgrid(np.linspace(-1, 1, 5), np.linspace(-1, 1, 7), indexing="ij")
    grid = np.stack([width, height], -1)[None].repeat(2, 0).astype(F4)
    case = Case(op, [x, grid], [x], {"align_corners": 1}, (), {}, 1e-4)
    yield "GridSample", case
    op = "com.microsoft.ConvTransposeWithDynamicPads"
    w, pads = random(3, 1, 1, 1, seed=4), np.array([1, 1, 1, 0])
    want = np.einsum("nchw,co->nohw", x, w[:, :, 0, 0])[:, :, 1:-1, 1:]
    shape = {"kernel_shape": [1, 1], "strides": [1, 1]}
    yield "ConvTranspose", Case(op, [x, w, pads], [want], shape, (1, 2), {}, 1e-4)


def crops(x: Array, boxes: Array, batch: Array, size: tuple[int, int], mode: str) -> Array:
    out = np.full((len(boxes), x.shape[1], *size), 0.5, F4)
    for r, (box, b) in enumerate(zip(boxes, batch, strict=True)):
        for i, j in np.ndindex(*size):
            place = []
            for k, at in enumerate((i, j)):
                last = F4(x.shape[2 + k] - 1)
                low, high = box[k], box[k + 2]
                step = (high - low) * last / (size[k] - 1) if size[k] > 1 else F4(0)
                first = low * last if size[k] > 1 else F4(0.5) * (low + high) * last
                place.append(first + at * step)
            rows, columns = place
            if not (0 <= rows <= x.shape[2] - 1 and 0 <= columns <= x.shape[3] - 1):
                continue
            if mode == "nearest":
                out[r, :, i, j] = x[b, :, int(rows + 0.5), int(columns + 0.5)]
                continue
            top, left = int(np.floor(rows)), int(np.floor(columns))
            down, right = int(np.ceil(rows)), int(np.ceil(columns))
            u, v = rows - top, columns - left
            above = x[b, :, top, left] * (1 - v) + x[b, :, top, right] * v
            below = x[b, :, down, left] * (1 - v) + x[b, :, down, right] * v
            out[r, :, i, j] = above * (1 - u) + below * u
    return out


CASES = dict([*products(), *products_by_table(), *rows_of_blocks(), *small()])


@in_forms(CASES)
def test_against_numpy(case: Case, free: bool) -> None:
    check(case, free)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_against_onnx_runtime(case: Case) -> None:
    check_runtime(case)
