"""From the nodes of a model to a module of the graph dialect.

Each node goes to the function that its operator has in the table; all that is wrong is gathered and
raised at once. Nodes that depend on one that failed are passed over, for what would be said of them
may not be true.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from minicc.errors import MiniccError, Problems, UnsupportedError, UserError, did_you_mean
from minicc.frontends.onnx.bound import (
    bind_inputs,
    bound_types,
    is_few_numbers,
    is_parameter,
    known_inputs,
    of_no_rank,
)
from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.families import enter, enter_all
from minicc.frontends.onnx.host.nodes import (
    ANYTHING,
    Types,
    complaint,
    emit_hosted,
    known_sequence,
    require_axes,
)
from minicc.frontends.onnx.host.registry import HOST, WHERE, gives_texts
from minicc.frontends.onnx.model.attributes import check_attributes, missing_part
from minicc.frontends.onnx.model.reader import DAMAGED, Model, Node, read_model
from minicc.frontends.onnx.needs import LIGHT, HostNodeError, NeedsValueError, describe
from minicc.frontends.onnx.nested import (
    CONTROL,
    TWINS,
    Written,
    branch,
    function_body,
    heads_demanded,
    versions_within,
)
from minicc.frontends.onnx.ops.loops import loop_outputs
from minicc.frontends.onnx.registry import OPERATORS, SEARCHES, Operator
from minicc.ir.affine import symbols
from minicc.ir.core import Array, Function, Module, Region, Value
from minicc.ir.graph.demands import lasting_demands
from minicc.ir.types import OPAQUE, TensorType
from minicc.wording import sizes_of

_STRING = 8  # TensorProto.DataType
_MOST_TAILS = 3  # Ifs within one another after which all that follows is imported in both branches


def import_model(source: str | os.PathLike[str] | bytes) -> Module:
    """The graph module of an ONNX model, given as a path or as its bytes.

    `main` takes the model's inputs, whose hints are their names, and has the outputs' names. Free
    dimensions are symbols. The location of an op is the name of the node that it computes for.
    Large constants may be views of the file, which must stay as it is while the module is used.

    Raises `UserError` for a file or a model that is wrong and `UnsupportedError` for one that
    minicc does not compile, with all problems of the model; see `reader` and `context` for codes.
    """
    return import_graph(read_model(source))


def import_graph(
    model: Model, binding: Mapping[str, int] | None = None, make: Callable[..., Any] | None = None
) -> Module:
    """The graph module of a model that has been read; like `import_model`.

    `binding` gives free dimensions their sizes before the import, which some nodes need, and
    inputs their contents, as `contents_of` does. `make` is a kind of `Importer`.
    """
    types = bound_types(model, binding or {})
    problems = Problems()
    for name, type in types.items():
        if type is None and model.element(name) is not None:
            problems.add(of_no_rank(name))
    known = known_inputs(types, binding or {})
    importer: Importer = (make or Importer)(model, types, known, hosting=True)
    outputs = importer.rest(model.nodes, problems)
    problems.check()
    body = Region(importer.args, importer.ctx.builder.ops, outputs)
    attrs = {
        "wants": tuple(sorted(importer.wants)),
        "decisive": tuple(sorted(importer.decisive)),
        "demands": (*importer.ctx.demands, *lasting_demands(Function("main", body))),
    }
    attrs = {name: value for name, value in attrs.items() if value}
    return Module("graph", [Function("main", body, attrs, model.outputs)])


def import_for(
    source: str | os.PathLike[str] | bytes,
    outputs: Sequence[str] | None,
    sizes: Sequence[tuple[str, int]],
    binding: Mapping[str, int],
    apart: bool = False,
    wrong: UserError | None = None,
) -> Module | None:
    """The graph for sizes that the graph for all does not fit; None where the model doesn't.

    `sizes` were bound ahead of the other import, too. Where the graph for all is `wrong` for these,
    MC0142 tells what they do not fit in the model.
    """
    model = read_model(source, outputs, apart=apart)
    if sizes:
        bind_inputs(model, dict(sizes))
    try:
        return import_graph(model, binding)
    except (UserError, UnsupportedError) as error:
        if wrong is None or isinstance(error, UnsupportedError):
            return None
        first = error.parts[0]
        text = f"the sizes {sizes_of(binding)} do not fit the model: {first.message}"
        raise UserError("MC0142", text, hint=wrong.hint, where=first.where) from error


def require_size_error(error: MiniccError) -> None:
    """Raise what is wrong with a model unless sizes of its free dimensions would settle it."""
    problems = Problems()
    for e in error.parts:
        if not isinstance(e, NeedsValueError):
            problems.add(e)
    problems.check()


class Importer:
    """One import: the values by their names, and those that failed.

    `types` are the inputs; one without a type only nodes on the host can use. `known` are values
    whose contents are known. With `hosting` nodes may run on the host.
    """

    def __init__(
        self,
        model: Model,
        types: Mapping[str, TensorType | None],
        known: Mapping[str, Array] | None = None,
        *,
        hosting: bool = False,
    ) -> None:
        self.model = model
        self.ctx = Context(model.opsets[""])
        self.args = [Value(type or ANYTHING, name) for name, type in types.items()]
        self.values: dict[str, Value] = {v.hint: v for v in self.args}
        self.makers: dict[str, Node] = {}  # the nodes by what they make, in order
        self.failed: set[str] = set()
        self.written: Written = {}
        # what follows an If, where it may be imported in both branches; what it gave then
        self.tail: Sequence[Node] | None = None
        self.ended: list[Value] | None = None
        self._tails = 0
        # sizes of inputs, and inputs, with which less would run on the host if they were known
        self.wants: set[str] = set()
        self.decisive: set[str] = set()
        extents = [n for v in self.args for n in v.type.shape]
        self.ctx.symbols.taken.update(*map(symbols, extents))
        self.ctx.hosting = hosting
        self.types = Types(self.ctx.symbols)
        self.types.protos = {v: model.declared[v.hint] for v in self.args if v.type is ANYTHING}
        for name, array in (known or {}).items():
            self.values[name] = self.ctx.constant(array)
            self.values[name].hint = name

    def rest(self, nodes: Sequence[Node], problems: Problems | None = None) -> list[Value]:
        """Import nodes up to the end of the model, and return its outputs.

        Errors are raised at once, unless they are to be gathered.
        """
        for k, node in enumerate(nodes):
            unlike = node.op == "If" and self.ctx.hosting and self._tails < _MOST_TAILS
            self.tail = nodes[k + 1 :] if unlike else None
            self._tails += unlike
            try:
                self.node(node)
            except MiniccError as error:
                if problems is None:
                    raise
                problems.add(error)
                self.give_up(node)
            finally:
                self._tails -= unlike
                self.tail = None
            ended, self.ended = self.ended, None
            if ended is not None:
                return ended
        found = Problems() if problems is None else problems
        outputs = self.outputs(found)
        if problems is None:
            found.check()
        return outputs

    def give_up(self, node: Node) -> None:
        """Go on without a node that failed."""
        self.failed.update(node.outputs)

    def node(self, node: Node) -> None:
        """Import one node, or what stands for it: a branch, or the body of its operator."""
        enter(node.op)
        for name in filter(None, node.outputs):
            self.makers.setdefault(name, node)
        if self.looped(node):
            return
        replaced = None if self.failed.intersection(node.uses) else self.replaced(node)
        if replaced is None:
            self._node(node)
            return
        tail, versions = self.tail, self.model.opsets
        self.model.opsets = {**versions, **versions_within(node)}
        try:
            for k, inner in enumerate(replaced):
                within = tail is not None and inner.op == "If"
                self.tail = [*replaced[k + 1 :], *(tail or ())] if within else None
                self.node(inner)
                if self.ended is not None:
                    break
        finally:
            self.model.opsets = versions

    def looped(self, node: Node) -> bool:
        """Import a Loop, Scan, If or search that the graph can hold; whether it is one."""
        control = node.op in CONTROL or node.op in SEARCHES
        if not control or self.failed.intersection(node.uses):
            return False
        with self._sound_numbers():
            made = (SEARCHES.get(node.op) or loop_outputs)(self, node)
        if made is not None:
            self._bind(node, made)
        return made is not None

    def replaced(self, node: Node) -> list[Node] | None:
        """The nodes that do the same: the branch that is known to run, a function's body."""
        try:
            return self._replaced(node)
        except (KeyError, IndexError, ValueError, AttributeError) as error:
            self.ctx.stand_at(node, (), self.model.opsets.get("", 0))
            raise self.ctx.wrong(f"its graph does not fit it ({error})") from error

    def _replaced(self, node: Node) -> list[Node] | None:
        if node.op == "If":
            if not any(node.inputs):
                raise ValueError("it has no condition")
            condition = self.ctx.array(self.value(node.inputs[0], node.name))
            if condition is not None and condition.size == 1:
                return branch(node, bool(condition.reshape(())), self.model, self.written)
        if node.op in OPERATORS or node.op in HOST:
            return None

        def types() -> list[Any]:
            return [self.types.proto(self.value(n, node.name) if n else None) for n in node.inputs]

        opset = self.model.opsets.get(node.op.rpartition(".")[0], 0)
        if node.op in TWINS:
            given = [self.value(name, node.name).type for name in node.inputs[:2]]
            if demanded := heads_demanded(node, given):
                self.ctx.stand_at(node, (), opset)
                self.ctx.demand(*demanded, "its keys have other heads than its values")
        return function_body(node, opset, types)

    def on_host(self, node: Node) -> bool:
        """Whether a node can't be compiled, by its operator or its inputs."""
        if node.op not in OPERATORS or gives_texts(node):
            return node.op in HOST
        values = [self.values.get(name) for name in node.inputs]
        opaque = any(v is not None and v.type.dtype is OPAQUE for v in values)
        if opaque or any(self._text(name) is not None for name in node.inputs):
            return True
        if node.op not in WHERE:
            return False
        if len(node.inputs) < OPERATORS[node.op].required or not all(node.inputs):
            return False  # what is missing is told of
        types = [self.value(n, node.name).type for n in node.inputs]
        try:
            return WHERE[node.op](node, types)
        except (TypeError, ValueError, IndexError):
            return False  # attributes of other kinds, which the import tells of

    def _node(self, node: Node) -> None:
        domain = node.op.rpartition(".")[0]
        opset = self.model.opsets.get(domain, 0)
        entry = OPERATORS.get(node.op)
        operands: list[Value | None] = []
        ready = not self.failed.intersection(node.uses)
        if ready and (self.on_host(node) or node.op in CONTROL):
            if self.ctx.hosting:
                self._host(node)
            else:
                self._bind(node, self._listed(node, opset))
            return
        if ready:
            self.ctx.stand_at(node, (), opset)
            operands = [self.value(name, node.name) if name else None for name in node.inputs]
            self.ctx.stand_at(node, operands, opset)
        held = entry is not None or (not ready and (node.op in HOST or node.op in SEARCHES))
        # ONNX's schemas take megabytes, and are asked last
        if not held and (ready or not _is_onnx(node.op, opset)):
            raise _unknown(node, opset, operands)
        if entry is None or not ready:
            self.failed.update(node.outputs)
            return
        self._check_parts(node, entry, operands)
        try:
            try:
                out = self._run(node, entry, operands)
            except UserError as error:
                raise self.ctx.undecided(error) from error
        except NeedsValueError as error:
            if not self._may_host(node, error):
                raise
            self._host(node)
        else:
            self._bind(node, out if isinstance(out, tuple) else (out,))

    def _listed(self, node: Node, opset: int) -> tuple[Value, ...]:
        """What a node reads or makes of known sequences; MC0227 for one that the host must run."""
        operands = [self.value(name, node.name) if name else None for name in node.inputs]
        self.ctx.stand_at(node, operands, opset)
        made = None if gives_texts(node) else known_sequence(self.ctx, node, operands, self.types)
        if made is None:
            text = f"{describe(node, opset)}: it runs on the host"
            raise HostNodeError("MC0227", text, where=node.name)
        return made

    def _may_host(self, node: Node, error: NeedsValueError) -> bool:
        """Whether the host may run a node that wants to know more than there is.

        It may where data decide that; where sizes of the inputs do, if the work is little.
        """
        if not self.ctx.hosting:
            return False
        names = set(error.names)
        for value in error.values:
            behind = self.ctx.sizes_behind(value)
            if behind is None:
                # a node asks for one value at a time; its other parameters it may ask for next
                others = (self.values.get(name) for name in node.inputs)
                near = [v for v in others if v is not None and is_parameter(v.type)]
                self.note_decisive(error.values, near)
                return True
            names |= behind
        if not names or not self.ctx.symbols.made.isdisjoint(names):
            return True
        self.wants |= names
        return node.op in LIGHT

    def note_decisive(self, values: Sequence[Value], near: Sequence[Value] = ()) -> None:
        """Note the inputs that values are computed from, and those near, if they are few numbers.

        With their contents known less would run on the host.
        """
        inputs = set[Value]().union(*map(self.ctx.inputs_behind, values))
        if all(v in self.args and is_few_numbers(v.type, "iufb") for v in inputs):
            inputs |= {v for v in near if v in self.args}
            self.decisive |= {v.hint for v in inputs}

    def _host(self, node: Node) -> None:
        """Leave a node to the host."""
        domain = node.op.rpartition(".")[0]
        texts = {k: t for k, n in enumerate(node.inputs) if (t := self._text(n)) is not None}
        operands = [
            self.value(n, node.name) if n and k not in texts else None
            for k, n in enumerate(node.inputs)
        ]
        given = [v for v in operands if v is not None]
        if node.op not in HOST and any(self.types.is_no_tensor(v) for v in given):
            raise UserError("MC0159", f"{node.op} of what is no tensor of numbers", where=node.name)
        versions = (self.model.opsets[""], self.model.opsets.get(domain, 0))
        check_attributes(node, versions[1])
        self.ctx.stand_at(node, operands, versions[1])
        if missing := missing_part(node, versions[1]):
            raise self.ctx.wrong(f"its {missing} is missing")
        self._bind(node, emit_hosted(self.ctx, node, operands, texts, self.types, versions))

    def _text(self, name: str) -> Any:
        """The protobuf tensor of an initialiser that holds texts."""
        found = None if name in self.values else self.model.initialisers.get(name)
        return found if getattr(found, "data_type", 0) == _STRING else None

    def _run(
        self, node: Node, entry: Operator, operands: list[Value | None]
    ) -> Value | tuple[Value, ...]:
        try:
            with self._sound_numbers():
                return entry.run(self.ctx, node, *_trimmed(operands, entry))
        except MiniccError:
            raise
        except Exception as error:
            check_attributes(node, self.ctx.opset)
            if text := complaint(self.ctx, node, operands, self.types, error):
                raise self.ctx.refused(text) from error
            raise self.ctx.bug(error) from error

    @contextmanager
    def _sound_numbers(self) -> Iterator[None]:
        """Complain of numbers that no sound model has, such as a block of 0 or a pad of 2**40."""
        try:
            with np.errstate(all="ignore"):  # what is too large for an element type is infinite
                yield
        except MemoryError:
            raise self.ctx.too_large() from None
        except (ArithmeticError, ValueError) as error:
            raise self.ctx.refused(str(error)) from error

    def _check_parts(self, node: Node, entry: Operator, operands: Sequence[Value | None]) -> None:
        strange = sorted(set(node.attributes) - entry.attributes)
        if strange:
            known = ", ".join(sorted(entry.attributes)) or "none"
            text = f"minicc does not know its attribute {', '.join(strange)}"
            raise self.ctx.unsupported(text, f"leave it out; those known are: {known}")
        for name, since in entry.needed:
            if name not in node.attributes and self.ctx.opset >= since:
                raise self.ctx.wrong(f"its attribute {name} is missing")
        given = len(operands)
        if given > len(entry.inputs) and not entry.variadic and any(operands[len(entry.inputs) :]):
            text = f"it takes at most {len(entry.inputs)} inputs, not {given}"
            raise self.ctx.wrong(text)
        for position, name in enumerate(entry.inputs[: entry.required]):
            missing = position >= given or operands[position] is None
            if missing and name not in entry.optional:
                raise self.ctx.wrong(f"its input {name} is missing")
        if entry.variadic and (not operands or None in operands):
            raise self.ctx.wrong("its inputs are missing")

    def _bind(self, node: Node, out: tuple[Value, ...]) -> None:
        for extra in filter(None, node.outputs[len(out) :]):
            hint = "leave that output out; it is only used in training"
            raise self.ctx.unsupported(f"its output {extra} is not computed", hint)
        self.ctx.finish(out)
        for name, value in zip(node.outputs, out, strict=False):
            if not name:
                continue
            value.hint = value.hint or name
            self.values[name] = value

    def value(self, name: str, where: str) -> Value:
        """The value of a name; an initialiser becomes a constant when it is first used."""
        found = self.values.get(name)
        if found is None and self.ctx.hosting and (words := self._text(name)) is not None:
            self._host(Node("Constant", name, (), (name,), {"value": words}))
            found = self.values[name]
        if found is None:
            if name not in self.model.initialisers:  # a graph within makes it later
                text = f"nothing makes the value {name.rpartition('/')[2]} before it is used"
                raise UserError("MC0130", text, hint=DAMAGED, where=where)
            found = self.ctx.constant(self.model.array(name, where))
            found.hint = name
            self.values[name] = found
        return found

    def outputs(self, problems: Problems) -> list[Value]:
        """The values of the model's outputs, but for those that failed."""
        outputs: list[Value] = []
        for name in self.model.outputs:
            if name in self.failed:
                continue
            try:
                self.ctx.stand_at(Node(f"the output {name}", name, (), (), {}), (), 0)
                found = self.value(name, name)
                require_axes(self.ctx, found.type.rank)
                outputs.append(found)
                self.ctx.use(outputs[-1:])
            except MiniccError as error:
                problems.add(error)
        return outputs


def _trimmed(operands: list[Value | None], entry: Operator) -> list[Value | None]:
    if entry.variadic:
        return operands
    left_out = [None] * (entry.required - len(operands))  # which may be: `_check_parts` has looked
    return [*operands, *left_out][: len(entry.inputs)]


def _unknown(node: Node, opset: int, operands: Sequence[Value | None]) -> MiniccError:
    types: dict[str, Any] = dict.fromkeys(str(v.type.dtype) for v in operands if v is not None)
    text = f"{describe(node, opset, list(types))}: minicc has no such operator"
    enter_all()
    hint = did_you_mean(node.op, OPERATORS, most=3, cutoff=0.8)
    if hint and not _is_onnx(node.op, opset) and not node.op.startswith("com.microsoft."):
        return UserError("MC0124", text, hint=hint, where=node.name)
    hint = "write it with other operators, or cut the model in front of it"
    return UnsupportedError("MC0220", text, hint=hint, where=node.name)


def _is_onnx(op: str, opset: int) -> bool:
    """Whether ONNX itself has the operator."""
    from onnx import defs

    return bool(defs.has(op, opset))
