"""`minicc opt`: run chosen passes on the text of a module."""

from __future__ import annotations

import json
from pathlib import Path

import click

from minicc.api.texts import open_text
from minicc.cli.choices import JSON, MATH, TARGET
from minicc.cli.progress import Progress
from minicc.cli.stages import stage_or
from minicc.compile.compiler import (
    STAGES,
    KernelPasses,
    Setting,
    Stage,
    chosen_stages,
    input_level,
    run_stage,
    stage_named,
)
from minicc.compile.observe import headed, write_text
from minicc.errors import CompilerBug, UnsupportedError, UserError
from minicc.ir.core import Module
from minicc.ir.verify import verify
from minicc.options import Options
from minicc.passes.structured.write_schedules import require_all_legal


def _passes(ctx: click.Context, param: click.Parameter, value: str) -> list[Stage]:
    """The stages that a list of names stands for; each name is checked."""
    check = stage_or()
    names = [str(check(ctx, param, name.strip())) for name in value.split(",") if name.strip()]
    return [stage_named(name) for name in names]


@click.command("opt")
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--passes", required=True, callback=_passes, metavar="A,B,...", help="in this order")
@click.option("-o", "--output", metavar="PATH", help="write there instead of printing")
@MATH
@TARGET
@JSON
def opt_command(
    file: str,
    passes: list[Stage],
    output: str | None,
    math: str | None,
    target: str | None,
    as_json: bool,
) -> None:
    """Run passes on the module in FILE, a text of any level, and print what comes out.

    What -o writes is a text for `minicc compile` and the others, after the last of the passes.
    """
    options = Options(math=math, target=target)
    setting = Setting(options.machine, options.math == "strict", {}, KernelPasses())
    start, module = open_text(file)
    ran = [] if start is None else list(chosen_stages(None, start))
    _check_order(ran, module.level, passes)
    require_all_legal(module, setting.target, passes[0].name)
    with Progress(f"reading {file}") as progress:
        for stage in passes:
            progress.at(f"running {stage.name}")
            module = _run(stage, module, setting, ran)
            ran.append(stage)
    _write(module, max(ran, key=STAGES.index), output, as_json)


def _check_order(ran: list[Stage], level: str, passes: list[Stage]) -> None:
    """UsageError where a pass takes what the passes before it do not give."""
    done = {stage.name for stage in ran}
    for stage in passes:
        wanted = input_level(stage)
        if level != wanted:
            levels = [s.level for s in STAGES]
            later = levels.index(wanted) > levels.index(level)
            first = next(s.name for s in STAGES if s.level == (wanted if later else level))
            order = (first, stage.name) if later else (stage.name, first)
            raise click.UsageError(
                f"{stage.name} takes a module of level {wanted}, and it is of {level} there: "
                f"{order[0]} is wanted before {order[1]}"
            )
        if stage.after not in ("", *done):
            raise click.UsageError(
                f"{stage.name} finds nothing to do there: {stage.after} is wanted before it"
            )
        done.add(stage.name)
        level = stage.level


def _run(stage: Stage, module: Module, setting: Setting, ran: list[Stage]) -> Module:
    """What a pass makes of a module; UserError MC0119 where it can't take it after those before."""
    try:
        made = run_stage(stage, module, setting)
        verify(made)
    except (CompilerBug, UnsupportedError) as error:
        before = [s for s in chosen_stages(None, stage.name)[:-1] if s.needed and s not in ran]
        if before:
            why = f"{', '.join(s.name for s in before)} wanted before it"
        elif any(STAGES.index(s) >= STAGES.index(stage) for s in ran):
            why = f"the module has been through {ran[-1].name} already"
        else:
            raise
        text = f"{stage.name} can't take the module there: {error.message}"
        raise UserError("MC0119", text, hint=why, where=error.where) from None
    return made


def _write(module: Module, stage: Stage, output: str | None, as_json: bool) -> None:
    text = headed(stage, module)
    if as_json:
        told = {"level": module.level, "output": output}
        click.echo(json.dumps(told if output else {**told, "text": text}))
    elif output is None:
        click.echo(text, nl=False)
    if output is not None:
        write_text(Path(output), text, module)
