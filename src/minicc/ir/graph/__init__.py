"""The graph dialect: SSA values are whole tensors, ops are primitive and mean what NumPy means.

Laws. Every op is pure. Shapes may hold symbols, and two dimensions with one name are one; where
symbols leave open whether shapes fit, the type rule lets pass and looks again once they are bound.
Element types never change on their own: operands of one op have one element type, and `graph.cast`
alone converts. Floating point is IEEE 754 in the type's own precision; f16 and bf16 compute in f32
and round once an op, reductions and contractions included. Integers wrap. No op pads but
`graph.pad`. Axes and bounds are counted from 0, attributes hold no negative ones; only the data of
`graph.gather` may count from the end. Elementwise ops broadcast implicitly, contractions never.

Everything that knows mathematics happens here: composites (soft-max, batch norm) are decomposed by
the front end or by rules, and attributes are data of the op, never operands.

Mirrors: StableHLO and XLA's HLO (their primitives; both have composites, too), Relax, ATen's core
ops. Unlike HLO, elementwise ops broadcast, as in NumPy and ONNX, and unlike ATen nothing is a view.
"""

from minicc.ir.graph.bits import BitCast
from minicc.ir.graph.circular import (
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atan,
    Atanh,
    Circular,
    Cos,
    Cosh,
    Sin,
    Sinh,
    Tan,
)
from minicc.ir.graph.contract import LAYOUTS, Contract, Conv, parse_equation
from minicc.ir.graph.control import If, Scan, While
from minicc.ir.graph.elementwise import (
    Abs,
    Add,
    And,
    Binary,
    Cast,
    Ceil,
    Div,
    Elementwise,
    Eq,
    Erf,
    Exp,
    Exp2,
    Floor,
    FloorDiv,
    Le,
    Log,
    Lt,
    Max,
    Min,
    Mod,
    Mul,
    Ne,
    Neg,
    Not,
    Or,
    Pow,
    Round,
    Select,
    Sqrt,
    Sub,
    Tanh,
    Unary,
    Xor,
)
from minicc.ir.graph.host import Host, Stating, bind_values, bound_by
from minicc.ir.graph.indexing import (
    GatherElements,
    GatherND,
    ScatterElements,
    ScatterND,
    TopK,
)
from minicc.ir.graph.movement import (
    Broadcast,
    Concat,
    Constant,
    Gather,
    InsertSlice,
    Iota,
    Pad,
    Reshape,
    Sizes,
    Slice,
    Transpose,
)
from minicc.ir.graph.reduce import Reduce, Window
from minicc.ir.graph.shapes import broadcast_shapes, product
from minicc.ir.graph.winograd import WinogradInput, WinogradOutput, WinogradWeights

__all__ = [
    "LAYOUTS",
    "Abs",
    "Acos",
    "Acosh",
    "Add",
    "And",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "Binary",
    "BitCast",
    "Broadcast",
    "Cast",
    "Ceil",
    "Circular",
    "Concat",
    "Constant",
    "Contract",
    "Conv",
    "Cos",
    "Cosh",
    "Div",
    "Elementwise",
    "Eq",
    "Erf",
    "Exp",
    "Exp2",
    "Floor",
    "FloorDiv",
    "Gather",
    "GatherElements",
    "GatherND",
    "Host",
    "If",
    "InsertSlice",
    "Iota",
    "Le",
    "Log",
    "Lt",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "Ne",
    "Neg",
    "Not",
    "Or",
    "Pad",
    "Pow",
    "Reduce",
    "Reshape",
    "Round",
    "Scan",
    "ScatterElements",
    "ScatterND",
    "Select",
    "Sin",
    "Sinh",
    "Sizes",
    "Slice",
    "Sqrt",
    "Stating",
    "Sub",
    "Tan",
    "Tanh",
    "TopK",
    "Transpose",
    "Unary",
    "While",
    "Window",
    "WinogradInput",
    "WinogradOutput",
    "WinogradWeights",
    "Xor",
    "bind_values",
    "bound_by",
    "broadcast_shapes",
    "parse_equation",
    "product",
]
