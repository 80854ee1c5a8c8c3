"""`minicc ops`: what minicc does with each operator of ONNX, and which tests show it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import click

from minicc.cli.choices import JSON
from minicc.cli.tables import show_table
from minicc.frontends.onnx.catalogue import Row, Summary, operators, summary
from minicc.frontends.onnx.model.reader import NEWEST_OPSET

_COLUMNS = ("operator", "version", "runs", "tests", "element types")
_PAGE = """# Operators

What minicc does with each operator and version of ONNX, printed by `minicc ops --markdown`: from
its tables of operators, ONNX's schemas, and a run of the tests that the `onnx` package ships.
`compiled` became machine code in all of its tests, `host` in none, `both` in some. What no test has
is as the tables say. An operator is taken at every version; *deprecated* is ONNX's word. The
element types are those of the first input that the specification and minicc have. `minicc ops
--json` names the tests.

"""


@click.command("ops")
@click.option("--opset", type=click.IntRange(1, NEWEST_OPSET), help="what that opset has")
@click.option("--markdown", is_flag=True, help="print the page that the documentation has")
@JSON
def ops_command(opset: int | None, markdown: bool, as_json: bool) -> None:
    """Show for each operator and version its element types, where it runs, and its tests."""
    rows, found = operators(opset), summary()
    if as_json:
        told = {"operators": [row._asdict() for row in rows], "summary": found._asdict()}
        click.echo(json.dumps(told))
    elif markdown:
        click.echo(page(rows, found), nl=False)
    else:
        show_table(_COLUMNS, map(_cells, rows))
        click.echo("\n" + "\n".join(_sentences(found)))


def page(rows: Sequence[Row], found: Summary) -> str:
    """The page of the documentation."""
    lines = [" | ".join(_COLUMNS), " | ".join("---" for _ in _COLUMNS)]
    lines += [" | ".join(map(str, _cells(row))) for row in rows]
    table = "".join(f"| {line} |\n" for line in lines)
    return f"{_PAGE}{table}\n" + "".join(f"{line}\n" for line in _sentences(found))


def _cells(row: Row) -> tuple[object, ...]:
    version = f"{row.version}, deprecated" if row.deprecated else str(row.version)
    return row.operator, version, row.where, len(row.tests), " ".join(row.types)


def _sentences(found: Summary) -> Iterator[str]:
    share = found.compiled / max(found.numeric, 1)
    yield f"{found.passing:,} tests pass; {found.numeric:,} of these have tensors of numbers alone."
    yield f"{found.compiled:,} of those, {share:.1%}, run wholly as machine code."
    if found.host:
        named = ", ".join(f"{name} ({count})" for name, count in found.host)
        yield f"In the others these ran on the host, in so many tests: {named}."
