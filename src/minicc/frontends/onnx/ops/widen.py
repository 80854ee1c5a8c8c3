"""Operators of several steps compute in a wider type and round once, at the end."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.model.reader import Node
from minicc.ir.core import Value
from minicc.ir.types import BF16, F16, F32, F64


def wide_of(ctx: Context, x: Value) -> Value:
    """`x` in f32 where it has 16-bit floats."""
    return ctx.cast(x, F32) if x.type.dtype in (F16, BF16) else x


def widened(run: Callable[..., Value]) -> Callable[..., Value]:
    """Compute a function in f32 where its first tensor has 16-bit floats; others stay as given."""

    @wraps(run)
    def wide(ctx: Context, node: Node, x: Value, *rest: Any) -> Value:
        element = x.type.dtype
        if element in (F16, BF16):
            return ctx.cast(run(ctx, node, ctx.cast(x, F32), *rest), element)
        return run(ctx, node, x, *rest)

    return wide


def fractional(run: Callable[..., Value]) -> Callable[..., Value]:
    """Compute a function of integers in f64, and cut the fraction of its result off, as NumPy."""

    @wraps(run)
    def wide(ctx: Context, node: Node, x: Value, *rest: Any) -> Value:
        if x.type.dtype.is_integer:
            return ctx.cast(run(ctx, node, ctx.cast(x, F64), *rest), x.type.dtype)
        return run(ctx, node, x, *rest)

    return wide
