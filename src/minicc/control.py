"""Loops that data decide, on the host: Loop, Scan, SequenceMap around a body that is compiled.

Mirrors: ONNX Runtime's Loop and Scan, which run a sub-graph's session once a round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minicc.errors import UserError
from minicc.frontends.onnx.reader import Node
from minicc.ir.core import Array
from minicc.limits import require_array_fits

Body = Callable[[Sequence[Any]], list[Any]]


def loop(node: Node, values: Sequence[Any], body: Body, memory: int) -> list[Any]:
    """ONNX's Loop: at most so many rounds, while a condition holds.

    UserError where what the rounds give is more than so many bytes of memory.
    """
    most, condition, *carried = values
    limit = np.inf if most is None else int(np.reshape(most, ()))
    holds = True if condition is None else bool(np.reshape(condition, ()))
    rounds: list[list[Any]] = []
    count, held = 0, 0
    while holds and count < limit:
        out = body([np.array(count, np.int64), np.array(holds), *carried])
        holds, carried = bool(np.reshape(out[0], ())), out[1 : 1 + len(carried)]
        row = out[1 + len(carried) :]
        count += 1
        if row or count == 1:
            rounds.append(row)
            held += sum(np.asarray(value).nbytes for value in row)
            what = f"what the first {count} rounds of {node.name} give"
            require_array_fits(held, memory, what)
    return [*carried, *_collected(node, rounds, 1 + len(carried))]


def _collected(node: Node, rounds: Sequence[Sequence[Any]], first: int) -> list[Array]:
    """What the rounds gave, one upon the other, from the body's output `first` on."""
    if not rounds:
        return _nothing(node, first)
    try:
        return [np.stack(column) for column in zip(*rounds, strict=True)]
    except ValueError as error:
        text = f"{node.op}: what its rounds give has different shapes: {error}"
        raise UserError("MC0158", text, where=node.name) from error


def _nothing(node: Node, first: int) -> list[Array]:
    """What a loop that never ran collects: arrays of no rows."""
    from onnx.helper import tensor_dtype_to_np_dtype

    out: list[Array] = []
    for result in node.attributes["body"].output[first:]:
        tensor = result.type.tensor_type
        shape = (0, *[d.dim_value for d in tensor.shape.dim])
        out.append(np.zeros(shape, tensor_dtype_to_np_dtype(tensor.elem_type or 1)))
    return out


def scan(node: Node, values: Sequence[Any], body: Body, opset: int) -> list[Any]:
    """ONNX's Scan: one round for each slice of its inputs.

    In opset 8 the first axis of everything is a batch, each entry a scan of its own.
    """
    if opset >= 9:
        return _scan_once(node, values, body)
    values = values[1:]  # the first are lengths, which are never given
    rows = [_scan_once(node, [v[k] for v in values], body) for k in range(values[0].shape[0])]
    return [np.stack(column) for column in zip(*rows, strict=True)]


def _scan_once(node: Node, values: Sequence[Any], body: Body) -> list[Any]:
    count = node.integer("num_scan_inputs", 1)
    states = len(values) - count
    carried, inputs = list(values[:states]), values[states:]
    backwards = node.integers("scan_input_directions") or node.integers("directions")
    axes = node.integers("scan_input_axes") or (0,) * count
    inputs = [np.moveaxis(x, axis, 0) for x, axis in zip(inputs, axes, strict=True)]
    if len({len(x) for x in inputs}) > 1:
        text = f"{node.op}: its inputs have {[len(x) for x in inputs]} slices"
        raise UserError("MC0158", text, where=node.name)
    pairs = zip(inputs, backwards or (0,) * count, strict=True)
    inputs = [x[::-1] if back else x for x, back in pairs]
    rounds: list[list[Any]] = []
    for slices in zip(*inputs, strict=True):
        out = body([*carried, *[np.require(s, requirements="C") for s in slices]])
        carried = out[:states]
        rounds.append(out[states:])
    made = _collected(node, rounds, states)
    turned = node.integers("scan_output_directions") or (0,) * len(made)
    placed = node.integers("scan_output_axes") or (0,) * len(made)
    made = [x[::-1] if back else x for x, back in zip(made, turned, strict=True)]
    return [*carried, *[np.moveaxis(x, 0, axis) for x, axis in zip(made, placed, strict=True)]]


def sequence_map(node: Node, values: Sequence[Any], body: Body) -> list[Any]:
    """ONNX's SequenceMap: a graph on each tensor of sequences."""
    first, *others = values
    rows = [
        body([item, *[o[k] if isinstance(o, list) else o for o in others]])
        for k, item in enumerate(first)
    ]
    return [[row[k] for row in rows] for k in range(len(node.outputs))]
