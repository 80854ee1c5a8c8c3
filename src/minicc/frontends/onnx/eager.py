"""What `graph.host` runs for ONNX: a node at a time, on what its operands hold in that run.

An operator of the host's own table runs as that says. Of any other all operands are known then, as
if they were constants of the model, and what the importer makes of the node is evaluated by its
definition.

Mirrors: PyTorch's eager mode beneath a compiled graph; ONNX's reference evaluator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minicc.errors import UserError
from minicc.frontends.onnx.host import HOST, run_host
from minicc.frontends.onnx.options import attributes_of
from minicc.frontends.onnx.reader import Model, Node
from minicc.frontends.onnx.registry import OPERATORS
from minicc.ir import graph
from minicc.ir.core import Array, Region
from minicc.ir.graph.host import DEFINITIONS
from minicc.ir.interpret import Interpreter
from minicc.ir.types import OPAQUE, from_numpy
from minicc.later import Later

if TYPE_CHECKING:
    from minicc.frontends.onnx import importer
else:  # which imports this module
    importer = Later("minicc.frontends.onnx.importer")


def run_node(op: graph.Host, args: Sequence[Any]) -> tuple[Any, ...]:
    """The outputs of the node that an op stands for; UserError as of an import, or MC0158."""
    name = op.operator.partition(".")[2]
    attributes, texts = attributes_of(op.options)
    given: dict[int, Any] = {**texts, **dict(zip(op.places, args, strict=True))}
    inputs = tuple(f"input{k}" if k in given else "" for k in range(max(given, default=-1) + 1))
    outputs = tuple(f"output{k}" for k in range(len(op.types)))
    node = Node(name, " ".join(op.loc), inputs, outputs, attributes)
    arrays = (v for v in given.values() if isinstance(v, np.ndarray | np.generic))
    numbers = sum(from_numpy(v.dtype) is not None for v in arrays) == len(given)
    values: Sequence[Any]
    if name in HOST and not (numbers and name in OPERATORS):
        values = run_host(node, [given.get(k) for k in range(len(inputs))])
    elif numbers:
        named = {f"input{k}": np.asarray(v) for k, v in given.items()}
        values = _evaluated(node, named, op.versions)
    else:
        kinds = ", ".join(sorted({type(v).__name__ for v in given.values()}))
        text = f"{name} of what is no tensor of numbers ({kinds})"
        raise UserError("MC0159", text, where=op.loc)
    values = [*values, *[None] * (len(op.types) - len(values))]
    return tuple(
        v if t.dtype is OPAQUE else np.asarray(v) for v, t in zip(values, op.types, strict=False)
    )


def _evaluated(node: Node, known: dict[str, Array], versions: Sequence[int]) -> list[Any]:
    """What the importer makes of a node on constants, evaluated."""
    own, domain = versions
    opsets = {"": own, node.op.rpartition(".")[0]: domain}
    made = importer.Importer(Model(opsets, [node], [], node.outputs, {}), {}, known)
    made.node(node)
    found = [made.values[name] for name in node.outputs if name in made.values]
    made.ctx.use(found)
    region = Region((), made.ctx.builder.ops, found)
    with np.errstate(all="ignore"):
        return list(Interpreter().region(region, (), {}))


DEFINITIONS["onnx"] = run_node
