"""Gradients: the nodes between named values are imported again, and differentiated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from minicc.errors import UnsupportedError
from minicc.frontends.onnx.bodies import Importing
from minicc.frontends.onnx.captures import GRADIENT
from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.registry import search
from minicc.ir import graph
from minicc.ir.affine import symbol
from minicc.ir.core import Value
from minicc.ir.types import OPAQUE
from minicc.library.gradient import gradients
from minicc.library.gradient_elements import NoDerivativeError

_HINT = "export the gradients as a graph of their own"


@search(GRADIENT)
def gradient(importer: Importing, node: Node) -> tuple[Value, ...]:
    """The derivatives of the sum of y's elements by each of xs, at the values that are given.

    The inputs stand for what xs and zs name. What y is made of besides is as it is in the model.
    """
    ctx = importer.ctx
    opset = importer.model.opsets.get(GRADIENT.rpartition(".")[0], 0)
    given = [importer.value(name, node.name) for name in node.inputs if name]
    ctx.stand_at(node, given, opset)
    y, count = node.text("y", ""), len(node.texts("xs"))
    names = node.captures[: count + len(node.texts("zs"))]
    if not all((y, *names)) or not count or not len(given) == len(names) == len(set(names)):
        raise ctx.wrong(f"y = {y!r} of {', '.join(names)}, which it takes as {len(given)} inputs")
    y = node.captures[-1]  # as it is called where the node stands
    for name, value in zip(names[:count], given, strict=False):
        _require_floats(ctx, name, value)
    # as values of their own, whose contents are not known: else nothing would be left of them
    xs = [ctx.emit_late(graph.Reshape, v, shape=v.type.shape) for v in given[:count]]
    start = len(ctx.builder.ops)
    with _named(importer, dict(zip(names, [*xs, *given[count:]], strict=True))) as sizes:
        for inner in _between(importer.makers, names, y):
            importer.node(inner)
        result = importer.value(y, node.name)
    ctx.stand_at(node, given, opset)
    try:
        _require_floats(ctx, y, result)
        ctx.use([result])
        return tuple(gradients(ctx.builder, ctx.builder.ops[start:], result, xs))
    except (NoDerivativeError, UnsupportedError) as error:
        if sizes:
            raise ctx.free([symbol(name) for name in sizes], "a derivative") from None
        if isinstance(error, UnsupportedError):
            raise
        text = f"minicc knows no derivative of {error.op.opname}, which {error.op.loc[-1]} needs"
        raise ctx.unsupported(text, _HINT) from None


def _require_floats(ctx: Context, name: str, value: Value) -> None:
    if value.type.dtype is OPAQUE:
        text = f"what makes {name} runs on the host, which has no derivatives"
        raise ctx.unsupported(text, _HINT)
    if value.type.dtype.kind != "f":
        raise ctx.wrong(f"{name} is {value.type}, which can't be differentiated")


@contextmanager
def _named(importer: Importing, values: Mapping[str, Value]) -> Iterator[set[str]]:
    """Let names mean other values, and forget what is computed of these after that.

    Gives the sizes with which less of it would run on the host, if they were known.
    """
    before, wants = dict(importer.values), importer.wants
    importer.values.update(values)
    sizes: set[str] = set()
    importer.wants = sizes
    try:
        yield sizes
    finally:
        importer.values.clear()
        importer.values.update(before)
        wants |= sizes
        importer.wants = wants


def _between(makers: Mapping[str, Node], names: Sequence[str], y: str) -> list[Node]:
    """The nodes that compute y of the named values, in order."""
    changed = set(names)
    nodes: dict[str, Node] = {}
    for name, node in makers.items():
        if name not in names and not changed.isdisjoint(node.uses):
            changed.add(name)
            nodes[name] = node
    wanted = {y} - set(names)
    found: dict[int, Node] = {}
    for name, node in reversed(nodes.items()):
        if name in wanted:
            wanted.update(n for n in node.uses if n not in names)
            found[id(node)] = node
    return list(found.values())[::-1]
