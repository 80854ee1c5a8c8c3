"""Choose channels-last for images: convolutions and what lies between them run as [N, spatial, C].

    %y = conv(%x) channels_first
    -->   %t = transpose(%x); %u = conv(%t) channels_last; %y = transpose(%u)

A plan first: the values that will be held channels-last are all results of convolutions and
windows, and everything between them that does not care for the order of axes. Channels that are
split into several axes, as a shuffle of channels does, stay last together. Spatial axes may be
split or joined, as they are where each pixel is repeated, and channels may become pixels. Then one
walk: such a value is made in the new order, and turned back only for who insists on the old one.
Channels-last makes each convolution a contraction whose innermost run of its input is contiguous.

Convolutions to few channels, which fill no vector, stay as they are where no other convolution
follows: their vectors go along a row of the image. What they read is turned back only for large
windows, where each number is read so often that this pays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from math import prod
from typing import Any

from minicc.ir import graph
from minicc.ir.core import Function, Module, Op, Region, Value
from minicc.ir.graph.minimal_filters import TAPS
from minicc.ir.rewrite import Rebuilder, everywhere, live

_FEW = 8  # channels, to which and of which convolutions stay channels-first, if rows are as long
_FEWER = 4  # the same of results, where more are read, or in groups
_MOST_READ = 16  # channels that are read where a minimal filter would else do it


def choose_layout(module: Module) -> Module:
    """Make every function channels-last where that pays."""
    return Module(module.level, [everywhere(f, _channels_last) for f in module.functions])


def _channels_last(function: Function) -> Function:
    return _apply(function, plan_layout(function))


def plan_layout(function: Function) -> dict[Value, int]:
    """The values to hold channels-last, each with how many axes its channels are.

    Grown forward through ops that can follow: from convolutions, and from transposes that put
    channels first on the way to one.
    """
    starts = {op.result for op in function.body.ops if _puts_first(op)}
    few = _of_few_channels(function)
    if starts:
        grown, wanted = _grown(function, starts, few), set[Value]()
        for op in reversed(function.body.ops):
            if isinstance(op, graph.Conv):
                wanted.add(op.x)
            elif not wanted.isdisjoint(grown.keys() & op.results):
                wanted.update(v for v in op.operands if v in grown)
        starts &= wanted
    return _grown(function, starts, few)


def _of_few_channels(function: Function) -> set[Op]:
    """Convolutions to few channels, of which no other convolution is made."""
    found: set[Op] = set()
    wanted: set[Value] = set()  # what other convolutions are made of
    for op in reversed(function.body.ops):
        if isinstance(op, graph.Conv) and _has_few_channels(op) and op.result not in wanted:
            found.add(op)
        elif isinstance(op, graph.Conv):
            wanted.add(op.x)
        elif not wanted.isdisjoint(op.results):
            wanted.update(op.operands)
    return found


def _has_few_channels(op: graph.Conv) -> bool:
    channels, terms, *window = op.w.type.shape
    row = op.result.type.shape[-1]
    if not isinstance(channels, int) or not isinstance(terms, int):
        return False
    if isinstance(row, int) and row < _FEW:
        return False
    if op.groups != 1:
        return channels <= _FEWER
    if channels == 1:  # sums of many channels to one go along the channels
        return bool(terms * prod(op.strides[-1:]) <= _FEW)
    if terms <= _FEW or _is_large(op):
        return channels <= _FEW
    minimal = tuple(window) == (TAPS, TAPS)
    return channels <= _FEWER and (terms <= _MOST_READ or not minimal)


def _is_large(op: graph.Conv) -> bool:
    """Whether more taps than a minimal filter's read each number, each for several channels."""
    channels, _, *window = op.w.type.shape
    return channels != 1 and prod(n for n in window if isinstance(n, int)) > TAPS**2


def _puts_first(op: Op) -> bool:
    """Whether an op makes channels of the last axis, which so lie as they are wanted."""
    return isinstance(op, graph.Transpose) and op.perm == to_first(len(op.perm)) != (0, 1)


def _grown(function: Function, starts: Set[Value], few: Set[Op]) -> dict[Value, int]:
    """What follows convolutions and some transposes, but for those of what is turned already.

    Convolutions to `few` channels follow what is held so, but for those of large windows.
    """
    chosen: dict[Value, int] = {}
    for op in function.body.ops:
        if isinstance(op, graph.Conv):
            if op.layout == "channels_first" and (
                op not in few or (op.x in chosen and not _is_large(op))
            ):
                chosen[op.result] = 1
        elif isinstance(op, (graph.Reshape, graph.Transpose)):
            axes = _channel_axes(op, chosen.get(op.x, 0))
            if axes:
                chosen[op.result] = axes
            elif op.result in starts and op.x not in chosen:
                chosen[op.result] = 1
        elif type(op) in _FOLLOW or isinstance(op, graph.Elementwise):
            rank = op.result.type.rank if len(op.results) == 1 else 0
            same = {chosen[v] for v in op.operands if v in chosen and v.type.rank == rank}
            if len(same) == 1 and rank >= 3:
                chosen[op.result] = same.pop()
        elif (
            isinstance(op, graph.Window | graph.Gather | graph.Slice | graph.Broadcast)
            and op.x in chosen
            and op.x.type.rank == op.result.type.rank >= 3
        ):
            chosen[op.result] = chosen[op.x]
    return chosen


def _channel_axes(op: graph.Reshape | graph.Transpose, axes: int) -> int:
    """How many axes the channels of the result are, where they or the spatial ones stay; else 0."""
    if not axes:
        return 0
    before, after = op.x.type.shape, op.result.type.shape
    spatial = len(before) - 1 - axes
    if isinstance(op, graph.Transpose):
        rest = (0, *range(1 + axes, len(before)))
        if all(op.perm[k] == k for k in rest):
            return axes
        # the other channels become spatial, as where they are pixels of a larger image
        return int(op.perm[0] == 0 and 1 <= op.perm[1] <= axes)
    if before[: 1 + axes] == after[: 1 + axes] and len(after) > 1 + axes:
        return axes  # spatial axes are parted or joined
    kept = before[:1] == after[:1] and before[1 + axes :] == after[len(after) - spatial :]
    return max(0, len(after) - 1 - spatial) if after and spatial and kept else 0


def to_last(rank: int, channels: int = 1) -> tuple[int, ...]:
    """The permutation from [N, C, ...] to [N, ..., C] for so many axes of channels."""
    return (0, *range(1 + channels, rank), *range(1, 1 + channels))


def to_first(rank: int, channels: int = 1) -> tuple[int, ...]:
    """The permutation back."""
    return (0, *range(rank - channels, rank), *range(1, rank - channels))


class _Layouts:
    """What each old value became, in one order or both."""

    def __init__(self, b: Rebuilder, chosen: Mapping[Value, int]) -> None:
        self.b = b
        self.chosen = chosen
        self.first: dict[Value, Value] = {}
        self.last: dict[tuple[Value, int], Value] = {}

    def old(self, v: Value) -> Value:
        """The value in its old order."""
        if v not in self.first:
            k = self.chosen.get(v, 1)
            perm = to_first(v.type.rank, k)
            self.first[v] = self.b.emit(graph.Transpose, self.last[v, k], perm=perm)
        return self.first[v]

    def new(self, v: Value, channels: int = 1) -> Value:
        """The value channels-last, of so many axes."""
        if (v, channels) not in self.last:
            perm = to_last(v.type.rank, channels)
            self.last[v, channels] = self.b.emit(graph.Transpose, self.old(v), perm=perm)
        return self.last[v, channels]

    def operand(self, v: Value, rank: int, channels: int) -> Value:
        """An operand of an op of `rank` in the new order.

        A smaller one is first given unit axes in front.
        """
        if v.type.rank == rank:
            return self.new(v, channels)
        if v.type.rank == 0:
            return self.old(v)
        shape = (*(1,) * (rank - v.type.rank), *v.type.shape)
        full = self.b.emit(graph.Reshape, self.old(v), shape=shape)
        return self.b.emit(graph.Transpose, full, perm=to_last(rank, channels))

    def of(self, op: Any) -> int:
        """How many axes the channels of an op's result are."""
        return self.chosen.get(op.result, 1)

    def permuted(self, op: Any, entries: Sequence[Any]) -> tuple[Any, ...]:
        """What an op says of each axis, in the new order."""
        return tuple(entries[p] for p in to_last(len(entries), self.of(op)))


def _conv(s: _Layouts, op: Any) -> Value:
    return s.b.emit(graph.Conv, s.new(op.x), s.old(op.w), **{**op.attrs, "layout": "channels_last"})


def _elementwise(s: _Layouts, op: Any) -> Value:
    rank, k = op.result.type.rank, s.of(op)
    return s.b.add(op.rebuilt([s.operand(v, rank, k) for v in op.operands])).results[0]


def _window(s: _Layouts, op: Any) -> Value:
    attrs = {k: s.permuted(op, getattr(op, k)) for k in ("size", "strides", "dilations")}
    return s.b.add(op.rebuilt([s.new(op.x, s.of(op))], **attrs)).results[0]


def _pad(s: _Layouts, op: Any) -> Value:
    attrs = {"low": s.permuted(op, op.low), "high": s.permuted(op, op.high)}
    return s.b.add(op.rebuilt([s.new(op.x, s.of(op))], **attrs)).results[0]


def _concat(s: _Layouts, op: Any) -> Value:
    k, rank = s.of(op), op.result.type.rank
    axis = to_last(rank, k).index(op.axis % rank)
    return s.b.add(op.rebuilt([s.new(v, k) for v in op.xs], axis=axis)).results[0]


def _gather(s: _Layouts, op: Any) -> Value:
    k = s.of(op)
    axis = to_last(op.x.type.rank, k).index(op.axis)
    return s.b.add(op.rebuilt([s.new(op.x, k), s.old(op.indices)], axis=axis)).results[0]


def _slice(s: _Layouts, op: Any) -> Value:
    attrs = {k: s.permuted(op, getattr(op, k)) for k in ("starts", "stops", "steps")}
    return s.b.add(op.rebuilt([s.new(op.x, s.of(op))], **attrs)).results[0]


def _broadcast(s: _Layouts, op: Any) -> Value:
    x = s.new(op.x, s.of(op))
    return s.b.emit(graph.Broadcast, x, shape=s.permuted(op, op.shape))


def _reshape(s: _Layouts, op: Any) -> Value:
    x = s.new(op.x, s.chosen[op.x])
    return s.b.emit(graph.Reshape, x, shape=s.permuted(op, op.result.type.shape))


def _transpose(s: _Layouts, op: Any) -> Value:
    rank, k = op.x.type.rank, s.chosen.get(op.x, 0)
    if not _channel_axes(op, k):
        return s.old(op.x)
    order = to_last(rank, k)
    perm = tuple(order.index(op.perm[p]) for p in to_last(rank, s.of(op)))
    return s.b.emit(graph.Transpose, s.new(op.x, k), perm=perm)


def _reduce(s: _Layouts, op: Any) -> Value:
    rank = op.x.type.rank
    k = s.chosen[op.x]
    axes = tuple(sorted(to_last(rank, k).index(a % rank) for a in op.axes))
    return s.b.add(op.rebuilt([s.new(op.x, k)], axes=axes)).results[0]


_FOLLOW: dict[type[Op], Callable[[_Layouts, Any], Value]] = {
    graph.Pad: _pad,
    graph.Concat: _concat,
}
_OTHERS: dict[type[Op], Callable[[_Layouts, Any], Value]] = {
    graph.Window: _window,
    graph.Gather: _gather,
    graph.Slice: _slice,
    graph.Broadcast: _broadcast,
    graph.Reshape: _reshape,
    graph.Transpose: _transpose,
}


def _emitter(op: Op) -> Callable[[_Layouts, Any], Value]:
    if isinstance(op, graph.Conv):
        return _conv
    return _FOLLOW.get(type(op)) or _OTHERS.get(type(op)) or _elementwise


def _apply(function: Function, chosen: Mapping[Value, int]) -> Function:
    if not chosen:
        return function
    b = Rebuilder()
    s = _Layouts(b, chosen)
    s.first.update({a: a for a in function.args})
    for op in function.body.ops:
        b.loc = op.loc
        if len(op.results) == 1 and op.result in chosen:
            s.last[op.result, chosen[op.result]] = _emitter(op)(s, op)
        elif isinstance(op, graph.Reduce) and op.x in chosen and _spatial_only(op, chosen[op.x]):
            _reduce_in_place(s, op)
        elif isinstance(op, graph.Pad) and _feeds_conv(op, function):
            s.last[op.result, 1] = _pad(s, op)
        else:
            kept = b.add(op.rebuilt([s.old(v) for v in op.operands]))
            s.first.update(zip(op.results, kept.results, strict=True))
    yields = [s.old(v) for v in function.body.yields]
    return function.with_body(Region(function.args, live(b.ops, yields), yields))


def _spatial_only(op: graph.Reduce, channels: int) -> bool:
    """Whether a reduction leaves batch and channels alone.

    So that the result's order does not change.
    """
    rank = op.x.type.rank
    return sorted(a % rank for a in op.axes) == list(range(1 + channels, rank))


def _reduce_in_place(s: _Layouts, op: graph.Reduce) -> None:
    made = _reduce(s, op)
    if op.keepdims and s.chosen[op.x] == 1:
        s.last[op.result, 1] = made
    elif op.keepdims:
        perm = to_first(op.x.type.rank, s.chosen[op.x])
        s.first[op.result] = s.b.emit(graph.Transpose, made, perm=perm)
    else:
        s.first[op.result] = made


def _feeds_conv(pad: graph.Pad, function: Function) -> bool:
    """Whether a pad's only readers are convolutions: then it is better done in their order."""
    readers = [op for op in function.body.ops if pad.result in op.operands]
    return bool(readers) and all(isinstance(op, graph.Conv) for op in readers)
