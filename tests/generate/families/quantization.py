"""Quantised operators, where a rounding may move a result by one step."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.generate.draft import Draft, Item, Unfit
from tests.generate.families.table import family
from tests.generate.source import F32, I8, I32, U8, Array, Source


def _drawn(source: Source, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    most = np.iinfo(dtype)
    return source.rng.integers(most.min, int(most.max) + 1, shape).astype(dtype)


def _scale(draft: Draft, shape: tuple[int, ...] = ()) -> Item:
    drawn = np.asarray(draft.source.rng.uniform(0.05, 1.5, shape)).astype(F32)
    return draft.fresh(drawn, 0.7)


@family
def dynamic_quantize(draft: Draft) -> None:
    x = draft.tensor((F32,), exact=True, special=0, least=1)
    draft.node("DynamicQuantizeLinear", [x], 3, steps=1)


@family
def quantize(draft: Draft) -> None:
    source = draft.source
    x = draft.tensor((F32,), exact=True, accept=lambda i: i.rank > 0, low=-60, high=60)
    axis = source.count(0, x.rank - 1) if source.chance(0.4) and draft.opset >= 13 else None
    shape = () if axis is None else (x.shape[axis],)
    zero = None
    if source.chance(0.7):
        zero = draft.fresh(_drawn(source, shape, source.pick((I8, U8))), 0.7)
    draft.node("QuantizeLinear", [x, _scale(draft, shape), zero], steps=1, axis=axis)


@family
def dequantize(draft: Draft) -> None:
    source = draft.source
    x = draft.tensor((I8, U8), accept=lambda i: i.rank > 0)
    axis = source.count(0, x.rank - 1) if source.chance(0.4) and draft.opset >= 13 else None
    shape = () if axis is None else (x.shape[axis],)
    zero = draft.fresh(_drawn(source, shape, x.dtype), 0.7) if source.chance(0.7) else None
    draft.node("DequantizeLinear", [x, _scale(draft, shape), zero], axis=axis)


@family
def matmul_integer(draft: Draft) -> None:
    source = draft.source
    x = draft.tensor((U8,), 2)
    kind = source.pick((I8, U8))
    n = source.extent()
    y = draft.fresh(_drawn(source, (x.shape[1], n), kind), 0.6)
    zeros: list[Item | None] = [None, None]
    if source.chance(0.7):
        zeros[0] = draft.fresh(_drawn(source, (), U8), 0.6)
    if source.chance(0.5):
        zeros[1] = draft.fresh(_drawn(source, source.pick(((), (n,))), kind), 0.6)
    draft.node("MatMulInteger", [x, y, *zeros], exact=True)


@family
def qlinear_matmul(draft: Draft) -> None:
    source = draft.source
    m, k, n = (source.extent() for _ in range(3))
    kind = source.pick((I8, U8))

    def side(shape: tuple[int, ...], dtype: np.dtype[Any], constant: float) -> list[Item]:
        data = draft.fresh(_drawn(source, shape, dtype), constant)
        return [data, _scale(draft), draft.fresh(_drawn(source, (), dtype), 0.7)]

    rest = [_scale(draft), draft.fresh(_drawn(source, (), U8), 0.7)]
    inputs = [*side((m, k), U8, 0.1), *side((k, n), kind, 0.5), *rest]
    draft.node("QLinearMatMul", inputs, steps=1)


@family
def qlinear_conv(draft: Draft) -> None:
    source = draft.source
    made, channels = source.pick((1, 3, 8)), source.pick((1, 2))
    x = draft.fresh(_drawn(source, (1, channels, 5, 4), U8), 0.1)
    w = draft.fresh(_drawn(source, (made, channels, 2, 3), U8), 0.8)
    inputs = [x, _scale(draft), draft.constant(_drawn(source, (), U8))]
    inputs += [w, _scale(draft), draft.constant(_drawn(source, (), U8))]
    inputs += [_scale(draft), draft.constant(_drawn(source, (), U8))]
    if source.chance(0.5):
        inputs.append(draft.constant(source.array((made,), I32, -100, 100, 0)))
    draft.node("QLinearConv", inputs, steps=1, pads=source.pick((None, [1, 1, 1, 1])))


@family
def quantized_product(draft: Draft) -> None:
    """A product between DequantizeLinear and QuantizeLinear, as static quantisers write it."""
    source = draft.source
    if draft.opset < 13:
        raise Unfit("an older DequantizeLinear")
    m, k, n = source.pick((1, 3, 17)), source.pick((2, 8)), source.pick((3, 16))
    x = draft.fresh(_drawn(source, (m, k), U8), 0)
    w = draft.constant(_drawn(source, (k, n), I8))
    (a,) = draft.node("DequantizeLinear", [x, _scale(draft), draft.constant(U8.type(128))])
    (b,) = draft.node("DequantizeLinear", [w, _scale(draft), draft.constant(I8.type(0))])
    (y,) = draft.node("MatMul", [a, b])
    draft.node("QuantizeLinear", [y, _scale(draft), draft.constant(U8.type(100))], steps=1)
