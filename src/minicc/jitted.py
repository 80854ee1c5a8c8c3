"""`jit`: machine code for functions written with plain NumPy.

The function is traced once for each set of shapes, element types and static arguments, compiled,
and called from then on; what it read from outside is guarded. `f.lower(*args)` stops before
machine code, to be read.

Mirrors: jax.jit (`lower`, `as_text`), torch.compile (guards), numba's dispatcher.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minicc.compiled import Compilation, compile_module
from minicc.compiler import STAGES, lower
from minicc.errors import UserError
from minicc.frontends.trace import Parameters, Traced, has_tracers, trace_values
from minicc.ir.core import Module
from minicc.ir.printer import print_module
from minicc.options import Options


class Lowered:
    """A traced function before machine code; every level can be read."""

    def __init__(self, module: Module, options: Options) -> None:
        self.module = module
        self._options = options

    def at(self, level: str) -> Module:
        """The module behind the last stage of a level; UserError names the levels."""
        stages = [s.name for s in STAGES if s.level == level]
        if not stages:
            levels = ", ".join(dict.fromkeys(s.level for s in STAGES))
            raise UserError("MC0143", f"no level is called {level!r}", hint=f"levels: {levels}")
        return lower(self.module, self._options, stop=stages[-1])

    def as_text(self, level: str = "graph") -> str:
        """The printed module behind the last stage of a level."""
        return print_module(self.at(level))


class Jitted:
    """What `jit` returns.

    Called like the function, compiled for each kind of arguments it meets.
    """

    def __init__(self, f: Callable[..., Any], options: Options) -> None:
        self.__wrapped__ = f
        functools.update_wrapper(self, f)
        self.options = options
        self._parameters = Parameters(f)
        self._known: dict[Any, tuple[Traced, Compilation]] = {}
        self._lock = threading.Lock()
        self._reasons: list[str] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result; arrays come back as new NumPy arrays."""
        values = self._parameters.bind(args, kwargs)
        if has_tracers(values):
            return self.__wrapped__(*args, **kwargs)
        key, arrays = self._parameters.key(values)
        found = self._known.get(key)
        if found is None or not found[0].environment.holds():
            found = self._compile(key, values)
        traced, compilation = found
        return traced.rebuild(compilation.executable.run(_dense(arrays)))

    def _compile(self, key: Any, values: Sequence[Any]) -> tuple[Traced, Compilation]:
        with self._lock:
            found = self._known.get(key)
            if found is not None and found[0].environment.holds():
                return found
            self._reasons.append(self._why(key, found))
            traced = trace_values(self.__wrapped__, self._parameters, values)
            made = traced, compile_module(traced.module, self.options, {})
            self._known[key] = made
            return made

    def _why(self, key: Any, found: tuple[Traced, Compilation] | None) -> str:
        if found is not None:
            return found[0].environment.explain()
        if not self._known:
            return "first call"
        return self._parameters.explain(next(reversed(self._known)), key)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The function traced for these arguments, not compiled."""
        values = self._parameters.bind(args, kwargs)
        return Lowered(
            trace_values(self.__wrapped__, self._parameters, values).module, self.options
        )

    def explain(self) -> list[str]:
        """Why each compilation was made, in order."""
        return list(self._reasons)


def _dense(arrays: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """C-contiguous, aligned and native; NumPy copies where an array is not."""
    return [
        a
        if a.flags.c_contiguous and a.flags.aligned and a.dtype.isnative
        else np.require(a, a.dtype.newbyteorder("="), ["C", "A"])
        for a in arrays
    ]


def jit(
    f: Callable[..., Any] | None = None,
    *,
    threads: int | None = None,
    math: str | None = None,
    target: str | None = None,
    options: Options | None = None,
) -> Any:
    """Compile a function of NumPy arrays when it is called.

    Also usable as a decorator with options.
    """
    chosen = options or Options(threads=threads, math=math, target=target)
    if f is None:
        return lambda function: Jitted(function, chosen)
    return Jitted(f, chosen)
