"""Values of the graph as NumPy sees them: what is written for arrays, done when the model runs."""

from __future__ import annotations

from functools import reduce
from operator import mul
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from minicc.frontends.onnx.context import Context
from minicc.ir import graph
from minicc.ir.core import Op, Value
from minicc.ir.types import DType

_UFUNCS: dict[str, type[Op]] = {
    "add": graph.Add,
    "subtract": graph.Sub,
    "multiply": graph.Mul,
    "divide": graph.Div,
    "minimum": graph.Min,
    "maximum": graph.Max,
    "less": graph.Lt,
    "less_equal": graph.Le,
    "equal": graph.Eq,
    "bitwise_and": graph.And,
    "bitwise_or": graph.Or,
    "absolute": graph.Abs,
    "floor": graph.Floor,
    "ceil": graph.Ceil,
}


class Lazy(NDArrayOperatorsMixin):
    """A value that emits an op for each of NumPy's functions that is applied to it."""

    def __init__(self, ctx: Context, value: Value) -> None:
        self.ctx = ctx
        self.value = value

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any) -> Any:
        name = ufunc.__name__
        if name == "power":
            return reduce(mul, [self] * inputs[1])
        if name == "greater":
            name, inputs = "less", inputs[::-1]
        return Lazy(self.ctx, self.ctx.emit(_UFUNCS[name], *map(self._operand, inputs)))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        assert function is np.where
        return Lazy(self.ctx, self.ctx.emit(graph.Select, *self._chosen(*args)))

    def cast(self, element: DType) -> Value:
        """The value as another element type."""
        return self.ctx.cast(self.value, element)

    def _operand(self, x: Any) -> Value:
        return x.value if isinstance(x, Lazy) else self.ctx.scalar(x, self.value)

    def _chosen(self, condition: Lazy, a: Any, b: Any) -> tuple[Value, Value, Value]:
        like = a if isinstance(a, Lazy) else b
        return condition.value, like._operand(a), like._operand(b)
