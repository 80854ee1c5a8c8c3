"""`minicc inspect`: what a model takes, gives and holds, without compiling it."""

from __future__ import annotations

import json
from collections import Counter
from math import prod
from typing import Any

import click

from minicc.cli.choices import JSON
from minicc.cli.programs import described, modules_of
from minicc.cli.progress import Progress
from minicc.cli.tables import show_table, tell
from minicc.errors import MiniccError
from minicc.frontends.onnx.importer import import_graph
from minicc.frontends.onnx.model.facts import facts_of, raw_model
from minicc.frontends.onnx.model.reader import read_model
from minicc.frontends.onnx.needs import NeedsValueError
from minicc.ir import graph
from minicc.ir.core import Module, walk
from minicc.ir.text.printer import print_module
from minicc.ir.types import OPAQUE, TensorType
from minicc.passes.graph.specialise import free_symbols
from minicc.runtime.programs import is_program, open_program
from minicc.wording import counted

# the file can't be read, is empty, ends too early, or is no model
_UNREADABLE = ("MC0120", "MC0121", "MC0122")


@click.command("inspect")
@click.argument("model", type=click.Path(dir_okay=False))
@click.option("--text", "as_text", is_flag=True, help="print the module of the graph level")
@click.option("--check", is_flag=True, help="compare a compiled program's weights with their hash")
@JSON
def inspect_command(model: str, as_text: bool, check: bool, as_json: bool) -> None:
    """Show what MODEL takes, gives and holds; of a compiled program, --text is its own level's."""
    if is_program(model):
        _inspect_program(model, as_text, check, as_json)
        return
    if check:
        raise click.UsageError("--check is for compiled programs: leave it out")
    try:
        with Progress(f"importing {model}"):
            module = import_graph(read_model(model))
    except MiniccError as error:
        if as_text or error.code in _UNREADABLE:
            raise
        told = {**facts_of(raw_model(model)), **_obstacles(error)}
    else:
        if as_text:
            click.echo(print_module(module), nl=False)
            return
        told = describe(module)
    tell(told, as_json, _show)


def _obstacles(error: MiniccError) -> dict[str, list[str]]:
    """What keeps a model from being imported once for all sizes, or at all."""
    sizes = [e for e in error.parts if isinstance(e, NeedsValueError)]
    wrong = [e for e in error.parts if not isinstance(e, NeedsValueError)]
    return {
        "wants_sizes": [f"{', '.join(e.where)}: {e.message}" for e in sizes],
        "problems": [f"{e.code} {', '.join(e.where)}: {e.message}" for e in wrong],
    }


def _inspect_program(path: str, as_text: bool, check: bool, as_json: bool) -> None:
    saved = open_program(path)
    if check:
        saved.container.check()
    if as_text:
        click.echo("".join(map(print_module, modules_of(saved))), nl=False)
        return
    told = described(saved)
    if as_json:
        click.echo(json.dumps(told))
        return
    _show_types(told)
    sizes = ", ".join(f"{s}={n}" for s, n in told["sizes"].items())
    where = f"compiled for {told['target']}, {told['math']} mathematics"
    click.echo(f"{where}, sizes {sizes}" if sizes else where)
    free = ", ".join(told["free_dimensions"])
    if free:
        click.echo(f"free dimensions: {free}")
    arena = "that depends on sizes" if free else f"{told['arena_bytes'] / 1e6:.2f} MB"
    click.echo(
        f"{counted(told['launches'], 'launch', 'launches')} of "
        f"{counted(told['kernels'], 'kernel')}, "
        f"{told['code_bytes'] / 1e6:.2f} MB of code, arena {arena}"
    )
    click.echo(f"{counted(told['constants'], 'constant')}, {told['constant_bytes'] / 1e6:.1f} MB")
    for on in told["on_host"]:
        click.echo(f"on the host: {on['where']}: {on['why']}")
    if check:
        click.echo("the constants are as they were written")


def describe(module: Module) -> dict[str, Any]:
    """Inputs and outputs with their types, free dimensions, constants, and ops by name."""
    main = module.main
    ops = list(walk(main.body))
    constants = [op.value for op in ops if isinstance(op, graph.Constant)]
    counted = Counter(op.opname for op in ops if not isinstance(op, graph.Constant))
    results = zip(main.result_names, main.body.yields, strict=True)
    return {
        "inputs": {a.hint: _spelled(a.type) for a in main.args},
        "outputs": {name: _spelled(v.type) for name, v in results},
        "free_dimensions": list(free_symbols(main)),
        "constants": len(constants),
        "parameters": sum(prod(a.type.extents) for a in constants),
        "constant_bytes": sum(a.type.nbytes for a in constants),
        "ops": dict(counted.most_common()),
    }


def _spelled(type: TensorType) -> str:
    return "any" if type.dtype is OPAQUE else str(type)


def _show(told: dict[str, Any]) -> None:
    _show_types(told)
    if "ops" not in told:
        _show_facts(told)
        return
    if told["free_dimensions"]:
        click.echo(f"free dimensions: {', '.join(told['free_dimensions'])}\n")
    megabytes = told["constant_bytes"] / 1e6
    numbers = counted(told["parameters"], "number")
    click.echo(f"{counted(told['constants'], 'constant')}, {numbers}, {megabytes:.1f} MB\n")
    show_table(("op", "count"), told["ops"].items())


def _show_facts(told: dict[str, Any]) -> None:
    """What the file says of a model that has no graph for all sizes."""
    if told["wants_sizes"]:
        click.echo("compiled for each set of sizes, which nodes want to know:")
        click.echo("".join(f"  {line}\n" for line in told["wants_sizes"]))
    if told["problems"]:
        problems = counted(len(told["problems"]), "problem")
        click.echo(f"not imported: {problems}, of which `minicc lint` says more")
        click.echo("".join(f"  {line}\n" for line in told["problems"]))
    opsets = ", ".join(f"{domain} {version}" for domain, version in told["opsets"].items())
    click.echo(f"ONNX IR version {told['ir_version']}, opsets {opsets or 'none'}")
    click.echo(f"written by {told['producer'] or 'nobody who says so'}")
    held = counted(told["initialisers"], "initialiser")
    click.echo(f"{held}, {counted(told['numbers'], 'number')}\n")
    show_table(("operator", "count"), told["operators"].items())


def _show_types(told: dict[str, Any]) -> None:
    for title in ("inputs", "outputs"):
        show_table((title[:-1], "type"), told[title].items())
        click.echo()
