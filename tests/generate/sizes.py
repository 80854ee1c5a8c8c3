"""Vectors of sizes, as programs that export models write them.

A size that a value has is read from it: Shape, then Gather or Slice, often a Cast to int32 and
back, arithmetic that comes out at the number, and Concat. PyTorch gathers scalars, unsqueezes and
concatenates them in int64; tf2onnx casts shapes to int32 first and slices; Paddle slices, casts
and computes with float32 scales.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from onnx import TensorProto

from tests.generate.draft import Draft, Item
from tests.generate.source import F32, I32, I64

_INT32, _INT64 = int(TensorProto.INT32), int(TensorProto.INT64)
_FLOAT = int(TensorProto.FLOAT)


def sizes(draft: Draft, numbers: Sequence[int]) -> Item:
    """An int64 vector of these numbers: a constant, an input or computed."""
    source = draft.source
    whole = np.array(numbers, I64)
    if not numbers or draft.opset < 10 or source.chance(0.6):
        return draft.fresh(whole, constant=0.88, fixed=True)
    style = source.pick(STYLES)
    return style(draft, [int(n) for n in numbers])


def size(draft: Draft, number: int, dtype: np.dtype[np.generic] = I64) -> Item:
    """An int64 or int32 scalar of this number, computed of a shape where there is one."""
    found = _read(draft, number)
    if found is None:
        return draft.constant(np.array(number, dtype))
    return found if dtype == I64 else _cast(draft, found, dtype)


def unsqueeze(draft: Draft, x: Item, axes: Sequence[int]) -> Item:
    """Unsqueeze as its opset has it."""
    if draft.opset >= 13:
        return draft.node("Unsqueeze", [x, draft.constant(np.array(axes, I64))], exact=True)[0]
    return draft.node("Unsqueeze", [x], exact=True, axes=list(axes))[0]


def squeeze(draft: Draft, x: Item, axes: Sequence[int]) -> Item:
    """Squeeze as its opset has it."""
    if draft.opset >= 13:
        return draft.node("Squeeze", [x, draft.constant(np.array(axes, I64))], exact=True)[0]
    return draft.node("Squeeze", [x], exact=True, axes=list(axes))[0]


def _cast(draft: Draft, x: Item, dtype: np.dtype[np.generic]) -> Item:
    to = {I32: _INT32, I64: _INT64, F32: _FLOAT}[dtype]
    return draft.node("Cast", [x], exact=True, to=to)[0]


def _binary(draft: Draft, op: str, x: Item, number: int) -> Item:
    operand = draft.constant(np.array(number, x.dtype))
    return draft.node(op, [x, operand], exact=True)[0]


def _owner(draft: Draft, number: int) -> tuple[Item, int] | None:
    """A value with an axis of this size, and the axis."""
    found = [
        (item, axis)
        for item in draft.items.values()
        if isinstance(item.value, np.ndarray)
        for axis, n in enumerate(item.shape)
        if n == number
    ]
    return draft.source.pick(found) if found else None


def _read(draft: Draft, number: int) -> Item | None:
    """An int64 scalar that is read from a shape, after arithmetic that leaves the number."""
    source = draft.source
    k = source.pick((1, 1, 2, 3))
    way = source.pick(("", "times", "over", "plus", "floor")) if number > 0 else ""
    wanted = {"": number, "times": number * k, "over": number // k, "plus": number - k}.get(
        way, number
    )
    if way == "over" and number % k:
        way, wanted = "", number
    owner = _owner(draft, wanted)
    if owner is None:
        way, owner = "", _owner(draft, number)
    if owner is None:
        return None
    item, axis = owner
    shape = draft.node("Shape", [item], exact=True)[0]
    at = axis - (item.rank if source.chance(0.3) and draft.opset >= 11 else 0)
    read = draft.node("Gather", [shape, draft.constant(np.array(at, I64))], exact=True, axis=0)[0]
    if source.chance(0.4):
        read = _cast(draft, read, I32)
    if way == "floor":
        scaled = _binary(draft, "Mul", _cast(draft, read, F32), 1)
        read = draft.node("Floor", [scaled], exact=True)[0]
    elif way:
        op = {"times": "Div", "over": "Mul", "plus": "Add"}[way]
        read = _binary(draft, op, read, k)
    return read if read.dtype == I64 else _cast(draft, read, I64)


def _as_pytorch(draft: Draft, numbers: Sequence[int]) -> Item:
    parts = []
    for n in numbers:
        read = _read(draft, n)
        parts.append(
            draft.constant(np.array([n], I64)) if read is None else unsqueeze(draft, read, [0])
        )
    return draft.node("Concat", parts, exact=True, axis=0)[0]


def _as_tensorflow(draft: Draft, numbers: Sequence[int]) -> Item:
    parts = []
    for n in numbers:
        owner = _owner(draft, n)
        if owner is None or abs(n) >= 2**31:
            clipped = int(np.clip(n, -(2**31) + 1, 2**31 - 1))
            parts.append(draft.constant(np.array([clipped], I32)))
            continue
        item, axis = owner
        shape = _cast(draft, draft.node("Shape", [item], exact=True)[0], I32)
        ends = [draft.constant(np.array([k], I64)) for k in (axis, axis + 1, 0)]
        part = draft.node("Slice", [shape, *ends], exact=True)[0]
        parts.append(unsqueeze(draft, squeeze(draft, part, [0]), [0]))
    return _cast(draft, draft.node("Concat", parts, exact=True, axis=0)[0], I64)


def _as_paddle(draft: Draft, numbers: Sequence[int]) -> Item:
    found = _as_tensorflow(draft, numbers)
    # a scale of one in float32, as for sizes of images
    if all(0 <= n < 1000 for n in numbers):
        found = _cast(draft, _binary(draft, "Mul", _cast(draft, found, F32), 1), I64)
    return found


def _as_expand(draft: Draft, numbers: Sequence[int]) -> Item:
    """PyTorch's `expand`: sizes of -1 are replaced by ones through Equal and Where."""
    vector = _as_pytorch(draft, numbers)
    minus = draft.constant(np.full(len(numbers), -(2**40), I64))
    equal = draft.node("Equal", [vector, minus], exact=True)[0]
    ones = draft.node("ConstantOfShape", [draft.node("Shape", [vector], exact=True)[0]], exact=True)
    ones64 = _cast(draft, ones[0], I64)
    return draft.node("Where", [equal, ones64, vector], exact=True)[0]


STYLES: tuple[Callable[[Draft, Sequence[int]], Item], ...] = (
    _as_pytorch,
    _as_pytorch,
    _as_tensorflow,
    _as_paddle,
    _as_expand,
)
