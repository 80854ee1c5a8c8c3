"""One part of a model: as many nodes as can be imported before something must be known or done.

Mirrors: torch.compile, which compiles up to a graph break and goes on behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from minicc.frontends.onnx.context import NeedsValueError
from minicc.frontends.onnx.importer import Importer
from minicc.frontends.onnx.reader import Model, Node
from minicc.ir.core import Array, Function, Module, Region, Value
from minicc.ir.types import TensorType


class Part(NamedTuple):
    """What could be imported, and why it ended.

    `module` (None where nothing is to be computed) takes the values called `inputs`, and gives
    those called `outputs`; `same` are names for values that are inputs, `known` contents that are
    known without running. `rest` are the nodes behind: the first of them wants the contents of
    `needs`, or runs on the host where that is empty.
    """

    module: Module | None
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    same: Mapping[str, str]
    known: Mapping[str, Array]
    rest: tuple[Node, ...]
    needs: tuple[str, ...]


def import_part(
    model: Model,
    nodes: Sequence[Node],
    types: Mapping[str, TensorType | None],
    known: Mapping[str, Array],
) -> Part:
    """The part that begins with the first of `nodes`, for inputs of these types.

    Raises what is wrong with a node, as `import_model` does.
    """
    importer = Importer(model, types, known)
    rest = list(nodes)
    needs: tuple[str, ...] = ()
    while rest:
        node = rest[0]
        if importer.looped(node):
            rest.pop(0)
            continue
        replaced = importer.replaced(node) if _has_inputs(importer, node) else None
        if replaced is not None:
            rest[:1] = replaced
            continue
        if node.op == "If":
            needs = (node.inputs[0],)
            break
        if importer.on_host(node):
            break
        try:
            importer.node(node)
        except NeedsValueError as error:
            needs = _names(importer, node, error)
            break
        rest.pop(0)
    return _part(importer, rest, needs, set(types))


def _has_inputs(importer: Importer, node: Node) -> bool:
    return not importer.untyped.intersection(node.inputs)


def _names(importer: Importer, node: Node, error: NeedsValueError) -> tuple[str, ...]:
    """The node's inputs whose contents it wants: all that are not known, where it can't be told."""
    operands = {name: importer.values[name] for name in node.inputs if name in importer.values}
    exact = tuple(name for name, v in operands.items() if v in error.values)
    if exact:
        return exact
    open_ones = {n: v for n, v in operands.items() if importer.ctx.array(v) is None}
    integers = tuple(n for n, v in open_ones.items() if not v.type.dtype.is_float)
    if not open_ones:
        raise error
    return integers or tuple(open_ones)


def _part(importer: Importer, rest: list[Node], needs: tuple[str, ...], given: set[str]) -> Part:
    """What was imported, with the values that are used behind it as its results."""
    wanted = dict.fromkeys(importer.model.outputs)
    for node in rest:
        wanted.update(dict.fromkeys(name for name in node.uses if name))
    args = {v: v.hint for v in importer.args}
    made: dict[str, Value] = {}
    same: dict[str, str] = {}
    known: dict[str, Array] = {}
    for name in wanted:
        value = importer.values.get(name)
        if value is None or name in given:
            continue
        array = importer.ctx.array(value)
        if array is not None:
            known[name] = array
        elif value in args:
            same[name] = args[value]
        else:
            made[name] = value
    if not made:
        return Part(None, (), (), same, known, tuple(rest), needs)
    ops = importer.ctx.builder.ops
    used = {v for op in ops for v in op.operands}
    inputs = [a for a in importer.args if a in used]
    importer.ctx.use(made.values())
    body = Region(inputs, ops, list(made.values()))
    module = Module("graph", [Function("main", body, result_names=list(made))])
    names = tuple(a.hint for a in inputs)
    return Part(module, names, tuple(made), same, known, tuple(rest), needs)
