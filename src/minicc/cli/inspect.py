"""`minicc inspect`: what a model takes, gives and holds, without compiling it.

Mirrors: polygraphy inspect model, trtexec's verbose listing, netron in text.
"""

from __future__ import annotations

import json
from collections import Counter
from math import prod
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from minicc.cli.programs import described, modules_of
from minicc.errors import MiniccError
from minicc.frontends.onnx.importer import import_graph, require_size_error
from minicc.frontends.onnx.reader import Model, read_model
from minicc.ir import graph
from minicc.ir.core import Module, walk
from minicc.ir.printer import print_module
from minicc.ir.types import OPAQUE, TensorType
from minicc.passes.graph.specialise import free_symbols
from minicc.runtime.programs import is_program, open_program


@click.command("inspect")
@click.argument("model", type=click.Path(dir_okay=False))
@click.option("--text", "as_text", is_flag=True, help="print the module of the graph level")
@click.option("--check", is_flag=True, help="compare a compiled program's weights with their hash")
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
def inspect_command(model: str, as_text: bool, check: bool, as_json: bool) -> None:
    """Show what MODEL takes, gives and holds; of a compiled program, --text is its own level's."""
    if is_program(model):
        _inspect_program(model, as_text, check, as_json)
        return
    if check:
        raise click.UsageError("--check is for compiled programs: leave it out")
    read = read_model(model)
    try:
        module = import_graph(read)
    except MiniccError as error:
        if as_text:
            raise
        require_size_error(error)
        told = describe_nodes(read, error)
    else:
        if as_text:
            click.echo(print_module(module), nl=False)
            return
        told = describe(module)
    if as_json:
        click.echo(json.dumps(told))
    else:
        _show(told)


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
    console = Console()
    _show_types(console, told)
    sizes = ", ".join(f"{s}={n}" for s, n in told["sizes"].items())
    where = f"compiled for {told['target']}, {told['math']} mathematics"
    click.echo(f"{where}, sizes {sizes}" if sizes else where)
    click.echo(
        f"{told['launches']} launches of {told['kernels']} kernels, "
        f"{told['code_bytes'] / 1e6:.2f} MB of code, arena {told['arena_bytes'] / 1e6:.2f} MB"
    )
    click.echo(f"{told['constants']} constants, {told['constant_bytes'] / 1e6:.1f} MB")
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
        "constant_bytes": sum(a.nbytes for a in constants),
        "ops": dict(counted.most_common()),
    }


def _spelled(type: TensorType) -> str:
    return "any" if type.dtype is OPAQUE else str(type)


def describe_nodes(model: Model, error: MiniccError) -> dict[str, Any]:
    """The same of a model that has a graph for each set of sizes, and what wants to know these."""
    types = {name: "any" if type is None else str(type) for name, type in model.inputs}
    return {
        "inputs": types,
        "outputs": dict.fromkeys(model.outputs, "as sizes decide"),
        "operators": dict(Counter(node.op for node in model.nodes).most_common()),
        "wants_sizes": [f"{', '.join(e.where)}: {e.message}" for e in error.parts],
    }


def _show(told: dict[str, Any]) -> None:
    console = Console()
    _show_types(console, told)
    if "wants_sizes" in told:
        click.echo("compiled for each set of sizes, which nodes want to know:")
        for line in told["wants_sizes"]:
            click.echo(f"  {line}")
        click.echo()
        _show_counts(console, "operator", told["operators"])
        return
    if told["free_dimensions"]:
        click.echo(f"free dimensions: {', '.join(told['free_dimensions'])}\n")
    megabytes = told["constant_bytes"] / 1e6
    click.echo(
        f"{told['constants']} constants, {told['parameters']:,} numbers, {megabytes:.1f} MB\n"
    )
    _show_counts(console, "op", told["ops"])


def _show_types(console: Console, told: dict[str, Any]) -> None:
    for title in ("inputs", "outputs"):
        table = Table(title[:-1], "type", box=None)
        for name, kind in told[title].items():
            table.add_row(escape(name), escape(kind))
        console.print(table)
        console.print()


def _show_counts(console: Console, title: str, counts: dict[str, int]) -> None:
    table = Table(title, "count", box=None)
    for name, count in counts.items():
        table.add_row(escape(name), str(count))
    console.print(table)
