"""Writes into arrays one after the other: what they leave is not read, and not copied.

    %y = insert_slice(%x, %new, at p);  %z = slice(%y, at p)   -->   %z = %new
    %y = insert_slice(%x, %a, at p);  %z = insert_slice(%y, %b, at p)
        -->   %z = insert_slice(%x, %b, at p)   where nobody else reads %y
    %y = insert_slice(%x, %a, at p);  %z = insert_slice(%x, %b, at p)
        -->   %z = insert_slice(%y, %b, at p)

A loop that writes an element and looks at it, or whose branches write the same one, has no need to
read the array for it, and with one write less it may be one kernel. What is of more elements is
read where it lies, for it would need memory of its own. LLVM's GVN forwards stores to loads in this
way, XLA's algebraic simplifier a `dynamic-update-slice` to a `dynamic-slice`, and LLVM's DSE takes
out the first of two stores. Two arrays made of one can't both be where that is; the last rule makes
the second of the first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minicc.ir import affine, graph
from minicc.ir.build import Builder
from minicc.ir.core import Op, Value

Producer = Callable[[Value], "Op | None"]


def _is_at(first: graph.InsertSlice, other: graph.InsertSlice | graph.Slice) -> bool:
    """Whether two ops are about elements that begin at the same place."""
    places = zip(first.starts, other.starts, strict=True)
    return all(affine.add(a, affine.multiply(b, -1)) == 0 for a, b in places)


def _overwrites(first: graph.InsertSlice, other: graph.InsertSlice) -> bool:
    """Whether one op writes all the elements that another one does."""
    alike = first.steps == other.steps and first.new.type == other.new.type
    return alike and _is_at(first, other)


def match_written(op: graph.Slice, producer: Producer) -> Value | None:
    """The element that was written where a slice has just one."""
    write = producer(op.x)
    if not isinstance(write, graph.InsertSlice) or write.new.type != op.result.type:
        return None
    return write.new if _is_at(write, op) and all(n == 1 for n in op.result.type.shape) else None


def match_overwritten(op: graph.InsertSlice, producer: Producer) -> Op | None:
    """The write before, which is lost."""
    write = producer(op.x)
    return write if isinstance(write, graph.InsertSlice) and _overwrites(op, write) else None


def build_overwritten(b: Builder, op: graph.InsertSlice, found: graph.InsertSlice) -> Value:
    """One write."""
    return b.emit(graph.InsertSlice, found.x, op.new, op.starts, op.steps)


class Writes:
    """The last write to each place of each array, which makes another one of it."""

    def __init__(self) -> None:
        self._last: dict[Any, graph.InsertSlice] = {}

    def chained(self, op: graph.InsertSlice) -> graph.InsertSlice:
        """A write into an array, or into what an earlier write to the same place has made of it."""
        before = self._last.get(_place(op.x, op))
        return op if before is None else op.rebuilt((before.result, op.new))

    def note(self, array: Value, op: graph.InsertSlice) -> None:
        """Know a write into an array, which stands in the function."""
        self._last[_place(array, op)] = op


def _place(array: Value, op: graph.InsertSlice) -> Any:
    return array, op.starts, op.steps, op.new.type
