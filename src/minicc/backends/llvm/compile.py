"""A module of the program level to an image of machine code: emit, compile each kernel, link.

Kernels are compiled one object each, so that an equal kernel of another model is found in the
store.

Mirrors: IREE's executable translation, XLA:CPU's IR compiler with its parallel modules. IREE links
a shared library, XLA a module per fusion; ours makes an object a kernel, so that equal ones are
found again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from threading import Event, Lock
from typing import NamedTuple

from minicc.backends.base import Image, Store, TeamCode
from minicc.backends.layout import Layout
from minicc.backends.llvm.emit import emit_kernel
from minicc.backends.llvm.link import link
from minicc.backends.llvm.optimize import assembly, optimise
from minicc.backends.llvm.program import emit_main, layout_of
from minicc.ir.core import Function, Module, walk
from minicc.target import Target


class Native(NamedTuple):
    """Machine code of a program with `main`, and what the table of `main` must hold."""

    image: Image
    layout: Layout


def emit(module: Module, target: Target, flush_denormals: bool) -> dict[str, str]:
    """LLVM IR text of `main` and of each kernel, by name."""
    return dict(_texts(module, target, flush_denormals))


def _texts(module: Module, target: Target, flush_denormals: bool) -> Iterator[tuple[str, str]]:
    yield "main", emit_main(module, flush_denormals)
    kernels = [f for f in module.functions if f is not module.main]
    for function in sorted(kernels, key=_ops, reverse=True):
        yield function.name, emit_kernel(function, target)


def _ops(function: Function) -> int:
    return sum(1 for _ in walk(function.body))


def compile_program(
    module: Module, target: Target, flush_denormals: bool, team: TeamCode, store: Store
) -> Native:
    """Machine code of a program, with that of the threads that run it."""
    texts = _texts(module, target, flush_denormals)
    known = _team_objects.get((target, team))
    if known is None:
        objects = objects_of(chain([("team", team.text)], texts), target, store)
        _team_objects[target, team] = objects[0]
    else:
        objects = [known, *objects_of(texts, target, store)]
    return Native(link(objects, ["main", *team.symbols]), layout_of(module))


_team_objects: dict[tuple[Target, TeamCode], bytes] = {}


def objects_of(texts: Iterable[tuple[str, str]], target: Target, store: Store) -> list[bytes]:
    """Object code of LLVM IR, each a name and a text, from the store or made and stored.

    On all cores that the process may use; each thread takes a text, which may be made then, and
    goes on with it. So only one of them runs Python while the others are in LLVM. `main` calls, and
    computes nothing: optimised, its code is no faster, and ten times as long in the making.
    """
    cores = len(os.sched_getaffinity(0))
    source, taken, stopped = enumerate(texts), Lock(), Event()
    made: dict[int, bytes] = {}

    def work() -> None:
        while not stopped.is_set():
            with taken:
                number, (name, text) = next(source, (-1, ("", "")))
            if number < 0:
                return
            make = partial(optimise, text, target, 0 if name == "main" else 2)
            made[number] = store(f"object {target.name}", text, make)

    pool = ThreadPoolExecutor(cores, "minicc-llvm")
    try:
        for worker in [pool.submit(work) for _ in range(cores)]:
            worker.result()
    finally:
        # an interrupt must not wait for what has not begun
        stopped.set()
        pool.shutdown()
    return [made[number] for number in range(len(made))]


def assemble(module: Module, target: Target, flush_denormals: bool) -> dict[str, str]:
    """Assembler text of each kernel and of `main`, by name."""
    return {n: assembly(t, target) for n, t in _texts(module, target, flush_denormals)}
