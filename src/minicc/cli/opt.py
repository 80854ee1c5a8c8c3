"""`minicc opt`: run chosen passes on the text of a module.

Mirrors: mlir-opt, LLVM's opt, iree-opt.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from minicc.cli.progress import Progress
from minicc.cli.stages import stage_or
from minicc.compiler import STAGES, Setting, Stage, input_level
from minicc.ir.core import Module
from minicc.ir.printer import print_module, resources
from minicc.ir.verify import verify
from minicc.observe import load_module, write_arrays, write_beside
from minicc.options import Options
from minicc.passes.structured.write_schedules import require_all_legal
from minicc.target import TARGETS


def _passes(ctx: click.Context, param: click.Parameter, value: str) -> list[Stage]:
    """The stages that a list of names stands for; each name is checked."""
    check = stage_or()
    names = [str(check(ctx, param, name.strip())) for name in value.split(",") if name.strip()]
    return [next(s for s in STAGES if s.name == name) for name in names]


@click.command("opt")
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--passes", required=True, callback=_passes, metavar="A,B,...", help="in this order")
@click.option("-o", "--output", metavar="PATH", help="write there instead of printing")
@click.option("--math", type=click.Choice(["fast", "strict"]), help="fast may reassociate")
@click.option("--target", type=click.Choice([*TARGETS]), help="default: the host's best")
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
def opt_command(
    file: str,
    passes: list[Stage],
    output: str | None,
    math: str | None,
    target: str | None,
    as_json: bool,
) -> None:
    """Run passes on the module in FILE, a text of any level, and print what comes out."""
    options = Options(math=math, target=target)
    setting = Setting(options.machine, options.math == "strict", {})
    module = load_module(Path(file))
    level = module.level
    for stage in passes:
        wanted = input_level(stage)
        if level != wanted:
            raise click.UsageError(
                f"{stage.name} takes a module of level {wanted}, and it is of {level} there"
            )
        level = stage.level
    require_all_legal(module, setting.target, passes[0].name)
    with Progress(f"reading {file}") as progress:
        for stage in passes:
            progress.at(f"running {stage.name}")
            module = stage.run(module, setting)
            verify(module)
    _write(module, output, as_json)


def _write(module: Module, output: str | None, as_json: bool) -> None:
    if as_json:
        told = {"level": module.level, "output": output}
        click.echo(json.dumps(told if output else {**told, "text": print_module(module)}))
    elif output is None:
        click.echo(print_module(module), nl=False)
    if output is None:
        return
    path = Path(output)
    if arrays := resources(module):
        write_arrays(path.with_name(f"{path.name}.npz"), arrays)
    write_beside(path, print_module(module).encode())
