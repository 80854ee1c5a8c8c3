"""Nodes that run on the host: their types, as far as ONNX's own inference or a rule tells them.

An extent that is decided by data is a symbol that the op binds. What is no tensor of numbers, or of
no known rank, is opaque; what it is for ONNX is kept aside, for the inference of what uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.host import eager
from minicc.frontends.onnx.host.registry import draws_anew
from minicc.frontends.onnx.host.types import FIRST_OUTPUTS
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.model.tensors import ELEMENTS, element_number, element_type
from minicc.frontends.onnx.nested import node_proto, without_names
from minicc.frontends.onnx.ops.boxes import emit_suppression
from minicc.frontends.onnx.ops.sequence import (
    Grown,
    Items,
    Rows,
    items_of,
    read_from,
    without_parts_of_1,
)
from minicc.frontends.onnx.options import options_of
from minicc.frontends.onnx.symbols import Symbols
from minicc.ir import graph
from minicc.ir.affine import Dim, multiply, symbols
from minicc.ir.affine_facts import at_least
from minicc.ir.core import Value
from minicc.ir.graph.host import DEFINITIONS
from minicc.ir.types import I64, OPAQUE, TensorType

assert DEFINITIONS["onnx"] is eager.run_node
_MOST_PARTS = 1 << 16  # elements of a vector of which each is looked at
ANYTHING = TensorType(OPAQUE)
_SEQUENCES = 13  # an opset that has them
_KNOWN = 1 << 10  # elements of a constant that inference is shown
_MOST_AXES = 64  # of an array of NumPy
# which operand has an element for each axis of the result
_OF_AXES = {"ConstantOfShape": 0, "Expand": 1, "Reshape": 1}
Operands = Sequence[Value | None]


def _common(one: Any, other: Any) -> Any:
    """What a protobuf type says that is so of another one too."""
    if one == other:
        return one
    made = type(one)()
    if one.HasField("tensor_type") and other.HasField("tensor_type"):
        if one.tensor_type.elem_type == other.tensor_type.elem_type:
            made.tensor_type.elem_type = one.tensor_type.elem_type
    elif one.HasField("sequence_type") and other.HasField("sequence_type"):
        inner = _common(one.sequence_type.elem_type, other.sequence_type.elem_type)
        made.sequence_type.elem_type.CopyFrom(inner)
    return made


class Types:
    """What values are for ONNX: the protobuf types of the opaque ones."""

    def __init__(self, symbols: Symbols) -> None:
        self.symbols = symbols
        self.protos: dict[Value, Any] = {}
        self.empty: set[Value] = set()  # sequences of nothing, of which any items are the first
        self.items: dict[Value, Items] = {}  # of sequences that are known
        self.unmade: set[Value] = set()  # those of them that no op makes

    def listed(self, items: Items | None = None) -> Value:
        """A sequence of these tensors that no op makes; without them one that a round takes."""
        value = Value(ANYTHING)
        self.items[value] = Grown(value) if items is None else items
        self.unmade.add(value)
        return value

    def adopt(self, values: Sequence[Value], *others: Sequence[Value]) -> None:
        """Take opaque values for what others are to ONNX, each for one of its column."""
        for value, *known in zip(values, *others, strict=True):
            if value.type.dtype is not OPAQUE:
                continue
            filled = [v for v in known if v not in self.empty]
            self.protos[value] = reduce(_common, map(self.proto, filled or known))
            if not filled:
                self.empty.add(value)

    def proto(self, value: Value | None) -> Any:
        """The protobuf type of a value, empty for none; free extents stand in it as text."""
        from onnx import TypeProto, helper

        if value is None:
            return TypeProto()
        if value.type.dtype is OPAQUE:
            return self.protos.get(value, TypeProto())
        shape = [n if isinstance(n, int) else str(n) for n in value.type.shape]
        return helper.make_tensor_type_proto(element_number(value.type.dtype), shape)

    def is_no_tensor(self, value: Value) -> bool:
        """Whether a value is surely something else than a tensor: a sequence or an optional."""
        kind = self.protos[value].WhichOneof("value") if value in self.protos else None
        return kind not in (None, "tensor_type")

    def read(self, proto: Any, name: str, known: Mapping[str, Dim]) -> TensorType:
        """The type that a protobuf type says; opaque where it is no tensor of a known rank."""
        tensor = proto.tensor_type if proto is not None else None
        is_tensor = proto is not None and proto.HasField("tensor_type")
        if tensor is None or not is_tensor or not tensor.HasField("shape"):
            return ANYTHING
        element = ELEMENTS.get(tensor.elem_type)
        if element is None:
            return ANYTHING
        shape: list[Dim] = []
        for axis, dim in enumerate(tensor.shape.dim):
            if dim.HasField("dim_value"):
                shape.append(dim.dim_value)
            else:
                shape.append(known.get(dim.dim_param) or self.symbols.fresh(name, axis))
        return TensorType(element, tuple(shape))

    def joined(
        self,
        one: TensorType,
        other: TensorType,
        inner: set[str],
        name: str,
        met: dict[tuple[Dim, Dim], Dim] | None = None,
    ) -> TensorType:
        """What is known of a value that is one or the other.

        An extent that they do not share, or that depends on a symbol of `inner`, gets a new symbol:
        the one that `met` has for such a pair of extents.
        """
        met = {} if met is None else met
        if OPAQUE in (one.dtype, other.dtype) or one.dtype is not other.dtype:
            return ANYTHING
        if one.rank != other.rank:
            return ANYTHING
        shape: list[Dim] = []
        for axis, (a, b) in enumerate(zip(one.shape, other.shape, strict=True)):
            known = a == b and inner.isdisjoint(symbols(a))
            if not known and (a, b) not in met:
                met[a, b] = self.symbols.fresh(name, axis)
            shape.append(a if known else met[a, b])
        return TensorType(one.dtype, tuple(shape))


def known_sequence(
    ctx: Context, node: Node, operands: Operands, types: Types
) -> tuple[Value, ...] | None:
    """What a node gives that reads or makes a sequence of known tensors; None for others."""
    node, operands = without_parts_of_1(ctx, node, operands)
    read = read_from(ctx, node, operands, types.items)
    if read is not None:
        return (read,)
    items = items_of(ctx, node, operands, types.items)
    return None if items is None else (types.listed(items),)


def held(ctx: Context, types: Types, value: Value) -> Value:
    """A value, which an op makes now if it is a known sequence that none makes."""
    if value not in types.unmade:
        return value
    items = types.items[value]
    operands = (items.stack,) if isinstance(items, Rows) else items
    assert isinstance(operands, tuple)
    names = tuple(f"tensor{k}" for k in range(len(operands)))
    op = "SplitToSequence" if isinstance(items, Rows) else "SequenceConstruct"
    attributes = {"axis": 0, "keepdims": 0} if isinstance(items, Rows) else {}
    node = Node(op if operands else "SequenceEmpty", "", names, ("sequence",), attributes)
    (made,) = emit_hosted(ctx, node, operands, {}, types, (_SEQUENCES, _SEQUENCES))
    types.items[made] = items
    return made


def emit_hosted(
    ctx: Context,
    node: Node,
    operands: Operands,
    texts: Mapping[int, Any],
    types: Types,
    versions: tuple[int, int],
) -> tuple[Value, ...]:
    """What a node gives that the host runs; `texts` are inputs that are constant texts.

    Of a sequence that is known it may be a value of the graph.
    """
    node, operands = without_parts_of_1(ctx, node, operands)
    read = read_from(ctx, node, operands, types.items)
    if read is not None:
        return (read,)
    if node.op == "NonMaxSuppression" and not texts:
        chosen = emit_suppression(ctx, node, operands, types.symbols.fresh, versions)
        if chosen is not None:
            return chosen
    items = items_of(ctx, node, operands, types.items) if not texts else None
    ctx.use(v for v in operands if v is not None)
    made = ctx.builder.add(_host_op(ctx, node, operands, texts, types, versions)).results
    if items is not None:
        types.items[made[0]] = items
    return made


def _host_op(
    ctx: Context,
    node: Node,
    operands: Operands,
    texts: Mapping[int, Any],
    types: Types,
    versions: tuple[int, int],
) -> graph.Host:
    given = {k: v for k, v in enumerate(operands) if v is not None}
    try:
        found = _by_schema(ctx, node, given, texts, types, versions)
    except _refusals():
        found = {}  # what is wrong with the node is said when it runs
    known = {str(n): n for v in given.values() for n in v.type.shape if not isinstance(n, int)}
    results: list[TensorType] = []
    protos: list[Any] = []
    for k, name in enumerate(node.outputs):
        proto = found.get(f"output{k}") if name else None
        if name and k == 0 and node.op in FIRST_OUTPUTS and 0 in given:
            proto = FIRST_OUTPUTS[node.op](node, types.proto(given[0]))
        result = types.read(proto, name, known)
        results.append(_refined(ctx, node, given, name, types, result) if name else result)
        protos.append(proto)
    op = graph.Host(
        tuple(given.values()),
        operator=f"onnx.{node.op}",
        places=tuple(given),
        types=tuple(results),
        options=options_of(node.attributes, texts, node.name),
        versions=versions,
        draws=draws_anew(node),
        loc=ctx.builder.loc,
    )
    for r, proto in zip(op.results, protos, strict=True):
        if r.type.dtype is OPAQUE and proto is not None:
            types.protos[r] = proto
    if node.op == "SequenceEmpty":
        types.empty.update(op.results)
    elif node.op == "SequenceInsert" and 1 in given and given.get(0) in types.empty:
        first = type(types.proto(given[0]))()
        first.sequence_type.elem_type.CopyFrom(without_names(types.proto(given[1])))
        types.protos[op.results[0]] = first
    return op


def numbers_below(ctx: Context, end: Value, name: str) -> Value:
    """0, 1, ... below a whole number of rank 0, which may be data: a vector of as many elements.

    Its extent is a symbol then, named for `name`, that a Range on the host binds. MC0223 where the
    host may run nothing.
    """
    known = ctx.array(end)
    if known is not None:
        ctx.room(known)
        return ctx.constant(np.arange(int(known)))
    if not ctx.hosting:
        ctx.known(end, f"{name} is computed when the model runs, which")
    operands = (ctx.scalar(0, I64), end, ctx.scalar(1, I64))
    ctx.use(operands)
    op = graph.Host(
        operands,
        operator="onnx.Range",
        places=(0, 1, 2),
        types=(TensorType(I64, (ctx.symbols.fresh(name, 0),)),),
        versions=(11, 11),
        loc=ctx.builder.loc,
    )
    return ctx.builder.add(op).results[0]


def complaint(
    ctx: Context, node: Node, operands: Sequence[Value | None], types: Types, error: Exception
) -> str:
    """What is wrong with the operands of a node that can't be imported; "" for nothing.

    ONNX's inference says so, or the error is an index that leaves an operand's shape.
    """
    given = {k: v for k, v in enumerate(operands) if v is not None}
    try:
        _by_schema(ctx, node, given, {}, types, (ctx.opset, ctx.opset))
    except _refusals() as refusal:
        return str(refusal).strip()
    if isinstance(error, IndexError):
        return f"an operand has fewer axes or elements than it reads ({error})"
    return ""


def _refusals() -> tuple[type[Exception], ...]:
    from onnx import checker, shape_inference

    return shape_inference.InferenceError, checker.ValidationError, RuntimeError, ValueError


def _by_schema(
    ctx: Context,
    node: Node,
    given: Mapping[int, Value],
    texts: Mapping[int, Any],
    types: Types,
    versions: tuple[int, int],
) -> Mapping[str, Any]:
    """The protobuf types of a node's outputs by ONNX's inference; none where it knows none.

    Raises errors of `_refusals` where it refuses.
    """
    from onnx import defs, helper, shape_inference
    from onnx.numpy_helper import from_array

    axes = given.get(_OF_AXES.get(node.op, -1))
    if axes is not None and axes.type.rank:
        require_axes(ctx, axes.type.shape[0])  # inference makes each of them
    domain, _, op = node.op.rpartition(".")
    own, version = versions
    if not version or not defs.has(op, version, domain):
        return {}
    count = max((*given, *texts), default=-1) + 1
    inputs = [f"input{k}" if k in given or k in texts else "" for k in range(count)]
    outputs = [f"output{k}" if name else "" for k, name in enumerate(node.outputs)]
    made = node_proto(node, inputs, outputs)
    protos = {f"input{k}": types.proto(v) for k, v in given.items()}
    protos |= {
        f"input{k}": helper.make_tensor_type_proto(t.data_type, t.dims) for k, t in texts.items()
    }
    contents = {f"input{k}": ctx.array(v) for k, v in given.items()}
    data = {
        name: from_array(a) for name, a in contents.items() if a is not None and a.size < _KNOWN
    }
    opsets = [helper.make_opsetid("", own), helper.make_opsetid(domain, version)]
    # by that of opset 10 a slice of a free axis is as long as the axis
    schema = defs.get_schema(op, 11 if node.op == "Slice" and version == 10 else version, domain)
    return shape_inference.infer_node_outputs(schema, made, protos, data, None, opsets)


def require_axes(ctx: Context, count: Dim) -> None:
    """MC0221 where a result has more axes than an array may have."""
    if isinstance(count, int) and count > _MOST_AXES:
        text = f"{count} axes, of which an array has at most {_MOST_AXES}"
        raise ctx.unsupported(text, "reshape it within the model")


def _may_be_0(extent: Dim, made: Collection[str]) -> bool:
    """Whether data may decide that an extent is 0; `made` are the sizes that they decide."""
    return not (symbols(extent).isdisjoint(made) or at_least(extent, 1))


def _refined(
    ctx: Context,
    node: Node,
    given: Mapping[int, Value],
    name: str,
    types: Types,
    inferred: TensorType,
) -> TensorType:
    """The type of an output with what a rule knows of its extents and inference does not."""
    x, rule = given.get(0), _EXTENTS.get(node.op)
    if x is None or x.type.dtype is OPAQUE or rule is None:
        return inferred
    try:
        known = rule(ctx, node, given)
    except IndexError:
        return inferred  # an axis that is not there: what is wrong is said when the node runs
    if node.op == "Reshape" and known is not None and not node.integer("allowzero", 0):
        # an extent of 0 would stand for that of the operand
        known = [None if n is None or _may_be_0(n, types.symbols.made) else n for n in known]
    if known is None or (inferred is not ANYTHING and inferred.rank != len(known)):
        return inferred
    if inferred is ANYTHING:
        element = x.type.dtype
        if node.op in _WINDOWS:
            element = element_type(node.integer("output_datatype", 1), "the result", node.name)
        inferred = TensorType(element, (-1,) * len(known))
    pairs = enumerate(zip(known, inferred.shape, strict=True))
    shape = [
        types.symbols.fresh(name, axis) if (n := b if a is None else a) == -1 else n
        for axis, (a, b) in pairs
    ]
    return TensorType(inferred.dtype, tuple(shape))


Given = Mapping[int, Value]
Extents = list[Dim | None] | None  # of each axis what is known of it; None where the rank is not


def _parts(ctx: Context, given: Given, position: int) -> Extents:
    """What is known of the elements of a vector."""
    value = given.get(position)
    if value is None or value.type.rank > 1 or value.type.dtype.is_float:
        return None
    n = value.type.shape[0] if value.type.rank else 1
    return ctx.partly(value) if isinstance(n, int) and n <= _MOST_PARTS else None


def _of_rank(given: Given, more: Extents, sign: int) -> Extents:
    rank = -1 if more is None else given[0].type.rank + sign * len(more)
    return None if rank < 0 else [None] * rank


def _reshaped(ctx: Context, node: Node, given: Given) -> Extents:
    wanted, own = _parts(ctx, given, 1), given[0].type.shape
    if wanted is None:
        return None
    kept = [
        n == 0 and not node.integer("allowzero", 0) and k < len(own) for k, n in enumerate(wanted)
    ]
    return [own[k] if kept[k] else None if n == -1 else n for k, n in enumerate(wanted)]


def _expanded(ctx: Context, node: Node, given: Given) -> Extents:
    wanted, own = _parts(ctx, given, 1), list(given[0].type.shape)
    if wanted is None:
        return None
    rank = max(len(wanted), len(own))
    pairs = zip([1] * (rank - len(own)) + own, [1] * (rank - len(wanted)) + wanted, strict=True)
    return [_broadcast(a, b) for a, b in pairs]


def _broadcast(own: Dim, wanted: Dim | None) -> Dim | None:
    """The extent that an axis is expanded to, where it is known."""
    if own == 1:
        return wanted
    if wanted == 1 or isinstance(own, int):
        return own
    return wanted if isinstance(wanted, int) else None


def _tiled(ctx: Context, node: Node, given: Given) -> Extents:
    times, own = _parts(ctx, given, 1), given[0].type.shape
    if times is None or len(times) != len(own):
        return [None] * len(own)
    return [None if n is None else multiply(n, a) for n, a in zip(times, own, strict=True)]


def _sliced(ctx: Context, node: Node, given: Given) -> Extents:
    starts, own = _parts(ctx, given, 1), list(given[0].type.shape)
    axes = ctx.array(given[3]) if 3 in given else None
    if starts is None or (3 in given and axes is None):
        return [None] * len(own)
    cut = range(len(starts)) if axes is None else [int(a) for a in axes.ravel()]
    return [None if k in cut or k - len(own) in cut else n for k, n in enumerate(own)]


def _padded(ctx: Context, node: Node, given: Given) -> Extents:
    pads, own = _parts(ctx, given, 1), given[0].type.shape
    rank = len(own)
    if pads is None or 3 in given or len(pads) != 2 * rank:
        return [None] * rank
    both = zip(own, pads[:rank], pads[rank:], strict=True)
    return [None if a is None or b is None else n + a + b for n, a, b in both]


def _reduced(ctx: Context, node: Node, given: Given) -> Extents:
    rank, axes = given[0].type.rank, _parts(ctx, given, 1)
    if node.integer("keepdims", 1):
        return [None] * rank
    if axes == []:
        return [None] * rank if node.integer("noop_with_empty_axes", 0) else []
    return _of_rank(given, axes, -1)


def _col2im(ctx: Context, node: Node, given: Given) -> Extents:
    image = _parts(ctx, given, 1)
    return None if image is None else [given[0].type.shape[0], None, *image]


def _same_rank(ctx: Context, node: Node, given: Given) -> Extents:
    return [None] * given[0].type.rank


_WINDOWS = ("HannWindow", "HammingWindow", "BlackmanWindow")
_EXTENTS: dict[str, Callable[[Context, Node, Given], Extents]] = {
    "Reshape": _reshaped,
    "Expand": _expanded,
    "ConstantOfShape": lambda ctx, node, given: _parts(ctx, given, 0),
    "Tile": _tiled,
    "Slice": _sliced,
    "Pad": _padded,
    "Squeeze": lambda ctx, node, given: _of_rank(given, _parts(ctx, given, 1), -1),
    "Unsqueeze": lambda ctx, node, given: _of_rank(given, _parts(ctx, given, 1), 1),
    "Col2Im": _col2im,
    **{
        f"Reduce{kind}": _reduced
        for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum")
    },
    "ReduceSumSquare": _reduced,
    **dict.fromkeys(_WINDOWS, lambda ctx, node, given: [None]),
    **dict.fromkeys(("CenterCropPad", "MaxUnpool", "DFT", "Resize", "Upsample"), _same_rank),
}
