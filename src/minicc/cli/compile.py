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
from minicc.compiler import STAGES, Stage, lower, mirrors_of, stage_names
from minicc.errors import UserError
from minicc.frontends.onnx import import_model
from minicc.ir.core import Module
from minicc.ir.printer import print_module
from minicc.observe import Observer, load_dump, write_beside
from minicc.options import Options

LEVELS = ("graph", "structured", "kernel", "program")
FORMS = (*LEVELS, "llvm", "asm", "obj")


@click.command("compile")
@click.argument("model", required=False, type=click.Path(dir_okay=False))
@click.option("--shape", "shapes", multiple=True, metavar="X=1x3x224x224", help="sizes of an input")
@click.option("--stop-after", metavar="STAGE", help=f"one of {', '.join(stage_names())}")
@click.option(
    "--emit",
    "form",
    type=click.Choice(FORMS),
    help="print that level, LLVM IR, assembly, or write objects",
)
@click.option("-o", "--output", metavar="PATH", help="write there (a folder with --emit obj)")
@click.option("--dump", metavar="DIR", help="write a numbered file for each stage")
@click.option("--resume", metavar="FILE", help="go on behind the stage of a dumped file")
@click.option("--print-after", metavar="STAGE|all|changed", help="print the module behind stages")
@click.option("--time-stages", is_flag=True, help="tell how long each stage took")
@click.option("--verify", "check", is_flag=True, help="verify the module behind each stage")
@click.option("--math", type=click.Choice(["fast", "strict"]), help="fast may reassociate")
@click.option(
    "--target", type=click.Choice(["avx512", "avx2", "x86-64"]), help="default: the host's best"
)
def compile_command(
    model: str | None,
    shapes: tuple[str, ...],
    stop_after: str | None,
    form: str | None,
    output: str | None,
    dump: str | None,
    resume: str | None,
    print_after: str | None,
    time_stages: bool,
    check: bool,
    math: str | None,
    target: str | None,
) -> None:
    """Run the stages on MODEL (or on a dumped FILE) and show what was asked for."""
    if (model is None) == (resume is None):
        raise click.UsageError("give either MODEL or --resume FILE")
    if form == "obj" and output is None:
        raise click.UsageError("--emit obj writes files: give a folder with -o")
    if print_after not in (None, "all", "changed"):
        _known_stage(print_after)
    options = Options(math=math, target=target)
    start, module = (
        load_dump(Path(resume)) if resume is not None else (None, import_model(model or ""))
    )
    binding = bind_shapes(module.main, parse_shapes(shapes))
    folder = Path(dump) if dump else None
    observer = Observer(
        click.echo, print_after, folder, check, lambda stage: mirrors_of(stage.home)
    )
    stop = stop_after or _last_stage(form)
    module = lower(module, options, binding, start=start, stop=stop, observe=observer)
    if time_stages:
        _show_times(observer.seconds)
    _emit(
        module,
        form,
        output,
        options,
        shown=print_after is not None or dump is not None or time_stages,
    )


def _known_stage(name: str | None) -> None:
    if name not in stage_names():
        raise UserError(
            "MC0105", f"no stage is called {name!r}", hint=f"stages: {', '.join(stage_names())}"
        )


def _last_stage(form: str | None) -> str | None:
    """The last stage of the level that is to be printed; None for all stages."""
    at: list[Stage] = [s for s in STAGES if s.level == form]
    return at[-1].name if at else None


def _emit(
    module: Module, form: str | None, output: str | None, options: Options, shown: bool
) -> None:
    flush = options.math == "fast"
    if form == "obj":
        folder = Path(output or ".")
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in emit(module, options.machine, flush).items():
            write_beside(folder / f"{name}.o", optimise(text, options.machine))
        return
    if form == "llvm":
        text = "\n".join(f"; {n}\n{t}" for n, t in emit(module, options.machine, flush).items())
    elif form == "asm":
        text = "\n".join(f"# {n}\n{t}" for n, t in assemble(module, options.machine, flush).items())
    elif shown and form is None and output is None:
        return
    else:
        text = print_module(module)
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
