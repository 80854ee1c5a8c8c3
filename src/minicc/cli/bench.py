"""`minicc bench`: how long a model takes to be ready and to run, and each of its launches.

Engines take turns, round by round, so that what else the machine does falls on all of them.
"""

from __future__ import annotations

import importlib.metadata
import json
import time
from collections.abc import Sequence
from functools import partial
from statistics import median
from typing import Any

import click
import numpy as np

from minicc.api.inputs import check_inputs
from minicc.api.session import InferenceSession
from minicc.cli import functions
from minicc.cli.ablate import ablated, show_ablated
from minicc.cli.choices import INPUT, JSON, SHAPE, THREADS, code_options
from minicc.cli.inputs import is_function, opened, parse_shapes
from minicc.cli.measuring import Run, difference, measured
from minicc.cli.progress import Progress
from minicc.cli.sources import open_source
from minicc.cli.tables import show_table, tell
from minicc.compile.profile import LaunchTime, profile
from minicc.compile.units import Unit, run_units
from minicc.errors import UserError
from minicc.ir.arrays import Array
from minicc.options import Options
from minicc.runtime.programs import is_program
from minicc.wording import counted

_PEERS = ("onnxruntime", *functions.ENGINES)
_FREE = "minicc, free sizes"
_COLUMNS = ("part", "kernel", "us", "share", "points/ns", "computes")


@click.command("bench")
@click.argument("model", type=click.Path(dir_okay=False))
@click.option(
    "--against",
    metavar="ENGINE,...",
    callback=lambda ctx, param, text: _peers(text or ""),
    help="measure these, too: onnxruntime of a model, numpy, numba, jax of a function",
)
@INPUT
@SHAPE
@THREADS
@click.option("--seconds", type=click.FloatRange(0.01), default=2.0, help="for each engine")
@click.option("--ablate", is_flag=True, help="measure it without each stage that can be left out")
@click.option("--profile", "launches", type=click.IntRange(1), help="tell of so many launches")
@code_options
@JSON
def bench_command(
    model: str,
    against: Sequence[str],
    inputs: tuple[str, ...],
    shapes: tuple[str, ...],
    threads: int | None,
    seconds: float,
    ablate: bool,
    launches: int | None,
    as_json: bool,
    **code: Any,
) -> None:
    """Measure runs of MODEL, beside another engine's if asked.

    MODEL may also be a Python function, named as FILE.py:FUNCTION.
    """
    options = Options(threads=threads, **code)
    bound = parse_shapes(shapes)
    _require_of_its_kind(model, against, ablate)
    if is_function(model):
        function = functions.called(model, inputs, bound)
        told = _bench_function(function, options, against, seconds, launches)
        tell(told, as_json, _show)
        return
    began = time.perf_counter()
    with Progress(f"compiling {model}") as progress:
        session, feed = opened(model, options, inputs, bound, progress)
        want = session.run(None, feed)
    if ablate:
        found = ablated(model, session, feed, seconds)
        click.echo(json.dumps({"ablated": found})) if as_json else show_ablated(found)
        return
    engines: dict[str, Run] = {"minicc": lambda: session.run(None, feed)}
    ready = {"minicc": time.perf_counter() - began}
    if session.options.sizes:  # what it gains that they are bound
        began = time.perf_counter()
        free = InferenceSession(model, options=options)
        free.run(None, feed)
        engines[_FREE] = lambda: free.run(None, feed)
        ready[_FREE] = time.perf_counter() - began
    error: float | None = None
    for name in against:
        began = time.perf_counter()
        engines[name] = _onnxruntime(model, feed, options.threads)
        error = difference(want, engines[name]())
        ready[name] = time.perf_counter() - began
    told = _told(options, ready, measured(engines, seconds), error)
    if launches is not None:
        with Progress("measuring launches"):
            told["launches"] = _launches(model, session, feed, launches)
    tell(told, as_json, _show)


def _peers(text: str) -> list[str]:
    """The engines of --against; UsageError for others."""
    names = [name for name in text.split(",") if name]
    if wrong := [name for name in names if name not in _PEERS]:
        raise click.BadParameter(f"{wrong[0]!r} is not one of {', '.join(_PEERS)}")
    return names


def _require_of_its_kind(model: str, against: Sequence[str], ablate: bool) -> None:
    """UsageError where what is asked of a model is of a function, or the other way round."""
    of_model = [name for name in against if name not in functions.ENGINES]
    if is_function(model):
        if wrong := [*of_model, *(["--ablate"] if ablate else [])]:
            raise click.UsageError(f"{wrong[0]} is of a model, and {model} is a function")
    elif wrong := [name for name in against if name not in of_model]:
        raise click.UsageError(f"{wrong[0]} is of a function, named as FILE.py:FUNCTION")


def _told(
    options: Options,
    ready: dict[str, float],
    times: dict[str, list[float]],
    error: float | None,
) -> dict[str, Any]:
    rows = {name: _row(ready[name], taken) for name, taken in times.items()}
    told: dict[str, Any] = {"threads": options.threads, "engines": rows}
    return told if error is None else told | {"difference": error}


def _bench_function(
    function: functions.Called,
    options: Options,
    against: Sequence[str],
    seconds: float,
    launches: int | None,
) -> dict[str, Any]:
    """Runs of a function; before each, the arrays that it writes to are as they were."""
    compiled = function.jitted(options)
    engines: dict[str, Run] = {}
    ready: dict[str, float] = {}
    made: list[list[Array]] = []
    stale: list[tuple[Array, Array]] = []
    for name in ("minicc", *against):
        run = compiled if name == "minicc" else functions.as_run_by(name, compiled.__wrapped__)
        given = function.copies()
        began = time.perf_counter()
        with Progress(f"compiling {function.name}"), functions.telling(f"{function.name} ({name})"):
            result = run(**given)
        ready[name] = time.perf_counter() - began
        written = dict(functions.written(function.arguments, given))
        made.append([a for _, a in functions.named_arrays("", (result, *written.values()))])
        stale += [(array, function.arguments[n]) for n, array in written.items()]
        engines[name] = partial(run, **given)

    def restore() -> None:
        for array, source in stale:
            array[...] = source

    error = max((difference(made[0], other) for other in made[1:]), default=None)
    with functions.telling(function.name):
        told = _told(options, ready, measured(engines, seconds, restore), error)
    if launches is not None:
        module, arrays = functions.one_graph(function, options)
        with Progress("measuring launches"):
            times = profile(module, options, {}, arrays)
            told["launches"] = _longest([(1, launch) for launch in times], launches)
    return told


def _row(ready: float, taken: list[float]) -> dict[str, Any]:
    return {
        "ready_s": ready,
        "min_ms": min(taken) * 1e3,
        "median_ms": median(taken) * 1e3,
        "runs": len(taken),
    }


def _onnxruntime(model: str, feed: dict[str, Array], threads: int) -> Run:
    onnxruntime = functions.installed("onnxruntime")
    chosen = onnxruntime.SessionOptions()
    chosen.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model, chosen, providers=["CPUExecutionProvider"])
    return lambda: list(session.run(None, feed))


def _launches(
    model: str, session: InferenceSession, feed: dict[str, Array], count: int
) -> list[dict[str, Any]]:
    """The longest launches of all parts of a model that are compiled, for the sizes of its session.

    Of a model in several parts each is measured on the values that reach it, by the ops' own
    definitions, and each round of a loop is taken for as long as its first.
    """
    if is_program(model):
        text = "the launches of a compiled program are not measured one by one"
        raise UserError("MC0164", text, hint="name the model that it was compiled from")
    options = session.options
    checked = check_inputs(session.signature, feed, options.memory_limit, session.facts.elements())
    bound = bool(options.sizes) or session.is_bound(checked)
    shapes = {name: a.shape for name, a in feed.items()} if bound else {}
    units = open_source(model, shapes, options.replace(sizes={})).units
    values = list(checked.values())
    found: list[tuple[int, LaunchTime]] = []

    def met(unit: Unit, inputs: list[Array], outputs: list[Array]) -> None:
        if not unit.host:
            module = unit.module if bound else units.known[unit.number - 1].module
            times = profile(
                module, options, unit.binding, inputs, start=unit.start, sizes=unit.sizes
            )
            found.extend((unit.number, launch) for launch in times)

    if units.several:
        run_units(units, values, options, met)
    else:
        met(units.known[0], [np.require(a, requirements="C") for a in values], [])
    return _longest(found, count)


def _longest(found: Sequence[tuple[int, LaunchTime]], count: int) -> list[dict[str, Any]]:
    """What is told of the longest launches, each with the number of its part."""
    total = sum(launch.seconds for _, launch in found)
    longest = sorted(found, key=lambda pair: -pair[1].seconds)[:count]
    return [
        {
            "part": part,
            "kernel": launch.kernel,
            "us": launch.seconds * 1e6,
            "share": launch.seconds / total,
            "points_per_ns": launch.work / launch.seconds / 1e9,
            "sources": list(launch.sources),
        }
        for part, launch in longest
    ]


def _show(told: dict[str, Any]) -> None:
    rows = []
    for name, row in told["engines"].items():
        version = importlib.metadata.version("minicc" if name == _FREE else name)
        numbers = [f"{row['ready_s']:.2f}", f"{row['min_ms']:.4g}", f"{row['median_ms']:.4g}"]
        rows.append([name, version, *numbers, row["runs"]])
    show_table(("engine", "version", "ready s", "min ms", "median ms", "runs"), rows)
    click.echo(counted(told["threads"], "thread"))
    if "difference" in told:
        click.echo(f"largest difference {told['difference']:.1e} of the largest output")
    if "launches" in told:
        show_table(_COLUMNS, map(_launch_cells, told["launches"]))


def _launch_cells(row: dict[str, Any]) -> list[object]:
    numbers = [f"{row['us']:.1f}", f"{row['share']:.1%}", f"{row['points_per_ns']:.1f}"]
    return [row["part"], row["kernel"], *numbers, ", ".join(row["sources"][:4])]
