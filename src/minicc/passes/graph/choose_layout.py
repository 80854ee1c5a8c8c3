"""Choose channels-last for images: convolutions and what lies between them run as [N, spatial, C].

    %y = conv(%x) channels_first
    -->   %t = transpose(%x); %u = conv(%t) channels_last; %y = transpose(%u)

A plan first: the values that will be held channels-last are all results of convolutions and
windows, and everything between them that does not care for the order of axes. Then one walk: such
a value is made in the new order, and turned back only for who insists on the old one.
Channels-last makes each convolution a contraction whose innermost run of its input is contiguous.

Mirrors: Relax's ConvertLayout, ORT's NCHWc and NHWC transformers, oneDNN's layout propagation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minicc.ir import graph
from minicc.ir.core import Function, Module, Op, Region, Value
from minicc.ir.rewrite import Rebuilder, live


def choose_layout(module: Module) -> Module:
    """Make every function channels-last where that pays."""
    return Module(module.level, [_apply(f, plan_layout(f)) for f in module.functions])


def plan_layout(function: Function) -> frozenset[Value]:
    """The values to hold channels-last.

    Grown forward from convolutions through ops that can follow.
    """
    chosen: set[Value] = set()
    for op in function.body.ops:
        if isinstance(op, graph.Conv):
            if op.layout == "channels_first":
                chosen.add(op.result)
        elif type(op) in _FOLLOW or isinstance(op, graph.Elementwise):
            rank = op.result.type.rank if len(op.results) == 1 else 0
            same = [v for v in op.operands if v in chosen and v.type.rank == rank]
            if same and rank >= 3:
                chosen.add(op.result)
        elif isinstance(op, graph.Window) and op.result.type.rank >= 3 and op.x in chosen:
            chosen.add(op.result)
    return frozenset(chosen)


def to_last(rank: int) -> tuple[int, ...]:
    """The permutation from [N, C, ...] to [N, ..., C]."""
    return (0, *range(2, rank), 1)


def to_first(rank: int) -> tuple[int, ...]:
    """The permutation back."""
    return (0, rank - 1, *range(1, rank - 1))


def _permuted(entries: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(entries[p] for p in to_last(len(entries)))


class _Layouts:
    """What each old value became, in one order or both."""

    def __init__(self, b: Rebuilder, chosen: frozenset[Value]) -> None:
        self.b = b
        self.chosen = chosen
        self.first: dict[Value, Value] = {}
        self.last: dict[Value, Value] = {}

    def old(self, v: Value) -> Value:
        """The value in its old order."""
        if v not in self.first:
            self.first[v] = self.b.emit(graph.Transpose, self.last[v], perm=to_first(v.type.rank))
        return self.first[v]

    def new(self, v: Value) -> Value:
        """The value channels-last."""
        if v not in self.last:
            self.last[v] = self.b.emit(graph.Transpose, self.first[v], perm=to_last(v.type.rank))
        return self.last[v]

    def operand(self, v: Value, rank: int) -> Value:
        """An operand of an op of `rank` in the new order.

        A smaller one is first given unit axes in front.
        """
        if v.type.rank == rank:
            return self.new(v)
        if v.type.rank == 0:
            return self.old(v)
        shape = (*(1,) * (rank - v.type.rank), *v.type.shape)
        full = self.b.emit(graph.Reshape, self.old(v), shape=shape)
        return self.b.emit(graph.Transpose, full, perm=to_last(rank))


def _conv(s: _Layouts, op: Any) -> Value:
    return s.b.emit(graph.Conv, s.new(op.x), s.old(op.w), **{**op.attrs, "layout": "channels_last"})


def _elementwise(s: _Layouts, op: Any) -> Value:
    rank = op.result.type.rank
    return s.b.add(op.rebuilt([s.operand(v, rank) for v in op.operands])).results[0]


def _window(s: _Layouts, op: Any) -> Value:
    attrs = {k: _permuted(getattr(op, k)) for k in ("size", "strides", "dilations")}
    return s.b.add(op.rebuilt([s.new(op.x)], **attrs)).results[0]


def _pad(s: _Layouts, op: Any) -> Value:
    attrs = {"low": _permuted(op.low), "high": _permuted(op.high)}
    return s.b.add(op.rebuilt([s.new(op.x)], **attrs)).results[0]


def _concat(s: _Layouts, op: Any) -> Value:
    axis = to_last(op.result.type.rank).index(op.axis % op.result.type.rank)
    return s.b.add(op.rebuilt([s.new(v) for v in op.xs], axis=axis)).results[0]


def _reduce(s: _Layouts, op: Any) -> Value:
    rank = op.x.type.rank
    axes = tuple(sorted(to_last(rank).index(a % rank) for a in op.axes))
    return s.b.add(op.rebuilt([s.new(op.x)], axes=axes)).results[0]


_FOLLOW: dict[type[Op], Callable[[_Layouts, Any], Value]] = {
    graph.Pad: _pad,
    graph.Concat: _concat,
}


def _apply(function: Function, chosen: frozenset[Value]) -> Function:
    if not chosen:
        return function
    b = Rebuilder()
    s = _Layouts(b, chosen)
    s.first.update({a: a for a in function.args})
    for op in function.body.ops:
        b.loc = op.loc
        if len(op.results) == 1 and op.result in chosen:
            emit = _FOLLOW.get(type(op)) or (
                _conv
                if isinstance(op, graph.Conv)
                else _window
                if isinstance(op, graph.Window)
                else _elementwise
            )
            s.last[op.result] = emit(s, op)
        elif isinstance(op, graph.Conv) and op.layout == "channels_first":
            s.last[op.result] = _conv(s, op)
        elif isinstance(op, graph.Reduce) and op.x in chosen and _spatial_only(op):
            _reduce_in_place(s, op)
        elif isinstance(op, graph.Pad) and _feeds_conv(op, function):
            s.last[op.result] = _pad(s, op)
        else:
            kept = b.add(op.rebuilt([s.old(v) for v in op.operands]))
            s.first.update(zip(op.results, kept.results, strict=True))
    yields = [s.old(v) for v in function.body.yields]
    return function.with_body(Region(function.args, live(b.ops, yields), yields))


def _spatial_only(op: graph.Reduce) -> bool:
    """Whether a reduction leaves batch and channels alone.

    So that the result's order does not change.
    """
    rank = op.x.type.rank
    return sorted(a % rank for a in op.axes) == list(range(2, rank))


def _reduce_in_place(s: _Layouts, op: graph.Reduce) -> None:
    made = _reduce(s, op)
    if op.keepdims:
        s.last[op.result] = made
    else:
        s.first[op.result] = made


def _feeds_conv(pad: graph.Pad, function: Function) -> bool:
    """Whether a pad's only readers are convolutions: then it is better done in their order."""
    readers = [op for op in function.body.ops if pad.result in op.operands]
    return bool(readers) and all(isinstance(op, graph.Conv) for op in readers)
