"""Elements of an axis at known places, as slices of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from minicc.ir import graph
from minicc.ir.core import Array, Value


class Run(NamedTuple):
    """Places that form an arithmetic progression."""

    first: int
    step: int
    length: int


def by_slices(
    emit: Callable[..., Value], x: Value, places: Array, axis: int, most: int
) -> Value | None:
    """`numpy.take` at known places, not negative; None where they form more than `most` runs.

    `emit` creates an op of the graph level, and gives its result.
    """
    runs = runs_of(places, most)
    if runs is None:
        return None
    parts = [_slice(emit, x, axis, run) for run in runs]
    return parts[0] if len(parts) == 1 else emit(graph.Concat, tuple(parts), axis=axis)


def runs_of(places: Array, most: int) -> list[Run] | None:
    """The runs that a row of places consists of; None where they are more than `most`.

    A place that may end one run or begin the next belongs to the longer one: of the places that a
    border of repeated elements gives, one run has the whole axis.
    """
    if len(places) < 2:
        return [Run(int(places[0]) if len(places) else 0, 1, len(places))]
    steps = np.diff(places)
    ends = [*(np.flatnonzero(np.diff(steps)) + 1).tolist(), len(steps)]
    if len(ends) > 2 * most:
        return None
    starts = [0, *ends[:-1]]
    # each has the places from its first to one after its last step, as far as no longer one has
    free = np.ones(len(places), bool)
    found: list[tuple[int, int]] = []
    for start, end in sorted(zip(starts, ends, strict=True), key=lambda s: s[0] - s[1]):
        first, last = start + (not free[start]), end - (not free[end])
        if first <= last:
            found.append((first, last))
            free[first : last + 1] = False
    if len(found) > most:
        return None
    return [
        Run(int(places[first]), int(steps[first]) if last > first else 1, last - first + 1)
        for first, last in sorted(found)
    ]


def _slice(emit: Callable[..., Value], x: Value, axis: int, run: Run) -> Value:
    first, step, length = run
    shape = x.type.shape
    if (first, step, length) == (0, 1, shape[axis]):
        return x
    last = first + step * (length - 1)
    starts, stops, steps = [0] * len(shape), [*shape], [1] * len(shape)
    starts[axis], steps[axis] = first, step or 1
    stops[axis] = first if not length else last + (1 if step >= 0 else -1)
    part = emit(graph.Slice, x, starts=tuple(starts), stops=tuple(stops), steps=tuple(steps))
    if step:
        return part
    return emit(graph.Broadcast, part, shape=(*shape[:axis], length, *shape[axis + 1 :]))
