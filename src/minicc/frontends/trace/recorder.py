"""The recorder of one trace: collects graph ops, knows the user's line, lifts constants.

Everything that makes an op goes through `Recorder.emit`, which gives it the location of the line of
the user's code that is running: the nearest frame whose globals are ones that `rewire` made.

Mirrors: JAX's jaxpr trace (a builder in the dynamic context), with source locations as Dynamo
takes them from frames.
"""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn

import numpy as np

from minicc.errors import UnsupportedError, UserError
from minicc.ir import graph
from minicc.ir.build import Builder
from minicc.ir.core import Array, Literal, Op, Value
from minicc.ir.types import DType, from_numpy

_REPEATED = 16  # elements from which it pays to look for a constant that repeats one number


class Recorder:
    """The state of one trace.

    `user_globals` are the ids of the namespaces that the user's code runs in while it is
    traced; XX
    """

    def __init__(self, name: str, place: str = "") -> None:
        self.name = name
        self._place = place or name
        self.closed = False
        self.user_globals: set[int] = set()
        self.captured: dict[str, Array] = {}
        self.namespace: Any = None
        self._builder = Builder(())
        self._lifted: dict[int, tuple[Array, Value]] = {}

    @property
    def ops(self) -> list[Op]:
        """The ops recorded so far, in order."""
        return self._builder.ops

    def location(self) -> str:
        """`file.py:line` of the user's line that is running, else where the function begins."""
        frame = sys._getframe(1)
        while frame is not None:
            if id(frame.f_globals) in self.user_globals:
                return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
            if frame.f_back is None:
                break
            frame = frame.f_back
        return self._place

    def emit(self, cls: type[Op], *args: Any, **attrs: Any) -> Value:
        """Record an op with one result; UserError where its type rule refuses the operands."""
        if self.closed:
            raise UserError(
                "MC0143",
                f"a value of the trace of {self.name} is used after the trace has ended",
                hint="return values instead of storing them in globals or objects",
            )
        self._builder.loc = (self.location(),)
        return self._builder.emit(cls, *args, **attrs)

    def refuse(self, code: str, message: str, hint: str = "") -> NoReturn:
        """Raise UnsupportedError at the user's line."""
        raise UnsupportedError(code, message, hint=hint, where=self.location())

    def wrong(self, code: str, message: str, hint: str = "") -> NoReturn:
        """Raise UserError at the user's line."""
        raise UserError(code, message, hint=hint, where=self.location())

    def dtype(self, numpy_dtype: Any) -> DType:
        """The element type of a NumPy dtype; UnsupportedError (MC0245) where there is none."""
        element = from_numpy(numpy_dtype)
        if element is None:
            self.refuse(
                "MC0245",
                f"no element type stores NumPy's {np.dtype(numpy_dtype)}",
                "floats, integers and booleans are supported",
            )
        return element

    def lift(self, array: Array) -> Value:
        """A constant as a value of the graph; an array that repeats one number stays small."""
        known = self._lifted.get(id(array))
        if known is not None:
            return known[1]
        element = self.dtype(array.dtype)
        native = np.asarray(array, element.numpy)
        if native.size >= _REPEATED and _repeats(native):
            value = self.emit(graph.Constant, Literal(native.reshape(-1)[0]))
            value = self.emit(graph.Broadcast, value, native.shape)
        else:
            # a copy, for the owner may write into the array later
            value = self.emit(graph.Constant, Literal(native.copy()))
        self._lifted[id(array)] = (array, value)
        return value

    def scalar(self, number: Any, element: DType) -> Value:
        """A constant of rank 0; OverflowError where the element type can't hold the number."""
        with np.errstate(over="ignore"):
            return self.emit(graph.Constant, Literal(np.asarray(number, element.numpy)))

    def cast(self, value: Value, element: DType) -> Value:
        """The value converted to an element type, or itself."""
        if value.type.dtype is element:
            return value
        return self.emit(graph.Cast, value, dtype=element)

    def reshape(self, value: Value, shape: tuple[int, ...]) -> Value:
        """The value under another shape, or itself."""
        return value if value.type.shape == shape else self.emit(graph.Reshape, value, shape)

    def transpose(self, value: Value, perm: tuple[int, ...]) -> Value:
        """The value with its axes permuted, or itself."""
        same = perm == tuple(range(len(perm)))
        return value if same else self.emit(graph.Transpose, value, perm)

    def broadcast(self, value: Value, shape: tuple[int, ...]) -> Value:
        """The value repeated to a shape, or itself."""
        return value if value.type.shape == shape else self.emit(graph.Broadcast, value, shape)

    def reduce(
        self, value: Value, axes: tuple[int, ...], combine: str, keepdims: bool = False
    ) -> Value:
        """Combined along axes; the value itself where there are none."""
        if not axes:
            return value
        return self.emit(graph.Reduce, value, axes, combine, keepdims)


def _repeats(array: Array) -> bool:
    """Whether all elements have the same bits."""
    if not any(array.strides):
        return True
    flat = np.ascontiguousarray(array).reshape(-1)
    bits = flat.view(f"u{flat.itemsize}")
    return bool(bits[0] == bits[-1]) and bool((bits == bits[0]).all())
