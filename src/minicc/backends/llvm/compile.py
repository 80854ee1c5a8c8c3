"""A module of the program level to an image of machine code: emit, compile each kernel, link.

Kernels are compiled one object each, so that an equal kernel of another model is found in the
store, and those that differ in numbers alone share one (see `templates`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain
from threading import Event, Lock

from minicc.backends.base import Native, RuntimeCode, Store
from minicc.backends.llvm.emit import emit_kernel
from minicc.backends.llvm.link import Object, link
from minicc.backends.llvm.optimize import assembly, optimise, optimise_whole
from minicc.backends.llvm.program import emit_main, inlined_kernels, layout_of
from minicc.backends.llvm.templates import FUNCTION, Template, templates_of
from minicc.ir.core import Function, Module, Op, walk
from minicc.options import Flushed
from minicc.target import Target


def emit(module: Module, target: Target, flushed: Flushed) -> dict[str, str]:
    """LLVM IR text of `main` and of each kernel, by name."""
    kernels = {f.name: emit_kernel(f, target) for f in _kernels(module)}
    return {"main": emit_main(module, flushed), **kernels}


def _kernels(module: Module) -> list[Function]:
    return [f for f in module.functions if f is not module.main]


def kernel_templates(module: Module, target: Target) -> Iterator[Template]:
    """What is compiled for the kernels of a module, the largest first."""
    alike: dict[tuple[type[Op], ...], list[Function]] = {}
    for function in _kernels(module):
        alike.setdefault(tuple(type(op) for op in walk(function.body)), []).append(function)
    for kernels in sorted(alike.items(), key=lambda found: len(found[0]), reverse=True):
        yield from templates_of([(f.name, emit_kernel(f, target)) for f in kernels[1]])


def compile_program(
    module: Module,
    target: Target,
    flushed: Flushed,
    runtime: RuntimeCode,
    store: Store,
    settled: Callable[[], None] = lambda: None,
) -> Native:
    """Machine code of a program, with that of the runtime.

    `settled` returns when the constants are where they stay: LLVM does not wait for them.
    """
    inlined = inlined_kernels(module)
    within = [emit_kernel(f, target) for f in _kernels(module) if f.name in inlined]
    main = Template(emit_main(module, flushed), within=tuple(within))
    templates = chain([main], kernel_templates(module, target))
    objects = objects_of(templates, target, store)
    objects += prepare(target, runtime, store).result()
    settled()
    return Native(link(objects, ["main", *runtime.symbols]), layout_of(module))


_prepared: dict[tuple[Target, RuntimeCode], Future[list[Object]]] = {}
os.register_at_fork(after_in_child=_prepared.clear)  # who makes them is not in the child


def prepare(target: Target, runtime: RuntimeCode, store: Store) -> Future[list[Object]]:
    """The runtime's code, which no program changes: made on a core that the passes leave free.

    The first use of LLVM in a process takes longer than that, and is over then.
    """
    found = _prepared.get((target, runtime))
    if found is None or (found.done() and found.exception() is not None):
        pool = ThreadPoolExecutor(1, "minicc-runtime")
        found = pool.submit(_compiled, Template(runtime.text, ()), target, store)
        _prepared[target, runtime] = found
        pool.shutdown(wait=False)
    return found


def objects_of(templates: Iterable[Template], target: Target, store: Store) -> list[Object]:
    """Objects for all that templates are compiled for, from the store or made and stored.

    On all cores that the process may use; each thread takes a template, which may be made then, and
    goes on with it. So only one of them runs Python while the others are in LLVM.
    """
    cores = len(os.sched_getaffinity(0))
    texts, taken, stopped = enumerate(templates), Lock(), Event()
    made: dict[int, list[Object]] = {}

    def work() -> None:
        while not stopped.is_set():
            with taken:
                item = next(texts, None)
            if item is None:
                return
            number, template = item
            made[number] = _compiled(template, target, store)

    pool = ThreadPoolExecutor(cores, "minicc-llvm")
    try:
        workers = [pool.submit(work) for _ in range(cores)]
        for worker in workers:
            worker.result()
    finally:
        # an interrupt must not wait for what has not begun
        stopped.set()
        pool.shutdown()
    return [found for number in range(len(made)) for found in made[number]]


def _compiled(template: Template, target: Target, store: Store) -> list[Object]:
    """Objects for all that one template is compiled for.

    What is no kernel calls, and computes nothing but in small kernels within it: without those its
    code is no faster for being optimised, and ten times as long in the making.
    """
    text, instances, within = template
    if within:
        make = partial(optimise_whole, text, within, target)
    else:
        make = partial(optimise, text, target, 2 if instances else 0)
    code = store(f"object {target.name}", "\n".join([text, *within]), make)
    return [Object(code, {FUNCTION: symbol}, numbers) for symbol, numbers in instances] or [
        Object(code)
    ]


def assemble(module: Module, target: Target, flushed: Flushed) -> dict[str, str]:
    """Assembler text of each kernel and of `main`, by name."""
    texts = emit(module, target, flushed)
    return {name: assembly(text, target) for name, text in texts.items()}
