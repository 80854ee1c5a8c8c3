"""Graphs within nodes: the branches of `If`, and the bodies of operators that are functions.

Both are written in place of the node, under names that are made unique.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from minicc.frontends.onnx.model.reader import Model, Node, read_node, read_subgraph
from minicc.ir.affine import Dim
from minicc.ir.types import TensorType
from minicc.wording import counted

# operators whose sub-graphs run as often as data say
CONTROL = ("If", "Loop", "Scan")
# Operators of ONNX Runtime's own domain that ONNX has as functions, since an opset.
TWINS = {"com.microsoft.LinearAttention": "LinearAttention"}
_OPSET_OF_TWINS = 27
_MOST_HEADS = 4096  # of values, each of which is repeated by name


# The branches of Ifs that were read in an import, by the node, which is held, and the choice.
Written = dict[tuple[int, bool], tuple[Node, list[Node]]]


def branch(node: Node, taken: bool, model: Model, written: Written) -> list[Node]:
    """The nodes of the branch of an `If` that runs, making the node's outputs.

    Its initialisers are added to the model's, under names of their own. It is read once, though it
    may be imported in several ways.
    """
    _, nodes = written.get((id(node), taken), (node, None))
    if nodes is None:
        nodes = _read_branch(node, taken, model)
        written[id(node), taken] = node, nodes
    return nodes


def _read_branch(node: Node, taken: bool, model: Model) -> list[Node]:
    proto = node.attributes["then_branch" if taken else "else_branch"]
    inner = read_subgraph(proto, model.opsets, model.files)
    made = {o for n in inner.nodes for o in n.outputs if o}
    place = f"{node.name}/{'then' if taken else 'else'}"
    names = {name: f"{place}/{name}" for name in (*made, *inner.initialisers)}
    if len(inner.outputs) != len(node.outputs):
        text = f"a branch gives {counted(len(inner.outputs), 'value')}, and the node"
        raise ValueError(f"{text} {len(node.outputs)}")
    ends: list[Node] = []
    for name, out in zip(inner.outputs, node.outputs, strict=True):
        if out:
            ends.append(Node("Identity", f"{place}/{out}", (names.get(name, name),), (out,), {}))
    model.add({names[name]: tensor for name, tensor in inner.initialisers.items()})
    return [rename(n, names, place) for n in inner.nodes] + ends


def rename(node: Node, names: Mapping[str, str], prefix: str) -> Node:
    """A node on values of other names, called after the node that it stands for."""
    return replace(
        node,
        name=f"{prefix}/{node.name}",
        inputs=tuple(names.get(n, n) for n in node.inputs),
        outputs=tuple(names.get(n, n) for n in node.outputs),
        captures=tuple(names.get(n, n) for n in node.captures),
        attributes={k: _renamed_graph(v, names) for k, v in node.attributes.items()},
    )


def _renamed_graph(value: Any, names: Mapping[str, str]) -> Any:
    """A sub-graph that uses the renamed values; anything else as it is."""
    if not hasattr(value, "node"):
        return value
    out = type(value)()
    out.CopyFrom(value)
    own = {i.name for i in out.input} | {t.name for t in out.initializer}
    own |= {o for n in out.node for o in n.output}
    outer = {k: v for k, v in names.items() if k not in own}
    for node in out.node:
        for k, name in enumerate(node.input):
            node.input[k] = outer.get(name, name)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                attribute.g.CopyFrom(_renamed_graph(attribute.g, outer))
    for result in out.output:
        result.name = outer.get(result.name, result.name)
    return out


def node_proto(node: Node, inputs: Sequence[str], outputs: Sequence[str]) -> Any:
    """The protobuf message of a node on values of these names."""
    from onnx import AttributeProto, helper

    domain, _, op = node.op.rpartition(".")
    plain = {k: v for k, v in node.attributes.items() if not isinstance(v, AttributeProto)}
    made = helper.make_node(op, inputs, outputs, domain=domain, **plain)
    # those whose type is none that a node has, which stand as they were read
    made.attribute.extend(v for v in node.attributes.values() if isinstance(v, AttributeProto))
    return made


def _written_for(schema: Any, node: Node, opset: int, types: Sequence[Any]) -> Any:
    """The function that a schema writes for a node on operands of these protobuf types."""
    from onnx import FunctionProto

    if schema.name == "SequenceMap" and not all(proto.WhichOneof("value") for proto in types):
        raise ValueError("what an operand is, a tensor or a sequence, is not known")
    known = [without_names(proto).SerializeToString() for proto in types]
    made = node_proto(node, node.inputs, node.outputs)
    versions = schema.context_dependent_function_opset_versions
    version = max((v for v in versions if v <= opset), default=min(versions))
    written = schema.get_context_dependent_function_with_opset_version(
        version, made.SerializeToString(), known
    )
    return FunctionProto.FromString(written)


def without_names(proto: Any) -> Any:
    """A type whose free dimensions have no names."""
    out = type(proto)()
    out.CopyFrom(proto)
    for dim in out.tensor_type.shape.dim if out.HasField("tensor_type") else ():
        if not dim.HasField("dim_value"):
            dim.Clear()
    return out


def versions_within(node: Node) -> Mapping[str, int]:
    """The opsets of the body of an operator, where they may not be the model's."""
    return {"": _OPSET_OF_TWINS} if node.op in TWINS else {}


def _for_each_value(node: Node, types: Sequence[Any]) -> tuple[list[Node], Node]:
    """Nodes that repeat heads of queries and keys for the values, where these have more; the node.

    ONNX's function is of queries that have at least as many heads as the values, and of keys that
    have as many.
    """
    heads, wanted = node.integer("q_num_heads", 0), node.integer("kv_num_heads", 0)
    if heads < 1 or wanted < 1 or len(node.inputs) < 2:
        return [], node
    widths = [_width(proto) for proto in types[:2]]
    keys = widths[1] * heads // widths[0] if all(widths) else wanted
    before: list[Node] = []
    inputs = list(node.inputs)
    for index, count in enumerate((heads, keys)):
        if not 0 < count < wanted <= _MOST_HEADS or wanted % count:
            continue
        whole = f"{node.name}/{('query', 'key')[index]}"
        parts = tuple(f"{whole}/{k}" for k in range(count))
        repeated = tuple(part for part in parts for _ in range(wanted // count))
        options = {"axis": -1, "num_outputs": count}
        before += [
            Node("Split", f"{whole}/Split", (inputs[index],), parts, options),
            Node("Concat", f"{whole}/Concat", repeated, (whole,), {"axis": -1}),
        ]
        inputs[index] = whole
    attributes = {**node.attributes, "q_num_heads": max(heads, wanted) if before else heads}
    return before, replace(node, inputs=tuple(inputs), attributes=attributes)


def heads_demanded(node: Node, types: Sequence[TensorType]) -> tuple[Dim, Dim] | None:
    """What must be equal for a twin's keys to have as many heads as its values, as it is taken.

    None where the widths of queries and keys are known, and `types` say how many they have.
    """
    heads, wanted = node.integer("q_num_heads", 0), node.integer("kv_num_heads", 0)
    query, key = (t.shape[-1] for t in types[:2])
    known = isinstance(query, int) and isinstance(key, int)
    return None if known or heads < 1 or wanted < 1 else (key * heads, query * wanted)


def _width(proto: Any) -> int:
    """The last extent of a protobuf type of a tensor, 0 if it is not known."""
    dims = proto.tensor_type.shape.dim
    return int(dims[-1].dim_value) if dims else 0


def function_body(node: Node, opset: int, types: Callable[[], Sequence[Any]]) -> list[Node] | None:
    """The nodes of the function that an operator's schema holds; None where it has none.

    Some schemas write it when they are told the protobuf `types` of the operands. ValueError where
    what they write lacks an output: an attribute or input that decides it is not there.
    """
    from onnx import defs

    twin = TWINS.get(node.op)
    out: list[Node] = []
    if twin is not None:
        if node.integer("state_window", 0):
            raise ValueError("its states are those of several steps")
        out, node = _for_each_value(replace(node, op=twin), types())
        opset = _OPSET_OF_TWINS
    domain, _, op = node.op.rpartition(".")
    if not opset or not defs.has(op, opset, domain):
        return None
    schema: Any = defs.get_schema(op, opset, domain)
    if schema.has_function:
        body = schema.function_body
    elif schema.has_context_dependent_function:
        body = _written_for(schema, node, opset, types())
    else:
        return None
    names = dict(zip(body.input, node.inputs, strict=False))
    names.update(dict.fromkeys(body.input[len(node.inputs) :], ""))
    names.update(zip(body.output, node.outputs, strict=False))
    defaults = {a.name: a for a in body.attribute_proto}
    for index, proto in enumerate(body.node):
        inner = type(proto)()
        inner.CopyFrom(proto)
        given: dict[str, Any] = {}
        for attribute in list(inner.attribute):
            wanted = attribute.ref_attr_name
            if not wanted:
                continue
            inner.attribute.remove(attribute)
            if wanted in node.attributes:
                given[attribute.name] = node.attributes[wanted]
            elif wanted in defaults:
                default = type(attribute)()
                default.CopyFrom(defaults[wanted])
                default.name = attribute.name
                inner.attribute.append(default)
        for name in (*inner.input, *inner.output):
            names.setdefault(name, f"{node.name}/{name}" if name else "")
        read = read_node(inner, index)
        attributes = {**read.attributes, **given}
        out.append(rename(replace(read, attributes=attributes), names, node.name))
    made = {name for inner_node in out for name in inner_node.outputs}
    if missing := [name for name in node.outputs if name and name not in made]:
        text = "an attribute or input is missing, so that its function does not make"
        raise ValueError(f"{text} {', '.join(missing)}")
    return out
