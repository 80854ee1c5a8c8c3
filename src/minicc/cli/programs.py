"""Compiled programs on the command line: write one, tell of one, verify one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from minicc.api.program_files import write_model
from minicc.cli.inputs import bind_shapes, random_input
from minicc.compile.compiler import STAGES
from minicc.compile.units import Unit, Units
from minicc.errors import UserError
from minicc.frontends.onnx.model.reader import read_model
from minicc.ir import interpret
from minicc.ir.bind import bind_sizes
from minicc.ir.core import Array, Literal, Module
from minicc.ir.text.parser import parse_module
from minicc.ir.types import TensorType
from minicc.ir.verify import verify
from minicc.options import Options
from minicc.runtime.execute import NativeExecutable
from minicc.runtime.programs import open_program
from minicc.runtime.saved import Saved

_LIMIT = 1 << 62
_SIZES = (40, 64, 7, 1)  # that free dimensions are given, the first that a program is for


def write_program(
    model: str, path: Path, shapes: Mapping[str, tuple[int, ...]], options: Options
) -> None:
    """Compile a model to a file, for all sizes of dimensions that no shape binds.

    UnsupportedError where nodes need to know sizes that have none.
    """
    read = read_model(model)
    binding = bind_shapes(read.inputs, dict(shapes))
    write_model(read, path, binding, options)


def described(saved: Saved) -> dict[str, Any]:
    """What a program takes, gives and holds."""
    facts, built = saved.facts, saved.built
    segments = [] if built is None else list(built.segments())
    layouts = [segment.layout for segment in segments]
    constants = {a.ctypes.data: a for layout in layouts for a in layout.constants}
    return {
        "inputs": {name: str(type) for name, type in facts.inputs},
        "outputs": {name: str(type) for name, type in facts.outputs},
        "free_dimensions": [s for s in facts.symbols if s not in facts.sizes],
        "sizes": dict(facts.sizes),
        "target": saved.container.target,
        "math": facts.math,
        "kernels": facts.kernels,
        "launches": facts.launches,
        "code_bytes": sum(len(s.image.code) for s in segments),
        "arena_bytes": sum(m.arena for m in layouts if isinstance(m.arena, int)),
        "constants": len(constants),
        "constant_bytes": sum(a.nbytes for a in constants.values()),
        "on_host": [on._asdict() for on in facts.host],
    }


def modules_of(saved: Saved) -> list[Module]:
    """The segments at the program level, verified; UserError where the file has no text of them."""
    texts, built = saved.texts(), saved.built
    if not texts or built is None:
        text = f"{saved.container.name} has no text of its program"
        raise UserError("MC0167", text, hint="write it with minicc compile MODEL -o FILE.mcp")
    layouts = [segment.layout for segment in built.segments()]
    arrays = {Literal(a).digest: a for layout in layouts for a in layout.constants}
    modules = [parse_module(t, arrays, source=saved.container.name) for t in texts]
    for module in modules:
        verify(module)
    return modules


def units_of_program(path: str) -> Units:
    """The segments of a program as what is left to show of them: after the last stage."""
    modules = modules_of(open_program(path))
    last = STAGES[-1].name
    units = (Unit(k, module, {}, (), (), start=last) for k, module in enumerate(modules, 1))
    return Units(tuple(units))


def verify_program(path: str, threads: tuple[int, ...]) -> list[tuple[str, list[Array], list[Any]]]:
    """For each segment what its text means for random inputs, and what its machine code gives.

    Each row is a label, what the interpreter gives, and what so many threads give. The constants
    are compared with their digest before.
    """
    saved = open_program(path)
    saved.container.check()
    built = saved.built
    assert built is not None
    rows: list[tuple[str, list[Array], list[Any]]] = []
    pairs = zip(modules_of(saved), built.segments(), strict=True)
    for number, (module, segment) in enumerate(pairs, 1):
        layout = segment.layout
        machines = [NativeExecutable(segment.image, layout, n) for n in threads]
        choices = (dict.fromkeys(layout.sizes, n) for n in _SIZES)
        sizes = next(filter(machines[0].may_fit, choices), None)
        if sizes is None:
            text = f"none of the sizes {_SIZES} fits its dimensions {', '.join(layout.sizes)}"
            raise UserError("MC0104", text, hint="verify the model it was compiled from: --shape")
        types = [TensorType(t.dtype, t.shape) for t in layout.inputs]
        arrays = [random_input(t, sizes, k, _LIMIT) for k, t in enumerate(types)]
        given = [np.ascontiguousarray(a) for a in arrays]
        want = interpret.run(bind_sizes(module, sizes), given)
        got = [machine.run(given, sizes) for machine in machines]
        rows.append((f"segment {number}", want, got))
    return rows
