"""Binding: a function with numbers, or other names, for the free dimensions in it.

Works at every level, and within regions: what holds dimensions (types of arguments, attributes)
is substituted, and each op is built again, so that its type rule looks at the new sizes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from minicc.errors import UserError
from minicc.ir import affine
from minicc.ir.affine import Dim, Expr
from minicc.ir.core import Function, Module, Op, Region, Value
from minicc.ir.schedule import Schedule
from minicc.ir.space import Iter, Space
from minicc.ir.text.extents import with_derived
from minicc.ir.types import BufferType, TensorType

Binding = Mapping[str, Dim]


def bind_sizes(module: Module, numbers: Mapping[str, int]) -> Module:
    """The module with numbers for its free dimensions, by their names with or without `$`.

    The sizes of kernels are formal: what they stand for is said by each launch.
    """
    binding: dict[str, Dim] = {}
    for name, n in numbers.items():
        binding |= {name: n, affine.spell_size(name): n}
    functions = [f if "grid" in f.attrs else bind(f, binding) for f in module.functions]
    return Module(module.level, functions)


def bind(function: Function, binding: Binding) -> Function:
    """The function with symbols replaced; UserError MC0142 where sizes contradict each other."""
    whole = with_derived(binding, function.attrs.get("derived", ()))
    told = {n.removeprefix("$"): v for n, v in binding.items() if isinstance(v, int)}
    sizes = ", ".join(f"{name}={n}" for name, n in told.items())
    made = bind_all(function, lambda value: affine.substitute(value, whole), sizes)
    if named := function.attrs.get("sizes"):
        left = tuple(name for name in named if not isinstance(binding.get(name), int))
        made.attrs = {**made.attrs, "sizes": left}
    return made


def bind_all(function: Function, replace: Callable[[Dim], Dim], sizes: str = "") -> Function:
    """The function with each expression replaced; errors as of `bind`, which name the sizes."""
    binder = _Binder(replace, sizes)
    attrs = {k: binder.attribute(v) for k, v in function.attrs.items()}
    return Function(function.name, binder.region(function.body), attrs, function.result_names)


def bound(type: Any, binding: Binding) -> Any:
    """A type or attribute with symbols replaced."""
    return _Binder(lambda value: affine.substitute(value, binding)).attribute(type)


def bound_region(region: Region, binding: Binding) -> Region:
    """A region with symbols replaced, which uses nothing from outside."""
    return rebound(region, lambda value: affine.substitute(value, binding))


def rebound(region: Region, replace: Callable[[Dim], Dim]) -> Region:
    """A region with each expression replaced, and each integer of a type of its own."""
    return _Binder(replace).region(region)


def formal(op: Op, types: Sequence[BufferType]) -> tuple[Op, list[BufferType], dict[str, str]]:
    """An op and types with their sizes renamed by where they occur first, and what they were.

    Ops that differ in the names of sizes alone become equal.
    """
    found: dict[str, None] = {}
    _collect([*types, *[v.type for v in op.operands], op], found)
    names = {name: f"$s{k}" for k, name in enumerate(found)}
    if not names:
        return op, list(types), {}
    symbols = {old: affine.symbol(new) for old, new in names.items()}
    binder = _Binder(lambda value: affine.substitute(value, symbols))
    for v in op.operands:
        binder.forward[v] = Value(binder.attribute(v.type), v.hint)
    renamed = [binder.attribute(t) for t in types]
    return binder.op(op), renamed, {new: old for old, new in names.items()}


def sizes_of(region: Region) -> tuple[str, ...]:
    """The sizes that occur in a region, sorted."""
    found: dict[str, None] = {}
    _collect([a.type for a in region.args], found)
    _collect(region.ops, found)
    return tuple(sorted(found))


def own_sizes(op: Op) -> tuple[str, ...]:
    """The sizes that occur in an op's attributes and types, but for those in its regions alone."""
    found: dict[str, None] = {}
    _collect([*op.attrs.values(), *[v.type for v in (*op.operands, *op.results)]], found)
    return tuple(found)


def sizes_in(op: Op) -> tuple[str, ...]:
    """The sizes that occur in an op's attributes, regions and types."""
    found: dict[str, None] = {}
    _collect([op, *[v.type for v in (*op.operands, *op.results)]], found)
    return tuple(found)


def bound_op(op: Op, binding: Mapping[str, int]) -> Op:
    """The op with numbers for the symbols in its attributes and regions; MC0142 as of `bind`."""
    if not op.attrs and not op.regions:
        return op
    whole = {name: n for s, n in binding.items() for name in (s, affine.spell_size(s))}
    binder = _Binder(lambda value: affine.substitute(value, whole))
    binder.forward = {v: Value(binder.attribute(v.type)) for v in op.operands}
    return binder.op(op)


# types of most attributes, which have no sizes
_PLAIN = frozenset((int, str, bool, type(None), Schedule))


def _collect(values: Iterable[Any], found: dict[str, None]) -> None:
    """Enter all sizes of types, attributes and ops in the order in which they occur."""
    for value in values:
        if type(value) in _PLAIN:
            continue
        if isinstance(value, Expr):
            found.update(dict.fromkeys(sorted(affine.sizes(value))))
        elif isinstance(value, tuple):
            _collect(value, found)
        elif isinstance(value, TensorType):
            _collect(value.shape, found)
        elif isinstance(value, BufferType):
            _collect((*value.shape, *value.strides), found)
        elif isinstance(value, Space):
            _collect([i.extent for i in value.iters], found)
        elif isinstance(value, Op):
            _collect(value.attrs.values(), found)
            inside: dict[str, None] = {}
            for region in value.regions:
                _collect([a.type for a in region.args], inside)
                _collect(region.ops, inside)
            if value.control:
                inside.pop(value.attrs.get("index", ""), None)  # a loop's own, which it binds
            found.update(inside)


def _require_extents(op: Op) -> None:
    """ValueError where a result has an extent below zero."""
    for v in op.results:
        if isinstance(v.type, TensorType) and any(
            isinstance(n, int) and n < 0 for n in v.type.shape
        ):
            raise ValueError(f"a result is of the type {v.type}")


class _Binder:
    """What the values of the old function became; what does not change stays the same object."""

    def __init__(self, replace: Callable[[Dim], Dim], sizes: str = "") -> None:
        self.replace = replace
        self.sizes = sizes or "of its inputs"
        self.forward: dict[Value, Value] = {}
        self.replaced: dict[Expr, Dim] = {}

    def region(self, region: Region) -> Region:
        """A region with new arguments and ops."""
        types = [self.attribute(a.type) for a in region.args]
        args = [
            a if t is a.type else Value(t, a.hint) for a, t in zip(region.args, types, strict=True)
        ]
        self.forward.update(zip(region.args, args, strict=True))
        ops = [self.op(op) for op in region.ops]
        yields = [self.forward.get(v, v) for v in region.yields]
        same = _same(args, region.args) and _same(ops, region.ops) and _same(yields, region.yields)
        return region if same else Region(args, ops, yields)

    def op(self, op: Op) -> Op:
        """An op on the new values, its types inferred anew."""
        attrs = {k: self.attribute(v) for k, v in op.attrs.items()}
        regions = [self.region(r) for r in op.regions]
        operands = [self.forward.get(v, v) for v in op.operands]
        same = _same(attrs.values(), op.attrs.values()) and _same(regions, op.regions)
        if same and _same(operands, op.operands):
            return op
        try:
            fresh = op.make(operands, attrs, regions, op.loc)
            _require_extents(fresh)
        except (TypeError, ValueError, IndexError) as error:
            text = f"the sizes {self.sizes} do not fit the model: {op.opname}: {error}"
            hint = "give inputs of other shapes"
            raise UserError("MC0142", text, hint=hint, where=op.loc) from None
        for old, new in zip(op.results, fresh.results, strict=True):
            new.hint = old.hint
            self.forward[old] = new
        return fresh

    def attribute(self, value: Any) -> Any:
        """An attribute or type with symbols replaced."""
        if type(value) in _PLAIN:
            return value
        if isinstance(value, Expr):
            new = self.replaced.get(value)
            if new is None:
                new = self.replaced[value] = self.replace(value)
            return value if new == value else new
        if isinstance(value, int):  # of a type of its own
            new = self.replace(value)
            return value if type(new) is type(value) and new == value else new
        if isinstance(value, tuple):
            items = [self.attribute(v) for v in value]
            return value if _same(items, value) else tuple(items)
        if isinstance(value, TensorType):
            shape = self.attribute(value.shape)
            return value if shape is value.shape else TensorType(value.dtype, shape)
        if isinstance(value, BufferType):
            shape, strides = self.attribute(value.shape), self.attribute(value.strides)
            same = shape is value.shape and strides is value.strides
            return value if same else BufferType(value.dtype, shape, strides)
        if isinstance(value, Space):
            extents = [self.attribute(i.extent) for i in value.iters]
            if _same(extents, [i.extent for i in value.iters]):
                return value
            pairs = zip(value.iters, extents, strict=True)
            return Space(Iter(i.name, extent, i.kind) for i, extent in pairs)
        return value


def _same(new: Iterable[Any], old: Iterable[Any]) -> bool:
    return all(map(operator.is_, new, old))
