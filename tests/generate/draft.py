"""A graph as it grows: its nodes, and what every value is for the inputs that were drawn.

Each node is evaluated by the ONNX reference when it is added, so that the next one can be drawn
to fit: indices in range, sizes that match, operands whose rounding can't decide a branch. What the
operator's schema doesn't allow at this opset is `Unfit`, and another node is drawn in its place.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, defs, helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from tests.generate.faults import is_mistaken
from tests.generate.source import BF16, F16, FLOATS, I64, Array, Source, is_float

NEWEST = min(defs.onnx_opset_version(), 28)
MICROSOFT = "com.microsoft"
BLOCKED = f"{MICROSOFT}.nchwc"
# which ONNX Runtime enters among ONNX's own
_ENTERED = (
    "Affine",
    "Crop",
    "ImageScaler",
    "ParametricSoftplus",
    "Scale",
    "ScaledTanh",
    "SimplifiedLayerNormalization",
)
CLASSICAL = "ai.onnx.ml"
TRAINING = "ai.onnx.preview.training"
_IR = 10
# what one rounding may change of a value, relative to the largest that it was computed of
_ROUNDING = {2: 6e-3, 4: 4e-5, 8: 1e-11}
_MOST_ROUNDINGS = 4
_MOST_ELEMENTS = 200_000


class Unfit(Exception):
    """This node can't be drawn here."""


@dataclass(frozen=True)
class Item:
    """A value of a draft.

    `value` is None where the reference gives none. `roundings` counts the inexact operators on the
    way to it, `rtol` and `scale` say how far two right results may be apart, `steps` says it of
    integers.
    """

    name: str
    value: Any
    roundings: int = 0
    rtol: float = 0.0
    scale: float = 0.0
    steps: int = 0

    @property
    def array(self) -> Array:
        assert isinstance(self.value, np.ndarray)
        return self.value

    @property
    def rank(self) -> int:
        return self.array.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.array.shape
        return shape

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self.array.dtype
        return dtype

    @property
    def exact(self) -> bool:
        return not self.roundings


@dataclass(frozen=True)
class Case:
    """A model with inputs: what is compared, shrunk and written.

    `fixed` are inputs that hold sizes, whose own dimensions stay numbers; `symbols` names those
    dimensions that are free.
    """

    nodes: tuple[NodeProto, ...]
    inputs: dict[str, Array]
    constants: dict[str, Array]
    outputs: tuple[str, ...]
    opset: int
    known: dict[str, Item] = field(default_factory=dict)
    symbols: dict[tuple[str, int], str] = field(default_factory=dict)

    def model(self, free: bool = True) -> ModelProto:
        """The model, with free dimensions or without."""
        return model_of(
            self.nodes,
            {k: v for k, v in self.inputs.items() if k in self.used()},
            {k: v for k, v in self.constants.items() if k in self.used()},
            self.outputs,
            self.opset,
            self.symbols if free else {},
        )

    def feeds(self) -> dict[str, Array]:
        used = self.used()
        return {k: np.array(v) for k, v in self.inputs.items() if k in used}

    def used(self) -> set[str]:
        return {name for node in self.nodes for name in names_in(node)}

    def operators(self) -> set[str]:
        return {node.op_type for node in every_node(self.nodes)}

    def after(self, output: str) -> list[NodeProto]:
        """The nodes that an output is computed by, with those of bodies."""
        return list(every_node(needed(self.nodes, [output])))


def every_node(nodes: Iterable[NodeProto]) -> Iterable[NodeProto]:
    """Nodes and those in their bodies."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from every_node(attribute.g.node)


def needed(nodes: Sequence[NodeProto], outputs: Iterable[str]) -> list[NodeProto]:
    """The nodes that outputs need; of those in their bodies, what these give needs."""
    wanted, kept = set(outputs), list[NodeProto]()
    for node in reversed(nodes):
        if not wanted.isdisjoint(node.output):
            made = NodeProto()
            made.CopyFrom(node)
            for body in (a.g for a in made.attribute if a.HasField("g")):
                inner = needed(body.node, [o.name for o in body.output])
                del body.node[:]
                body.node.extend(inner)
            kept.append(made)
            wanted |= names_in(made)
    return kept[::-1]


def names_in(node: NodeProto) -> set[str]:
    """All names that a node and its bodies read."""
    inner = (a.g for a in node.attribute if a.HasField("g"))
    bodies = set()
    for graph in inner:
        bodies |= {o.name for o in graph.output}
        bodies |= {name for n in graph.node for name in names_in(n)}
    return {name for name in node.input if name} | bodies


def value_info(name: str, value: Any, dims: Sequence[Any] | None = None) -> Any:
    """A graph's input of an array's type."""
    kind = helper.np_dtype_to_tensor_dtype(value.dtype)
    return helper.make_tensor_value_info(
        name, kind, list(dims if dims is not None else value.shape)
    )


def model_of(
    nodes: Iterable[NodeProto],
    inputs: dict[str, Array],
    constants: dict[str, Array],
    outputs: Iterable[str],
    opset: int,
    symbols: dict[tuple[str, int], str] | None = None,
) -> ModelProto:
    """A model of these nodes; outputs are declared by their names alone."""
    symbols = symbols or {}
    given = [
        value_info(name, a, [symbols.get((name, k), n) for k, n in enumerate(a.shape)])
        for name, a in inputs.items()
    ]
    named = [onnx.ValueInfoProto(name=name) for name in outputs]
    tensors = [numpy_helper.from_array(a, name) for name, a in constants.items()]
    graph = helper.make_graph(list(nodes), "generated", given, named, tensors)
    domains = [("", opset), (MICROSOFT, 1), (CLASSICAL, 3)]
    # which ONNX Runtime refuses in any model
    domains += [(d, 1) for d in (TRAINING, BLOCKED) if any(n.domain == d for n in graph.node)]
    opsets = [helper.make_opsetid(*domain) for domain in domains]
    return helper.make_model(graph, opset_imports=opsets, ir_version=_IR)


@cache
def schema_of(op: str, opset: int, domain: str = "") -> Any:
    """An operator's schema at an opset; `Unfit` where it has none or is deprecated."""
    try:
        schema = defs.get_schema(op, opset, domain)
    except defs.SchemaError as error:
        raise Unfit(f"{op} is not in opset {opset}") from error
    if schema.deprecated:
        raise Unfit(f"{op} is deprecated in opset {opset}")
    return schema


def require_schema(
    op: str, inputs: Sequence[Item | None], outputs: int, attributes: Iterable[str], opset: int
) -> None:
    """`Unfit` where the schema forbids the inputs' or outputs' number, a type or an attribute."""
    schema = schema_of(op, opset)
    if not schema.min_output <= outputs <= schema.max_output:
        raise Unfit(f"{op} has no {outputs} outputs in opset {opset}")
    if not schema.min_input <= len(inputs) <= schema.max_input:
        raise Unfit(f"{op} takes no {len(inputs)} inputs in opset {opset}")
    if set(attributes) - set(schema.attributes):
        raise Unfit(f"{op} has other attributes in opset {opset}")
    for k, item in enumerate(inputs):
        if item is not None and isinstance(item.value, np.ndarray):
            formal = schema.inputs[min(k, len(schema.inputs) - 1)]
            if _spelled(item.dtype) not in formal.types:
                raise Unfit(f"{op} takes no {item.dtype} in opset {opset}")


@cache
def _spelled(dtype: np.dtype[Any]) -> str:
    kind = onnx.TensorProto.DataType.Name(helper.np_dtype_to_tensor_dtype(dtype))
    return f"tensor({kind.lower()})"


class Draft:
    """Grows a graph by nodes that fit; `outer` is the draft around it, if it is a body's."""

    def __init__(self, source: Source, opset: int, outer: Draft | None = None) -> None:
        self.source = source
        self.opset = opset
        self.outer = outer
        self.nodes: list[NodeProto] = []
        self.inputs: dict[str, Array] = outer.inputs if outer else {}
        self.constants: dict[str, Array] = outer.constants if outer else {}
        self.fixed: set[str] = outer.fixed if outer else set()
        # values that hold something which no specification decides, and are no outputs
        self.hidden: set[str] = outer.hidden if outer else set()
        self.items: dict[str, Item] = dict(outer.items) if outer else {}
        self._names: list[None] = outer._names if outer else []

    def name(self, kind: str) -> str:
        self._names.append(None)
        return f"{kind}{len(self._names)}"

    # values

    def fresh(self, array: Any, constant: float = 0.25, fixed: bool = False) -> Item:
        """A new input of the model, or with a probability a constant."""
        array = np.asarray(array)
        known = self.source.chance(constant)
        name = self.name("c" if known else "x")
        (self.constants if known else self.inputs)[name] = array
        if fixed and not known:
            self.fixed.add(name)
        return self._keep(Item(name, array))

    def constant(self, array: Any) -> Item:
        return self.fresh(array, constant=1)

    def _keep(self, item: Item) -> Item:
        self.items[item.name] = item
        if self.outer is not None and item.name in {**self.inputs, **self.constants}:
            self.outer._keep(item)
        return item

    def tensor(
        self,
        dtypes: Sequence[np.dtype[Any]] = FLOATS,
        rank: int | None = None,
        *,
        shape: Sequence[int] | None = None,
        least: int = 0,
        accept: Callable[[Item], bool] = lambda item: True,
        exact: bool = False,
        low: float = -3,
        high: float = 3,
        special: float = 0.12,
        constant: float = 0.15,
        reuse: float = 0.75,
    ) -> Item:
        """A value of a kind: one that is there, if any fits, or a new one."""
        source = self.source

        def fits(item: Item) -> bool:
            a = item.value
            if not isinstance(a, np.ndarray) or a.dtype not in dtypes or a.dtype.kind in "OSU":
                return False
            if (exact and item.roundings) or item.roundings >= _MOST_ROUNDINGS or item.steps:
                return False
            if rank not in (None, a.ndim) or (shape is not None and a.shape != tuple(shape)):
                return False
            if any(n < least for n in a.shape) or a.size > _MOST_ELEMENTS:
                return False
            return (special > 0 or _is_tame(a)) and accept(item)

        found = [item for item in self.items.values() if fits(item)]
        if found and source.chance(reuse):
            return source.pick(found[-6:])
        extents = source.shape(rank, least) if shape is None else shape
        for _ in range(8):
            drawn = source.array(extents, source.pick(dtypes), low, high, special)
            if accept(Item("", drawn)):
                return self.fresh(drawn, constant)
            extents = source.shape(rank, least) if shape is None else shape
        raise Unfit("no such tensor")

    def like(self, item: Item, shape: Sequence[int], **how: Any) -> Item:
        """A value of the same element type and another shape."""
        return self.tensor((item.dtype,), shape=shape, **how)

    # nodes

    def node(
        self,
        op: str,
        inputs: Sequence[Item | None],
        outputs: int = 1,
        *,
        exact: bool = False,
        steps: int = 0,
        domain: str = "",
        **attributes: Any,
    ) -> list[Item]:
        """Add a node and evaluate it; attributes that are None are left out."""
        inputs = list(inputs)
        while inputs and inputs[-1] is None:
            inputs.pop()
        given = {name: value for name, value in attributes.items() if value is not None}
        if not domain and op not in _ENTERED:
            require_schema(op, inputs, outputs, given, self.opset)
        names = [item.name if item else "" for item in inputs]
        made = helper.make_node(
            op, names, [self.name("v") for _ in range(outputs)], domain=domain, **given
        )
        around = [self.items[name] for name in names_in(made) if name in self.items]
        found = evaluate(made, around, self.opset)
        if found is None and domain == "" and self.outer is not None:
            raise Unfit("bodies are drawn of what the reference knows")
        self.nodes.append(made)
        values = found or [None] * outputs
        return [
            self._keep(_derived(name, value, around, exact, steps))
            for name, value in zip(made.output, values, strict=True)
        ]

    def case(self) -> Case:
        """The finished model: what no node reads is an output, and some of the rest."""
        read = {name for node in self.nodes for name in names_in(node)}
        made = [
            name for node in self.nodes for name in node.output if name not in {"", *self.hidden}
        ]
        outputs = [name for name in made if name not in read or self.source.chance(0.1)]
        return Case(
            tuple(self.nodes),
            dict(self.inputs),
            dict(self.constants),
            tuple(outputs),
            self.opset,
            dict(self.items),
            self._symbols(),
        )

    def _symbols(self) -> dict[tuple[str, int], str]:
        """Names for free dimensions: none, some or all; equal sizes may share a name."""
        share = self.source.pick((0.0, 0.6, 1.0))
        shared = self.source.chance(0.5)
        return {
            (name, k): f"n{n}" if shared else f"{name}_{k}"
            for name, a in self.inputs.items()
            if name not in self.fixed
            for k, n in enumerate(a.shape)
            if self.source.chance(share)
        }


def _is_tame(array: Array) -> bool:
    """Whether it has neither NaN nor infinities nor large values."""
    if not is_float(array.dtype):
        return bool(np.all(np.abs(array.astype(np.float64)) < 1e4))
    with np.errstate(all="ignore"):
        return bool(np.all(np.abs(array.astype(np.float64)) < 1e4))


def _derived(name: str, value: Any, around: Sequence[Item], exact: bool, steps: int) -> Item:
    """A node's output, with what its rounding may be."""
    roundings = max((i.roundings for i in around), default=0)
    arrays = [v for v in (value, *(i.value for i in around)) if isinstance(v, np.ndarray)]
    floats = [a for a in arrays if is_float(a.dtype)]
    if exact and not roundings:
        return Item(name, value, steps=max([steps, *(i.steps for i in around)]))
    rtol = max((_ROUNDING[a.itemsize] * (4 if a.dtype == BF16 else 1) for a in floats), default=0)
    rtol = max([rtol, *(i.rtol for i in around)])
    scales = [largest(a) for a in floats] + [i.scale for i in around]
    steps = max([steps, *(i.steps for i in around)])
    return Item(name, value, roundings + (not exact), rtol, max(scales, default=0.0), steps)


def largest(array: Array) -> float:
    """The largest finite magnitude."""
    with np.errstate(all="ignore"):
        magnitudes = np.abs(array.astype(np.float64))
    return float(np.max(magnitudes, initial=0.0, where=np.isfinite(magnitudes)))


def evaluate(node: NodeProto, around: Sequence[Item], opset: int) -> list[Any] | None:
    """What the reference makes of a node; None where it fails."""
    if any(item.value is None for item in around) or node.domain.startswith(MICROSOFT):
        return None
    values = {item.name: item.value for item in around}
    if any(is_mistaken(inner, opset, values) for inner in every_node([node])):
        return None
    arrays = {k: v for k, v in values.items() if isinstance(v, np.ndarray)}
    model = model_of([node], arrays, {}, [name for name in node.output if name], opset)
    for name in values.keys() - arrays.keys():
        model.graph.input.append(onnx.ValueInfoProto(name=name))
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = ReferenceEvaluator(model).run(None, values)
    except Exception:  # whatever a node of chance makes of the reference: it is drawn again
        return None
    plain = [_plain(v) for v in found]
    return plain if _typed(model, plain) else None


def _typed(model: ModelProto, values: Sequence[Any]) -> bool:
    """Whether values have the element types that the schema gives them: sums of int32 may not."""
    declared = shape_inference.infer_shapes(model).graph.output
    kinds = [o.type.tensor_type.elem_type for o in declared]
    return all(
        not kind or helper.np_dtype_to_tensor_dtype(value.dtype) == kind
        for kind, value in zip(kinds, values, strict=True)
        if isinstance(value, np.ndarray)
    )


def _plain(value: Any) -> Any:
    """A value as an array: a number too, and texts as objects."""
    found = np.asarray(value) if isinstance(value, np.generic | str) else value
    is_text = isinstance(found, np.ndarray) and found.dtype.kind in "US"
    return found.astype(object) if is_text else found


__all__ = ["F16", "I64", "Case", "Draft", "Item", "Unfit"]
