"""Functions written in NumPy itself: each is plain code on the traced namespace."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from minicc.frontends.trace.asked import solid
from minicc.frontends.trace.dispatch import is_symbolic
from minicc.frontends.trace.layouts import Shown
from minicc.frontends.trace.lens import Lens
from minicc.frontends.trace.loops.indices import rows
from minicc.frontends.trace.numbers import Number, truth
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import Dispatch, traces
from minicc.frontends.trace.tracer import Tracer
from minicc.frontends.trace.views import boxed
from minicc.ir import graph

_TAPS = 64  # elements of a filter that is written out


@traces("divmod")
def divmod_(recorder: Recorder, x1: Any, x2: Any) -> Any:
    """The quotient rounded down, and the remainder."""
    np_ = recorder.namespace
    return np_.floor_divide(x1, x2), np_.remainder(x1, x2)


@traces("modf")
def modf(recorder: Recorder, x: Any) -> Any:
    """The part after the point and the part before it, both with the sign."""
    np_ = recorder.namespace
    box = boxed(recorder, x)
    box = box if box.dtype.kind == "f" else box.astype(np.modf(np.zeros(1, box.dtype))[0].dtype)
    whole = np_.trunc(box)
    part = np_.where(np_.isinf(box), np.zeros((), box.dtype), box - whole)
    return np_.copysign(part, box), whole


@traces("isposinf")
def isposinf(recorder: Recorder, x: Any) -> Any:
    """Where it is infinite and positive."""
    box = boxed(recorder, x)
    return recorder.namespace.isinf(box) & (box > 0)


@traces("isneginf")
def isneginf(recorder: Recorder, x: Any) -> Any:
    """Where it is infinite and negative."""
    box = boxed(recorder, x)
    return recorder.namespace.isinf(box) & (box < 0)


@traces("nan_to_num")
def nan_to_num(
    recorder: Recorder,
    x: Any,
    copy: bool = True,
    nan: Any = 0.0,
    posinf: Any = None,
    neginf: Any = None,
) -> Any:
    """NaN and the infinities replaced by numbers."""
    np_ = recorder.namespace
    box = boxed(recorder, x)
    out = np_.copy(box)
    if box.dtype.kind == "f":
        limits = np.finfo(box.dtype)
        high = limits.max if posinf is None else posinf
        low = limits.min if neginf is None else neginf
        masks = np_.isnan(box), isposinf(recorder, box), isneginf(recorder, box)
        for mask, number in zip(masks, (nan, high, low), strict=True):
            if is_symbolic(number):
                np_.copyto(out, number, where=mask)
            else:
                out = np_.where(mask, np.asarray(number, box.dtype), out)
    if not copy:
        box[...] = out
        return box
    return out


@traces("array_equal")
def array_equal(recorder: Recorder, a1: Any, a2: Any) -> Any:
    """Whether shapes and all elements are equal, as a bool of Python's."""
    a, b = boxed(recorder, a1), boxed(recorder, a2)
    return a.shape == b.shape and truth(Number((a == b).all(), bool))


@traces("allclose")
def allclose(recorder: Recorder, a: Any, b: Any, *args: Any, **kwargs: Any) -> Any:
    """Whether all elements are close, as a bool of Python's."""
    return truth(Number(recorder.namespace.isclose(a, b, *args, **kwargs).all(), bool))


@traces("kron")
def kron(recorder: Recorder, a: Any, b: Any) -> Any:
    """Blocks of `b`, one for each element of `a`."""
    x, y = boxed(recorder, a), boxed(recorder, b)
    rank = max(x.ndim, y.ndim)
    x, y = (v.reshape((1,) * (rank - v.ndim) + v.shape) for v in (x, y))
    wide = x.reshape(tuple(n for m in x.shape for n in (m, 1)))
    tall = y.reshape(tuple(n for m in y.shape for n in (1, m)))
    shape = tuple(m * n for m, n in zip(x.shape, y.shape, strict=True))
    return recorder.namespace.multiply(wide, tall).reshape(shape)


@traces("cross")
def cross(recorder: Recorder, a: Any, b: Any, axis: int | None = None) -> Any:
    """The vector products of vectors along the last axis, or the given one."""
    np_ = recorder.namespace
    place = -1 if axis is None else axis
    x = np_.moveaxis(boxed(recorder, a), place, -1)
    y = np_.moveaxis(boxed(recorder, b), place, -1)
    if x.shape[-1] != 3 or y.shape[-1] != 3:
        recorder.refuse("MC0241", "np.cross of vectors of two elements is not traced")
    parts = [x[..., i] * y[..., k] - x[..., k] * y[..., i] for i, k in ((1, 2), (2, 0), (0, 1))]
    return np_.moveaxis(np_.stack(parts, axis=-1), -1, place)


@traces("diag", view=True)
def diag(recorder: Recorder, v: Any, k: int = 0) -> Any:
    """The diagonal of a matrix, or a matrix with a diagonal."""
    np_ = recorder.namespace
    box = boxed(recorder, v)
    if box.ndim == 2:
        return np_.diagonal(box, k)
    if box.ndim != 1:
        raise ValueError("Input must be 1- or 2-d.")
    n = rows(box) + abs(k)
    moved = np_.pad(box, (0, abs(k)) if k >= 0 else (abs(k), 0)) if k else box
    return np_.where(np_.eye(n, k=k, dtype=bool), moved[:, None], np.zeros((), box.dtype))


@traces("diagflat")
def diagflat(recorder: Recorder, v: Any, k: int = 0) -> Any:
    """A matrix with the elements on a diagonal."""
    return diag(recorder, boxed(recorder, v).reshape(-1), k)


@traces("vander")
def vander(recorder: Recorder, x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """Columns of powers."""
    np_ = recorder.namespace
    box = boxed(recorder, x)
    box = box.astype(np.promote_types(box.dtype, int))
    power, columns = np_.ones_like(box), []
    for _ in range(len(box) if N is None else N):
        columns.append(power)
        power = power * box
    return np_.stack(columns if increasing else columns[::-1], axis=1)


@traces("polyval")
def polyval(recorder: Recorder, p: Any, x: Any) -> Any:
    """A polynomial's value, by Horner's rule."""
    box = boxed(recorder, x)
    y = recorder.namespace.zeros_like(box)
    for c in recorder.namespace.asarray(p):
        y = y * box + c
    return y


@traces("trapezoid")
def trapezoid(recorder: Recorder, y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """The integral by trapezoids."""
    np_ = recorder.namespace
    box = boxed(recorder, y)
    k = normalize_axis_index(axis, box.ndim)
    step = dx
    if x is not None:
        places = boxed(recorder, x)
        step = np_.diff(places, axis=k if places.ndim > 1 else -1)
        if places.ndim == 1:
            step = step.reshape((-1, *(1,) * (box.ndim - 1 - k)))
    front = (slice(None),) * k
    later, earlier = box[(*front, slice(1, None))], box[(*front, slice(None, -1))]
    return np_.sum(step * (later + earlier) / 2.0, axis=k)


@traces("gradient")
def gradient(
    recorder: Recorder, f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1
) -> Any:
    """Central differences within, one-sided ones at the ends; even steps are traced."""
    np_ = recorder.namespace
    box = boxed(recorder, f)
    if any(is_symbolic(v) or np.ndim(v) for v in varargs) or edge_order != 1:
        recorder.refuse("MC0241", "np.gradient with uneven steps is not traced")
    axes = range(box.ndim) if axis is None else normalize_axis_tuple(axis, box.ndim)
    steps = list(varargs) * (len(axes) if len(varargs) == 1 else 1) or [1.0] * len(axes)
    box = box.astype(np.float64) if box.dtype.kind in "iu" else box
    found = []
    for k, step in zip(axes, steps, strict=True):
        front = (slice(None),) * k

        def at(a: int | None, b: int | None, front: Any = front) -> Any:
            return box[(*front, slice(a, b))]

        within = (at(2, None) - at(None, -2)) / (2.0 * step)
        first = (at(1, 2) - at(0, 1)) / step
        last = (at(-1, None) - at(-2, -1)) / step
        found.append(np_.concatenate([first, within, last], axis=k))
    return found[0] if len(found) == 1 else tuple(found)


@traces("ediff1d")
def ediff1d(recorder: Recorder, ary: Any) -> Any:
    """Differences between neighbours in row-major order."""
    return recorder.namespace.diff(boxed(recorder, ary).reshape(-1))


@traces("meshgrid")
def meshgrid(
    recorder: Recorder, *xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> Any:
    """Coordinates of a grid."""
    np_ = recorder.namespace
    rank = len(xi)
    lines = [
        boxed(recorder, x).reshape((1,) * k + (-1,) + (1,) * (rank - 1 - k))
        for k, x in enumerate(xi)
    ]
    if indexing == "xy" and rank > 1:
        lines = [np_.swapaxes(v, 0, 1) for v in lines]
    if not sparse:
        lines = np_.broadcast_arrays(*lines)
    return tuple(np_.copy(v) for v in lines) if copy else lines


@traces("indices")
def indices(recorder: Recorder, dimensions: Any, dtype: Any = int, sparse: bool = False) -> Any:
    """The coordinates of each place of a grid."""
    np_ = recorder.namespace
    lines = [np_.arange(n, dtype=dtype) for n in dimensions]
    found = np_.meshgrid(*lines, indexing="ij", sparse=sparse)
    return found if sparse else np_.stack(found)


@traces("ix_", view=True)
def ix_(recorder: Recorder, *args: Any) -> Any:
    """Indices of which each has an axis of its own."""
    rank, lines = len(args), [boxed(recorder, x) for x in args]
    for x in lines:
        if x.ndim != 1:
            raise ValueError("Cross index must be 1 dimensional")
        if x.dtype.kind == "b" or not x.size:
            recorder.refuse("MC0241", "np.ix_ of masks or of nothing is not traced")
    return tuple(x.reshape((1,) * k + (-1,) + (1,) * (rank - 1 - k)) for k, x in enumerate(lines))


@traces("resize")
def resize(recorder: Recorder, a: Any, new_shape: Any) -> Any:
    """The elements, over and over, under a shape."""
    np_ = recorder.namespace
    line = boxed(recorder, a).reshape(-1)
    shape = (new_shape,) if isinstance(new_shape, (int, np.integer)) else tuple(new_shape)
    size = math.prod(shape)
    times = -(-size // max(line.size, 1))
    return np_.tile(line, times)[:size].reshape(shape)


@traces("dstack")
def dstack(recorder: Recorder, tup: Sequence[Any]) -> Any:
    """Arrays one after the other along the third axis."""
    np_ = recorder.namespace
    return np_.concatenate([np_.atleast_3d(a) for a in tup], axis=2)


@traces("block")
def block(recorder: Recorder, arrays: Any) -> Any:
    """A matrix of blocks, nested as they are to lie."""
    np_ = recorder.namespace

    def depth(x: Any) -> int:
        return 1 + depth(x[0]) if isinstance(x, list) else 0

    levels = depth(arrays)

    def rank_of(x: Any) -> int:
        return max(map(rank_of, x)) if isinstance(x, list) else np_.ndim(x)

    rank = max(levels, rank_of(arrays))

    def join(x: Any, level: int) -> Any:
        if isinstance(x, list):
            return np_.concatenate([join(e, level - 1) for e in x], axis=-level)
        box = boxed(recorder, x)
        return box.reshape((1,) * (rank - box.ndim) + box.shape)

    return join(arrays, levels)


_LONG = 384  # weights whose ends are short in any case
_LONGER = 16  # how much longer a vector is than its weights where the ends take little time


@traces("convolve")
def convolve(recorder: Recorder, a: Any, v: Any, mode: str = "full") -> Any:
    """The sums of products of a vector with another, reversed, at each shift."""
    np_ = recorder.namespace
    x, w = (np_.atleast_1d(boxed(recorder, u)) for u in (a, v))
    if x.ndim > 1 or w.ndim > 1:
        raise ValueError("object too deep for desired array")
    if len(w) > len(x):
        x, w = w, x
    n, m = len(x), len(w)
    if mode not in ("valid", "same", "full"):
        raise ValueError(f"mode must be one of 'valid', 'same', or 'full' (got {mode!r})")
    x, w = (u.astype(np.result_type(x.dtype, w.dtype)) for u in (x, w[::-1]))
    if mode != "valid" and m > _LONG and n < _LONGER * m:
        recorder.refuse("MC0241", "the ends of a long convolution take longer than NumPy's own")
    inner = _frames(recorder, x, 0, m) @ w
    if mode == "valid" or m == 1:
        return inner
    # at the ends fewer meet; what meets nothing is left out, as an infinity times a zero is NaN
    places = np.add.outer(np.arange(m - 1), np.arange(m))
    ends = ((x[: m - 1], (m - 1, 0), places >= m - 1), (x[n - m + 1 :], (0, m - 1), places < m - 1))
    first, last = (
        _total(np_, np_.where(there, _frames(recorder, np_.pad(part, around), 0, m) * w, 0))
        for part, around, there in ends
    )
    whole = np_.concatenate([first.astype(x.dtype), inner, last.astype(x.dtype)])
    start = (m - 1) // 2
    return whole[start : start + n] if mode == "same" else whole


def _total(np_: Any, rows: Any) -> Any:
    return np_.any(rows, axis=1) if rows.dtype == bool else np_.sum(rows, axis=1)


def _frames(recorder: Recorder, box: Tracer, axis: int, size: int) -> Tracer:
    return Tracer(recorder, recorder.emit(graph.Frames, box.value(), axis, size))


@traces("correlate")
def correlate(recorder: Recorder, a: Any, v: Any, mode: str = "valid") -> Any:
    """The sums of products of a vector with another at each shift."""
    x, w = (recorder.namespace.atleast_1d(boxed(recorder, u)) for u in (a, v))
    if len(w) > len(x):
        recorder.refuse("MC0241", "np.correlate with a longer second vector is not traced")
    return convolve(recorder, x, w[::-1], mode)


@traces("isin")
def isin(recorder: Recorder, element: Any, test_elements: Any, *, invert: bool = False) -> Any:
    """Whether each element is one of some few."""
    np_ = recorder.namespace
    box, tests = boxed(recorder, element), boxed(recorder, test_elements).reshape(-1)
    if tests.size > _TAPS:
        recorder.refuse("MC0241", "np.isin of many elements is not traced")
    found = np_.any(box[..., None] == tests, axis=-1)
    return ~found if invert else found


@traces("select")
def select(recorder: Recorder, condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """The first choice whose condition holds."""
    np_ = recorder.namespace
    out = default
    for k, condition in enumerate(condlist):
        if np_.asarray(condition).dtype != bool:
            raise TypeError(f"invalid entry {k} in condlist: should be boolean ndarray")
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        out = np_.where(condition, choice, out)
    return out


@traces(
    "lib.stride_tricks.sliding_window_view",
    "lib._stride_tricks_impl.sliding_window_view",
    view=True,
)
def sliding_window_view(
    recorder: Recorder, x: Any, window_shape: Any, axis: Any = None, *, writeable: bool = False
) -> Any:
    """All windows of a shape, as new last axes, a view that is not written to."""
    box = boxed(recorder, x)
    real = np.lib.stride_tricks.sliding_window_view
    if writeable:
        return Dispatch.view(recorder, "as_strided", real, (box, window_shape, axis), _WRITEABLE)
    return box.look(
        Lens(
            ("windows", str(window_shape), str(axis)),
            lambda array: real(array, window_shape, axis),
            lambda value: _windows(recorder, Tracer(recorder, value), window_shape, axis).value(),
            None,
        )
    )


_WRITEABLE = {"writeable": True}


def _windows(recorder: Recorder, box: Tracer, window_shape: Any, axis: Any) -> Any:
    sizes = (window_shape,) if isinstance(window_shape, (int, np.integer)) else tuple(window_shape)
    axes = (
        range(box.ndim)
        if axis is None
        else normalize_axis_tuple(axis, box.ndim, allow_duplicate=True)
    )
    if len(sizes) != len(axes):
        raise ValueError("there must be one window size for each axis")
    for k, size in zip(axes, sizes, strict=True):
        if size > box.shape[k]:
            raise ValueError("window shape cannot be larger than input array shape")
        box = _frames(recorder, box, int(k), int(size))
    return box


@traces("linalg.matrix_power")
def matrix_power(recorder: Recorder, a: Any, n: int) -> Any:
    """A matrix times itself, by squaring."""
    np_ = recorder.namespace
    box = boxed(recorder, a)
    if box.ndim < 2 or box.shape[-1] != box.shape[-2]:
        wrong = (*(1,) * (box.ndim - 1), 2)[: box.ndim]
        np.linalg.matrix_power(np.zeros(wrong), n)  # raises NumPy's error
    if n < 0:
        recorder.refuse("MC0241", "np.linalg.matrix_power with a negative power is not traced")
    out: Any = None
    while n:
        if n & 1:
            out = box if out is None else np_.matmul(out, box)
        n >>= 1
        box = np_.matmul(box, box) if n else box
    if out is None:
        out = np_.zeros_like(box)
        out[...] = np.eye(box.shape[-1], dtype=box.dtype)
    return out


@traces("linalg.multi_dot")
def multi_dot(recorder: Recorder, arrays: Sequence[Any]) -> Any:
    """The product of three matrices in the order that takes fewer multiplications, as NumPy's."""
    a, b, c = (boxed(recorder, x) for x in arrays) if len(arrays) == 3 else (None,) * 3
    if a is None or b is None or c is None or b.ndim != 2:
        recorder.refuse("MC0241", "np.linalg.multi_dot of other than three matrices is not traced")
    rows, columns = (1 if a.ndim < 2 else len(a)), (1 if c.ndim < 2 else c.shape[1])
    m, n = b.shape
    dot = recorder.namespace.dot
    if rows * n * (m + columns) < m * columns * (rows + n):
        return dot(dot(a, b), c)
    return dot(a, dot(b, c))


@traces("result_type")
def result_type(recorder: Recorder, *xs: Any) -> Any:
    """NumPy's promotion, by types alone."""
    return np.result_type(*[x.dtype if isinstance(x, Tracer) else x for x in xs])


@traces("can_cast")
def can_cast(recorder: Recorder, from_: Any, to: Any, casting: Any = "safe") -> bool:
    """NumPy's rule, by types alone."""
    source = from_.dtype if isinstance(from_, Tracer) else from_
    return bool(np.can_cast(source, to, casting))


def _shares(real: Any) -> Any:
    def shares(recorder: Recorder, a: Any, b: Any, max_work: Any = None) -> bool:
        roots = {id(x.root) for x in (a, b) if isinstance(x, Tracer)}
        if len(roots.intersection(map(id, recorder.begun))) == 2:
            recorder.refuse("MC0241", f"np.{real.__name__} of two arguments is not traced")
        if not isinstance(a, Tracer) or not isinstance(b, Tracer) or a.root is not b.root:
            return False
        if any(key[0] == "place" for x in (a, b) for key in x.moves()[0]):
            recorder.refuse("MC0241", f"np.{real.__name__} of views at places that data give")
        base = solid(a.root)
        return bool(real(*[Shown(False, *x.moves()).of(base) for x in (a, b)]))

    return shares


traces("shares_memory")(_shares(np.shares_memory))
traces("may_share_memory")(_shares(np.may_share_memory))
