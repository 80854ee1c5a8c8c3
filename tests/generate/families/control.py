"""If, Loop and Scan, whose bodies are drafts of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, helper

from tests.generate.draft import Draft, Item, Unfit, value_info
from tests.generate.families.table import FAMILIES, family
from tests.generate.source import BOOL, F32, I64

_INNER = [
    "gentle",
    "arithmetic",
    "extremes",
    "where",
    "transpose",
    "reshape",
    "concat",
    "slice",
    "gather",
    "reduce",
    "matmul",
    "exact",
    "softmax",
    "compare",
    "cast",
    "expand",
    "pad",
    "shape_number",
]


def _grow(draft: Draft, count: int) -> None:
    """A few nodes in a body."""
    for _ in range(count):
        try:
            FAMILIES[draft.source.pick(_INNER)](draft)
        except Unfit:
            continue


def _graph(draft: Draft, name: str, inputs: Sequence[Any], outputs: Sequence[Item]) -> GraphProto:
    # an output must be made in the body itself, once
    names = []
    for item in outputs:
        node = helper.make_node("Identity", [item.name], [draft.name("b")])
        draft.nodes.append(node)
        names.append(value_info(node.output[0], item.array, [None] * item.rank))
    return helper.make_graph(draft.nodes, name, list(inputs), names)


def _result(draft: Draft, like: Item, fixed: bool) -> Item:
    """A tensor of a body that may stand for another: same type, and same shape where `fixed`."""
    found = [
        item
        for item in draft.items.values()
        if isinstance(item.value, np.ndarray)
        and item.dtype == like.dtype
        and item.roundings < 4
        and not item.steps
        and (item.shape == like.shape if fixed else item.rank == like.rank)
    ]
    if not found:
        raise Unfit("the body has no such value")
    return draft.source.pick(found[-4:])


@family
def branch(draft: Draft) -> None:
    source = draft.source
    if draft.opset < 11:
        raise Unfit("bodies without shapes")
    condition = draft.tensor((BOOL,), shape=(), exact=True, constant=0.1)
    like = draft.tensor((F32, I64), exact=True)
    bodies = []
    for name in ("then", "else"):
        body = Draft(source, draft.opset, draft)
        _grow(body, source.count(1, 3))
        bodies.append(_graph(body, name, [], [_result(body, like, fixed=source.chance(0.8))]))
    draft.node("If", [condition], then_branch=bodies[0], else_branch=bodies[1])


@family
def squeezed(draft: Draft) -> None:
    """An axis that goes where its extent is 1, as torch exports `squeeze(axis)`: a size decides."""
    source = draft.source
    if draft.opset < 13:
        raise Unfit("axes are an attribute")
    x = draft.tensor((F32, I64), accept=lambda i: 0 < i.rank < 5)
    axis = draft.constant(np.array([source.count(0, x.rank - 1) - source.pick((0, x.rank))]))
    (shape,) = draft.node("Shape", [x])
    (extent,) = draft.node("Gather", [shape, axis])
    one = draft.constant(np.array([1]))
    (alone,) = draft.node(source.pick(("Equal", "LessOrEqual")), [extent, one])
    type = helper.np_dtype_to_tensor_dtype(x.dtype)
    bodies = []
    # the one that does not run may be wrong for the sizes of this case
    for op, operands in (("Squeeze", [x.name, axis.name]), ("Identity", [x.name])):
        out = draft.name("b")
        given = helper.make_tensor_value_info(out, type, None)
        bodies.append(helper.make_graph([helper.make_node(op, operands, [out])], op, [], [given]))
    draft.node("If", [alone], then_branch=bodies[0], else_branch=bodies[1])


@family
def loop(draft: Draft) -> None:
    source = draft.source
    if draft.opset < 13:
        raise Unfit("bodies without shapes")
    carried = draft.tensor((F32, I64), accept=lambda i: i.value.size < 500, special=0)
    body = Draft(source, draft.opset, draft)
    step, going, state = (body.name(kind) for kind in ("i", "p", "s"))
    for item in (
        Item(step, np.array(0, I64)),
        Item(going, np.array(True)),
        Item(state, carried.array, 1, carried.rtol, carried.scale),
    ):
        body.items[item.name] = item
    _grow(body, source.count(1, 3))
    # tanh keeps what is carried from growing from round to round
    new = _result(body, carried, fixed=True)
    if new.dtype == F32:
        (new,) = body.node("Tanh", [new])
    outputs = [body.items[going], new]
    if source.chance(0.6):
        outputs.append(_result(body, carried, fixed=True))
    inputs = [
        value_info(step, np.array(0, I64)),
        value_info(going, np.array(True)),
        value_info(state, carried.array, [None] * carried.rank),
    ]
    graph = _graph(body, "body", inputs, outputs)
    # the condition of the next round is the one that came in, so the rounds decide
    trip = draft.fresh(np.array(source.count(0, 4), I64), 0.4)
    start = draft.constant(np.array(True)) if source.chance(0.7) else None
    draft.node("Loop", [trip, start, carried], len(outputs) - 1, body=graph)


@family
def scan(draft: Draft) -> None:
    source = draft.source
    if draft.opset < 11:
        raise Unfit("an older Scan")
    along = draft.tensor((F32,), accept=lambda i: i.rank > 0, least=1, special=0)
    row = Item("", np.asarray(along.array[0]), 1, along.rtol, along.scale)
    state = draft.tensor((F32,), shape=row.shape, special=0)
    body = Draft(source, draft.opset, draft)
    names = [body.name("s"), body.name("e")]
    for name, value in zip(names, (state.array, row.array), strict=True):
        body.items[name] = Item(name, value, 1, row.rtol, max(row.scale, state.scale))
    (mixed,) = body.node("Add", [body.items[name] for name in names])
    (new,) = body.node("Tanh", [mixed])
    _grow(body, source.count(0, 2))
    outputs = [new, _result(body, Item("", row.array), fixed=False)]
    inputs = [value_info(name, row.array) for name in names]
    inputs = [value_info(name, row.array, [None] * row.rank) for name in names]
    graph = _graph(body, "body", inputs, outputs)
    ways = source.pick((None, [0], [1]))
    out = source.pick((None, [0], [1]))
    draft.node(
        "Scan",
        [state, along],
        2,
        body=graph,
        num_scan_inputs=1,
        scan_input_directions=ways,
        scan_output_directions=out,
    )
