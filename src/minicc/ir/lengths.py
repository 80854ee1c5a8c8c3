"""How many machine instructions ops become, about: what plans weigh before there is any code."""

from __future__ import annotations

from collections.abc import Sequence

from minicc.ir.arith import (
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atan,
    Atan2,
    Atanh,
    Cbrt,
    Cos,
    Cosh,
    Div,
    Erf,
    Exp,
    Exp2,
    Exp2Nonpositive,
    Expm1,
    FloorDiv,
    Log,
    Log2,
    Log10,
    Mod,
    Pow,
    Sin,
    Sinh,
    Tan,
    Tanh,
)
from minicc.ir.core import Op
from minicc.ir.types import DType

_EXPONENTIALS = (Exp, Exp2, Exp2Nonpositive, Expm1, Log, Log2, Log10, Pow, Cbrt, Erf)
_CIRCULAR = (Sin, Cos, Tan, Asin, Acos, Atan, Atan2)
_HYPERBOLIC = (Sinh, Cosh, Tanh, Asinh, Acosh, Atanh)
_LONG = (*_EXPONENTIALS, *_CIRCULAR, *_HYPERBOLIC)
_DIVISIONS = (Div, FloorDiv, Mod)
_INSTRUCTIONS = 16  # of a long op, about


def is_long(op: type[Op], dtype: DType) -> bool:
    """Whether an op on numbers of a type becomes tens of instructions."""
    return issubclass(op, _DIVISIONS if dtype.kind in "iu" else _LONG)


def length(ops: Sequence[Op]) -> int:
    """About how many instructions ops are for a vector."""
    long = [op for op in ops if op.operands and is_long(type(op), op.operands[0].type.dtype)]
    return len(ops) + len(long) * (_INSTRUCTIONS - 1)
