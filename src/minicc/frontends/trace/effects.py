"""What Python does with traced values besides NumPy: printing, `math`, and SciPy.

All run on the host, at a break. A print appears at every call of the compiled function, when the
call gets there.
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

from minicc.frontends.trace.dispatch import is_symbolic
from minicc.frontends.trace.host import library, on_host
from minicc.frontends.trace.numbers import has_term
from minicc.frontends.trace.recorder import Recorder


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


def written(recorder: Recorder, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A call that others see, at each call; at once where a trace runs nothing."""
    if recorder.path is None:
        return function(*args, **kwargs)
    return on_host(recorder, "print", function, args, kwargs, "others see what it does")


def effects(recorder: Recorder, x: Any) -> Any:
    """What stands for a writer, or None."""
    if x is logging or isinstance(x, (logging.Logger, logging.LoggerAdapter, io.IOBase)):
        return Effects(recorder, x)
    if x is warnings.warn or x is warnings.warn_explicit:
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
    given = tuple([_scalar(a) for a in args])
    return on_host(recorder, name, function, given, {}, "it computes with Python numbers")


def _scalar(x: Any) -> Any:
    return x.reshape(()) if is_symbolic(x) and hasattr(x, "reshape") else x


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
