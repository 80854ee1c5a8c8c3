"""Complex numbers as pairs of real ones.

Of complex tensors the graph adds, subtracts, multiplies, compares for equality, sums, contracts and
moves elements; what else is computed of them is computed of their parts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.ir.core import Op, RunRegion, Value
from minicc.ir.types import PARTS, TensorType


class _Part(Op):
    """A part of each complex number."""

    __slots__ = ()
    x: Value

    def infer(self) -> tuple[TensorType, ...]:
        t: TensorType = self.x.type
        if not t.dtype.is_complex:
            raise TypeError(f"{self.opname} wants complex numbers, not {t}")
        return (TensorType(PARTS[t.dtype], t.shape),)


class Real(_Part, name="graph.real"):
    """The real parts."""

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (np.asarray(args[0]).real,)


class Imag(_Part, name="graph.imag"):
    """The imaginary parts."""

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (np.asarray(args[0]).imag,)


class Complex(Op, name="graph.complex"):
    """The complex numbers of two tensors of parts, which have one type."""

    re: Value
    im: Value

    def infer(self) -> tuple[TensorType, ...]:
        re, im = self.re.type, self.im.type
        whole = next((c for c, part in PARTS.items() if part is re.dtype), None)
        if whole is None or re != im:
            raise TypeError(f"{self.opname} of {re} and {im}")
        return (TensorType(whole, re.shape),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        out = np.empty(self.result.type.extents, self.result.type.dtype.numpy)
        out.real, out.imag = args
        return (out,)
