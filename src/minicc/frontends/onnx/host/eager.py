"""What `graph.host` runs for ONNX: a node at a time, on what its operands hold in that run.

An operator of the host's own table runs as that says. Of any other the small operands, or all where
that is not enough, are known then, as if they were constants of the model, and what the importer
makes of the node is evaluated by its definition. One that only moves elements moves texts too: it
is evaluated on numbers that stand for them.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from minicc.errors import UserError
from minicc.frontends.onnx.host.registry import HOST, WHERE, fresh_seed, gives_texts, run_host
from minicc.frontends.onnx.host.text import texts
from minicc.frontends.onnx.model.reader import Model, Node
from minicc.frontends.onnx.needs import NeedsValueError
from minicc.frontends.onnx.options import attributes_of
from minicc.frontends.onnx.registry import OPERATORS
from minicc.ir import graph
from minicc.ir.core import Array, Region
from minicc.ir.graph.host import DEFINITIONS
from minicc.ir.indices import OutOfRange
from minicc.ir.interpret import Interpreter
from minicc.ir.types import OPAQUE, from_numpy, tensor_of
from minicc.later import Later

if TYPE_CHECKING:
    from minicc.frontends.onnx import families, importer
else:  # which import this module
    families = Later("minicc.frontends.onnx.families")
    importer = Later("minicc.frontends.onnx.importer")


_TENSORS = "OUSbiuf"  # kinds of NumPy's element types
# Operators that move elements and compute nothing of them.
MOVING = frozenset(
    (
        *("CenterCropPad", "Concat", "DepthToSpace", "Expand", "Flatten", "Gather"),
        *("GatherElements", "GatherND", "OneHot", "Pad", "Reshape", "ReverseSequence", "Scatter"),
        *("ScatterElements", "ScatterND", "Shape", "Size", "Slice", "SpaceToDepth", "Split"),
        *("Squeeze", "TensorScatter", "Tile", "Transpose", "Trilu", "Unsqueeze", "Where"),
    )
)
_SMALL, _KEPT = 64, 64  # elements of what decides an import, and imports that an op keeps


class _Node:
    """The node that an op stands for, and what it became for operands that were met."""

    def __init__(self, op: graph.Host) -> None:
        name = op.operator.partition(".")[2]
        attributes, self.texts = attributes_of(op.options)
        places = {*op.places, *self.texts}
        inputs = tuple(
            f"input{k}" if k in places else "" for k in range(max(places, default=-1) + 1)
        )
        outputs = tuple(f"output{k}" for k in range(len(op.types)))
        self.node = Node(name, " ".join(op.loc), inputs, outputs, attributes)
        families.enter(name)
        own, domain = op.versions
        self.model = Model({"": own, name.rpartition(".")[0]: domain}, [self.node], [], outputs, {})
        self.regions: OrderedDict[tuple[Any, ...], Region | None] = OrderedDict()
        self.draws = op.draws
        tensors = all(v.type.dtype is not OPAQUE for v in op.operands) and not self.texts
        in_order = op.places == tuple(range(len(op.places)))
        # whether the host's own function takes the operands, which are tensors, as they are
        self.of_tensors = tensors and in_order and _is_own(self.node, numbers=True)

    def evaluated(self, arrays: dict[str, Array]) -> Sequence[Any]:
        """What the importer makes of the node, evaluated; kept for other data of large operands."""
        if self.draws:
            with np.errstate(all="ignore"):
                return Interpreter().region(self._imported(arrays, {}), [], {})
        small = {n: a for n, a in arrays.items() if a.size <= _SMALL and a.dtype.kind in "iub"}
        large = {n: a for n, a in arrays.items() if n not in small}
        types = tuple((n, a.dtype, a.shape) for n, a in large.items())
        key = (types, *[(n, a.dtype, a.shape, a.tobytes()) for n, a in small.items()])
        if key not in self.regions:
            try:
                self.regions[key] = self._imported(small, large)
            except NeedsValueError:
                self.regions[key] = None
            if len(self.regions) > _KEPT:
                self.regions.popitem(last=False)
        region = self.regions.get(key)
        if region is None:
            region, large = self._imported(arrays, {}), {}
        with np.errstate(all="ignore"):
            return Interpreter().region(region, list(large.values()), {})

    def _imported(self, known: dict[str, Array], others: dict[str, Array]) -> Region:
        """The ops that do what the node does on others, with what is known as constants."""
        types = {n: tensor_of(a) for n, a in others.items()}
        # what is kept must not change with arrays that are the caller's
        made = importer.Importer(self.model, types, {n: a.copy() for n, a in known.items()})
        drawing = {**self.node.attributes, "seed": fresh_seed()} if self.draws else None
        made.node(replace(self.node, attributes=drawing) if drawing else self.node)
        found = [made.values[name] for name in self.node.outputs if name in made.values]
        made.ctx.use(found)
        return Region(made.args, made.ctx.builder.ops, found)


def _evaluated(node: _Node, arrays: dict[str, Array]) -> Sequence[Any]:
    """The outputs for arrays of numbers."""
    try:
        return node.evaluated(arrays)
    except OutOfRange:
        raise
    except (ValueError, TypeError, IndexError, ArithmeticError) as error:
        # what no sound data would ask for, such as an extent below 0
        raise UserError("MC0158", f"{node.node.op}: {error}", where=node.node.name) from error


def _moved(node: _Node, arrays: dict[str, Array]) -> Sequence[Any]:
    """The outputs of an operator that moves texts: those of numbers that stand for them.

    The numbers are floats, which are not taken for what decides an import. 0 stands for the empty
    text, for that is what fills a place that nothing is moved to.
    """
    kept = {name: texts(a) for name, a in arrays.items() if a.dtype.kind in "OUS"}
    met = itertools.chain.from_iterable(a.flat for a in kept.values())
    words = list(dict.fromkeys(itertools.chain([""], met)))
    number = {word: float(k) for k, word in enumerate(words)}
    numbered = {
        name: np.array([number[word] for word in a.flat], np.float64).reshape(a.shape)
        for name, a in kept.items()
    }
    found = _evaluated(node, {**arrays, **numbered})
    names = np.array(words, object)
    return [
        np.asarray(names[a.astype(np.int64)], object) if a.dtype == np.float64 else a for a in found
    ]


_nodes: WeakKeyDictionary[graph.Host, _Node] = WeakKeyDictionary()


def run_node(op: graph.Host, args: Sequence[Any]) -> tuple[Any, ...]:
    """The outputs of the node that an op stands for; UserError as of an import, or MC0158."""
    found = _nodes.get(op)
    if found is None:
        found = _nodes[op] = _Node(op)
    node = found.node
    if found.of_tensors:
        return _padded(op, run_host(node, list(args)))
    given: dict[int, Any] = {**found.texts, **dict(zip(op.places, args, strict=True))}
    arrays = [v for v in given.values() if isinstance(v, np.ndarray | np.generic)]
    numbers = sum(from_numpy(v.dtype) is not None for v in arrays) == len(given)
    tensors = len(arrays) == len(given) and all(v.dtype.kind in _TENSORS for v in arrays)
    values: Sequence[Any]
    if node.op in MOVING and not numbers and tensors:
        values = _moved(found, {f"input{k}": np.asarray(v) for k, v in given.items()})
    elif _is_own(node, numbers):
        values = run_host(node, [given.get(k) for k in range(len(node.inputs))])
    elif numbers:
        values = _evaluated(found, {f"input{k}": np.asarray(v) for k, v in given.items()})
    else:
        kinds = ", ".join(sorted({type(v).__name__ for v in given.values()}))
        text = f"{node.op} of what is no tensor of numbers ({kinds})"
        raise UserError("MC0159", text, where=op.loc)
    return _padded(op, values)


def _is_own(node: Node, numbers: bool) -> bool:
    """Whether a node on values that are all tensors of numbers, or not, runs as the table says."""
    compiled = numbers and node.op in OPERATORS
    return node.op in HOST and (gives_texts(node) or node.op in WHERE or not compiled)


def _padded(op: graph.Host, values: Sequence[Any]) -> tuple[Any, ...]:
    """As many values as an op gives, of which those of tensors are arrays."""
    values = [*values, *[None] * (len(op.types) - len(values))]
    return tuple(
        v if t.dtype is OPAQUE else np.asarray(v) for v, t in zip(values, op.types, strict=False)
    )


DEFINITIONS["onnx"] = run_node
