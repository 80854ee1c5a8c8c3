"""Compiled programs on the command line: write one, tell of one, verify one.

Mirrors: iree-compile's .vmfb files with iree-dump-module, ExecuTorch's .pte files with their
inspector, trtexec's --saveEngine and --loadEngine.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from minicc.cli.inputs import bind_shapes, random_input
from minicc.compiled import build, facts_of
from minicc.compiler import STAGES, require_bound
from minicc.errors import MiniccError, UnsupportedError, UserError
from minicc.frontends.onnx.importer import import_graph
from minicc.frontends.onnx.reader import read_model
from minicc.inputs import signature_of
from minicc.ir import interpret
from minicc.ir.core import Array, Literal, Module
from minicc.ir.parser import parse_module
from minicc.ir.printer import print_module
from minicc.ir.types import TensorType
from minicc.ir.verify import verify
from minicc.observe import write_beside
from minicc.options import Options
from minicc.partition import host_ops
from minicc.parts import what_data_decide
from minicc.passes.graph.specialise import specialise
from minicc.runtime.execute import NativeExecutable
from minicc.runtime.programs import open_program
from minicc.runtime.saved import Host, Saved, Segment, save
from minicc.units import Unit, Units

_LIMIT = 1 << 62


def write_program(
    model: str, path: Path, shapes: Mapping[str, tuple[int, ...]], options: Options
) -> None:
    """Compile a model to a file, for all sizes of dimensions that no shape binds.

    UserError where one has no size, and ops run on the host.

    UnsupportedError where data decide what is compiled.
    """
    read = read_model(model)
    binding = bind_shapes(read.inputs, dict(shapes))
    try:
        module = specialise(import_graph(read, binding), binding)
    except MiniccError as error:
        decided = "; ".join(what_data_decide(error))
        hint = "give the sizes of all inputs: --shape x=1x3x8x8; `minicc run` runs it as it is"
        raise UnsupportedError(
            "MC0228", f"data decide in this model: {decided}", hint=hint
        ) from None
    if host_ops(module):
        require_bound(module)
    made = build(module, options, {})
    facts = made.facts(facts_of(signature_of(module.main), read.outputs, module, options), binding)
    facts = facts._replace(seconds={})  # which make one file of a model differ from the next
    texts = [print_module(program) for program in made.programs]

    def write(file: IO[bytes]) -> None:
        save(file, made.built, facts, options.machine.name, {}, texts)

    write_beside(path, write)


def described(saved: Saved) -> dict[str, Any]:
    """What a program takes, gives and holds."""
    facts, built = saved.facts, saved.built
    steps = () if built is None else built.steps
    layouts = [step.layout for step in steps if isinstance(step, Segment)]
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
        "code_bytes": sum(len(s.image.code) for s in steps if isinstance(s, Segment)),
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
    layouts = [step.layout for step in built.steps if isinstance(step, Segment)]
    arrays = {Literal(a).digest: a for layout in layouts for a in layout.constants}
    modules = [parse_module(t, arrays, source=saved.container.name) for t in texts]
    for module in modules:
        verify(module)
    return modules


def units_of_program(path: str) -> tuple[str, Units]:
    """The segments of a program as what is left to show of them: after the last stage."""
    modules = modules_of(open_program(path))
    units = (Unit(number, module, {}, (), ()) for number, module in enumerate(modules, 1))
    return STAGES[-1].name, Units(tuple(units))


def verify_program(path: str, threads: tuple[int, ...]) -> list[tuple[str, list[Array], list[Any]]]:
    """For each segment what its text means for random inputs, and what its machine code gives.

    Each row is a label, what the interpreter gives, and what so many threads give. The constants
    are compared with their digest before.
    """
    saved = open_program(path)
    saved.container.check()
    built = saved.built
    rows: list[tuple[str, list[Array], list[Any]]] = []
    for number, module in enumerate(modules_of(saved), 1):
        assert built is not None
        segment = [s for s in built.steps if not isinstance(s, Host)][number - 1]
        layout = segment.layout
        if layout.sizes:
            text = f"its dimensions {', '.join(layout.sizes)} are free"
            raise UserError("MC0104", text, hint="verify the model it was compiled from: --shape")
        types = [TensorType(t.dtype, t.shape) for t in layout.inputs]
        arrays = [random_input(t, {}, k, _LIMIT) for k, t in enumerate(types)]
        given = [np.ascontiguousarray(a) for a in arrays]
        want = interpret.run(module, given)
        got = [NativeExecutable(segment.image, layout, n).run(given) for n in threads]
        rows.append((f"segment {number}", want, got))
    return rows
