"""Products of channels that a shuffle mixes, for a rule by which they read them where they lie.

    %s = reshape(transpose(reshape(%x)))            -->   %d = conv(%x) depthwise, weights in turn
    %d = conv(%s) depthwise                               %y = conv(%d) 1x1, in groups, { parts }
    %y = conv(%d) 1x1, in groups

A network whose convolutions are grouped shuffles channels between them, so that each group has some
of all others (Zhang et al., "ShuffleNet", CVPR 2018). What treats each channel alone may as well
come before the shuffle, and a group's channels are at known places then: no copy is made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from minicc.ir import graph
from minicc.ir.affine import Dim
from minicc.ir.build import Builder
from minicc.ir.core import Op, Value

Producer = Callable[[Value], "Op | None"]
_WITH_CONSTANTS = (graph.Add, graph.Mul, graph.Max, graph.Min)


class Shuffle(NamedTuple):
    """What is shuffled, as it may have another shape, and of how many runs each has one in turn."""

    x: Value
    shape: tuple[Dim, ...]
    parts: int


class Step(NamedTuple):
    """An op that treats each channel alone, and which of its operands has the channels."""

    op: Op
    operand: int


class Shuffled(NamedTuple):
    """A shuffle, and what is made of its result, in order."""

    shuffle: Shuffle
    steps: tuple[Step, ...]


def match_shuffled(op: graph.Conv, producer: Producer) -> Any:
    """The shuffle of what a grouped 1x1 convolution reads, and what is done between them."""
    pointwise = all(n == 1 for n in op.w.type.shape[2:])
    mixed = op.groups != 1 and op.w.type.shape[1] != 1
    if op.layout != "channels_last" or not pointwise or not mixed or op.parts > 1:
        return None
    steps: list[Step] = []
    v = op.x
    while (shuffle := _shuffle_of(v, producer)) is None:
        maker = producer(v)
        operand = _operand_alone(maker, producer)
        if maker is None or operand is None:
            return None
        steps.append(Step(maker, operand))
        v = maker.operands[operand]
    return Shuffled(shuffle, tuple(reversed(steps)))


def _shuffle_of(v: Value, producer: Producer) -> Shuffle | None:
    """The shuffle that makes a value: the last axis in two, which are swapped."""
    after = producer(v)
    turn = producer(after.x) if isinstance(after, graph.Reshape) else None
    before = producer(turn.x) if isinstance(turn, graph.Transpose) else None
    if not isinstance(turn, graph.Transpose) or not isinstance(before, graph.Reshape):
        return None
    *lead, channels = v.type.shape
    rank = len(lead)
    apart = before.result.type.shape
    swapped = turn.perm == (*range(rank), rank + 1, rank)
    if not swapped or apart[:rank] != (*lead,) or not isinstance(channels, int):
        return None
    return Shuffle(before.x, v.type.shape, apart[rank])


def _operand_alone(op: Op | None, producer: Producer) -> int | None:
    """The operand of whose channels an op treats each alone; others are constants."""
    if isinstance(op, graph.Pad) and op.low[-1] == op.high[-1] == 0:
        return 0
    if isinstance(op, graph.Conv) and op.layout == "channels_last" and op.parts == 1:
        channels, depth = op.w.type.shape[:2]
        return 0 if depth == 1 and channels == op.groups else None
    if isinstance(op, _WITH_CONSTANTS):
        for k, other in ((0, op.b), (1, op.a)):
            known = isinstance(producer(other), graph.Constant)
            if known and op.operands[k].type == op.result.type:
                return k
    return None


def build_shuffled(b: Builder, op: graph.Conv, found: Shuffled) -> Value:
    """The steps on what was shuffled, and the convolution, which knows where channels are."""
    (x, shape, parts), steps = found
    x = x if x.type.shape == shape else b.emit(graph.Reshape, x, shape=shape)
    for step in steps:
        x = _before_shuffle(b, step, x, parts)
    return b.emit(graph.Conv, x, op.w, **{**op.attrs, "parts": parts})


def _before_shuffle(b: Builder, step: Step, x: Value, parts: int) -> Value:
    """A step on what was not shuffled yet: its constants are turned the other way."""
    channels = x.type.shape[-1]
    operands = list(step.op.operands)
    operands[step.operand] = x
    for k, v in enumerate(step.op.operands):
        axis = 0 if isinstance(step.op, graph.Conv) else v.type.rank - 1
        if k != step.operand and v.type.rank and v.type.shape[axis] == channels:
            operands[k] = _turned(b, v, axis, parts)
    return b.add(step.op.rebuilt(operands)).results[0]


def _turned(b: Builder, v: Value, axis: int, parts: int) -> Value:
    """A constant whose elements along an axis, once shuffled, would be as they were."""
    shape = v.type.shape
    before, channels, after = shape[:axis], shape[axis], shape[axis + 1 :]
    apart = b.emit(graph.Reshape, v, shape=(*before, channels // parts, parts, *after))
    rank = len(shape) + 1
    perm = (*range(axis), axis + 1, axis, *range(axis + 2, rank))
    turned = b.emit(graph.Transpose, apart, perm=perm)
    return b.emit(graph.Reshape, turned, shape=shape)
