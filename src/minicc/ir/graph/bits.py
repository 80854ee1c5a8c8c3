"""Ops on the bits of elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.ir import arith
from minicc.ir.core import RunRegion
from minicc.ir.graph.elementwise import Unary
from minicc.ir.types import DType, TensorType, bits_type


class BitCast(Unary, name="graph.bitcast"):
    """The same bits read as another element type of the same width."""

    dtype: DType
    scalar = arith.BitCast

    def infer(self) -> tuple[TensorType, ...]:
        return (bits_type(self.opname, self.x.type, self.dtype),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (np.require(args[0], requirements="C").view(self.dtype.numpy),)
