"""What two ways through a loop's body do alike in the end is recorded once, on what is chosen.

    if c: x = a        way 1: x = a, y = f(a)          x = select(c, a, b)
    else: x = b        way 2: x = b, y = f(b)    -->   y = f(x)
    y = f(x)

Each way is a recording of the whole round, so that what follows a branch was recorded after both
of its sides. Ops that both end with are the same lines of Python; where their operands differ, the
condition chooses, once. This is what sinking common code is to LLVM (SimplifyCFG), on a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from minicc.frontends.trace.recorder import Recorder
from minicc.ir.core import Op, Value, op_key, region_key

Ops = Mapping[Value, Op]  # of a way, by their first results, in the order of the recording
Choose = Callable[[Value, Value], Value]


class Joined(NamedTuple):
    """What became of the values of two ways, and the ops of both, what they end with last."""

    values: dict[Value, Value]
    ops: dict[Value, Op]


def join_tails(recorder: Recorder, then: Ops, other: Ops, choose: Choose) -> Joined:
    """Record once what both ways end with; `choose` gives what stands for two values before it."""
    mine = [op for v, op in then.items() if v not in other]
    theirs = [op for v, op in other.items() if v not in then]
    alike = 0
    for a, b in zip(reversed(mine), reversed(theirs), strict=False):
        if not _alike(a, b):
            break
        alike += 1
    values: dict[Value, Value] = {}

    def chosen(a: Value, b: Value) -> Value:
        a, b = values.get(a, a), values.get(b, b)
        return a if a is b else choose(a, b)

    tail: dict[Value, Op] = {}
    starts = len(mine) - alike, len(theirs) - alike
    for a, b in zip(mine[starts[0] :], theirs[starts[1] :], strict=True):
        made = recorder.repeat(a, list(map(chosen, a.operands, b.operands)))
        tail[made.results[0]] = made
        values.update(zip(a.results, made.results, strict=True))
        values.update(zip(b.results, made.results, strict=True))
    ended = {v for op in (*mine[starts[0] :], *theirs[starts[1] :]) for v in op.results}
    before = {v: op for v, op in {**then, **other}.items() if v not in ended}
    return Joined(values, {**before, **tail})


def _alike(a: Op, b: Op) -> bool:
    """Whether two ops differ in their operands alone, and are of one line of Python."""
    if type(a) is not type(b) or a.loc != b.loc or op_key(a)[2:] != op_key(b)[2:]:
        return False
    types = ([v.type for v in op.operands] for op in (a, b))
    regions = (list(map(region_key, op.regions)) for op in (a, b))
    return next(types) == next(types) and next(regions) == next(regions)
