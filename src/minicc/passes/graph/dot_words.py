"""Multiply small integers several at a time, as words, where the target has instructions for it.

    %y = contract %a, %b "mk,kn->mn"      i32, all of it between -255 and 255
    -->   %y = contract words(%a), words(%b) "mk,kn->mn" {form = "i16"}

A word has elements that lie a half, or a quarter, of the depth apart, so that each part of it is
read as it lies. Legal where what the operands hold fits the form, which is found from conversions
and constants; sums that wrap have no order, so no bit changes. Where the depth does not divide,
zeros end the last words. Profitable by a count: multiply-adds that are saved against elements that
are put into words.

A zero point that would need a bit more is left out of the words, and its products are taken off
the sums: (a - z) b is a b - z b, of which the last is known for weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from math import prod
from typing import NamedTuple

import numpy as np

from minicc.ir import graph
from minicc.ir.affine import typical
from minicc.ir.core import Function, Literal, Op, Value
from minicc.ir.rewrite import Rebuilder, rebuild
from minicc.ir.types import I32, DType
from minicc.ir.words import FORMS
from minicc.target import Target

_PACKED = 8.0  # multiply-adds in the time that one element is put into its word
_WASTE = 1.4  # times the depth that zeros may make of it
_NEAR = 8  # conversions and sums that are computed for each part of a word
_SAME = (graph.Transpose, graph.Reshape, graph.Slice, graph.Broadcast)

Product = graph.Contract | graph.Conv
Makers = Mapping[Value, Op]
Range = tuple[int, int]
Ranges = Mapping[Value, Range]


class _Plan(NamedTuple):
    """The form of a product's words, and whether its second operand is the form's lhs.

    `less` is what takes a zero point off its first operand, where that is done to the sums.
    """

    form: str
    swapped: bool = False
    less: graph.Sub | None = None


def apply_words(function: Function, target: Target) -> Function:
    """Each product that pays, in words."""
    ops = function.body.ops
    products = [op for op in ops if isinstance(op, Product) and op.result.type.dtype is I32]
    if not products:
        return function
    made, ranges = {op.result: op for op in ops if len(op.results) == 1}, ranges_of(ops)
    plans: dict[Op, _Plan] = {
        op: p for op in products if (p := _planned(op, made, ranges, target)) is not None
    }

    def visit(b: Rebuilder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        plan = plans.get(op)
        if plan is None:
            return None
        assert isinstance(op, Product)
        kinds = FORMS[plan.form][:: -1 if plan.swapped else 1]
        words = [
            _Words(b, made, kind, plan.less).of(v, axis)
            for v, axis, kind in zip(op.operands, _axes(op), kinds, strict=True)
        ]
        out = b.add(op.rebuilt(words, form=plan.form, swapped=plan.swapped)).result
        if plan.less is not None:
            sums = _sums(b, op, operands[1])
            zero = b.emit(graph.Reshape, b.new(plan.less.b), shape=())
            out = b.emit(graph.Sub, out, b.emit(graph.Mul, zero, sums))
        return (out,)

    return rebuild(function, visit) if plans else function


def _planned(op: Product, made: Makers, ranges: Ranges, target: Target) -> _Plan | None:
    known = {v for v in op.operands if isinstance(made.get(v), graph.Constant)}
    forms = tuple(_profitable(op, known, target))
    less = _zero_point(op, made) if forms else None
    lhs, rhs = (range_of(v, ranges) for v in op.operands)
    for form in forms:
        kinds = FORMS[form]
        for swapped in (False, True):
            if all(map(_fits, (lhs, rhs), kinds[:: -1 if swapped else 1])):
                return _Plan(form, swapped)
        bytes_ = () if less is None else [range_of(v, ranges) for v in less.operands]
        if bytes_ and all(map(_fits, (rhs, *bytes_), (kinds.rhs, kinds.lhs, kinds.lhs))):
            return _Plan(form, less=less)
    return None


def words_pay(op: Product, ranges: Sequence[Range], known: Set[Value], target: Target) -> bool:
    """Whether a product like this one, of integers in such ranges, would be one of words.

    `known` are values that depend on constants alone, whose words are made when compiling.
    """
    forms = [FORMS[form] for form in _profitable(op, known, target)]
    return any(all(map(_fits, ranges, kinds[::order])) for kinds in forms for order in (1, -1))


def _profitable(op: Product, known: Set[Value], target: Target) -> Iterator[str]:
    """The forms in which a product would take less time, were its operands to fit them."""
    axes = _axes(op)
    if op.form or not axes or (isinstance(op, graph.Conv) and (op.groups, op.parts) != (1, 1)):
        return
    depths = [v.type.shape[axis] for v, axis in zip(op.operands, axes, strict=True)]
    for form in target.dots:
        parts = FORMS[form].parts
        filled = all(isinstance(n, int) and -n % parts <= n * (_WASTE - 1) for n in depths)
        if filled and _profits(op, known, parts):
            yield form


def _zero_point(op: Product, made: Makers) -> graph.Sub | None:
    """What takes a scalar off all of a product's first operand, where the second one is known.

    Where zeros are put around that, they will be the scalar, which must be known then.
    """
    maker, axis, padded = made.get(op.operands[0]), _axes(op)[0], False
    while isinstance(maker, graph.Transpose | graph.Pad):
        if isinstance(maker, graph.Transpose):
            axis = maker.perm[axis]
        elif not _pads_zeros(maker, axis):
            return None
        padded |= isinstance(maker, graph.Pad)
        maker = made.get(maker.x)
    if not isinstance(maker, graph.Sub) or maker.a.type.shape != maker.result.type.shape:
        return None
    one = all(n == 1 for n in maker.b.type.shape)
    known = isinstance(made.get(maker.b), graph.Constant) or not padded
    weights = isinstance(made.get(op.operands[1]), graph.Constant)
    return maker if one and known and weights else None


def _sums(b: Rebuilder, op: Product, rhs: Value) -> Value:
    """The sums of the second operand over what a product sums, as they broadcast to its result."""
    if isinstance(op, graph.Conv):
        sums = b.emit(graph.Reduce, rhs, tuple(range(1, rhs.type.rank)), "add")
        ones = () if op.layout == "channels_last" else (1,) * len(op.strides)
        return b.emit(graph.Reshape, sums, shape=(*sums.type.shape, *ones))
    _, letters, out = graph.parse_equation(op.equation)
    axes = tuple(k for k, letter in enumerate(letters) if letter not in out)
    left = [letter for letter in letters if letter in out]
    sums = b.emit(graph.Reduce, rhs, axes, "add")
    order = sorted(left, key=out.index)
    turned = b.emit(graph.Transpose, sums, tuple(map(left.index, order)))
    extents = dict(zip(order, turned.type.shape, strict=True))
    return b.emit(graph.Reshape, turned, shape=tuple(extents.get(letter, 1) for letter in out))


def _axes(op: Product) -> tuple[int, ...]:
    """The axis of each operand along which words are made; none where nothing is summed."""
    if isinstance(op, graph.Conv):
        return (op.x.type.rank - 1 if op.layout == "channels_last" else 1, 1)
    try:
        return graph.summed_axes(op.equation)
    except ValueError:
        return ()


def _fits(found: Range, kind: DType) -> bool:
    low, high = _widest(kind)
    return low <= found[0] and found[1] <= high


def _profits(op: Product, known: Set[Value], parts: int) -> bool:
    moved = [v for v in op.operands if v not in known]
    packed = sum(prod(map(typical, v.type.shape)) for v in moved)
    axis = _axes(op)[0]
    depth = op.w.type.shape[1:] if isinstance(op, graph.Conv) else op.a.type.shape[axis : axis + 1]
    products = prod(map(typical, (*op.result.type.shape, *depth)))
    return products * (1 - 1 / parts) > packed * _PACKED


def ranges_of(ops: Sequence[Op]) -> Ranges:
    """Numbers between which all elements of integers are, as far as the ops before them tell."""
    found: dict[Value, Range] = {}
    for op in ops:
        if len(op.results) == 1 and op.result.type.dtype.is_integer:
            low, high = _widest(op.result.type.dtype)
            here = _range(op, [range_of(v, found) for v in op.operands])
            if here is not None and low <= here[0] and here[1] <= high:
                found[op.result] = here
    return found


def range_of(value: Value, ranges: Ranges) -> Range:
    """The least and the greatest that elements of a value may be."""
    return ranges.get(value) or _widest(value.type.dtype)


def _widest(dtype: DType) -> Range:
    if not dtype.is_integer:
        return (0, 1) if dtype.kind == "b" else (-(2**64), 2**64)
    limits = np.iinfo(dtype.numpy)
    return int(limits.min), int(limits.max)


def _range(op: Op, of: Sequence[Range]) -> Range | None:
    """The range of an op's result, from those of its operands; None where it is not known."""
    if isinstance(op, graph.Constant):
        array = op.value.array
        return (int(array.min()), int(array.max())) if array.size else (0, 0)
    if isinstance(op, (graph.Cast, *_SAME)):
        return of[0]
    if isinstance(op, graph.Pad):
        value = int(op.value.array[()])
        return min(of[0][0], value), max(of[0][1], value)
    if isinstance(op, graph.Concat):
        return min(low for low, _ in of), max(high for _, high in of)
    if isinstance(op, graph.Sub):
        return of[0][0] - of[1][1], of[0][1] - of[1][0]
    if isinstance(op, graph.Add):
        return of[0][0] + of[1][0], of[0][1] + of[1][1]
    return None


def _pads_zeros(op: graph.Pad, axis: int) -> bool:
    """Whether a value is padded along other axes only, and by zeros."""
    return op.low[axis] == op.high[axis] == 0 and not op.value.array.any()


class _Words:
    """Makes the words of a value of which the ops before it are known."""

    def __init__(self, b: Rebuilder, made: Makers, kind: DType, less: graph.Sub | None) -> None:
        self.b = b
        self.made = made
        self.kind = kind
        self.less = less

    def of(self, x: Value, axis: int) -> Value:
        """The words of a value along an axis; the later halves of the axis in the higher bits."""
        op, b, bits = self.made.get(x), self.b, self.kind.bits
        if isinstance(op, graph.Transpose):
            return b.emit(graph.Transpose, self.of(op.x, op.perm[axis]), perm=op.perm)
        if isinstance(op, graph.Pad) and _pads_zeros(op, axis):
            return b.emit(graph.Pad, self.of(op.x, axis), op.low, op.high, self._padding(op.value))
        count, shape = I32.bits // bits, x.type.shape
        size = -(-shape[axis] // count)
        total: Value | None = None
        for k, start in enumerate(range(0, shape[axis], size)):
            stop = min(start + size, shape[axis])
            part = self._part(x, axis, start, stop)
            if stop < start + size:
                rest = [0] * len(shape)
                low, rest[axis] = tuple(rest), start + size - stop
                part = b.emit(graph.Pad, part, low, tuple(rest), Literal(np.zeros((), np.int32)))
            if k < count - 1:
                part = b.emit(graph.And, part, self._number((1 << bits) - 1))
            if k:
                part = b.emit(graph.Mul, part, self._number(1 << (bits * k)))
            total = part if total is None else b.emit(graph.Or, total, part)
        assert total is not None
        return total

    def _padding(self, zeros: Literal) -> Literal:
        """What stands around words: zeros, or the zero point that they are less of."""
        maker = None if self.less is None else self.made[self.less.b]
        if not isinstance(maker, graph.Constant):
            return zeros
        part = np.asarray(maker.value.array.reshape(()), self.kind.numpy)
        return Literal(np.full(I32.bits // self.kind.bits, part).view(np.int32).reshape(()))

    def _number(self, n: int) -> Value:
        return self.b.emit(graph.Constant, value=Literal(np.asarray(n, np.int32)))

    def _part(self, x: Value, axis: int, start: int, stop: int, left: int = _NEAR) -> Value:
        """A part of a value along an axis, taken before it was converted."""
        op, b, shape = self.made.get(x), self.b, x.type.shape
        if self.less is not None and op is self.less:
            return self._part(self.less.a, axis, start, stop)
        if axis < 0 or shape[axis] == 1:
            return b.new(x)
        if left and isinstance(op, graph.Cast) and op.x.type.dtype.bits <= op.dtype.bits:
            return b.emit(graph.Cast, self._part(op.x, axis, start, stop, left - 1), dtype=op.dtype)
        if left and isinstance(op, (graph.Sub, graph.Add)):
            ends = [axis - len(shape) + v.type.rank for v in op.operands]
            pairs = zip(op.operands, ends, strict=True)
            return b.emit(type(op), *[self._part(v, n, start, stop, left - 1) for v, n in pairs])
        starts = tuple(start if n == axis else 0 for n in range(len(shape)))
        stops = tuple(stop if n == axis else m for n, m in enumerate(shape))
        return b.emit(graph.Slice, b.new(x), starts, stops, (1,) * len(shape))
