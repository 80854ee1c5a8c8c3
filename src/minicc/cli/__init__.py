"""The command line: `minicc run`, `compile`, `verify`, `layers`; one module a command.

Mirrors: iree-compile and iree-run-module, mlir-opt, polygraphy run.
"""

from __future__ import annotations

import sys

import click

from minicc.cli.compile import compile_command
from minicc.cli.layers import layers_command
from minicc.cli.run import run_command
from minicc.cli.verify import verify_command
from minicc.errors import MiniccError
from minicc.version import VERSION


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(VERSION, prog_name="minicc")
def commands() -> None:
    """A mini end-to-end tensor compiler."""


commands.add_command(run_command)
commands.add_command(compile_command)
commands.add_command(verify_command)
commands.add_command(layers_command)


def main(args: list[str] | None = None) -> None:
    """Run a command; exit status 1 for what is wrong with a model or input, 2 for wrong usage."""
    try:
        commands.main(args, prog_name="minicc", standalone_mode=True)
    except MiniccError as error:
        click.echo(str(error), err=True)
        sys.exit(1)
