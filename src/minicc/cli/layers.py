"""`minicc layers`: the whole stack, and what each layer mirrors in real systems.

Everything shown is read from the texts of the modules themselves, so it can't drift from the code.
"""

from __future__ import annotations

import sys
from types import ModuleType

import click
from rich.console import Console
from rich.table import Table

from minicc import compiler, jitted, observe, session
from minicc.backends.llvm import compile as llvm_compile
from minicc.backends.llvm import elementwise, emit, math, optimize, program, tiles
from minicc.backends.llvm import jit as linker
from minicc.compiler import STAGES, mirrors_of
from minicc.frontends import onnx, trace
from minicc.ir import arith, graph, interpret, kernel, structured
from minicc.ir import program as program_dialect
from minicc.runtime import cache, execute, threads

_ABOVE: tuple[tuple[str, tuple[ModuleType, ...]], ...] = (
    ("interfaces", (session, jitted)),
    ("front ends", (onnx, trace)),
    ("dialects", (graph, structured, kernel, program_dialect, arith)),
)
_BELOW: tuple[tuple[str, tuple[ModuleType, ...]], ...] = (
    ("LLVM backend", (llvm_compile, emit, tiles, elementwise, math, program, optimize, linker)),
    ("runtime", (execute, threads, cache)),
    ("seeing", (compiler, observe, interpret)),
)


def first_sentence(module_name: str) -> str:
    """The first line of a module's text."""
    return (sys.modules[module_name].__doc__ or "").strip().partition("\n")[0]


def rows() -> list[tuple[str, str, str, str]]:
    """(part, layer, what it is, what it mirrors) from the interfaces down to the runtime."""
    out: list[tuple[str, str, str, str]] = []

    def add(part: str, modules: tuple[ModuleType, ...]) -> None:
        for m in modules:
            name = m.__name__.removeprefix("minicc.")
            out.append((part, name, first_sentence(m.__name__), mirrors_of(m.__name__)))

    for part, modules in _ABOVE:
        add(part, modules)
    for s in STAGES:
        out.append((f"stages on {s.level}", s.name, s.sentence, mirrors_of(s.home)))
    for part, modules in _BELOW:
        add(part, modules)
    return out


@click.command("layers")
def layers_command() -> None:
    """Print every layer of the compiler and the real systems that it mirrors."""
    console = Console()
    part_before = ""
    table = Table("layer", "what it does", "mirrors", box=None, show_header=False)
    for part, name, sentence, mirrors in rows():
        if part != part_before:
            if part_before:
                console.print(table)
            console.print(f"\n[bold]{part}[/bold]")
            table = Table("layer", "what it does", "mirrors", box=None, show_header=False)
            part_before = part
        table.add_row(name, sentence, mirrors or "-")
    console.print(table)
