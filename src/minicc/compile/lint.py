"""All that is wrong or slow about a model, found at once and without compiling it.

The specification's own checker, the reader and the importer each say what they find. The importer
goes on after a node that it refuses, with the types that the file or ONNX's inference gives for
what that makes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from minicc.compile.partition import plan_parts, runs_on_host
from minicc.errors import MiniccError, Problems, UnsupportedError
from minicc.frontends.onnx.host.nodes import emit_hosted
from minicc.frontends.onnx.host.registry import HOST as HOST_OPERATORS
from minicc.frontends.onnx.importer import Importer, import_graph
from minicc.frontends.onnx.model.checks import deprecated, forbidden
from minicc.frontends.onnx.model.facts import all_nodes, operator_of, opsets_of, raw_model
from minicc.frontends.onnx.model.reader import Model, Node, read_model
from minicc.frontends.onnx.model.sources import model_bytes
from minicc.frontends.onnx.needs import NeedsValueError
from minicc.frontends.onnx.nested import CONTROL
from minicc.frontends.onnx.registry import SEARCHES
from minicc.ir import graph
from minicc.ir.core import Module, Value
from minicc.ir.types import OPAQUE
from minicc.options import Options

# what a finding may be
FORBIDDEN, UNSUPPORTED, SIZES = "forbidden", "unsupported", "sizes"
HOST, DEPRECATED = "host", "deprecated"
_HOSTED, _UNKNOWN = "MC0227", "MC0220"
_COST = "it stops between two native stretches; compute it outside of the model if that is slow"


class Finding(NamedTuple):
    """One problem at one place; `operator` is "" and `opset` 0 where it is at no node."""

    kind: str
    code: str
    node: str
    operator: str
    opset: int
    message: str
    hint: str


class Report(NamedTuple):
    """What was found, and where each free dimension of the inputs stands."""

    findings: tuple[Finding, ...]
    free: Mapping[str, tuple[str, ...]]

    def count(self, kind: str) -> int:
        """How many findings there are of a kind."""
        return sum(f.kind == kind for f in self.findings)


class _Survey(Importer):
    """An import that goes on after a failure with the types that are declared or inferred."""

    def __init__(self, declared: Mapping[str, Any], *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._declared = declared
        self.operators: dict[str, str] = {}  # of all nodes that were met, by the nodes' names

    def node(self, node: Node) -> None:
        self.operators[node.name] = node.op
        super().node(node)

    def give_up(self, node: Node) -> None:
        """Go on without what a node computes, where its type is known."""
        super().give_up(node)
        known = {str(n): n for a in self.args for n in a.type.shape if not isinstance(n, int)}
        types = {n: self.types.read(self._declared.get(n), n, known) for n in node.outputs}
        if any(t.dtype is OPAQUE for t in types.values()):
            types |= self._inferred(node)
        for name, type in types.items():
            if name and type.dtype is not OPAQUE:
                self.values[name] = Value(type, name)
                self.failed.discard(name)

    def _inferred(self, node: Node) -> dict[str, Any]:
        """What ONNX's inference says of a node's outputs."""
        if node.op in {*CONTROL, *SEARCHES} or self.failed.intersection(node.uses):
            return {}
        versions = (self.model.opsets[""], self.model.opsets.get(node.op.rpartition(".")[0], 0))
        try:
            operands = [self.value(n, node.name) if n else None for n in node.inputs]
            with self.ctx.apart():
                made = emit_hosted(self.ctx, node, operands, {}, self.types, versions)
        except MiniccError:
            return {}
        return {n: r.type for n, r in zip(node.outputs, made, strict=False)}


def lint(source: str | os.PathLike[str] | bytes) -> Report:
    """All findings of a model, those that the specification forbids first.

    UserError where the file can't be read, or is no model at all.
    """
    data, _ = model_bytes(source)
    # a pipe is read once
    again = os.fspath(source) if not isinstance(source, bytes) and os.path.isfile(source) else None
    whole = bytes(data) if again is None else again
    proto = raw_model(whole)
    read, module, survey, problems = _imported(whole, proto)
    found = list(_of(problems))
    mistaken = {place for kind, error in found if kind == FORBIDDEN for place in error.where}
    # what the importer says of a mistake says what would work; the checker knows all operators
    checked = [e for e in forbidden(proto, whole) if mistaken.isdisjoint(e.where)]
    places = {place for error in checked for place in error.where}
    found = [(k, e) for k, e in found if e.code != _UNKNOWN or not places.issuperset(e.where)]
    found += [(FORBIDDEN, e) for e in checked]
    found += [(DEPRECATED, e) for e in deprecated(proto)]
    found += [(HOST, e) for e in _hosted(module, survey)]
    kinds = (FORBIDDEN, UNSUPPORTED, SIZES, HOST, DEPRECATED)
    found.sort(key=lambda pair: kinds.index(pair[0]))
    operators = {name: operator_of(node) for name, node in all_nodes(proto.graph)}
    operators |= survey.operators if survey else {}
    return Report(tuple(_findings(found, operators, proto)), _free(read))


def _imported(
    whole: str | bytes, proto: Any
) -> tuple[Model | None, Module | None, _Survey | None, Problems]:
    """The model as read and as imported, as far as that goes, the import, and what is wrong."""
    problems = Problems()
    made: list[_Survey] = []

    def make(*given: Any, **options: Any) -> _Survey:
        declared = {v.name: v.type for v in proto.graph.value_info}
        made.append(_Survey(declared, *given, **options))
        return made[-1]

    read: Model | None = None
    module: Module | None = None
    with problems.catch():
        read = read_model(whole)
        module = import_graph(read, make=make)
    return read, module, made[0] if made else None, problems


def _of(problems: Problems) -> Iterator[tuple[str, MiniccError]]:
    for error in problems:
        if isinstance(error, NeedsValueError):
            yield SIZES, error
        else:
            yield (UNSUPPORTED if isinstance(error, UnsupportedError) else FORBIDDEN), error


def _hosted(module: Module | None, survey: _Survey | None) -> Iterator[MiniccError]:
    """What the host runs, each op with why; of a model that is not imported, of the ops so far."""
    problems = Problems()
    with problems.catch():
        if module is None:
            ops = survey.ctx.builder.ops if survey else []
            told = [(op, why) for op in ops if (why := runs_on_host(op))]
        else:
            told = list(plan_parts(module, {}, Options().memory_limit).host)
        for op, why in told:
            text, hint = _reason(op) if isinstance(op, graph.Host) else (why, _COST)
            yield UnsupportedError(_HOSTED, text, hint=hint, where=op.loc)
    yield from problems


def _reason(op: graph.Host) -> tuple[str, str]:
    """Why the host runs a node, and what would change that."""
    if any(v.type.dtype is OPAQUE for v in (*op.operands, *op.results)):
        text = "it takes or gives what is no tensor of numbers of a known rank"
        return text, "if these are tensors, `onnx.shape_inference` may tell their ranks"
    if op.draws:
        return "it draws random numbers, others in each run", "set its attribute seed"
    if graph.bound_by(op):
        return "data decide the extents of what it gives", _COST
    if op.operator.partition(".")[2] in HOST_OPERATORS:
        return "it has no compiled form", _COST
    return "data decide what it is compiled for", "make that constants, where it is known"


def _findings(
    found: Iterable[tuple[str, MiniccError]], operators: Mapping[str, str], proto: Any
) -> Iterator[Finding]:
    """One finding for each place of each error."""
    opsets = opsets_of(proto)
    for kind, error in found:
        for place in error.where or ("",):
            operator = operators.get(place, "")
            opset = opsets.get(operator.rpartition(".")[0], 0) if operator else 0
            yield Finding(kind, error.code, place, operator, opset, error.message, error.hint)


def _free(read: Model | None) -> dict[str, tuple[str, ...]]:
    """Where each free dimension stands: inputs with the axis."""
    places: dict[str, tuple[str, ...]] = {}
    for name, type in read.inputs if read else ():
        for axis, extent in enumerate(() if type is None else type.shape):
            if not isinstance(extent, int):
                places[str(extent)] = (*places.get(str(extent), ()), f"{name}, axis {axis}")
    return places
