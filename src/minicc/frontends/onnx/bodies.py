"""A graph within a node, which is imported where it stands, under names of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.host.nodes import Types
from minicc.frontends.onnx.model.reader import Model, Node, read_subgraph
from minicc.frontends.onnx.nested import Written, rename
from minicc.frontends.onnx.ops.scans import TooManyError
from minicc.ir.core import Value
from minicc.wording import counted


class Importing(Protocol):
    """What is asked of an import that is under way."""

    model: Model
    ctx: Context
    values: dict[str, Value]
    makers: dict[str, Node]
    written: Written
    types: Types
    tail: Sequence[Node] | None
    ended: list[Value] | None
    wants: set[str]
    decisive: set[str]

    def rest(self, nodes: Sequence[Node]) -> list[Value]:
        """Import nodes up to the end of the model, and return its outputs."""

    def node(self, node: Node) -> None:
        """Import a node."""

    def note_decisive(self, values: Sequence[Value]) -> None:
        """Note the inputs that values are computed from, if these are few numbers each."""

    def value(self, name: str, where: str) -> Value:
        """The value of a name."""


class Body:
    """The graph that an attribute of a node holds; `most` is how many nodes may be made of it."""

    def __init__(
        self, importer: Importing, node: Node, most: int | None, attribute: str = "body"
    ) -> None:
        model = importer.model
        self.most = most
        self.importer = importer
        self.node = node
        self.graph = read_subgraph(node.attributes[attribute], model.opsets, model.files)
        self.inputs = [name for name, _ in self.graph.inputs]
        self.states: int | None = None  # after which a body of a loop gives rows
        self._check(len(node.inputs), model.opsets.get("", 0))
        self.place = place = f"{node.name}/{'each' if attribute == 'body' else attribute}"
        made = {o for n in self.graph.nodes for o in n.outputs if o}
        self.names = {n: f"{place}/{n}" for n in (*made, *self.inputs, *self.graph.initialisers)}
        model.add({self.names[n]: tensor for n, tensor in self.graph.initialisers.items()})

    def _check(self, given: int, opset: int) -> None:
        """MC0127 where the body of a loop does not take or give as many values as the node says."""
        if self.node.op == "Loop":
            wanted, states = max(given, 2), max(given - 2, 0) + 1
        elif self.node.op == "Scan":
            wanted, scanned = given - (opset < 9), self.node.integer("num_scan_inputs", 1)
            if not 1 <= scanned <= wanted:
                return  # which is told for itself
            states = wanted - scanned
        else:
            return
        taken, made = len(self.inputs), len(self.graph.outputs)
        text = f"takes {counted(taken, 'value')} and should take {wanted}"
        if taken == wanted:
            text = f"gives {counted(made, 'value')} and should give at least {states}"
        if taken != wanted or made < states:
            raise self.importer.ctx.wrong(f"its graph does not fit it: it {text}")
        self.states = states

    def emit(self, given: Sequence[Value]) -> list[Value]:
        """The values of its outputs for values of its inputs."""
        importer = self.importer
        if self.most is not None:
            self.most -= len(self.graph.nodes)
            if self.most < 0:
                raise TooManyError
        for name, value in zip(self.inputs, given, strict=True):
            importer.values[self.names[name]] = value
        for inner in self.graph.nodes:
            importer.node(rename(inner, self.names, self.place))
        names = [self.names.get(name, name) for name in self.graph.outputs]
        made = [importer.value(name, self.node.name) for name in names]
        types = importer.types
        pairs = [*zip(self.graph.outputs, made, strict=True)]
        for name, v in pairs[self.states :]:
            kind = types.protos[v].WhichOneof("value") if v in types.protos else None
            listed = v in types.items or kind not in (None, "tensor_type")
            if listed and self.states is not None:
                importer.ctx.stand_at(self.node, given, importer.ctx.opset)
                raise importer.ctx.wrong(f"its graph stacks {name}, which is no tensor")
        return made
