"""`minicc diff A.mcc B.mcc`: which ops, groups, kernels and launches differ.

Values that have no name of their own are the same whatever their numbers are, so that an op put in
at the top does not change every line below it; locations don't count.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import click

from minicc.api.texts import open_text
from minicc.cli.choices import JSON
from minicc.cli.tables import show_table, tell
from minicc.ir import structured
from minicc.ir.core import Module, walk
from minicc.ir.text.printer import print_function, print_module, print_op

_NUMBER = re.compile(r"%\d+")
_AROUND = 2  # lines that are shown around a difference


@click.command("diff")
@click.argument("before", type=click.Path(dir_okay=False))
@click.argument("after", type=click.Path(dir_okay=False))
@JSON
def diff_command(before: str, after: str, as_json: bool) -> None:
    """Tell how the texts BEFORE and AFTER differ. Exit status 1: they do, 0: they don't."""
    modules = [open_text(path).module for path in (before, after)]
    told = compared(*modules)
    tell(told, as_json, _show)
    sys.exit(1 if told["lines"] else 0)


def compared(before: Module, after: Module) -> dict[str, Any]:
    """Counts of ops that differ, parts that one has alone or that changed, and lines with marks."""
    counts = [
        Counter(op.opname for f in m.functions for op in walk(f.body)) for m in (before, after)
    ]
    names = sorted(counts[0] | counts[1])
    parts = [_parts(m) for m in (before, after)]
    both = [name for name in parts[0] if name in parts[1]]
    return {
        "levels": [before.level, after.level],
        "ops": {n: [c[n] for c in counts] for n in names if counts[0][n] != counts[1][n]},
        "only_before": [name for name in parts[0] if name not in parts[1]],
        "only_after": [name for name in parts[1] if name not in parts[0]],
        "changed": [name for name in both if parts[0][name] != parts[1][name]],
        "lines": list(_lines(before, after)),
    }


def _parts(module: Module) -> dict[str, list[str]]:
    """Kernels by name, or groups by label, each as comparable lines."""
    kernels = [f for f in module.functions if f is not module.main]
    found = {f"kernel {f.name}": _plain(print_function(f, locations=False)) for f in kernels}
    for op in walk(module.main.body):
        if isinstance(op, structured.Group):
            text = _plain(print_op(op, locations=False))
            found.setdefault(f"group {op.label}", []).extend(text)
    return found


def _plain(text: str) -> list[str]:
    return _NUMBER.sub("%_", text).splitlines()


def _lines(before: Module, after: Module) -> Iterator[str]:
    """The lines that differ with some around them, as they stand in the texts."""
    texts = [print_module(m, locations=False) for m in (before, after)]
    old, new = (text.splitlines() for text in texts)
    matcher = difflib.SequenceMatcher(None, _plain(texts[0]), _plain(texts[1]))
    for group in matcher.get_grouped_opcodes(_AROUND):
        first, last = group[0], group[-1]
        yield f"@@ -{first[1] + 1},{last[2] - first[1]} +{first[3] + 1},{last[4] - first[3]} @@"
        for kind, i, j, k, n in group:
            if kind == "equal":
                yield from (f"  {line}" for line in old[i:j])
                continue
            yield from (f"- {line}" for line in old[i:j])
            yield from (f"+ {line}" for line in new[k:n])


def _show(told: dict[str, Any]) -> None:
    if told["levels"][0] != told["levels"][1]:
        click.echo("the level {} became {}".format(*told["levels"]))
    if told["ops"]:
        show_table(("op", "before", "after"), [(n, *pair) for n, pair in told["ops"].items()])
    for key in ("only_before", "only_after", "changed"):
        if told[key]:
            click.echo(f"{key.replace('_', ' ')}: {', '.join(told[key])}")
    click.echo("\n".join(told["lines"]) if told["lines"] else "the texts are the same")
