"""NonMaxSuppression in three steps: boxes by score, which are suppressed, and the rows of others.

    %corners, %kinds, %rows = graph.host %boxes, %scores, %least {... part = "by score"}
    %kept = graph.suppress %corners, %kinds, %limit, %most
    %y = graph.host %rows, %kept {... part = "chosen"}

How many boxes there are to compare is a size that the first step binds, and how many are left one
of the last. What compares them is machine code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.options import options_of
from minicc.ir import graph
from minicc.ir.affine import Dim
from minicc.ir.core import Value
from minicc.ir.types import F32, I64, TensorType

Fresh = Callable[[str, int], Dim]  # a symbol for an extent of a value
Values = tuple[Value, ...]
_NUMBERS = ((), (1,))  # shapes of a number


def emit_suppression(
    ctx: Context,
    node: Node,
    operands: Sequence[Value | None],
    fresh: Fresh,
    versions: tuple[int, int],
) -> Values | None:
    """What a NonMaxSuppression gives; None where its operands are not of its types."""
    boxes, scores, most, limit, least = [*operands, *[None] * 5][:5]
    if (
        boxes is None
        or scores is None
        or any(v.type.dtype is not F32 or v.type.rank != 3 for v in (boxes, scores))
    ):
        return None
    numbers = ((most, I64), (limit, F32), (least, F32))
    if any(
        v is not None and (v.type.dtype is not t or v.type.shape not in _NUMBERS)
        for v, t in numbers
    ):
        return None

    def host(part: str, given: Sequence[Value], types: Sequence[TensorType]) -> Values:
        ctx.use(given)
        op = graph.Host(
            tuple(given),
            operator=f"onnx.{node.op}",
            places=tuple(range(len(given))),
            types=tuple(types),
            options=options_of({**node.attributes, "part": part}, {}, node.name),
            versions=versions,
            loc=ctx.builder.loc,
        )
        return ctx.builder.add(op).results

    n, m = fresh(f"{node.outputs[0]}_of", 0), fresh(node.outputs[0], 0)
    known = [v for v in (boxes, scores, least) if v is not None]
    sorted_ = TensorType(F32, (4, n)), TensorType(I64, (n,)), TensorType(I64, (n, 3))
    corners, kinds, rows = host("by score", known, sorted_)
    bounds = (
        ctx.scalar(0, t) if v is None else ctx.reshape(v, ())
        for v, t in ((limit, F32), (most, I64))
    )
    kept = ctx.emit(graph.Suppress, corners, kinds, *bounds)
    return host("chosen", [rows, kept], [TensorType(I64, (m, 3))])
