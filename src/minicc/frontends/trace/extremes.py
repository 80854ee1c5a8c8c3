"""`max` and `min` of two numbers that data give, which the graph chooses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minicc.frontends.trace.mixed import is_mixed
from minicc.frontends.trace.numbers import Number
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import Dispatch
from minicc.frontends.trace.tracer import Tracer


def extreme(recorder: Recorder, real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`max` or `min`, chosen by the graph where both are traced scalars or floats of one type."""
    types = {_type_of(x) for x in args}
    chosen = not kwargs and recorder.path is not None and len(args) == 2
    if not chosen or len(types) > 1 or "" in types or all(map(_is_known, args)):
        return real(*args, **kwargs)
    first, second = map(_array_of, args)
    later = "greater" if real is max else "less"
    takes = Dispatch.call(recorder, later, (second, first), {})
    made = Dispatch.call(recorder, "where", (takes, second, first), {})
    scalar = Tracer(recorder, made.content, scalar=True)
    return Number(scalar, float) if "float" in types else scalar


def _array_of(x: Any) -> Any:
    return x.box if type(x) is Number else x if type(x) is Tracer else np.asarray(x)


def _type_of(x: Any) -> str:
    """What type a traced scalar, or a float of Python's, is of; empty for others."""
    if type(x) is float or (type(x) is Number and x.kind is float):
        return "" if is_mixed(x) else "float"
    scalar = isinstance(x, np.generic) or (type(x) is Tracer and x.scalar)
    return str(x.dtype) if scalar and x.dtype.kind in "iuf" else ""


def _is_known(x: Any) -> bool:
    return not (x.symbolic if type(x) is Tracer else type(x) is Number and x.term is None)
