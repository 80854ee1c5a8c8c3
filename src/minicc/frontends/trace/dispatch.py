"""One call of a NumPy function while tracing: by NumPy itself, or recorded, or refused.

A call without symbolic arrays is made by NumPy on the spot. Else the function's entry in
`registry.FUNCTIONS` records ops. What NumPy or a type rule raises becomes a UserError (MC0140) at
the user's line.

Mirrors: NEP 18's dispatch; constant evaluation during JAX's tracing.
"""

from __future__ import annotations

import inspect
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np

from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import FUNCTIONS, VIEWS, Dispatch, Implementation
from minicc.frontends.trace.tracer import Content, Tracer
from minicc.ir.core import Array, Value

# Calls that a compiled function would repeat with another outcome.
_FILES = "files are read and written while tracing alone"
IMPURE = {"random": "random numbers are drawn once, while tracing"}
for _names in (
    ("load", "save", "savez", "savez_compressed", "loadtxt", "savetxt", "genfromtxt"),
    ("fromfile", "fromregex", "memmap"),
):
    IMPURE.update(dict.fromkeys(_names, _FILES))
_WRITES = frozenset(("copyto", "put", "place", "putmask", "fill_diagonal", "put_along_axis"))
_MISTAKES = (TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError)


def impurity(name: str) -> str:
    """Why a function of NumPy's can't be compiled; empty where its arguments tell its outcome."""
    return IMPURE.get(name) or IMPURE.get(name.partition(".")[0]) or ""


def refuse_impure(recorder: Recorder, name: str, reason: str) -> NoReturn:
    """UnsupportedError (MC0242) for a call whose outcome depends on more than its arguments."""
    recorder.refuse(
        "MC0242", f"{name} can't be compiled: {reason}", "pass its outcome as an argument"
    )


def call(recorder: Recorder, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The outcome of NumPy's function `name` (dotted, below `numpy`)."""
    if impurity(name):
        refuse_impure(recorder, f"np.{name}", impurity(name))
    if name in _WRITES:
        recorder.refuse("MC0241", f"np.{name} is not traced", "assign to slices: u[...] = v")
    ufunc = getattr(np, name, None)
    if isinstance(ufunc, np.ufunc) and len(args) > ufunc.nin:
        kwargs = {**kwargs, "out": args[ufunc.nin :]}
        args = args[: ufunc.nin]
    out = kwargs.pop("out", None)
    try:
        if name.startswith("__"):
            result = FUNCTIONS[name](recorder, *args)
        elif any(map(is_symbolic, (*args, *kwargs.values()))):
            result = record(recorder, name, args, kwargs)
        else:
            result = evaluate(name, args, kwargs, recorder)
        return result if out is None else _into(recorder, out, result)
    except _MISTAKES as error:
        recorder.wrong("MC0140", f"np.{name}: {error}")


def record(recorder: Recorder, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Record the ops of a call that has symbolic arrays."""
    implementation = FUNCTIONS.get(name)
    if implementation is None:
        recorder.refuse("MC0241", f"np.{name} is not traced", "write it with functions that are")
    try:
        _signature(implementation).bind(recorder, *args, **kwargs)
    except TypeError as error:
        recorder.refuse("MC0241", f"np.{name} is not traced with these arguments: {error}")
    result = implementation(recorder, *args, **kwargs)
    base = args[0] if name in VIEWS and args and isinstance(args[0], Tracer) else None
    return _boxed(recorder, result, base)


@lru_cache(512)
def _signature(implementation: Implementation) -> inspect.Signature:
    return inspect.signature(implementation)


def _boxed(recorder: Recorder, result: Any, base: Tracer | None = None) -> Any:
    if isinstance(result, Value):
        return Tracer(recorder, result, base=base)
    if isinstance(result, (list, tuple)):
        return type(result)([_boxed(recorder, r, base) for r in result])
    return result


def evaluate(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], recorder: Recorder) -> Any:
    """NumPy's own outcome for arguments that are known; arrays come back as constant tracers."""
    function: Any = np
    for part in name.split("."):
        function = getattr(function, part)
    owners: list[tuple[Array, Tracer]] = []
    plain = [_plain(a, owners) for a in args]
    named = {k: _plain(a, owners) for k, a in kwargs.items()}
    with np.errstate(all="ignore"):
        result = function(*plain, **named)
    if name == "asarray" and isinstance(args[0], Tracer) and result.dtype == args[0].dtype:
        return args[0]
    return _wrapped(recorder, result, owners)


def _plain(x: Any, owners: list[tuple[Array, Tracer]]) -> Any:
    """An argument without tracers; arrays can't be written to, for other boxes may hold them."""
    if isinstance(x, Tracer):
        array = x.constant("NumPy").view()
        array.flags.writeable = False
        owners.append((array, x))
        return array
    if isinstance(x, (list, tuple)) and any(map(_has_tracer, x)):
        return type(x)([_plain(e, owners) for e in x])
    return x


def _has_tracer(x: Any) -> bool:
    return isinstance(x, Tracer) or (isinstance(x, (list, tuple)) and any(map(_has_tracer, x)))


def is_symbolic(x: Any) -> bool:
    """Whether an argument is, or holds, an array that is not known while tracing."""
    if isinstance(x, Tracer):
        return x.symbolic
    return isinstance(x, (list, tuple)) and any(map(is_symbolic, x))


def _wrapped(recorder: Recorder, result: Any, owners: list[tuple[Array, Tracer]]) -> Any:
    if isinstance(result, np.ndarray):
        base = next((t for a, t in owners if np.may_share_memory(a, result)), None)
        return Tracer(recorder, result, base=base)
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*[_wrapped(recorder, r, owners) for r in result])
    if isinstance(result, (list, tuple)):
        return type(result)([_wrapped(recorder, r, owners) for r in result])
    return result


def content_of(recorder: Recorder, x: Any) -> Content:
    """What an array-like argument holds: a value of the graph, or a NumPy array."""
    if isinstance(x, Tracer):
        return x.content
    if isinstance(x, (list, tuple)) and is_symbolic(x):
        stacked = Dispatch.call(recorder, "stack", (list(x),), {})
        return value_of(recorder, stacked)
    return np.asarray(x)


def value_of(recorder: Recorder, x: Any) -> Value:
    """An array-like argument as a value of the graph."""
    content = content_of(recorder, x)
    return content if isinstance(content, Value) else recorder.lift(content)


def _into(recorder: Recorder, out: Any, result: Any) -> Any:
    """Write a result into the array given as `out`, which is then the call's outcome."""
    if isinstance(out, tuple):
        if len(out) != 1:
            recorder.refuse("MC0241", "out= with several arrays is not traced")
        out = out[0]
        if out is None:
            return result
    if not isinstance(out, Tracer):
        recorder.refuse("MC0243", "out= is an array from outside of the function")
    shape = np.shape(result) if not isinstance(result, Tracer) else result.shape
    dtype = result.dtype if isinstance(result, Tracer) else np.asarray(result).dtype
    if shape != out.shape:
        raise ValueError(f"a result of shape {shape} does not fit the array {out!r}")
    if not np.can_cast(dtype, out.dtype, "same_kind"):
        raise TypeError(f"a result of {dtype} is not written into {out!r}")
    if is_symbolic(result):
        out.assign(recorder.cast(result.value(), recorder.dtype(out.dtype)))
    else:
        out.assign(np.asarray(_plain(result, [])).astype(out.dtype))
    return out


Dispatch.call = call
