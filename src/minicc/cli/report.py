"""`minicc compile --report`: what becomes machine code, what runs on the host, and why."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from minicc.cli.tables import show_table
from minicc.compile.compiler import lower
from minicc.compile.memory import constant_bytes
from minicc.compile.units import Unit, Units
from minicc.ir import graph, program
from minicc.ir.core import Module
from minicc.options import Options
from minicc.wording import counted

_COLUMNS = ("part", "nodes", "kernels", "launches", "arena", "constants")


def report_of(units: Units, options: Options) -> dict[str, Any]:
    """What of a model is compiled, into what, and what the host runs and why."""
    host = [pair for unit in units.known for pair in unit.host]
    ops = sum(map(_count, units.known))
    return {
        "ops": ops,
        "compiled": ops - len(host),
        "on_host": [{"nodes": list(op.loc), "why": why} for op, why in host],
        "parts": [_row(unit, options) for unit in units.known],
        "target": options.machine.name,
        "math": options.math,
    }


def show_report(told: dict[str, Any]) -> None:
    """Print a report."""
    host, ops = told["on_host"], told["ops"]
    stay = "1 stays" if len(host) == 1 else f"{len(host)} stay"
    click.echo(
        f"{told['compiled']} of {counted(ops, 'graph op')} become machine code, {stay} on the host"
    )
    for why, count in Counter(on["why"] for on in host).most_common():
        nodes = [" ".join(on["nodes"]) for on in host if on["why"] == why]
        click.echo(f"  on the host: {count} because {why}: {', '.join(nodes[:8])}")
    if told["parts"]:
        show_table(_COLUMNS, map(_cells, told["parts"]))
    click.echo(f"target {told['target']}, {told['math']} mathematics")


def _cells(row: dict[str, Any]) -> list[object]:
    if row["host"]:
        return [row["part"], row["nodes"], "host", "", "", ""]
    arena = row["arena"]
    # of free dimensions it is an expression over these
    taken = f"{arena / 1e6:.2f} MB" if isinstance(arena, int) else f"{arena} bytes"
    counts = [row[key] for key in ("part", "nodes", "kernels", "launches")]
    return [*counts, taken, f"{row['constants'] / 1e6:.2f} MB"]


def _count(unit: Unit) -> int:
    return sum(not isinstance(op, graph.Constant) for op in unit.module.main.body.ops)


def _row(unit: Unit, options: Options) -> dict[str, Any]:
    if unit.host:
        nodes = {name for op, _ in unit.host for name in op.loc}
        return {"part": unit.number, "host": True, "nodes": len(nodes)}
    lowered = lower(unit.module, options, unit.binding, start=unit.start)
    return {"part": unit.number, "host": False, **_compiled(lowered)}


def _compiled(lowered: Module) -> dict[str, int | str]:
    main = lowered.main
    launches = list(program.launches(main.body))
    arena = main.attrs["arena"]
    return {
        "nodes": len({name for op in launches for part in op.sources for name in part}),
        "kernels": len(lowered.functions) - 1,
        "launches": len(launches),
        "arena": arena if isinstance(arena, int) else str(arena),
        "constants": constant_bytes(lowered),
    }
