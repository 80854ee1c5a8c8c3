"""Arithmetic on shapes with free dimensions, held as arrays of `Dim` objects."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from minicc.ir import graph
from minicc.ir.affine import Compound, Dim, Expr, evaluate, floordiv, maximum, minimum, mod, sizes
from minicc.ir.affine_facts import at_least, exact_quotient, greater, smaller
from minicc.ir.core import Array, Op
from minicc.ir.graph import product
from minicc.ir.types import BOOL, DType

_NEAR = 8  # a size may be less than that, and seldom is
_WINDOW = 1 << 10  # a size from which the elements of a window were subtracted is seldom negative
_MOST_ATOMS = 64  # of an expression that a value is; more is no size of anything
_MOST_SIZES = 64  # of a value, as many as an array has axes; one with more is data
# sizes of inputs that are tried: that of the first, and from one to the next
_TRIED = ((1009, 13), (2048, 101), (517, 211))
_EVEN = ((1024, 64), (512, 192), (1280, 320))


class _UnknownError(Exception):
    """The result depends on what the symbols are."""


def _divide(demands: list[Dim] | None, a: Dim, b: Dim) -> Dim:
    """The quotient, truncated as ONNX's is where the dividend may be negative.

    One that only small sizes make negative, as that of a window's first element, is not.
    """
    if not isinstance(b, int) or b <= 0:
        quotient = ratio([a], [b])
        if quotient is not None:
            return quotient
        if demands is None or isinstance(b, int) or not (at_least(a, 0) and at_least(b, 0)):
            raise _UnknownError
        demands.append(b - 1)
        return floordiv(a, b)
    if at_least(a, 0):
        return a // b
    exact = exact_quotient(a, b)
    if exact is not None:
        return exact
    if demands is not None and at_least(a, -_WINDOW):
        demands.append(a)
        return a // b
    return maximum(a, 0) // b - maximum(-a, 0) // b


def _modulo(demands: list[Dim] | None, a: Dim, b: Dim) -> Dim:
    """The remainder with the divisor's sign; by a size it is one that is not near 0.

    The few sizes that are less fail the demand, and are imported for themselves.
    """
    if isinstance(b, int) and b > 0:
        return a % b
    if demands is None or isinstance(b, int) or not at_least(b, 0):
        raise _UnknownError
    if not isinstance(a, int):
        demands.append(b - 1)
        return mod(a, b)
    if abs(a) > _NEAR:
        raise _UnknownError
    demands.append(b + a if a < 0 else b - a - 1)
    return b + a if a < 0 else a


def _floor_divide(demands: list[Dim] | None, a: Dim, b: Dim) -> Dim:
    if isinstance(b, int) and (b > 0 or (b and isinstance(a, int))):
        return a // b
    return _divide(demands, a, b)


def _greater(demands: list[Dim] | None, a: Dim, b: Dim) -> Dim:
    """The greater of two: a number where the other is greater for sizes of 0 alone, if at all."""
    for other, number in ((a, b), (b, a)):
        if isinstance(number, int) and _is_above(demands, number, other):
            return number
    return greater(a, b)


def _smaller(demands: list[Dim] | None, a: Dim, b: Dim) -> Dim:
    """The smaller of two: a number where the other is smaller for sizes of 0 alone, if at all."""
    for other, number in ((a, b), (b, a)):
        if isinstance(number, int) and _is_above(demands, other, number):
            return number
    return smaller(a, b)


def _is_above(demands: list[Dim] | None, high: Dim, low: Dim) -> bool:
    """Whether one is no less than the other, which is demanded where it may be one less."""
    if at_least(high, low):
        return True
    if demands is None or not at_least(high - low, -1):
        return False
    demands.append(high - low)
    return True


def _less(a: Dim, b: Dim) -> Dim:
    """Whether one is less: a boolean, or where that can't be told what is 1 or 0 at all sizes."""
    if at_least(b, a + 1):
        return True
    if at_least(a, b):
        return False
    return minimum(maximum(b - a, 0), 1)


def _equal(a: Dim, b: Dim) -> Dim:
    gap = a - b
    if isinstance(gap, int):
        return gap == 0
    if at_least(a, b + 1) or at_least(b, a + 1):
        return False
    return 1 - minimum(maximum(gap, -gap), 1)


def _not(a: Dim) -> Dim:
    return not a if isinstance(a, int) else 1 - a


def _and(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int):
        a, b = b, a
    return (a if b else False) if isinstance(b, int) else a * b


def _or(a: Dim, b: Dim) -> Dim:
    return _not(_and(_not(a), _not(b)))


def _select(condition: Dim, a: Dim, b: Dim) -> Dim:
    if isinstance(condition, int):
        return a if condition else b
    return b + condition * (a - b)


MOVES = (
    graph.Reshape,
    graph.Transpose,
    graph.Broadcast,
    graph.Slice,
    graph.Concat,
    graph.Gather,
    graph.Pad,
)
_ELEMENTWISE: dict[type[Op], Callable[..., Any]] = {
    graph.Add: operator.add,
    graph.Sub: operator.sub,
    graph.Mul: operator.mul,
    graph.Neg: operator.neg,
    graph.Eq: _equal,
    graph.Ne: lambda a, b: _not(_equal(a, b)),
    graph.Lt: _less,
    graph.Le: lambda a, b: _not(_less(b, a)),
    graph.Select: _select,
}
_LOGICAL: dict[type[Op], Callable[..., Any]] = {graph.Not: _not, graph.And: _and, graph.Or: _or}
_REDUCED: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "mul": operator.mul,
    "min": minimum,
    "max": maximum,
}
_DEMANDING: dict[type[Op], Callable[..., Dim]] = {
    graph.Min: _smaller,
    graph.Max: _greater,
    graph.Div: _divide,
    graph.FloorDiv: _floor_divide,
    graph.Mod: _modulo,
}


def is_size(element: DType) -> bool:
    """Whether elements are taken to hold any size; narrower integers wrap, as no `Dim` does."""
    return element.is_integer and element.bits >= 32


def may_be_sizes(op: Op, args: Sequence[Array]) -> bool:
    """Whether what an op gives may be sizes: it is numbers, or has few elements."""
    shape = op.result.type.shape
    extents = [n for n in shape if isinstance(n, int)]
    if len(extents) < len(shape):  # how many there are is not known
        return False
    return prod(extents) <= _MOST_SIZES or all(a.dtype != object for a in args)


def compute_dims(op: Op, args: Sequence[Any], demands: list[Dim] | None) -> Array | None:
    """The result of an op on dimensions: of objects, or of booleans; None where it has none.

    Booleans that sizes decide are objects, too: dimensions that are 1 or 0.
    It is right where none of what is added to `demands` is negative; for all sizes without a list.
    """
    if not may_be_sizes(op, args):
        return None
    objects = [objects_of(a) for a in args]
    if isinstance(op, MOVES):
        if isinstance(op, graph.Gather):
            objects[1] = args[1]
            if args[1].dtype == object:  # what is at a size that is not known
                return None
        if any(a.dtype.kind not in "iO" for a in args):
            return None
        return np.asarray(op.evaluate(lambda r, a: (), *objects)[0], objects[0].dtype)
    if isinstance(op, graph.Cast):
        return objects[0] if is_size(op.result.type.dtype) else None
    try:
        out = _applied(op, objects, demands)
    except _UnknownError:
        return None
    if out is None or not all(map(_is_small, np.ravel(out))):
        return None
    free = any(isinstance(n, Expr) for n in np.ravel(out))
    return np.asarray(out, object if free or op.result.type.dtype is not BOOL else bool)


def _applied(op: Op, objects: Sequence[Any], demands: list[Dim] | None) -> Any:
    """What arithmetic of an op gives; None where it is none."""
    if isinstance(op, graph.Reduce):
        reduced, (out,) = _REDUCED.get(op.combine), objects
        if reduced is None or not out.size:
            return None
        for axis in sorted(op.axes, reverse=True):
            out = np.frompyfunc(reduced, 2, 1).reduce(out, axis=axis, keepdims=op.keepdims)
        return out
    demanding, function = _DEMANDING.get(type(op)), _ELEMENTWISE.get(type(op))
    if op.result.type.dtype is BOOL:
        function = function or _LOGICAL.get(type(op))
    if demanding is not None:
        function = partial(demanding, demands)
    return None if function is None else np.frompyfunc(function, len(objects), 1)(*objects)


def _is_small(value: Any) -> bool:
    """Whether a value is an integer that doesn't wrap, or an expression that can be worked with."""
    if isinstance(value, Expr):
        return sum(len(atoms) + 1 for atoms, _ in value.terms) <= _MOST_ATOMS
    return not isinstance(value, int) or -(1 << 63) <= value < 1 << 63


def objects_of(array: Array) -> Array:
    """The elements as Python's numbers, or the objects that they are."""
    return array if array.dtype == object else np.array(array.tolist(), object).reshape(array.shape)


def factors_of(extent: Dim) -> list[Dim]:
    """What an extent is the product of, beside a number; nothing of a sum."""
    if not isinstance(extent, Expr) or len(extent.terms) > 1 or extent.const:
        return []
    ((atoms, _),) = extent.terms
    return [Expr((((atom,), 1),), 0) for atom in atoms]


def likely_factor(one: Any, other: Any, same_place: bool, even: bool = False) -> int:
    """By what an extent has to be multiplied to be another for all sizes, as far as can be told.

    0 where it is no such factor. Both are computed of sizes of inputs alone, and the factor is the
    same for some numbers, which are multiples of 64 if `even`; it is 1 for two symbols that stand
    for the same axis of two shapes.
    """
    if not isinstance(one, Expr) or not isinstance(other, Expr) or sizes(one + other):
        return 0
    if one.is_atom() and other.is_atom():
        return int(same_place)
    names = sorted(one.symbols() | other.symbols())
    numbers = _EVEN if even else _TRIED
    tried = [{name: base + step * k for k, name in enumerate(names)} for base, step in numbers]
    pairs = [(evaluate(one, binding), evaluate(other, binding)) for binding in tried]
    factors = {b // a if a > 0 and b % a == 0 else 0 for a, b in pairs}
    return factors.pop() if len(factors) == 1 else 0


def undivided(extents: Sequence[Dim]) -> list[Dim]:
    """Extents of which those that are parts of another, beside their number, are that other."""
    out = list(extents)
    for k, n in enumerate(out):
        match n:
            case Expr(terms=(((Compound(kind="floordiv", args=(whole, number)),), 1),), const=0):
                if number in out:
                    out[out.index(number)], out[k] = 1, whole
    return out


def ratio(above: Sequence[Dim], below: Sequence[Dim]) -> Dim | None:
    """The product of some dimensions by that of others; None where it is not known to be whole."""
    rest = list(above)
    others: list[Dim] = []
    for dim in below:
        if dim in rest:
            rest.remove(dim)
        else:
            others.append(dim)
    total, divisor = product(tuple(rest)), product(tuple(others))
    quotient = exact_quotient(total, divisor)
    if quotient is not None or not isinstance(total, Expr):
        return quotient
    if isinstance(divisor, Expr) and len(divisor.terms) == 1 and not divisor.const:
        ((atoms, number),) = divisor.terms
        rest_of = exact_quotient(total, Expr(((atoms, 1),), 0))
        if rest_of is None:
            return None
        total, divisor = rest_of, number
    # which sizes fit is seen when they are bound
    return total // divisor if isinstance(divisor, int) and divisor > 0 else None
