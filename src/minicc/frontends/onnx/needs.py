"""Complaints about nodes that more knowledge of values, or the host, would settle."""

from __future__ import annotations

from collections.abc import Sequence

from minicc.errors import UnsupportedError
from minicc.frontends.onnx.model.reader import Node
from minicc.ir.core import Value

# Operators that do little for each element: of sizes that they can't leave open the host runs them,
# and the model has one program; for others each set of sizes has a program of its own.
LIGHT = frozenset(
    (
        *("ArgMax", "ArgMin", "CenterCropPad", "ConstantOfShape"),
        *("DepthToSpace", "Expand", "EyeLike", "GatherND", "Hardmax", "OneHot", "Pad", "Range"),
        *("Bernoulli", "Dropout", "Multinomial", "RandomNormalLike", "RandomUniformLike"),
        *("Reshape", "ReverseSequence", "ScatterElements", "ScatterND", "Slice", "SpaceToDepth"),
        *("Split", "Squeeze", "TensorScatter", "Tile", "TopK", "Trilu", "Unsqueeze"),
    )
)


class NeedsValueError(UnsupportedError):
    """A node can't be imported before the contents of values are known; `values` are these.

    With sizes that are free, `names`, it is MC0225, else MC0223. The node may run on the host then.
    """

    values: tuple[Value, ...] = ()
    names: tuple[str, ...] = ()


class HostNodeError(UnsupportedError):
    """A node that can't be compiled and runs on the host, or decides what runs (MC0227)."""


def describe(node: Node, opset: int, operands: Sequence[str] = ()) -> str:
    """The operator of a node for an error: its name, opset (0 is not known) and operands."""
    version = f" (opset {opset})" if opset else ""
    return f"{node.op}{version}" + (f" on {', '.join(operands)}" if operands else "")
