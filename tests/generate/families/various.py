"""Operators that belong to no other family."""

from __future__ import annotations

import numpy as np

from tests.generate.draft import Draft
from tests.generate.families.table import family
from tests.generate.source import ANY, F32, F64, I64


@family
def dropout(draft: Draft) -> None:
    draft.node("Dropout", [draft.tensor((F32, F64))], exact=True)


@family
def loss(draft: Draft) -> None:
    source = draft.source
    op = source.pick(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"))
    n, c = source.pick((1, 3)), source.pick((2, 4))
    around = source.pick(((), (2,), (2, 3)))
    scores = draft.tensor((F32,), shape=(n, c, *around), special=0)
    labels = draft.fresh(source.rng.integers(0, c, (n, *around)), 0.2)
    weights = None
    if source.chance(0.4):
        weights = draft.fresh(source.rng.uniform(0.1, 2, c).astype(F32), 0.5)
    how = source.pick(("none", "mean", "sum"))
    draft.node(op, [scores, labels, weights], reduction=how)


@family
def suppression(draft: Draft) -> None:
    source = draft.source
    k = source.pick((1, 4, 6))
    boxes = source.rng.uniform(0, 3, (2, k, 4)).astype(F32)
    scores = source.rng.random((2, 2, k)).astype(F32)
    limits = [np.array([source.pick((0, 1, 3))]), np.array([0.4], F32), np.array([0.2], F32)]
    draft.node(
        "NonMaxSuppression",
        [draft.fresh(boxes, 0.1), draft.fresh(scores, 0.1), *map(draft.constant, limits)],
        exact=True,
        center_point_box=source.pick((None, 0, 1)),
    )


@family
def window_function(draft: Draft) -> None:
    op = draft.source.pick(("HannWindow", "HammingWindow", "BlackmanWindow"))
    length = draft.fresh(np.array(draft.source.count(2, 9), I64), 0.7, fixed=True)
    draft.node(op, [length], periodic=draft.source.pick((None, 0, 1)))


@family
def dft(draft: Draft) -> None:
    source = draft.source
    n = source.pick((1, 2, 5, 8))
    x = draft.tensor((F32,), shape=(source.pick((1, 2)), n, source.pick((1, 2))), special=0)
    if draft.opset >= 20:
        axis = draft.constant(np.array(1, I64))
        draft.node("DFT", [x, None, axis], onesided=None)
    else:
        draft.node("DFT", [x], axis=1)


@family
def identities(draft: Draft) -> None:
    """An input that is an output at once, and one value as two outputs."""
    x = draft.tensor(ANY)
    draft.node("Identity", [x], exact=True)
    draft.node("Identity", [x], exact=True)


@family
def shared_branch(draft: Draft) -> None:
    """Values that several nodes read, which fusing must not compute apart."""
    source = draft.source
    x = draft.tensor((F32,), accept=lambda i: i.rank > 0, special=0)
    (a,) = draft.node("Tanh", [x])
    (b,) = draft.node("Mul", [a, x])
    (c,) = draft.node("Add", [a, b])
    (d,) = draft.node("Transpose", [c], exact=True)
    (e,) = draft.node("Transpose", [b], exact=True)
    draft.node(source.pick(("Add", "Max", "Min")), [d, e])
