"""What `minicc compile` prints and writes of the units of a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from minicc.backends.llvm.compile import assemble, emit
from minicc.backends.llvm.emit import emit_kernel
from minicc.backends.llvm.optimize import optimise
from minicc.cli.dot import dot_of, svg_of
from minicc.cli.progress import Progress
from minicc.cli.tables import show_table
from minicc.compile.compiler import STAGES, given_by, lower, stage_names
from minicc.compile.observe import Observer, headed, make_folder, write_beside, write_text
from minicc.compile.units import Unit
from minicc.ir.core import Module
from minicc.ir.text.printer import print_module
from minicc.options import Options
from minicc.passes.graph.applications import Applications
from minicc.records import record_of
from minicc.runtime.programs import SUFFIX

MACHINE = ("llvm", "asm", "obj")
DOT = "dot"
_COMMENT = {"llvm": ";", "asm": "#"}


class Asked(NamedTuple):
    """The options of `minicc compile`."""

    model: str
    shapes: tuple[str, ...]
    inputs: tuple[str, ...]
    part: int | None
    stop: str | None
    form: str | None
    output: str | None
    dump: str | None
    print_after: str | None
    listed: bool
    apply_first: int | None
    report: bool
    time_stages: bool
    check: bool
    planned: bool
    fusion: bool
    code: dict[str, Any]

    @property
    def whole(self) -> Path | None:
        """The file that the whole program is written to."""
        named = self.output is not None and self.output.endswith(SUFFIX) and self.form is None
        return Path(self.output) if named and self.output is not None else None

    @property
    def shows(self) -> bool:
        """Whether anything is asked for that is shown or written of single stages."""
        asked = (self.part, self.stop, self.dump, self.print_after, self.listed, self.report)
        further = self.apply_first is not None or self.time_stages or self.check
        return any(asked) or further or self.planned or self.fusion

    @property
    def prints(self) -> bool:
        """Whether the module or its code at the end is printed."""
        if self.output is not None:
            return False
        others = self.print_after or self.dump or self.time_stages or self.listed
        return self.form is not None or not others


class Span(NamedTuple):
    """How many stages a module has been through at first, and at last."""

    first: int
    last: int


class Show:
    """Runs the stages on units, one after the other, and shows what was asked for.

    `titled` units are headed by what they are. Of several, files have their numbers in their names.
    """

    def __init__(
        self, units: Sequence[Unit], asked: Asked, options: Options, span: Span, titled: bool
    ) -> None:
        self._units = units
        self._asked = asked
        self._options = options
        self._span = span
        self._titled = titled
        self._last = STAGES[span.last - 1]
        self._applications = Applications(asked.apply_first)
        self._given = given_by(options)
        self._seconds: dict[str, float] = {}
        self._written: list[Path] = []
        self._progress = Progress(f"compiling {asked.model}")

    def run(self) -> None:
        """Show all units; of several, the files that were written are named at the end."""
        with self._progress:
            self._run()

    def _say(self, text: str, *, nl: bool = True, err: bool = False) -> None:
        with self._progress.aside():
            click.echo(text, nl=nl, err=err)

    def _run(self) -> None:
        asked = self._asked
        for unit in self._units:
            if self._titled and (asked.prints or asked.print_after or asked.listed):
                self._say("\n" * (unit is not self._units[0]) + self._head(unit), nl=False)
            if unit.host:
                self._host(unit)
            else:
                self._module(unit, self._lowered(unit))
        if self._span.last >= stage_names().index("schedule") + 1:
            self._given.require_used()
        if asked.time_stages:
            with self._progress.aside():
                _show_times(self._seconds)
        if len(self._units) > 1 and self._written:
            self._say(f"written: {', '.join(map(str, self._written))}", err=True)

    def _head(self, unit: Unit) -> str:
        return _comment(unit.head(), self._asked) if self._titled else ""

    def _place(self, path: str | None, unit: Unit, *, inside: bool) -> Path | None:
        """Where a unit is written: `path` itself where it is alone, else with the unit's number.

        That is a folder inside, or the number before the suffix.
        """
        if path is None:
            return None
        place = Path(path)
        if len(self._units) > 1:
            number = f"{unit.number:0{len(str(self._units[-1].number))}d}"
            stem = f"{place.stem}.{number}"
            place = place / f"part-{number}" if inside else place.with_stem(stem)
        return place

    def _output(self, unit: Unit) -> Path | None:
        """Where -o says that a unit is to be written."""
        place = self._place(self._asked.output, unit, inside=self._asked.form == "obj")
        if place is not None:
            self._written.append(place)
        return place

    def _dump(self, unit: Unit) -> Path | None:
        """The folder in which a unit is dumped."""
        folder = self._place(self._asked.dump, unit, inside=True)
        if folder is not None:
            self._written.append(folder)
        return folder

    def _host(self, unit: Unit) -> None:
        """A unit that no stage changes: its ops as they are, but for machine code nothing."""
        text = self._head(unit) + print_module(unit.module)
        if (folder := self._dump(unit)) is not None:
            make_folder(folder)
            write_text(folder / "host.mcc", text, unit.module)
        if self._asked.form in MACHINE:
            return
        if (output := self._output(unit)) is not None:
            write_text(output, text, unit.module)
        elif self._asked.prints:
            self._say(print_module(unit.module), nl=False)

    def _lowered(self, unit: Unit) -> Module:
        """A unit after the last stage, while each stage is shown."""
        asked, span = self._asked, self._span
        observer = Observer(
            self._say,
            asked.print_after,
            self._dump(unit),
            asked.check,
            span.first,
            unit.head() if self._titled else (),
        )
        if span.first == span.last:
            return unit.module
        known = len(self._applications.made)
        module = lower(
            unit.module,
            self._options,
            unit.binding,
            start=STAGES[span.first - 1].name if span.first else None,
            stop=self._last.name,
            observe=observer,
            applications=self._applications,
            given=self._given,
        )
        for name, taken in observer.seconds:
            self._seconds[name] = self._seconds.get(name, 0.0) + taken
        if asked.listed:
            self._say("".join(f"{a}\n" for a in self._applications.made[known:]), nl=False)
        return module

    def _module(self, unit: Unit, module: Module) -> None:
        """What is printed or written of a unit after the last stage."""
        form, output = self._asked.form or "", self._output(unit)
        if form == "obj":
            assert output is not None
            self._objects(module, output)
        elif output is not None and form == DOT:
            drawing = dot_of(module)
            write_beside(output, svg_of(drawing) if output.suffix == ".svg" else drawing.encode())
        elif output is not None and form in MACHINE:
            write_beside(output, (self._head(unit) + self._machine_text(module, form)).encode())
        elif output is not None:
            notes = unit.head() if self._titled else ()
            write_text(output, headed(self._last, module, notes), module)
        elif self._asked.prints:
            if form in MACHINE:
                text = self._machine_text(module, form)
            else:
                text = dot_of(module) if form == DOT else headed(self._last, module)
            self._say(text, nl=False)

    def _objects(self, module: Module, folder: Path) -> None:
        make_folder(folder)
        machine = self._options.machine
        for name, code in emit(module, machine, self._options.flushed).items():
            write_beside(folder / f"{name}.o", optimise(code, machine))

    def _machine_text(self, module: Module, form: str) -> str:
        make = emit if form == "llvm" else assemble
        texts = make(module, self._options.machine, self._options.flushed)
        mark = _COMMENT[form]
        head = "".join(f"{mark} {line}\n" for line in record_of(emit_kernel.__module__).lines())
        return head + "\n".join(f"{mark} {name}\n{text}" for name, text in texts.items())


def _comment(lines: Iterable[str], asked: Asked) -> str:
    mark = _COMMENT.get(asked.form or "", "//")
    return "".join(f"{mark} {line}\n" for line in lines)


def _show_times(seconds: dict[str, float]) -> None:
    total = sum(seconds.values())
    longest = sorted(seconds.items(), key=lambda p: -p[1])
    rows = [(n, f"{t * 1e3:.1f}", f"{t / max(total, 1e-9):.0%}") for n, t in longest]
    show_table(("stage", "ms", "share"), [*rows, ("all", f"{total * 1e3:.1f}", "")], err=True)
