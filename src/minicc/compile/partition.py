"""Ops without a lowering run on the host, the rest of the graph as machine code around them.

A graph function is cut into parts that run in order: native ones, which are compiled, and ops that
run through their own `evaluate`, the definition that every level is tested against. Each op is in
the earliest part that it can be in, so there are no more parts than a chain of ops makes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from minicc.compile.memory import require_graph_fits
from minicc.ir import affine, graph
from minicc.ir.affine import Dim
from minicc.ir.bind import sizes_in, sizes_of
from minicc.ir.core import Function, Literal, Module, Op, Region, Value
from minicc.ir.mapped import changes, own
from minicc.ir.program import ends
from minicc.ir.rewrite import Rebuilder, everywhere, rebuild
from minicc.ir.text.extents import symbol_of
from minicc.ir.types import OPAQUE
from minicc.passes.graph.expand import expands
from minicc.passes.graph.fold_constants import fold_constants
from minicc.passes.graph.specialise import specialise
from minicc.passes.graph.whiles import keeps_types
from minicc.passes.structured.lower_to_structured import has_lowering


class HostOps(NamedTuple):
    """A function whose ops run on the host; the rest as for `Native`. `why` is said of each op."""

    function: Function
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    why: tuple[tuple[Op, str], ...]


class Native(NamedTuple):
    """A function to compile: its arguments stand for `inputs`, its results for `outputs`."""

    function: Function
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]


class Control(NamedTuple):
    """A loop or branch that the host runs; each of its regions is cut into parts of its own."""

    op: Op
    bodies: tuple[tuple[Function, tuple[Part, ...]], ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    why: tuple[tuple[Op, str], ...]


Part = HostOps | Native | Control
# of constants, or of complex numbers, and gone before anything is lowered
_EARLY = (graph.WinogradWeights, graph.Real, graph.Imag, graph.Complex)


def runs_on_host(op: Op) -> str:
    """Why an op does not become machine code, in words; empty where it does."""
    if isinstance(op, graph.Host):
        return f"{op.operator.partition('.')[2]} runs on the host"
    if isinstance(op, graph.While) and not keeps_types(op):
        return "data decide how often it runs, or what its rounds give"
    if isinstance(op, graph.If) and op.types:
        return "its branches give values of different shapes"
    elements = [v.type.dtype for v in (*op.operands, *op.results)]
    if OPAQUE in elements:
        return "of what is no tensor of numbers"
    if op.control:
        ops = (inner for region in op.regions for inner in region.ops)
        inside = [why for inner in ops if (why := runs_on_host(inner))]
        return f"in its body: {inside[0]}" if inside else ""
    known = isinstance(op, (graph.Constant, *_EARLY)) or has_lowering(op) or expands(op)
    return "" if known else f"{op.opname} has no lowering"


def host_ops(module: Module) -> list[tuple[Op, str]]:
    """The ops of a graph module that run on the host, each with why."""
    found = [(op, runs_on_host(op)) for op in module.main.body.ops]
    return [(op, why) for op, why in found if why]


class PartitionPlan(NamedTuple):
    """How a graph module is compiled: its parts in the order in which they run.

    `module` is the module that they are parts of, `binding` the sizes that are still to be bound in
    them. A module without host ops is one part as it stands.
    """

    module: Module
    binding: Mapping[str, int]
    parts: tuple[Part, ...]

    @property
    def whole(self) -> bool:
        """Whether the module is compiled as it stands."""
        return any(
            isinstance(part, Native) and part.function is self.module.main for part in self.parts
        )

    @property
    def host(self) -> tuple[tuple[Op, str], ...]:
        """The ops that run on the host, each with why."""
        return tuple(_whys(self.parts))


def _whys(parts: Sequence[Part]) -> Iterator[tuple[Op, str]]:
    for part in parts:
        if not isinstance(part, Native):
            yield from part.why
        if isinstance(part, Control):
            for _, inner in part.bodies:
                yield from _whys(inner)


def plan_parts(module: Module, binding: Mapping[str, int], limit: int) -> PartitionPlan:
    """The parts of a module for these sizes of its free dimensions; below the graph it is one.

    UserError where a value of an op on the host is larger than so many bytes.
    """
    if _needs_host(module):
        module, binding = specialise(module, binding), {}
        require_graph_fits(module, limit, [op for op, _ in host_ops(module)])
        # what depends on constants alone needs no host when the model runs
        module = specialise(fold_constants(module), {})
        if _needs_host(module):
            module = Module(module.level, [everywhere(module.main, _held)])
            return PartitionPlan(module, binding, tuple(partition(module.main)))
    main = module.main
    whole = Native(main, *map(tuple, ends(main)))
    return PartitionPlan(module, binding, (whole,))


def _needs_host(module: Module) -> bool:
    """Whether the host runs an op of a graph, or is given what is no tensor, even if unread."""
    if module.level != "graph":
        return False
    given = {v.type.dtype for v in module.main.args}
    return bool(host_ops(module) or OPAQUE in given)


def _held(function: Function) -> Function:
    """The function with copies of what lies in the model's file and is read when it runs."""
    on_host = [op for op in function.body.ops if runs_on_host(op)]
    read = {v for op in on_host for v in op.operands}.union(function.body.yields)

    def visit(b: Rebuilder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        if isinstance(op, graph.Constant) and op.result in read and changes(op.value.array):
            return (b.emit(graph.Constant, value=Literal(own(op.value.array))),)
        return None

    return rebuild(function, visit)


def partition(function: Function) -> list[Part]:
    """The parts of a function in the order in which they run.

    An op stands after those that make its operands, and after those that bind the sizes in it.
    """
    place: dict[Value | str, int] = {}
    parts: dict[int, list[Op]] = {}
    constants: dict[Value, Op] = {}
    for op in function.body.ops:
        if isinstance(op, graph.Constant):
            constants[op.result] = op
            continue
        # even places are native, odd ones on the host
        odd = 1 if runs_on_host(op) else 0
        bound = graph.bound_by(op)
        needs: tuple[Value | str, ...] = (
            *op.operands,
            *[n for n in sizes_in(op) if n not in bound],
        )
        at = max((place.get(v, 0) for v in needs), default=0)
        at += (at % 2) ^ odd
        parts.setdefault(at, []).append(op)
        place.update(dict.fromkeys((*op.results, *bound), at))
    out: list[Part] = []
    for at in sorted(parts):
        if at % 2 == 0:
            out.append(_native(function, parts[at], constants))
            continue
        for control, ops in groupby(parts[at], lambda op: op.control):
            if control:
                out += [_control(op) for op in ops]
            else:
                here = tuple(ops)
                why = tuple((op, runs_on_host(op)) for op in here)
                out.append(HostOps(*_native(function, here, constants), why))
    return _asking(function, out)


def _asking(function: Function, parts: Sequence[Part]) -> list[Part]:
    """The parts, and ones without ops that have the demands of sizes which none of them knows.

    Those of the inputs' sizes stand before all others, those of sizes that ops bind after them.
    """
    native = (part.function for part in parts if isinstance(part, Native))
    held = {pair for f in native for pair in f.attrs.get("demands", ())}
    inputs = tuple(a for a in function.args if a.type.dtype is not OPAQUE)
    asked: tuple[tuple[Dim, Dim], ...] = function.attrs.get("demands", ())
    left = [pair for pair in asked if pair not in held]
    first = _demands(left, _named_by(inputs))
    last = tuple(pair for pair in left if pair not in first)
    out = list(parts)
    if first:
        ahead = Function("main", Region(inputs, (), ()), {"demands": first}, ())
        out.insert(0, Native(ahead, inputs, ()))
    if last:
        named = {s for pair in last for n in pair for s in affine.symbols(n)}
        attrs = {"sizes": tuple(sorted(named)), "demands": last}
        out.append(Native(Function("main", Region((), (), ()), attrs), (), ()))
    return out


def _named_by(inputs: Sequence[Value]) -> set[str]:
    """The sizes that are extents of inputs."""
    return {s for v in inputs for n in v.type.shape if symbol_of(n) for s in affine.sizes(n)}


def _demands(asked: Sequence[tuple[Dim, Dim]], known: set[str]) -> tuple[tuple[Dim, Dim], ...]:
    """The demands that are of sizes which are known."""
    return tuple(pair for pair in asked if all(affine.symbols(n) <= known for n in pair))


def _control(op: Op) -> Control:
    functions = [Function("main", region) for region in op.regions]
    bodies = tuple((f, tuple(partition(f))) for f in functions)
    return Control(op, bodies, op.operands, op.results, ((op, runs_on_host(op)),))


def _native(function: Function, ops: Sequence[Op], constants: Mapping[Value, Op]) -> Native:
    made = {v for op in ops for v in op.results}
    used = dict.fromkeys(v for op in ops for v in op.operands)
    inputs = tuple(v for v in used if v not in made and v not in constants)
    mine = set(ops)
    wanted = set(function.body.yields)
    for op in function.body.ops:
        if op not in mine:
            wanted.update(op.operands)
    outputs = tuple(v for op in ops for v in op.results if v in wanted)
    everything = [constants[v] for v in used if v in constants] + list(ops)
    names = [f"y{k}" for k in range(len(outputs))]
    body = Region(inputs, everything, outputs)
    had = _named_by(inputs)
    sizes = tuple(s for s in sizes_of(body) if s not in had)
    demands = _demands(function.attrs.get("demands", ()), had.union(sizes))
    # whoever gives the sizes does not know what a part would settle: that is guarded
    attrs = {"sizes": sizes, "demands": demands, "settled": bool(had or sizes)}
    attrs = {k: v for k, v in attrs.items() if v}
    return Native(Function("main", body, attrs, names), inputs, outputs)
