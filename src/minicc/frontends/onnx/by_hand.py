"""Operators of a user's domain that are kernels by hand.

    softmax.register("com.example.RowSoftmax")   -->   each such node is a `graph.kernel`

The attributes of a node are the kernel's constants. Where a kernel needs an extent to be a number,
the model's program is made for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from minicc.errors import UserError
from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.indexing import emit_all
from minicc.frontends.onnx.registry import OPERATORS, Operator
from minicc.ir import affine, graph
from minicc.ir.core import Value
from minicc.ir.types import TensorType


class Maker(Protocol):
    """What makes the attributes and the body of a `graph.kernel`."""

    constants: dict[str, Any]

    def parts(self, types: Sequence[TensorType], constants: Mapping[str, Any]) -> dict[str, Any]:
        """Those for inputs of these types."""


def enter_kernel(name: str, maker: Maker) -> None:
    """Have nodes of an operator be kernels by hand; the last one that is entered counts."""

    def run(ctx: Context, node: Node, *xs: Value) -> tuple[Value, ...]:
        types = [v.type for v in xs]
        try:
            parts = maker.parts(types, node.attributes)
        except UserError as error:
            free = [n for t in types for n in t.shape if affine.symbols(n)]
            if free:
                raise ctx.free(free) from error
            where, text = (node.name, *error.where), f"{node.op}: {error.message}"
            raise UserError(error.code, text, hint=error.hint, where=where) from None
        return emit_all(ctx, graph.Kernel, xs, **parts)

    OPERATORS[name] = Operator(run, frozenset(maker.constants))
