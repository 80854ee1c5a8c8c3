"""From the nodes of a model to a module of the graph dialect.

Each node goes to the function that its operator has in the table; all that is wrong is gathered and
raised at once. Nodes that depend on one that failed are passed over, for what would be said of them
may not be true.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from minicc.errors import MiniccError, Problems, UnsupportedError, UserError
from minicc.frontends.onnx import (
    host_choice,
    host_sequence,
    host_text,
    host_trees,
    ops_activation,
    ops_attention,
    ops_bits,
    ops_cast,
    ops_constant,
    ops_cumulative,
    ops_einsum,
    ops_elementwise,
    ops_indexing,
    ops_linear,
    ops_loss,
    ops_ml,
    ops_movement,
    ops_normalize,
    ops_pad,
    ops_quantize,
    ops_rearrange,
    ops_recurrent,
    ops_reduce,
    ops_refused,
    ops_regions,
    ops_resize,
    ops_sampling,
    ops_signal,
    ops_training,
    ops_transposed,
    ops_window,
)
from minicc.frontends.onnx.context import Context, HostNodeError, describe
from minicc.frontends.onnx.host import HOST
from minicc.frontends.onnx.loops import loop_outputs
from minicc.frontends.onnx.nested import (
    CONTROL,
    branch,
    function_body,
)
from minicc.frontends.onnx.reader import Model, Node, read_model
from minicc.frontends.onnx.registry import OPERATORS, Operator
from minicc.ir.affine import substitute
from minicc.ir.core import Array, Function, Module, Region, Value
from minicc.ir.types import TensorType

# Importing a family enters its operators into the table.
FAMILIES = (
    host_choice,
    host_sequence,
    host_text,
    host_trees,
    ops_activation,
    ops_attention,
    ops_bits,
    ops_cast,
    ops_constant,
    ops_cumulative,
    ops_einsum,
    ops_elementwise,
    ops_indexing,
    ops_linear,
    ops_loss,
    ops_ml,
    ops_movement,
    ops_normalize,
    ops_pad,
    ops_quantize,
    ops_rearrange,
    ops_recurrent,
    ops_reduce,
    ops_refused,
    ops_regions,
    ops_resize,
    ops_sampling,
    ops_signal,
    ops_training,
    ops_transposed,
    ops_window,
)


def import_model(source: str | os.PathLike[str] | bytes) -> Module:
    """The graph module of an ONNX model, given as a path or as its bytes.

    `main` takes the model's inputs, whose hints are their names, and has the outputs' names. Free
    dimensions are symbols. The location of an op is the name of the node that it computes for.
    Large constants may be views of the file, which must stay as it is while the module is used.

    Raises `UserError` for a file or a model that is wrong and `UnsupportedError` for one that
    minicc does not compile, with all problems of the model; see `reader` and `context` for codes.
    """
    return import_graph(read_model(source))


def import_graph(model: Model, binding: Mapping[str, int] | None = None) -> Module:
    """The graph module of a model that has been read; like `import_model`.

    `binding` gives free dimensions their sizes before the import, which some nodes need.
    """
    importer = Importer(model, bound_types(model, binding or {}))
    problems = Problems()
    for node in model.nodes:
        try:
            importer.node(node)
        except MiniccError as error:
            problems.add(error)
            importer.failed.update(node.outputs)
    outputs = importer.outputs(problems)
    problems.check()
    body = Region(importer.args, importer.ctx.builder.ops, outputs)
    return Module("graph", [Function("main", body, result_names=model.outputs)])


def import_for(
    source: str | os.PathLike[str] | bytes,
    outputs: Sequence[str] | None,
    sizes: Sequence[tuple[str, int]],
    binding: Mapping[str, int],
) -> Module | None:
    """The graph for sizes that the graph for all does not fit; None where the model doesn't.

    `sizes` were bound ahead of the other import, too.
    """
    model = read_model(source, outputs)
    if sizes:
        bind_inputs(model, dict(sizes))
    try:
        return import_graph(model, binding)
    except (UserError, UnsupportedError):
        return None


def bind_inputs(model: Model, sizes: dict[str, int]) -> None:
    """Write sizes in for free dimensions of a model's inputs; MC0168 where one is not there."""
    extents = [n for _, type in model.inputs if type is not None for n in type.shape]
    free = {name for n in extents if not isinstance(n, int) for name in n.symbols()}
    if unknown := sorted(set(sizes) - free):
        there = f"free dimensions: {', '.join(sorted(free))}" if free else "there is none"
        text = f"the model has no free dimension {', '.join(map(repr, unknown))}"
        raise UserError("MC0168", text, hint=there)
    model.inputs = list(bound_types(model, sizes).items())


def bound_types(model: Model, binding: Mapping[str, int]) -> dict[str, TensorType | None]:
    """The types of a model's inputs with these sizes of free dimensions; None of what has none."""
    types: dict[str, TensorType | None] = {}
    for name, type in model.inputs:
        if type is not None and binding:
            type = TensorType(type.dtype, tuple(substitute(n, binding) for n in type.shape))
        types[name] = type
    return types


class Importer:
    """One import: the values by their names, and those that failed.

    `types` are the inputs; one without a type only nodes on the host can use. `known` are values
    whose contents are known.
    """

    def __init__(
        self,
        model: Model,
        types: Mapping[str, TensorType | None],
        known: Mapping[str, Array] | None = None,
    ) -> None:
        self.model = model
        self.ctx = Context(model.opsets[""])
        self.args = [Value(type, name) for name, type in types.items() if type is not None]
        self.values: dict[str, Value] = {v.hint: v for v in self.args}
        self.untyped = {name for name, type in types.items() if type is None}
        self.failed: set[str] = set()
        for name, array in (known or {}).items():
            self.values[name] = self.ctx.constant(array)
            self.values[name].hint = name

    def node(self, node: Node) -> None:
        """Import one node, or what stands for it: a branch, or the body of its operator."""
        if self.looped(node):
            return
        replaced = None if self.failed.intersection(node.uses) else self.replaced(node)
        if replaced is not None:
            for inner in replaced:
                self.node(inner)
            return
        self._node(node)

    def looped(self, node: Node) -> bool:
        """Import a Loop, Scan or If that the graph can hold; whether it is one."""
        if node.op not in ("Loop", "Scan", "If") or (self.untyped | self.failed).intersection(
            node.uses
        ):
            return False
        made = loop_outputs(self, node)
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
            condition = self.ctx.array(self.value(node.inputs[0], node.name))
            if condition is not None and condition.size == 1:
                return branch(node, bool(condition.reshape(())), self.model)
        if node.op in OPERATORS or node.op in HOST or node.op in CONTROL:
            return None

        def types() -> list[TensorType | None]:
            return [self.value(n, node.name).type if n else None for n in node.inputs]

        return function_body(node, self.model.opsets.get(node.op.rpartition(".")[0], 0), types)

    def on_host(self, node: Node) -> bool:
        """Whether a node runs on the host: by its operator or its inputs."""
        if node.op in OPERATORS and not self.untyped.intersection(node.inputs):
            return False
        return node.op in HOST or node.op in CONTROL

    def _node(self, node: Node) -> None:
        domain = node.op.rpartition(".")[0]
        opset = self.model.opsets.get(domain, 0)
        entry = OPERATORS.get(node.op)
        operands: list[Value | None] = []
        ready = not self.failed.intersection(node.inputs)
        if self.on_host(node):
            what = "its condition is computed when the model runs"
            what = what if node.op == "If" else "it runs between compiled parts"
            text = f"{describe(node, opset)}: {what}"
            hint = "an InferenceSession runs it"
            raise HostNodeError("MC0227", text, hint=hint, where=node.name)
        if ready:
            self.ctx.stand_at(node, (), opset)
            operands = [self.value(name, node.name) if name else None for name in node.inputs]
            self.ctx.stand_at(node, operands, opset)
        if entry is None:
            raise _unknown(node, opset, operands)
        if not ready:
            self.failed.update(node.outputs)
            return
        self._check_parts(node, entry, operands)
        try:
            out = self._run(node, entry, operands)
        except UserError as error:
            raise self.ctx.undecided(error) from error
        self._bind(node, out if isinstance(out, tuple) else (out,))

    def _run(
        self, node: Node, entry: Operator, operands: list[Value | None]
    ) -> Value | tuple[Value, ...]:
        try:
            return entry.run(self.ctx, node, *_trimmed(operands, entry))
        except MiniccError:
            raise
        except MemoryError:
            raise self.ctx.too_large() from None
        except (ArithmeticError, ValueError) as error:
            # numbers that no sound model has, such as a block of 0 or a padding of 2**40
            raise self.ctx.refused(str(error)) from error
        except Exception as error:
            raise self.ctx.bug(error) from error

    def _check_parts(self, node: Node, entry: Operator, operands: Sequence[Value | None]) -> None:
        strange = sorted(set(node.attributes) - entry.attributes)
        if strange:
            known = ", ".join(sorted(entry.attributes)) or "none"
            text = f"minicc does not know its attribute {', '.join(strange)}"
            raise self.ctx.unsupported(text, f"leave it out; those known are: {known}")
        given = len(operands)
        if given > len(entry.inputs) and not entry.variadic and any(operands[len(entry.inputs) :]):
            text = f"it takes at most {len(entry.inputs)} inputs, not {given}"
            raise self.ctx.wrong(text)
        for position, name in enumerate(entry.inputs[: entry.required]):
            if position >= given or operands[position] is None:
                raise self.ctx.wrong(f"its input {name} is missing")
        if entry.variadic and (not operands or None in operands):
            raise self.ctx.wrong("its inputs are missing")

    def _bind(self, node: Node, out: tuple[Value, ...]) -> None:
        for extra in filter(None, node.outputs[len(out) :]):
            hint = "leave that output out; it is only used in training"
            raise self.ctx.unsupported(f"its output {extra} is not computed", hint)
        for name, value in zip(node.outputs, out, strict=False):
            if not name:
                continue
            value.hint = value.hint or name
            self.values[name] = value

    def value(self, name: str, where: str) -> Value:
        """The value of a name; an initialiser becomes a constant when it is first used."""
        found = self.values.get(name)
        if found is None:
            if name in self.untyped:
                text = f"the input {name} is no tensor of numbers of a known rank"
                hint = "give it a shape, or an operator that takes it"
                raise HostNodeError("MC0227", text, hint=hint, where=where)
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
                outputs.append(self.value(name, name))
                self.ctx.use(outputs[-1:])
            except MiniccError as error:
                problems.add(error)
        return outputs


def _trimmed(operands: list[Value | None], entry: Operator) -> list[Value | None]:
    return operands if entry.variadic else operands[: len(entry.inputs)]


def _unknown(node: Node, opset: int, operands: Sequence[Value | None]) -> MiniccError:
    types: dict[str, Any] = dict.fromkeys(str(v.type.dtype) for v in operands if v is not None)
    text = f"{describe(node, opset, list(types))}: minicc has no such operator"
    near = difflib.get_close_matches(node.op, OPERATORS, 3, 0.8)
    if near and not _is_onnx(node.op, opset):
        hint = f"did you mean {' or '.join(near)}?"
        return UserError("MC0124", text, hint=hint, where=node.name)
    hint = "write it with other operators, or cut the model in front of it"
    return UnsupportedError("MC0220", text, hint=hint, where=node.name)


def _is_onnx(op: str, opset: int) -> bool:
    """Whether ONNX itself has the operator."""
    from onnx import defs

    return bool(defs.has(op, opset))
