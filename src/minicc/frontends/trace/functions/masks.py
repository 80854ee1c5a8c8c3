"""`x[mask]` where nothing needs to know how many elements that are.

Elements that a mask takes are an array of an extent that data decide. What is computed of each
alone, what is put back where the same mask holds, and what is reduced needs no such array: it is
computed of all elements, and the mask says which are meant. So `x[mask]` is a `Masked`, the array
and the mask apart, until it is asked for something else. Then a symbol says how many elements there
are (`sizes`), and they are gathered; where there is no program with such, NumPy takes them on the
host.

The places of a mask (`np.nonzero(mask)`, `np.where(mask)`) are positions under that mask.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from itertools import takewhile
from types import FrameType
from typing import Any

import numpy as np

from minicc.frontends.trace.functions.formulas import EMIT
from minicc.frontends.trace.host import on_host
from minicc.frontends.trace.loops.extents import Extent, dim_of
from minicc.frontends.trace.loops.gone import Measured
from minicc.frontends.trace.numbers import Number
from minicc.frontends.trace.pending import Pending
from minicc.frontends.trace.pytree import mapped
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import Dispatch
from minicc.frontends.trace.restarts import Counted
from minicc.frontends.trace.tracer import Tracer
from minicc.ir import graph
from minicc.ir.core import Array, Value
from minicc.ir.types import I64, TensorType

_WHY = "an array is indexed by a mask that is not known while tracing"
_TOTALS = ("sum", "prod", "mean", "var", "std", "any", "all", "max", "min", "count_nonzero")
_EACH = ("ndarray.astype", "ndarray.copy", "copy", "clip", "round", "around", "where")
_PASSED = {"axis", "dtype", "ddof"}  # arguments that mean the same of all elements


class Masked(Pending, Measured):
    """The elements of `array` where `mask` holds, not taken yet while it is `pending`.

    In a round of a captured loop, where they can't be taken, the function is told a traced number
    where it asks how many they are.

    Those that are the positions along an axis have its number as `place`. Where NumPy is not to
    take them on the host, `refusal` is the error that says why. Where the mask holds for the first
    ones alone, `count` is how many these are.
    """

    __slots__ = ("array", "columns", "count", "line", "mask", "place", "refusal")

    def __init__(
        self,
        array: Tracer,
        mask: Tracer,
        place: int | None = None,
        columns: list[Tracer] | None = None,
        refusal: BaseException | None = None,
        count: Tracer | None = None,
    ) -> None:
        super().__init__(array)
        self.refusal = refusal
        self.count = count
        self.array = Tracer(array.recorder, array.content)
        self.mask = mask
        self.place = place
        self.columns = columns
        self.line = self.recorder.location(), self.recorder.source()

    def _taken(self) -> Tracer:
        self.recorder.line = self.line
        try:
            return self._elements()
        finally:
            self.recorder.line = None

    def _elements(self) -> Tracer:
        recorder = self.recorder
        counts = recorder.rounds.sizes.counts is not None and not recorder.loops
        if counts and self.mask.symbolic:
            return self._counted()
        if recorder.path is None:
            hint = "np.where(mask, array, other) keeps the shape"
            recorder.refuse("MC0246", f"{_WHY}, so that the result's shape depends on data", hint)
        if not (self.array.symbolic or self.mask.symbolic):
            return Tracer(recorder, self.array.constant("")[self.mask.constant("")])
        late = bool(recorder.path.breaks) and self.refusal is None
        if recorder.path.may_count and not (recorder.loops or late):
            recorder.end(Counted())
        if self.refusal is not None:
            raise self.refusal
        if self.columns is not None:
            alone = self.mask.ndim == 1
            if not self.columns:
                run = _only_column if alone else _table
                self.columns.append(on_host(recorder, "nonzero", run, (self.mask,), {}, _WHY))
            column: Tracer = self.columns[0] if alone else self.columns[0][:, self.place]
            return column
        args = (self.array, self.mask)
        found: Tracer = on_host(recorder, "__getitem__", operator.getitem, args, {}, _WHY)
        return found

    def _counted(self) -> Tracer:
        """The elements, of which a symbol says how many there are."""
        recorder, mask = self.recorder, self.mask
        places = _positions(recorder, mask)
        if self.columns is None:
            value = self.array.value()
            rest = value.type.extents[mask.ndim :]
            flat = recorder.reshape(value, (math.prod(mask.value().type.extents), *rest))
            return Tracer(recorder, recorder.emit(graph.Gather, flat, places.value(), axis=0))
        if mask.ndim == 1:
            return places
        if not self.columns:
            shape = mask.value().type.extents
            along = [_along(places, shape, axis) for axis in range(mask.ndim)]
            self.columns.append(Dispatch.call(recorder, "stack", (along, 1), {}))
        column: Tracer = self.columns[0][:, self.place]
        return column

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's element type."""
        return self.array.dtype

    @property
    def ndim(self) -> int:
        """The number of axes: one for all that the mask has."""
        return 1 + self.array.ndim - self.mask.ndim

    def length(self) -> Any:
        """How many elements there are, as `len` tells it."""
        number = self._number
        return Dispatch.shown(self.recorder, self._extents())[0] if number is None else number

    def _seen_in(self, frame: FrameType) -> tuple[Any, ...]:
        number = self._number if self._is_users(frame) else None
        if number is None:
            return super()._seen_in(frame)
        return (number, *self.array.shape[self.mask.ndim :])

    def _count(self, each: int, frame: FrameType) -> Any:
        number: Any = self._number if self._is_users(frame) else None
        if number is None:
            return super()._count(each, frame)
        return number * (each * math.prod(self.array.shape[self.mask.ndim :]))

    @property
    def _number(self) -> Number | None:
        """How many there are, where they can't be taken."""
        if not (self.pending and self.recorder.loops):
            return None
        return Number(Dispatch.call(self.recorder, "sum", (self.mask,), {}), int, True)

    def spread(self) -> Any:
        """The mask with axes of extent 1 for those of the array that it does not have."""
        mask: Any = self.mask
        return mask[(..., *(None,) * (self.ndim - 1))] if self.ndim > 1 else mask

    def of(self, array: Tracer) -> Masked:
        """The elements of another array that the mask takes."""
        return Masked(array, self.mask, refusal=self.refusal, count=self.count)

    def is_under(self, mask: Any) -> bool:
        """Whether its elements are those where another mask holds."""
        left, right = self.mask.content, mask.content
        if isinstance(left, Value) and isinstance(right, Value):
            return self.recorder.alike(left, right)
        return left is right


def masked(recorder: Recorder, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a call gives without taking elements; NotImplemented where it is none of such."""
    if name == "__getitem__" and type(args[0]) is Tracer:
        found = _read(recorder, *_apart(args[0], args[1]))
        return _at_places(recorder, *args) if found is NotImplemented else found
    if name == "__setitem__" and type(args[0]) is Tracer:
        return _write(args[1], *_apart(args[0], args[1]), args[2])
    if name in ("nonzero", "flatnonzero") or (name == "where" and len(args) == 1):
        return _places(recorder, name, *args)
    if name in _TAKING and not kwargs and type(args[0]) is Tracer and args[0].symbolic:
        return _TAKING[name](recorder, *args)
    held: list[Masked] = []
    mapped(lambda x, at: held.append(x) if _is_pending(x) else None, (args, kwargs))
    if not held:
        return NotImplemented
    done: Any = NotImplemented
    if name in ("array", "asarray") and args[0] is held[0] and kwargs.keys() <= {"dtype"}:
        done = _as_array(recorder, name, held[0], *args[1:], **kwargs)
    elif name in _TOTALS and len(args) < 3 and kwargs.keys() <= _PASSED:
        done = _total(recorder, name, held[0], *args, **kwargs)
    elif _is_of_each(name, args) and all(held[0].is_under(m.mask) for m in held):
        done = _of_each(recorder, name, held, args, kwargs)
    elif name == "__getitem__" and args[0] is held[0]:
        done = _inner(held[0], args[1])
    if done is NotImplemented:
        for m in held:
            m.content  # noqa: B018  # taken before anything else is asked
    return done


def _where(recorder: Recorder, mask: Any) -> Any:
    """`np.argwhere`: the coordinates where elements are not zero, those of one in a row."""
    if not mask.ndim:
        return NotImplemented
    places = Dispatch.call(recorder, "nonzero", (mask,), {})
    return Dispatch.call(recorder, "stack", (places,), {}).T


def _extracted(recorder: Recorder, mask: Any, array: Any) -> Any:
    """`np.extract`: the elements where others are not zero."""
    if not isinstance(array, Tracer) or not mask.ndim or mask.shape != array.shape:
        return NotImplemented
    return array.ravel()[(mask if mask.dtype == bool else mask != 0).ravel()]


def _compressed(recorder: Recorder, mask: Any, array: Any) -> Any:
    """`np.compress` without an axis."""
    return _extracted(recorder, mask, array) if mask.ndim == 1 else NotImplemented


_TAKING: dict[str, Callable[..., Any]] = {
    "argwhere": _where,
    "compress": _compressed,
    "extract": _extracted,
}


def _positions(recorder: Recorder, mask: Tracer) -> Tracer:
    """Where a mask holds, row by row; the same array for masks that are computed alike."""
    value = mask.value()
    for other, known in recorder.counted:
        if recorder.alike(value, other):
            found: Tracer = known
            return found
    rounds = recorder.rounds
    whole = math.prod(value.type.extents)
    extent = rounds.extent(rounds.sizes.count(dim_of(whole)))
    flat = recorder.reshape(value, (whole,))
    types = (TensorType(I64, (extent,)),)
    made = Tracer(recorder, recorder.emit(graph.NonZero, flat, types=types))
    recorder.counted.append((value, made))
    return made


def _along(places: Any, shape: Sequence[int], axis: int) -> Any:
    """The coordinates along an axis of positions that count row by row."""
    behind = math.prod(shape[axis + 1 :])
    return places // behind % shape[axis] if axis else places // behind


def _only_column(mask: Array) -> Array:
    """The positions where a mask of one axis holds."""
    return np.nonzero(mask)[0]


def _table(mask: Array) -> Array:
    """The positions where a mask holds, a row each: of NumPy's arrays of them these are columns."""
    return np.stack(np.nonzero(mask), axis=-1)


def _is_pending(x: Any) -> bool:
    return isinstance(x, Masked) and x.pending


def _mask_of(x: Any) -> Tracer | None:
    """The mask that an index is, or whose places it has along the first axis."""
    if _is_pending(x) and x.place == 0 and x.mask.ndim == 1:
        return x.mask  # type: ignore[no-any-return]
    known = isinstance(x, Tracer) and not _is_pending(x)
    return x if known and x.dtype == bool and x.ndim and x.symbolic else None


def _apart(box: Tracer, index: Any) -> tuple[Tracer, Tracer | None]:
    """What an index with one mask takes, as a mask of a view: `x[mask, 1:]`, `x[k, mask]`."""
    parts = index if isinstance(index, tuple) else (index,)
    first: Any = parts[0] if parts else None
    if _is_pending(first) and len(parts) == first.mask.ndim and all(
        _is_pending(p) and p.place == k and p.is_under(first.mask) for k, p in enumerate(parts)
    ):  # fmt: skip
        return _under(box, first.mask, True)
    masks: list[tuple[int, Any]] = [
        (k, m) for k, m in enumerate(map(_mask_of, parts)) if m is not None
    ]
    if len(masks) != 1:
        return box, None
    at, mask = masks[0]
    front, rest = parts[:at], parts[at + 1 :]
    if not all(map(_is_number, front)) or not all(_is_number(p) or type(p) is slice for p in rest):
        return box, None
    if front and any(type(p) is slice for p in rest):
        return box, None  # the axis of the elements would stand elsewhere
    view: Any = box[front] if front else box
    if rest:
        view = view[(*(slice(None),) * mask.ndim, *rest)]
    return _under(view, mask, _is_pending(parts[at])) if isinstance(view, Tracer) else (box, None)


def _under(box: Any, mask: Any, places: bool) -> tuple[Tracer, Tracer | None]:
    """What a mask is of, as a view of an array: places that it has may be those of a larger one."""
    if mask.ndim > box.ndim:
        return box, None
    gaps = [n - m for n, m in zip(box.shape, mask.shape, strict=False)]
    if all(type(gap) is int and gap == 0 for gap in gaps):
        return box, mask
    if places and all(type(gap) is int and gap >= 0 for gap in gaps):
        return box[tuple(map(slice, mask.shape))], mask
    return box, None


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool)


def _read(recorder: Recorder, box: Tracer, mask: Tracer | None) -> Any:
    if mask is None or (mask.ndim < box.ndim and not box.shadow().flags.c_contiguous):
        return NotImplemented
    return Masked(box, Tracer(recorder, mask.content))


def _at_places(recorder: Recorder, box: Any, index: Any) -> Any:
    """`x[at[mask]]`: the elements at places that a mask takes, and any for other places."""
    parts = index if isinstance(index, tuple) else (index,)
    places: list[Any] = [p for p in parts if _is_pending(p)]
    front = [*takewhile(_is_number, parts)]
    rest = parts[len(front) + len(places) :]
    if not places or [*parts[len(front) : len(front) + len(places)]] != places:
        return NotImplemented
    if not all(p.dtype.kind in "iu" and p.ndim == 1 and p.is_under(places[0].mask) for p in places):
        return NotImplemented
    if not all(type(p) is slice for p in rest):
        return NotImplemented
    view = box[tuple(front)] if front else box
    if not all(isinstance(n, int) and n for n in view.shape[: len(places)]):
        return NotImplemented  # for which there may be no place
    mask = places[0].mask
    at = [Dispatch.call(recorder, "where", (mask, p.array, p.dtype.type(0)), {}) for p in places]
    return places[0].of(view[(*at, *rest)])


def _write(index: Any, box: Any, mask: Tracer | None, new: Any) -> Any:
    """Elements put back where the mask holds that they were taken by, or one value there."""
    if mask is None:
        return NotImplemented
    if not _is_pending(new):
        if mask is index or (not isinstance(new, Number) and np.ndim(new)):
            return NotImplemented
        return Dispatch.call(box.recorder, "__setitem__", (box, mask, new), {})
    if not new.is_under(mask) or new.ndim != 1 + box.ndim - mask.ndim:
        return NotImplemented
    kept = new.array.astype(box.dtype)
    box[...] = Dispatch.call(box.recorder, "where", (new.spread(), kept, box), {})
    return None


def _places(recorder: Recorder, name: str, mask: Any) -> Any:
    """The positions along each axis where elements are not zero."""
    if type(mask) is not Tracer or not mask.symbolic or not mask.ndim:
        return NotImplemented
    if name == "flatnonzero":
        mask = mask.reshape(-1)
    holds = Tracer(recorder, (mask if mask.dtype == bool else mask != 0).content)
    lines = [_line(recorder, mask.shape, axis) for axis in range(mask.ndim)]
    columns: list[Tracer] = []  # of the array of all positions, once any of them is taken
    found = tuple([Masked(line, holds, k, columns) for k, line in enumerate(lines)])
    return found[0] if name == "flatnonzero" else found


def _line(recorder: Recorder, shape: tuple[int, ...], axis: int) -> Tracer:
    """The coordinate of each element along an axis."""
    if any(isinstance(n, Extent) for n in shape):
        return Tracer(recorder, recorder.emit(graph.Iota, shape, axis, I64))
    steps = np.indices(shape, sparse=True)[axis]
    return Tracer(recorder, np.broadcast_to(steps, shape))


def _is_of_each(name: str, args: tuple[Any, ...]) -> bool:
    """Whether a function computes each element of its own alone, and can't raise."""
    if name in _EACH:
        return len(args) > 1 or name != "where"
    ufunc = getattr(np, name, None)
    if name not in EMIT or not isinstance(ufunc, np.ufunc) or ufunc.nout != 1:
        return False
    return name != "power" or args[0].dtype.kind in "fc"


def _of_each(
    recorder: Recorder,
    name: str,
    held: list[Masked],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    kwargs = dict(kwargs)
    out = kwargs.pop("out", None)
    rank = held[0].ndim
    if any(isinstance(x, (Tracer, np.ndarray)) for x in kwargs.values()):
        return NotImplemented
    for x in args:
        if isinstance(x, (list, tuple)):
            return NotImplemented
        n = getattr(x, "ndim", 0) if not isinstance(x, Number) else 0
        if n != rank if _is_pending(x) else n >= rank:
            return NotImplemented
    whole = [x.array if _is_pending(x) else x for x in args]
    result = Dispatch.call(recorder, name, tuple(whole), kwargs)
    if out is None:
        return held[0].of(result)
    target = out[0] if isinstance(out, tuple) else out
    if not _is_pending(target) or not np.can_cast(result.dtype, target.dtype, "same_kind"):
        return NotImplemented
    target.array.assign(result.astype(target.dtype).content)
    target.place, target.columns = None, None  # which are no positions any more
    return target


def _as_array(recorder: Recorder, name: str, held: Masked, dtype: Any = None, *rest: Any) -> Any:
    """The elements as an array of a type: a new one, but for `np.asarray` of those of that type."""
    if rest:
        return NotImplemented
    whole: Any = held.array if dtype is None else held.array.astype(dtype)
    same = name == "asarray" and whole.dtype == held.dtype
    return held if same else held.of(whole)


def _total(
    recorder: Recorder, name: str, held: Masked, a: Any, axis: Any = None, **rest: Any
) -> Any:
    """A reduction of all elements, or along their axis, under the mask."""
    if a is not held or axis not in (None, 0):
        return NotImplemented
    lead = tuple(range(held.mask.ndim))
    array: Any = held.array
    mask = held.spread()
    if name == "count_nonzero":
        name, array, rest = "sum", array.astype(bool), {}
    how: dict[str, Any] = {"axis": axis if axis is None else lead, "where": mask, **rest}
    if name not in ("max", "min"):
        return Dispatch.call(recorder, name, (array,), how)
    if array.dtype.kind not in "iuf":
        return NotImplemented
    limits: Any = np.finfo if array.dtype.kind == "f" else np.iinfo
    least, most = limits(array.dtype).min, limits(array.dtype).max
    if array.dtype.kind == "f":
        least, most = -np.inf, np.inf
    start = array.dtype.type(least if name == "max" else most)
    total = Dispatch.call(recorder, name, (array,), {**how, "initial": start})
    # of nothing NumPy raises: so does an index out of bounds
    nothing = Dispatch.call(recorder, "where", (mask.any(), np.int64(0), np.int64(1)), {})
    return total[None][nothing]


def _inner(held: Masked, index: Any) -> Any:
    """`x[mask][inner]` is what both masks take."""
    if not _is_pending(index) or index.dtype != bool or index.ndim != 1:
        return NotImplemented
    if not held.is_under(index.mask):
        return NotImplemented
    return Masked(held.array, held.mask & index.array)
