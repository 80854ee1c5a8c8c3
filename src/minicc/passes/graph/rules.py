"""The named algebraic rules of the graph level.

Each is data: a name, a class of what it does to floating point, and two functions.

`match(op, producer)` returns what it found or None, `build(b, op, found)` emits the replacement. A
rule is *exact* if every bit stays, *reassociates* if it is an identity of real numbers,
*approximates* otherwise; `math="strict"` uses exact rules alone. A rule must not match what it
produces, so that applying it again changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, Literal, NamedTuple

import numpy as np

from minicc.ir import core, graph
from minicc.ir.build import Builder, whole_power
from minicc.ir.core import Array, Op, Value
from minicc.ir.types import BF16, F16, F32, F64, is_free, static_shape
from minicc.passes.graph.fold_constants import evaluated
from minicc.passes.graph.outer_taps import build_outer_taps, match_outer_taps
from minicc.passes.graph.shuffled_channels import build_shuffled, match_shuffled
from minicc.passes.graph.written_parts import (
    build_overwritten,
    match_overwritten,
    match_written,
)

_MOST_SQUARED = 8  # exponent of a power that is products: their roundings add up
_FAR_MEAN = 16.0  # deviations that the mean of what is normalised may be away from 0
_OFTEN = 4  # times that a weight is multiplied, from which on it is worth being held in f32
Class = Literal["exact", "reassociates", "approximates"]
Producer = Callable[[Value], "Op | None"]


class Rule(NamedTuple):
    """A rewrite of ops of class `root`.

    One that is `alone` takes the place of what it found too, so it is shown no op whose result has
    other readers: that would be computed twice.
    """

    name: str
    root: type[Op]
    kind: Class
    match: Callable[[Any, Producer], Any]
    build: Callable[[Builder, Any, Any], Value]
    alone: bool = False


def constant_of(v: Value, producer: Producer) -> core.Literal | None:
    """The literal of a constant value, else None."""
    op = producer(v)
    return op.value if isinstance(op, graph.Constant) else None


def _number(c: core.Literal | None) -> Any:
    """The only element of a constant; NaN where it has more, or is none."""
    return c.array.item() if c is not None and prod(c.type.extents) == 1 else np.nan


def _emit_constant(b: Builder, array: Array) -> Value:
    return b.emit(graph.Constant, value=core.Literal(array))


def _emit_folded(b: Builder, cls: type[Op], *constants: core.Literal) -> Value:
    """What an elementwise op makes of constants."""
    values = [graph.Constant(value=c, loc=b.loc).result for c in constants]
    (made,) = evaluated(cls(*values, loc=b.loc), constants)
    return b.emit(graph.Constant, value=made)


# exact: nothing is computed differently


def _match_same_shape(op: Any, producer: Producer) -> Any:
    return op.x if op.x.type == op.result.type else None


def _match_identity_transpose(op: graph.Transpose, producer: Producer) -> Any:
    return op.x if list(op.perm) == sorted(op.perm) else None


def _keep(b: Builder, op: Any, found: Value) -> Value:
    return found


def _match_chain(op: Any, producer: Producer) -> Any:
    inner = producer(op.x)
    return inner if type(inner) is type(op) else None


def _build_transposes(b: Builder, op: graph.Transpose, inner: Any) -> Value:
    return b.emit(graph.Transpose, inner.x, perm=tuple(inner.perm[p] for p in op.perm))


def _build_reshapes(b: Builder, op: graph.Reshape, inner: Any) -> Value:
    return b.emit(graph.Reshape, inner.x, shape=op.shape)


def _match_empty_pad(op: graph.Pad, producer: Producer) -> Any:
    return op.x if not any((*op.low, *op.high)) else None


def _match_single_concat(op: graph.Concat, producer: Producer) -> Any:
    return op.xs[0] if len(op.xs) == 1 else None


def _match_part(op: graph.Slice, producer: Producer) -> Any:
    """The tensor of a concat that a slice lies in, and where it begins there and ends."""
    concat = producer(op.x)
    if not isinstance(concat, graph.Concat):
        return None
    start, stop = op.starts[concat.axis], op.stops[concat.axis]
    if not isinstance(start, int) or not isinstance(stop, int):
        return None
    if op.steps[concat.axis] < 0 or start >= stop:
        return None
    first = 0
    for part in concat.xs:
        extent = part.type.shape[concat.axis]
        if not isinstance(extent, int):
            return None
        if first <= start and stop <= first + extent:
            return part, concat.axis, (start - first, stop - first)
        first += extent
    return None


def _build_part(b: Builder, op: graph.Slice, found: Any) -> Value:
    part, axis, (start, stop) = found
    starts, stops = list(op.starts), list(op.stops)
    starts[axis], stops[axis] = start, stop
    return b.emit(graph.Slice, part, starts=tuple(starts), stops=tuple(stops), steps=op.steps)


def _match_single(op: graph.Slice, producer: Producer) -> Any:
    """The tensor in which an axis was several, and which element of these a slice takes of it."""
    inner = producer(op.x)
    if not isinstance(inner, graph.Reshape):
        return None
    before, after = inner.x.type.shape, op.x.type.shape
    more = len(before) - len(after)
    for axis, n in enumerate(after) if more > 0 else ():
        merged, start, stop = before[axis : axis + more + 1], op.starts[axis], op.stops[axis]
        others = before[:axis] + before[axis + more + 1 :] == after[:axis] + after[axis + 1 :]
        if not others or not isinstance(start, int) or is_free(merged) or prod(merged) != n:
            continue
        if stop == start + 1 and op.steps[axis] == 1:
            return inner.x, axis, [int(k) for k in np.unravel_index(start, static_shape(merged))]
    return None


def _build_single(b: Builder, op: graph.Slice, found: Any) -> Value:
    x, axis, places = found
    ends = [k + 1 for k in places]
    columns = ((op.starts, places), (op.stops, ends), (op.steps, [1] * len(places)))
    starts, stops, steps = ((*c[:axis], *new, *c[axis + 1 :]) for c, new in columns)
    element = b.emit(graph.Slice, x, starts=starts, stops=stops, steps=steps)
    return b.emit(graph.Reshape, element, shape=op.result.type.shape)


def _match_mul_one(op: graph.Mul, producer: Producer) -> Any:
    for v, other in ((op.a, op.b), (op.b, op.a)):
        if _number(constant_of(other, producer)) == 1 and v.type == op.result.type:
            return v
    return None


# reassociates: constants after a convolution move into its weights


def _per_channel(c: core.Literal, conv: graph.Conv) -> core.Literal | None:
    """A constant that broadcasts along all but the channels of a convolution's result.

    In the shape in which it broadcasts along the weights.
    """
    rank = conv.result.type.rank
    channels = conv.w.type.shape[0]
    axis = rank - 1 if conv.layout == "channels_last" else 1
    shape = (1,) * (rank - c.type.rank) + c.type.extents
    if len(shape) != rank or any(n != 1 for k, n in enumerate(shape) if k != axis):
        return None
    if shape[axis] not in (1, channels):
        return None
    return core.Literal(c.array.reshape((-1,) + (1,) * (rank - 1)))


def _with_constant(op: Any, producer: Producer) -> tuple[Value, core.Literal] | None:
    for v, other in ((op.a, op.b), (op.b, op.a)):
        c = constant_of(other, producer)
        if c is not None and c.type.dtype.numpy.kind == "f" and v.type == op.result.type:
            return v, c
    return None


def _match_scaled_conv(op: graph.Mul, producer: Producer) -> Any:
    found = _with_constant(op, producer)
    conv = producer(found[0]) if found else None
    if found is None or not isinstance(conv, graph.Conv):
        return None
    weights, scale = constant_of(conv.w, producer), _per_channel(found[1], conv)
    return None if weights is None or scale is None else (conv, weights, scale)


def _build_scaled_conv(b: Builder, op: Any, found: Any) -> Value:
    conv, weights, scale = found
    return b.emit(graph.Conv, conv.x, _emit_folded(b, graph.Mul, weights, scale), **conv.attrs)


def _match_chained(outer: type[Op], inner: type[Op]) -> Callable[[Any, Producer], Any]:
    def match(op: Any, producer: Producer) -> Any:
        first = _with_constant(op, producer)
        below = producer(first[0]) if first else None
        if first is None or type(below) is not inner:
            return None
        second = _with_constant(below, producer)
        return None if second is None else (second[0], second[1], first[1])

    return match


def _build_sum(b: Builder, op: Any, found: Any) -> Value:
    x, c, d = found
    return b.emit(graph.Add, x, _emit_folded(b, graph.Add, c, d))


def _build_product(b: Builder, op: Any, found: Any) -> Value:
    x, c, d = found
    return b.emit(graph.Mul, x, _emit_folded(b, graph.Mul, c, d))


def _match_distributed(op: graph.Mul, producer: Producer) -> Any:
    """A scaled shift, of a convolution or so small that little is lost where it cancels.

    What a sum loses is in proportion to the scaled shift, not to the result. Of normalisation that
    is the mean over the deviation. A convolution has rounded its own sums before, and its weights
    take the scale.
    """
    found = _match_chained(graph.Mul, graph.Add)(op, producer)
    if found is None:
        return None
    x, shift, scale = found
    below = producer(x)
    if not (
        isinstance(below, graph.Conv) or _largest(shift.array) * _largest(scale.array) <= _FAR_MEAN
    ):
        return None
    scaled = _with_constant(below, producer) if isinstance(below, graph.Mul) else None
    return x, shift, scale, scaled


def _largest(array: Array) -> float:
    """The greatest absolute value; NaN where one is."""
    if array.size == 1:
        return abs(float(array.item()))
    return float(np.abs(array).max(initial=0))


def _build_distributed(b: Builder, op: Any, found: Any) -> Value:
    x, shift, scale, scaled = found
    if scaled is None:
        factor = b.emit(graph.Constant, value=scale)
    else:
        x, factor = scaled[0], _emit_folded(b, graph.Mul, scaled[1], scale)
    return b.emit(graph.Add, b.emit(graph.Mul, x, factor), _emit_folded(b, graph.Mul, shift, scale))


def _match_whole_power(op: graph.Pow, producer: Producer) -> int | None:
    exponent = _number(constant_of(op.b, producer))
    if op.a.type != op.result.type:
        return None
    # each product is rounded to the element, of which narrow ones have few bits
    most = _MOST_SQUARED if op.a.type.dtype.bits >= 32 else 2
    return int(exponent) if exponent in range(2, most + 1) else None


def _build_whole_power(b: Builder, op: graph.Pow, exponent: int) -> Value:
    return whole_power(partial(b.emit, graph.Mul), op.a, exponent)


# approximates: as good a result from other roundings


def _behind(v: Value, producer: Producer, *kinds: type[Op]) -> Op | None:
    """What produces a value, looked for through ops of these classes."""
    op = producer(v)
    while isinstance(op, kinds):
        op = producer(op.operands[0])
    return op


def _less_maximum(v: Value, producer: Producer) -> tuple[graph.Sub, graph.Reduce] | None:
    """What makes a value x - max(x), and max(x) before it is broadcast.

    There may be another number in the place of a maximum of -inf.
    """
    less = producer(v)
    if not isinstance(less, graph.Sub) or v.type.dtype not in (F32, F64):
        return None
    best = _behind(less.b, producer, graph.Reshape, graph.Broadcast)
    best = _unguarded(best, producer) or best
    if not isinstance(best, graph.Reduce) or best.x is not less.a:
        return None
    return (less, best) if best.combine in ("max", "maxnum") else None


def _unguarded(op: Op | None, producer: Producer) -> Op | None:
    """What makes a value for which another number stands where it is -inf."""
    test = producer(op.condition) if isinstance(op, graph.Select) else None
    if not isinstance(op, graph.Select) or not isinstance(test, graph.Eq) or test.a is not op.b:
        return None
    return producer(op.b) if _number(constant_of(test.b, producer)) == -np.inf else None


def _match_softmax_power(op: graph.Exp, producer: Producer) -> Any:
    parts = _less_maximum(op.x, producer)
    if parts is None:
        return None
    less, best = parts
    scaled, top = producer(less.a), producer(less.b)
    if isinstance(scaled, graph.Mul) and best is top:
        found = _with_constant(scaled, producer)
        if found and 0 < _number(found[1]) < np.inf:
            return less, best, found[0], _number(found[1]), top
    return less, best, less.a, 1.0, top


def _build_softmax_power(b: Builder, op: graph.Exp, found: Any) -> Value:
    less, best, x, scale, top = found
    difference: Value = less.result
    if top is best or isinstance(top, graph.Select):
        # a NaN that the maximum passes over is still in the sum
        new = b.emit(graph.Reduce, x, **{**best.attrs, "combine": "maxnum"})
        if isinstance(top, graph.Select):
            test = b.emit(graph.Eq, new, _emit_constant(b, np.asarray(-np.inf, x.type.dtype.numpy)))
            new = b.emit(graph.Select, test, top.a, new)
        difference = b.emit(graph.Sub, x, new)
    factor = np.asarray(scale / np.log(2), op.x.type.dtype.numpy)
    scaled = b.emit(graph.Mul, difference, _emit_constant(b, factor))
    return b.emit(graph.Exp2Nonpositive, scaled)


def _match_softmax_division(op: graph.Div, producer: Producer) -> Any:
    total, power = _behind(op.b, producer, graph.Reshape), producer(op.a)
    if not isinstance(total, graph.Reduce) or not isinstance(power, graph.Exp2Nonpositive):
        return None
    if (total.combine, total.x) != ("add", op.a):
        return None
    parts = _less_maximum(_behind_factor(power.x, producer), producer)
    return op.b if parts and parts[1].axes == total.axes else None


def _behind_factor(v: Value, producer: Producer) -> Value:
    """What is multiplied by a positive number; the value itself where it is no such product."""
    op = producer(v)
    found = _with_constant(op, producer) if isinstance(op, graph.Mul) else None
    return found[0] if found and _number(found[1]) > 0 else v


def _build_softmax_division(b: Builder, op: graph.Div, total: Value) -> Value:
    one = _emit_constant(b, np.asarray(1, total.type.dtype.numpy))
    return b.emit(graph.Mul, op.a, b.emit(graph.Div, one, total))


def _match_outer_taps(op: graph.Conv, producer: Producer) -> Any:
    return match_outer_taps(op, producer(op.x), constant_of(op.w, producer))


def _match_narrow_product(op: graph.Conv | graph.Contract, producer: Producer) -> Any:
    held = [v for v in op.operands if isinstance(producer(v), graph.Constant)]
    if op.result.type.dtype not in (F16, BF16) or len(held) != 1:
        return None
    if any(is_free(v.type.shape) for v in (*op.operands, op.result)):
        return op.operands
    if isinstance(op, graph.Conv):
        times = prod(op.result.type.extents) // max(op.w.type.extents[0], 1)
    else:
        letters = "".join(graph.parse_equation(op.equation)[:2])
        extents = dict(zip(letters, (*op.a.type.extents, *op.b.type.extents), strict=True))
        times = prod(extents.values()) // max(prod(held[0].type.extents), 1)
    return op.operands if times >= _OFTEN else None


def _build_narrow_product(b: Builder, op: Any, found: Any) -> Value:
    wide = [b.emit(graph.Cast, v, dtype=F32) for v in found]
    return b.emit(graph.Cast, b.emit(type(op), *wide, **op.attrs), dtype=op.result.type.dtype)


def _match_pair_of_sums(op: graph.Contract, producer: Producer) -> str | None:
    """Two letters that are summed, and follow each other in both operands."""
    left, right, out = graph.parse_equation(op.equation)
    pairs = (left[k : k + 2] for k in range(len(left) - 1))
    return next((p for p in pairs if not op.form and p in right and not {*p} & {*out}), None)


def _build_one_sum(b: Builder, op: graph.Contract, pair: str) -> Value:
    *terms, out = graph.parse_equation(op.equation)
    operands = []
    for v, letters in zip(op.operands, terms, strict=True):
        at, shape = letters.index(pair), v.type.shape
        joined = (*shape[:at], graph.product(shape[at : at + 2]), *shape[at + 2 :])
        operands.append(b.emit(graph.Reshape, v, shape=joined))
    equation = f"{','.join(letters.replace(pair, pair[0]) for letters in terms)}->{out}"
    return b.emit(graph.Contract, *operands, equation)


RULES: tuple[Rule, ...] = (
    # what is multiplied often is widened once, and not each time; weights of few rows are read
    # from memory as they are
    *[
        Rule(f"{name}-of-narrow", cls, "exact", _match_narrow_product, _build_narrow_product)
        for name, cls in (("convolution", graph.Conv), ("product", graph.Contract))
    ],
    Rule("reshape-to-same", graph.Reshape, "exact", _match_same_shape, _keep),
    Rule("reshape-of-reshape", graph.Reshape, "exact", _match_chain, _build_reshapes),
    Rule("broadcast-to-same", graph.Broadcast, "exact", _match_same_shape, _keep),
    Rule("cast-to-same", graph.Cast, "exact", _match_same_shape, _keep),
    Rule("transpose-by-nothing", graph.Transpose, "exact", _match_identity_transpose, _keep),
    Rule("transpose-of-transpose", graph.Transpose, "exact", _match_chain, _build_transposes),
    Rule("pad-by-nothing", graph.Pad, "exact", _match_empty_pad, _keep),
    Rule("convolution-of-padding", graph.Conv, "exact", _match_outer_taps, build_outer_taps),
    Rule(
        "convolution-of-shuffled",
        graph.Conv,
        "exact",
        match_shuffled,
        build_shuffled,
        alone=True,
    ),
    Rule("concat-of-one", graph.Concat, "exact", _match_single_concat, _keep),
    Rule("slice-of-concat", graph.Slice, "exact", _match_part, _build_part),
    Rule("slice-of-written", graph.Slice, "exact", match_written, _keep),
    Rule(
        "write-of-overwritten",
        graph.InsertSlice,
        "exact",
        match_overwritten,
        build_overwritten,
        alone=True,
    ),
    Rule("slice-of-reshape", graph.Slice, "exact", _match_single, _build_single),
    # long sums over one dimension go in blocks
    Rule("sums-as-one", graph.Contract, "reassociates", _match_pair_of_sums, _build_one_sum),
    Rule("multiply-by-one", graph.Mul, "exact", _match_mul_one, _keep),
    Rule(
        "scale-into-weights",
        graph.Mul,
        "reassociates",
        _match_scaled_conv,
        _build_scaled_conv,
        alone=True,
    ),
    Rule("add-of-add", graph.Add, "reassociates", _match_chained(graph.Add, graph.Add), _build_sum),
    Rule(
        "mul-of-mul",
        graph.Mul,
        "reassociates",
        _match_chained(graph.Mul, graph.Mul),
        _build_product,
    ),
    Rule(
        "mul-of-add",
        graph.Mul,
        "reassociates",
        _match_distributed,
        _build_distributed,
        alone=True,
    ),
    # two roundings or three where the power has one
    Rule("whole-power", graph.Pow, "reassociates", _match_whole_power, _build_whole_power),
    # A power of 2 takes fewer instructions than one of e, and a positive scale of the exponents
    # joins its factor. The product's rounding adds a relative error of the exponent's size, which
    # is harmless where no exponent is above 0: the greatest power is 1, and the error of the
    # others stays below 1e-7 of that.
    Rule(
        "exp-of-difference-to-maximum",
        graph.Exp,
        "approximates",
        _match_softmax_power,
        _build_softmax_power,
    ),
    # such powers sum to 1 at least and to their number at most, which have good reciprocals
    Rule(
        "division-by-sum-of-powers",
        graph.Div,
        "approximates",
        _match_softmax_division,
        _build_softmax_division,
    ),
)
