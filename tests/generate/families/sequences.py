"""Sequences and optional values."""

from __future__ import annotations

import numpy as np

from tests.generate.draft import Draft, Item, Unfit
from tests.generate.families.table import family
from tests.generate.sizes import sizes
from tests.generate.source import F32, I64


def _index(draft: Draft, k: int) -> Item:
    return draft.fresh(np.array(k, I64), 0.5)


@family
def sequence(draft: Draft) -> None:
    source = draft.source
    if draft.opset < 11:
        raise Unfit("no sequences before opset 11")
    x = draft.tensor((F32, I64), rank=source.pick((1, 2)))
    count = source.count(1, 3)
    parts = [x, *(draft.like(x, x.shape) for _ in range(count - 1))]
    (made,) = draft.node("SequenceConstruct", parts, exact=True)
    if source.chance(0.4):
        at = _index(draft, source.count(-count, count - 1)) if source.chance(0.6) else None
        (made,) = draft.node("SequenceInsert", [made, draft.like(x, x.shape), at], exact=True)
        count += 1
    if source.chance(0.3) and count > 1:
        at = _index(draft, source.count(-count, count - 1)) if source.chance(0.6) else None
        (made,) = draft.node("SequenceErase", [made, at], exact=True)
        count -= 1
    ending = source.pick(("at", "length", "concat", "", "optional"))
    if ending == "at":
        at = _index(draft, source.count(-count, count - 1))
        draft.node("SequenceAt", [made, at], exact=True)
    elif ending == "length":
        draft.node("SequenceLength", [made], exact=True)
    elif ending == "concat":
        new = source.pick((None, 0, 1))
        draft.node("ConcatFromSequence", [made], exact=True, axis=0, new_axis=new)
    elif ending == "optional" and draft.opset >= 18:
        draft.node("OptionalGetElement", [made], exact=True)


@family
def split_to_sequence(draft: Draft) -> None:
    source = draft.source
    x = draft.tensor((F32, I64), accept=lambda i: i.rank > 0, least=1)
    axis = source.axis(x.rank)
    size = x.shape[axis]
    given = source.pick((None, 1, 2))
    keep = source.pick((None, 0)) if given is None else None
    length = None
    if given == 1:
        length = draft.constant(np.array(source.count(1, size), I64))
    elif given == 2:
        cut = source.count(0, size)
        length = sizes(draft, [cut, size - cut])
    (made,) = draft.node("SplitToSequence", [x, length], exact=True, axis=axis, keepdims=keep)
    if isinstance(made.value, list) and source.chance(0.5):
        draft.node("SequenceAt", [made, _index(draft, -1)], exact=True)


@family
def optional(draft: Draft) -> None:
    if draft.opset < 18:
        raise Unfit("another meaning before opset 18")
    x = draft.tensor((F32, I64))
    (made,) = draft.node("Optional", [x], exact=True)
    draft.node(draft.source.pick(("OptionalHasElement", "OptionalGetElement")), [made], exact=True)
