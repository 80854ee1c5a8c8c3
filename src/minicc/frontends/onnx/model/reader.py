"""Bytes of an ONNX model to plain Python: nodes in topological order, initialisers, types, opset.

Initialisers are decoded when they are first asked for. A large file is mapped, and protobuf does
not see the raw bytes of large initialisers: their arrays are views of the file.

Errors, all `UserError`: MC0120 a file that can't be read, MC0121 no bytes, MC0122 bytes that end
too early, MC0123 bytes that are no model, MC0125 an output that nothing makes (or a cycle), MC0126
a value made twice, MC0127 an attribute of another kind, MC0129 no opset, MC0130 a value that a node
takes and nothing makes, MC0131 a tensor whose data do not fit its shape; those of `external` for
data in other files. `UnsupportedError`: MC0222 an element type, MC0225 an input of unknown rank,
MC0226 an opset or format too new.
"""

from __future__ import annotations

import heapq
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minicc.errors import MiniccError, Problems, UnsupportedError, UserError
from minicc.frontends.onnx.captures import captured, named_by
from minicc.frontends.onnx.functions import inlined, inlined_nodes, require_size
from minicc.frontends.onnx.model.about import about_of
from minicc.frontends.onnx.model.external import Files
from minicc.frontends.onnx.model.messages import messages
from minicc.frontends.onnx.model.sources import MAPPED, model_bytes
from minicc.frontends.onnx.model.tensors import ELEMENTS, array_of, element_type, viewed
from minicc.frontends.onnx.model.wire import cut_short, without_weights
from minicc.ir.affine import Dim, symbol
from minicc.ir.core import Array
from minicc.ir.mapped import let_go, own
from minicc.ir.types import DType, TensorType
from minicc.limits import Limits

NEWEST_OPSET = 28
DAMAGED = "the model is damaged; `onnx.checker.check_model` says more"
_NEWEST_IR = 14  # of the file format's versions
_LARGE = 1 << 16  # bytes of an initialiser that stays where it is
# AttributeProto.AttributeType: the field that holds the value
_FIELDS = {1: "f", 2: "i", 3: "s", 5: "g", 6: "floats", 7: "ints", 8: "strings"}
_FIELDS |= {11: "sparse_tensor"}
_TENSOR, _GRAPH, _STRING = 4, 5, 8
_NO_FILES = Files()
_LIMITS = Limits()
_MOST_INLINED = 1 << 20  # nodes of a model without functions


@dataclass(slots=True)
class Node:
    """An ONNX node; `op` has its domain in front where that is not ONNX's own."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    # what its sub-graphs use from around them; what a Gradient names: xs, zs and y
    captures: tuple[str, ...] = ()

    @property
    def uses(self) -> tuple[str, ...]:
        """All values that it depends on."""
        return (*self.inputs, *self.captures)

    def _get(self, name: str, kinds: tuple[type, ...], default: Any, wanted: str) -> Any:
        value = self.attributes.get(name, default)
        if value is default or isinstance(value, kinds):
            return value
        raise self.mistyped(name, wanted)

    def mistyped(self, name: str, wanted: str) -> UserError:
        """An attribute of another kind than its operator's (MC0127)."""
        value = self.attributes[name]
        plain = isinstance(value, (int, float, str, tuple))
        shown = repr(value) if plain else f"a {type(value).__name__}"
        message = f"attribute {name} of {self.op} is {shown}, not {wanted}"
        hint = "`onnx.checker.check_model(path)` says more"
        return UserError("MC0127", message, hint=hint, where=self.name)

    def integer(self, name: str, default: int) -> int:
        """An attribute of one integer."""
        return int(self._get(name, (int,), default, "an integer"))

    def number(self, name: str, default: float) -> float:
        """An attribute of one float, which has 32 bits, also where it is the default."""
        return float(np.float32(self._get(name, (int, float), default, "a number")))

    def text(self, name: str, default: str) -> str:
        """An attribute of one string."""
        return str(self._get(name, (str,), default, "a string"))

    def texts(self, name: str) -> tuple[str, ...]:
        """An attribute of several strings, none where there is no such one."""
        value = self._get(name, (tuple,), (), "a list of strings")
        if not all(isinstance(text, str) for text in value):
            raise self.mistyped(name, "a list of strings")
        return tuple(value)

    def numbers(self, name: str) -> tuple[float, ...]:
        """An attribute of several floats, none where there is no such one."""
        value = self._get(name, (tuple,), (), "a list of numbers")
        if not all(isinstance(n, (int, float)) for n in value):
            raise self.mistyped(name, "a list of numbers")
        return tuple(map(float, value))

    def integers(self, name: str) -> tuple[int, ...] | None:
        """An attribute of several integers; None where there is none."""
        value = self._get(name, (tuple,), None, "a list of integers")
        if value is not None and not all(isinstance(n, int) for n in value):
            raise self.mistyped(name, "a list of integers")
        return None if value is None else tuple(value)


class Model:
    """The graph of a model, or a sub-graph of a node.

    `initialisers` are arrays or protobuf tensors, see `array_of`; an input without a type is no
    tensor of numbers, or of a rank that is not known. `declared` are the inputs' and outputs'
    protobuf types by name, `files` those that may hold the initialisers' data, `about` is what the
    file says about itself.
    """

    def __init__(
        self,
        opsets: Mapping[str, int],
        nodes: Sequence[Node],
        inputs: Sequence[tuple[str, TensorType | None]],
        outputs: Sequence[str],
        initialisers: dict[str, Any],
        declared: Mapping[str, Any] | None = None,
        files: Files = _NO_FILES,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self.opsets = opsets
        self.nodes = nodes
        self.inputs = inputs
        self.outputs = outputs
        self.initialisers = initialisers
        self.declared = declared or {}
        self.files = files
        self.about = about or {}

    def array(self, name: str, where: str) -> Array:
        """The array of an initialiser, see `array_of`; it is decoded once."""
        found = self.initialisers[name]
        if not isinstance(found, np.ndarray):
            found = array_of(found, where, self.files)
            self.initialisers[name] = found
        return found

    def element(self, name: str) -> DType | None:
        """The element type of an input whose type is a tensor's of numbers."""
        declared = self.declared.get(name)
        if declared is None or not declared.HasField("tensor_type"):
            return None
        return ELEMENTS.get(declared.tensor_type.elem_type)

    def hold(self) -> None:
        """Copy the initialisers that lie in the model's file, for one who reads them later.

        By then the file may be another.
        """
        arrays = {n: own(t) for n, t in self.initialisers.items() if isinstance(t, np.ndarray)}
        self.initialisers = {**self.initialisers, **arrays}

    def settle(self) -> None:
        """Let go of the file and of its message; what is left of that is copied."""
        self.initialisers = {name: _copied(t) for name, t in self.initialisers.items()}
        self.hold()

    def add(self, initialisers: Mapping[str, Any]) -> None:
        """More initialisers, those of a graph that is written in place of a node."""
        # a new mapping: other threads may be going through the old one
        self.initialisers = {**self.initialisers, **initialisers}


def read_model(
    source: str | os.PathLike[str] | bytes,
    outputs: Sequence[str] | None = None,
    limits: Limits = _LIMITS,
    apart: bool = False,
) -> Model:
    """Read a model from a file or from bytes; the module says what is raised.

    `outputs` names what it shall give instead of its own outputs: any values that it computes.
    With `apart` each free dimension has a name of its own, whatever the model calls it.
    MC0172 and MC0173 where it has more nodes, or graphs within one another, than `limits` allow.
    """
    data, place = model_bytes(source)
    in_memory = isinstance(source, (bytes, bytearray, memoryview))
    files = _NO_FILES if in_memory else Files(place)
    proto, weights = _parse(data, place)
    graph = proto.graph
    require_size([graph], limits, place)
    problems = Problems()
    opsets = _opsets(proto, place)
    initialisers: dict[str, Any] = {
        t.name: weights.get(position, t) for position, t in enumerate(graph.initializer)
    }
    initialisers |= {t.values.name: t for t in graph.sparse_initializer}
    inputs: list[tuple[str, TensorType | None]] = []
    taken = {d.dim_param for i in graph.input for d in i.type.tensor_type.shape.dim}
    for given in graph.input:
        if given.name not in initialisers:
            with problems.catch():
                inputs.append((given.name, _input_type(given, taken, apart)))
    _check_names(graph, problems)
    nodes = _read_nodes(graph, files)
    wanted = [o.name for o in graph.output] if outputs is None else list(outputs)
    known = {i.name for i in graph.input} | set(initialisers)
    nodes = _ordered(nodes, known, wanted, problems)
    problems.check()
    declared = {v.name: _copied(v.type) for v in (*graph.input, *graph.output)}
    about = about_of(proto)
    return Model(opsets, nodes, inputs, wanted, initialisers, declared, files, about)


def _check_names(graph: Any, problems: Problems) -> None:
    """Each input has a name of its own, and each initialiser; both may have the same."""
    held = [t.name for t in graph.initializer] + [t.values.name for t in graph.sparse_initializer]
    for what, names in (("inputs", [i.name for i in graph.input]), ("initialisers", held)):
        twice = [name for name, count in Counter(names).items() if count > 1]
        for name in twice:
            message = f"two {what} are called {name!r}"
            hint = "each value has one node, input or initialiser that makes it"
            problems.add(UserError("MC0126", message, hint=hint, where=name))


def read_subgraph(proto: Any, opsets: Mapping[str, int], files: Files) -> Model:
    """The graph that an attribute of a node holds; its nodes are in order as they stand."""
    nodes = _read_nodes(proto, files)
    inputs = [(i.name, None) for i in proto.input]
    initialisers = {t.name: t for t in proto.initializer}
    outputs = [o.name for o in proto.output]
    return Model(opsets, nodes, inputs, outputs, initialisers, files=files)


def _read_nodes(graph: Any, files: Files) -> list[Node]:
    """The nodes of a graph; of those with one name all but the first get their number too."""
    nodes = [read_node(n, index, files) for index, n in enumerate(graph.node)]
    taken: set[str] = set()
    for index, node in enumerate(nodes):
        while node.name in taken:
            node.name += f"#{index}"
        taken.add(node.name)
    return nodes


def message_of(data: Array, place: str) -> tuple[Any, dict[int, tuple[int, int]]]:
    """The message of a model, and where the bytes of large initialisers lie that it does not hold.

    The places are by the initialisers' positions. UserError where the bytes are no model.
    """
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped,unused-ignore]

    proto = messages().ModelProto()
    view = data.data
    places: dict[int, tuple[int, int]] = {}
    rest: bytes | memoryview = view
    if data.size >= MAPPED:
        rest, places = without_weights(view, _LARGE)
    try:
        proto.ParseFromString(rest)
    except DecodeError:
        lack = cut_short(view)
        if lack:
            message = f"the model ends too early: its {len(view)} bytes lack {lack} at the end"
            hint = "copy, download or export it again"
            raise UserError("MC0122", message, hint=hint, where=place) from None
        raise _no_model(view, place) from None
    if not proto.HasField("graph"):
        raise _no_model(view, place)
    if not all(isinstance(name, str) for name in _names(proto.graph)):
        message = "the model has names that are not UTF-8"
        raise UserError("MC0123", message, hint="export it again", where=place)
    return proto, places


def _parse(data: Array, place: str) -> tuple[Any, dict[int, Array]]:
    """The message of a model, and the arrays of large initialisers by their position."""
    proto, places = message_of(data, place)
    if not proto.graph.output:
        hint = "export it again, or name one in `model.graph.output`"
        raise UserError("MC0123", "the model has no outputs", hint=hint, where=place)
    weights: dict[int, Array] = {}
    for position, (start, end) in places.items():
        tensor, raw = proto.graph.initializer[position], data[start:end]
        array = None if proto.functions else viewed(tensor, raw)
        if array is None:
            tensor.raw_data = raw.tobytes()
        else:
            weights[position] = array
    let_go(data)
    if not proto.functions:
        return proto, weights
    if inlined_nodes(proto) > _MOST_INLINED:
        message = f"the model's functions make more than {_MOST_INLINED} nodes of its own"
        hint = "write what is called so often as a loop"
        raise UserError("MC0123", message, hint=hint, where=place)
    try:
        return inlined(proto), {}
    except Exception as error:  # of several kinds, some of them bare C++ ones
        message = f"the model's functions make no sense: {error}"
        hint = "`onnx.checker.check_model(path)` says more"
        raise UserError("MC0123", message, hint=hint, where=place) from None


def _names(graph: Any) -> Iterator[Any]:
    """All names of a graph, which protobuf hands over as bytes where they are not UTF-8."""
    for node in graph.node:
        yield from (node.op_type, node.domain, node.name, *node.input, *node.output)
        yield from (a.name for a in node.attribute)
        for a in node.attribute:
            if a.type == _GRAPH:
                yield from _names(a.g)
    for value in (*graph.input, *graph.output, *graph.initializer):
        yield value.name
    for value in graph.input:
        yield from (d.dim_param for d in value.type.tensor_type.shape.dim)


def _no_model(data: memoryview, place: str) -> MiniccError:
    hint = "minicc reads what `onnx.save(model, path)` writes"
    if bytes(data[4:8]) == b"ORTM":  # FlatBuffers' identifier of a schema
        hint = "they are in ONNX Runtime's own format: give the ONNX model that they were made of"
    return UserError("MC0123", "these bytes are not an ONNX model", hint=hint, where=place)


def _opsets(proto: Any, place: str) -> dict[str, int]:
    """The opset of each domain; MC0226 where these or the file format are too new."""
    opsets = {_domain(o.domain): o.version for o in proto.opset_import}
    # a model that has no operators of ONNX's own need not say which it means
    foreign = bool(proto.graph.node) and all(_domain(n.domain) for n in proto.graph.node)
    if foreign:
        opsets.setdefault("", NEWEST_OPSET)
    if proto.ir_version > _NEWEST_IR:
        message = (
            f"the file is of IR version {proto.ir_version}; minicc knows those to {_NEWEST_IR}"
        )
        hint = "export it for an older one, or set `model.ir_version`"
        raise UnsupportedError("MC0226", message, hint=hint, where=place)
    opset = opsets.get("", 0)
    if opset < 1:
        message = "the model does not say which opset of ONNX's operators it uses"
        hint = "add one to `model.opset_import`, or export it again"
        raise UserError("MC0129", message, hint=hint, where=place)
    if opset > NEWEST_OPSET:
        message = f"the model uses opset {opset}; the newest that minicc knows is {NEWEST_OPSET}"
        hint = f"export it for opset {NEWEST_OPSET}, or use `onnx.version_converter`"
        raise UnsupportedError("MC0226", message, hint=hint, where=place)
    return opsets


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def read_node(proto: Any, index: int, files: Files = _NO_FILES) -> Node:
    """A node; `index` names one that has no name."""
    domain = _domain(proto.domain)
    # what may be overwritten, says an old opset; that changes nothing here
    given = (a for a in proto.attribute if a.name != "consumed_inputs")
    op = f"{domain}.{proto.op_type}" if domain else proto.op_type
    name = proto.name or f"{op}#{index}"
    attributes = {a.name: _attribute(a, files, name) for a in given}
    inner = dict.fromkeys(n for a in proto.attribute if a.type == _GRAPH for n in captured(a.g))
    captures = tuple(named_by(proto) or inner)
    return Node(op, name, tuple(proto.input), tuple(proto.output), attributes, captures)


def _attribute(proto: Any, files: Files, where: str) -> Any:
    # messages are copied, for a part of the file's message would hold all of it
    if proto.type == _TENSOR:
        return _copied(files.inlined(proto.t, where))
    field = _FIELDS.get(proto.type)
    if field in (None, "g", "sparse_tensor"):
        return _copied(getattr(proto, field) if field else proto)
    value = getattr(proto, field)
    if field == "s":
        return value.decode("utf-8", "replace")
    if field == "strings":
        return tuple(v.decode("utf-8", "replace") for v in value)
    return tuple(value) if field in ("floats", "ints") else value


def _copied(value: Any) -> Any:
    """A message by itself; an array as it is."""
    if isinstance(value, np.ndarray):
        return value
    made = type(value)()
    made.CopyFrom(value)
    return made


def _input_type(given: Any, taken: set[str], apart: bool) -> TensorType | None:
    """The type of an input; a free dimension is a symbol, one without a name gets a fresh one.

    None for what is no tensor, for texts, and where the rank is not known.
    """
    tensor = given.type.tensor_type
    if not given.type.HasField("tensor_type") or tensor.elem_type == _STRING:
        return None
    element = element_type(tensor.elem_type, f"input {given.name}", given.name)
    if not tensor.HasField("shape"):
        return None
    shape: list[Dim] = []
    for axis, dim in enumerate(tensor.shape.dim):
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            shape.append(dim.dim_value)
            continue
        name = dim.dim_param
        if apart or name in ("", "?"):
            name = f"{given.name}_{axis}"
            while name in taken:
                name += "_"
            taken.add(name)
        shape.append(symbol(name))
    return TensorType(element, tuple(shape))


def _ordered(
    nodes: Sequence[Node], known: set[str], outputs: Sequence[str], problems: Problems
) -> list[Node]:
    """The nodes that outputs need, each after those it uses, else in the order of the file."""
    makers: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for out in filter(None, node.outputs):
            if out in makers or out in known:
                first = nodes[makers[out]].name if out in makers else "the model's inputs"
                where = (first, node.name) if out in makers else (node.name,)
                message = f"the value {out} is made twice"
                hint = "each value has one node, input or initialiser that makes it"
                problems.add(UserError("MC0126", message, hint=hint, where=where))
            makers.setdefault(out, index)
    if problems:
        return []
    needed, waiting = _needed(nodes, known, outputs, makers, problems)
    users: dict[int, list[int]] = {}
    for index, before in waiting.items():
        for other in before:
            users.setdefault(other, []).append(index)
    ready = [index for index in sorted(needed) if not waiting[index]]
    order: list[int] = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for user in users.get(index, ()):
            waiting[user].discard(index)
            if not waiting[user]:
                heapq.heappush(ready, user)
    if len(order) < len(needed):
        stuck = [nodes[index].name for index in sorted(needed - set(order))]
        hint = "a graph of ONNX has no cycles; loops are an operator"
        message = "these nodes wait for each other"
        problems.add(UserError("MC0125", message, hint=hint, where=stuck))
    used = {name for index in order for name in nodes[index].uses} | set(outputs)
    for index in order:
        # an output that nobody wants need not be computed
        nodes[index].outputs = tuple(o if o in used else "" for o in nodes[index].outputs)
    return [nodes[index] for index in order]


def _needed(
    nodes: Sequence[Node],
    known: set[str],
    outputs: Sequence[str],
    makers: Mapping[str, int],
    problems: Problems,
) -> tuple[set[int], dict[int, set[int]]]:
    """The nodes that outputs depend on, and for each of them those whose values it uses."""
    uses: dict[int, set[int]] = {}
    for out in outputs:
        if out not in makers and out not in known:
            message = f"nothing makes the output {out}"
            problems.add(UserError("MC0125", message, hint=DAMAGED, where=out))
    stack = [makers[out] for out in outputs if out in makers]
    while stack:
        index = stack.pop()
        if index in uses:
            continue
        uses[index] = set()
        for name in filter(None, nodes[index].uses):
            if name in makers:
                uses[index].add(makers[name])
                stack.append(makers[name])
            elif name not in known:
                message = f"nothing makes the value {name}"
                where = nodes[index].name
                problems.add(UserError("MC0130", message, hint=DAMAGED, where=where))
    return set(uses), uses
