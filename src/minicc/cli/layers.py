"""`minicc layers`: the whole stack, and what each layer mirrors in real systems."""

from __future__ import annotations

import ast
import itertools
import json
from collections.abc import Iterable
from typing import NamedTuple

import click
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

from minicc.cli.choices import JSON
from minicc.compile.compiler import STAGES
from minicc.records import HERE, Record, records

_BELOW = ("backends.", "passes.structured.", "passes.graph.", "passes.kernel.", "passes.program.")


class Row(NamedTuple):
    """A layer: its part of the stack, its name, what it is, the stages it holds, its record."""

    part: str
    name: str
    sentence: str
    stages: tuple[str, ...]
    record: Record


def rows(system: str | None = None) -> list[Row]:
    """All layers, or those that a system has, from the interfaces down to what shows the others."""
    return [_row(r) for r in records() if system is None or system in systems([r])]


def systems(of: Iterable[Record]) -> list[str]:
    """The names of the systems that records mirror, each once."""
    return sorted({m.system for record in of for m in record.mirrors})


def _row(record: Record) -> Row:
    name = record.module.removeprefix("minicc.")
    for prefix in _BELOW:
        name = name.removeprefix(prefix)
    text = ast.get_docstring(ast.parse((HERE / record.home).read_text(encoding="utf-8"))) or ""
    stages = tuple(s.name for s in STAGES if s.home == record.module)
    return Row(record.part, name, text.partition("\n")[0], stages, record)


def _known(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """The system's name as records spell it, whatever the case."""
    names = {name.lower(): name for name in systems(records())}
    if value is not None and value.lower() not in names:
        raise click.BadParameter(f"systems: {', '.join(sorted(names.values()))}", ctx, param)
    return value and names[value.lower()]


@click.command("layers")
@click.option("--system", callback=_known, metavar="NAME", help="only what that system has, too")
@JSON
def layers_command(system: str | None, as_json: bool) -> None:
    """Print every layer of the compiler and the real systems that it mirrors."""
    found = rows(system)
    if as_json:
        click.echo(json.dumps({"layers": [_told(row) for row in found]}))
        return
    console = Console(highlight=False)
    for part, group in itertools.groupby(found, lambda row: row.part):
        console.print(f"\n[bold]{escape(part)}[/bold]")
        for row in group:
            stages = f" (stages {', '.join(row.stages)})" if row.stages else ""
            console.print(Padding(escape(f"{row.name}{stages}: {row.sentence}"), (0, 0, 0, 1)))
            for line in row.record.lines():
                console.print(Padding(escape(line), (0, 0, 0, 4)))


def _told(row: Row) -> dict[str, object]:
    record = row.record
    mirrors = [{f: getattr(m, f) for f in m.__slots__} for m in record.mirrors]
    return {
        "part": row.part,
        "name": row.name,
        "sentence": row.sentence,
        "stages": row.stages,
        "mirrors": mirrors,
        "differs": record.differs,
        "beyond": record.beyond,
        "files": [record.home, *record.files],
    }
