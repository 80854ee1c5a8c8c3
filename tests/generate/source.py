"""Random choices and arrays, all from one seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]
T = TypeVar("T")

F16, F32, F64, BF16 = (np.dtype(t) for t in ("f2", "f4", "f8", ml_dtypes.bfloat16))
I8, I16, I32, I64 = (np.dtype(t) for t in ("i1", "i2", "i4", "i8"))
U8, U16, U32, U64 = (np.dtype(t) for t in ("u1", "u2", "u4", "u8"))
BOOL = np.dtype(bool)

FLOATS = (F32, F32, F32, F64, F16)
SIGNED = (I8, I16, I32, I64)
UNSIGNED = (U8, U16, U32, U64)
INTEGERS = SIGNED + UNSIGNED
NUMBERS = (F32, F32, F32, F64, F16, I32, I64, I8, U8)
ANY = (*NUMBERS, BOOL, I16, U16, U32, U64)

_SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-3)


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether it is a type of floats, ml_dtypes' too."""
    return dtype.kind == "f" or dtype == BF16


class Source:
    """Draws everything that a model is made of; equal seeds give equal models."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self.rng.integers(len(options)))]

    def count(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both of them possible."""
        return int(self.rng.integers(low, high + 1))

    def extent(self, least: int = 0) -> int:
        """The size of a dimension: mostly small, at times none or many."""
        if self.chance(0.04):
            return max(least, 0)
        if self.chance(0.03):
            return self.pick((17, 40, 64, 130))
        return max(least, self.pick((1, 1, 2, 3, 4, 5)))

    def shape(self, rank: int | None = None, least: int = 0) -> tuple[int, ...]:
        rank = self.pick((0, 1, 1, 2, 2, 3, 3, 4)) if rank is None else rank
        extents = [self.extent(least) for _ in range(rank)]
        while np.prod(np.maximum(extents, 1)) > 40_000:
            extents[int(np.argmax(extents))] = 2
        return tuple(extents)

    def axis(self, rank: int) -> int:
        """An axis, counted from either end."""
        return int(self.rng.integers(-rank, rank))

    def subset(self, count: int) -> list[int]:
        """Some of the numbers below `count`, at least one, sorted."""
        chosen = self.rng.permutation(count)[: self.count(1, count)]
        return sorted(int(k) for k in chosen)

    def signs(self, axes: Sequence[int], rank: int) -> list[int]:
        """Axes, some of them counted from the end."""
        return [a - rank if self.chance(0.3) else a for a in axes]

    def array(
        self,
        shape: Sequence[int],
        dtype: np.dtype[Any] = F32,
        low: float = -3,
        high: float = 3,
        special: float = 0.12,
    ) -> Array:
        """Values between the bounds; with a probability NaN and infinities, or whole ranges."""
        shape = tuple(shape)
        if dtype == BOOL:
            return np.asarray(self.rng.random(shape) < 0.5)
        if dtype.kind in "iu":
            most = np.iinfo(dtype)
            if self.chance(special):
                whole = self.rng.integers(most.min, most.max, shape, dtype, endpoint=True)
            else:
                least = max(int(low), int(most.min))
                whole = np.asarray(self.rng.integers(least, int(high) + 4, shape))
            return np.asarray(whole, dtype)
        drawn = np.asarray(self.rng.uniform(low, high, shape))
        if self.chance(0.3):
            drawn = np.asarray(np.round(drawn))
        if self.chance(special):
            mask = self.rng.random(shape) < 0.25
            drawn = np.where(mask, self.rng.choice(_SPECIAL, shape), drawn)
        return np.asarray(drawn.astype(dtype))
