"""Rebuilding: how a pass makes a new function from an old one.

`rebuild` walks the ops in order, asks `visit` what each becomes, and forwards replaced values.
Equal pure ops are found while building (common subexpressions), unused ones are left out at the
end, so no pass needs to clean up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from minicc.ir.build import Builder
from minicc.ir.core import Function, Loc, Op, Region, Value, op_key

Visit = Callable[["Rebuilder", Op, tuple[Value, ...]], "Sequence[Value] | None"]


class Rebuilder(Builder):
    """A builder that knows what the values of the old function became.

    And reuses equal pure ops.
    """

    __slots__ = ("_known", "forward")

    def __init__(self) -> None:
        super().__init__(())
        self.forward: dict[Value, Value] = {}
        self._known: dict[Any, Op] = {}

    def new(self, value: Value) -> Value:
        """What a value of the old function became."""
        return self.forward.get(value, value)

    def add(self, op: Op) -> Op:
        """Append an op, or return the equal one that is there."""
        if op.pure and not op.regions:
            key = op_key(op)
            known = self._known.get(key)
            if known is not None:
                return known
            self._known[key] = op
        self.ops.append(op)
        return op

    def emit(self, cls: type[Op], *args: Any, **attrs: Any) -> Value:
        """Create an op at the current location, or reuse the equal one."""
        return self.add(cls(*args, loc=self.loc, **attrs)).result


def rebuild(function: Function, visit: Visit) -> Function:
    """A new function in which each op became what `visit(rebuilder, op, new operands)` returned.

    `visit` returns the values that stand for the op's results, having added ops to the rebuilder;
    None keeps the op.
    """
    out = Rebuilder()
    for op in function.body.ops:
        out.loc = op.loc
        operands = tuple([out.forward.get(v, v) for v in op.operands])
        results = visit(out, op, operands)
        if results is None:
            kept = op if operands == op.operands else op.rebuilt(operands)
            results = out.add(kept).results
        for old, new in zip(op.results, results, strict=True):
            if new is not old:
                if not new.hint:
                    new.hint = old.hint
                out.forward[old] = new
    yields = [out.new(v) for v in function.body.yields]
    return function.with_body(Region(function.args, live(out.ops, yields), yields))


def everywhere(function: Function, change: Callable[[Function], Function]) -> Function:
    """A pass on a function, and then on the bodies of its loops, each as a function of its own."""

    def of_op(op: Op) -> Op:
        if not op.control:
            return op
        bodies = [Function(function.name, region) for region in op.regions]
        return op.with_regions([everywhere(f, change).body for f in bodies])

    made = change(function)
    if not any(op.control for op in made.body.ops):
        return made
    body = made.body
    return made.with_body(Region(body.args, [of_op(op) for op in body.ops], body.yields))


def live(ops: Sequence[Op], yields: Sequence[Value]) -> list[Op]:
    """The ops that `yields` need, and those with effects, in order."""
    needed = set(yields)
    kept: list[Op] = []
    for op in reversed(ops):
        if not op.pure or not needed.isdisjoint(op.results):
            kept.append(op)
            needed.update(op.operands)
            for region in op.regions:
                needed |= used_by(region)
    return kept[::-1]


def used_by(region: Region) -> set[Value]:
    """All values that a region mentions."""
    used = set(region.yields)
    for op in region.ops:
        used.update(op.operands)
        for inner in op.regions:
            used |= used_by(inner)
    return used


def inline(
    builder: Builder,
    region: Region,
    args: Sequence[Value],
    loc: Loc | None = None,
    outside: Mapping[Value, Value] = MappingProxyType({}),
) -> tuple[Value, ...]:
    """Append copies of a region's ops with `args` for its arguments; returns what it yields.

    They stay where they are from, unless a location is given. `outside` is what stands for values
    of the scope around the region.
    """
    forward = {**outside, **dict(zip(region.args, args, strict=True))}
    for op in region.ops:
        operands = [forward.get(v, v) for v in op.operands]
        regions = [copied(r, forward) for r in op.regions] if op.regions else None
        copy = builder.add(op.rebuilt(operands, regions, loc))
        forward.update(zip(op.results, copy.results, strict=True))
    return tuple(forward.get(v, v) for v in region.yields)


def copied(region: Region, outside: Mapping[Value, Value] = MappingProxyType({})) -> Region:
    """The same region with values of its own."""
    args = [Value(a.type, a.hint) for a in region.args]
    builder = Builder(())
    yields = inline(builder, region, args, outside=outside)
    return Region(args, builder.ops, yields)


def merge_locations(*locations: Sequence[str]) -> tuple[str, ...]:
    """The names of several locations, each once, in order."""
    return tuple(dict.fromkeys(name for loc in locations for name in loc))


def substituted(
    ops: Sequence[Op], yields: Sequence[Value], forward: Mapping[Value, Value]
) -> tuple[list[Op], list[Value]]:
    """The same ops and yields with some values replaced; what follows from them is rebuilt too."""
    known = dict(forward)
    out: list[Op] = []
    for op in ops:
        operands = [known.get(v, v) for v in op.operands]
        if all(a is b for a, b in zip(operands, op.operands, strict=True)):
            out.append(op)
            continue
        fresh = op.rebuilt(operands)
        known.update(zip(op.results, fresh.results, strict=True))
        out.append(fresh)
    return out, [known.get(v, v) for v in yields]
