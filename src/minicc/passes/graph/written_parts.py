"""A slice of what has just been written into an array.

    %y = insert_slice(%x, %new, at p);  %z = slice(%y, at p)   -->   %z = %new

A loop that writes an element and looks at it, or whose branches write the same one, has no need to
read the array for it, and with one write less it may be one kernel. LLVM's GVN forwards stores to
loads in this way, XLA's algebraic simplifier a `dynamic-update-slice` to a `dynamic-slice`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minicc.ir import affine, graph
from minicc.ir.build import Builder
from minicc.ir.core import Op, Value
from minicc.ir.types import is_free


def match_written(op: graph.Slice, producer: Callable[[Value], Op | None]) -> Any:
    """What was written where a slice lies, and where the slice begins in it along each axis."""
    write = producer(op.x)
    if not isinstance(write, graph.InsertSlice):
        return None
    starts: list[int] = []
    wholes = zip(op.starts, write.starts, strict=True)
    extents = zip(op.result.type.shape, write.new.type.shape, strict=True)
    steps = zip(op.steps, write.steps, strict=True)
    for (start, first), (extent, whole), (step, by) in zip(wholes, extents, steps, strict=True):
        place = affine.add(start, affine.multiply(first, -1))
        if place == 0 and extent == whole and (step == by or extent == 1):
            starts.append(0)
            continue
        if not isinstance(place, int) or is_free((extent, whole)) or by != 1 or step < 1:
            return None
        if extent < 1 or place < 0 or place + (extent - 1) * step >= whole:
            return None
        starts.append(place)
    return write, starts


def build_written(b: Builder, op: graph.Slice, found: Any) -> Value:
    """What was written, or the part of it that a slice takes."""
    write, starts = found
    new: Value = write.new
    if new.type == op.result.type and not any(starts):
        return new
    extents = op.result.type.shape
    steps = tuple([1 if n == 1 else step for n, step in zip(extents, op.steps, strict=True)])
    ends = zip(starts, extents, steps, strict=True)
    stops = tuple([affine.add(k, affine.multiply(n - 1, step)) + 1 for k, n, step in ends])
    return b.emit(graph.Slice, new, starts=tuple(starts), stops=stops, steps=steps)
