"""`minicc tune`: faster schedules of a model, found by measuring, as a file."""

from __future__ import annotations

import time
from functools import partial
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np

from minicc.api.inputs import check_inputs
from minicc.api.session import InferenceSession
from minicc.cli.choices import INPUT, JSON, MATH, SHAPE, TARGET, THREADS
from minicc.cli.inputs import opened, parse_shapes
from minicc.cli.measuring import measured
from minicc.cli.progress import Progress
from minicc.cli.sources import open_source
from minicc.cli.tables import show_table, tell
from minicc.compile.compiler import chosen_stages
from minicc.compile.observe import write_beside
from minicc.compile.tuning import Found, Input, tune
from minicc.compile.units import Unit, run_units
from minicc.ir.arrays import Array
from minicc.options import Options
from minicc.runtime.programs import is_program
from minicc.wording import counted

_BAR = 24
_SECONDS = 2.0  # for the whole model with each file of schedules
_COLUMNS = ("group", "own us", "tuned us", "gain")


@click.command("tune")
@click.argument("model", type=click.Path(dir_okay=False))
@click.option("-o", "--output", metavar="FILE", help="default: MODEL's name with .schedules")
@click.option("--minutes", type=click.FloatRange(0, min_open=True), default=2.0, show_default=True)
@INPUT
@SHAPE
@THREADS
@MATH
@TARGET
@JSON
def tune_command(
    model: str,
    output: str | None,
    minutes: float,
    inputs: tuple[str, ...],
    shapes: tuple[str, ...],
    threads: int | None,
    as_json: bool,
    **code: Any,
) -> None:
    """Search for faster schedules of MODEL by measuring, and write them to a file.

    Ctrl-C ends the search, and what was found is kept.
    """
    options = Options(threads=threads, **code)
    if is_program(model):
        raise click.UsageError("a program is compiled: schedules are of a model")
    bound = parse_shapes(shapes)
    with Progress(f"compiling {model}") as progress:
        session, feed = opened(model, options, inputs, bound, progress)
        session.run(None, feed)
        parts = _parts(model, bound, feed, session.options)
    end = time.monotonic() + 60 * minutes
    with Progress("measuring the compiler's own schedules") as progress:

        def at(rounds: int, better: int) -> None:
            left = max(0.0, end - time.monotonic())
            full = round(_BAR * (1 - left / (60 * minutes)))
            bar = "#" * full + "-" * (_BAR - full)
            found = counted(better, "better schedule")
            progress.at(f"[{bar}] {counted(rounds, 'round')}, {found}, {left:.0f} s left")

        found = tune(parts, session.options, 60 * minutes, at)
    with Progress("measuring the whole model"):
        whole = _whole(model, session, feed, found) if found.gains else {}
    if whole.get("tuned", inf) >= whole.get("own", 0.0):
        found = found._replace(gains=())  # by the kernels alone, and not where it counts
    path = Path(output or f"{Path(model).stem}.schedules")
    head = f"// tuned for {options.machine.name} and {options.math} mathematics\n"
    write_beside(path, f"{head}{found.text()}".encode())
    told = _told(found, whole, path, options.threads)
    tell(told, as_json, _show)


def _parts(
    model: str, shapes: dict[str, tuple[int, ...]], feed: dict[str, Array], options: Options
) -> list[Input]:
    """What of a model is compiled, with the values that reach it."""
    units, signature, elements = open_source(model, shapes, options)
    start = units.known[0].start
    if start is not None and "schedule" not in [s.name for s in chosen_stages(start, None)]:
        raise click.UsageError(f"FILE comes after {start}, and has its schedules already")
    checked = check_inputs(signature, feed, options.memory_limit, elements)
    values = [np.require(a, requirements="C") for a in checked.values()]
    if not units.several:
        return [Input(units.known[0], values)]
    known = {unit.number: unit for unit in units.known if not unit.host}
    met: dict[int, Input] = {}

    def meet(unit: Unit, inputs: list[Array], outputs: list[Array]) -> None:
        if unit.number in known:
            met.setdefault(unit.number, Input(known[unit.number], inputs))

    run_units(units, values, options, meet)
    return list(met.values())


def _same_bits(a: Any, b: Any) -> bool:
    """Whether two outputs are the same, bit by bit."""
    x, y = np.asarray(a), np.asarray(b)
    plain = x.dtype != object and y.dtype != object
    return x.shape == y.shape and (x.tobytes() == y.tobytes() if plain else bool((x == y).all()))


def _whole(
    model: str, own: InferenceSession, feed: dict[str, Array], found: Found
) -> dict[str, float]:
    """Median seconds of a run with the own schedules and with those found.

    Nothing where these change a bit.
    """
    tuned = InferenceSession(model, options=own.options.replace(schedules=found.text()))
    if not all(map(_same_bits, own.run(None, feed), tuned.run(None, feed))):
        return {}
    runs = {name: partial(s.run, None, feed) for name, s in (("own", own), ("tuned", tuned))}
    return {name: median(times) for name, times in measured(runs, _SECONDS).items()}


def _told(found: Found, whole: dict[str, float], path: Path, threads: int) -> dict[str, Any]:
    rows = [
        {"group": g.name, "own_us": g.own * 1e6, "tuned_us": g.tuned * 1e6} for g in found.gains
    ]
    return {
        "groups": rows,
        "launches_us": found.seconds * 1e6,
        "tried": found.tried,
        "ended": found.ended,
        "model_ms": {name: seconds * 1e3 for name, seconds in whole.items()},
        "threads": threads,
        "file": str(path),
    }


def _show(told: dict[str, Any]) -> None:
    if told["groups"]:
        show_table(_COLUMNS, map(_cells, told["groups"]))
    all_tried = ", all there are" if told["ended"] else ""
    click.echo(f"{counted(told['tried'], 'schedule')} tried{all_tried}")
    saved = sum(r["own_us"] - r["tuned_us"] for r in told["groups"])
    before = told["launches_us"]
    gain = _gain(before, before - saved)
    click.echo(f"all launches on one thread: {before / 1e3:.4g} ms, {gain} with them")
    if times := told["model_ms"]:
        threads = counted(told["threads"], "thread")
        gain = _gain(times["own"], times["tuned"])
        own, tuned = (f"{times[name]:.4g} ms" for name in ("own", "tuned"))
        click.echo(f"the model, {threads}: {own}, {tuned} with them, {gain}")
    click.echo(f"wrote {told['file']}")


def _cells(row: dict[str, Any]) -> list[object]:
    own, tuned = row["own_us"], row["tuned_us"]
    return [row["group"], f"{own:.1f}", f"{tuned:.1f}", _gain(own, tuned)]


def _gain(before: float, after: float) -> str:
    return f"{(before - after) / before:.1%} less" if before > after else "nothing gained"
