"""`minicc target`: the facts of a machine by which code is chosen, and what this one reaches."""

from __future__ import annotations

from typing import Any

import click

from minicc.cli.choices import JSON, THREADS
from minicc.cli.progress import Progress
from minicc.cli.tables import show_table, tell
from minicc.compile.machine import Rates, measured
from minicc.options import Options
from minicc.target import MACHINES, Target, host_model, last_cache, usable_cores


@click.command("target")
@click.argument("name", type=click.Choice([*MACHINES]), required=False)
@click.option("--again", is_flag=True, help="measure what was measured before")
@THREADS
@JSON
def target_command(name: str | None, again: bool, threads: int | None, as_json: bool) -> None:
    """Print the facts of this machine, or of the one called NAME.

    Rates are measured on this machine where it is meant, once. They choose no code.
    """
    options = Options(target=name, threads=threads)
    told: dict[str, Any] = {"facts": _facts(options.machine)}
    if name in (None, Target.host().name):
        told["host"] = {"model": host_model(), "cores": usable_cores(), "l3": last_cache()}
        with Progress("measuring the machine"):
            told["measured"] = [rates._asdict() for rates in measured(options, again)]
    told["targets"] = [*MACHINES]
    tell(told, as_json, _show)


def _facts(target: Target) -> dict[str, object]:
    """What code may depend on."""
    return {
        "name": target.name,
        "cpu": target.cpu,
        "vector_bits": target.vector_bits,
        "registers": target.registers,
        "fma": target.has_fma,
        "masks": target.has_masks,
        "dots": ", ".join(target.dots),
        "l1": target.l1,
        "l2": target.l2,
        "l3": target.l3,
        "stream": target.stream,
    }


def _show(told: dict[str, Any]) -> None:
    facts = dict(told["facts"])
    facts |= {level: f"{facts[level] >> 10} KiB" for level in ("l1", "l2", "l3")}
    if "host" in told:
        host = told["host"]
        known = f"{host['l3'] >> 10} KiB" if host["l3"] else "not told"
        facts["l3"] = f"{facts['l3']}, shared (here: {known})"
        facts |= {"model": host["model"], "cores": host["cores"]}
    show_table(("fact", "value"), facts.items())
    if "measured" in told:
        rates = [Rates(**row) for row in told["measured"]]
        columns = [f"{r.threads} thread{'s' * (r.threads > 1)}" for r in rates]
        rows = [["multiply-adds, GFLOP/s", *[f"{r.roof:.0f}" for r in rates]]]
        for level in dict.fromkeys(level for r in rates for level in r.bandwidth):
            found = [r.bandwidth.get(level) for r in rates]
            cells = ["-" if n is None else f"{n:.0f}" for n in found]
            rows.append([f"read from {level}, GB/s", *cells])
        show_table(("measured", *columns), rows)
    click.echo(f"targets: {', '.join(told['targets'])}")
