"""The builder: collects ops in order under a current location."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minicc.ir.core import Loc, Op, Region, Value


class Builder:
    """Appends ops to a list that becomes a region.

    `loc` is given to ops created through `emit(Class, ...)`.
    """

    __slots__ = ("loc", "ops")

    def __init__(self, loc: Loc) -> None:
        self.loc = loc
        self.ops: list[Op] = []

    def add(self, op: Op) -> Op:
        """Append an op that exists."""
        self.ops.append(op)
        return op

    def emit(self, cls: type[Op], *args: Any, **attrs: Any) -> Value:
        """Create an op with one result at the current location and append it; its result."""
        op = cls(*args, loc=self.loc, **attrs)
        self.ops.append(op)
        return op.result

    def emit_all(self, cls: type[Op], *args: Any, **attrs: Any) -> tuple[Value, ...]:
        """The same for an op with any number of results."""
        op = cls(*args, loc=self.loc, **attrs)
        self.ops.append(op)
        return op.results

    def region(self, args: Sequence[Value], body: Callable[[Builder], Sequence[Value]]) -> Region:
        """A region whose ops `body` emits into the builder it is given; it returns the yields."""
        inner = Builder(self.loc)
        yields = body(inner)
        return Region(args, inner.ops, yields)


def whole_power(multiply: Callable[[Value, Value], Value], x: Value, exponent: int) -> Value:
    """A power of 1 or more by squares, and a product for each bit of the exponent that is set."""
    square, result = x, None
    while True:
        if exponent & 1:
            result = square if result is None else multiply(result, square)
        exponent >>= 1
        if not exponent:
            break
        square = multiply(square, square)
    assert result is not None
    return result
