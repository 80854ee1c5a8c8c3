"""Loops of few rounds, whose number is known at import: their bodies, one behind the other.

So what depends on the round's number (a slice, a weight, a branch) is known too, and all rounds are
compiled as one. Other loops run on the host, round by round.

Mirrors: XLA's WhileLoopUnroller; ONNX simplifiers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from minicc.frontends.onnx.nested import rename
from minicc.frontends.onnx.reader import Model, Node, read_subgraph
from minicc.ir.affine import Dim

MOST_ROUNDS = 16
_MOST_NODES = 512


def unrolled_loop(node: Node, model: Model, count: int) -> list[Node] | None:
    """The nodes of a Loop that runs `count` times; None where its own condition may end it."""
    body = read_subgraph(node.attributes["body"], model.opsets, model.files)
    inputs = [name for name, _ in body.inputs]
    carried = list(node.inputs[2:])
    columns = len(body.outputs) - 1 - len(carried)
    few = 0 < count <= MOST_ROUNDS and count * len(body.nodes) <= _MOST_NODES
    if not few or not all(carried) or not goes_on(body, inputs[1]):
        return None
    writer = _Writer(node, model, body)
    yes = writer.constant("on", np.array(True))
    rows: list[Sequence[str]] = []
    for k in range(count):
        number = writer.constant(f"{k}/round", np.array(k, np.int64))
        made = writer.round(k, dict(zip(inputs, (number, yes, *carried), strict=True)))
        carried = made[1 : 1 + len(carried)]
        rows.append(made[1 + len(carried) :])
    for name, out in zip(carried, node.outputs, strict=False):
        writer.same(name, out)
    stacks = list(zip(*rows, strict=True)) if columns else []
    for row, out in zip(stacks, node.outputs[len(carried) :], strict=False):
        writer.stack(row, 0, out)
    return writer.nodes


def unrolled_scan(node: Node, model: Model, counts: Sequence[Dim]) -> list[Node] | None:
    """The nodes of a Scan, whose inputs have so many slices; None where these are many or free."""
    body = read_subgraph(node.attributes["body"], model.opsets, model.files)
    inputs = [name for name, _ in body.inputs]
    scanned = len(counts)
    states, columns = len(inputs) - scanned, len(body.outputs) - len(inputs) + scanned
    count = counts[0]
    if not isinstance(count, int) or {*counts} != {count}:
        return None
    if not 0 < count <= MOST_ROUNDS or count * len(body.nodes) > _MOST_NODES:
        return None
    backwards = node.integers("scan_input_directions") or (0,) * scanned
    axes = node.integers("scan_input_axes") or (0,) * scanned
    writer = _Writer(node, model, body)
    carried: Sequence[str] = node.inputs[:states]
    rows: list[Sequence[str]] = []
    for k in range(count):
        slices = [
            writer.slice(f"{k}/{n}", name, axis, count - 1 - k if back else k)
            for n, (name, axis, back) in enumerate(
                zip(node.inputs[states:], axes, backwards, strict=True)
            )
        ]
        made = writer.round(k, dict(zip(inputs, (*carried, *slices), strict=True)))
        carried = made[:states]
        rows.append(made[states:])
    for name, out in zip(carried, node.outputs, strict=False):
        writer.same(name, out)
    turned = node.integers("scan_output_directions") or (0,) * columns
    placed = node.integers("scan_output_axes") or (0,) * columns
    stacks = zip(zip(*rows, strict=True), placed, turned, node.outputs[states:], strict=False)
    for row, axis, back, out in stacks:
        writer.stack(row[::-1] if back else row, axis, out)
    return writer.nodes


def goes_on(body: Model, condition: str) -> bool:
    """Whether the condition that a body gives is always the one that it took, or true."""
    makers = {name: node for node in body.nodes for name in node.outputs}
    name = body.outputs[0]
    while name in makers and makers[name].op == "Identity":
        name = makers[name].inputs[0]
    if name == condition:
        return True
    if name in body.initialisers:
        return bool(body.array(name, name).all())
    made = makers.get(name)
    if made is None or made.op != "Constant" or "value" not in made.attributes:
        return False
    from onnx.numpy_helper import to_array

    return bool(to_array(made.attributes["value"]).all())


class _Writer:
    """Writes the nodes that stand for a loop, and adds constants to the model."""

    def __init__(self, node: Node, model: Model, body: Model) -> None:
        self._node = node
        self._model = model
        self._body = body
        self.nodes: list[Node] = []

    def round(self, k: int, given: Mapping[str, str]) -> list[str]:
        """The body once more; the names of its outputs."""
        place = f"{self._node.name}/{k}"
        made = {o for n in self._body.nodes for o in n.outputs if o}
        own = {name: f"{self._node.name}/all/{name}" for name in self._body.initialisers}
        self._model.add({own[name]: t for name, t in self._body.initialisers.items()})
        names = {**{name: f"{place}/{name}" for name in made}, **own, **given}
        self.nodes += [rename(n, names, place) for n in self._body.nodes]
        return [names.get(name, name) for name in self._body.outputs]

    def constant(self, name: str, value: Any) -> str:
        """A constant under a name of its own."""
        from onnx.numpy_helper import from_array

        unique = f"{self._node.name}/{name}"
        self._model.add({unique: from_array(np.asarray(value), unique)})
        return unique

    def same(self, name: str, out: str) -> None:
        """Another name for a value."""
        if out:
            self._write("Identity", (name,), out, {})

    def slice(self, place: str, name: str, axis: int, k: int) -> str:
        """A slice of a value along an axis, which goes."""
        out = f"{self._node.name}/{place}/slice"
        self._write("Gather", (name, self.constant(f"{k}", np.array(k))), out, {"axis": axis})
        return out

    def stack(self, names: Sequence[str], axis: int, out: str) -> None:
        """Values side by side along a new axis."""
        if not out:
            return
        before = self._model.opsets[""] < 13
        attributes: Mapping[str, Any] = {"axes": (axis,)} if before else {}
        given = () if before else (self.constant(f"axis{axis}", np.array([axis])),)
        columns = [f"{out}/{k}" for k in range(len(names))]
        for name, column in zip(names, columns, strict=True):
            self._write("Unsqueeze", (name, *given), column, attributes)
        self._write("Concat", tuple(columns), out, {"axis": axis})

    def _write(
        self, op: str, inputs: tuple[str, ...], out: str, attributes: Mapping[str, Any]
    ) -> None:
        self.nodes.append(Node(op, f"{self._node.name}/{out}", inputs, (out,), attributes))
