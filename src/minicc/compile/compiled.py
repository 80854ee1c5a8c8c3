"""From a graph module to something that runs here.

All stages, the backend, and the cache of object code.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from minicc.backends.base import Backend, Native, Store
from minicc.backends.layout import Layout
from minicc.backends.llvm.compile import Compiling
from minicc.compile.compiler import Stage, given_by, lower
from minicc.compile.memory import require_within
from minicc.compile.partition import Control, HostOps, Part, PartitionPlan, host_ops, plan_parts
from minicc.compile.settling import LAST_CHANGE, Settling, settling
from minicc.errors import MiniccError, UserError
from minicc.ir import affine, graph
from minicc.ir.bind import bind_sizes
from minicc.ir.core import Function, Module, Value, walk
from minicc.ir.program import ends, launches
from minicc.ir.text.extents import sizes_at
from minicc.ir.types import OPAQUE, TensorType
from minicc.limits import watched, without_collection
from minicc.options import Options
from minicc.passes.graph.specialise import free_symbols
from minicc.runtime import saved
from minicc.runtime.cache import cache_at, key
from minicc.runtime.host_ops import hollow, runner
from minicc.runtime.saved import (
    Built,
    Compilation,
    Facts,
    Host,
    OnHost,
    Segment,
    cannot_run,
    executable_of,
)
from minicc.runtime.threads import runtime_code
from minicc.target import Target
from minicc.version import VERSION

_BACKEND: Backend = Compiling


def store_of(options: Options, target: Target) -> Store:
    """Object code in the cache on disk."""
    return _OnDisk(options, target)


class _OnDisk:
    def __init__(self, options: Options, target: Target) -> None:
        self._folder = cache_at(options.cache_dir, options.cache_bytes)
        self._machine = (target.name, target.cpu, target.features)

    def get(self, kind: str, text: str) -> bytes | None:
        """The code of a text."""
        return self._folder.get(self._key(kind, text))

    def put(self, kind: str, text: str, code: bytes) -> None:
        """Keep code, as far as the disk lets us."""
        self._folder.put(self._key(kind, text), code)

    def _key(self, kind: str, text: str) -> str:
        import llvmlite

        # LLVM's part is llvmlite's version, which fixes LLVM's
        return key("object", VERSION, str(llvmlite.__version__), kind, *self._machine, text)


@without_collection()
def compile_module(
    module: Module,
    options: Options,
    binding: Mapping[str, int],
    keep: Callable[[Made], None] | None = None,
    start: str | None = None,
) -> Compilation:
    """A module to something that runs on this machine; `keep` is shown the program as data.

    `start` is the last stage that it has been through, as for `lower`; without one it is a graph.
    UserError where the target does not run here.
    """
    if not options.machine.runs_here():
        raise cannot_run(options.machine.name)
    made = build(module, options, binding, start)
    if keep is not None:
        keep(made)
    executable = executable_of(made.built, options)
    return Compilation(executable, made.seconds, made.kernels, made.launches, made.host)


def is_hosted(module: Module) -> bool:
    """Whether the host runs operators of a graph, or loops whose rounds bind sizes."""
    hosted = (op for op in walk(module.main.body) if isinstance(op, graph.Host | graph.While))
    return any(isinstance(op, graph.Host) or not op.pure for op in hosted)


def by_definition(
    module: Module, inputs: Sequence[Any], limit: int, refused: UserError
) -> list[Any]:
    """What a graph means for inputs that no program is for; `refused` where it means nothing.

    MC0135, as that, where a value is more than so many bytes.
    """
    try:
        sizes = sizes_at([a.type.shape for a in module.main.args], inputs)
        return runner(bind_sizes(module, sizes).main, limit)(inputs, {})
    except (TypeError, ValueError, MiniccError):
        raise refused from None


class Made(NamedTuple):
    """A program as data, and what a `Compilation` says of it.

    `programs` are the segments at the program level.
    """

    built: Built
    seconds: dict[str, float]
    kernels: int
    launches: int
    host: tuple[OnHost, ...]
    programs: tuple[Module, ...]

    def facts(self, model: Facts, sizes: Mapping[str, int]) -> Facts:
        """What is known of the program, for what is known of its model."""
        return model._replace(
            sizes=dict(sizes),
            seconds=self.seconds,
            kernels=self.kernels,
            launches=self.launches,
            host=self.host,
        )


def facts_of(
    inputs: Sequence[tuple[str, TensorType | None]],
    outputs: Sequence[str],
    module: Module,
    options: Options,
) -> Facts:
    """What is known of a model by its graph module."""
    main = module.main
    types = (_tensor(v) if _is_stated(v.type) else None for v in ends(main)[1])
    named = tuple(zip(outputs, types, strict=True))
    symbols, wants = free_symbols(main), main.attrs.get("wants", ())
    if wants and not host_ops(module):
        wants = ()  # what wanted sizes is compiled without
    known = (tuple(inputs), named, symbols, options.math, len(main.body.ops))
    wants = tuple(s for s in wants if s in symbols)
    return Facts(*known, wants=wants, decisive=main.attrs.get("decisive", ()))


def _is_stated(type: TensorType) -> bool:
    """Whether a type tells more than the model's own declaration, which knows no bound sizes."""
    return type.dtype is not OPAQUE and not any(affine.sizes(n) for n in type.shape)


def _tensor(value: Value) -> TensorType:
    return TensorType(value.type.dtype, value.type.shape)


@without_collection()
def build(
    module: Module, options: Options, binding: Mapping[str, int], start: str | None = None
) -> Made:
    """A module after a stage to a program for the target, which need not run here."""
    with watched(options.limits):
        return _built(module, options, binding, start)


def _built(module: Module, options: Options, binding: Mapping[str, int], start: str | None) -> Made:
    plan = plan_parts(module, binding, options.memory_limit)
    if not plan.whole:
        require_within(plan.module, options.limits)
    building = _Building(options, plan, start)
    built = building.built(plan.module.main, plan.parts)
    building.given.require_used()
    programs = building.programs
    return Made(
        built,
        building.seconds,
        sum(len(p.functions) - 1 for p in programs),
        sum(1 for p in programs for _ in launches(p.main.body)),
        tuple(OnHost(op.opname, " ".join(op.loc), why) for op, why in plan.host),
        tuple(programs),
    )


def _as_declared(layout: Layout, function: Function) -> Layout:
    """A layout that says complex where the function does, and the program takes their parts."""

    def declared(values: Sequence[Value], types: Sequence[Any]) -> tuple[Any, ...]:
        pairs = zip(values, types, strict=True)
        return tuple(
            [
                TensorType(v.type.dtype, t.shape[:-1]) if v.type.dtype.is_complex else t
                for v, t in pairs
            ]
        )

    given, made = ends(function)
    if not any(v.type.dtype.is_complex for v in (*given, *made)):
        return layout
    inputs, outputs = declared(given, layout.inputs), declared(made, layout.outputs)
    return layout._replace(inputs=inputs, outputs=outputs)


class _Building:
    """The native stretches of a plan as they are compiled, one after the other."""

    def __init__(self, options: Options, plan: PartitionPlan, start: str | None) -> None:
        self.options = options
        self.plan = plan
        self.start = start
        self.seconds: dict[str, float] = {"llvm": 0.0}
        self.programs: list[Module] = []
        self.given = given_by(options)

    def built(self, function: Function, parts: Sequence[Part]) -> Built:
        """A function that was cut into parts, as data."""
        steps: list[Segment | Host | saved.Control] = []
        numbers: dict[Value, int] = {}

        def numbered(values: Sequence[Value]) -> tuple[int, ...]:
            return tuple(numbers.setdefault(v, len(numbers)) for v in values)

        given, made = ends(function)
        args, types = numbered(given), tuple(map(_tensor, given))
        for part in parts:
            passed = numbered(part.inputs), numbered(part.outputs)
            if isinstance(part, HostOps):
                steps.append(Host(part.function, *passed))
            elif isinstance(part, Control):
                bodies = tuple(self.built(*body) for body in part.bodies)
                steps.append(saved.Control(hollow(part.op), bodies, *passed))
            else:
                with settling() as settled:
                    native = self._native(part.function, settled)
                steps.append(Segment(*native, *passed))
        results = numbered(made)
        constants = (op for op in function.body.ops if isinstance(op, graph.Constant))
        known = {numbers[op.result]: op.value.array for op in constants if op.result in numbers}
        return Built(args, types, results, tuple(steps), {} if self.plan.whole else known)

    def _native(self, function: Function, settled: Settling) -> Native:
        options, seconds = self.options, self.seconds
        machine, flushed = options.machine, options.flushed
        store = store_of(options, machine)
        module = self.plan.module if self.plan.whole else Module("graph", [function])

        def observe(stage: Stage, before: Module, after: Module, taken: float) -> None:
            seconds[stage.name] = seconds.get(stage.name, 0.0) + taken
            if stage.name == LAST_CHANGE:
                settled.begin(after, options.memory_limit)

        def begin(kernels: Sequence[Function]) -> None:
            began = time.perf_counter()
            compiling.begin(kernels)
            seconds["llvm"] += time.perf_counter() - began

        with _BACKEND(machine, flushed, runtime_code(), store) as compiling:
            program = lower(
                module,
                options,
                self.plan.binding,
                start=self.start,
                observe=observe,
                given=self.given,
                begin=begin,
            )
            self.programs.append(program)
            began = time.perf_counter()
            settled.begin(program)  # if that was not done before
            native = compiling.program(program, settled.finish)
            seconds["llvm"] += time.perf_counter() - began
        return native._replace(layout=_as_declared(native.layout, function))
