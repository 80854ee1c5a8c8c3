"""Operators that combine the elements along axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.generate.draft import Draft, Unfit
from tests.generate.families.table import family
from tests.generate.sizes import sizes
from tests.generate.source import F32, F64, FLOATS, I8, I32, I64, U8, Array

_ROUNDS = [
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMean",
    "ReduceProd",
    "ReduceSum",
]
_TYPES = (F32, F32, F64, I32, I64)


def _require_bounded(array: Array) -> None:
    if array.dtype.kind in "iu" and np.any(np.abs(array.astype(F64)) > 1e6):
        raise Unfit("an integer that may overflow")


@family
def reduce(draft: Draft) -> None:
    source = draft.source
    op = source.pick((*_ROUNDS, "ReduceSumSquare", "ReduceMax", "ReduceMin"))
    extremes = op in ("ReduceMax", "ReduceMin")
    logarithm = op.startswith("ReduceLog")
    types = (*_TYPES, I8, U8) if extremes else FLOATS if logarithm else _TYPES
    x = draft.tensor(types, least=int(extremes), exact=logarithm, special=0.2)
    _require_bounded(x.array)
    axes = source.signs(source.subset(x.rank), x.rank) if x.rank and source.chance(0.8) else None
    attributes: dict[str, Any] = {"keepdims": source.pick((None, 0, 1))}
    if draft.opset >= 18 or (op == "ReduceSum" and draft.opset >= 13):
        attributes["noop_with_empty_axes"] = source.pick((None, None, 0, 1))
        given = sizes(draft, axes) if axes else None
        draft.node(op, [x, given], exact=extremes or x.dtype.kind in "iu", **attributes)
    else:
        exact = extremes or x.dtype.kind in "iu"
        draft.node(op, [x], exact=exact, axes=axes, **attributes)


@family
def arg_extreme(draft: Draft) -> None:
    source = draft.source
    x = draft.tensor((F32, F32, F64, I32, I8), least=1, exact=True, accept=lambda i: i.rank > 0)
    draft.node(
        source.pick(("ArgMax", "ArgMin")),
        [x],
        exact=True,
        axis=source.axis(x.rank),
        keepdims=source.pick((None, 0, 1)),
        select_last_index=source.pick((None, 0, 1)) if draft.opset >= 12 else None,
    )


@family
def softmax(draft: Draft) -> None:
    source = draft.source
    op = source.pick(("Softmax", "Softmax", "LogSoftmax", "Hardmax"))
    hard = op == "Hardmax"
    x = draft.tensor((F32, F32, F64), accept=lambda i: i.rank > 0, exact=hard, special=0.05)
    low = -x.rank if draft.opset >= 11 else 0
    axis = source.pick((None, source.count(low, x.rank - 1)))
    draft.node(op, [x], exact=hard, axis=axis)


@family
def cumulative(draft: Draft) -> None:
    source = draft.source
    x = draft.tensor((F32, F64, I32, I64), accept=lambda i: i.rank > 0)
    axis = np.array(source.axis(x.rank), source.pick((I32, I64)))
    switches: dict[str, Any] = {
        "exclusive": source.pick((None, 0, 1)),
        "reverse": source.pick((None, 0, 1)),
    }
    draft.node(
        source.pick(("CumSum", "CumSum", "CumProd")),
        [x, draft.constant(axis)],
        exact=x.dtype.kind == "i",
        **switches,
    )


@family
def top_k(draft: Draft) -> None:
    source = draft.source
    x = draft.tensor((F32, F64, I64, I32), accept=lambda i: i.rank > 0, exact=True, special=0)
    axis = source.axis(x.rank)
    k = source.count(0, x.shape[axis])
    if draft.opset < 10:
        draft.node("TopK", [x], 2, exact=True, axis=axis, k=k)
        return
    largest = source.pick((None, 0, 1)) if draft.opset >= 11 else None
    draft.node("TopK", [x, sizes(draft, [k])], 2, exact=True, axis=axis, largest=largest)
