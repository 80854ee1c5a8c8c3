"""Circular and hyperbolic functions, each element on its own."""

from __future__ import annotations

from minicc.ir import arith
from minicc.ir.graph.elementwise import Binary, Unary


class Sin(Unary, name="graph.sin", scalar=arith.Sin):
    """The sine; NaN at infinities."""


class Cos(Unary, name="graph.cos", scalar=arith.Cos):
    """The cosine; NaN at infinities."""


class Tan(Unary, name="graph.tan", scalar=arith.Tan):
    """The tangent; NaN at infinities."""


class Asin(Unary, name="graph.asin", scalar=arith.Asin):
    """The inverse of the sine; NaN outside of -1 to 1."""


class Acos(Unary, name="graph.acos", scalar=arith.Acos):
    """The inverse of the cosine; NaN outside of -1 to 1."""


class Atan(Unary, name="graph.atan", scalar=arith.Atan):
    """The inverse of the tangent."""


class Sinh(Unary, name="graph.sinh", scalar=arith.Sinh):
    """The hyperbolic sine."""


class Cosh(Unary, name="graph.cosh", scalar=arith.Cosh):
    """The hyperbolic cosine."""


class Asinh(Unary, name="graph.asinh", scalar=arith.Asinh):
    """The inverse of the hyperbolic sine."""


class Acosh(Unary, name="graph.acosh", scalar=arith.Acosh):
    """The inverse of the hyperbolic cosine; NaN below 1."""


class Atanh(Unary, name="graph.atanh", scalar=arith.Atanh):
    """The inverse of the hyperbolic tangent; infinite at -1 and 1, NaN outside."""


class Atan2(Binary, name="graph.atan2", scalar=arith.Atan2):
    """The angle of the point (b, a), with a's sign: the inverse tangent of a / b."""
