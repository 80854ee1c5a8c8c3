"""From the nodes of a model to a module of the graph dialect.

Each node goes to the function that its operator has in the table; all that is wrong is gathered and
raised at once. Nodes that depend on one that failed are passed over, for what would be said of them
may not be true.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from typing import Any

from minicc.errors import MiniccError, Problems, UnsupportedError, UserError
from minicc.frontends.onnx import (
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
from minicc.frontends.onnx.context import Context, describe
from minicc.frontends.onnx.reader import Model, Node, array_of, read_model
from minicc.frontends.onnx.registry import OPERATORS, Operator
from minicc.ir.core import Function, Module, Region, Value

# Importing a family enters its operators into the table.
FAMILIES = (
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

    Raises `UserError` for a file or a model that is wrong and `UnsupportedError` for one that
    minicc does not compile, with all problems of the model; see `reader` and `context` for codes.
    """
    return _Import(read_model(source)).module()


class _Import:
    """One import: the values by their names, those that failed, and the problems."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.ctx = Context(model.opsets[""])
        self.problems = Problems()
        self.args = [Value(type, name) for name, type in model.inputs]
        self.values: dict[str, Value] = {v.hint: v for v in self.args}
        self.failed: set[str] = set()

    def module(self) -> Module:
        for node in self.model.nodes:
            try:
                self._node(node)
            except MiniccError as error:
                self.problems.add(error)
                self.failed.update(node.outputs)
        outputs = self._outputs()
        self.problems.check()
        body = Region(self.args, self.ctx.builder.ops, outputs)
        return Module("graph", [Function("main", body, result_names=self.model.outputs)])

    def _node(self, node: Node) -> None:
        domain = node.op.rpartition(".")[0]
        opset = self.model.opsets.get(domain, 0)
        entry = OPERATORS.get(node.op)
        operands: list[Value | None] = []
        ready = not self.failed.intersection(node.inputs)
        if ready:
            self.ctx.stand_at(node, (), opset)
            operands = [self._value(name, node.name) if name else None for name in node.inputs]
            self.ctx.stand_at(node, operands, opset)
        if entry is None:
            raise _unknown(node, opset, operands)
        if not ready:
            self.failed.update(node.outputs)
            return
        self._check_parts(node, entry, operands)
        try:
            out = entry.run(self.ctx, node, *_trimmed(operands, entry))
        except MiniccError:
            raise
        except (ArithmeticError, MemoryError, ValueError) as error:
            # numbers that no sound model has, such as a block of 0 or a padding of 2**40
            raise self.ctx.refused(str(error)) from error
        except Exception as error:
            raise self.ctx.bug(error) from error
        self._bind(node, out if isinstance(out, tuple) else (out,))

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

    def _value(self, name: str, where: str) -> Value:
        """The value of a name; an initialiser becomes a constant when it is first used."""
        found = self.values.get(name)
        if found is None:
            found = self.ctx.constant(array_of(self.model.initialisers[name], where))
            found.hint = name
            self.values[name] = found
        return found

    def _outputs(self) -> list[Value]:
        outputs: list[Value] = []
        for name in self.model.outputs:
            if name in self.failed:
                continue
            try:
                self.ctx.stand_at(Node(f"the output {name}", name, (), (), {}), (), 0)
                outputs.append(self._value(name, name))
                self.ctx.use(outputs[-1:])
            except MiniccError as error:
                self.problems.add(error)
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
