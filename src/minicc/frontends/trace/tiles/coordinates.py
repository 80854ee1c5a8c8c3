"""Where the elements of a tile are: `tl.arange`, and masks that come of comparing it.

Both are expressions over the tile's axes `t0, t1, ...`. A mask of which each row is true up to some
element costs no comparison of integers, and a load or store takes it as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.frontends.trace.tiles.numbers import combined, dim_of, is_number, number
from minicc.frontends.trace.tiles.recording import current
from minicc.frontends.trace.tiles.tile import Shape, Tile, concatenate, emitted
from minicc.ir import affine, affine_facts, arith, kernel
from minicc.ir.affine import Dim
from minicc.ir.core import Value
from minicc.ir.types import BOOL, I64, TensorType

_ORDERS = ("less", "less_equal", "greater", "greater_equal")
_SUMS = ("add", "subtract", "multiply", "floor_divide", "remainder")


class Coordinates(Tile):
    """A tile of i64 whose elements are an expression of their places."""

    __slots__ = ("dim",)

    def __init__(self, dim: Dim, shape: Shape) -> None:
        super().__init__(None, None, TensorType(I64, shape))
        self.dim = dim

    @property
    def value(self) -> Value:
        values, (at,) = current().addressed([self.dim])
        return current().emit(kernel.Coordinate, values, value=at, shape=self.shape)

    def __getitem__(self, key: Any) -> Tile:
        keys = key if isinstance(key, tuple) else (key,)
        full = [k for k in keys if k == slice(None)]
        if len(full) != self.ndim or any(k is not None and k != slice(None) for k in keys):
            return super().__getitem__(key)
        places = [k for k, item in enumerate(keys) if item is not None]
        shape = [1] * len(keys)
        for old, new in enumerate(places):
            shape[new] = self.shape[old]
        moved = {f"t{old}": affine.symbol(f"t{new}") for old, new in enumerate(places)}
        return Coordinates(affine.substitute(self.dim, moved), tuple(shape))

    def placed(self, ufunc: str, other: Any) -> Tile | None:
        """Sums with numbers and coordinates are coordinates again, and comparisons masks."""
        if not (is_number(other) or isinstance(other, Coordinates)):
            return None
        rank = max(self.ndim, other.ndim if isinstance(other, Coordinates) else 0)
        shape, mine = _lifted(self, rank)
        theirs: Dim
        if isinstance(other, Coordinates):
            beside, theirs = _lifted(other, rank)
            shape = np.broadcast_shapes(shape, beside)
        else:
            theirs = dim_of(other)
        if ufunc in _SUMS:
            if ufunc not in ("add", "subtract") and affine.symbols(theirs):
                return None
            return Coordinates(dim_of(combined(ufunc, number(mine), number(theirs))), shape)
        if ufunc not in _ORDERS:
            return None
        before = mine - theirs if ufunc.startswith("less") else theirs - mine
        return _mask(before - (ufunc.endswith("equal")), shape)


def _lifted(x: Coordinates, rank: int) -> tuple[Shape, Dim]:
    """The shape and expression with so many axes, new ones first."""
    new = rank - x.ndim
    moved = {f"t{k}": affine.symbol(f"t{k + new}") for k in range(x.ndim)}
    return (1,) * new + x.shape, affine.substitute(x.dim, moved)


class Mask(Tile):
    """A tile of booleans that are true for elements before `within` along the last axis.

    That may depend on the places along other axes.
    """

    __slots__ = ("within",)

    def __init__(self, within: Dim, shape: Shape) -> None:
        super().__init__(None, None, TensorType(BOOL, shape))
        self.within = within

    @property
    def value(self) -> Value:
        return self._rows((), self.within).value

    def _rows(self, before: tuple[int, ...], within: Dim) -> Tile:
        axis, rest = len(before), self.shape[len(before) :]
        if not affine.symbols(within) & {f"t{k}" for k in range(self.ndim)}:
            values, (at,) = current().addressed([within])
            shape = (1,) * axis + rest
            return emitted(kernel.Mask, values, within=at, shape=shape)
        at_each = [
            self._rows((*before, k), affine.substitute(within, {f"t{axis}": k}))
            for k in range(rest[0])
        ]
        return concatenate(at_each, axis=axis)


def _mask(below: Dim, shape: Shape) -> Tile | None:
    """Where an expression is negative; None where that is no mask or the negation of one."""
    last = f"t{len(shape) - 1}"
    split = affine_facts.linear(below, (last,))
    if split is None or not shape:
        return None
    step, rest = split[0].get(last, 0), split[1]
    if step == 1:
        return Mask(-rest, shape)
    if step == -1:  # t > rest is not t < rest + 1
        return emitted(arith.Not, Mask(rest + 1, shape).value)
    return None
