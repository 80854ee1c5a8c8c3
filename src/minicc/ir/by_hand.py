"""Kernels by hand among whole tensors: what `graph.kernel` and `structured.kernel` have in common.

    %y = graph.kernel %x {label = "softmax", grid = [8]} {
    ^(%row: index, %x: buffer<f32[8,64]>, %y: buffer<f32[8,64]>): ... yield
    } : f32[8,64]

The region is of the kernel level: it takes an instance's coordinates, a buffer for each operand and
one for each result. Passes above the kernel level leave it alone; what stands around it fuses with
nothing within. What the region does not write of a result is undefined.
"""

from __future__ import annotations

from typing import Any

from minicc.ir.affine import Dim
from minicc.ir.core import Function, Op, Region, RunRegion, Value
from minicc.ir.types import INDEX_TYPE, BufferType, TensorType


class ByHand(Op):
    """A grid of tile programs over whole tensors; `label` names the kernel."""

    inputs: tuple[Value, ...]
    label: str
    grid: tuple[Dim, ...]
    body: Region
    inside = "kernel"

    @property
    def kernel(self) -> Function:
        """The region as a kernel."""
        return Function(self.label, self.body, {"grid": self.grid})

    def infer(self) -> tuple[TensorType, ...]:
        axes, count = len(self.grid), len(self.operands)
        types = [a.type for a in self.body.args]
        buffers = types[axes:]
        if types[:axes] != [INDEX_TYPE] * axes or self.body.yields:
            raise TypeError(f"the body of {self.opname} takes {axes} indices and yields nothing")
        if not all(isinstance(t, BufferType) and t.is_dense for t in buffers):
            raise TypeError(f"the body of {self.opname} takes dense buffers, not {buffers}")
        tensors = tuple(TensorType(t.dtype, t.shape) for t in buffers)
        given = tuple(v.type for v in self.operands)
        if tensors[:count] != given or len(tensors) == count:
            raise TypeError(f"the body of {self.opname} takes {buffers}, and is given {given}")
        return tensors[count:]

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        raise RuntimeError(f"{self.opname} runs a grid; the interpreter serves it")
