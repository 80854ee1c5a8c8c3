"""Numbers at even distances, and counting by bins between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.frontends.trace.dispatch import is_symbolic, value_of
from minicc.frontends.trace.functions.creation import extents
from minicc.frontends.trace.numbers import Number
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import traces
from minicc.frontends.trace.tracer import Tracer
from minicc.frontends.trace.views import boxed
from minicc.ir import graph
from minicc.ir.core import Value
from minicc.ir.types import F64, I64

_NARROW = 1 << 29  # bins that 32 bits number, with as many again beyond them
_SEARCHED = 1 << 20  # comparisons that a search may make; beyond, NumPy's bisection is faster


@traces("linspace")
def linspace(
    recorder: Recorder, start: Any, stop: Any, num: int = 50, endpoint: bool = True
) -> Any:
    """Numbers at even distances."""
    np_ = recorder.namespace
    first, last = ends = ends_of(recorder, start, stop)
    after = (1,) * max(np_.ndim(first), np_.ndim(last))
    out = at_even_steps(np_, np_.arange(num).reshape(-1, *after), ends, num - endpoint)
    if endpoint and num > 1:
        final = np_.broadcast_to(last, out.shape[1:])[None]
        out = np_.concatenate([out[:-1], final], axis=0)
    return out


def ends_of(recorder: Recorder, start: Any, stop: Any) -> tuple[Any, Any]:
    """The ends of `np.linspace` as arrays of its element type."""
    ends = [x if type(x) in (int, float) else boxed(recorder, x) for x in (start, stop)]
    dtype = np.result_type(*[x.dtype if isinstance(x, Tracer) else x for x in ends], 0.0)
    first, last = (recorder.namespace.asarray(x, dtype) for x in ends)
    return first, last


def at_even_steps(np_: Any, steps: Any, ends: tuple[Any, Any], parts: int) -> Any:
    """Where so many steps lead of which `parts` lie between the ends, as `np.linspace` rounds."""
    first, last = ends
    return steps.astype(first.dtype) * np_.divide(last - first, max(parts, 1)) + first


@traces("searchsorted")
def searchsorted(recorder: Recorder, a: Any, v: Any, side: str = "left") -> Any:
    """Before how many elements of a sorted vector each would stand: how many are less."""
    np_ = recorder.namespace
    line, wanted = boxed(recorder, a), boxed(recorder, v)
    if line.ndim != 1 or side not in ("left", "right") or line.size * wanted.size > _SEARCHED:
        recorder.refuse("MC0241", "a long search is not traced")
    wide = wanted[..., None]
    before = line < wide if side == "left" else line <= wide
    if wanted.dtype.kind == "f":
        ends = np_.isnan(wide)
        before = before | (ends & ~np_.isnan(line) if side == "left" else ends)
    return np_.sum(before, axis=-1)


@traces("digitize")
def digitize(recorder: Recorder, x: Any, bins: Any, right: bool = False) -> Any:
    """In which bin each element lies."""
    edges = bins.content if isinstance(bins, Tracer) else np.asarray(bins)
    if isinstance(edges, Value) or edges.ndim != 1 or (np.diff(edges) < 0).any():
        recorder.refuse("MC0241", "np.digitize with bins that are traced or fall is not traced")
    return recorder.namespace.searchsorted(edges, x, side="left" if right else "right")


@traces("histogram")
def histogram(
    recorder: Recorder,
    a: Any,
    bins: Any = 10,
    range: Any = None,
    density: Any = None,
    weights: Any = None,
) -> Any:
    """How many elements, or how much of their weights, bins of equal width hold; and their edges.

    The steps of `numpy.histogram`: a guess by the width, and one back or on where rounding missed.
    Where NumPy raises, since the data are not finite or too near, an index is outside of the bins.
    """
    np_, x = recorder.namespace, boxed(recorder, a).reshape(-1)
    weight = None if weights is None else boxed(recorder, weights).reshape(-1)
    equal = type(bins) is int and bins > 0 and not any(map(is_symbolic, range or ()))
    real = all(v.dtype.kind in "fiu" for v in (x, weight) if v is not None)
    if not (equal and real and x.size) or (weight is not None and weight.shape != x.shape):
        recorder.refuse("MC0241", "np.histogram but by a number of bins of equal width")
    first, last = (x.min(), x.max()) if range is None else range
    if range is not None and not (first < last and np.isfinite([first, last]).all()):
        recorder.refuse("MC0241", "np.histogram of a range that is none")
    element = np.result_type(*[e.dtype if range is None else e for e in (first, last)], x.dtype)
    element = element if element.kind == "f" else np.dtype(np.float64)
    wide, kept = x.astype(element), None
    if range is None:
        first, last = first.astype(element), last.astype(element)
        half = np_.where(first == last, 0.5, 0).astype(element)
        first, last = first - half, last + half
    else:
        kept = (x >= first) & (x <= last)
        wide = np_.where(kept, wide, first)
    edges = np_.linspace(first, last, bins + 1).astype(element)
    ends = ends_of(recorder, first, last)
    # vectors of floats become such of narrow integers at once; what those don't hold is no bin
    whole = np.int32 if bins < _NARROW else np.int64
    index = np_.minimum(((wide - first) / (last - first) * bins).astype(whole), bins - 1)
    index = index + np_.where(np_.any(edges[:-1] >= edges[1:]), 2 * bins, 0)
    # the edges of a bin are computed again, since reading them would take longer
    index = index - (wide < at_even_steps(np_, index, ends, bins).astype(element))
    after = at_even_steps(np_, index + 1, ends, bins).astype(element)
    index = index + ((wide >= after) & (index != bins - 1))
    held = _counted(recorder, index, weight, kept, bins)
    held = held if weight is None else held.astype(weight.dtype)
    if density:
        held = held / np_.diff(edges) / np_.sum(held)
    return held, edges


def _counted(recorder: Recorder, index: Any, weight: Any, kept: Any, bins: int) -> Any:
    """How often each bin is told, or how much of the weights it holds, of those that are kept.

    An index that is no bin's has NumPy run the call.
    """
    total = I64 if weight is None else F64
    if weight is None:
        ones = recorder.broadcast(recorder.scalar(1, I64), index.shape)
        terms: Any = Tracer(recorder, ones)
    else:
        terms = weight.astype(np.float64)
    terms = terms if kept is None else recorder.namespace.where(kept, terms, 0)
    sums = recorder.emit(
        graph.ScatterND,
        recorder.lift(np.zeros(bins, total.numpy)),
        recorder.reshape(value_of(recorder, index.astype(np.int64)), (*index.shape, 1)),
        recorder.cast(value_of(recorder, terms), total),
        "add",
    )
    return Tracer(recorder, sums)


@traces("bincount")
def bincount(recorder: Recorder, x: Any, weights: Any = None, minlength: Any = 0) -> Any:
    """How often each number occurs, or the sum of its weights, below a length that is given.

    NumPy runs the call where there is a number beyond, and the result longer, or one below 0.
    """
    box = boxed(recorder, x)
    weight = None if weights is None else boxed(recorder, weights)
    whole = box.dtype.kind in "biu" and box.dtype != np.uint64
    real = weight is None or (weight.dtype.kind in "fiub" and weight.shape == box.shape)
    if issubclass(type(minlength), (Number, Tracer)):
        (minlength,) = extents(recorder, minlength)
    if box.ndim != 1 or not (whole and real) or type(minlength) is not int or minlength < 1:
        recorder.refuse("MC0241", "np.bincount but of a vector with a length that is given")
    index = box.astype(np.int64)
    if box.dtype.kind == "i":  # an index below 0 would count from the end
        index = recorder.namespace.where(index < 0, minlength, index)
    return _counted(recorder, index, weight, None, minlength)
