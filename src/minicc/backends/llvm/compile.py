"""A module of the program level to an image of machine code: emit, compile each kernel, link.

Kernels are compiled one object each, so that an equal kernel of another model is found in the
store, and those that differ in numbers alone share one (see `templates`). LLVM is at work on the
first of them while others are made.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Self

from minicc.backends.base import Native, RuntimeCode, Store
from minicc.backends.llvm.emit import emit_kernel
from minicc.backends.llvm.emitter import symbol_of
from minicc.backends.llvm.link import Object, link
from minicc.backends.llvm.optimize import assembly, optimise, optimise_whole
from minicc.backends.llvm.program import emit_main, inlined_kernels, layout_of
from minicc.backends.llvm.templates import FUNCTION, templates_of
from minicc.ir.core import Function, Module, Op, Region, walk
from minicc.limits import watching
from minicc.locks import lock
from minicc.options import Flushed
from minicc.target import Target


def emit(module: Module, target: Target, flushed: Flushed) -> dict[str, str]:
    """LLVM IR text of `main` and of each kernel, by name."""
    kernels = {f.name: emit_kernel(f, target) for f in _kernels(module)}
    return {"main": emit_main(module, flushed), **kernels}


def _kernels(module: Module) -> list[Function]:
    return [f for f in module.functions if f is not module.main]


class _Turns:
    """For how long a thread keeps Python's lock while another one wants it.

    Usually that is 5 ms, as long as LLVM takes for a small kernel: a thread that comes back from
    LLVM would wait for as long as it has worked.
    """

    _SECONDS = 0.0005

    def __init__(self) -> None:
        self._lock = lock()
        self._wanted = 0
        self._usual = 0.0

    def shorten(self) -> None:
        """Make turns short until `restore` was called as often."""
        with self._lock:
            if not self._wanted:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(min(self._usual, self._SECONDS))
            self._wanted += 1

    def restore(self) -> None:
        """Make turns as long as they were, if nobody wants short ones any more."""
        with self._lock:
            self._wanted -= 1
            if not self._wanted:
                sys.setswitchinterval(self._usual)

    def forget(self) -> None:
        """Make turns as long as they were, since nobody who wants short ones is there."""
        if self._wanted:
            self._wanted = 0
            sys.setswitchinterval(self._usual)


_turns = _Turns()
os.register_at_fork(after_in_child=_turns.forget)


class Objects:
    """Objects of kernels, made on all cores while whoever wants them goes on.

    As long as kernels are made, its threads run no Python but to hand texts to LLVM: each time that
    they want Python's lock, who makes kernels waits. So what they made is put in the store later.
    At the end of a `with` block no thread is left; after an error or an interrupt, what has not
    begun is not compiled any more.
    """

    def __init__(self, target: Target, store: Store) -> None:
        self._target, self._store, self._watch = target, store, watching()
        self._pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)), "minicc-llvm")
        self._codes: dict[str, Future[bytes]] = {}
        self._unkept: list[str] = []
        self._kernels: dict[Region, tuple[Future[bytes], Mapping[str, int]]] = {}

    def __enter__(self) -> Self:
        _turns.shorten()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._pool.shutdown(cancel_futures=kind is not None)
        _turns.restore()

    def begin(self, kernels: Sequence[Function]) -> None:
        """Begin to compile kernels, of which those that differ in numbers alone share a code."""
        texts = [emit_kernel(f, self._target) for f in kernels]
        # the longest first
        for text, instances in sorted(templates_of(texts), key=lambda t: len(t.text), reverse=True):
            code = self.code(text, partial(optimise, text, self._target))
            for place, numbers in instances:
                self._kernels[kernels[place].body] = code, numbers

    def code(self, text: str, make: Callable[[], bytes]) -> Future[bytes]:
        """The code for a text from the store, or as it is made."""
        if text not in self._codes:
            found = self._store.get(_kind(self._target), text)
            if found is None:
                self._codes[text] = self._pool.submit(self._made, make)
                self._unkept.append(text)
            else:
                self._codes[text] = Future()
                self._codes[text].set_result(found)
        return self._codes[text]

    def _made(self, make: Callable[[], bytes]) -> bytes:
        self._watch.look()
        return make()

    def keep(self) -> None:
        """Put what was made in the store, after all that has begun."""
        for text in self._unkept:
            self._pool.submit(self._put, text)
        self._unkept.clear()

    def _put(self, text: str) -> None:
        self._store.put(_kind(self._target), text, self._codes[text].result())

    def of(self, kernels: Sequence[Function]) -> list[Object]:
        """The object of each kernel; what has not begun does so now."""
        alike: dict[tuple[type[Op], ...], list[Function]] = {}
        for function in kernels:
            if function.body not in self._kernels:
                form = tuple(type(op) for op in walk(function.body))
                alike.setdefault(form, []).append(function)
        for form in sorted(alike, key=len, reverse=True):
            self.begin(alike[form])
        self.keep()
        made = ((f, *self._kernels[f.body]) for f in kernels)
        return [Object(c.result(), {FUNCTION: symbol_of(f.name)}, n) for f, c, n in made]


class Compiling(Objects):
    """A program for a target that is being compiled; see `Backend`."""

    def __init__(
        self, target: Target, flushed: Flushed, runtime: RuntimeCode, store: Store
    ) -> None:
        super().__init__(target, store)
        self._flushed, self._runtime = flushed, runtime
        self._prepared = _prepare(target, runtime, store)

    def program(self, module: Module, settled: Callable[[], None] = lambda: None) -> Native:
        """Machine code of a program, with that of the runtime."""
        main, kernels = self._main(module), self.of(_kernels(module))
        objects = [Object(main.result()), *kernels, Object(self._prepared.result())]
        settled()
        return Native(link(objects, ["main", *self._runtime.symbols]), layout_of(module))

    def _main(self, module: Module) -> Future[bytes]:
        """The code of `main`.

        It computes nothing but in small kernels within it: without those it is no faster for being
        optimised, and takes ten times as long in the making.
        """
        text, target = emit_main(module, self._flushed), self._target
        inlined = inlined_kernels(module)
        within = [emit_kernel(f, target) for f in _kernels(module) if f.name in inlined]
        if within:
            make = partial(optimise_whole, text, within, target)
        else:
            make = partial(optimise, text, target, 0)
        return self.code("\n".join([text, *within]), make)


_prepared: dict[tuple[Target, RuntimeCode], Future[bytes]] = {}
os.register_at_fork(after_in_child=_prepared.clear)  # who makes them is not in the child


def _prepare(target: Target, runtime: RuntimeCode, store: Store) -> Future[bytes]:
    """The runtime's code, which no program changes: made on a core that the passes leave free.

    The first use of LLVM in a process takes longer than that, and is over then.
    """
    found = _prepared.get((target, runtime))
    if found is None or (found.done() and found.exception() is not None):
        pool = ThreadPoolExecutor(1, "minicc-runtime")
        found = pool.submit(_runtime_code, target, runtime, store)
        _prepared[target, runtime] = found
        pool.shutdown(wait=False)
    return found


def _runtime_code(target: Target, runtime: RuntimeCode, store: Store) -> bytes:
    code = store.get(_kind(target), runtime.text)
    if code is None:
        code = optimise(runtime.text, target, 0)
        store.put(_kind(target), runtime.text, code)
    return code


def _kind(target: Target) -> str:
    return f"object {target.name}"


def assemble(module: Module, target: Target, flushed: Flushed) -> dict[str, str]:
    """Assembler text of each kernel and of `main`, by name."""
    texts = emit(module, target, flushed)
    return {name: assembly(text, target) for name, text in texts.items()}
