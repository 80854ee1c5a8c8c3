"""Tensors of bytes in com.microsoft, and what it has besides in forms of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.generate.draft import MICROSOFT, Draft, Item
from tests.generate.families.operands import below, plain, quantized, scales, small, whole
from tests.generate.families.table import family
from tests.generate.source import F16, F32, F64, I8, I16, I32, I64, U8, U16


@family
def byte_tensors(draft: Draft) -> None:
    """A choice between bytes, their soft-max and their means."""
    source = draft.source
    kind = source.pick((U8, I8))
    op = source.pick(("QLinearWhere", "QLinearSoftmax", "QLinearReduceMean"))
    shape = source.shape(source.pick((1, 2, 3)), 1)
    x = quantized(draft, *shape, kind=kind)
    ends = [scales(draft), whole(draft, kind=kind, constant=1)]
    if op == "QLinearWhere":
        own = source.pick((shape, shape[1:], (1,)))
        condition = draft.fresh(source.rng.random(source.pick((shape, (1,)))) < 0.5, 0.1)
        y = quantized(draft, *own, kind=kind)
        draft.node(op, [condition, *x, *y, *ends], domain=MICROSOFT, steps=1)
    elif op == "QLinearSoftmax":
        one = draft.constant(np.array(1 / 256, F32))
        how: dict[str, Any] = {"axis": source.axis(len(shape)), "opset": source.pick((11, 13))}
        draft.node(op, [*x, one, ends[1]], domain=MICROSOFT, steps=1, **how)
    else:
        axes = source.signs(source.subset(len(shape)), len(shape))
        how = {"axes": axes, "keepdims": source.pick((0, 1))}
        draft.node(op, [*x, *ends], domain=MICROSOFT, steps=1, **how)


@family
def own_quantization(draft: Draft) -> None:
    """Numbers quantised and back, by one scale or by one along an axis; products of 16 bits."""
    source = draft.source
    op = source.pick(("QuantizeLinear", "DequantizeLinear", "MatMulInteger16"))
    if op == "MatMulInteger16":
        m, k, n = source.pick((1, 5)), source.pick((1, 8)), source.pick((3, 16))
        parts = [
            below(draft, 500, (m, k), start=-500, kind=I16),
            below(draft, 500, (k, n), start=-500, kind=I16, constant=0.7),
        ]
        draft.node(op, parts, exact=True, domain=MICROSOFT)
        return
    shape = source.shape(source.pick((1, 2, 3)), 1)
    axis = source.count(0, len(shape) - 1)
    own = source.pick(((), (shape[axis],)))
    scale = scales(draft, *own)
    signed = (axis - len(shape)) if source.chance(0.3) else axis
    how: dict[str, Any] = {"axis": signed if own else source.pick((None, 0))}
    if op == "QuantizeLinear":
        kind = source.pick((U8, I8, U16, I16))
        zero = whole(draft, *own, kind=kind, constant=1) if source.chance(0.8) else None
        draft.node(op, [plain(draft, *shape), scale, zero], domain=MICROSOFT, steps=1, **how)
        return
    kind = source.pick((U8, I8, U16, I16, I32))
    x = below(draft, 100, shape, start=0 if kind.kind == "u" else -100, kind=kind)
    zero = whole(draft, *own, kind=kind, constant=1) if source.chance(0.6) else None
    if kind == I32:
        zero = None
    draft.node(op, [x, scale, zero], domain=MICROSOFT, **how)


@family
def byte_lstm(draft: Draft) -> None:
    """An LSTM whose weights are bytes."""
    source = draft.source
    kind = source.pick((U8, I8))
    steps, batch, size = source.count(1, 3), source.count(1, 2), source.pick((2, 4))
    hidden, way = source.pick((2, 4)), source.pick((None, "forward", "reverse", "bidirectional"))
    ways = 2 if way == "bidirectional" else 1
    own = source.pick(((ways,), (ways, 4 * hidden)))
    zeros = np.full(own, 128 if kind == U8 else 0)
    parts: list[Item | None] = [
        small(draft, steps, batch, size),
        whole(draft, ways, size, 4 * hidden, kind=kind, constant=1),
        whole(draft, ways, hidden, 4 * hidden, kind=kind, constant=1),
        small(draft, ways, 8 * hidden, constant=1) if source.chance(0.6) else None,
        None,
        small(draft, ways, batch, hidden) if source.chance(0.4) else None,
        small(draft, ways, batch, hidden) if source.chance(0.4) else None,
        small(draft, ways, 3 * hidden, constant=1) if source.chance(0.3) else None,
    ]
    if source.chance(0.3):
        parts[4] = below(draft, steps + 1, (batch,), start=1)
    for _ in range(2):
        scale = source.rng.uniform(0.002, 0.01, own).astype(F32)
        parts += [draft.constant(scale), draft.constant(zeros.astype(kind))]
    how: dict[str, Any] = {"hidden_size": hidden, "direction": way}
    how["input_forget"] = source.pick((None, 0, 1))
    draft.node("DynamicQuantizeLSTM", parts, 3, domain=MICROSOFT, steps=1, **how)


@family
def own_forms(draft: Draft) -> None:
    """Operators that ONNX has too, in a form of its own."""
    source = draft.source
    op = source.pick(("Range", "Trilu", "Unique", "GatherND", "Pad", "SampleOp"))
    how: dict[str, Any] = {}
    if op == "Range":
        kind = source.pick((I32, I64, F32, F64, I16))
        step = source.pick((1, 2, -1))
        ends = (source.count(-3, 3), source.count(-5, 8), step)
        own = source.pick(((), (1,)))
        inputs: list[Item | None] = [
            draft.fresh(np.full(own, n, kind), 0.5, fixed=True) for n in ends
        ]
        if step == 1 and source.chance(0.5):
            inputs.pop()
    elif op == "Trilu":
        x = draft.tensor((F32, F64, I64), source.pick((2, 3)))
        k = draft.fresh(np.array(source.count(-3, 3)), 0.6) if source.chance(0.6) else None
        inputs, how = [x, k], {"upper": source.pick((None, 0, 1))}
    elif op == "Unique":
        inputs = [draft.fresh(source.rng.integers(0, 4, source.extent()).astype(F32), 0.1)]
        draft.node(op, inputs, 3, exact=True, domain=MICROSOFT)
        return
    elif op == "GatherND":
        x = draft.tensor((F32, F16, I64, I32, U8), source.pick((1, 2, 3)), least=1)
        depth = source.count(1, x.rank)
        outer = source.shape(source.pick((0, 1, 2)))
        parts = [source.rng.integers(-n, n, outer) for n in x.shape[:depth]]
        index = np.stack(parts, -1).astype(source.pick((I32, I64)))
        inputs = [x, draft.fresh(index, 0.3)]
    elif op == "Pad":
        x = plain(draft, *source.shape(source.pick((1, 2, 3)), 2))
        mode = source.pick((None, "constant", "reflect", "edge"))
        low = -1 if mode in (None, "constant") else 0
        widths = np.array([source.count(low, 1) for _ in range(2 * x.rank)])
        own_widths = source.pick((widths, widths[None]))
        value = draft.fresh(np.array(1.5, F32), 0.6) if source.chance(0.4) else None
        inputs, how = [x, draft.fresh(own_widths, 0.8, fixed=True), value], {"mode": mode}
    else:
        inputs = [draft.tensor((F32,))]
    draft.node(op, inputs, exact=True, domain=MICROSOFT, **how)


@family
def own_sums(draft: Draft) -> None:
    """Sums with a bias and what follows them, and products of complex numbers."""
    source = draft.source
    op = source.pick(
        ("BiasAdd", "BiasSoftmax", "BiasSplitGelu", "GemmFastGelu", "ComplexMul", "ComplexMulConj")
    )
    kind = source.pick((F32, F32, F16))
    n, steps, width = source.count(1, 2), source.pick((1, 3)), source.pick((2, 8))
    how: dict[str, Any] = {}
    x = small(draft, n, steps, width, kind=kind)
    if op == "BiasAdd":
        inputs = [x, small(draft, width, kind=kind), small(draft, n, steps, width, kind=kind)]
    elif op == "BiasSplitGelu":
        inputs = [x, small(draft, width, kind=kind)]
    elif op == "GemmFastGelu":
        inputs = [x, small(draft, width, 5, kind=kind, constant=0.7)]
        inputs += [small(draft, 5, kind=kind)] if source.chance(0.6) else []
    elif op == "BiasSoftmax":
        x = small(draft, n, 3, steps, width, kind=kind)
        inner = source.pick((0, 1))
        axis = source.pick((3, -1, 2))
        # over the heads between, or over the first axes
        own = (n, 1, *x.shape[2:]) if inner else x.shape[source.count(1, axis % 4) :]
        inputs = [x, small(draft, *own, kind=kind)]
        how = {"axis": axis, "is_inner_broadcast": inner}
    else:
        other = source.pick(((n, steps, 2), (1, steps, 2), (n, 1, 2)))
        inputs = [small(draft, *shape, kind=kind) for shape in ((n, steps, 2), other)]
    draft.node(op, inputs, domain=MICROSOFT, **how)
