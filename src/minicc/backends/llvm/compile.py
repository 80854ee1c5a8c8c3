"""A module of the program level to linked machine code: emit, compile each kernel, link.

Kernels are compiled one object each, so that an equal kernel of another model is found in the
store.

Mirrors: IREE's executable translation, XLA:CPU's IR compiler with its parallel modules. IREE links
a shared library, XLA a module per fusion; ours makes an object a kernel, so that equal ones are
found again.
"""

from __future__ import annotations

from functools import partial

from minicc.backends.base import Store
from minicc.backends.llvm.emit import emit_kernel
from minicc.backends.llvm.jit import Library, link
from minicc.backends.llvm.optimize import assembly, optimise
from minicc.backends.llvm.program import Layout, emit_main
from minicc.ir.core import Module
from minicc.target import Target


class Native:
    """Machine code of a program: the address of `main`, and what its table must hold."""

    __slots__ = ("layout", "library", "main")

    def __init__(self, library: Library, layout: Layout) -> None:
        self.library = library
        self.main = library["main"]
        self.layout = layout


def emit(module: Module, target: Target, flush_denormals: bool) -> dict[str, str]:
    """LLVM IR text of each kernel and of `main`, by name."""
    texts = {f.name: emit_kernel(f, target) for f in module.functions if f is not module.main}
    texts["main"] = emit_main(module, flush_denormals)
    return texts


def compile_program(
    module: Module, target: Target, flush_denormals: bool, barrier: int, store: Store
) -> Native:
    """Machine code of a program; `barrier` is the address of `minicc_barrier`."""
    objects = [
        store(f"object {target.name}", text, partial(optimise, text, target))
        for text in emit(module, target, flush_denormals).values()
    ]
    return Native(link(objects, ["main"], {"minicc_barrier": barrier}), Layout(module))


def assemble(module: Module, target: Target, flush_denormals: bool) -> dict[str, str]:
    """Assembler text of each kernel and of `main`, by name."""
    return {n: assembly(t, target) for n, t in emit(module, target, flush_denormals).items()}
