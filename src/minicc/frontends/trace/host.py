"""Calls that NumPy itself computes, at a break, when the compiled function runs.

What has no counterpart in the graph (`np.unique`, `np.linalg.solve`), a result whose shape depends
on data (`x[mask]`), and element types that no graph has (records, dates) are computed by the
function's own NumPy on the arrays that the segment before gave; tracing goes on with the results.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable
from typing import Any

from minicc.errors import UnsupportedError
from minicc.frontends.trace.layouts import ROWS, spread, without_gaps
from minicc.frontends.trace.numbers import Number
from minicc.frontends.trace.objects import is_stood_in, original_class
from minicc.frontends.trace.paths import Host
from minicc.frontends.trace.python_types import PythonType
from minicc.frontends.trace.pytree import PLAIN, Slot, mapped
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import Dispatch
from minicc.frontends.trace.tracer import Tracer
from minicc.ir.core import Array, Value

_HOLDING = (set, frozenset, deque)  # may hold traced arrays


def on_host(
    recorder: Recorder,
    name: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    reason: str,
    foreign: bool = False,
) -> Any:
    """The outcome of a pure function that NumPy computes; UnsupportedError where nothing runs."""
    if recorder.path is None:
        hint = "write it with functions that are"
        recorder.refuse("MC0241", f"{name} is not traced", hint)
    boxes: list[Tracer] = []

    def gather(leaf: Any, path: str) -> Any:
        box = leaf.box if type(leaf) is Number else leaf
        if isinstance(box, Tracer) and box.symbolic:
            boxes.append(box)
        return leaf

    mapped(gather, args)
    mapped(gather, kwargs)

    def make(place: Callable[[Value], int]) -> Host:
        def slot(leaf: Any, path: str) -> Any:
            box = leaf.box if type(leaf) is Number else leaf
            if isinstance(box, Tracer):
                content = box.content
                kind = leaf.kind if type(leaf) is Number else _lying_kind(box)
                if isinstance(content, Value):
                    return Slot(place(content), kind)
                if has_objects(content):
                    recorder.refuse("MC0241", f"{name} with an array of objects is not traced")
                return content
            return _real(recorder, name, leaf)

        return Host(name, function, mapped(slot, args), mapped(slot, kwargs), reason, foreign)

    try:
        return recorder.path.pause(recorder, make, boxes)
    except UnsupportedError as error:
        recorder.refuse(error.code, error.message, error.hint)


def has_objects(array: Array) -> bool:
    """Whether some elements are neither numbers nor texts: they may hold what is traced."""
    return array.dtype.hasobject and bool({*map(type, array.flat)}.difference(PLAIN))


def box_kind(box: Tracer) -> str | None:
    """Of which kind the slot of an array is: one without axes need not be a scalar."""
    return None if box.scalar or box.ndim else "array"


def _lying_kind(box: Tracer) -> Any:
    """The same for what NumPy computes with, which lies as it would in the user's function."""
    if box.ndim < 2 or box.recorder.rounds.sizes:
        return box_kind(box)
    like = box.shadow()
    # a copy that lies row by row may have come of an argument that does not
    return ROWS if like.flags.c_contiguous else spread(without_gaps(like))


def library(
    recorder: Recorder,
    function: Callable[..., Any],
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """The outcome of a pure function of another library than NumPy."""
    return on_host(recorder, name, function, args, kwargs, "it is of another library", True)


Dispatch.library = library


def _real(recorder: Recorder, name: str, x: Any) -> Any:
    """NumPy's own object for one that stands for it; the user's functions can't run there."""
    if isinstance(x, PythonType):
        return x.real
    if original_class(x) is not None or is_stood_in(x) or isinstance(x, _HOLDING):
        what = f"{name} with a {(original_class(x) or type(x)).__name__}"
        recorder.refuse("MC0241", f"{what} is not traced", "pass what it holds")
    if isinstance(x, types.FunctionType) and id(x.__globals__) in recorder.user_globals:
        recorder.refuse(
            "MC0241",
            f"{name} with a function of the program is not traced",
            "write it with whole arrays, or as a loop",
        )
    real = getattr(x, "real_function", None)
    return x if real is None else real
