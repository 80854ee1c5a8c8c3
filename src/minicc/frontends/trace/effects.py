"""What Python does with traced values besides NumPy: printing, `math`, and SciPy.

Functions of `math` that NumPy has, too, are computed by the graph, all else on the host, at a
break. A print appears at every call of the compiled function, when the call gets there.
"""

from __future__ import annotations

import io
import logging
import math
import types
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from minicc.frontends.trace.dispatch import is_symbolic
from minicc.frontends.trace.host import library, on_host
from minicc.frontends.trace.lines import warned, written
from minicc.frontends.trace.numbers import Number, checked, has_term
from minicc.frontends.trace.python_types import as_number
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.tracer import Tracer


def printed(recorder: Recorder, *args: Any, **kwargs: Any) -> None:
    """`print`, at each call; with tracers as they are where a trace runs nothing."""
    if recorder.path is None:
        print(*args, **kwargs)
    else:
        on_host(recorder, "print", print, args, kwargs, "it writes text")


class Effects:
    """What writes for others to read: `logging`, a logger, a stream. It does so at each call."""

    def __init__(self, recorder: Recorder, real: Any) -> None:
        self._recorder = recorder
        self.real_function = real

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.real_function, name)
        if name == "getLogger":
            return lambda *args: Effects(self._recorder, value(*args))
        return partial(written, self._recorder, value) if callable(value) else value


def effects(recorder: Recorder, x: Any) -> Any:
    """What stands for a writer, or None."""
    if x is logging or isinstance(x, (logging.Logger, logging.LoggerAdapter, io.IOBase)):
        return Effects(recorder, x)
    if x is warnings.warn:
        return partial(warned, recorder)
    if x is warnings.warn_explicit:
        return partial(written, recorder, x)
    return None


def mathematics(recorder: Recorder, function: Callable[..., Any], *args: Any) -> Any:
    """A function of `math`; Python's own for numbers that are known."""
    if recorder.path is None or not any(map(is_symbolic, args)):
        return function(*args)
    number = next(filter(has_term, args), None)
    if number and all(has_term(a) or type(a) in (bool, int, float) for a in args):
        return number.by_python(function, *args)
    name = f"math.{function.__name__}"
    if function.__name__ in _ALIKE and all(map(_is_real, args)):
        made = _recorded(recorder, function, *[as_number(a, float) for a in args])
        if made is not None:
            return made
    return on_host(recorder, name, function, args, {}, "it computes with Python numbers")


# Functions that NumPy has, too, and for which arguments and outcomes Python does not raise.
_ALIKE: dict[str, tuple[str, Callable[[Any, Any], Any] | None]] = {
    "sqrt": ("sqrt", lambda x, y: x >= 0),
    **dict.fromkeys(("log", "log2", "log10"), ("", lambda x, y: x > 0)),
    **dict.fromkeys(("exp", "expm1", "sinh", "cosh"), ("", lambda x, y: y < math.inf)),
    **dict.fromkeys(("sin", "cos", "tan"), ("", lambda x, y: abs(x) < math.inf)),
    **{f"a{n}": (f"arc{n}", lambda x, y: abs(x) <= 1) for n in ("sin", "cos")},
    **{n: (m, None) for n, m in (("atan", "arctan"), ("atan2", "arctan2"), ("fabs", "fabs"))},
    **dict.fromkeys(("tanh", "hypot", "copysign"), ("", None)),
}


def _recorded(recorder: Recorder, function: Callable[..., Any], *args: Any) -> Any:
    """A function of `math` in the graph; where Python might raise, NumPy runs the call.

    None for more arguments than NumPy's function has.
    """
    name, holds = _ALIKE[function.__name__]
    ufunc = getattr(np, name or function.__name__)
    if len(args) != ufunc.nin:
        return None
    boxes = [a.box if isinstance(a, Number) else np.asarray(a) for a in args]
    made = getattr(recorder.namespace, ufunc.__name__)(*boxes)
    return Number(made if holds is None else checked(made, holds(boxes[0], made)), float)


class MathModule:
    """The module `math` in traced code."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:
        real = getattr(math, name)
        return partial(mathematics, self._recorder, real) if callable(real) else real

    def __repr__(self) -> str:
        return "<traced math>"


def is_scipy(x: Any) -> bool:
    """Whether a function or module is SciPy's."""
    name = x.__name__ if isinstance(x, types.ModuleType) else getattr(x, "__module__", None)
    return isinstance(name, str) and name.partition(".")[0] == "scipy"


def scientific(recorder: Recorder, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A function of SciPy on traced arrays runs on the host."""
    if recorder.path is None or not any(map(is_symbolic, (*args, *kwargs.values()))):
        return function(*args, **kwargs)
    name = f"{function.__module__}.{function.__name__}"
    return library(recorder, function, name, args, kwargs)


class SciPyModule:
    """A module of SciPy in traced code."""

    def __init__(self, recorder: Recorder, module: types.ModuleType) -> None:
        self._recorder = recorder
        self._module = module

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._module, name)
        if isinstance(real, types.ModuleType):
            return SciPyModule(self._recorder, real)
        if isinstance(real, types.FunctionType):
            return partial(scientific, self._recorder, real)
        return real


def _is_real(x: Any) -> bool:
    """Whether it is a float or an integer, of Python's or a traced scalar."""
    kind = x.kind if isinstance(x, Number) else type(x)
    traced = isinstance(x, Tracer) and not x.ndim and x.dtype.kind in "fiu"
    return traced or (kind in (float, int) and not has_term(x))
