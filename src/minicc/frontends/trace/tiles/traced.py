"""A kernel by hand that is called in a traced function: an op of the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from minicc.frontends.trace.dispatch import value_of
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.tiles.function import KernelFunction
from minicc.frontends.trace.tracer import Tracer
from minicc.ir import graph


def called(kernel: KernelFunction, arrays: Sequence[Any], constants: Mapping[str, Any]) -> Any:
    """The outputs of a kernel of which some inputs are traced."""
    recorder: Recorder = next(a.recorder for a in arrays if isinstance(a, Tracer))
    values = [value_of(recorder, a) for a in arrays]
    parts = kernel.parts([v.type for v in values], constants)
    made = [Tracer(recorder, v) for v in recorder.emit_all(graph.Kernel, values, **parts)]
    return made[0] if len(made) == 1 else tuple(made)
