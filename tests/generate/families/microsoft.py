"""Operators of com.microsoft, which only ONNX Runtime and minicc know."""

from __future__ import annotations

from typing import Any

from tests.generate.draft import MICROSOFT, Draft
from tests.generate.families.table import family
from tests.generate.source import F32


@family
def microsoft(draft: Draft) -> None:
    source = draft.source
    op = source.pick(("Gelu", "FastGelu", "QuickGelu", "BiasGelu", "FusedMatMul"))
    if op == "FusedMatMul":
        m, k, n = source.pick((1, 3, 17)), source.pick((2, 5)), source.pick((1, 16))
        a, b = source.pick((0, 1)), source.pick((0, 1))
        x = draft.tensor((F32,), shape=(2, k, m) if a else (2, m, k), special=0)
        y = draft.tensor((F32,), shape=(2, n, k) if b else (2, k, n), special=0)
        how: dict[str, Any] = {"transA": a, "transB": b, "alpha": source.pick((None, 0.5))}
        draft.node(op, [x, y], domain=MICROSOFT, **how)
        return
    x = draft.tensor((F32,), accept=lambda i: i.rank > 0, special=0)
    bias = draft.tensor((F32,), shape=x.shape[-1:], special=0)
    inputs = [x, bias] if op == "BiasGelu" or (op == "FastGelu" and source.chance(0.5)) else [x]
    draft.node(op, inputs, domain=MICROSOFT)


@family
def skip_normalization(draft: Draft) -> None:
    source = draft.source
    n = source.pick((4, 16))
    shape = (source.pick((1, 2)), source.pick((1, 5)), n)
    x = draft.tensor((F32,), shape=shape, special=0, exact=True)
    skip = draft.tensor((F32,), shape=shape, special=0, exact=True)
    vectors = [
        draft.tensor((F32,), shape=(n,), special=0, constant=0.8) for _ in range(source.count(1, 3))
    ]
    given = [x, skip, *vectors]
    draft.node("SkipLayerNormalization", given, domain=MICROSOFT, epsilon=0.01)
