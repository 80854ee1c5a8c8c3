"""`minicc run`: compile an ONNX model or open a program, run it once, and tell of its outputs."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import numpy as np

from minicc.cli.choices import JSON, SHAPE, THREADS, code_options
from minicc.cli.expected import check_expected
from minicc.cli.inputs import is_function, opened, parse_inputs, parse_shapes
from minicc.cli.progress import Progress
from minicc.errors import UserError
from minicc.ir.arrays import Array
from minicc.later import Later
from minicc.limits import Limits
from minicc.options import Options
from minicc.wording import counted

if TYPE_CHECKING:
    from minicc.cli import functions, tables
    from minicc.compile import observe
else:
    functions = Later("minicc.cli.functions")
    tables = Later("minicc.cli.tables")
    observe = Later("minicc.compile.observe")


@click.command("run")
@click.argument("model", type=click.Path(dir_okay=False))
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="X=@x.npy",
    help="x=@x.npy, x=f32[1,3,4]=0.5, or x=random",
)
@SHAPE
@THREADS
@code_options
@click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=N",
    help=f"the most of what a model has and compiling takes: {', '.join(Limits._fields)}",
)
@click.option(
    "--outputs",
    "chosen",
    multiple=True,
    metavar="A,B",
    help="only these: outputs, or any tensors by name",
)
@click.option("--save", metavar="OUT.npz", help="write the outputs")
@click.option(
    "--expected",
    multiple=True,
    metavar="Y=@y.npy",
    help="compare an output; exit status 1 where it differs",
)
@click.option("--rtol", type=click.FloatRange(0), default=1e-4, help="of the expected value")
@click.option("--atol", type=click.FloatRange(0), default=1e-5, help="absolute, added to that")
@JSON
def run_command(
    model: str,
    inputs: tuple[str, ...],
    shapes: tuple[str, ...],
    threads: int | None,
    limits: tuple[str, ...],
    chosen: tuple[str, ...],
    save: str | None,
    expected: tuple[str, ...],
    rtol: float,
    atol: float,
    as_json: bool,
    **code: Any,
) -> None:
    """Compile MODEL, run it once, and show its outputs. Inputs not given are random.

    MODEL may also be a Python function, named as FILE.py:FUNCTION, whose arguments --input gives;
    numbers as `n=3`. Arrays that it writes to are shown with its result.
    """
    wanted = parse_inputs(expected, "--expected")
    options = Options(threads=threads, limits=",".join(limits) or None, **code)
    bound = parse_shapes(shapes)
    names = [n for part in chosen for n in part.split(",")]
    if is_function(model):
        named, report, ready, taken = _run_function(model, inputs, bound, names, options)
    else:
        named, report, ready, taken = _run_model(model, inputs, bound, names, options)
    if save:
        observe.write_arrays(Path(save), named)
    comparison = check_expected(named, wanted, rtol, atol)
    if as_json:
        rows = {name: describe(a) for name, a in named.items()}
        told = {"outputs": rows, "ready_s": ready, "run_s": taken, "threads": options.threads}
        if wanted:
            told["expected"] = {row.name: row._asdict() for row in comparison}
        click.echo(json.dumps(told, allow_nan=False))
    else:
        _show(named)
        click.echo(report)
        click.echo(
            f"ready after {ready * 1e3:.0f} ms, then {taken * 1e3:.3f} ms a run "
            f"with {counted(options.threads, 'thread')}"
        )
        for row in comparison:
            click.echo(str(row))
    if not all(row.agrees for row in comparison):
        sys.exit(1)


class _Ran(NamedTuple):
    """Outputs by name, what is told of the program, and seconds to the first run and of another."""

    named: dict[str, Array]
    report: object
    ready: float
    taken: float


def _run_model(
    model: str,
    inputs: tuple[str, ...],
    bound: dict[str, tuple[int, ...]],
    names: Sequence[str],
    options: Options,
) -> _Ran:
    began = time.perf_counter()
    with Progress(f"compiling {model}") as progress:
        session, feed = opened(model, options, inputs, bound, progress)
        names = names or [o.name for o in session.get_outputs()]
        session.run(names, feed)
    ready = time.perf_counter() - began
    began = time.perf_counter()
    outputs = session.run(names, feed)
    taken = time.perf_counter() - began
    return _Ran(dict(zip(names, outputs, strict=True)), session.report(), ready, taken)


def _run_function(
    path: str,
    inputs: tuple[str, ...],
    bound: dict[str, tuple[int, ...]],
    names: Sequence[str],
    options: Options,
) -> _Ran:
    function = functions.called(path, inputs, bound)
    compiled, arguments = function.jitted(options), function.copies()
    seconds: list[float] = []
    with Progress(f"compiling {path}"), functions.telling(function.name):
        for given in (function.copies(), arguments):
            began = time.perf_counter()
            result = compiled(**given)
            seconds.append(time.perf_counter() - began)
        told = compiled.explain(**function.copies())
    named = dict(functions.named_arrays("result", result))
    named.update(functions.written(function.arguments, arguments))
    if missing := [name for name in names if name not in named]:
        hint = f"outputs: {', '.join(named)}"
        raise UserError("MC0107", f"no output is called {missing[0]!r}", hint=hint)
    return _Ran({n: named[n] for n in names or named}, told, *seconds)


def describe(a: Array) -> dict[str, Any]:
    """What is told of an output: dtype, shape, range, NaNs, and the first values.

    JSON has no infinities and no NaN; these are strings.
    """
    wide = a.astype(np.float64)
    valid = wide[~np.isnan(wide)]
    with np.errstate(invalid="ignore"):  # the mean of both infinities
        numbers = {k: _plain(getattr(valid, k)()) for k in ("min", "mean", "max") if valid.size}
    return {
        "dtype": str(a.dtype),
        "shape": list(a.shape),
        **dict.fromkeys(("min", "mean", "max")),
        **numbers,
        "nan": int(a.size - valid.size),
        "first": [_plain(v) for v in a.reshape(-1)[:4]],
    }


def _plain(value: Any) -> float | int | str:
    """A number as JSON and people have it."""
    if isinstance(value, np.bool_ | np.integer):
        return int(value)
    number = float(value)
    return number if np.isfinite(number) else str(number)


def _spelled(value: float | int | str | None, digits: int) -> str:
    if value is None:
        return "-"
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def _show(named: dict[str, Array]) -> None:
    rows = []
    for name, a in named.items():
        d = describe(a)
        numbers = [_spelled(d[k], 6) for k in ("min", "mean", "max")]
        first = ", ".join(_spelled(v, 4) for v in d["first"])
        rows.append([name, f"{d['dtype']}{d['shape']}", *numbers, d["nan"], first])
    tables.show_table(("output", "type", "min", "mean", "max", "NaN", "first values"), rows)
