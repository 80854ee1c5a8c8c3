"""`minicc compile --report`: what becomes machine code, what runs on the host, and why.

Mirrors: ONNX Runtime's log of node placements, TVM's and ExecuTorch's partition reports.
"""

from __future__ import annotations

from collections import Counter

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from minicc.compiler import lower
from minicc.ir import graph, program
from minicc.ir.core import Module
from minicc.options import Options
from minicc.units import Unit, Units


def show_report(units: Units, options: Options) -> None:
    """Print the report of the units of a model."""
    host = [pair for unit in units.known for pair in unit.host]
    ops = sum(map(_count, units.known))
    click.echo(
        f"{ops - len(host)} of {ops} graph ops become machine code, {len(host)} stay on the host"
    )
    reasons = Counter(why for _, why in host)
    for why, count in reasons.most_common():
        nodes = [" ".join(op.loc) for op, reason in host if reason == why]
        click.echo(f"  on the host: {count} because {why}: {', '.join(nodes[:8])}")
    table = Table("part", "nodes", "kernels", "launches", "arena", "constants", box=None)
    for unit in units.known:
        table.add_row(str(unit.number), *_row(unit, options))
    if units.known:
        Console().print(table)
    click.echo(f"target {escape(options.machine.name)}, {options.math} mathematics")


def _count(unit: Unit) -> int:
    return sum(not isinstance(op, graph.Constant) for op in unit.module.main.body.ops)


def _row(unit: Unit, options: Options) -> list[str]:
    if unit.host:
        nodes = {name for op, _ in unit.host for name in op.loc}
        return [str(len(nodes)), "host", "", "", ""]
    return _compiled_row(lower(unit.module, options, unit.binding))


def _compiled_row(lowered: Module) -> list[str]:
    main = lowered.main
    launches = list(program.launches(main.body))
    sources = {name for op in launches for part in op.sources for name in part}
    constants = sum(op.value.nbytes for op in main.body.ops if isinstance(op, program.Constant))
    kernels = len(lowered.functions) - 1
    arena: int = main.attrs["arena"]
    sizes = [f"{arena / 1e6:.2f} MB", f"{constants / 1e6:.2f} MB"]
    return [str(len(sources)), str(kernels), str(len(launches)), *sizes]
