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
"""

from minicc.ir.graph.circular import (
    Acos as Acos,
    Acosh as Acosh,
    Asin as Asin,
    Asinh as Asinh,
    Atan as Atan,
    Atan2 as Atan2,
    Atanh as Atanh,
    Cos as Cos,
    Cosh as Cosh,
    Sin as Sin,
    Sinh as Sinh,
    Tan as Tan,
)
from minicc.ir.graph.complex import (
    Complex as Complex,
    Imag as Imag,
    Real as Real,
)
from minicc.ir.graph.contract import (
    LAYOUTS as LAYOUTS,
    Contract as Contract,
    Conv as Conv,
    parse_equation as parse_equation,
    summed_axes as summed_axes,
    untransposed as untransposed,
)
from minicc.ir.graph.control import (
    If as If,
    Kernel as Kernel,
    Scan as Scan,
    Sized as Sized,
    While as While,
)
from minicc.ir.graph.elementwise import (
    Abs as Abs,
    Add as Add,
    And as And,
    Binary as Binary,
    BitCast as BitCast,
    Cast as Cast,
    Cbrt as Cbrt,
    Ceil as Ceil,
    Div as Div,
    Elementwise as Elementwise,
    Eq as Eq,
    Erf as Erf,
    Exp as Exp,
    Exp2 as Exp2,
    Exp2Nonpositive as Exp2Nonpositive,
    Expm1 as Expm1,
    Floor as Floor,
    FloorDiv as FloorDiv,
    Le as Le,
    Log as Log,
    Log2 as Log2,
    Log10 as Log10,
    Lt as Lt,
    Max as Max,
    Min as Min,
    Mod as Mod,
    Mul as Mul,
    MulHigh as MulHigh,
    Ne as Ne,
    Neg as Neg,
    Not as Not,
    Or as Or,
    Pow as Pow,
    Round as Round,
    Select as Select,
    Shl as Shl,
    Shr as Shr,
    Sqrt as Sqrt,
    Sub as Sub,
    Tanh as Tanh,
    Unary as Unary,
    Xor as Xor,
)
from minicc.ir.graph.host import (
    Host as Host,
    NonZero as NonZero,
    Stating as Stating,
    bind_values as bind_values,
    bound_by as bound_by,
)
from minicc.ir.graph.indexing import (
    GatherElements as GatherElements,
    GatherND as GatherND,
    ScatterElements as ScatterElements,
    ScatterND as ScatterND,
    Sort as Sort,
    TopK as TopK,
)
from minicc.ir.graph.movement import (
    Broadcast as Broadcast,
    Concat as Concat,
    Constant as Constant,
    Frames as Frames,
    Gather as Gather,
    InsertSlice as InsertSlice,
    Iota as Iota,
    Pad as Pad,
    Reshape as Reshape,
    Sizes as Sizes,
    Slice as Slice,
    Transpose as Transpose,
)
from minicc.ir.graph.reduce import (
    Accumulate as Accumulate,
    Reduce as Reduce,
    Window as Window,
)
from minicc.ir.graph.shapes import (
    broadcast_shapes as broadcast_shapes,
    product as product,
)
from minicc.ir.graph.suppress import Suppress as Suppress
from minicc.ir.graph.winograd import (
    WinogradInput as WinogradInput,
    WinogradOutput as WinogradOutput,
    WinogradWeights as WinogradWeights,
)
