"""`minicc bench`: how long a model takes to be ready and to run, and each of its launches.

Engines take turns, round by round, so that what else the machine does falls on all of them.

Mirrors: trtexec, iree-benchmark-module, onnxruntime_perf_test, polygraphy run.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from minicc.cli.inputs import bound_session, complete_inputs, parse_inputs, parse_shapes
from minicc.errors import UserError
from minicc.ir.arrays import Array
from minicc.options import Options
from minicc.profile import profile
from minicc.session import InferenceSession
from minicc.target import TARGETS

Run = Callable[[], list[Any]]
_PEERS = ("onnxruntime",)
_FREE = "minicc, free sizes"


@click.command("bench")
@click.argument("model", type=click.Path(dir_okay=False))
@click.option("--against", type=click.Choice(_PEERS), help="measure that engine, too")
@click.option("--input", "inputs", multiple=True, metavar="X=@x.npy", help="as `minicc run` has it")
@click.option("--shape", "shapes", multiple=True, metavar="X=1x3x224x224", help="sizes of an input")
@click.option("--threads", type=click.IntRange(1), help="threads of a run; default: all cores")
@click.option("--seconds", type=click.FloatRange(0.01), default=2.0, help="for each engine")
@click.option("--profile", "launches", type=click.IntRange(1), help="tell of so many launches")
@click.option("--math", type=click.Choice(["fast", "strict"]), help="fast may reassociate")
@click.option("--target", type=click.Choice([*TARGETS]), help="default: the host's best")
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
def bench_command(
    model: str,
    against: str | None,
    inputs: tuple[str, ...],
    shapes: tuple[str, ...],
    threads: int | None,
    seconds: float,
    launches: int | None,
    math: str | None,
    target: str | None,
    as_json: bool,
) -> None:
    """Measure runs of MODEL, beside another engine's if asked."""
    options = Options(threads=threads, math=math, target=target)
    began = time.perf_counter()
    bound = parse_shapes(shapes)
    session = bound_session(model, options, bound)
    feed = complete_inputs(session.signature, parse_inputs(inputs), bound, options.memory_limit)
    want = session.run(None, feed)
    engines: dict[str, Run] = {"minicc": lambda: session.run(None, feed)}
    ready = {"minicc": time.perf_counter() - began}
    if session.options.sizes:  # what it gains that they are bound
        began = time.perf_counter()
        free = InferenceSession(model, options=options)
        free.run(None, feed)
        engines[_FREE] = lambda: free.run(None, feed)
        ready[_FREE] = time.perf_counter() - began
    error: float | None = None
    if against is not None:
        began = time.perf_counter()
        engines[against] = _onnxruntime(model, feed, options.threads)
        error = _difference(want, engines[against]())
        ready[against] = time.perf_counter() - began
    times = _measure(engines, seconds, quiet=as_json)
    told: dict[str, Any] = {
        "threads": options.threads,
        "engines": {
            name: {
                "ready_s": ready[name],
                "min_ms": min(taken) * 1e3,
                "median_ms": median(taken) * 1e3,
                "runs": len(taken),
            }
            for name, taken in times.items()
        },
    }
    if error is not None:
        told["difference"] = error
    if launches is not None:
        told["launches"] = _launches(session, feed, launches)
    if as_json:
        click.echo(json.dumps(told))
    else:
        _show(told)


def _onnxruntime(model: str, feed: dict[str, Array], threads: int) -> Run:
    try:
        onnxruntime = importlib.import_module("onnxruntime")
    except ImportError:
        raise UserError(
            "MC0157", "onnxruntime is not installed here", hint="pip install onnxruntime"
        ) from None
    chosen = onnxruntime.SessionOptions()
    chosen.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model, chosen, providers=["CPUExecutionProvider"])
    return lambda: list(session.run(None, feed))


def _difference(got: list[Array], want: list[Any]) -> float:
    """The largest difference of an output, of its largest value."""
    worst = 0.0
    for g, w in zip(got, want, strict=True):
        if np.asarray(g).dtype.kind in "fiub" and np.size(g):
            a, b = np.asarray(g, np.float64), np.asarray(w, np.float64)
            scale = float(np.max(np.abs(b))) or 1.0
            worst = max(worst, float(np.max(np.abs(a - b))) / scale)
    return worst


def _measure(engines: dict[str, Run], seconds: float, quiet: bool) -> dict[str, list[float]]:
    """Seconds of each run by engine, in turns of about a twentieth of the time."""
    times: dict[str, list[float]] = {name: [] for name in engines}
    turns = 20
    with Progress(disable=quiet, transient=True, console=Console(stderr=True)) as progress:
        for _ in progress.track(range(turns), description="runs"):
            for name, run in engines.items():
                end = time.perf_counter() + seconds / turns
                while True:
                    began = time.perf_counter()
                    run()
                    now = time.perf_counter()
                    times[name].append(now - began)
                    if now >= end:
                        break
    return times


def _launches(session: InferenceSession, feed: dict[str, Array], count: int) -> list[Any]:
    arrays = [np.ascontiguousarray(feed[a.hint]) for a in session.module.main.args]
    binding = session.binding(feed)
    found = profile(session.module, session.options, binding, arrays)
    total = sum(launch.seconds for launch in found)
    longest = sorted(found, key=lambda launch: -launch.seconds)[:count]
    return [
        {
            "kernel": launch.kernel,
            "us": launch.seconds * 1e6,
            "share": launch.seconds / total,
            "points_per_ns": launch.work / launch.seconds / 1e9,
            "sources": list(launch.sources),
        }
        for launch in longest
    ]


def _show(told: dict[str, Any]) -> None:
    table = Table("engine", "version", "ready s", "min ms", "median ms", "runs", box=None)
    for name, row in told["engines"].items():
        numbers = [f"{row['ready_s']:.2f}", f"{row['min_ms']:.4g}", f"{row['median_ms']:.4g}"]
        version = importlib.metadata.version("minicc" if name == _FREE else name)
        table.add_row(name, version, *numbers, str(row["runs"]))
    console = Console()
    console.print(table)
    click.echo(f"{told['threads']} threads")
    if "difference" in told:
        click.echo(f"largest difference {told['difference']:.1e} of the largest output")
    if "launches" in told:
        launches = Table("kernel", "us", "share", "points/ns", "computes", box=None)
        for row in told["launches"]:
            cells = [f"{row['us']:.1f}", f"{row['share']:.1%}", f"{row['points_per_ns']:.1f}"]
            launches.add_row(escape(row["kernel"]), *cells, escape(", ".join(row["sources"][:4])))
        console.print(launches)
