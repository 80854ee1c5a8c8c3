"""Loops whose bodies use the number of the round, and sequences and states that grow in them."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from tests.generate.draft import Draft, Item, Unfit, value_info
from tests.generate.families.table import family
from tests.generate.source import F32, I64

_FAR = 1 << 40


def _end(draft: Draft, number: Item, size: int) -> Item:
    """An end of a slice: so far from the first element or the last, and so much more a round."""
    source = draft.source
    by = draft.constant(np.array([source.count(-1, 2)], I64))
    first = draft.constant(np.array([source.pick((0, 0, 1, -1, size - 1, 2, -2))], I64))
    (moved,) = draft.node("Mul", [number, by], exact=True)
    (end,) = draft.node("Add", [moved, first], exact=True)
    return end


def _row(draft: Draft, x: Item, axis: int, number: Item) -> Item:
    """A part of an axis at the number of the round, as one element of it."""
    source = draft.source
    if source.chance(0.3):
        (row,) = draft.node("Gather", [x, number], exact=True, axis=axis)
        return row
    start = _end(draft, number, x.shape[axis])
    kind = source.pick(("one", "window", "any", "far"))
    if kind == "far":
        stop = draft.constant(np.array([_FAR], I64))
    elif kind == "any":
        stop = _end(draft, number, x.shape[axis])
    else:
        width = draft.constant(np.array([1 if kind == "one" else source.count(1, 3)], I64))
        (stop,) = draft.node("Add", [start, width], exact=True)
    axes = draft.constant(np.array([axis], I64))
    (part,) = draft.node("Slice", [x, start, stop, axes], exact=True)
    (row,) = draft.node("ReduceSum", [part, axes], keepdims=0)
    return row


def _info(name: str, value: Any, row: Item) -> Any:
    """The type of a tensor of any extents, or of a sequence of such rows."""
    if isinstance(value, np.ndarray):
        return value_info(name, value, [None] * value.ndim)
    element = helper.np_dtype_to_tensor_dtype(row.dtype)
    tensor = helper.make_tensor_type_proto(element, [None] * row.rank)
    return helper.make_value_info(name, helper.make_sequence_type_proto(tensor))


def _state(draft: Draft, body: Draft, kind: str, row: Item) -> tuple[Item, Item, Item]:
    """A state before the loop, in a round, and after it."""
    if kind == "append":
        element = helper.np_dtype_to_tensor_dtype(row.dtype)
        (first,) = draft.node("SequenceEmpty", [], exact=True, dtype=element)
    elif kind == "grow":
        first = draft.like(row, (draft.source.count(0, 2), *row.shape), special=0)
    else:
        first = draft.like(row, row.shape, special=0)
    least = (1, max(first.rtol, row.rtol), max(first.scale, row.scale))
    taken = Item(body.name("s"), first.value, *least)
    body.items[taken.name] = taken
    if kind == "append":
        (made,) = body.node("SequenceInsert", [taken, row], exact=True)
    elif kind == "grow":
        where = body.constant(np.array([0], I64))
        (part,) = body.node("Unsqueeze", [row, where], exact=True)
        (made,) = body.node("Concat", [taken, part], exact=True, axis=0)
    else:
        (made,) = body.node("Add", [taken, row])
        if row.dtype == F32:  # which keeps it from growing from round to round
            (made,) = body.node("Tanh", [made])
    return first, taken, made


@family
def rounds(draft: Draft) -> None:
    source = draft.source
    if draft.opset < 13:
        raise Unfit("axes are an attribute")
    x = draft.tensor(
        (F32, I64), accept=lambda i: 0 < i.rank < 4 and i.value.size < 300, least=1, special=0
    )
    axis = source.axis(x.rank)
    body = Draft(source, draft.opset, draft)
    number = Item(body.name("i"), np.array(0, I64))
    going = Item(body.name("p"), np.array(True))
    body.items.update({item.name: item for item in (number, going)})
    row = _row(body, x, axis, number)
    kinds = [kind for kind in ("state", "append", "grow") if source.chance(0.5)]
    states = [_state(draft, body, kind, row) for kind in kinds]
    stacked = [row] if not kinds or source.chance(0.5) else []
    inputs = [value_info(item.name, item.array) for item in (number, going)]
    inputs += [_info(taken.name, first.value, row) for first, taken, _ in states]
    outputs = []
    for item in (going, *[made for _, _, made in states], *stacked):
        # an output must be made in the body itself, once
        name = body.name("b")
        body.nodes.append(helper.make_node("Identity", [item.name], [name]))
        outputs.append(_info(name, item.value, row))
    graph = helper.make_graph(body.nodes, "body", inputs, outputs)
    if source.chance(0.5):
        (shape,) = draft.node("Shape", [x], exact=True)
        (trip,) = draft.node("Gather", [shape, draft.constant(np.array(axis, I64))], exact=True)
    else:
        trip = draft.fresh(np.array(source.count(0, x.shape[axis]), I64), 0.5)
    given = [trip, None, *[first for first, _, _ in states]]
    after = draft.node("Loop", given, len(outputs) - 1, body=graph)
    for item, kind in zip(after, kinds, strict=False):
        if kind == "append" and item.value:
            draft.node(
                "ConcatFromSequence", [item], exact=True, axis=0, new_axis=source.count(0, 1)
            )
