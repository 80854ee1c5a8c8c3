"""`minicc compile`: run the stages, stop anywhere, look at everything, go on from a file.

Mirrors: iree-compile's phases (--compile-to, --compile-from, --dump-compilation-phases-to),
mlir-opt.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from minicc.cli.failures import as_json_object
from minicc.cli.inputs import bind_shapes, parse_inputs, parse_shapes
from minicc.cli.programs import units_of_program, write_program
from minicc.cli.progress import Progress
from minicc.cli.report import report_of, show_report
from minicc.cli.schedules import read_schedules, text_of_schedules
from minicc.cli.show import MACHINE, Asked, Show, Span
from minicc.cli.stages import stage_or
from minicc.compiler import STAGES, stage_names
from minicc.errors import MiniccError, UserError
from minicc.frontends.onnx.importer import import_graph, require_size_error
from minicc.frontends.onnx.reader import Model, read_model
from minicc.ir.core import Module
from minicc.ir.levels import LEVELS
from minicc.observe import load_dump, write_beside
from minicc.options import Options
from minicc.runtime.programs import is_program
from minicc.target import TARGETS
from minicc.units import Unit, Units, units_of


@click.command("compile")
@click.argument("model", required=False, type=click.Path(dir_okay=False))
@click.option("--shape", "shapes", multiple=True, metavar="X=1x3x224x224", help="sizes of an input")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="X=@x.npy",
    help="a value whose shape binds free dimensions; as for `minicc run`",
)
@click.option(
    "--part", type=click.IntRange(1), metavar="N", help="of a model in several parts, that one"
)
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
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    help="write there: FILE.mcp is the compiled program, any other file the text (a folder with "
    "--emit obj); of several parts, PATH with their numbers",
)
@click.option(
    "--dump", metavar="DIR", help="write a numbered file for each stage, in a folder for each part"
)
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
@click.option("--json", "as_json", is_flag=True, help="print the report as one JSON object")
@click.option("--time-stages", is_flag=True, help="tell how long each stage took")
@click.option("--verify", "check", is_flag=True, help="verify the module behind each stage")
@click.option("--schedules", is_flag=True, help="print the schedules of all groups as a file")
@click.option("--schedule", metavar="FILE", help="put the schedules of a file in place of others")
@click.option("--math", type=click.Choice(["fast", "strict"]), help="fast may reassociate")
@click.option("--target", type=click.Choice([*TARGETS]), help="default: the host's best")
def compile_command(**given: Any) -> None:
    """Run the stages on MODEL or a dumped FILE, and show them; or write MODEL compiled.

    The program is printed where nothing else is asked for. A model of which some ops run on the
    host is shown part by part, each with what it takes and gives.
    """
    as_json = given.pop("as_json")
    asked = Asked(**given)
    _check_usage(asked)
    if as_json and not asked.report:
        raise click.UsageError("--json is how --report tells: the text of a module is none")
    schedules = read_schedules(asked.schedule)
    options = Options(math=asked.math, target=asked.target, schedules=schedules)
    start = None
    if asked.whole is not None:
        with Progress(f"compiling {asked.model}"):
            write_program(asked.model or "", asked.whole, parse_shapes(asked.shapes), options)
        return
    if asked.model is not None and is_program(asked.model):
        start, units = units_of_program(asked.model)
    elif asked.resume is not None:
        start, module = _resumed(asked.resume)
        units = Units((Unit(1, module, {}, (), ()),))
    elif asked.report:
        _report(read_model(asked.model or ""), asked, options, as_json)
        return
    else:
        with Progress(f"importing {asked.model}"):
            units = _units(read_model(asked.model or ""), asked, options)
    chosen = _chosen(units, asked)
    if asked.schedules:
        with Progress(f"scheduling {asked.model or asked.resume}"):
            text = text_of_schedules(chosen, options, start)
        if asked.output is None:
            click.echo(text, nl=False)
        else:
            write_beside(Path(asked.output), text.encode())
        return
    span = _span(start, asked)
    Show(chosen, asked, options, span, units.several).run()


def _check_usage(asked: Asked) -> None:
    resumed = asked.resume is not None
    if (asked.model is None) != resumed:
        raise click.UsageError("give either MODEL or --resume FILE")
    if resumed and asked.shapes:
        raise click.UsageError("the shapes of a dumped FILE are fixed: leave out --shape")
    if resumed and (asked.inputs or asked.part):
        raise click.UsageError("a dumped FILE is one part already: leave out --input and --part")
    program = asked.model is not None and is_program(asked.model)
    if program and (asked.schedules or asked.schedule):
        raise click.UsageError("a program is compiled: schedules are of a model")
    if asked.report and program:
        raise click.UsageError("--report tells of a model: minicc inspect tells of a program")
    if asked.report and (resumed or asked.form is not None or asked.part):
        raise click.UsageError("--report tells of a MODEL: leave out --resume, --emit and --part")
    if asked.whole is not None and (resumed or asked.inputs or asked.shows):
        raise click.UsageError(f"-o {asked.output} writes a whole program and shows nothing")
    if asked.form == "obj" and asked.output is None:
        raise click.UsageError("--emit obj writes files: give a folder with -o")


def _report(model: Model, asked: Asked, options: Options, as_json: bool) -> None:
    """Tell of a model what is compiled; of one with a program for each set of sizes, why."""
    wants: list[dict[str, Any]] = []
    with Progress(f"compiling {asked.model}"):
        try:
            told = report_of(_units(model, asked, options), options)
        except MiniccError as error:
            require_size_error(error)
            wants = [as_json_object(part) for part in error.parts]
            told = {"wants_sizes": wants}
    if as_json:
        click.echo(json.dumps(told))
    elif wants:
        click.echo("compiled for each set of sizes; --shape names one. These nodes want to know:")
        click.echo("\n".join(f"  {', '.join(w['where'])}: {w['message']}" for w in wants))
    else:
        show_report(told)


def _units(model: Model, asked: Asked, options: Options) -> Units:
    """The units of a model, for the sizes that were given."""
    shapes = {n: a.shape for n, a in parse_inputs(asked.inputs).items()}
    shapes |= parse_shapes(asked.shapes)
    binding = bind_shapes(model.inputs, shapes)
    return units_of(import_graph(model, binding), options, binding)


def _chosen(units: Units, asked: Asked) -> tuple[Unit, ...]:
    """The units that --part leaves; UsageError where there is none, or it has no such level."""
    if asked.part is None:
        return units.known
    if asked.part > len(units.known):
        numbers = ", ".join(str(u.number) for u in units.known) or "none"
        raise click.UsageError(f"--part {asked.part}: the parts there are: {numbers}")
    unit = units.known[asked.part - 1]
    if unit.host and (asked.form not in (None, "graph") or asked.stop or asked.print_after):
        native = ", ".join(str(u.number) for u in units.known if not u.host)
        raise click.UsageError(
            f"part {asked.part} runs on the host and passes no stages; "
            f"the parts that do: {native or 'none'}"
        )
    return (unit,)


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


def _span(start: str | None, asked: Asked) -> Span:
    """How many stages are behind the module at first, and at last.

    UsageError where the options contradict each other.
    """
    stop, form, print_after = asked.stop, asked.form, asked.print_after
    names = stage_names()
    first = names.index(start) + 1 if start is not None else 0
    ends = [k for k, s in enumerate(STAGES, 1) if s.level == form]
    last = ends[-1] if ends else len(STAGES)
    if stop is not None:
        end = names.index(stop) + 1
        if ends and end not in ends:
            level = STAGES[end - 1].level
            raise click.UsageError(f"behind {stop} the level is {level}: leave out --emit {form}")
        if form in MACHINE and end < len(STAGES):
            raise click.UsageError(f"--emit {form} needs all stages: leave out --stop-after {stop}")
        last = end
    if first > last:
        raise click.UsageError(
            f"FILE is behind {start} already, and {names[last - 1]} is before that"
        )
    if print_after in names and print_after not in names[first:last]:
        raise click.UsageError(f"--print-after {print_after}: that stage does not run here")
    return Span(first, last)
