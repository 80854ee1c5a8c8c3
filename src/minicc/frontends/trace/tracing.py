"""Tracing: run a function once on tracers, and give the graph module of what it did.

Mirrors: JAX's `make_jaxpr`; Dynamo's `export`, which as this refuses what is no single graph.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minicc.errors import UserError
from minicc.frontends.trace.dispatch import content_of
from minicc.frontends.trace.guards import Environment, Parameters
from minicc.frontends.trace.pytree import Slot, mapped, rebuild
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.rewire import Rewirer
from minicc.frontends.trace.tracer import Tracer
from minicc.ir.core import Array, Function, Module, Region, Value
from minicc.ir.types import TensorType, from_numpy


class Traced:
    """A traced function: its graph, and what must hold for it to be used.

    `module` takes the arrays of a call in order (see `Parameters.key`) and gives those of its
    result, which `rebuild` puts in their places. `environment` guards what was read from outside;
    `captured` are the arrays among it, which became constants, by name.
    """

    __slots__ = ("captured", "environment", "module", "structure")

    def __init__(
        self,
        module: Module,
        structure: Any,
        environment: Environment,
        captured: dict[str, Array],
    ) -> None:
        self.module = module
        self.structure = structure
        self.environment = environment
        self.captured = captured

    def rebuild(self, results: list[Any]) -> Any:
        """The function's result for the arrays that the compiled module gave."""
        return rebuild(self.structure, results)


def trace_call(f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Traced:
    """Trace `f` for the arguments of a call: arrays become inputs, all else is fixed.

    Raises UserError or UnsupportedError at the user's line; what the function itself raises passes.
    """
    parameters = Parameters(f)
    return trace_values(f, parameters, parameters.bind(tuple(args), kwargs))


def trace_values(f: Callable[..., Any], parameters: Parameters, values: Sequence[Any]) -> Traced:
    """The same for arguments that `Parameters.bind` has sorted."""
    code = getattr(inspect.unwrap(f), "__code__", None)
    place = f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}" if code else ""
    recorder = Recorder(getattr(f, "__name__", type(f).__name__), place)
    rewirer = Rewirer(recorder)
    inputs: list[Value] = []

    def box(leaf: Any, path: str) -> Any:
        if isinstance(leaf, (np.ndarray, np.generic)):
            element = from_numpy(leaf.dtype)
            if element is None:
                raise UserError(
                    "MC0141", f"argument {path}: no element type stores NumPy's {leaf.dtype}"
                )
            value = Value(TensorType(element, leaf.shape), path)
            inputs.append(value)
            return Tracer(recorder, value, locked=f"the argument `{path}`")
        return rewirer.value(leaf, path)

    boxed: list[Any] = []
    for name, value in zip(parameters.names, values, strict=True):
        boxed.append(rewirer.container(mapped(box, value, name), name))
    run = rewirer.entry(f)
    try:
        outcome = _apply(run, parameters.signature, boxed)
        rewirer.check_containers()
        results, names, structure = _results(recorder, outcome)
    finally:
        recorder.closed = True
    body = Region(inputs, recorder.ops, results)
    module = Module("graph", [Function("main", body, None, names)])
    return Traced(module, structure, Environment(rewirer.references), recorder.captured)


def _apply(f: Callable[..., Any], signature: inspect.Signature, values: Sequence[Any]) -> Any:
    bound = inspect.BoundArguments(
        signature,
        dict(zip(signature.parameters, values, strict=True)),
    )
    return f(*bound.args, **bound.kwargs)


def _results(recorder: Recorder, outcome: Any) -> tuple[list[Value], list[str], Any]:
    """The arrays of a result, their names, and the structure with slots in their places."""
    values: list[Value] = []
    names: list[str] = []

    def take(leaf: Any, path: str) -> Any:
        if isinstance(leaf, (Tracer, np.ndarray, np.generic)):
            content = content_of(recorder, leaf)
            values.append(content if isinstance(content, Value) else recorder.lift(content))
            names.append(path)
            return Slot(len(values) - 1)
        if leaf is None or isinstance(leaf, (bool, int, float, complex, str)):
            return leaf
        kind = type(leaf)
        raise UserError(
            "MC0142",
            f"{recorder.name} returns a {kind.__module__}.{kind.__name__} ({path})",
            hint="return arrays, or tuples, lists and dicts of arrays",
        )

    structure = mapped(take, outcome, "result")
    if not values:
        raise UserError("MC0142", f"{recorder.name} returns no array")
    return values, names, structure


def trace(
    f: Callable[..., Any],
    example_types: Sequence[TensorType],
    arg_names: Sequence[str] | None = None,
) -> Module:
    """The graph module of `f` for arrays of these types, one a positional argument.

    `arg_names` are the names of the inputs, the function's parameters by default.
    """
    examples = [np.broadcast_to(np.zeros((), t.dtype.numpy), t.extents) for t in example_types]
    traced = trace_call(f, examples, {})
    for value, name in zip(traced.module.main.args, arg_names or (), strict=False):
        value.hint = name
    return traced.module
