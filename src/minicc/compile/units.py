"""What a model is compiled in, unit by unit, for who shows or compares the levels.

A unit is a graph module that is compiled as a whole, or that runs on the host as a whole. Most
models are one unit. Ops without a lowering, and those that data decide, cut a model into several;
the regions of a loop or branch that the host runs are units of their own, after that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from minicc.compile.compiled import by_definition
from minicc.compile.memory import require_graph_fits
from minicc.compile.partition import Control, HostOps, Part, PartitionPlan, plan_parts
from minicc.errors import UserError
from minicc.ir import graph, interpret
from minicc.ir.bind import bind_sizes
from minicc.ir.core import Array, Function, Module, Op, Region, Value
from minicc.ir.program import ends
from minicc.ir.text.extents import sizes_at
from minicc.options import Options
from minicc.passes.graph.specialise import specialise
from minicc.runtime.host_ops import run_by_definition, run_control


class Unit(NamedTuple):
    """A graph module that is compiled, or runs on the host: then `host` says of its ops why.

    `number` counts the units of a model, from 1; `within` is the op whose region it is a part of;
    `binding` are sizes still to be bound; `takes` and `gives` are values with their types, for
    people. `part` is what of the plan it is, where it is of one. `start` is the last stage that
    the module has been through, where it is a text of any level. `sizes` are those of a run in
    which it was met, by name.
    """

    number: int
    module: Module
    binding: Mapping[str, int]
    takes: tuple[str, ...]
    gives: tuple[str, ...]
    host: tuple[tuple[Op, str], ...] = ()
    within: str = ""
    part: Part | None = None
    start: str | None = None
    sizes: Mapping[str, int] = MappingProxyType({})

    def head(self) -> list[str]:
        """Which unit it is, what it takes and gives, and why it runs where it does."""
        where = "runs on the host" if self.host else "becomes machine code"
        what = f"part {self.number}{self.within and f', of each round or branch of {self.within},'}"
        why = [f"  {' '.join(op.loc)}: {text}" for op, text in self.host]
        takes = f"  takes {', '.join(self.takes) or 'nothing'}"
        return [f"{what} {where}", *why, takes, f"  gives {', '.join(self.gives)}"]


class Units(NamedTuple):
    """The units of a model, and the plan that they are of; there is none for a program's segments.

    `module` is the model's graph, or the module of a text.
    """

    known: tuple[Unit, ...]
    plan: PartitionPlan | None = None
    module: Module | None = None

    @property
    def several(self) -> bool:
        """Whether the model is more than one unit."""
        return len(self.known) > 1


Met = Callable[[Unit, list[Array], list[Array]], None]


def units_of(
    module: Module, options: Options, binding: Mapping[str, int], start: str | None = None
) -> Units:
    """The units of a module after a stage, with these sizes; errors as of `plan_parts`."""
    plan = plan_parts(module, binding, options.memory_limit)
    parts = _parts(plan.module.main, plan.parts, "")
    units = [_unit(number, plan, *part) for number, part in enumerate(parts, 1)]
    return Units(tuple(u._replace(start=start) for u in units), plan, module)


_Named = tuple[Part, Mapping[Value, str], str]


def _parts(function: Function, parts: Sequence[Part], within: str) -> Iterator[_Named]:
    """The parts of a function with names for values, each before those of its regions."""
    names = {a: a.hint for a in function.args}
    for number, part in enumerate(parts, 1):
        for k, v in enumerate(part.outputs):
            names.setdefault(v, v.hint or f"result {k} of part {number}")
        yield part, names, within
        if isinstance(part, Control):
            for body in part.bodies:
                yield from _parts(*body, " ".join(part.op.loc))


def _unit(
    number: int, plan: PartitionPlan, part: Part, names: Mapping[Value, str], within: str
) -> Unit:
    takes, gives = (
        tuple(f"{names.get(v) or 'a constant'}: {v.type}" for v in values)
        for values in (part.inputs, part.outputs)
    )
    host = part.why if isinstance(part, HostOps | Control) else ()
    if plan.whole:
        module = plan.module
    else:
        module = Module("graph", [_alone(part.op) if isinstance(part, Control) else part.function])
    return Unit(number, module, plan.binding, takes, gives, host, within, part)


def _alone(op: Op) -> Function:
    """A function of one op."""
    args = [Value(v.type, v.hint) for v in op.operands]
    copy = op.rebuilt(args)
    return Function("main", Region(args, [copy], copy.results))


def run_units(units: Units, inputs: Sequence[Any], options: Options, met: Met) -> list[Any]:
    """Run the units of a whole model by the ops' own definitions; the outputs may be views.

    `met(unit, inputs, outputs)` is called when one has run for the first time, its module bound to
    the sizes of that run, and before a loop or branch runs. The plan may want sizes to be equal
    that data decide; where these are not, the graph runs as it stands, as in a session. UserError
    for an index out of range, and where values are larger than memory.
    """
    assert units.plan is not None
    assert units.module is not None
    if units.module.level != "graph":
        return _interpreted(units.known[0], inputs, met)
    run = _Run(units, options, met)
    try:
        return run.values(units.plan.module.main, units.plan.parts, inputs, {})
    except UserError as error:
        if error.code != "MC0142":
            raise
        return by_definition(units.module, inputs, options.memory_limit, error)


def _interpreted(unit: Unit, inputs: Sequence[Any], met: Met) -> list[Any]:
    """The same of a text below the graph, as the interpreter runs it."""
    given = [np.require(a, requirements="C") for a in inputs]
    shapes = [a.type.shape for a in ends(unit.module.main)[0]]
    bound = bind_sizes(unit.module, sizes_at(shapes, given))
    made = interpret.run(bound, given)
    met(unit._replace(module=bound), given, made)
    return made


class _Run:
    def __init__(self, units: Units, options: Options, met: Met) -> None:
        self.options = options
        self.met = met
        self.new = {id(unit.part): unit for unit in units.known}

    def values(
        self,
        function: Function,
        parts: Sequence[Part],
        inputs: Sequence[Any],
        around: Mapping[str, int],
    ) -> list[Any]:
        """What a function that was cut into parts gives, for the sizes that are bound around it."""
        sizes = {**around, **sizes_at([a.type.shape for a in function.args], inputs)}
        known: dict[Value, Any] = dict(zip(function.args, inputs, strict=True))
        constants = (op for op in function.body.ops if isinstance(op, graph.Constant))
        known.update((op.result, op.value.array) for op in constants)
        for part in parts:
            given = [known[v] for v in part.inputs]
            run = self.control if isinstance(part, Control) else self.straight
            known.update(zip(part.outputs, run(part, given, sizes), strict=True))
        return [known[v] for v in function.body.yields]

    def straight(self, part: Part, given: list[Any], sizes: dict[str, int]) -> Sequence[Any]:
        """What ops without regions of the host give."""
        assert not isinstance(part, Control)
        if not isinstance(part, HostOps):
            given = [np.require(a, requirements="C") for a in given]
        bound = specialise(Module("graph", [part.function]), sizes)
        # the definitions hold every value
        require_graph_fits(bound, self.options.memory_limit, bound.main.body.ops)
        made = run_by_definition(bound.main, given, sizes)
        unit = self.new.pop(id(part), None)
        if unit is not None:
            self.met(unit._replace(module=bound, binding={}, sizes=sizes), given, made)
        return made

    def control(self, part: Part, given: list[Any], sizes: dict[str, int]) -> Sequence[Any]:
        """What a loop or branch gives."""
        assert isinstance(part, Control)
        unit = self.new.pop(id(part), None)
        if unit is not None:
            self.met(unit, given, [])
        bodies = [partial(self.values, *body) for body in part.bodies]
        asked = self.options
        run = run_control(_alone(part.op), bodies, asked.memory_limit, asked.limits)
        return run(given, sizes)
