"""Writes into arrays one after the other: what they leave is not read, and not copied.

    %y = insert_slice(%x, %new, at p);  %z = slice(%y, at p)   -->   %z = %new
    %y = insert_slice(%x, %a, at p);  %z = insert_slice(%y, %b, at p)
        -->   %z = insert_slice(%x, %b, at p)   where nobody else reads %y
    %y = insert_slice(%x, %a, at p);  %z = insert_slice(%x, %b, at p)
        -->   %z = insert_slice(%y, %b, at p)
    %y = insert_slice(%x, %a, at p);  %z = slice(%y, at q)   -->   %z = slice(%x, at q)
        where other writes begin with %x, too

A loop that writes an element and looks at it, or whose branches write the same one, has no need to
read the array for it, and with one write less it may be one kernel. What is of more elements is
read where it lies, for it would need memory of its own. LLVM's GVN forwards stores to loads in this
way, XLA's algebraic simplifier a `dynamic-update-slice` to a `dynamic-slice`, and LLVM's DSE takes
out the first of two stores. Two arrays made of one, as by the sides of a branch, can't both be
where that is: the third rule makes the second of the first, and by the last one nobody reads one of
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from minicc.ir import graph
from minicc.ir.build import Builder
from minicc.ir.core import Function, Op, Value
from minicc.ir.rewrite import Rebuilder, rebuild

Producer = Callable[[Value], "Op | None"]


def _is_at(first: graph.InsertSlice, other: graph.InsertSlice | graph.Slice) -> bool:
    """Whether two ops are about elements that begin at the same place."""
    places = zip(first.starts, other.starts, strict=True)
    return all(a - b == 0 for a, b in places)


def _is_element(op: graph.Slice) -> bool:
    """Whether a slice has just one."""
    return all(n == 1 for n in op.result.type.shape)


def _overwrites(first: graph.InsertSlice, other: graph.InsertSlice) -> bool:
    """Whether one op writes all the elements that another one does."""
    alike = first.steps == other.steps and first.new.type == other.new.type
    return alike and _is_at(first, other)


def match_written(op: graph.Slice, producer: Producer) -> Value | None:
    """The element that was written where a slice has just one."""
    write = producer(op.x)
    if not isinstance(write, graph.InsertSlice) or write.new.type != op.result.type:
        return None
    return write.new if _is_at(write, op) and _is_element(op) else None


def match_overwritten(op: graph.InsertSlice, producer: Producer) -> Op | None:
    """The write before, which is lost."""
    write = producer(op.x)
    return write if isinstance(write, graph.InsertSlice) and _overwrites(op, write) else None


def build_overwritten(b: Builder, op: graph.InsertSlice, found: graph.InsertSlice) -> Value:
    """One write."""
    return b.emit(graph.InsertSlice, found.x, op.new, op.starts, op.steps)


def read_before_writes(function: Function) -> Function:
    """Have elements read of an array that several writes begin with, where writes miss them."""
    writes = {op.result: op for op in function.body.ops if isinstance(op, graph.InsertSlice)}
    several = {v for v, n in Counter(op.x for op in writes.values()).items() if n > 1}

    def visit(b: Rebuilder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        if not isinstance(op, graph.Slice) or not _is_element(op):
            return None
        x = _before(op, writes, several)
        return None if x is op.x else b.add(op.rebuilt((b.new(x),))).results

    return rebuild(function, visit) if several else function


def _before(
    op: graph.Slice, writes: Mapping[Value, graph.InsertSlice], several: set[Value]
) -> Value:
    """The first array with `several` writes that has the element, or the one that is read."""
    x, found = op.x, op.x
    while x in writes and _is_apart(writes[x], op):
        x = writes[x].x
        found = x if x in several else found
    return found


def _is_apart(write: graph.InsertSlice, element: graph.Slice) -> bool:
    """Whether an element is surely none of those that were written."""
    extents = write.new.type.shape
    for at, start, step, n in zip(element.starts, write.starts, write.steps, extents, strict=True):
        ahead, last = at - start, (n - 1) * step
        if isinstance(ahead, int) and isinstance(last, int) and not 0 <= ahead <= last:
            return True
    return False


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
