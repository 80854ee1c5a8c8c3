"""Operands that families share: floats that stay small, numbers in a range, quantised tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from tests.generate.draft import Draft, Item, Unfit, largest
from tests.generate.source import BF16, F32, I32, U8


def plain(draft: Draft, *shape: int, constant: float = 0.15) -> Item:
    """Floats without NaN or infinities."""
    return draft.tensor((F32,), shape=shape, special=0, constant=constant, reuse=0.3)


def small(
    draft: Draft, *shape: int, kind: np.dtype[Any] = F32, constant: float = 0.15, high: float = 1
) -> Item:
    """Floats of which none is far from 0, so that sums of their products round little."""
    if kind == BF16:
        return narrowed(draft, small(draft, *shape, constant=constant, high=high))
    return draft.tensor(
        (kind,),
        shape=shape,
        low=-high,
        high=high,
        special=0,
        constant=constant,
        reuse=0.2,
        accept=lambda item: largest(item.array) <= high,
    )


def positive(draft: Draft, *shape: int, kind: np.dtype[Any] = F32, constant: float = 0.7) -> Item:
    """Floats from a half to two."""
    if kind == BF16:
        return narrowed(draft, positive(draft, *shape, constant=constant))
    return draft.fresh(draft.source.rng.uniform(0.5, 2, shape).astype(kind), constant)


def narrowed(draft: Draft, item: Item) -> Item:
    """A tensor in bfloat16, which ONNX Runtime takes for no input and gives for no output."""
    if draft.opset < 13:
        raise Unfit("bfloat16 is newer")
    (made,) = draft.node("Cast", [item], to=int(TensorProto.BFLOAT16))
    draft.hidden.add(made.name)
    return made


def widened(draft: Draft, items: Sequence[Item], kind: np.dtype[Any]) -> None:
    """Make outputs of float32 of what is bfloat16."""
    for item in items if kind == BF16 else ():
        draft.hidden.add(item.name)
        draft.node("Cast", [item], to=int(TensorProto.FLOAT))


def below(
    draft: Draft,
    end: int,
    shape: Sequence[int],
    *,
    start: int = 0,
    kind: np.dtype[Any] = I32,
    constant: float = 0.2,
) -> Item:
    """Integers from a start on before an end."""
    return draft.fresh(draft.source.rng.integers(start, end, shape).astype(kind), constant)


def whole(draft: Draft, *shape: int, kind: np.dtype[Any] = U8, constant: float = 0.2) -> Item:
    """Integers of all that a type has."""
    most = np.iinfo(kind)
    drawn = draft.source.rng.integers(most.min, int(most.max) + 1, shape)
    return draft.fresh(drawn.astype(kind), constant)


def scales(draft: Draft, *shape: int, kind: np.dtype[Any] = F32) -> Item:
    """Scales of quantised tensors."""
    return draft.constant(draft.source.rng.uniform(0.02, 0.2, shape).astype(kind))


def quantized(draft: Draft, *shape: int, kind: np.dtype[Any] = U8) -> list[Item | None]:
    """A tensor of bytes, its scale and its zero point."""
    return [
        whole(draft, *shape, kind=kind),
        scales(draft),
        whole(draft, kind=kind, constant=1),
    ]
