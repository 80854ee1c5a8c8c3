"""What a model is compiled in, unit by unit, for who shows or compares the levels.

A unit is a graph module that is compiled as a whole, or that runs on the host as a whole. Most
models are one unit. Ops without a lowering cut a model into units that are known as soon as its
dimensions are. Where data decide, only the first units are known before the model runs; the others
are met when it does.

Mirrors: torch.compile's explain with its list of graphs, TVM's and ExecuTorch's partition reports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from minicc.compiler import require_bound
from minicc.errors import MiniccError
from minicc.frontends.onnx.importer import import_graph
from minicc.frontends.onnx.reader import Model
from minicc.ir import graph
from minicc.ir.core import Array, Module, Op, Value
from minicc.memory import require_graph_fits
from minicc.options import Options
from minicc.partition import HostOps, PartitionPlan, plan_parts
from minicc.parts import Parts, first_part, what_data_decide
from minicc.passes.graph.specialise import specialise
from minicc.runtime.host_ops import run_by_definition
from minicc.runtime.saved import Compilation


class Unit(NamedTuple):
    """A graph module that is compiled, or runs on the host: then `host` says of its ops why.

    `number` counts the units of a model in the order in which they run, from 1; `binding` are sizes
    still to be bound; `takes` and `gives` are values with their types, for people.
    """

    number: int
    module: Module
    binding: Mapping[str, int]
    takes: tuple[str, ...]
    gives: tuple[str, ...]
    host: tuple[tuple[Op, str], ...] = ()

    def head(self) -> list[str]:
        """Which unit it is, what it takes and gives, and why it runs where it does."""
        where = "runs on the host" if self.host else "becomes machine code"
        why = [f"  {' '.join(op.loc)}: {text}" for op, text in self.host]
        takes = f"  takes {', '.join(self.takes) or 'nothing'}"
        return [f"part {self.number} {where}", *why, takes, f"  gives {', '.join(self.gives)}"]


class Units(NamedTuple):
    """The units of a model that are known, in the order in which they run.

    `plan` is what they are parts of, where they make a whole model. `later` says what is known only
    when the model runs: nodes, and what data decide there. `between` are nodes that ran on the host
    between units, with why.
    """

    known: tuple[Unit, ...]
    plan: PartitionPlan | None = None
    later: tuple[str, ...] = ()
    between: tuple[str, ...] = ()

    @property
    def several(self) -> bool:
        """Whether the model is more than one unit, or may be when it runs."""
        return len(self.known) > 1 or bool(self.later or self.between)


Met = Callable[[Unit, list[Array], list[Array]], None]


def units_of(module: Module, options: Options, binding: Mapping[str, int], first: int = 1) -> Units:
    """The units of a graph module, numbered from `first`; UserError as of `plan_parts`."""
    plan = plan_parts(module, binding, options.memory_limit)
    return Units(_units(plan, first), plan)


def units_before_run(model: Model, options: Options, binding: Mapping[str, int]) -> Units:
    """The units that are known before a model runs; all of them, unless data decide.

    UserError and UnsupportedError for what is wrong with the model, and where a dimension stays
    free while there are several units.
    """
    try:
        whole = import_graph(model, binding)
    except MiniccError as error:
        later = tuple(what_data_decide(error))
    else:
        return units_of(whole, options, binding)
    first = first_part(model, binding)
    if first is None:
        return Units((), later=later)
    require_bound(first)
    return Units(units_of(first, options, binding).known, later=later)


def run_units(units: Units, inputs: Sequence[Array], options: Options, met: Met) -> list[Array]:
    """Run the units of a whole model by the ops' own definitions; the outputs may be views.

    `met(unit, inputs, outputs)` is called behind each. UserError for an index out of range, and
    where values are larger than memory.
    """
    assert units.plan is not None
    main = units.plan.module.main
    known: dict[Value, Array] = dict(zip(main.args, inputs, strict=True))
    for unit in units.known:
        bound = specialise(unit.module, unit.binding)
        # the definitions hold every value
        require_graph_fits(bound, options.memory_limit, bound.main.body.ops)
        given = [np.require(known[v], requirements="C") for v in unit.module.main.args]
        made = run_by_definition(bound.main, given)
        met(unit, given, made)
        known.update(zip(unit.module.main.body.yields, made, strict=True))
    constants = (op for op in main.body.ops if isinstance(op, graph.Constant))
    known.update((op.result, op.value.array) for op in constants)
    return [known[v] for v in main.body.yields]


def run_in_parts(model: Model, options: Options, feed: Mapping[str, Any], met: Met) -> Units:
    """Run a model of which data decide by the ops' own definitions; the units that were met.

    `met` is called as by `run_units`, when a unit runs for the first time; so it is for a loop's
    body. UserError for what goes wrong in the run.
    """
    known: list[Unit] = []

    def compile(module: Module, options: Options, binding: Mapping[str, int]) -> Compilation:
        units = units_of(module, options, binding, len(known) + 1)
        known.extend(units.known)
        return Compilation(_ByDefinition(units, options, met), {}, 0, 0)

    parts = Parts(model, options, compile=compile)
    parts.run(feed)
    return Units(tuple(known), between=tuple(f"{name}: {why}" for name, why in parts.host.items()))


def _units(plan: PartitionPlan, first: int) -> tuple[Unit, ...]:
    """The parts of a plan with numbers from `first`, and names for what passes between them."""
    main = plan.module.main
    names = {a: a.hint for a in main.args}
    units: list[Unit] = []
    for number, part in enumerate(plan.parts, first):
        for k, v in enumerate(part.outputs):
            names.setdefault(v, v.hint or f"result {k} of part {number}")
        takes, gives = (
            tuple(f"{names[v]}: {v.type}" for v in values) for values in (part.inputs, part.outputs)
        )
        host = part.why if isinstance(part, HostOps) else ()
        module = Module("graph", [part.function])
        units.append(Unit(number, module, plan.binding, takes, gives, host))
    return tuple(units)


class _ByDefinition:
    """Runs units by definition; implements `backends.base.Executable`."""

    def __init__(self, units: Units, options: Options, met: Met) -> None:
        self._units = units
        self._options = options
        self._met: Met | None = met

    def guards(self) -> list[str]:
        """Nothing: all sizes are bound."""
        return []

    def fits(self, shapes: Sequence[tuple[int, ...]]) -> bool:
        """Whether the units are for inputs of these shapes; they are all bound."""
        return True

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs, which are the caller's own."""
        met, self._met = self._met, None
        made = run_units(self._units, inputs, self._options, met or _nothing)
        return [np.array(a, order="C") for a in made]

    def close(self) -> None:
        """There is nothing to end."""


def _nothing(unit: Unit, inputs: list[Array], outputs: list[Array]) -> None:
    """What is done where a unit runs again."""
