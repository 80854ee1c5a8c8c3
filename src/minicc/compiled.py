"""From a graph module to something that runs here.

All stages, the backend, and the cache of object code.

Mirrors: torch.compile's Inductor entry with its FX cache, JAX's compilation cache.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from minicc.backends.base import Executable, Store
from minicc.backends.llvm.compile import compile_program
from minicc.compiler import Stage, lower
from minicc.errors import UserError
from minicc.ir.core import Module, Op
from minicc.memory import constant_bytes, give_back, without_collection
from minicc.options import Options
from minicc.partition import HostOps, Part, PartitionPlan, Pipeline, plan_parts
from minicc.runtime.cache import Cache, key
from minicc.runtime.execute import NativeExecutable
from minicc.runtime.threads import team_code
from minicc.target import Target
from minicc.version import VERSION

_MUCH = 1 << 23  # bytes of constants, of which stages may have left copies about


def store_of(options: Options, target: Target) -> Store:
    """Object code from the cache on disk, made and kept where it is not there."""
    folder = Cache(options.cache_dir, options.cache_bytes)

    def store(kind: str, text: str, make: Callable[[], bytes]) -> bytes:
        name = key(VERSION, kind, target, text)
        found = folder.get(name)
        if found is None:
            found = make()
            folder.put(name, found)
        return found

    return store


_stores: dict[tuple[Any, ...], Store] = {}


def _store(options: Options) -> Store:
    target = options.machine
    name = (options.cache_dir, options.cache_bytes, target.name)
    if name not in _stores:
        _stores[name] = store_of(options, target)
    return _stores[name]


class Compilation(NamedTuple):
    """What compiling one specialisation gave: the executable, and seconds by stage.

    `host` says of each op that runs on the host which it is and why.
    """

    executable: Executable
    seconds: dict[str, float]
    kernels: int
    launches: int
    host: tuple[tuple[Op, str], ...] = ()


@without_collection()
def compile_module(module: Module, options: Options, binding: Mapping[str, int]) -> Compilation:
    """A graph module to something that runs on this machine.

    UserError where the target does not run here.
    """
    target = options.machine
    if not target.runs_here():
        raise UserError(
            "MC0106",
            f"this machine can't run code for {target.name}",
            hint="compile it only, or leave target out",
        )
    plan = plan_parts(module, binding, options.memory_limit)
    if plan.host:
        return _partitioned(plan, options)
    return _native(plan.module, options, plan.binding)


def _native(module: Module, options: Options, binding: Mapping[str, int]) -> Compilation:
    seconds: dict[str, float] = {}

    def observe(stage: Stage, before: Module, after: Module, taken: float) -> None:
        seconds[stage.name] = taken

    target = options.machine
    program = lower(module, options, binding, observe=observe)
    began = time.perf_counter()
    if constant_bytes(program) >= _MUCH:
        give_back()
    store = _store(options)
    image, layout = compile_program(program, target, options.math == "fast", team_code(), store)
    seconds["llvm"] = time.perf_counter() - began
    executable = NativeExecutable(image, layout, options.threads)
    launches = sum(op.opname == "program.launch" for op in program.main.body.ops)
    return Compilation(executable, seconds, len(program.functions) - 1, launches)


def _partitioned(plan: PartitionPlan, options: Options) -> Compilation:
    """Native parts with the ops between them that run on the host."""
    seconds: dict[str, float] = {"llvm": 0.0}
    steps: list[tuple[Part, Executable | None]] = []
    made: list[Compilation] = []
    for part in plan.parts:
        if isinstance(part, HostOps):
            steps.append((part, None))
            continue
        made.append(_native(Module("graph", [part.function]), options, {}))
        steps.append((part, made[-1].executable))
        for name, taken in made[-1].seconds.items():
            seconds[name] = seconds.get(name, 0.0) + taken

    def close() -> None:
        for c in made:
            c.executable.close()

    executable = Pipeline(plan.module.main, steps, close)
    kernels, launches = sum(c.kernels for c in made), sum(c.launches for c in made)
    return Compilation(executable, seconds, kernels, launches, plan.host)
