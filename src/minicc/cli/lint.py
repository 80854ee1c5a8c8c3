"""`minicc lint`: all that is wrong with a model at once, without compiling it."""

from __future__ import annotations

import json
import sys

import click

from minicc.cli.choices import JSON
from minicc.cli.progress import Progress
from minicc.cli.tables import show_table
from minicc.compile.lint import (
    DEPRECATED,
    FORBIDDEN,
    HOST,
    SIZES,
    UNSUPPORTED,
    Finding,
    Report,
    lint,
)
from minicc.wording import counted

_TITLES = {
    FORBIDDEN: "the specification forbids",
    UNSUPPORTED: "minicc does not compile",
    SIZES: "compiled for each set of sizes, which these want to know",
    HOST: "runs on the host",
    DEPRECATED: "deprecated",
}
_WRONG, _LACKING = 1, 3


@click.command("lint")
@click.argument("model", type=click.Path(dir_okay=False))
@JSON
def lint_command(model: str, as_json: bool) -> None:
    """Show all problems of MODEL at once, without compiling it.

    Exit status 0: it will run; what runs on the host, is deprecated or free is told and no problem.
    1: the specification forbids some of it, or the file can't be read. 3: it is valid, and minicc
    does not compile some of it.
    """
    with Progress("looking for problems"):
        report = lint(model)
    status = _status(report)
    if as_json:
        told = {
            "status": status,
            "findings": [f._asdict() for f in report.findings],
            "free_dimensions": {name: list(places) for name, places in report.free.items()},
        }
        click.echo(json.dumps(told))
    else:
        _show(report)
    sys.exit(status)


def _status(report: Report) -> int:
    if report.count(FORBIDDEN):
        return _WRONG
    return _LACKING if report.count(UNSUPPORTED) else 0


def _show(report: Report) -> None:
    for kind, title in _TITLES.items():
        rows = [_row(f) for f in report.findings if f.kind == kind]
        if rows:
            click.echo(f"{title}: {len(rows)}")
            show_table(("code", "node", "operator", "problem", "what would work"), rows)
            click.echo()
    for name, places in report.free.items():
        click.echo(f"free dimension {name}: {'; '.join(places)}")
    wrong, lacking = report.count(FORBIDDEN), report.count(UNSUPPORTED)
    click.echo(f"{counted(wrong + lacking, 'problem')}" if wrong + lacking else "no problems")


def _row(found: Finding) -> tuple[str, ...]:
    operator = found.operator + (f" ({found.opset})" if found.opset else "")
    return found.code, found.node, operator, found.message, found.hint
