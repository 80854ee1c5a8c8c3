"""Arithmetic on shapes with free dimensions, held as arrays of `Dim` objects.

Mirrors: ONNX's symbolic shape inference (data propagation), Relax's shape expressions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minicc.ir import graph
from minicc.ir.affine import Dim, Expr, minimum
from minicc.ir.core import Array, Op


class _UnknownError(Exception):
    """The result depends on what the symbols are."""


def _divide(a: Dim, b: Dim) -> Dim:
    """Exact where a symbol is divided: extents are not negative, so `//` truncates as ONNX does."""
    if not isinstance(b, int) or b <= 0:
        quotient = ratio([a], [b])
        if quotient is None:
            raise _UnknownError
        return quotient
    return a // b if isinstance(a, Expr) or a >= 0 else -(-a // b)


def _equal(a: Dim, b: Dim) -> bool:
    gap = a - b
    if isinstance(gap, int):
        return gap == 0
    # symbols are extents: where none is subtracted, a sum is at least its constant
    if gap.const > 0 and all(c >= 0 for _, c in gap.terms):
        return False
    if gap.const < 0 and all(c <= 0 for _, c in gap.terms):
        return False
    raise _UnknownError


_MOVES = (graph.Reshape, graph.Transpose, graph.Broadcast, graph.Slice, graph.Concat, graph.Gather)
_ELEMENTWISE: dict[type[Op], Callable[..., Any]] = {
    graph.Add: operator.add,
    graph.Sub: operator.sub,
    graph.Mul: operator.mul,
    graph.Div: _divide,
    graph.Min: minimum,
    graph.Eq: _equal,
    graph.Select: lambda condition, a, b: a if condition else b,
}


def compute_dims(op: Op, args: Sequence[Any]) -> Array | None:
    """The result of an op on dimensions: of objects, or of booleans; None where it has none."""
    objects = [a if a.dtype == object else _objects(a) for a in args]
    if isinstance(op, _MOVES):
        if isinstance(op, graph.Gather):
            objects[1] = args[1]
        if any(a.dtype.kind not in "iO" for a in args):
            return None
        return np.asarray(op.evaluate(lambda r, a: (), *objects)[0], objects[0].dtype)
    if isinstance(op, graph.Cast):
        return objects[0] if op.result.type.dtype.is_integer else None
    function = _ELEMENTWISE.get(type(op))
    if function is None:
        return None
    try:
        out = np.frompyfunc(function, len(objects), 1)(*objects)
    except _UnknownError:
        return None
    return np.asarray(out, bool if isinstance(op, graph.Eq) else object)


def _objects(array: Array) -> Array:
    return np.array(array.tolist(), object).reshape(array.shape)


def ratio(above: Sequence[Dim], below: Sequence[Dim]) -> Dim | None:
    """The product of some dimensions by that of others; None where it is not known to be whole."""
    rest = list(above)
    divisor = 1
    for dim in below:
        if dim in rest:
            rest.remove(dim)
        elif isinstance(dim, int):
            divisor *= dim
        else:
            return None
    total: Dim = 1
    for dim in rest:
        total = total * dim
    if divisor == 1:
        return total
    if divisor == 0 or (isinstance(total, int) and total % divisor):
        return None
    return total // divisor
