"""Circular and hyperbolic functions, each element on its own.

f16 and bf16 compute in f32 and round once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from minicc.ir.arith import widened
from minicc.ir.core import Op, RunRegion, Value
from minicc.ir.types import TensorType


class Circular(Op):
    """`compute` applied to each element, which is a float."""

    __slots__ = ()
    x: Value
    compute: ClassVar[Callable[..., Any]]

    def infer(self) -> tuple[TensorType, ...]:
        if not self.x.type.dtype.is_float:
            raise TypeError(f"{self.opname} is not defined on {self.x.type.dtype}")
        return (self.x.type,)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        x = np.asarray(args[0])
        with np.errstate(all="ignore"):
            return (np.asarray(type(self).compute(widened(x)), x.dtype),)


class Sin(Circular, name="graph.sin", compute=np.sin):
    """The sine; NaN at infinities."""


class Cos(Circular, name="graph.cos", compute=np.cos):
    """The cosine; NaN at infinities."""


class Tan(Circular, name="graph.tan", compute=np.tan):
    """The tangent; NaN at infinities."""


class Asin(Circular, name="graph.asin", compute=np.arcsin):
    """The inverse of the sine; NaN outside of -1 to 1."""


class Acos(Circular, name="graph.acos", compute=np.arccos):
    """The inverse of the cosine; NaN outside of -1 to 1."""


class Atan(Circular, name="graph.atan", compute=np.arctan):
    """The inverse of the tangent."""


class Sinh(Circular, name="graph.sinh", compute=np.sinh):
    """The hyperbolic sine."""


class Cosh(Circular, name="graph.cosh", compute=np.cosh):
    """The hyperbolic cosine."""


class Asinh(Circular, name="graph.asinh", compute=np.arcsinh):
    """The inverse of the hyperbolic sine."""


class Acosh(Circular, name="graph.acosh", compute=np.arccosh):
    """The inverse of the hyperbolic cosine; NaN below 1."""


class Atanh(Circular, name="graph.atanh", compute=np.arctanh):
    """The inverse of the hyperbolic tangent; infinite at -1 and 1, NaN outside."""
