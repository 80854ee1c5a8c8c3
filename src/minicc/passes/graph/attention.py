"""Find attentions: products that soft-max weighs, with scales, masks and guards in between.

    %s = contract %q, %k     %e = exp(%s - max(%s))     %y = contract (%e / sum(%e)), %v

Nobody else reads the scores or the weights of what is found, and it is float32 or float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import NamedTuple

import numpy as np

from minicc.ir import affine, graph
from minicc.ir.affine import Dim
from minicc.ir.core import Function, Op, Value
from minicc.ir.graph.elementwise import Elementwise
from minicc.ir.rewrite import Rebuilder
from minicc.ir.types import F32, F64

_MUCH = 16  # times as many elements as another tensor has


class Guard(NamedTuple):
    """Another number in the place of a value where that is equal to one: `choice` of `test`."""

    test: graph.Eq
    choice: graph.Select

    def around(self, b: Rebuilder, x: Value) -> Value:
        """The same of another value."""
        test = b.add(self.test.rebuilt([x, b.new(self.test.b)])).result
        return b.add(self.choice.rebuilt([test, b.new(self.choice.a), x])).result


class Attention(NamedTuple):
    """What is found of an attention.

    `path` leads from `product`, of queries and keys, to the scores, `top` is their maximum,
    `exponential` leads from both to the exponentials, `division` from these to the weights. What
    `weighing` has beside these, its operand `values`, are the values. `factors` are the operands of
    the product as they are before transposes, with their letters. `guards` are those of the maximum
    and of the sum. `masks` make what the path takes of much smaller tensors, as of the numbers of
    rows and keys; each block makes its own.
    """

    product: graph.Contract
    factors: tuple[tuple[Value, str], ...]
    path: tuple[Op, ...]
    top: graph.Reduce
    exponential: tuple[Op, ...]
    division: tuple[Op, ...]
    weighing: graph.Contract
    values: int
    guards: tuple[Guard | None, Guard | None]
    masks: tuple[Op, ...]

    @property
    def weights(self) -> Value:
        """The weights as the product has them."""
        return self.division[-1].result

    @property
    def keys(self) -> Dim:
        """How many keys there are."""
        extent: Dim = self.weights.type.shape[-1]
        return extent

    @property
    def inside(self) -> tuple[Op, ...]:
        """All ops that become others."""
        guards = [op for guard in self.guards if guard is not None for op in guard]
        return self.product, *self.path, self.top, *self.exponential, *self.division, *guards

    @property
    def hidden(self) -> graph.Select | None:
        """What makes the weights of whole rows 0."""
        return next((op for op in self.division if isinstance(op, graph.Select)), None)

    @property
    def key(self) -> str:
        """The letter that the product has for the keys."""
        return graph.parse_equation(self.product.equation)[2][-1]

    def terms(self) -> tuple[str, str, str]:
        """The letters of the weights and of the values, and of their product in that order."""
        terms = graph.parse_equation(self.weighing.equation)
        weights, values = terms[1 - self.values], terms[self.values]
        return weights, values, weights[:-1] + "".join(c for c in values if c not in weights)


def attentions(function: Function) -> Iterator[Attention]:
    """Those of a function's own region, in order."""
    makers = {r: op for op in function.body.ops for r in op.results}
    users: dict[Value, list[Op]] = {v: [] for v in function.body.yields}
    for op in function.body.ops:
        for v in op.operands:
            users.setdefault(v, []).append(op)
    read = set(function.body.yields)
    for op in function.body.ops:
        for values in (0, 1) if isinstance(op, graph.Contract) else ():
            found = _attention(op, values, makers)
            if found is None:
                continue
            own = {*found.inside, op}
            if all(i.result not in read and own.issuperset(users[i.result]) for i in found.inside):
                yield found


def _attention(op: Op, values: int, makers: Mapping[Value, Op]) -> Attention | None:
    assert isinstance(op, graph.Contract)
    divided = _division(op.operands[1 - values], makers)
    if divided is None:
        return None
    division, of_sum = divided
    exponential = _exponential(division[0].operands[0], makers)
    if exponential is None:
        return None
    path = _path(exponential[0].operands[0], makers)
    if path is None:
        return None
    product, *between = path
    assert isinstance(product, graph.Contract)
    terms = graph.parse_equation(product.equation)
    pairs = zip(product.operands, terms, strict=False)
    factors = tuple(graph.untransposed(v, term, makers) for v, term in pairs)
    top, of_top = _unguarded(exponential[0].operands[1], -np.inf, makers)
    assert isinstance(top, graph.Reduce)
    if top.result.type.dtype not in (F32, F64):
        return None
    path, guards = tuple(between), (of_top, of_sum)
    outer = dict.fromkeys(x for o in path for x in o.operands if x is not product.result)
    masks = tuple(dict.fromkeys(o for x in outer for o in _spread(x, makers)))
    found = Attention(product, factors, path, top, exponential, division, op, values, guards, masks)
    weights, of_values, out = found.terms()
    *_, result = graph.parse_equation(op.equation)
    fits = weights[-1] in of_values and sorted(out) == sorted(result)
    return found if fits and len(out) == len(weights) else None


def _division(v: Value, makers: Mapping[Value, Op]) -> tuple[tuple[Op, ...], Guard | None] | None:
    """The ops from exponentials to these over their sum along the last axis; the sum is first.

    And the sum's guard.
    """
    op = makers.get(v)
    if isinstance(op, graph.Reshape) and _keeps_last(op):
        before = _division(op.x, makers)
        return before and ((*before[0], op), before[1])
    if isinstance(op, graph.Select) and number_of(makers.get(op.a)) == 0.0:
        before = _division(op.b, makers) if op.condition.type.shape[-1:] == (1,) else None
        apart = before and not any(isinstance(o, graph.Reshape | graph.Select) for o in before[0])
        return ((*before[0], op), before[1]) if before and apart else None
    if isinstance(op, graph.Div):
        total, guard = _unguarded(op.b, 0.0, makers)
        found = total is not None and _is_reduced(total, op.a, "add")
        return ((total, op), guard) if total is not None and found else None
    if not isinstance(op, graph.Mul):
        return None
    for e, factor in ((op.a, op.b), (op.b, op.a)):
        inverse = makers.get(factor)
        if isinstance(inverse, graph.Div) and number_of(makers.get(inverse.a)) == 1.0:
            total, guard = _unguarded(inverse.b, 0.0, makers)
            if total is not None and _is_reduced(total, e, "add"):
                return (total, inverse, op), guard
    return None


def _unguarded(
    v: Value, number: float, makers: Mapping[Value, Op]
) -> tuple[Op | None, Guard | None]:
    """What makes a value, or what it is where that is not `number`; and the guard against that."""
    op = makers.get(v)
    if isinstance(op, graph.Select):
        test = makers.get(op.condition)
        if (
            isinstance(test, graph.Eq)
            and test.a is op.b
            and number_of(makers.get(test.b)) == number
            and number_of(makers.get(op.a)) is not None
        ):
            return makers.get(op.b), Guard(test, op)
    return op, None


def number_of(op: Op | None) -> float | None:
    """The one number that a constant is."""
    if isinstance(op, graph.Constant) and op.result.type.extents in ((), (1,)):
        return float(op.value.array.reshape(()))
    return None


def _is_reduced(op: Op | None, x: Value, *combine: str) -> bool:
    """Whether an op combines the last axis of a value in one of these ways, and keeps it."""
    if not isinstance(op, graph.Reduce) or op.x is not x:
        return False
    return bool(op.combine in combine and op.axes == (x.type.rank - 1,) and op.keepdims)


def _exponential(v: Value, makers: Mapping[Value, Op]) -> tuple[Op, ...] | None:
    """The ops from scores less their maximum to exponentials of them, times a positive factor."""
    op = makers.get(v)
    if not isinstance(op, graph.Exp | graph.Exp2Nonpositive):
        return None
    found: list[Op] = [op]
    scaled = makers.get(op.x)
    if isinstance(scaled, graph.Mul) and (number_of(makers.get(scaled.b)) or 0.0) > 0.0:
        found.append(scaled)
    lowered = makers.get(found[-1].operands[0])
    if not isinstance(lowered, graph.Sub):
        return None
    if not _is_reduced(_unguarded(lowered.b, -np.inf, makers)[0], lowered.a, "max", "maxnum"):
        return None
    return (lowered, *found[::-1])


def _path(v: Value, makers: Mapping[Value, Op]) -> tuple[Op, ...] | None:
    """The ops from a product with the keys to scores; None where there is no single one."""
    op = makers.get(v)
    if isinstance(op, graph.Contract):
        *terms, out = graph.parse_equation(op.equation)
        return (op,) if sum(out[-1:] in term for term in terms if out) == 1 else None
    if isinstance(op, graph.Reshape) and _keeps_last(op):
        before = _path(op.x, makers)
        return None if before is None else (*before, op)
    if not isinstance(op, Elementwise):
        return None
    short: tuple[tuple[Dim, ...], ...] = ((), (1,))
    long = [x for x in op.operands if x.type.shape[-1:] not in short]
    if any(x.type.shape[-1] != v.type.shape[-1] for x in long):
        return None
    ways = [way for x in dict.fromkeys(long) if (way := _path(x, makers)) is not None]
    return (*ways[0], op) if len(ways) == 1 else None


def _spread(v: Value, makers: Mapping[Value, Op]) -> tuple[Op, ...]:
    """The ops that make a value of much smaller ones, in order; none where that is not so."""
    op = makers.get(v)
    if not isinstance(op, Elementwise):
        return ()
    found: list[Op] = []
    for x in op.operands:
        if prod(typical_shape(x)) * _MUCH > prod(typical_shape(v)):
            before = _spread(x, makers)
            if not before:
                return ()
            found += before
    return (*found, op)


def _keeps_last(op: graph.Reshape) -> bool:
    """Whether a reshape leaves the last axis what it is."""
    old, new = op.x.type.shape, op.result.type.shape
    return bool(old and new and old[-1] == new[-1])


def typical_shape(v: Value) -> tuple[int, ...]:
    """A value's extents, with likely numbers for those that are free."""
    return tuple(map(affine.typical, v.type.shape))
