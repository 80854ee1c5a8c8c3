"""Memory while a kernel is interpreted, and where the elements of a tile lie in it.

A coordinate is most often a sum of what the instance's indices give and what the place in the tile
gives. The second part is the same in each round and each instance, so it is computed once; of the
first there is one number an instance. Kernels are interpreted by the thousand loads, and with
whole coordinates four fifths of the time went into them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from minicc.ir import affine
from minicc.ir.affine import Dim
from minicc.ir.core import Array
from minicc.ir.types import BufferType, TensorType, static_shape


class Coordinate(NamedTuple):
    """One coordinate of a tile's elements: an expression of the indices, and a number a place.

    `least` and `most` are the smallest and the greatest of these numbers.
    """

    indices: Dim
    places: Array
    least: int
    most: int

    def first(self, binding: Mapping[str, Any]) -> Any:
        """What the indices give: a number, or an array of one for each instance."""
        found = affine.evaluate(self.indices, binding)
        return found if found.__class__ is int or found.ndim else int(found)


class Address:
    """The coordinates of a tile's elements as sums."""

    __slots__ = ("_offsets", "coordinates", "rank")

    def __init__(self, coordinates: Sequence[Coordinate], rank: int) -> None:
        self.coordinates = tuple(coordinates)
        self.rank = rank
        self._offsets: dict[tuple[int, ...], Array] = {}

    def offsets(self, strides: tuple[int, ...]) -> Array:
        """How far the elements lie from where their instance begins, broadcastable to the tile."""
        found = self._offsets.get(strides)
        if found is None:
            found = np.zeros((1,) * (self.rank + 1), np.int64)
            for coordinate, stride in zip(self.coordinates, strides, strict=True):
                found = found + coordinate.places * stride
            self._offsets[strides] = found
        return found


def address_of(at: tuple[Dim, ...], shape: tuple[int, ...]) -> Address | None:
    """None where a coordinate is no such sum, or the tile is empty."""
    if 0 in shape:
        return None
    binding = {f"t{k}": places for k, places in enumerate(_places(shape))}
    found: list[Coordinate] = []
    for expression in at:
        split = _split(expression, binding.keys())
        if split is None:
            return None
        of_indices, of_tile = split
        places = np.asarray(affine.evaluate(of_tile, binding), np.int64)
        places = places + np.zeros((1,) * (len(shape) + 1), np.int64)
        found.append(Coordinate(of_indices, places, int(places.min()), int(places.max())))
    return Address(found, len(shape))


class Memory:
    """A buffer while interpreting: `flat` has the shape (instances or 1, elements).

    `base` is an element offset.
    """

    __slots__ = ("base", "flat", "type")

    def __init__(self, flat: Array, type: BufferType, base: int = 0) -> None:
        self.flat = flat
        self.type = type
        self.base = base

    def view(self) -> Array:
        """The buffer of a single owner as an n-d array that shares its memory."""
        item = self.flat.itemsize
        strides = [s * item for s in static_shape(self.type.strides)]
        return np.lib.stride_tricks.as_strided(
            self.flat[0, self.base :], self.type.extents, strides
        )

    def locate(self, address: Address, indices: tuple[Any, ...]) -> Array:
        """Element numbers of a tile, an array that broadcasts to (batch, *tile).

        IndexError outside the extents.
        """
        binding = {f"i{k}": v for k, v in enumerate(indices)}
        strides = static_shape(self.type.strides)
        start: Any = self.base
        for axis, c in enumerate(address.coordinates):
            first = c.first(binding)
            low, high = (first, first) if first.__class__ is int else (first.min(), first.max())
            if low + c.least < 0 or high + c.most >= self.type.extents[axis]:
                raise self._outside(low + c.least, high + c.most, axis)
            start = start + first * strides[axis]
        if start.__class__ is not int:
            start = start.reshape((-1,) + (1,) * address.rank)
        offsets: Array = address.offsets(strides) + start
        return offsets

    def number(self, coordinates: list[Array]) -> Array:
        """The same for coordinates, each of which broadcasts to (batch, *tile)."""
        position: Array = np.full((1,) * coordinates[0].ndim, self.base, np.int64)
        for axis, (c, extent, stride) in enumerate(
            zip(coordinates, self.type.extents, self.type.strides, strict=True)
        ):
            if c.size and (c.min() < 0 or c.max() >= extent):
                raise self._outside(c.min(), c.max(), axis)
            position = position + c * stride
        return position

    def _outside(self, low: int, high: int, axis: int) -> IndexError:
        return IndexError(f"coordinate {low}..{high} leaves axis {axis} of {self.type}")


def undefined(type: TensorType | BufferType) -> Array:
    """Memory for one owner that nobody has written: what is read of it must show."""
    element = type.dtype
    poison = np.nan if element.is_float else 0 if element.kind == "b" else 85
    count = type.span() if isinstance(type, BufferType) else int(np.prod(type.extents))
    return np.full((1, count), poison, element.numpy)


def tile_coordinates(
    at: tuple[Dim, ...], indices: tuple[Any, ...], shape: tuple[int, ...]
) -> list[Array]:
    """The buffer coordinates that a load or store touches, each broadcastable to (batch, *tile)."""
    rank = len(shape)
    binding: dict[str, Any] = {f"t{k}": places for k, places in enumerate(_places(shape))}
    for k, v in enumerate(indices):
        binding[f"i{k}"] = np.asarray(v, np.int64).reshape((-1,) + (1,) * rank)
    zero = np.zeros((1,) * (rank + 1), np.int64)
    return [np.asarray(affine.evaluate(e, binding), np.int64) + zero for e in at]


def _places(shape: tuple[int, ...]) -> list[Array]:
    """The numbers from 0 on along each axis of a tile, each broadcastable to (batch, *tile)."""
    rank = len(shape)
    return [
        np.arange(n, dtype=np.int64).reshape((1,) * (k + 1) + (-1,) + (1,) * (rank - k - 1))
        for k, n in enumerate(shape)
    ]


def _split(expression: Dim, tile: Any) -> tuple[Dim, Dim] | None:
    """An expression as a sum of one without the tile's symbols and one of them alone."""
    if isinstance(expression, int):
        return expression, 0
    of_indices: Dim = expression.const
    of_tile: Dim = 0
    for monomial, coefficient in expression.terms:
        part = affine.build_sum({monomial: coefficient}, 0)
        names = affine.symbols(part)
        if names <= tile:
            of_tile = affine.add(of_tile, part)
        elif names.isdisjoint(tile):
            of_indices = affine.add(of_indices, part)
        else:
            return None
    return of_indices, of_tile
