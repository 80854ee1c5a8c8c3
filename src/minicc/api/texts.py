"""Texts of modules as what is compiled and run: `minicc run FILE.mcc`, `InferenceSession(path)`.

A file of any level stands after a stage, which its first line names; the stages after that one are
what is left to do. One that names none, as people write them, has only come to its level, or to
groups, or to their schedules, where it has some.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from minicc.api.inputs import signature_of
from minicc.compile.compiled import facts_of
from minicc.compile.compiler import STAGES, stage_named
from minicc.compile.observe import load_dump
from minicc.errors import UserError
from minicc.ir import affine, graph, structured
from minicc.ir.bind import bind_sizes
from minicc.ir.core import Function, Module, walk
from minicc.ir.graph.host import DEFINITIONS
from minicc.ir.program import ends
from minicc.ir.text.extents import symbol_of
from minicc.later import Later
from minicc.options import Options
from minicc.runtime.saved import Facts

if TYPE_CHECKING:
    from minicc.frontends.onnx.host import eager
else:
    eager = Later("minicc.frontends.onnx.host.eager")


class Text(NamedTuple):
    """A module, and the last stage that it has been through; None for a graph no stage has seen."""

    start: str | None
    module: Module

    def bound(self, sizes: Mapping[str, int]) -> Text:
        """The same with numbers for some free dimensions."""
        return Text(self.start, bind_sizes(self.module, sizes)) if sizes else self

    def facts(self, options: Options) -> Facts:
        """What is known of it as of a model; all its sizes are compiled in one program."""
        main = self.module.main
        _require_sizes(main)
        names = main.result_names or [v.hint for v in ends(main)[1]]
        known = facts_of(signature_of(main), names, self.module, options)
        return known._replace(wants=(), decisive=())


def _require_sizes(main: Function) -> None:
    """UserError MC0104 where inputs don't say a size: the ops around a part of a model did."""
    extents = [n for a in ends(main)[0] for n in a.type.shape]
    told = {name for n in extents if symbol_of(n) for name in affine.symbols(n)}
    bound = {name for op in walk(main.body) for name in graph.bound_by(op)}
    left = sorted({*main.attrs.get("sizes", ())} - told - bound)
    if left:
        text = f"no input says the size {', '.join(left)}, which the text's model computed"
        raise UserError("MC0104", text, hint=f"Options(sizes={{{left[0].lstrip('$')!r}: 1}})")


def open_text(path: str | PathLike[str]) -> Text:
    """The module in a file, and the last stage that it has been through.

    UserError where the file can't be read, or its first line does not fit the module.
    """
    start, module = load_dump(Path(path))
    if start is None and module.level != STAGES[0].level:
        groups = [op for op in walk(module.main.body) if isinstance(op, structured.Group)]
        first = next(s.name for s in STAGES if s.level == module.level)
        start = "fuse" if groups else first
        if any(group.schedule is not None for group in groups):
            start = "schedule"
    elif start is not None:
        level = stage_named(start, f"{path}:1").level
        if level != module.level:
            raise UserError(
                "MC0146",
                f"the stage {start} yields the level {level}, and the module is of {module.level}",
                where=f"{path}:1",
            )
    if any(isinstance(op, graph.Host) for op in walk(module.main.body)):
        DEFINITIONS.setdefault("onnx", eager.run_node)
    return Text(start, module)
