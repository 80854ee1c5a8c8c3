"""`minicc verify`: run a model at every level and as machine code, and compare.

The graph level is the reference: the ops' own meaning in NumPy. Each stage behind it is
interpreted as it stands, so the first stage that is wrong shows in its own row. A model in several
parts is run by that meaning, and each part that is compiled is compared on the values that reach
it, so that no part is blamed for what another did.

Mirrors: XLA's run_hlo_module against its interpreter, polygraphy run with every tensor marked.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from minicc.cli.inputs import (
    bind_shapes,
    complete_inputs,
    parse_inputs,
    parse_shapes,
)
from minicc.cli.programs import verify_program
from minicc.cli.stages import stages_of
from minicc.compiled import compile_module
from minicc.compiler import Stage, lower
from minicc.frontends.onnx.importer import import_graph
from minicc.frontends.onnx.reader import read_model
from minicc.inputs import check_inputs
from minicc.ir import interpret
from minicc.ir.core import Array, Module
from minicc.ir.verify import verify
from minicc.node_args import elements_of
from minicc.options import Options
from minicc.runtime.programs import is_program
from minicc.units import Unit, run_units, units_of

# what reassociating sums and approximating functions may change, of the largest output
_TOLERANCE = 1e-4
_THREADS = (1, 2)


def difference(got: list[Array], want: list[Array]) -> float:
    """The largest difference of any output, relative to that output's largest value.

    Inf where shapes differ.
    """
    worst = 0.0
    for g, w in zip(got, want, strict=True):
        if g.shape != w.shape:
            return float("inf")
        if g.size:
            a, b = g.astype(np.float64), w.astype(np.float64)
            same = (a == b) | (np.isnan(a) & np.isnan(b))
            scale = np.max(np.abs(b[np.isfinite(b)]), initial=0.0)
            off = np.where(same, 0.0, np.abs(a - b))
            worst = max(worst, float(np.nan_to_num(np.max(off), nan=np.inf) / (scale or 1.0)))
    return worst


@click.command("verify")
@click.argument("model", type=click.Path(dir_okay=False))
@click.option(
    "--input", "inputs", multiple=True, metavar="X=@x.npy", help="x=@x.npy or x=f32[1,3]=0.5"
)
@click.option("--shape", "shapes", multiple=True, metavar="X=1x3x224x224", help="sizes of an input")
@click.option("--math", type=click.Choice(["fast", "strict"]), help="fast may reassociate")
@click.option(
    "--stage",
    "chosen",
    multiple=True,
    callback=stages_of,
    metavar="STAGE",
    help="only behind these stages",
)
def verify_command(
    model: str,
    inputs: tuple[str, ...],
    shapes: tuple[str, ...],
    math: str | None,
    chosen: tuple[str, ...],
) -> None:
    """Interpret MODEL behind every stage, run its machine code at 1 and 2 threads.

    And compare all; of a model in several parts, each part that is compiled.
    """
    if is_program(model):
        _verify_program(model)
        return
    given = parse_inputs(inputs)
    sizes = {n: a.shape for n, a in given.items()} | parse_shapes(shapes)
    read = read_model(model)
    binding = bind_shapes(read.inputs, sizes)
    options = Options(math=math)
    units = units_of(import_graph(read, binding), options, binding)
    rows = _Comparison(options, chosen, units.several)
    limit = options.memory_limit
    feed = complete_inputs(read.inputs, given, sizes, limit)
    checked = check_inputs(read.inputs, feed, limit, elements_of(read.declared))
    run_units(units, list(checked.values()), options, rows)
    if not rows.compared:
        click.echo("no part of this model is compiled: there is nothing to compare")
    if not rows.good:
        click.echo("a stage or the machine code differs by more than its class allows", err=True)
        sys.exit(1)


def _verify_program(path: str) -> None:
    """Compare a program's machine code with its text, as the interpreter reads it."""
    good = True
    table = Table("segment", "threads", "difference", box=None)
    for label, want, results in verify_program(path, _THREADS):
        for threads, got in zip(_THREADS, results, strict=True):
            off = difference(got, want)
            table.add_row(label, str(threads), f"{off:.1e}")
            good &= off <= _TOLERANCE
        good &= len({b"".join(a.tobytes() for a in got) for got in results}) == 1
    Console().print(table)
    click.echo("the constants are as they were written")
    if not good:
        click.echo("the machine code differs from its text by more than it may", err=True)
        sys.exit(1)


class _Comparison:
    """Compares units as they are met, and prints a table of each; `good` while all agree."""

    def __init__(self, options: Options, chosen: Sequence[str], titled: bool) -> None:
        self._options = options
        self._chosen = chosen
        self._titled = titled
        self.good = True
        self.compared = 0

    def __call__(self, unit: Unit, inputs: list[Array], want: list[Array]) -> None:
        """Compare a unit's stages and machine code with what its ops mean for these inputs."""
        if self._titled:
            click.echo("\n".join(unit.head()))
        if unit.host:
            return
        self.compared += 1
        modules: list[tuple[str, str, Module]] = []

        def keep(stage: Stage, before: Module, after: Module, seconds: float) -> None:
            verify(after)
            if before is not after and (not self._chosen or stage.name in self._chosen):
                modules.append((stage.name, stage.level, after))

        lower(unit.module, self._options, unit.binding, observe=keep)
        self.good &= _compare(modules, unit, inputs, want, self._options)


def _compare(
    modules: list[tuple[str, str, Module]],
    unit: Unit,
    arrays: list[Array],
    want: list[Array],
    options: Options,
) -> bool:
    table = Table("behind", "level", "seconds", "difference", box=None)
    good = True
    for name, level, m in modules:
        began = time.perf_counter()
        off = difference(interpret.run(m, arrays), want)
        table.add_row(name, level, f"{time.perf_counter() - began:.2f}", f"{off:.1e}")
        good &= off <= _TOLERANCE
    results = []
    for threads in _THREADS:
        executable = compile_module(
            unit.module, options.replace(threads=threads), unit.binding
        ).executable
        began = time.perf_counter()
        got = executable.run(arrays)
        off = difference(got, want)
        label = f"machine code, {threads} thread{'s' if threads > 1 else ''}"
        table.add_row(
            label, options.machine.name, f"{time.perf_counter() - began:.4f}", f"{off:.1e}"
        )
        good &= off <= _TOLERANCE
        results.append(b"".join(a.tobytes() for a in got))
    same = results[0] == results[1]
    Console().print(table)
    click.echo(f"same bits at 1 and 2 threads: {'yes' if same else 'NO'}")
    return good and same
