"""Indexing: reading `u[...]`, and writing `u[...] = v` by building the array that results.

A basic index (numbers, slices, None, an ellipsis) reads a view. Index arrays gather. A mask may be
assigned through, and read here only where it is a constant (see `masks`).
"""

from __future__ import annotations

import math
import operator
from typing import Any, NoReturn

import numpy as np

from minicc.frontends.trace.dispatch import content_of, value_of
from minicc.frontends.trace.lens import Content, Lens
from minicc.frontends.trace.loops.data_sizes import with_sizes
from minicc.frontends.trace.loops.extents import Extent, cut_of
from minicc.frontends.trace.loops.moving import moves, moving_lens, require_fits, round_key
from minicc.frontends.trace.loops.places import (
    has_array,
    index_vectors,
    place_lens,
    with_places,
    without_numbers,
)
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import Dispatch, traces
from minicc.frontends.trace.tracer import Tracer
from minicc.ir import graph
from minicc.ir.core import Array, Value
from minicc.ir.types import BOOL, I64
from minicc.library.taking import by_slices

Key = tuple[Any, ...]
FLAT = ("flat",)  # the key of a view that stands for NumPy's flat iterator
Cut = tuple[int, int, int]  # start, stop, step of one axis


def _number(x: Any) -> Any:
    return None if x is None else operator.index(x)


def normal_key(recorder: Recorder, key: Any) -> Key:
    """The parts of an index: plain ints, slices of ints, None, Ellipsis, arrays, traced values."""
    parts: list[Any] = []
    for part in key if isinstance(key, tuple) else (key,):
        if part is None or part is Ellipsis:
            parts.append(part)
        elif isinstance(part, slice):
            parts.append(slice(_number(part.start), _number(part.stop), _number(part.step)))
        elif isinstance(part, Tracer):
            parts.append(_index_array(part.content))
        elif isinstance(part, (bool, np.bool_)):
            recorder.refuse("MC0246", "an index that is True or False is not traced")
        elif isinstance(part, (int, np.integer)):
            parts.append(int(part))
        elif isinstance(part, list) and not part:
            parts.append(np.empty(0, np.intp))
        else:
            parts.append(_index_array(content_of(recorder, part)))
    return tuple(parts)


def _index_array(content: Content) -> Any:
    if isinstance(content, np.ndarray) and content.ndim == 0 and content.dtype.kind in "iu":
        return int(content)
    return content


def is_basic(key: Key) -> bool:
    """Whether the index holds no array."""
    return not any(isinstance(part, (np.ndarray, Value)) for part in key)


def _expanded(key: Key, rank: int) -> list[Any]:
    """The parts with slices for the ellipsis and for the axes that are not named."""
    named = 0
    for part in key:
        if isinstance(part, (np.ndarray, Value)):
            named += part.ndim if isinstance(part, np.ndarray) and not _is_integer(part) else 1
        else:
            named += part is not None and part is not Ellipsis
    if named > rank:
        raise IndexError(f"too many indices: {named} for an array of {rank} axes")
    rest = [slice(None)] * (rank - named)
    at = next((k for k, part in enumerate(key) if part is Ellipsis), len(key))
    if any(part is Ellipsis for part in key[at + 1 :]):
        raise IndexError("an index can only have a single ellipsis ('...')")
    return [*key[:at], *rest, *key[at + 1 :]]


def _cuts(parts: list[Any], shape: tuple[int, ...]) -> tuple[list[Cut], list[int], list[int]]:
    """Per axis its cut; the shape after cutting, without and with the axes of plain numbers."""
    cuts: list[Cut] = []
    kept: list[int] = []
    full: list[int] = []
    for part in parts:
        if part is None:
            kept.append(1)
            continue
        n = shape[len(cuts)]
        if isinstance(part, int):
            if not -n <= part < n:
                raise IndexError(
                    f"index {part} is out of bounds for axis {len(cuts)} with size {n}"
                )
            at = part if part >= 0 else n + part
            cuts.append((at, at + 1, 1))
            full.append(1)
            continue
        start, stop, step = cut_of(part, n)
        extent = _length(start, stop, step)
        cuts.append((start, stop, step) if extent else (0, 0, 1))
        kept.append(extent)
        full.append(extent)
    return cuts, kept, full


def _length(start: int, stop: int, step: int) -> int:
    """How many elements a cut takes; its ends are in order."""
    if step > 0 and isinstance(stop - start, Extent):
        return (stop - start + (step - 1)) // step
    return len(range(start, stop, step)) if step != -1 or stop != -1 else start + 1


def cut(recorder: Recorder, value: Value, cuts: list[Cut]) -> Value:
    """A strided slice, or the value itself where it takes everything."""
    if all(c == (0, n, 1) for c, n in zip(cuts, value.type.extents, strict=True)):
        return value
    starts, stops, steps = (tuple(c[k] for c in cuts) for k in range(3))
    return recorder.emit(graph.Slice, value, starts, stops, steps)


def index_lens(recorder: Recorder, key: Key, shape: tuple[int, ...]) -> Lens:
    """What `array[key]` shows of an array of a shape, for a basic index."""
    cuts, kept, full = _cuts(_expanded(key, len(shape)), shape)

    def emit(value: Value) -> Value:
        return recorder.reshape(cut(recorder, value, cuts), tuple(kept))

    def put(base: Value, new: Value) -> Value:
        return _put(recorder, base, _fit(recorder, new, base, kept, full), cuts)

    return Lens(("index", key), lambda array: array[key], emit, put)


@traces("__getitem__")
def getitem(recorder: Recorder, box: Tracer, index: Any) -> Any:
    """`box[index]`: a view for a basic index, else a new array."""
    index = with_sizes(recorder, without_numbers(index), box.shape)
    if moves(index):
        steps = _in_two(index)
        return box[steps[0]][steps[1]] if steps else _at_round(recorder, box, index)
    key = normal_key(recorder, index)
    if is_basic(key):
        lens = index_lens(recorder, key, box.shape)
        if len(key) < box.ndim or not all(isinstance(part, int) for part in key):
            view = box.look(lens)
            base = box.looks_at()
            copies = base is not None and base[1].key == FLAT  # as NumPy's iterator does
            if copies or has_array(index):
                return Dispatch.call(recorder, "copy", (view,), {})
            return view
        content = lens.read(box.content)
        return Tracer(recorder, content, scalar=True) if isinstance(content, Value) else content
    content = box.content
    if isinstance(content, np.ndarray) and not any(isinstance(part, Value) for part in key):
        return Tracer(recorder, content[key])
    places = with_places(recorder, index, key)
    if places is not None:
        lens = _place_lens(recorder, places, box)
        if lens.move(box.shadow()).ndim:
            return box.look(lens)
    made = Tracer(recorder, _advanced(recorder, box.value(), _expanded(key, box.ndim)))
    made.scalar = places is not None and not made.ndim
    return made


def _place_lens(recorder: Recorder, places: Key, box: Tracer) -> Lens:
    rank = box.ndim

    def read(content: Content, key: Key) -> Value:
        value = content if isinstance(content, Value) else recorder.lift(content)
        return _advanced(recorder, value, _expanded(key, rank))

    def written(base: Value, new: Value, key: Key) -> Value:
        return _put_at_places(recorder, Tracer(recorder, base), _expanded(key, rank), new)

    return place_lens(places, read, written)


def _put_at_places(recorder: Recorder, box: Tracer, parts: list[Any], new: Value) -> Value:
    """The whole array after what an index shows was replaced, chosen along axes of places."""
    np_ = recorder.namespace
    whole: Any = box[tuple([slice(None) if isinstance(p, Value) else p for p in parts])]
    kept = [p for p in parts if not isinstance(p, int)]
    chosen: Any = np.bool_(True)
    for axis, place in enumerate(kept):
        if isinstance(place, Value):
            line = recorder.emit(graph.Iota, (whole.shape[axis],), 0, I64)
            at = recorder.emit_unsure(graph.Gather, line, _integer(recorder, place), 0)
            there = Tracer(recorder, line) == Tracer(recorder, at)
            chosen = chosen & there.reshape(-1, *(1,) * (whole.ndim - axis - 1))
    axes = tuple(k for k, p in enumerate(kept) if isinstance(p, Value))
    value = np_.expand_dims(Tracer(recorder, recorder.cast(new, recorder.dtype(box.dtype))), axes)
    whole[...] = np_.where(chosen, value, whole)
    return box.value()


def _in_two(index: Any) -> tuple[Key, Key] | None:
    """What rounds and slices say of an index, and then what data do; None where data do not."""
    parts = index if isinstance(index, tuple) else (index,)
    data = [isinstance(p, Tracer) and p.symbolic and p.dtype.kind in "iu" for p in parts]
    if not any(data) or any(p is Ellipsis or p is None for p in parts):
        return None
    places = [k for k, p in enumerate(parts) if type(p) is not slice]
    apart = places[-1] - places[0] >= len(places)
    if apart and any(p.ndim for p, by_data in zip(parts, data, strict=True) if by_data):
        return None  # NumPy puts such axes first
    pairs = list(zip(parts, data, strict=True))
    first = tuple([slice(None) if by_data else p for p, by_data in pairs])
    return first, tuple([p if by_data else slice(None) for p, by_data in pairs
                         if by_data or type(p) is slice])  # fmt: skip


def _at_round(recorder: Recorder, box: Tracer, index: Any) -> Tracer:
    """`box[index]` where a captured loop's index stands in the index."""
    lens = moving_lens(recorder, index, box, lambda key: index_lens(recorder, key, box.shape))
    base = box.symbolise()
    if lens.move(box.shadow()).ndim:
        return box.look(lens)
    return Tracer(recorder, lens.emit(base), scalar=True)


def _written(recorder: Recorder, box: Tracer, key: Key, new: Any) -> Content:
    """The whole array after `box[key] = new` for a basic index."""
    content = box.content
    if isinstance(content, np.ndarray) and isinstance(new, np.ndarray):
        changed = content.copy()
        changed[key] = new
        return changed
    value = new if isinstance(new, Value) else recorder.lift(np.asarray(new))
    put = index_lens(recorder, key, box.shape).put
    assert put is not None
    whole: Value = put(value_of(recorder, box), value)
    return whole


def _fit(recorder: Recorder, new: Any, base: Value, kept: list[int], full: list[int]) -> Value:
    """A new part as it fills the region: cast, repeated, and with the axes of numbers put back."""
    value = new if isinstance(new, Value) else recorder.lift(np.asarray(new))
    value = recorder.cast(value, base.type.dtype)
    extents = value.type.extents
    surplus = len(extents) - len(kept)
    if surplus > 0 and all(n == 1 for n in extents[:surplus]):
        value = recorder.reshape(value, extents[surplus:])
    return recorder.reshape(recorder.broadcast(value, tuple(kept)), tuple(full))


def _put(recorder: Recorder, base: Value, new: Value, cuts: list[Cut]) -> Value:
    """`base` with the region of `cuts` replaced by `new`."""
    extents, taken = base.type.extents, new.type.extents
    if all(c == (0, n, 1) for c, n in zip(cuts, extents, strict=True)):
        return new
    if 0 in taken:
        return base
    # what goes backwards is written from its other end
    turned = [(n - 1, -1, -1) if c[2] < 0 else (0, n, 1) for c, n in zip(cuts, taken, strict=True)]
    starts = [
        start + (n - 1) * step if step < 0 else start
        for (start, _, step), n in zip(cuts, taken, strict=True)
    ]
    new = cut(recorder, new, turned)
    return recorder.emit(
        graph.InsertSlice, base, new, tuple(starts), tuple(abs(c[2]) for c in cuts)
    )


@traces("__setitem__")
def setitem(recorder: Recorder, box: Tracer, index: Any, new: Any) -> None:
    """`box[index] = new`: slices, masks and index arrays."""
    index = with_sizes(recorder, without_numbers(index), box.shape)
    require_fits(recorder, new, box.dtype)
    if moves(index):
        steps = _in_two(index)
        if steps:
            box[steps[0]][steps[1]] = new
            return
        if not (isinstance(new, Tracer) and new.is_view_of(box, round_key(index))):
            _put_at_round(recorder, box, index, new)
        return
    key = normal_key(recorder, index)
    if is_basic(key):
        if not (isinstance(new, Tracer) and new.is_view_of(box, ("index", key))):
            box.content  # noqa: B018  # what the host must read ends the segment, so it comes first
            box.assign(_written(recorder, box, key, content_of(recorder, new)))
        return
    content, given = box.content, content_of(recorder, new)
    if isinstance(content, np.ndarray) and isinstance(given, np.ndarray) and not any(
        isinstance(part, Value) for part in key
    ):  # fmt: skip
        changed = content.copy()
        changed[key] = given
        box.assign(changed)
        return
    value = given if isinstance(given, Value) else recorder.lift(given)
    places = with_places(recorder, index, key)
    lens = None if places is None else _place_lens(recorder, places, box)
    if lens is not None and lens.put is not None and (like := lens.move(box.shadow())).ndim:
        if not (isinstance(new, Tracer) and new.is_view_of(box, lens.key)):
            base, shape = box.value(), list(like.shape)
            box.assign(lens.put(base, _fit(recorder, value, base, shape, shape)))
        return
    mask = key[0] if len(key) == 1 else None
    if isinstance(mask, (np.ndarray, Value)) and not _is_integer(mask):
        chosen = value_of(recorder, Tracer(recorder, mask))
        if _write_where(recorder, box, chosen, value):
            return
    box.assign(put_at(recorder, box, key, value, "none"))


def _put_at_round(recorder: Recorder, box: Tracer, index: Any, new: Any) -> None:
    lens = moving_lens(recorder, index, box, lambda key: index_lens(recorder, key, box.shape))
    base = box.symbolise()
    kept = list(lens.emit(base).type.extents)
    value = _fit(recorder, content_of(recorder, new), base, kept, kept)
    assert lens.put is not None
    box.assign(lens.put(base, value))


def _write_where(recorder: Recorder, box: Tracer, mask: Value, new: Value) -> bool:
    """`box[mask] = new` as a choice; False where each True takes another element of `new`."""
    extents = mask.type.extents
    if extents != box.shape[: len(extents)]:
        raise IndexError(f"a mask of shape {extents} does not fit an array of {box.shape}")
    rest = box.shape[len(extents) :]
    surplus = new.type.rank - len(rest)
    if surplus > 0:
        if any(n != 1 for n in new.type.extents[:surplus]):
            return False
        new = recorder.reshape(new, new.type.extents[surplus:])
    if not extents:
        return False
    chosen = recorder.reshape(mask, (*extents, *(1,) * len(rest)))
    value = recorder.cast(new, recorder.dtype(box.dtype))
    box.assign(recorder.emit(graph.Select, chosen, value, value_of(recorder, box)))
    return True


def put_at(recorder: Recorder, box: Tracer, key: Key, new: Value, combine: str) -> Value:
    """The whole array after elements at index arrays were replaced, or combined with new ones."""
    if any(isinstance(p, Value) and p.type.dtype is BOOL for p in key):
        refuse_mask(recorder)
    value = recorder.cast(new, recorder.dtype(box.dtype))
    if (vectors := index_vectors(recorder, key)) is not None:
        *front, depth = vectors.type.extents
        value = recorder.broadcast(value, (*front, *box.shape[depth:]))
        return recorder.emit_unsure(graph.ScatterND, box.value(), vectors, value, combine)
    flat = recorder.reshape(box.value(), (box.size,))
    if any(isinstance(part, Value) for part in key):
        line = recorder.emit(graph.Iota, (box.size,), 0, I64)
        places = _advanced(recorder, recorder.reshape(line, box.shape), _expanded(key, box.ndim))
    else:
        fixed = np.asarray(np.arange(box.size).reshape(box.shape)[key])
        if combine == "none":
            value = recorder.broadcast(value, fixed.shape)
            return put_fixed(recorder, box.value(), fixed, value)
        places = recorder.lift(fixed)
    count = math.prod(places.type.extents)
    value = recorder.reshape(recorder.broadcast(value, places.type.extents), (count,))
    flat = recorder.emit_unsure(
        graph.ScatterElements, flat, recorder.reshape(places, (count,)), value, 0, combine
    )
    return recorder.reshape(flat, box.shape)


def put_fixed(recorder: Recorder, base: Value, places: Array, new: Value) -> Value:
    """The same at places that are known: each element is an old one or one of the new."""
    shape = tuple(base.type.extents)
    source = np.full(math.prod(shape), -1)
    source[places.reshape(-1)] = np.arange(places.size)
    if not places.size:
        return base
    flat = recorder.reshape(new, (places.size,))
    spread = taken(recorder, flat, np.maximum(source, 0), 0)
    chosen = recorder.lift((source >= 0).reshape(shape))
    return recorder.emit(graph.Select, chosen, recorder.reshape(spread, shape), base)


_RUNS = 32  # pieces of which elements at known places may be joined


def taken(recorder: Recorder, value: Value, places: Array, axis: int) -> Value:
    """The elements at known places, not negative, along an axis: slices where they form few."""
    found = by_slices(recorder.emit, value, places, axis, _RUNS)
    return (
        recorder.emit(graph.Gather, value, recorder.lift(places), axis) if found is None else found
    )


def refuse_mask(recorder: Recorder) -> NoReturn:
    """An array indexed by a mask, which is left to the host."""
    recorder.refuse(
        "MC0246",
        "an array is indexed by a mask that is not known while tracing, so that the result's "
        "shape depends on data",
        "np.where(mask, array, other) keeps the shape",
    )


def _is_integer(part: Array | Value) -> bool:
    if isinstance(part, Value):
        return bool(part.type.dtype is not BOOL)
    return str(part.dtype.kind) != "b"


def _advanced(recorder: Recorder, value: Value, parts: list[Any]) -> Value:
    """What index arrays take: constant masks become positions, numbers go with the arrays."""
    split: list[Any] = []
    for part in parts:
        if isinstance(part, Value) and part.type.dtype is BOOL:
            refuse_mask(recorder)
        if isinstance(part, np.ndarray) and not _is_integer(part):
            axis = len(split)
            if tuple(value.type.extents[axis : axis + part.ndim]) != part.shape:
                raise IndexError("a mask has other extents than the axes that it is for")
            split.extend(np.nonzero(part))
        else:
            split.append(part)
    arrays = [k for k, p in enumerate(split) if isinstance(p, (np.ndarray, Value))]
    placed = [k for k, p in enumerate(split) if isinstance(p, (np.ndarray, Value, int))]
    together = placed == list(range(placed[0], placed[-1] + 1))
    basic = [slice(None) if k in arrays else p for k, p in enumerate(split)]
    cuts, kept, _ = _cuts(basic, value.type.extents)
    value = recorder.reshape(cut(recorder, value, cuts), tuple(kept))
    # numbers are gone from the axes that are left
    axes = [k - sum(isinstance(p, int) for p in split[:k]) for k in arrays]
    front = axes[0] if together else 0
    return gather(recorder, value, axes, [split[k] for k in arrays], front)


def gather(
    recorder: Recorder, value: Value, axes: list[int], indices: list[Any], front: int
) -> Value:
    """Take at index arrays, one an axis, that broadcast; their axes come to stand at `front`."""
    others = [k for k in range(value.type.rank) if k not in axes]
    value = recorder.transpose(value, (*others[:front], *axes, *others[front:]))
    extents = value.type.extents
    sizes = extents[front : front + len(axes)]
    for k, n in zip(indices, sizes, strict=True):
        if isinstance(k, np.ndarray) and k.size and not (-n <= k.min() and k.max() < n):
            raise IndexError(f"an index is out of bounds for an axis with size {n}")
    if len(axes) == 1 and isinstance(indices[0], np.ndarray) and indices[0].dtype.kind in "iu":
        places = np.where(indices[0] < 0, indices[0] + sizes[0], indices[0])
        flat = taken(recorder, value, places.reshape(-1), front)
        return recorder.reshape(flat, (*extents[:front], *places.shape, *extents[front + 1 :]))
    if len(axes) == 1:
        return recorder.emit_unsure(graph.Gather, value, _integer(recorder, indices[0]), front)
    np_ = recorder.namespace
    total, linear, inside = 1, 0, np.bool_(True)
    for k, n in zip(reversed(indices), reversed(sizes), strict=True):
        place: Any = Tracer(recorder, k if isinstance(k, np.ndarray) else recorder.cast(k, I64))
        inside = np_.logical_and(inside, np_.logical_and(place >= -n, place < n))
        linear = linear + np_.where(place < 0, place + n, place) * total
        total *= n
    # an index outside of its own axis must not be another element of the merged axis
    safe = np_.where(inside, linear, total)
    merged = recorder.reshape(value, (*extents[:front], total, *extents[front + len(axes) :]))
    return recorder.emit_unsure(
        graph.Gather, merged, _integer(recorder, content_of(recorder, safe)), front
    )


def _integer(recorder: Recorder, index: Content) -> Value:
    value = index if isinstance(index, Value) else recorder.lift(index)
    if not value.type.dtype.is_integer:
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    return recorder.cast(value, I64)
