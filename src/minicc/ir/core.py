"""The IR's few nouns: values, operations, regions, functions, modules. All immutable.

A `Value` is defined once, as a result of an `Op` or an argument of a `Region`, and is compared by
identity. An `Op` holds operands, attributes, regions, results and a location. A `Region` is a
straight list of ops with arguments and yielded values; control flow is ops with regions (no block
graph). At the levels of tensors a region uses its arguments alone; where buffers are, in kernels
and in the loops of a program, it may use what is in scope around it. A `Function` is a named
region. A `Module` is a list of functions at one level.

Nothing is ever mutated: a pass walks ops in order and builds new ones (see `ir.rewrite`). There are
no use lists. Every op has a location: the names of the ONNX nodes or Python lines (`file.py:12`)
that it computes for.
"""

from __future__ import annotations

import inspect
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from minicc.ir.literal import Literal as Literal
from minicc.ir.types import Type

Loc = tuple[str, ...]
Array = np.ndarray[Any, Any]
# gives the yields of a region for its arguments, and for sizes that are bound in it, if there are
RunRegion = Callable[..., tuple[Any, ...]]


class Value:
    """An SSA value. `hint` is a name for people; it has no meaning."""

    __slots__ = ("hint", "type")

    def __init__(self, type: Any, hint: str = "") -> None:
        self.type = type
        self.hint = hint

    def __repr__(self) -> str:
        return f"%{self.hint or '?'}: {self.type}"


class Region:
    """Arguments, ops in order, and the values that it yields."""

    __slots__ = ("args", "ops", "yields")

    def __init__(self, args: Sequence[Value], ops: Sequence[Op], yields: Sequence[Value]) -> None:
        self.args = tuple(args)
        self.ops = tuple(ops)
        self.yields = tuple(yields)


class Field(NamedTuple):
    """One declared part of an op: `kind` is operand, operands, attribute or region."""

    name: str
    kind: str
    default: Any


REQUIRED: Any = object()
_KINDS = {"Value": "operand", "tuple[Value, ...]": "operands", "Region": "region"}
REGISTRY: dict[str, type[Op]] = {}


def _annotation_text(annotation: Any) -> str:
    """As it is written, also in a module without `from __future__ import annotations`."""
    if isinstance(annotation, str):
        return annotation
    return (
        inspect.formatannotation(annotation).replace("minicc.ir.core.", "").replace("typing.", "")
    )


class Op:
    """Base of all ops; a subclass with `name=` is one op and declares its parts as annotations.

    `x: Value` is an operand, `xs: tuple[Value, ...]` (last of the operands) any number of them,
    `body: Region` a region, everything else an attribute (with an optional default). A subclass
    states its type rule `infer`, its meaning `evaluate`, and what else must hold in `verify`. Both
    the builder and the verifier call `infer`. What is declared as `ClassVar` may be given as `name`
    is.
    """

    __slots__ = ("attrs", "loc", "operands", "regions", "results")
    opname: ClassVar[str] = ""
    fields: ClassVar[tuple[Field, ...]] = ()
    pure: ClassVar[bool] = True
    control: ClassVar[bool] = False  # whether its regions hold ops of its own level
    plain: ClassVar[bool] = False  # whether it has nothing but operands, each of one value
    inside: ClassVar[str] = ""  # the level of its regions, where that is not its own

    def __init_subclass__(cls, name: str = "", **given: Any) -> None:
        super().__init_subclass__()
        for key, value in given.items():
            if not any(key in inspect.get_annotations(base) for base in cls.__mro__):
                raise TypeError(f"{name} has nothing called {key}")
            setattr(cls, key, value)
        inherited = {f.name: f for f in cls.fields}
        for field, annotation in inspect.get_annotations(cls).items():
            text = _annotation_text(annotation)
            if not text.startswith("ClassVar"):
                kind = _KINDS.get(text, "attribute")
                inherited[field] = Field(field, kind, cls.__dict__.get(field, REQUIRED))
        cls.fields = tuple(inherited.values())
        cls.plain = all(f.kind == "operand" for f in cls.fields)
        if name:
            cls.opname = name
            if name in REGISTRY:
                raise TypeError(f"two ops are called {name}")
            REGISTRY[name] = cls
            _define_accessors(cls)

    def __init__(self, *args: Any, loc: Loc, **named: Any) -> None:
        given = len(args)
        if self.plain and given == len(self.fields):
            self._fill(args, {}, (), loc)
            return
        operands: list[Value] = []
        attrs: dict[str, Any] = {}
        regions: list[Region] = []
        for position, (name, kind, default) in enumerate(self.fields):
            value = args[position] if position < given else named.get(name, default)
            if value is REQUIRED:
                raise TypeError(f"{self.opname} lacks its {kind} `{name}`")
            if kind == "attribute":
                attrs[name] = value
            elif kind == "operand":
                operands.append(value)
            elif kind == "operands":
                operands.extend(value)
            else:
                regions.append(value)
        self._fill(tuple(operands), attrs, tuple(regions), loc)

    def _fill(
        self,
        operands: tuple[Value, ...],
        attrs: Mapping[str, Any],
        regions: tuple[Region, ...],
        loc: Loc,
    ) -> None:
        self.operands = operands
        self.attrs = attrs
        self.regions = regions
        self.loc = loc
        self.results = tuple([Value(t) for t in self.infer()])

    @classmethod
    def make(
        cls,
        operands: Sequence[Value],
        attrs: Mapping[str, Any],
        regions: Sequence[Region],
        loc: Loc,
    ) -> Self:
        """Build from parts already sorted by kind, as the parser and rewriting do."""
        op = cls.__new__(cls)
        op._fill(tuple(operands), attrs, tuple(regions), loc)
        return op

    def rebuilt(
        self,
        operands: Sequence[Value],
        regions: Sequence[Region] | None = None,
        loc: Loc | None = None,
        **attrs: Any,
    ) -> Self:
        """The same op on other operands, regions or attributes, or at another location.

        Its types are inferred anew unless only operands differ, and in no type.
        """
        loc = self.loc if loc is None else loc
        same_types = [v.type for v in operands] == [v.type for v in self.operands]
        if attrs or regions is not None or not same_types:
            merged = {**self.attrs, **attrs} if attrs else self.attrs
            parts = self.regions if regions is None else regions
            return self.make(operands, merged, parts, loc)
        op = type(self).__new__(type(self))
        op.operands, op.attrs, op.regions = tuple(operands), self.attrs, self.regions
        op.loc, op.results = loc, tuple([Value(r.type) for r in self.results])
        return op

    def with_regions(self, regions: Sequence[Region], **attrs: Any) -> Self:
        """The same op, with the same results, over regions that yield the same types.

        Attributes may differ that have no part in these.
        """
        op = type(self).__new__(type(self))
        op.operands, op.regions = self.operands, tuple(regions)
        op.attrs = {**self.attrs, **attrs} if attrs else self.attrs
        op.loc, op.results = self.loc, self.results
        return op

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value

    def infer(self) -> tuple[Type, ...]:
        """The types of the results, from operands, attributes and regions.

        TypeError or ValueError says what is wrong.
        """
        raise NotImplementedError(f"{self.opname} has no type rule")

    def verify(self) -> None:
        """Check what the type rule does not; ValueError says what is wrong."""

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        """The results for NumPy arrays; `run(region, arguments)` evaluates a region."""
        raise NotImplementedError(f"{self.opname} has no reference semantics")


def _operand(key: int | slice) -> property:
    return property(lambda op: op.operands[key])


def _region(key: int) -> property:
    return property(lambda op: op.regions[key])


def _attribute(key: str) -> property:
    return property(lambda op: op.attrs[key])


def _define_accessors(cls: type[Op]) -> None:
    """Make `op.x` read the operand, attribute or region that is declared as `x`."""
    operand = region = 0
    for field in cls.fields:
        if field.kind == "operand":
            accessor = _operand(operand)
            operand += 1
        elif field.kind == "operands":
            accessor = _operand(slice(operand, None))
        elif field.kind == "region":
            accessor = _region(region)
            region += 1
        else:
            accessor = _attribute(field.name)
        setattr(cls, field.name, accessor)


class Function:
    """A named region with names for its inputs and outputs, and attributes (a kernel's grid)."""

    __slots__ = ("attrs", "body", "name", "result_names")

    def __init__(
        self,
        name: str,
        body: Region,
        attrs: Mapping[str, Any] | None = None,
        result_names: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.body = body
        self.attrs: Mapping[str, Any] = attrs or {}
        self.result_names = tuple(result_names) or tuple(
            f"result{k}" for k in range(len(body.yields))
        )

    @property
    def args(self) -> tuple[Value, ...]:
        """The arguments; their hints are the names of the inputs."""
        return self.body.args

    def with_body(self, body: Region) -> Function:
        """The same function over another body."""
        return Function(self.name, body, self.attrs, self.result_names)


class Module:
    """Functions at one level (`graph`, `structured`, `kernel`, `program`).

    The entry is called `main`.
    """

    __slots__ = ("functions", "level")

    def __init__(self, level: str, functions: Sequence[Function]) -> None:
        self.level = level
        self.functions = tuple(functions)

    def function(self, name: str) -> Function:
        """The function of that name; KeyError where there is none."""
        for f in self.functions:
            if f.name == name:
                return f
        raise KeyError(name)

    @property
    def main(self) -> Function:
        """The entry."""
        return self.function("main")


def walk(region: Region) -> list[Op]:
    """All ops of a region and of the regions within, outer before inner."""
    found: list[Op] = []
    for op in region.ops:
        found.append(op)
        for inner in op.regions:
            found += walk(inner)
    return found


def walk_control(region: Region) -> list[Op]:
    """The ops of a region's own level: its own and those of its control flow, outer before inner.

    What groups, kernels and scalar bodies hold is of a lower level.
    """
    found: list[Op] = []
    for op in region.ops:
        found.append(op)
        if op.control:
            for inner in op.regions:
                found += walk_control(inner)
    return found


def attribute_key(value: Any) -> Any:
    """A hashable stand-in that is equal only for bitwise equal attributes.

    1, 1.0 and True differ, 0.0 and -0.0 differ, and so do NaNs with other bits.
    """
    kind = type(value)
    if kind is int or kind is str:  # as most are
        return (kind, value) if kind is int else value
    if not isinstance(value, (tuple, float, int)):
        return value
    if isinstance(value, tuple):
        return tuple([v if type(v) is str else attribute_key(v) for v in value])
    if isinstance(value, float):
        return float, struct.pack("<d", value)
    return kind, value


def op_key(op: Op) -> tuple[Any, ...]:
    """Equal for ops without regions that compute the same: class, operands, attributes."""
    return (type(op), op.operands, *[(k, attribute_key(v)) for k, v in op.attrs.items()])


def computed(op: Op, operands: Sequence[Literal], run: RunRegion) -> Literal:
    """The result of a pure op for literals, computed when it is asked for.

    The op has one result, of static shape; `run` evaluates its regions.
    """
    key = (type(op), *[(k, attribute_key(v)) for k, v in op.attrs.items()])

    def compute(*arrays: Array) -> Any:
        (result,) = op.evaluate(run, *arrays)
        return result

    return Literal.computed(op.result.type, compute, key, operands)


def region_key(region: Region, numbers: dict[Value, int] | None = None) -> tuple[Any, ...]:
    """Equal for regions that are the same op by op, whatever their values' names and locations.

    The region must not use values from outside.
    """
    numbers = {} if numbers is None else numbers
    for a in region.args:
        numbers[a] = len(numbers)
    ops: list[Any] = []
    for op in region.ops:
        ops += type(op), tuple([numbers[v] for v in op.operands])
        if op.attrs:
            ops.append(tuple([(k, attribute_key(v)) for k, v in op.attrs.items()]))
        if op.regions:
            ops.append(tuple([region_key(r, numbers) for r in op.regions]))
        for r in op.results:
            numbers[r] = len(numbers)
    types = tuple([a.type for a in region.args])
    return types, tuple(ops), tuple([numbers[v] for v in region.yields])


def same_function(left: Function, right: Function) -> bool:
    """Whether two functions are equal up to value names; locations count, except in kernels."""
    numbers: dict[Value, Value] = {}
    formal = "grid" in left.attrs
    return (
        left.name == right.name
        and left.result_names == right.result_names
        and _attrs_equal(left.attrs, right.attrs)
        and _same_region(left.body, right.body, numbers, formal)
    )


def same_module(left: Module, right: Module) -> bool:
    """Whether two modules have the same level and equal functions in the same order."""
    return (
        left.level == right.level
        and len(left.functions) == len(right.functions)
        and all(map(same_function, left.functions, right.functions))
    )


def _attrs_equal(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    return left.keys() == right.keys() and all(
        attribute_key(v) == attribute_key(right[k]) for k, v in left.items()
    )


def _bind(left: Sequence[Value], right: Sequence[Value], numbers: dict[Value, Value]) -> bool:
    if len(left) != len(right) or any(a.type != b.type for a, b in zip(left, right, strict=True)):
        return False
    numbers.update(zip(left, right, strict=True))
    return True


def _same_region(left: Region, right: Region, numbers: dict[Value, Value], formal: bool) -> bool:
    if not _bind(left.args, right.args, numbers) or len(left.ops) != len(right.ops):
        return False
    for a, b in zip(left.ops, right.ops, strict=True):
        if (
            type(a) is not type(b)
            or (a.loc != b.loc and not formal)
            or len(a.regions) != len(b.regions)
            or [numbers.get(v) for v in a.operands] != list(b.operands)
            or not _attrs_equal(a.attrs, b.attrs)
            or not all(
                _same_region(x, y, numbers, formal)
                for x, y in zip(a.regions, b.regions, strict=True)
            )
            or not _bind(a.results, b.results, numbers)
        ):
            return False
    return [numbers.get(v) for v in left.yields] == list(right.yields)
