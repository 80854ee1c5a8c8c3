"""`minicc layers`: the whole stack, and what each layer mirrors in real systems.

Everything shown is read from the texts of the modules themselves, so it can't drift from the code.
"""

from __future__ import annotations

import importlib
import itertools
import json
import pkgutil
import sys
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import NamedTuple

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from minicc import compiler, jitted, observe, onnxruntime, partition, runtime, session
from minicc.backends import llvm
from minicc.backends.llvm import compile as llvm_compile
from minicc.cli.choices import JSON
from minicc.compiler import STAGES, mirrors_of
from minicc.frontends import onnx, trace
from minicc.frontends.trace import guards, loops, paths
from minicc.ir import affine, arith, graph, interpret, kernel, program, space, structured
from minicc.ir.levels import LEVELS
from minicc.passes.structured import in_place, schedule, tile_cost
from minicc.runtime import execute

_ABOVE: tuple[tuple[str, tuple[ModuleType, ...]], ...] = (
    ("interfaces", (session, onnxruntime, jitted)),
    ("front ends", (onnx, trace, guards, loops, paths, partition)),
    ("dialects", (graph, structured, kernel, program, arith)),
    ("what dialects share", (affine, space)),
    ("plans", (schedule, tile_cost, in_place)),
)


class Row(NamedTuple):
    """A layer: the part of the stack that it is in, its name, what it is, what it mirrors."""

    part: str
    name: str
    sentence: str
    mirrors: str


def family(package: ModuleType, first: ModuleType) -> tuple[ModuleType, ...]:
    """The modules of a package, the one that leads through the others before them."""
    names = [f"{package.__name__}.{m.name}" for m in pkgutil.iter_modules(package.__path__)]
    rest = [importlib.import_module(name) for name in names if name != first.__name__]
    return (first, *rest)


def first_sentence(module_name: str) -> str:
    """The first line of a module's text."""
    return (sys.modules[module_name].__doc__ or "").strip().partition("\n")[0]


def rows() -> list[Row]:
    """All layers from the interfaces down to the runtime."""
    below = (
        ("LLVM backend", family(llvm, llvm_compile)),
        ("runtime", family(runtime, execute)),
        ("seeing", (compiler, observe, interpret)),
    )
    stages = [Row(f"stages to {s.level}", s.name, s.sentence, mirrors_of(s.home)) for s in STAGES]
    return [*_rows(_ABOVE), *stages, *_rows(below)]


def _rows(parts: Iterable[tuple[str, tuple[ModuleType, ...]]]) -> Iterator[Row]:
    for part, modules in parts:
        for m in modules:
            name = m.__name__.removeprefix("minicc.")
            for prefix in ("backends.", "passes.structured."):
                name = name.removeprefix(prefix)
            yield Row(part, name, first_sentence(m.__name__), mirrors_of(m.__name__))


@click.command("layers")
@JSON
def layers_command(as_json: bool) -> None:
    """Print every layer of the compiler and the real systems that it mirrors."""
    if as_json:
        click.echo(json.dumps({"layers": [row._asdict() for row in rows()]}))
        return
    console = Console()
    for part, group in itertools.groupby(rows(), lambda row: row.part):
        level = LEVELS.get(part.removeprefix("stages to "))
        console.print(f"\n[bold]{part}[/bold]{'' if level is None else f': {level.sentence}'}")
        table = Table("layer", "what it does", "mirrors", box=None, show_header=False)
        for row in group:
            table.add_row(row.name, escape(row.sentence), escape(row.mirrors) or "-")
        console.print(table)
