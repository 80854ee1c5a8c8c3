"""Damaged models: bytes changed at random, and structures that no exporter would write.

Whatever the file, minicc has to open and run it or say in words of its own what is wrong: soon,
within bounds of memory, and never as a bug of minicc.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    helper,
    numpy_helper,
)
from onnx.defs import get_all_schemas

import minicc
from minicc.errors import CompilerBug, MiniccError
from minicc.frontends.onnx.families import enter_all
from minicc.frontends.onnx.host.registry import HOST
from minicc.frontends.onnx.registry import OPERATORS
from minicc.options import Options
from tests.generate.growth import generate
from tests.generate.source import Source

MEMORY = 1 << 30
_MOST_ELEMENTS = 1 << 16
_NUMBERS = (
    0,
    1,
    -1,
    2,
    3,
    7,
    100,
    255,
    65536,
    2**31 - 1,
    -(2**31),
    2**32,
    2**62,
    2**63 - 1,
    -(2**63),
)
_REALS = (0.0, 1.0, -1.0, 1e-30, 1e30, float("inf"), float("-inf"), float("nan"))
_ATTRIBUTES = ("axis", "axes", "perm", "pads", "to", "kernel_shape", "group", "value")
_ELEMENTS = (
    TensorProto.FLOAT,
    TensorProto.INT64,
    TensorProto.INT32,
    TensorProto.UINT8,
    TensorProto.BOOL,
    TensorProto.DOUBLE,
    TensorProto.FLOAT16,
)
_TEXTS = (b"", b"x", b"\xff\xfe", b"linear", b"SAME_UPPER", b"a" * 1000, b"\x00")


def damaged(seed: int) -> bytes:
    """The hostile file of a seed."""
    source = Source(seed)
    if source.chance(0.2):
        return bytes(_alone(source).SerializeToString())
    model = generate(int(source.rng.integers(1 << 30))).model()
    if source.chance(0.3):
        return _bytes(source, model.SerializeToString())
    for _ in range(source.pick((1, 1, 2, 4))):
        # a change may find nothing to change, or what protobuf can't hold
        with contextlib.suppress(IndexError, ValueError, TypeError):
            source.pick(_CHANGES)(source, model)
    return bytes(model.SerializeToString())


def _alone(source: Source) -> ModelProto:
    """One node of any operator, whose operands and attributes nobody has thought about."""
    enter_all()
    schemas = {s.name if not s.domain else f"{s.domain}.{s.name}" for s in get_all_schemas()}
    name = source.pick(sorted(schemas | OPERATORS.keys() | HOST.keys()))
    domain, _, op = name.rpartition(".")
    inputs, constants = [], []
    usual = source.count(0, 4), source.pick(_ELEMENTS)
    for k in range(source.count(0, 6)):
        rank, element = source.count(0, 4), source.pick(_ELEMENTS)
        if source.chance(0.6):
            rank, element = usual
        if source.chance(0.5):
            shape = [source.pick((0, 1, 2, 3, 4)) for _ in range(rank)]
            values = source.rng.integers(-2, 4, shape)
            array = values.astype(helper.tensor_dtype_to_np_dtype(element))
            constants.append(numpy_helper.from_array(array, f"x{k}"))
        else:
            dims = [source.pick((0, 1, 2, 3, "n", "m", None)) for _ in range(rank)]
            inputs.append(helper.make_tensor_value_info(f"x{k}", element, dims))
    names = sorted([*(i.name for i in inputs), *(c.name for c in constants)])
    names = [name if source.chance(0.9) else "" for name in names]
    outputs = [f"y{k}" for k in range(source.count(1, 3))]
    node = helper.make_node(op, names, outputs, "alone", domain=domain)
    known = OPERATORS[name].attributes if name in OPERATORS else _ATTRIBUTES
    node.attribute.extend(_of_any_value(source, a) for a in sorted(known) if source.chance(0.3))
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph([node], "alone", inputs, results, constants)
    opsets = [("", source.pick((7, 11, 13, 18, 21, 24))), ("com.microsoft", 1), ("ai.onnx.ml", 5)]
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(*o) for o in opsets])


def _bytes(source: Source, data: bytes) -> bytes:
    """Some bytes changed, left out, doubled or moved."""
    found = bytearray(data)
    for _ in range(source.pick((1, 1, 2, 5, 20))):
        if not found:
            break
        at = source.count(0, len(found) - 1)
        length = min(source.pick((1, 1, 2, 8, 64)), len(found) - at)
        way = source.count(0, 5)
        if way == 0:
            found[at] ^= 1 << source.count(0, 7)
        elif way == 1:
            found[at] = source.pick((0, 1, 0x7F, 0x80, 0xFF))
        elif way == 2:
            del found[at : at + length]
        elif way == 3:
            found[at:at] = found[at : at + length]
        elif way == 4:
            found[at:at] = source.rng.integers(0, 256, length).astype(np.uint8).tobytes()
        else:
            del found[at:]
    return bytes(found)


Change = Callable[[Source, ModelProto], None]


def _node(source: Source, model: ModelProto) -> NodeProto:
    """A node of the graph or of a body."""
    nodes: list[NodeProto] = list(model.graph.node)
    for node in model.graph.node:
        nodes += [n for a in node.attribute if a.HasField("g") for n in a.g.node]
    return source.pick(nodes)


def _names(model: ModelProto) -> list[str]:
    made = [name for node in model.graph.node for name in node.output]
    return [*made, *(i.name for i in model.graph.input), *(t.name for t in model.graph.initializer)]


def _rewire(source: Source, model: ModelProto) -> None:
    """An input of a node becomes another value, which may come later, or be missing."""
    node = _node(source, model)
    name = source.pick(["", "nobody", *_names(model)])
    node.input[source.count(0, len(node.input) - 1)] = name


def _count(source: Source, model: ModelProto) -> None:
    """A node has more inputs or outputs, or fewer."""
    node = _node(source, model)
    side = source.pick((node.input, node.output))
    if source.chance(0.5):
        side.append(source.pick(["", "more", *_names(model)]))
    else:
        side.pop()


def _operator(source: Source, model: ModelProto) -> None:
    names = [s.name for s in get_all_schemas()]
    node = _node(source, model)
    node.op_type = source.pick((*names, "Nothing", ""))
    if source.chance(0.1):
        node.domain = source.pick(("ai.onnx.ml", "com.microsoft", "nowhere", "ai.onnx"))


def _of_any_value(source: Source, name: str) -> AttributeProto:
    values: Sequence[Any] = (
        source.pick(_NUMBERS),
        source.pick(_REALS),
        source.pick(_TEXTS),
        [source.pick(_NUMBERS) for _ in range(source.count(1, 5))],
        [source.pick(_REALS) for _ in range(source.count(1, 5))],
        [source.pick(_TEXTS) for _ in range(source.count(1, 3))],
    )
    return helper.make_attribute(name, source.pick(values))


def _attribute(source: Source, model: ModelProto) -> None:
    """An attribute has another value, another type, or a name that belongs to it or to none."""
    node = _node(source, model)
    if node.attribute and source.chance(0.8):
        old = source.pick(list(node.attribute))
        name = old.name
        if old.type == AttributeProto.INT and source.chance(0.7):
            old.i = source.pick(_NUMBERS)
            return
        if old.type == AttributeProto.INTS and source.chance(0.7):
            old.ints[source.count(0, len(old.ints) - 1)] = source.pick(_NUMBERS)
            return
        node.attribute.remove(old)
    else:
        name = source.pick(_ATTRIBUTES)
    if source.chance(0.9):
        node.attribute.append(_of_any_value(source, name))


def _tensor(source: Source, model: ModelProto) -> None:
    """A constant has other extents, another element type, or other or fewer values."""
    tensor = source.pick(list(model.graph.initializer))
    way = source.count(0, 4)
    if way == 0:
        tensor.dims.append(source.pick(_NUMBERS))
    elif way == 1:
        tensor.dims[source.count(0, len(tensor.dims) - 1)] = source.pick(_NUMBERS)
    elif way == 2:
        tensor.data_type = source.count(0, 27)
    elif way == 3:
        tensor.raw_data = tensor.raw_data[: source.count(0, len(tensor.raw_data))]
    elif tensor.data_type == TensorProto.INT64:
        values = np.frombuffer(tensor.raw_data, np.int64).copy()
        values[source.count(0, len(values) - 1)] = source.pick(_NUMBERS)
        tensor.raw_data = values.tobytes()
    else:
        tensor.raw_data = _bytes(source, tensor.raw_data)


def _input(source: Source, model: ModelProto) -> None:
    """An input has another element type, rank or extent, or none of them."""
    given = source.pick(list(model.graph.input))
    type_ = given.type.tensor_type
    way = source.count(0, 5)
    if way == 0:
        type_.elem_type = source.count(0, 27)
    elif way == 1:
        source.pick(list(type_.shape.dim)).dim_value = source.pick(_NUMBERS)
    elif way == 2:
        source.pick(list(type_.shape.dim)).dim_param = source.pick(("n", "n3", "", "a b", "n*2"))
    elif way == 3:
        type_.shape.dim.add().dim_value = source.pick(_NUMBERS)
    elif way == 4:
        type_.ClearField("shape")
    else:
        given.ClearField("type")


def _name(source: Source, model: ModelProto) -> None:
    """Two things have one name, or none."""
    things = [*model.graph.input, *model.graph.output, *model.graph.initializer]
    source.pick(things).name = source.pick(["", "nobody", *_names(model)])


def _repeat(source: Source, model: ModelProto) -> None:
    """Nodes are doubled, left out, or stand in another order."""
    nodes = list(model.graph.node)
    way = source.count(0, 2)
    if way == 0:
        nodes.insert(source.count(0, len(nodes)), source.pick(nodes))
    elif way == 1:
        nodes.pop(source.count(0, len(nodes) - 1))
    else:
        nodes = [nodes[int(k)] for k in source.rng.permutation(len(nodes))]
    kept = [NodeProto.FromString(n.SerializeToString()) for n in nodes]
    del model.graph.node[:]
    model.graph.node.extend(kept)


def _opset(source: Source, model: ModelProto) -> None:
    way = source.count(0, 3)
    if way == 0:
        model.opset_import[0].version = source.pick((0, 1, 5, 6, 7, 13, 21, 99, -1, 2**62))
    elif way == 1:
        model.ir_version = source.pick((0, 1, 3, 4, 9, 99, -1, 2**62))
    elif way == 2:
        model.opset_import.add().domain = source.pick(("", "ai.onnx", "x"))
    else:
        del model.opset_import[:]


def _body(source: Source, model: ModelProto) -> None:
    """A body loses an input or output, or is another body, or one within itself."""
    graphs = [(n, a) for n in model.graph.node for a in n.attribute if a.HasField("g")]
    node, attribute = source.pick(graphs)
    way = source.count(0, 3)
    if way == 0:
        attribute.g.output.pop()
    elif way == 1:
        attribute.g.input.pop()
    elif way == 2:
        attribute.g.node.append(NodeProto.FromString(node.SerializeToString()))
    else:
        attribute.g.CopyFrom(GraphProto.FromString(model.graph.SerializeToString()))


_CHANGES: tuple[Change, ...] = (
    _rewire,
    _count,
    _operator,
    _attribute,
    _attribute,
    _attribute,
    _tensor,
    _tensor,
    _tensor,
    _input,
    _input,
    _name,
    _repeat,
    _opset,
    _body,
    _body,
)


def offence(data: bytes, seed: int = 0) -> str:
    """What minicc does with a file that it must not; "" where it behaves."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found = _offence(data, seed)
    return found or next((str(w.message) for w in warned), "")


def _offence(data: bytes, seed: int) -> str:
    try:
        limits = {"rounds": 1 << 16}  # a loop may say that it has more than anybody waits for
        options = Options(cache_dir=False, threads=1, memory_limit=MEMORY, limits=limits)
        session = minicc.InferenceSession(data, options=options)
        session.run(None, _feeds(session, Source(seed)))
    except CompilerBug as error:
        return str(error)[:2000]
    except MiniccError as error:
        # an empty text would say nothing
        return "" if error.message else "an error without words"
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:2000]
    return ""


def _feeds(session: minicc.InferenceSession, source: Source) -> dict[str, Any]:
    """Small arrays for whatever a session says that it takes."""
    feeds = {}
    extents: dict[str, int] = {}
    for name, type_ in session.signature:
        if type_ is None:
            continue
        shape = [
            n if isinstance(n, int) else extents.setdefault(str(n), source.count(1, 3))
            for n in type_.shape
        ]
        if np.prod([max(float(n), 1) for n in shape]) <= _MOST_ELEMENTS:
            drawn = source.rng.integers(0, 3, shape)
            feeds[name] = drawn.astype(type_.dtype.numpy)
    return feeds
