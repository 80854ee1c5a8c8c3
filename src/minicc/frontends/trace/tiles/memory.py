"""Buffers of a kernel: its parameters and its scratch, of which tiles are read and written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from minicc.frontends.trace.tiles.coordinates import Mask
from minicc.frontends.trace.tiles.numbers import dim_of, is_number, number
from minicc.frontends.trace.tiles.recording import Scope, current, wrong
from minicc.frontends.trace.tiles.tile import Shape, Tile, broadcast, element_of, tile_of
from minicc.ir import affine, kernel
from minicc.ir.affine import Dim
from minicc.ir.core import Value
from minicc.ir.types import BufferType


class Part(NamedTuple):
    """So many elements from a place on, `step` apart: what `tl.ds` gives."""

    start: Any
    size: int
    step: int = 1


class Place(NamedTuple):
    """A tile of a buffer: an expression an axis, the tile's extents, how many are there."""

    at: tuple[Dim, ...]
    shape: Shape
    within: Dim | None

    def reached(self) -> tuple[tuple[Value, ...], dict[str, Any]]:
        """The indices that a load or store there takes, and its attributes."""
        dims = self.at if self.within is None else (*self.at, self.within)
        values, placed = current().addressed(dims)
        within = None if self.within is None else placed.pop()
        return values, {"at": tuple(placed), "within": within}


class Buffer:
    """Memory with a shape; `buffer[row, j : j + 64]` reads a tile, an assignment writes one."""

    __slots__ = ("_type", "_value", "_writable")
    __array_ufunc__ = None

    def __init__(self, value: Value, writable: bool) -> None:
        self._value = value
        self._type: BufferType = value.type
        self._writable = writable

    @property
    def shape(self) -> tuple[Any, ...]:
        """The extents; a free one is a number that is known when the kernel runs."""
        return tuple(map(number, self._type.shape))

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's type of the elements."""
        return self._type.dtype.numpy

    def __getitem__(self, key: Any) -> Tile:
        return self.load(key, None)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.store(key, value, None)

    def load(self, key: Any, mask: Any) -> Tile:
        """The tile at a place; elements beyond a mask are not read, and are 0."""
        recording, place = current(), self._place(key, mask)
        values, attrs = place.reached()
        op = recording.add(kernel.Load, self._value, values, shape=place.shape, **attrs)
        assert isinstance(op, kernel.Load)
        return _known(op, recording.scope if self._writable else None)

    def prefetch(self, key: Any) -> None:
        """Bring a tile's memory nearer, which may lie outside of the buffer."""
        place = self._place(key, None)
        values, attrs = place.reached()
        current().add(kernel.Prefetch, self._value, values, at=attrs["at"], shape=place.shape)

    def store(self, key: Any, value: Any, mask: Any) -> None:
        """Write a tile, repeated to the extents of its place, as the buffer's element type."""
        if not self._writable:
            hint = "outputs are the last parameters; tl.alloc gives scratch"
            wrong("MC0196", f"{self._value.hint} is an input, and inputs are not written to", hint)
        recording, place = current(), self._place(key, mask)
        tile = tile_of(value, self._type.dtype).astype(self.dtype)
        whole = broadcast(tile, place.shape)
        values, attrs = place.reached()
        recording.add(kernel.Store, self._value, whole.value, values, **attrs)
        recording.writes[self._value] = recording.writes.get(self._value, 0) + 1

    def _place(self, key: Any, mask: Any) -> Place:
        keys = list(key) if isinstance(key, tuple) and not isinstance(key, Part) else [key]
        extents, rank = self._type.shape, self._type.rank
        dots = [k for k, item in enumerate(keys) if item is Ellipsis] or [len(keys)]
        given = sum(item is not Ellipsis for item in keys)
        if given > rank:
            wrong("MC0191", f"{given} places in a buffer of {rank} axes")
        keys[dots[0] : dots[0] + 1] = [slice(None)] * (rank - given)
        at: list[Dim] = []
        shape: list[int] = []
        for k, (item, extent) in enumerate(zip(keys, extents, strict=True)):
            if isinstance(item, slice | Part):
                start, count, step = _part(item, extent, k)
                at.append(start + affine.symbol(f"t{len(shape)}") * step)
                shape.append(count)
            else:
                at.append(_one(item, extent, k))
        return Place(tuple(at), tuple(shape), _within(mask, tuple(shape)))

    def __repr__(self) -> str:
        return f"<{self._type}>"


def _part(item: slice | Part, extent: Dim, axis: int) -> tuple[Dim, int, int]:
    """The first place of a part of an axis, how many there are, and the step between them."""
    step = item.step or 1
    if not isinstance(step, int) or step < 1:
        wrong("MC0194", f"a step of {step} along axis {axis}", "steps are numbers of at least 1")
    start: Dim
    size: Dim
    if isinstance(item, Part):
        start, size = dim_of(item.start), item.size
    else:
        start = 0 if item.start is None else _from_end(dim_of(item.start), extent)
        stop = extent if item.stop is None else _from_end(dim_of(item.stop), extent)
        size = affine.ceildiv(stop - start, step)
    if not isinstance(size, int) or size < 1:
        text = f"a tile has {size} elements along axis {axis}, which is no number of at least 1"
        wrong("MC0194", text, "x[j : j + 64] and tl.ds(j, 64) have 64")
    return start, size, step


def _from_end(place: Dim, extent: Dim) -> Dim:
    return place + extent if isinstance(place, int) and place < 0 else place


def _one(item: Any, extent: Dim, axis: int) -> Dim:
    """A single place along an axis: a number, or a tile of one integer, which is checked."""
    if is_number(item):
        return _from_end(dim_of(item), extent)
    if isinstance(item, Tile) and item.dtype.kind in "iu" and max(item.shape, default=1) == 1:
        checked = current().emit(kernel.Check, item.value, extent=extent)
        return affine.symbol(current().fresh(checked))
    hint = "numbers and tiles of one integer do; x[i : i + 8] and tl.ds(i, 8) make axes"
    wrong("MC0194", f"axis {axis} is read at {item!r}, which is no place", hint)


def _within(mask: Any, shape: Shape) -> Dim | None:
    """How many elements along the last axis of a tile are there."""
    if mask is None:
        return None
    leading = {f"t{k}" for k in range(mask.ndim - 1)} if isinstance(mask, Mask) else set()
    if not isinstance(mask, Mask) or affine.symbols(mask.within) & leading:
        hint = "j + tl.arange(64) < n does; where rows are fewer, shift the last tile back"
        wrong("MC0194", "a load or store takes a mask that ends each row at one place", hint)
    if not shape or mask.shape[-1] != shape[-1]:
        wrong("MC0191", f"a mask of {list(mask.shape)} for a tile of {list(shape)}")
    return mask.within


def scratch(shape: Sequence[int], dtype: Any) -> Buffer:
    """Memory of the instance, which nobody else sees, and which is undefined at first."""
    made = current().scratch(BufferType(element_of(dtype), tuple(shape)))
    return Buffer(made, writable=True)


def spilled(tile: Tile) -> Buffer:
    """A tile in memory of the instance."""
    buffer = scratch(tile.shape, tile.dtype)
    buffer.store(..., tile, None)
    return buffer


def loaded(tile: Tile) -> kernel.Load | None:
    """The load that gave a tile, where the same load would give it here, too."""
    recording = current()
    found = recording.loads.get(tile.value) if type(tile) is Tile else None
    if found is None or found[0].within is not None:
        return None
    op, scope, writes = found
    same = scope is recording.scope and writes == recording.writes.get(op.buffer, 0)
    return op if scope is None or same else None


def reread(load: kernel.Load, indices: Sequence[Value], at: tuple[Dim, ...], shape: Shape) -> Tile:
    """What a load gives that takes the memory of another one in another order."""
    recording = current()
    scope = recording.loads[load.result][1]
    op = recording.add(kernel.Load, load.buffer, tuple(indices), at=at, shape=shape)
    assert isinstance(op, kernel.Load)
    return _known(op, scope and recording.scope)


def _known(op: kernel.Load, scope: Scope | None) -> Tile:
    """The tile of a load that others may repeat: within `scope`, or anywhere without one."""
    recording = current()
    recording.loads[op.result] = op, scope, recording.writes.get(op.buffer, 0)
    return Tile(op.result, recording.scope, op.result.type)
