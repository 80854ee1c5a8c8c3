"""A kernel by hand as a function of tensors: what its inputs say of its outputs and its grid."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from minicc.errors import UserError
from minicc.frontends.trace.tiles.tracing import Spec, dims_of, place_of, traced_kernel
from minicc.ir.types import TensorType
from minicc.wording import counted


class KernelFunction:
    """A Python function that each instance of a grid runs.

    Its parameters are the inputs, then the outputs; those after `*` are constants, and a
    `*parameter` stands for any number. `grid` and
    `out` are what they say, or functions whose parameters are inputs and constants, by their names.
    """

    def __init__(self, f: Callable[..., Any], grid: Any, out: Any) -> None:
        self.function = f
        self.grid = grid
        self.out = out
        self.__name__ = getattr(f, "__name__", "kernel")
        self.__doc__ = f.__doc__
        self.place = place_of(f)
        parameters = [*inspect.signature(f).parameters.values()]
        self.names = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        self.others = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "")
        self.constants = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}

    def parts(self, types: Sequence[TensorType], constants: Mapping[str, Any]) -> dict[str, Any]:
        """What makes it a `graph.kernel` on inputs of these types.

        UserError (MC0187) where these are not what it takes, else at its lines.
        """
        unknown = sorted(constants.keys() - self.constants.keys())
        known = {**self.constants, **constants}
        missing = [n for n, value in known.items() if value is inspect.Parameter.empty]
        if unknown or missing:
            which = ", ".join(unknown or missing)
            text = f"{self.__name__} {'has no' if unknown else 'lacks the'} constant {which}"
            hint = f"constants: {', '.join(self.constants)}"
            raise UserError("MC0187", text, hint=hint, where=self.place)
        specs = [Spec.of(t) for t in types]
        named = {**dict(zip(self.names, specs, strict=False)), **known}
        out = _asked(self.out, named)
        outputs = [_spec(o, specs).type for o in (out if isinstance(out, list) else [out])]
        more = len(types) + len(outputs) - len(self.names)
        if more and not (self.others and more > 0):
            numbers = counted(len(types), "input"), counted(len(outputs), "output")
            text = f"{self.__name__}({', '.join(self.names)}) is given {' for '.join(numbers)}"
            hint = "its parameters are the inputs, then the outputs, constants after *"
            raise UserError("MC0187", text, hint=hint, where=self.place)
        asked = _asked(self.grid, named)
        grid = dims_of(asked if isinstance(asked, tuple | list) else (asked,))
        if any(isinstance(n, int) and n < 0 for n in grid):
            text = f"the grid of {self.__name__} is {list(grid)}"
            raise UserError("MC0187", text, where=self.place)
        names = [*self.names, *[f"{self.others}{k}" for k in range(more)]]
        return traced_kernel(self.function, types, outputs, grid, names, known)


def _asked(rule: Any, known: Mapping[str, Any]) -> Any:
    """What a rule says: a function of the inputs and constants that its parameters name."""
    if not callable(rule):
        return rule
    wanted = inspect.signature(rule).parameters
    if strange := [n for n in wanted if n not in known]:
        text = f"a rule of the grid or the outputs asks for {', '.join(strange)}"
        raise UserError("MC0187", text, hint=f"inputs and constants: {', '.join(known)}")
    return rule(**{n: known[n] for n in wanted})


def _spec(out: Any, specs: Sequence[Spec]) -> Spec:
    """An output: one like an array, or a shape of the first input's element type."""
    if isinstance(out, Spec):
        return out
    return Spec(out, specs[0].dtype) if isinstance(out, tuple) else Spec(out.shape, out.dtype)
