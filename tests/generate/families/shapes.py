"""What exporters compute of shapes, as values of their own and not as sizes of something."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from tests.generate.draft import Draft, Item
from tests.generate.families.table import family
from tests.generate.sizes import sizes
from tests.generate.source import ANY, F32, I32, I64

_OF_INTEGERS = ("Add", "Sub", "Mul", "Div", "Min", "Max", "Mod")
_OF_FLOATS = (*_OF_INTEGERS[:6], "Sqrt")


def _one(draft: Draft, op: str, *inputs: Item, **attributes: Any) -> Item:
    return draft.node(op, inputs, exact=True, **attributes)[0]


def _number(draft: Draft) -> Item:
    """A scalar computed of a shape, in int64, int32 or float32."""
    source = draft.source
    x = draft.tensor(ANY, accept=lambda i: i.rank > 0)
    found = _one(draft, "Shape", x)
    dtype = source.pick((I64, I64, I32, F32))
    if dtype != I64:
        to = helper.np_dtype_to_tensor_dtype(dtype)
        found = _one(draft, "Cast", found, to=to)
    at = draft.constant(np.array(source.count(0, x.rank - 1), I64))
    found = _one(draft, "Gather", found, at)
    for _ in range(source.count(0, 3)):
        op = source.pick(_OF_INTEGERS if dtype != F32 else _OF_FLOATS)
        if op == "Sqrt":
            found = _one(draft, "Sqrt", _one(draft, "Abs", found))
            continue
        other = source.pick((1, 2, 3, 4) if dtype != F32 else (1, 2, 3, 0.5, 0.7, 1.3)) * (
            -1 if op in ("Add", "Min") and source.chance(0.3) else 1
        )
        found = _one(draft, op, found, draft.constant(np.array(other, dtype)))
    if dtype == F32:
        op = source.pick(("Floor", "Ceil", "Round", "") if draft.opset >= 11 else ("Floor", "Ceil"))
        found = _one(draft, op, found) if op else found
        found = _one(draft, "Cast", found, to=helper.np_dtype_to_tensor_dtype(I64))
    return found


@family
def shape_number(draft: Draft) -> None:
    source = draft.source
    x = _number(draft)

    def scalar(n: int) -> Item:
        return draft.constant(np.array(n, x.dtype))

    ending = source.pick(("", "range", "fill", "compare", "where"))
    if ending == "range":
        _one(draft, "Range", scalar(0), x, scalar(source.pick((1, 2))))
    elif ending == "compare":
        _one(draft, source.pick(("Less", "Equal", "Greater")), x, scalar(2))
    elif ending == "where":
        above = _one(draft, "Greater", x, scalar(2))
        _one(draft, "Where", above, x, scalar(7))
    elif ending == "fill":
        least = _one(draft, "Max", x, scalar(0))
        wide = _one(draft, "Cast", least, to=helper.np_dtype_to_tensor_dtype(I64))
        axes = draft.constant(np.array([1], I64))
        _one(draft, "ConstantOfShape", _one(draft, "Reshape", wide, axes))


@family
def shape_vector(draft: Draft) -> None:
    source = draft.source
    x = draft.tensor(ANY, accept=lambda i: i.rank > 1)
    attributes = {}
    if draft.opset >= 15 and source.chance(0.4):
        attributes = {source.pick(("start", "end")): source.count(-4, 4)}
    shape = _one(draft, "Shape", x, **attributes)
    op = source.pick(("ReduceProd", "Mul", "Concat", "Cast", "Slice"))
    if op == "ReduceProd":
        _one(draft, op, shape, keepdims=source.pick((0, 1)))
    elif op == "Mul":
        _one(draft, op, shape, shape)
    elif op == "Concat":
        _one(draft, op, shape, sizes(draft, [3]), axis=0)
    elif op == "Cast":
        _one(draft, op, shape, to=helper.np_dtype_to_tensor_dtype(source.pick((I32, F32))))
    elif draft.opset >= 10:
        _one(draft, op, shape, *(draft.constant(np.array([k], I64)) for k in (-1, -5, 0, -1)))


@family
def ranges(draft: Draft) -> None:
    source = draft.source
    dtype = source.pick((I32, I64, F32))
    numbers = (source.count(-3, 3), source.count(-3, 9), source.pick((1, 2, -1)))
    draft.node("Range", [draft.fresh(np.array(n, dtype), 0.6) for n in numbers], exact=True)
