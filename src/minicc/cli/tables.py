"""Tables as all commands show them, and JSON in their place.

On a terminal a table is as wide as that, and long names wrap. In a pipe or a file each row is one
line of any length, so that what reads it finds names whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

_WIDE = 1 << 16


def show_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, err: bool = False
) -> None:
    """Print a table of plain texts without lines; the columns shrink to what stands in them."""
    made = Table(box=None)
    for name in columns:
        made.add_column(escape(name), overflow="fold")
    for row in rows:
        made.add_row(*[escape(str(cell)) for cell in row])
    console = Console(stderr=err)
    (console if console.is_terminal else Console(stderr=err, width=_WIDE)).print(made)


def tell(told: dict[str, Any], as_json: bool, show: Callable[[dict[str, Any]], None]) -> None:
    """Print an object as JSON where that is asked for, and else show it."""
    if as_json:
        click.echo(json.dumps(told))
    else:
        show(told)
