"""`minicc compile`: run the stages, stop anywhere, look at everything, go on from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from minicc.cli.choices import SHAPE, code_options
from minicc.cli.failures import as_json_object
from minicc.cli.functions import called, units_of_function
from minicc.cli.fusion import text_of_fusion
from minicc.cli.inputs import is_function, parse_inputs, parse_shapes
from minicc.cli.programs import units_of_program, write_program
from minicc.cli.progress import Progress
from minicc.cli.report import report_of, show_report
from minicc.cli.schedules import text_of_schedules
from minicc.cli.show import DOT, MACHINE, Asked, Show, Span
from minicc.cli.sources import open_source
from minicc.cli.stages import stage_or
from minicc.compile.compiler import STAGES, stage_names
from minicc.compile.observe import write_beside
from minicc.compile.units import Unit, Units
from minicc.errors import MiniccError
from minicc.frontends.onnx.importer import require_size_error
from minicc.ir.levels import LEVELS
from minicc.options import Options
from minicc.runtime.programs import is_program, is_text


@click.command("compile")
@click.argument("model", type=click.Path(dir_okay=False))
@SHAPE
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
    type=click.Choice([*LEVELS, *MACHINE, DOT]),
    help="print that level, LLVM IR, assembly, a drawing, or write objects",
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
@click.option(
    "--print-after",
    callback=stage_or("all", "changed"),
    metavar="STAGE|all|changed",
    help="print the module after stages",
)
@click.option("--applications", "listed", is_flag=True, help="number the rules that are applied")
@click.option("--apply-first", type=click.IntRange(0), metavar="N", help="and no rules after these")
@click.option("--report", is_flag=True, help="tell what is compiled and what runs on the host")
@click.option("--json", "as_json", is_flag=True, help="print the report as one JSON object")
@click.option("--time-stages", is_flag=True, help="tell how long each stage took")
@click.option("--verify", "check", is_flag=True, help="verify the module after each stage")
@click.option(
    "--fusion", is_flag=True, help="tell of each pair of neighbours why it is fused or not"
)
@click.option(
    "--schedules", "planned", is_flag=True, help="print the schedules of all groups as a file"
)
@code_options
def compile_command(**given: Any) -> None:
    """Run the stages on MODEL or a text FILE.mcc, and show them; or write MODEL compiled.

    A text, as --dump writes them, goes on after the stage that its first line names. The program
    is printed where nothing else is asked for. A model of which some ops run on the host is shown
    part by part, each with what it takes and gives. MODEL may also be a Python function, named as
    FILE.py:FUNCTION.
    """
    as_json = given.pop("as_json")
    names = ("math", "target", "skip", "fuse", "no_fuse", "schedules")
    code = {name: given.pop(name) for name in names}
    asked = Asked(**given, code=code)
    _check_usage(asked)
    if as_json and not asked.report:
        raise click.UsageError("--json is how --report tells: the text of a module is none")
    options = Options(**code)
    if asked.whole is not None:
        with Progress(f"compiling {asked.model}"):
            write_program(asked.model, asked.whole, parse_shapes(asked.shapes), options)
        return
    if is_program(asked.model):
        units = units_of_program(asked.model)
    elif asked.report:
        _report(asked, options, as_json)
        return
    else:
        with Progress(f"importing {asked.model}"):
            units = _units(asked, options)
    chosen = _chosen(units, asked)
    if asked.planned or asked.fusion:
        with Progress(f"scheduling {asked.model}"):
            text = (text_of_schedules if asked.planned else text_of_fusion)(chosen, options)
        if asked.output is None:
            click.echo(text, nl=False)
        else:
            write_beside(Path(asked.output), text.encode())
        return
    span = _span(units.known[0].start, asked)
    Show(chosen, asked, options, span, units.several).run()


def _check_usage(asked: Asked) -> None:
    program = is_program(asked.model)
    if program and (asked.planned or asked.code["schedules"] or asked.fusion):
        raise click.UsageError("a program is compiled: schedules and fusion are of a model")
    if asked.report and program:
        raise click.UsageError("--report tells of a model: minicc inspect tells of a program")
    if asked.report and (asked.form is not None or asked.part):
        raise click.UsageError("--report tells of a MODEL: leave out --emit and --part")
    if asked.whole is not None and (asked.inputs or asked.shows):
        raise click.UsageError(f"-o {asked.output} writes a whole program and shows nothing")
    if asked.whole is not None and (is_text(asked.model) or is_function(asked.model)):
        raise click.UsageError("a compiled program is written of an ONNX model alone")
    if asked.form == "obj" and asked.output is None:
        raise click.UsageError("--emit obj writes files: give a folder with -o")


def _report(asked: Asked, options: Options, as_json: bool) -> None:
    """Tell of a model what is compiled; of one with a program for each set of sizes, why."""
    wants: list[dict[str, Any]] = []
    with Progress(f"compiling {asked.model}"):
        try:
            units = _units(asked, options)
            if units.known[0].module.level != "graph":
                raise click.UsageError(
                    "--report tells of a graph, and the text is of another level"
                )
            told = report_of(units, options)
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


def _units(asked: Asked, options: Options) -> Units:
    """The units of a model or text, for the sizes that were given."""
    if is_function(asked.model):
        function = called(asked.model, asked.inputs, parse_shapes(asked.shapes))
        return units_of_function(function, options)
    given = parse_inputs(asked.inputs)
    shapes = {n: a.shape for n, a in given.items()} | parse_shapes(asked.shapes)
    return open_source(asked.model, shapes, options).units


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


def _span(start: str | None, asked: Asked) -> Span:
    """How many stages the module has been through at first, and at last.

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
            raise click.UsageError(f"after {stop} the level is {level}: leave out --emit {form}")
        if form in MACHINE and end < len(STAGES):
            raise click.UsageError(f"--emit {form} needs all stages: leave out --stop-after {stop}")
        last = end
    if first > last:
        raise click.UsageError(
            f"FILE has been through {start} already, and {names[last - 1]} is before that"
        )
    if print_after in names and print_after not in names[first:last]:
        raise click.UsageError(f"--print-after {print_after}: that stage does not run here")
    return Span(first, last)
