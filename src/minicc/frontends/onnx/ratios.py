"""Arithmetic on shapes by way of floats: quotients of dimensions by small numbers, known exactly.

    sizes = Cast(Floor(Cast(Shape(x), float) * 1.5), int64)

Exporters compute new extents so. A factor has few digits here, such that a product with an extent
is exact in float32, too, and its whole part is that of the quotient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minicc.frontends.onnx.dims import MOVES
from minicc.ir import graph
from minicc.ir.affine import Dim, ceildiv
from minicc.ir.affine_facts import natural
from minicc.ir.core import Array, Op
from minicc.ir.types import F32, F64

# Factors and divisors have at most that size: ten bits, beside which fourteen are an extent's.
_LARGEST = 1 << 10


class _UnknownError(Exception):
    """The result is no quotient by a small number."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """A dimension by a small positive number."""

    above: Dim
    below: int

    def floor(self) -> Dim:
        """The greatest whole number that is no greater."""
        return self.above // self.below

    def is_floored(self) -> bool:
        """Whether that is surely what a cast gives, which cuts off."""
        return self.below == 1 or natural(self.above)


def _ratio(above: Dim, below: int) -> Ratio:
    small = above if isinstance(above, int) else 0
    if not 0 < below <= _LARGEST or abs(small) > _LARGEST * below:
        raise _UnknownError
    return Ratio(above, below)


def _add(a: Ratio, b: Ratio) -> Ratio:
    return _ratio(a.above * b.below + b.above * a.below, a.below * b.below)


def _sub(a: Ratio, b: Ratio) -> Ratio:
    return _ratio(a.above * b.below - b.above * a.below, a.below * b.below)


def _mul(a: Ratio, b: Ratio) -> Ratio:
    if not isinstance(a.above, int) and not isinstance(b.above, int):
        raise _UnknownError
    return _ratio(a.above * b.above, a.below * b.below)


def _div(a: Ratio, b: Ratio) -> Ratio:
    if not isinstance(b.above, int):
        raise _UnknownError
    return _ratio(a.above * b.below, a.below * b.above)


_ELEMENTWISE: dict[type[Op], Callable[..., Ratio]] = {
    graph.Add: _add,
    graph.Sub: _sub,
    graph.Mul: _mul,
    graph.Div: _div,
    graph.Floor: lambda a: Ratio(a.floor(), 1),
    graph.Ceil: lambda a: Ratio(ceildiv(a.above, a.below), 1),
    graph.Cast: lambda a: a,
}


def compute_ratios(op: Op, args: Sequence[Any]) -> Array | None:
    """What a float op on dimensions, ratios and constants gives; None where that is not known."""
    if op.result.type.dtype not in (F32, F64):
        return None
    try:
        if isinstance(op, MOVES):
            indices = args[1:] if isinstance(op, graph.Gather) else []
            moved = [_ratios(a) for a in args[: len(args) - len(indices)]]
            return np.asarray(op.evaluate(lambda r, a: (), *moved, *indices)[0], object)
        function = _ELEMENTWISE.get(type(op))
        if function is None:
            return None
        objects = [_ratios(a) for a in args]
        return np.asarray(np.frompyfunc(function, len(objects), 1)(*objects), object)
    except _UnknownError:
        return None


def _ratios(array: Array) -> Array:
    return np.asarray(np.frompyfunc(_ratio_of, 1, 1)(array), object)


def _ratio_of(value: Any) -> Ratio:
    if isinstance(value, Ratio):
        return value
    if isinstance(value, float | np.floating):
        above, below = float(value).as_integer_ratio() if np.isfinite(value) else (0, 0)
        return _ratio(above, below)
    return Ratio(value, 1)
