"""What Python does with traced values besides NumPy: printing, and the functions of `math`.

Both run on the host, at a break. A print appears at every call of the compiled function, when the
call gets there.

Mirrors: Dynamo's graph break at `print`; JAX's `debug.print`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from minicc.frontends.trace.dispatch import is_symbolic
from minicc.frontends.trace.host import on_host
from minicc.frontends.trace.recorder import Recorder


def printed(recorder: Recorder, *args: Any, **kwargs: Any) -> None:
    """`print`, at each call; with tracers as they are where a trace runs nothing."""
    if recorder.path is None:
        print(*args, **kwargs)
    else:
        on_host(recorder, "print", print, args, kwargs, "it writes text")


def mathematics(recorder: Recorder, function: Callable[..., Any], *args: Any) -> Any:
    """A function of `math`; Python's own for numbers that are known."""
    if recorder.path is None or not any(map(is_symbolic, args)):
        return function(*args)
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
