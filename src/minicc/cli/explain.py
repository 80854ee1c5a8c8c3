"""`minicc explain`: what a Python function is traced to, and where it runs."""

from __future__ import annotations

import json
from typing import Any

import click

from minicc.cli.choices import INPUT, JSON, MATH, SHAPE, TARGET, THREADS
from minicc.cli.functions import called, telling
from minicc.cli.inputs import is_function, parse_shapes
from minicc.cli.progress import Progress
from minicc.options import Options


@click.command("explain")
@click.argument("function", metavar="FILE.py:FUNCTION")
@INPUT
@SHAPE
@THREADS
@MATH
@TARGET
@JSON
def explain_command(
    function: str,
    inputs: tuple[str, ...],
    shapes: tuple[str, ...],
    threads: int | None,
    as_json: bool,
    **code: Any,
) -> None:
    """Tell of a Python function's graphs, breaks, loops and guards, for arguments."""
    if not is_function(function):
        raise click.UsageError("name a function: FILE.py:FUNCTION")
    call = called(function, inputs, parse_shapes(shapes))
    with Progress(f"compiling {function}"), telling(call.name):
        told = call.jitted(Options(threads=threads, **code)).explain(**call.copies())
    if as_json:
        graphs = [
            {
                "ops": g.ops,
                "kernels": g.kernels,
                "launches": g.launches,
                "lines": list(g.lines),
                "host": list(map(str, g.host)),
            }
            for g in told.graphs
        ]
        breaks = list(map(str, told.breaks))
        click.echo(
            json.dumps(
                {"graphs": graphs, "breaks": breaks, "loops": told.loops, "guards": told.guards}
            )
        )
    else:
        click.echo(str(told))
