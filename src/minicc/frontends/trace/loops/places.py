"""Views at places that data give: `x[k]` where `k` is an element of an array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minicc.frontends.trace.lens import Lens
from minicc.frontends.trace.numbers import Number
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.tracer import Tracer
from minicc.ir import graph
from minicc.ir.core import Array, Value
from minicc.ir.types import I64

Key = tuple[Any, ...]


class Place:
    """An integer of an index that data give, in a box that lives as long as the views at it."""

    __slots__ = ("box",)

    def __init__(self, box: Tracer) -> None:
        self.box = box

    def __eq__(self, other: object) -> bool:
        return type(other) is Place and self.box.content is other.box.content


def parts_of(index: Any) -> tuple[Any, ...]:
    """The parts of an index."""
    return index if isinstance(index, tuple) else (index,)


def without_numbers(index: Any) -> Any:
    """An index with traced scalars in the places of ints that data give."""
    if not any(type(p) is Number for p in parts_of(index)):
        return index
    made = tuple([
        Tracer(p.box.recorder, p.box.content, scalar=True)
        if type(p) is Number and p.kind is int and p.term is None else p
        for p in parts_of(index)
    ])  # fmt: skip
    return made if isinstance(index, tuple) else made[0]


def has_array(index: Any) -> bool:
    """Whether an array stands in an index, for which NumPy copies; scalars are none."""
    return any(
        isinstance(p, (np.ndarray, Tracer)) and not getattr(p, "scalar", False)
        for p in parts_of(index)
    )


def with_places(recorder: Recorder, index: Any, key: Key) -> Key | None:
    """The parts of an index where data give integers alone, no arrays; None for others."""
    made: list[Any] = []
    for given, part in zip(parts_of(index), key, strict=True):
        if isinstance(part, Value):
            if not getattr(given, "scalar", False) or not part.type.dtype.is_integer:
                return None
            made.append(Place(Tracer(recorder, part, scalar=True)))
        elif isinstance(part, np.ndarray):
            return None
        else:
            made.append(part)
    return tuple(made)


def place_lens(
    key: Key, read: Callable[[Any, Key], Value], written: Callable[[Value, Value, Key], Value]
) -> Lens:
    """What `array[key]` shows, for the functions that read and write at an index."""

    def now() -> Key:
        return tuple([p.box.content if type(p) is Place else p for p in key])

    def move(array: Array) -> Array:
        # only to ask how it lies in memory, which is the same at all places
        view: Array = array[tuple([0 if type(p) is Place else p for p in key])]
        return view

    return Lens(
        ("place", key),
        move,
        lambda content: read(content, now()),
        lambda base, new: written(base, new, now()),
        moves=True,
    )


def index_vectors(recorder: Recorder, key: Key) -> Value | None:
    """Integers for the first axes as vectors along a last axis; None where the key is another."""
    kinds = [p.type.dtype.kind if isinstance(p, Value) else np.asarray(p).dtype.kind
             for p in key if type(p) is int or isinstance(p, (np.ndarray, Value))]  # fmt: skip
    if len(kinds) < len(key) or "b" in kinds or not any(isinstance(p, Value) for p in key):
        return None
    whole = [p if isinstance(p, Value) else recorder.lift(np.asarray(p)) for p in key]
    parts = [recorder.cast(p, I64) for p in whole]
    shape = np.broadcast_shapes(*[p.type.extents for p in parts])
    lines = [recorder.reshape(recorder.broadcast(p, shape), (*shape, 1)) for p in parts]
    return lines[0] if len(lines) == 1 else recorder.emit(graph.Concat, lines, len(shape))
