"""`minicc verify`: run a model at every level and as machine code, and compare.

The graph level is the reference, the ops' own meaning in NumPy, or the level of a text. Each stage
after it is interpreted as it stands, so the first stage that is wrong shows in its own row. A model
in several parts is run by that meaning, and each part that is compiled is compared on the values
that reach it, so that no part is blamed for what another did.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import click
import numpy as np

from minicc.api.inputs import check_inputs
from minicc.cli.choices import JSON, MATH, SHAPE, SKIP, TARGET
from minicc.cli.functions import called, one_graph
from minicc.cli.inputs import complete_inputs, is_function, parse_inputs, parse_shapes
from minicc.cli.measuring import difference
from minicc.cli.programs import verify_program
from minicc.cli.progress import Progress
from minicc.cli.sources import open_source
from minicc.cli.stages import stages_of
from minicc.cli.tables import show_table
from minicc.compile.compiled import compile_module
from minicc.compile.compiler import Stage, lower
from minicc.compile.units import Unit, Units, run_units, units_of
from minicc.ir import interpret
from minicc.ir.core import Array, Module, Value
from minicc.ir.program import ends
from minicc.ir.verify import verify
from minicc.options import Options
from minicc.runtime.programs import is_program
from minicc.wording import counted

# what reassociating sums and approximating functions may change, of the largest output
_TOLERANCE = 1e-4
_THREADS = (1, 2)
_STOPPED = 130  # the exit status of what Ctrl-C ends


@click.command("verify")
@click.argument("model", type=click.Path(dir_okay=False))
@click.option(
    "--input", "inputs", multiple=True, metavar="X=@x.npy", help="x=@x.npy or x=f32[1,3]=0.5"
)
@SHAPE
@MATH
@TARGET
@SKIP
@click.option(
    "--stage",
    "chosen",
    multiple=True,
    callback=stages_of,
    metavar="STAGE",
    help="only after these stages",
)
@JSON
def verify_command(
    model: str,
    inputs: tuple[str, ...],
    shapes: tuple[str, ...],
    chosen: tuple[str, ...],
    as_json: bool,
    **code: Any,
) -> None:
    """Interpret MODEL after every stage, run its machine code at 1 and 2 threads, and compare.

    MODEL may also be a Python function of one graph, named as FILE.py:FUNCTION. Of a model in
    several parts, each part that is compiled. Ctrl-C ends it with what was found.
    Exit status 0: all agree, 1: something differs, 130: stopped.
    """
    with Progress(f"reading {model}") as progress:
        if is_program(model):
            _verify_program(model, as_json, progress)
            return
        options = Options(**code)
        if is_function(model):
            module, arrays = one_graph(called(model, inputs, parse_shapes(shapes)), options)
            units = units_of(module, options, {})
        else:
            units, arrays = _model(model, inputs, shapes, options, progress)
        native = sum(not unit.host for unit in units.known)
        rows = _Comparison(options, chosen, units.several, native, as_json, progress)
        stopped = False
        try:
            run_units(units, arrays, options, rows)
        except KeyboardInterrupt:
            stopped = True
    rows.finish(stopped)


def _model(
    path: str,
    inputs: tuple[str, ...],
    shapes: tuple[str, ...],
    options: Options,
    progress: Progress,
) -> tuple[Units, list[Array]]:
    """The units of a model or text, and the arrays that it takes."""
    given = parse_inputs(inputs)
    sizes = {n: a.shape for n, a in given.items()} | parse_shapes(shapes)
    units, signature, elements = open_source(path, sizes, options)
    with progress.aside():
        feed = complete_inputs(signature, given, sizes, options.memory_limit)
    return units, list(check_inputs(signature, feed, options.memory_limit, elements).values())


def _verify_program(path: str, as_json: bool, progress: Progress) -> None:
    """Compare a program's machine code with its text, as the interpreter reads it."""
    good = True
    rows: list[dict[str, Any]] = []
    progress.at(f"verifying {path}")
    for label, want, results in verify_program(path, _THREADS):
        for threads, got in zip(_THREADS, results, strict=True):
            off = difference(got, want)
            rows.append({"segment": label, "threads": threads, "difference": off})
            good &= off <= _TOLERANCE
        good &= len({b"".join(a.tobytes() for a in got) for got in results}) == 1
    with progress.aside():
        if as_json:
            click.echo(json.dumps({"segments": _finite(rows), "agrees": good}))
        else:
            shown = [(r["segment"], r["threads"], f"{r['difference']:.1e}") for r in rows]
            show_table(("segment", "threads", "difference"), shown)
            click.echo("the constants are as they were written")
    if not good:
        click.echo("the machine code differs from its text by more than it may", err=True)
        sys.exit(1)


def _finite(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows as JSON has them: a difference that is infinite, as of other shapes, is a string."""
    return [
        {k: str(v) if isinstance(v, float) and not np.isfinite(v) else v for k, v in row.items()}
        for row in rows
    ]


def _apart(array: Array, taken: Value) -> Array:
    """An array as a module takes it, which may take complex numbers apart."""
    if array.dtype.kind != "c" or taken.type.dtype.is_complex:
        return array
    return np.require(array, requirements="C")[..., None].view(array.real.dtype)


def _together(made: Array, want: Array) -> Array:
    """What a module gives as its graph says: complex numbers, where it gives their parts."""
    if want.dtype.kind != "c" or made.dtype.kind == "c":
        return made
    return np.require(made, requirements="C").view(want.dtype)[..., 0]


@dataclass
class _Comparison:
    """Compares units as they are met, and prints a table of each; `good` while all agree."""

    _options: Options
    _chosen: Sequence[str]
    _titled: bool
    _native: int
    _as_json: bool
    _progress: Progress
    _parts: list[dict[str, Any]] = field(default_factory=list)
    good: bool = True
    compared: int = 0

    def __call__(self, unit: Unit, inputs: list[Array], want: list[Array]) -> None:
        """Compare a unit's stages and machine code with what its ops mean for these inputs."""
        part: dict[str, Any] = {"part": unit.number, "host": bool(unit.host)}
        rows: list[dict[str, Any]] = []
        self._parts.append(part)
        try:
            if not unit.host:
                self._compare(unit, inputs, want, part, rows)
                self.compared += 1
        finally:
            # what was found so far, also where it is stopped
            part["rows"] = _finite(rows)
            if not self._as_json:
                with self._progress.aside():
                    self._show(unit, part, rows)

    def _compare(
        self,
        unit: Unit,
        arrays: list[Array],
        want: list[Array],
        part: dict[str, Any],
        rows: list[dict[str, Any]],
    ) -> None:
        modules: list[tuple[str, str, Module]] = []
        name = f"part {unit.number} of {self._native}" if self._titled else "verifying"

        def keep(stage: Stage, before: Module, after: Module, seconds: float) -> None:
            verify(after)
            if before is not after and (not self._chosen or stage.name in self._chosen):
                modules.append((stage.name, stage.level, after))

        def compared(after: str, level: str, began: float, got: list[Array]) -> None:
            seconds, off = time.perf_counter() - began, difference(got, want)
            row = {"after": after, "level": level, "seconds": seconds, "difference": off}
            rows.append(row)
            self.good &= off <= _TOLERANCE

        self._progress.at(f"{name}: lowering")
        lower(unit.module, self._options, unit.binding, start=unit.start, observe=keep)
        for k, (after, level, m) in enumerate(modules, 1):
            self._progress.at(f"{name}: interpreting after {after}, {k} of {len(modules)}")
            began = time.perf_counter()
            given = [_apart(a, v) for a, v in zip(arrays, ends(m.main)[0], strict=True)]
            made = interpret.run(m, given)
            compared(after, level, began, [*map(_together, made, want)])
        results = []
        for threads in _THREADS:
            self._progress.at(f"{name}: machine code")
            options = self._options.replace(threads=threads)
            compilation = compile_module(unit.module, options, unit.binding, start=unit.start)
            executable = compilation.executable
            label = f"machine code, {counted(threads, 'thread')}"
            began = time.perf_counter()
            got = executable.run(arrays)
            compared(label, options.machine.name, began, got)
            results.append(b"".join(a.tobytes() for a in got))
        part["same_bits"] = results[0] == results[1]
        self.good &= part["same_bits"]

    def _show(self, unit: Unit, part: dict[str, Any], rows: list[dict[str, Any]]) -> None:
        if self._titled:
            click.echo("\n".join(unit.head()))
        if unit.host:
            return
        cells = [
            (r["after"], r["level"], f"{r['seconds']:.4f}", f"{r['difference']:.1e}") for r in rows
        ]
        show_table(("after", "level", "seconds", "difference"), cells)
        if "same_bits" in part:
            click.echo(f"same bits at 1 and 2 threads: {'yes' if part['same_bits'] else 'NO'}")

    def finish(self, stopped: bool) -> None:
        """Say what all parts come to, and end with the status that the command documents."""
        if self._as_json:
            told = {"parts": self._parts, "agrees": self.good, "stopped": stopped}
            click.echo(json.dumps(told))
        elif not self._native:
            click.echo("no part of this model is compiled: there is nothing to compare")
        if stopped:
            so_far = "all that was compared agrees" if self.good else "something differs"
            done = f"{self.compared} of {counted(self._native, 'part')}"
            click.echo(f"stopped: {done} compared to the end, {so_far}", err=True)
        if not self.good:
            click.echo(
                "a stage or the machine code differs by more than its class allows", err=True
            )
        if stopped or not self.good:
            sys.exit(1 if not self.good else _STOPPED)
