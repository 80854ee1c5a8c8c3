"""Arithmetic on shapes by way of floats, as exporters compute new extents.

    sizes = Cast(Floor(Cast(Shape(x), float) * 1.5), int64)

Floats are held as expressions over dimensions (`reals`), of which an extent is the whole part. That
is a quotient of dimensions where these are scaled by a number of few digits: a product with an
extent is exact in float32, too, and its whole part is that of the quotient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from minicc.frontends.onnx.dims import MOVES, may_be_sizes, objects_of
from minicc.ir import graph
from minicc.ir.affine import Dim, ceildiv, whole
from minicc.ir.affine_facts import greater, natural, smaller
from minicc.ir.core import Array, Op
from minicc.ir.reals import CONVERSIONS, LEAVES, Part, Real, computed, whole_part
from minicc.ir.types import F32, F64, static_shape

# Factors and divisors of quotients have at most that size: ten bits, beside which fourteen are an
# extent's.
_LARGEST = 1 << 10
_KINDS: dict[type[Op], str] = {
    graph.Abs: "abs",
    graph.Add: "add",
    graph.Ceil: "ceil",
    graph.Div: "div",
    graph.Floor: "floor",
    graph.Max: "max",
    graph.Min: "min",
    graph.Mul: "mul",
    graph.Neg: "neg",
    graph.Round: "round",
    graph.Sqrt: "sqrt",
    graph.Sub: "sub",
}
_REDUCED = ("max", "min")  # in any order the same


def compute_floats(op: Op, args: Sequence[Array]) -> Array | None:
    """What a float op on dimensions, floats and constants gives; None where that is not known."""
    element = op.result.type.dtype
    if element not in (F32, F64) or not may_be_sizes(op, args):
        return None
    try:
        if isinstance(op, graph.Gather) and args[1].dtype == object:
            return None  # what is at a size that is not known
        if isinstance(op, MOVES):
            indices = args[1:] if isinstance(op, graph.Gather) else []
            moved = [objects_of(a) for a in args[: len(args) - len(indices)]]
            return np.asarray(op.evaluate(lambda r, a: (), *moved, *indices)[0], object)
        if isinstance(op, graph.Pow):
            return _root(op, args)
        if isinstance(op, graph.Reduce):
            return _reduced(op, objects_of(args[0]))
        if isinstance(op, graph.Cast):
            function: Callable[..., Any] = partial(_cast, op.x.type.dtype is F32, element is F64)
        elif type(op) in _KINDS:
            function = partial(_applied, _KINDS[type(op)], element.numpy.type)
        else:
            return None
        return np.asarray(np.frompyfunc(function, len(args), 1)(*map(objects_of, args)), object)
    except ValueError:
        return None


def _root(op: graph.Pow, args: Sequence[Array]) -> Array | None:
    """What is to the power of a half, the only one of which a size is known to be made."""
    base, power = args
    if power.dtype == object or set(power.ravel().tolist()) != {0.5}:
        return None
    root = np.frompyfunc(partial(_applied, "sqrt", op.result.type.dtype.numpy.type), 1, 1)
    return np.broadcast_to(
        np.asarray(root(objects_of(base)), object), static_shape(op.result.type.shape)
    )


def _reduced(op: graph.Reduce, out: Array) -> Array | None:
    if op.combine not in _REDUCED or not out.size:
        return None
    function = np.frompyfunc(partial(_applied, op.combine, op.result.type.dtype.numpy.type), 2, 1)
    for axis in sorted(op.axes, reverse=True):
        out = np.asarray(function.reduce(out, axis=axis, keepdims=op.keepdims), object)
    return out


def _cast(single: bool, wide: bool, value: Any) -> Part:
    """A dimension, or a float that is f32 if `single`, as f64 or f32."""
    if not isinstance(value, Real | float):
        return Real("f64" if wide else "f32", value)
    if single != wide:
        return value
    if isinstance(value, Real):
        return Real("widen" if wide else "narrow", value)
    return value if wide else float(np.float32(value))


def _applied(kind: str, element: Callable[[Any], Any], *parts: Part) -> Part:
    """A float, or a number where all are; ValueError of what is none."""
    if any(isinstance(p, Real) for p in parts):
        return Real(kind, *parts)
    return float(computed(kind, *map(element, parts)))


class _Quotient(NamedTuple):
    """A dimension by a small positive number."""

    above: Dim
    below: int

    def is_exact(self) -> bool:
        """Whether a float is that; else it is the nearest one, and its whole part the same."""
        return self.below & (self.below - 1) == 0


def whole_of(part: Part) -> Dim:
    """The whole part of a float."""
    if not isinstance(part, Real):
        return int(whole_part(part))
    if part.kind in _EXTREMES:
        return _EXTREMES[part.kind](*map(whole_of, part.args))
    found = _quotient_of(part)
    if found is not None and (found.below == 1 or natural(found.above)):
        return found.above // found.below
    return whole(part)


# the whole part of the smaller or greater of two floats is that of theirs
_EXTREMES: dict[str, Callable[[Dim, Dim], Dim]] = {"max": greater, "min": smaller}


def is_whole(part: Part) -> bool:
    """Whether a float is surely a whole number."""
    if not isinstance(part, Real):
        return float(part).is_integer()
    found = _quotient_of(part)
    return part.is_whole() or (found is not None and found.below == 1)


def _quotient_of(part: Part) -> _Quotient | None:
    """The quotient that a float is; None where it is none by a small number."""
    if not isinstance(part, Real):
        above, below = part.as_integer_ratio()
        return _small(above, below)
    if part.kind in LEAVES:
        return _small(part.args[0], 1)
    rule = _RULES.get(part.kind)
    if rule is None:
        return None
    found = [_quotient_of(a) for a in part.args]
    known = [q for q in found if q is not None and (q.is_exact() or part.is_whole())]
    return rule(*known) if len(known) == len(found) else None


def _small(above: Dim, below: int) -> _Quotient | None:
    number = above if isinstance(above, int) else 0
    fits = 0 < below <= _LARGEST and abs(number) <= _LARGEST * below
    return _Quotient(above, below) if fits else None


def _add(a: _Quotient, b: _Quotient) -> _Quotient | None:
    return _small(a.above * b.below + b.above * a.below, a.below * b.below)


def _sub(a: _Quotient, b: _Quotient) -> _Quotient | None:
    return _small(a.above * b.below - b.above * a.below, a.below * b.below)


def _mul(a: _Quotient, b: _Quotient) -> _Quotient | None:
    numbers = isinstance(a.above, int) or isinstance(b.above, int)
    return _small(a.above * b.above, a.below * b.below) if numbers else None


def _div(a: _Quotient, b: _Quotient) -> _Quotient | None:
    number = b.above
    return _small(a.above * b.below, a.below * number) if isinstance(number, int) else None


_RULES: dict[str, Callable[..., _Quotient | None]] = {
    "add": _add,
    "ceil": lambda a: _small(ceildiv(a.above, a.below), 1),
    "div": _div,
    "floor": lambda a: _small(a.above // a.below, 1),
    "mul": _mul,
    "sub": _sub,
    **dict.fromkeys(CONVERSIONS, lambda a: a),
}
