"""The command line: `minicc run`, `compile`, `inspect`, `bench`, ...; one module a command.

With `--json` a command prints one JSON object on standard output, also where it fails: then it is
`{"error": {"code", "kind", "message", "hint", "where"}}`, with `problems` where there are several.
"""

from __future__ import annotations

import errno
import importlib
import json

import click

from minicc.cli.failures import as_json_object, as_minicc_error, told
from minicc.cli.progress import JSON
from minicc.version import VERSION

# A command is loaded when it is named: most load all of the compiler.
_COMMANDS = {
    "run": "Compile MODEL, run it once, and show its outputs.",
    "compile": "Run the stages on MODEL or a dumped FILE, and show them.",
    "inspect": "Show what MODEL takes, gives and holds.",
    "lint": "Show all problems of MODEL at once, without compiling it.",
    "bench": "Measure runs of MODEL, beside another engine's if asked.",
    "tune": "Search for faster schedules of MODEL by measuring.",
    "explain": "Tell of a Python function's graphs, breaks, loops and guards.",
    "opt": "Run passes on the module in FILE, a text of any level.",
    "diff": "Tell how two texts of a level differ.",
    "verify": "Compare every stage and the machine code of MODEL.",
    "target": "Print the facts of a machine, and what this one reaches.",
    "ops": "Show what minicc does with each operator of ONNX.",
    "layers": "Print every layer, and the systems that it mirrors.",
}


class Commands(click.Group):
    """Loads a command from the module of its name, and turns errors into exit status 1.

    Errors are told as text on standard error, or as JSON on standard output.
    """

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands:
            return None
        module = importlib.import_module(f"{__name__}.{cmd_name}")
        command = getattr(module, f"{cmd_name}_command")
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, str(c.help)) for name, c in self.commands.items()])

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[JSON] = "--json" in args  # before options are read, which may be wrong
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.Abort):
            raise
        except click.ClickException as error:
            if not ctx.meta[JSON]:
                raise
            found = {"code": "usage", "kind": "usage", "message": error.format_message()}
            click.echo(json.dumps({"error": found}))
            ctx.exit(error.exit_code)
        except Exception as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise  # click ends quietly where nobody reads on
            known = as_minicc_error(error)
            if ctx.meta[JSON]:
                click.echo(json.dumps({"error": as_json_object(known)}))
            else:
                click.echo(told(known), err=True)
            ctx.exit(1)


@click.group(
    cls=Commands,
    commands={name: click.Command(name, help=text) for name, text in _COMMANDS.items()},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(VERSION, prog_name="minicc")
def commands() -> None:
    """A mini end-to-end tensor compiler."""


def main(args: list[str] | None = None) -> None:
    """Run a command; exit status 1 for what is wrong with a model or input, 2 for wrong usage."""
    commands.main(args, prog_name="minicc", standalone_mode=True)
