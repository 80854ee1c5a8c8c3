"""`minicc inspect`: what a model takes, gives and holds, without compiling it.

Mirrors: polygraphy inspect model, trtexec's verbose listing, netron in text.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from minicc.frontends.onnx import import_model
from minicc.ir import graph
from minicc.ir.core import Module
from minicc.ir.printer import print_module
from minicc.passes.graph.specialise import free_symbols


@click.command("inspect")
@click.argument("model", type=click.Path(dir_okay=False))
@click.option("--text", "as_text", is_flag=True, help="print the module of the graph level")
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
def inspect_command(model: str, as_text: bool, as_json: bool) -> None:
    """Show what MODEL takes, gives and holds."""
    module = import_model(model)
    if as_text:
        click.echo(print_module(module), nl=False)
        return
    told = describe(module)
    if as_json:
        click.echo(json.dumps(told))
    else:
        _show(told)


def describe(module: Module) -> dict[str, Any]:
    """Inputs and outputs with their types, free dimensions, constants, and ops by name."""
    main = module.main
    constants = [op.value.array for op in main.body.ops if isinstance(op, graph.Constant)]
    counted = Counter(op.opname for op in main.body.ops if not isinstance(op, graph.Constant))
    results = zip(main.result_names, main.body.yields, strict=True)
    return {
        "inputs": {a.hint: str(a.type) for a in main.args},
        "outputs": {name: str(v.type) for name, v in results},
        "free_dimensions": list(free_symbols(main)),
        "constants": len(constants),
        "parameters": sum(a.size for a in constants),
        "constant_bytes": sum(a.nbytes for a in constants),
        "ops": dict(counted.most_common()),
    }


def _show(told: dict[str, Any]) -> None:
    console = Console()
    for title in ("inputs", "outputs"):
        table = Table(title[:-1], "type", box=None)
        for name, kind in told[title].items():
            table.add_row(escape(name), escape(kind))
        console.print(table)
        console.print()
    if told["free_dimensions"]:
        click.echo(f"free dimensions: {', '.join(told['free_dimensions'])}\n")
    megabytes = told["constant_bytes"] / 1e6
    click.echo(
        f"{told['constants']} constants, {told['parameters']:,} numbers, {megabytes:.1f} MB\n"
    )
    table = Table("op", "count", box=None)
    for name, count in told["ops"].items():
        table.add_row(name, str(count))
    console.print(table)
