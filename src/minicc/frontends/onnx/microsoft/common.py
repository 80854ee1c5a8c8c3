"""What the operators of ONNX Runtime's own domain share: its name, and ONNX's operators in them.

Most of them are several operators of ONNX in one, and are imported as these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.families import enter
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.registry import OPERATORS
from minicc.ir import graph
from minicc.ir.core import Value

DOMAIN = "com.microsoft"
# What ONNX's own operators mean inside those of this domain.
_OPSET = 22

# Activations by the names that fused operators give them, with the attributes that they read.
_ACTIVATIONS: dict[str, tuple[str, ...]] = {
    "Relu": (),
    "Tanh": (),
    "Sigmoid": (),
    "Softplus": (),
    "Softsign": (),
    "Gelu": (),
    "HardSwish": (),
    "Swish": ("alpha",),
    "LeakyRelu": ("alpha",),
    "Elu": ("alpha",),
    "Celu": ("alpha",),
    "ThresholdedRelu": ("alpha",),
    "Selu": ("alpha", "gamma"),
    "HardSigmoid": ("alpha", "beta"),
    "Clip": ("min", "max"),
}


def all_of(
    ctx: Context, node: Node, op: str, *operands: Value | None, **attributes: Any
) -> tuple[Value, ...]:
    """The outputs of one of ONNX's own operators, on behalf of a node."""
    inner = Node(op, node.name, (), ("out",), attributes)
    enter(op)
    with ctx.meaning(_OPSET, attributes):
        out = OPERATORS[op].run(ctx, inner, *operands)
    return out if isinstance(out, tuple) else (out,)


def standard(
    ctx: Context, node: Node, op: str, *operands: Value | None, **attributes: Any
) -> Value:
    """The first output of one of ONNX's own operators, on behalf of a node."""
    return all_of(ctx, node, op, *operands, **attributes)[0]


def activated(ctx: Context, node: Node, x: Value, name: str, parameters: dict[str, float]) -> Value:
    """`x` after the activation that a fused operator names; none where the name is empty."""
    if not name:
        return x
    known = _ACTIVATIONS.get(name)
    if known is None:
        raise ctx.unsupported(f"the activation {name}", f"use one of {', '.join(_ACTIVATIONS)}")
    given = {key: value for key, value in parameters.items() if key in known}
    if name != "Clip":
        return standard(ctx, node, name, x, **given)
    bounds = [ctx.scalar(given[key], x) if key in given else None for key in known]
    return standard(ctx, node, name, x, *bounds)


def activation_parameters(ctx: Context, node: Node, name: str) -> dict[str, float]:
    """The list `activation_params` of a node, by the names that the activation has for them."""
    given = node.numbers("activation_params")
    known = _ACTIVATIONS.get(name, ())
    if len(given) > len(known):
        raise ctx.wrong(
            f"attribute activation_params has {len(given)} entries for {name or 'none'}"
        )
    return dict(zip(known, given, strict=False))


def attributes_of(node: Node, names: str) -> dict[str, Any]:
    """Those of these attributes that a node has."""
    return {name: node.attributes[name] for name in names.split() if name in node.attributes}


def flag(node: Node, name: str, default: int = 0) -> bool:
    """An attribute that is 0 or not."""
    return bool(node.integer(name, default))


def add(ctx: Context, a: Value, *others: Value | None) -> Value:
    """The sum of those tensors that are there."""
    for b in others:
        a = a if b is None else ctx.emit(graph.Add, a, b)
    return a


def permuted(ctx: Context, x: Value, perm: Sequence[int]) -> Value:
    """`x` with its axes in another order; itself where that is their own."""
    order = tuple(perm)
    return x if order == tuple(range(x.type.rank)) else ctx.emit(graph.Transpose, x, perm=order)


def channels_first(ctx: Context, x: Value) -> Value:
    """[N, C, spatial...] of [N, spatial..., C]."""
    return permuted(ctx, x, (0, x.type.rank - 1, *range(1, x.type.rank - 1)))


def channels_last(ctx: Context, x: Value) -> Value:
    """[N, spatial..., C] of [N, C, spatial...]."""
    return permuted(ctx, x, (0, *range(2, x.type.rank), 1))


def single(ctx: Context, x: Value, what: str) -> Value:
    """A tensor of one element, as one of rank 0."""
    if any(n != 1 for n in x.type.shape):
        raise ctx.refused(f"its {what} has the type {x.type}, not one element")
    return ctx.reshape(x, ())
