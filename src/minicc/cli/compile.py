"""`minicc compile`: run the stages, stop anywhere, look at everything, go on from a file.

Mirrors: iree-compile's phases (--compile-to, --compile-from, --dump-compilation-phases-to),
mlir-opt.
"""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from minicc.backends.llvm.compile import assemble, emit
from minicc.backends.llvm.optimize import optimise
from minicc.cli.inputs import bind_shapes, parse_shapes
from minicc.cli.report import show_report
from minicc.cli.stages import stage_or
from minicc.compiler import STAGES, lower, mirrors_of, stage_names
from minicc.errors import UserError
from minicc.frontends.onnx.importer import import_graph
from minicc.frontends.onnx.reader import read_model
from minicc.ir.core import Module
from minicc.ir.levels import LEVELS
from minicc.ir.printer import print_module, resources
from minicc.observe import (
    Observer,
    headed,
    load_dump,
    make_folder,
    write_arrays,
    write_beside,
)
from minicc.options import Options
from minicc.passes.graph.applications import Applications
from minicc.target import TARGETS

MACHINE = ("llvm", "asm", "obj")


@click.command("compile")
@click.argument("model", required=False, type=click.Path(dir_okay=False))
@click.option("--shape", "shapes", multiple=True, metavar="X=1x3x224x224", help="sizes of an input")
@click.option(
    "--stop-after",
    "stop",
    callback=stage_or(),
    metavar="STAGE",
    help=f"one of {', '.join(stage_names())}",
)
@click.option(
    "--emit",
    "form",
    type=click.Choice([*LEVELS, *MACHINE]),
    help="print that level, LLVM IR, assembly, or write objects",
)
@click.option("-o", "--output", metavar="PATH", help="write there (a folder with --emit obj)")
@click.option("--dump", metavar="DIR", help="write a numbered file for each stage")
@click.option("--resume", metavar="FILE", help="go on behind the stage of a dumped file")
@click.option(
    "--print-after",
    callback=stage_or("all", "changed"),
    metavar="STAGE|all|changed",
    help="print the module behind stages",
)
@click.option("--applications", "listed", is_flag=True, help="number the rules that are applied")
@click.option(
    "--apply-first", type=click.IntRange(0), metavar="N", help="and no rules behind these"
)
@click.option("--report", is_flag=True, help="tell what is compiled and what runs on the host")
@click.option("--time-stages", is_flag=True, help="tell how long each stage took")
@click.option("--verify", "check", is_flag=True, help="verify the module behind each stage")
@click.option("--math", type=click.Choice(["fast", "strict"]), help="fast may reassociate")
@click.option("--target", type=click.Choice([*TARGETS]), help="default: the host's best")
def compile_command(
    model: str | None,
    shapes: tuple[str, ...],
    stop: str | None,
    form: str | None,
    output: str | None,
    dump: str | None,
    resume: str | None,
    print_after: str | None,
    listed: bool,
    apply_first: int | None,
    report: bool,
    time_stages: bool,
    check: bool,
    math: str | None,
    target: str | None,
) -> None:
    """Run the stages on MODEL or a dumped FILE, and show them.

    The program is printed where nothing else is asked for.
    """
    _check_usage(model, shapes, resume, form, output, report)
    options = Options(math=math, target=target)
    if resume is not None:
        start, module = _resumed(resume)
        binding = {}
    else:
        read = read_model(model or "")
        binding = bind_shapes(read.inputs, parse_shapes(shapes))
        start, module = None, import_graph(read, binding)
    first, last = _span(start, stop, form, print_after)
    if report:
        show_report(module, options, binding)
        return
    folder = Path(dump) if dump is not None else None
    observer = Observer(
        click.echo, print_after, folder, check, lambda stage: mirrors_of(stage.home), first
    )
    applications = Applications(apply_first)
    if first < last:
        end = STAGES[last - 1].name
        module = lower(
            module,
            options,
            binding,
            start=start,
            stop=end,
            observe=observer,
            applications=applications,
        )
    if listed:
        click.echo("".join(f"{a}\n" for a in applications.made), nl=False)
    if time_stages:
        _show_times(observer.seconds)
    if form in MACHINE:
        _emit_machine_code(module, form or "", output, options)
    elif output is not None:
        _write_module(Path(output), last, module)
    elif form is not None or not (print_after or dump or time_stages or listed):
        click.echo(print_module(module), nl=False)


def _check_usage(
    model: str | None,
    shapes: tuple[str, ...],
    resume: str | None,
    form: str | None,
    output: str | None,
    report: bool,
) -> None:
    if (model is None) == (resume is None):
        raise click.UsageError("give either MODEL or --resume FILE")
    if resume is not None and shapes:
        raise click.UsageError("the shapes of a dumped FILE are fixed: leave out --shape")
    if report and (resume is not None or form is not None):
        raise click.UsageError("--report tells of a MODEL: leave out --resume and --emit")
    if form == "obj" and output is None:
        raise click.UsageError("--emit obj writes files: give a folder with -o")


def _resumed(path: str) -> tuple[str, Module]:
    """The stage and the module of a dumped file, whose head must fit the module."""
    start, module = load_dump(Path(path))
    level = next((s.level for s in STAGES if s.name == start), None)
    if level is None:
        raise UserError(
            "MC0105",
            f"no stage is called {start!r}",
            where=f"{path}:1",
            hint=f"stages: {', '.join(stage_names())}",
        )
    if level != module.level:
        raise UserError(
            "MC0146",
            f"the stage {start} yields the level {level}, and the module is of {module.level}",
            where=f"{path}:1",
        )
    return start, module


def _span(
    start: str | None, stop: str | None, form: str | None, print_after: str | None
) -> tuple[int, int]:
    """How many stages are behind the module at first, and at last.

    UsageError where the options contradict each other.
    """
    names = stage_names()
    first = names.index(start) + 1 if start is not None else 0
    ends = [k for k, s in enumerate(STAGES, 1) if s.level == form]
    last = ends[-1] if ends else len(STAGES)
    if stop is not None:
        asked = names.index(stop) + 1
        if ends and asked not in ends:
            level = STAGES[asked - 1].level
            raise click.UsageError(f"behind {stop} the level is {level}: leave out --emit {form}")
        if form in MACHINE and asked < len(STAGES):
            raise click.UsageError(f"--emit {form} needs all stages: leave out --stop-after {stop}")
        last = asked
    if first > last:
        raise click.UsageError(
            f"FILE is behind {start} already, and {names[last - 1]} is before that"
        )
    if print_after in names and print_after not in names[first:last]:
        raise click.UsageError(f"--print-after {print_after}: that stage does not run here")
    return first, last


def _write_module(path: Path, last: int, module: Module) -> None:
    """A file to resume from, with the constants that its text elides in an archive beside it."""
    stage = STAGES[last - 1]
    arrays = resources(module)
    if arrays:
        write_arrays(path.with_name(f"{path.name}.npz"), arrays)
    write_beside(path, headed(stage, mirrors_of(stage.home), module).encode())


def _emit_machine_code(module: Module, form: str, output: str | None, options: Options) -> None:
    flush = options.math == "fast"
    if form == "obj":
        folder = Path(output or ".")
        make_folder(folder)
        for name, text in emit(module, options.machine, flush).items():
            write_beside(folder / f"{name}.o", optimise(text, options.machine))
        return
    if form == "llvm":
        text = "\n".join(f"; {n}\n{t}" for n, t in emit(module, options.machine, flush).items())
    else:
        text = "\n".join(f"# {n}\n{t}" for n, t in assemble(module, options.machine, flush).items())
    if output is None:
        click.echo(text, nl=False)
    else:
        write_beside(Path(output), text.encode())


def _show_times(seconds: list[tuple[str, float]]) -> None:
    total = sum(s for _, s in seconds)
    table = Table("stage", "ms", "share", box=None)
    for name, taken in sorted(seconds, key=lambda p: -p[1]):
        table.add_row(name, f"{taken * 1e3:.1f}", f"{taken / max(total, 1e-9):.0%}")
    table.add_row("all", f"{total * 1e3:.1f}", "")
    Console(stderr=True).print(table)
