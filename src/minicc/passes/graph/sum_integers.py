"""Sum the products of the integers that quantised floats stand for, and scale the sums.

    %x = mul(cast(%a), %s), %w = mul(cast(%b), %t)      %a, %b: i32 of few bits
    %y = graph.conv %x, %w
    -->   %y = mul(cast(graph.conv %a, %b), mul(%s, %t))

So models are written that dequantise the operands of each op and quantise its result (QDQ).

Legal where no scale varies along what is summed, and no sum of the integers wraps. Sums of integers
are exact, which those of floats are not, so strict mathematics keeps the floats. Profitable where
the target multiplies such integers several at a time (see `dot_words`). The pass stands before
constants are folded, which would make floats of the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np

from minicc.ir import graph
from minicc.ir.affine import Dim
from minicc.ir.core import Function, Literal, Module, Op, Value
from minicc.ir.rewrite import Rebuilder, everywhere, rebuild
from minicc.ir.types import F32, I32
from minicc.passes.graph.dot_words import Product, Range, Ranges, range_of, ranges_of, words_pay
from minicc.target import Target

_ZERO = Literal(np.zeros((), np.int32))
_MOVES = 8  # of a value between its scale and its product, which are looked through
Move = graph.Transpose | graph.Pad | graph.Reshape


class _Scaled(NamedTuple):
    """Floats that are integers times a scale, and were moved or had zeros put around since.

    The scale varies along some axes of what came of that.
    """

    integers: Value
    scale: Value
    varies: tuple[int, ...]
    moves: tuple[Move, ...] = ()

    def moved(self, b: Rebuilder) -> Value:
        """The integers in i32, moved as the floats were."""
        x = b.new(self.integers)
        if x.type.dtype is not I32:
            x = b.emit(graph.Cast, x, dtype=I32)
        for op in self.moves:
            if isinstance(op, graph.Pad):
                x = b.emit(graph.Pad, x, op.low, op.high, _ZERO)
            else:
                x = b.add(op.rebuilt([x])).result
        return x


Plan = tuple[_Scaled, _Scaled]


def sum_integers(module: Module, strict: bool, target: Target) -> Module:
    """Take the scales of quantised operands out of products, in every function."""
    if strict:
        return module
    made = [everywhere(f, lambda f: _apply(f, target)) for f in module.functions]
    return Module(module.level, made)


def _apply(function: Function, target: Target) -> Function:
    known = _Known(function.body.ops)
    plans: dict[Op, Plan] = {
        op: plan
        for op in function.body.ops
        if isinstance(op, Product) and (plan := _planned(op, known, target)) is not None
    }

    def visit(b: Rebuilder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        plan = plans.get(op)
        if plan is None:
            return None
        assert isinstance(op, Product)
        integers, scales = [], []
        for k, scaled in enumerate(plan):
            integers.append(scaled.moved(b))
            shape = _shape(op, k, scaled)
            scales.append(b.emit(graph.Reshape, b.new(scaled.scale), shape=shape))
        sums = b.emit(graph.Cast, b.add(op.rebuilt(integers)).result, dtype=F32)
        return (b.emit(graph.Mul, sums, b.emit(graph.Mul, *scales)),)

    return rebuild(function, visit) if plans else function


def _planned(op: Product, known: _Known, target: Target) -> Plan | None:
    """The operands of a product that may be one of integers, and takes less time then."""
    if op.result.type.dtype is not F32:
        return None
    a, b = (known.scaled(v) for v in op.operands)
    if a is None or b is None:
        return None
    ranges: list[Range] = []
    for k, scaled in enumerate((a, b)):
        if len(scaled.varies) > 1 or None in _axes(op, k, scaled):
            return None
        low, high = range_of(scaled.integers, known.ranges)
        ranges.append((min(low, 0), max(high, 0)))  # with what is put around it
    depth = _depth(op)
    most = prod(max(-low, high) for low, high in ranges)
    fits = isinstance(depth, int) and depth * most < 2**31
    return (a, b) if fits and words_pay(op, ranges, known.constants, target) else None


def _depth(op: Product) -> Any:
    """How many products are summed: a number, or an expression over sizes."""
    extents: Sequence[Dim] = op.operands[1].type.shape[1:]
    if isinstance(op, graph.Contract):
        left, _, out = graph.parse_equation(op.equation)
        extents = [n for n, x in zip(op.a.type.shape, left, strict=True) if x not in out]
    return prod(extents)


def _axes(op: Product, k: int, scaled: _Scaled) -> list[int | None]:
    """Where the axes along which an operand's scale varies are in the result; None where not."""
    if isinstance(op, graph.Conv):
        return [1 if k == 1 and n == 0 else None for n in scaled.varies]
    *letters, out = graph.parse_equation(op.equation)
    return [out.index(x) if (x := letters[k][n]) in out else None for n in scaled.varies]


def _shape(op: Product, k: int, scaled: _Scaled) -> tuple[Dim, ...]:
    """The shape in which an operand's scale broadcasts to the result."""
    axes, count = _axes(op, k, scaled), prod(scaled.scale.type.shape)
    return tuple(count if n in axes else 1 for n in range(op.result.type.rank))


class _Known:
    """What is known of the values of a function from the ops that make them."""

    def __init__(self, ops: Sequence[Op]) -> None:
        self.ops = ops
        self.made = {op.result: op for op in ops if len(op.results) == 1}

    @cached_property
    def ranges(self) -> Ranges:
        """Numbers between which integers are."""
        return ranges_of(self.ops)

    @cached_property
    def constants(self) -> set[Value]:
        """What depends on constants alone."""
        found: set[Value] = set()
        for op in self.ops:
            depends = op.operands and op.pure and found.issuperset(op.operands)
            if depends or isinstance(op, graph.Constant):
                found.update(op.results)
        return found

    def scaled(self, v: Value) -> _Scaled | None:
        """A value as integers times a scale; None where it is not."""
        moves: list[Move] = []
        op = self.made.get(v)
        while isinstance(op, Move) and len(moves) < _MOVES:
            moves.insert(0, op)
            op = self.made.get(op.x)
        found = self._product(op) if isinstance(op, graph.Mul) else None
        for move in moves:
            varies = _moved(found.varies, move) if found else None
            if found is None or varies is None:
                return None
            found = found._replace(varies=varies, moves=(*found.moves, move))
        return found

    def _product(self, op: graph.Mul) -> _Scaled | None:
        rank = op.result.type.rank
        for v, scale in (op.operands, op.operands[::-1]):
            cast = self.made.get(v)
            if not isinstance(cast, graph.Cast) or not cast.x.type.dtype.is_integer:
                continue
            if v.type.shape == op.result.type.shape:
                first = rank - scale.type.rank
                varies = [first + n for n, extent in enumerate(scale.type.shape) if extent != 1]
                return _Scaled(cast.x, scale, tuple(varies))
        return None


def _moved(varies: tuple[int, ...], op: Move) -> tuple[int, ...] | None:
    """The axes along which a scale varies after a move; None where there may be no scale then."""
    if isinstance(op, graph.Pad) and op.value.array.any():
        return None
    if isinstance(op, graph.Transpose):
        return tuple([op.perm.index(n) for n in varies])
    return None if varies else ()
