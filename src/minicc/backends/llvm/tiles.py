"""Tiles as machine vectors: how a static n-d tile is split into SSA vectors of the target.

The last axis is cut into chunks of the target's width, and what is left over (43 floats in
registers of 16 are 16 + 16 + 11, the last in a register that it does not fill). Every index of the
leading axes has its own chunks. A tile whose last extent is 1 is held as scalars, which are
repeated ("splat") where a wider operand meets them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from math import prod

from minicc.backends.llvm.writer import Vec, Writer
from minicc.ir.types import STORED, DType, TensorType

ELEMENT = {
    # computed with as f32, see `narrow`
    "f16": "i16",
    "bf16": "i16",
    "f32": "float",
    "f64": "double",
    "i8": "i8",
    "i16": "i16",
    "i32": "i32",
    "i64": "i64",
    "u8": "i8",
    "u16": "i16",
    "u32": "i32",
    "u64": "i64",
    "bool": "i1",
    "index": "i64",
    # held in a byte each, see `narrow`
    **{d.name: "i8" for d in STORED},
}


def memory_element(dtype: DType) -> str:
    """The LLVM type of one element in memory; a boolean takes a byte."""
    return "i8" if dtype.kind == "b" else ELEMENT[dtype.name]


@lru_cache(4096)
def split_axis(extent: int, lanes: int) -> tuple[tuple[int, int], ...]:
    """Chunks (start, width) of an axis: as many of `lanes` as fit, then what is left over."""
    return tuple((start, min(lanes, extent - start)) for start in range(0, extent, lanes))


@lru_cache(4096)
def powers_of_two(extent: int, most: int) -> tuple[tuple[int, int], ...]:
    """Chunks (start, width) of an axis for who takes halves of them.

    As many of `most` as fit, which is a power of two, then descending ones.
    """
    chunks: list[tuple[int, int]] = []
    start, width = 0, most
    while start < extent:
        while width > extent - start:
            width //= 2
        chunks.append((start, width))
        start += width
    return tuple(chunks)


@lru_cache(4096)
def leading_map(source: tuple[int, ...], target: tuple[int, ...]) -> tuple[int, ...]:
    """For each leading index of `target` in row-major order.

    The leading index of `source` that it repeats.
    """
    positions = [0]
    for n, m in zip(source[:-1], target[:-1], strict=True):
        step = 0 if n == 1 and m > 1 else 1
        positions = [p * n + k * step for p in positions for k in range(m)]
    return tuple(positions)


class Tile:
    """The vectors of a tile: `parts[leading * chunks + chunk]`.

    A part may be made when first asked for.
    """

    __slots__ = ("_splats", "chunks", "dtype", "make", "parts", "shape")

    def __init__(
        self,
        type: TensorType,
        lanes: int,
        parts: list[str | None],
        make: Callable[[int], str] | None = None,
    ) -> None:
        self.dtype = type.dtype
        self.shape = type.extents or (1,)
        self.chunks = split_axis(self.shape[-1], lanes)
        self.parts = parts
        self.make = make
        self._splats: dict[tuple[int, int], str] = {}

    @property
    def leading(self) -> int:
        """How many indices the axes before the last have together."""
        return prod(self.shape[:-1])

    def part(self, number: int) -> str:
        """The SSA name of one vector."""
        name = self.parts[number]
        if name is None:
            assert self.make is not None
            name = self.parts[number] = self.make(number)
        return name

    def all_parts(self) -> list[str]:
        """All vectors, in order."""
        return [self.part(k) for k in range(len(self.parts))]

    def vec(self, width: int) -> Vec:
        """The LLVM vector type of a chunk of that width."""
        return Vec(width, ELEMENT[self.dtype.name])

    def get(self, w: Writer, leading: int, chunk: int, width: int) -> str:
        """The vector at a leading index and chunk.

        Repeated to `width` lanes where the last extent is 1.
        """
        if self.shape[-1] != 1:
            return self.part(leading * len(self.chunks) + chunk)
        scalar = self.part(leading)
        if width == 1:
            return scalar
        found = self._splats.get((leading, width))
        if found is None:
            found = self._splats[leading, width] = splat(w, self.vec(width), scalar)
            w.kept.append(partial(self._splats.pop, (leading, width)))
        return found


def splat(w: Writer, t: Vec, scalar: str) -> str:
    """A vector with `scalar`, an SSA name or constant of the element type, in every lane."""
    if t.lanes == 1:
        return scalar
    if not scalar.startswith("%"):
        return f"splat ({t.element} {scalar})"
    first = w.inst(f"insertelement {t} poison, {t.element} {scalar}, i32 0")
    return w.inst(f"shufflevector {t} {first}, {t} poison, <{t.lanes} x i32> zeroinitializer")


def gathered(w: Writer, t: Vec, scalars: Sequence[str]) -> str:
    """A vector of scalars, one a lane."""
    if t.lanes == 1:
        return scalars[0]
    out = "poison"
    for k, scalar in enumerate(scalars):
        out = w.inst(f"insertelement {t} {out}, {t.element} {scalar}, i32 {k}")
    return out
