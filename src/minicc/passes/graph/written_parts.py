"""A slice of the element that has just been written into an array.

    %y = insert_slice(%x, %new, at p);  %z = slice(%y, at p)   -->   %z = %new

A loop that writes an element and looks at it, or whose branches write the same one, has no need to
read the array for it, and with one write less it may be one kernel. What is of more elements is
read where it lies, for it would need memory of its own. LLVM's GVN forwards stores to loads in this
way, XLA's algebraic simplifier a `dynamic-update-slice` to a `dynamic-slice`.
"""

from __future__ import annotations

from collections.abc import Callable

from minicc.ir import affine, graph
from minicc.ir.core import Op, Value


def match_written(op: graph.Slice, producer: Callable[[Value], Op | None]) -> Value | None:
    """The element that was written where a slice has just one."""
    write = producer(op.x)
    if not isinstance(write, graph.InsertSlice) or write.new.type != op.result.type:
        return None
    places = zip(op.starts, write.starts, strict=True)
    same = all(affine.add(a, affine.multiply(b, -1)) == 0 for a, b in places)
    return write.new if same and all(n == 1 for n in op.result.type.shape) else None
